"""Makes the executable that is a script, which starts a copy of the interpreter beside it.

It needs no compiler, and takes longer to start: a shell, then the whole start of Python.
"""

from __future__ import annotations

from pathlib import Path

from cni.folder.elf import Elf
from cni.folder.interpreter import Interpreter

_START = Path(__file__).with_name("start.sh")

# Goes before the program, and gives it what the linked executable would.
PROLOGUE = """\
import time
start = time.monotonic()
folder = __file__[:-len("lib/whereabouts.pyc")]
"""


def lay_out(parts: Interpreter, program: bytes) -> dict[str, bytes]:
    """Return script, interpreter and program, by their place in the folder.

    program: marshalled code that begins with PROLOGUE.
    """
    files = {
        "whereabouts": _START.read_bytes(),
        "lib/python": Elf(parts.executable.read_bytes()).movable(),
        "lib/whereabouts.pyc": parts.header + program,
        # Where this is, the interpreter takes its library to be. The real one is frozen into it.
        f"{parts.library}/os.py": b"",
    }
    for name, code in parts.at_start.items():
        package, _, leaf = name.partition(".")
        files[f"{parts.library}/{package}/{leaf or '__init__'}.pyc"] = code
    return files
