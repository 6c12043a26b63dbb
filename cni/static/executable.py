"""Makes one file of the launcher, the compiled libraries and a marshalled program."""

from __future__ import annotations

import marshal
from pathlib import Path

from cni.static.commands import output
from cni.static.recipe import ENCODINGS, library_name

_LAUNCHER = Path(__file__).parents[1] / "launcher.c"
# As the recipe compiles them into the library.
_BUILT_IN = "_json _socket _ssl select fcntl binascii math _struct _sha256"
_CFLAGS = ("-O2", "-Wall", "-Werror", "-fno-pie", "-ffunction-sections", "-fdata-sections")
_LDFLAGS = ("-static", "-no-pie", "-s", "-Wl,--gc-sections", "-Wl,--build-id=none")


def assemble(
    gathered: Path,
    program: bytes,
    work: Path,
    *,
    full_start: bool = False,
    instrumented: bool = False,
) -> Path:
    """Link an executable in the folder `work` and return its path.

    gathered: a folder as `recipe.gather` fills it. program: marshalled code, which finds the moment
    of its start as `start`. Raises StaticError.
    """
    (work / "program").write_bytes(program)
    defined = [f'-DSHIM="{work / "program"}"']
    objects = [work / "launcher.o"]
    if full_start:
        defined += ["-DFULL_START", f'-DENCODINGS="{work}"']
        for path in ENCODINGS:
            leaf = path.rpartition("/")[2]
            source = (gathered / "encodings" / f"{leaf}.py").read_text()
            code = compile(source, f"<frozen {path}>", "exec", dont_inherit=True, optimize=2)
            (work / f"{leaf}.marshal").write_bytes(marshal.dumps(code))
    else:
        # Before the library, whose own table is then not taken.
        objects.append(gathered / "lib/tables.o")
        defined.append(f"-DBUILT_IN(X)={' '.join(f'X({name})' for name in _BUILT_IN.split())}")
    include = f"-I{gathered / 'include'}"
    output("gcc", *_CFLAGS, *defined, include, "-c", _LAUNCHER, "-o", objects[0])
    made = work / "whereabouts"
    libraries = [gathered / "lib" / name for name in (library_name(), "libssl.a", "libcrypto.a")]
    profile = ["-fprofile-generate"] if instrumented else []
    output("gcc", *_LDFLAGS, *profile, "-o", made, *objects, *libraries, "-lm")
    return made
