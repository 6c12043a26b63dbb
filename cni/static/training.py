"""Runs the shim on an instrumented Python, so that the compiler learns what its calls need.

The profile steers layout and inlining, nothing else: one of an older shim is nearly as good.
"""

from __future__ import annotations

import json
import marshal
import subprocess
from pathlib import Path

from cni.bytecode import blob
from cni.static.errors import StaticError
from cni.static.executable import assemble

_ROUNDS = 3

# The shim leaves by a system call, past the exit handler that writes the profile.
_PROGRAM = """\
import posix, marshal
class Left(BaseException):
    pass
def leave(code):
    raise Left
posix._exit = leave
try:
    exec(marshal.loads({shim!r}), {{"start": start}})
except Left:
    pass
"""


def train(gathered: Path, build: Path, work: Path) -> None:
    """Leave the profile of some calls in the build folder. Raises StaticError."""
    # The programs that make ran were instrumented as well.
    for left in build.rglob("*.gcda"):
        left.unlink()
    source = _PROGRAM.format(shim=blob())
    program = marshal.dumps(compile(source, "training", "exec", dont_inherit=True, optimize=2))
    executable = assemble(gathered, program, work, instrumented=True)
    environment = {
        "CNI_CONTAINERID": "c1",
        "CNI_NETNS": "/none",
        "CNI_IFNAME": "net1",
        "CNI_ARGS": "K8S_POD_NAMESPACE=default;K8S_POD_NAME=one",
        "NODENAME": "n1",
    }
    shown = b""
    for _ in range(_ROUNDS):
        for verb in ("VERSION", "ADD", "DEL"):
            done = subprocess.run(
                [executable],
                input=json.dumps(_network(work)).encode(),
                env={**environment, "CNI_COMMAND": verb},
                capture_output=True,
                check=False,
            )
            shown = done.stdout + done.stderr
    if not any(build.rglob("*.gcda")):
        raise StaticError(f"the instrumented executable left no profile: {shown.decode()}")


def _network(work: Path) -> dict[str, object]:
    """Return a configuration whose API server refuses connections: all of Python's part is run."""
    kubeconfig = work / "kubeconfig"
    cluster = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    named = {"contexts": {"cluster": "a", "user": "a", "namespace": "a"}, "clusters": cluster}
    named["users"] = {"token": "none"}
    parts = {key: [{"name": "a", key[:-1]: value}] for key, value in named.items()}
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "current-context": "a", **parts}))
    return {
        "cniVersion": "1.0.0",
        "name": "training",
        "type": "macvlan",
        "ipam": {
            "type": "whereabouts",
            "range": "10.40.0.0/16",
            "node_slice_size": "/26",
            "kubernetes": {"kubeconfig": str(kubeconfig)},
            "hints_dir": str(work / "hints"),
            "add_deadline_seconds": 0.5,
            "del_deadline_seconds": 0.5,
        },
    }
