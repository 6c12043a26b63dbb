"""Entry of `make demo`: a temporary cluster, the story, the verdict."""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from pathlib import Path

from hack.cluster.server import Cluster
from hack.demo.screen import heading
from hack.demo.story import Story, Verdict

SHIM = Path(__file__).parents[2] / "build" / "shim" / "whereabouts"


def main() -> int:
    """Tell the story once; 0 when every address was unique and every steady call one request."""
    if not SHIM.exists():
        print(f"demo: {SHIM} is missing: run `make shim` first", file=sys.stderr)
        return 1
    print(heading("A real etcd and kube-apiserver on loopback"))
    with (
        tempfile.TemporaryDirectory(prefix="whereabouts-fast-demo-") as folder,
        Cluster.start() as cluster,
    ):
        print(f"   serving on {cluster.server}, custom resources installed")
        with closing(Story(cluster, Path(folder), SHIM)) as story:
            verdict = story.tell()
    print(heading("Cleaned up: processes ended, temporary folders removed"))
    print(LOOK_FURTHER)
    print(verdict.line())
    return 0 if verdict == Verdict.perfect(verdict.addresses) else 1


LOOK_FURTHER = """
   To look further, each in a terminal of its own:
     make cluster-up         # a cluster that stays; its kubeconfig is .cluster/kubeconfig
     .venv/bin/whereabouts-fast controller --kubeconfig .cluster/kubeconfig --listen 127.0.0.1:8080
     kubectl --kubeconfig .cluster/kubeconfig apply -f hack/cluster/example.yaml
     kubectl --kubeconfig .cluster/kubeconfig get nodeslicepools,ippools -A
     make cluster-down
"""

if __name__ == "__main__":
    sys.exit(main())
