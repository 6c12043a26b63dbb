"""Command line: `python -m cni.static FOLDER` puts the static executable there."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cni.static.base import find_or_make
from cni.static.errors import StaticError
from cni.static.link import link, ready


def main(arguments: list[str] | None = None) -> int:
    """Build; 0 when it succeeded, 1 when it failed."""
    parser = argparse.ArgumentParser(
        prog="python -m cni.static",
        description="Builds the shim as one static executable, of Debian's sources.",
    )
    parser.add_argument("folder", type=Path, help="where the executable `whereabouts` shall be")
    parser.add_argument(
        "--update", action="store_true", help="look for newer sources of Python and OpenSSL"
    )
    parser.add_argument(
        "--cached",
        action="store_true",
        help="do nothing where Python and OpenSSL would have to be compiled first",
    )
    parser.add_argument(
        "--full-start",
        action="store_true",
        help="start Python by its public interface (slower: for a Python that core-only start "
        "does not fit)",
    )
    options = parser.parse_args(arguments)
    if options.cached and ready() is None:
        return 0
    try:
        base = find_or_make(update=options.update)
        path = link(base, options.folder, full_start=options.full_start)
    except (StaticError, OSError) as error:
        sys.stderr.write(f"shim-static: {error}\n")
        return 1
    parts = ", ".join(f"{entry['name']} {entry['version']}" for entry in base.record)
    sys.stdout.write(f"{path}: {path.stat().st_size / 1e6:.1f} MB, with {parts}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
