"""Command line: `python -m hack.cluster tools|up|down`."""

import argparse
import sys
from pathlib import Path

from hack.cluster.build import find_or_build
from hack.cluster.server import ClusterError
from hack.cluster.standing import DEFAULT_FOLDER, StandingError, down, up
from hack.cluster.tools import ToolsError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 when it succeeded, 1 when it failed."""
    parser = argparse.ArgumentParser(
        prog="python -m hack.cluster",
        description="A real etcd and kube-apiserver on loopback.",
        epilog="Example: python -m hack.cluster up && "
        "kubectl --kubeconfig .cluster/kubeconfig get nodes",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tools", help="find or build etcd and kube-apiserver; print their folder")
    for name, text in (
        ("up", "start a cluster that stays, or find the one that runs; write its kubeconfig"),
        ("down", "end what `up` started and remove its data"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "--folder", type=Path, default=DEFAULT_FOLDER, help="default: .cluster"
        )
    options = parser.parse_args(arguments)
    try:
        if options.command == "tools":
            print(find_or_build().folder)
        elif options.command == "up":
            print(f"export KUBECONFIG={up(options.folder)}")
        else:
            for line in down(options.folder):
                print(line)
    except (ToolsError, ClusterError, StandingError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
