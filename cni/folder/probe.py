"""Run by the interpreter in question, with the names of modules, it says what these are made of.

Prints one JSON object, which `interpreter` reads.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader, PathFinder

# What an interpreter imports at its start, besides what is frozen into it, when told to use UTF-8.
_AT_START = ("encodings", "encodings.aliases", "encodings.utf_8")


def extensions(names: list[str]) -> dict[str, str]:
    """Import those modules that are shared objects; return them and those that they import."""
    for name in names:
        spec = None if name in sys.builtin_module_names else PathFinder.find_spec(name)
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
            __import__(name)
    specs = {name: getattr(module, "__spec__", None) for name, module in sys.modules.items()}
    return {
        name: str(spec.origin)
        for name, spec in specs.items()
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader)
    }


def mapped() -> list[str]:
    """Return the files of which this process executes code: the interpreter and all libraries."""
    with open("/proc/self/maps") as maps:
        fields = [line.rstrip("\n").split(None, 5) for line in maps]
    paths = {field[5] for field in fields if len(field) == 6 and "x" in field[1]}
    return sorted(path for path in paths if path.startswith("/"))


def rest() -> dict[str, object]:
    """Return what is found by means of modules that would have counted above."""
    import _imp
    import marshal
    import sysconfig
    from importlib.util import MAGIC_NUMBER

    header = MAGIC_NUMBER + bytes(12)
    at_start = {}
    for name in _AT_START:
        with open(str(sys.modules[name].__file__), "rb") as file:
            code = compile(file.read(), f"<{name}>", "exec", optimize=2)
        at_start[name] = (header + marshal.dumps(code)).hex()
    known = sysconfig.get_config_var
    return {
        "version": "{}.{}".format(*sys.version_info),
        "built_in": sys.builtin_module_names,
        "bootstrap": marshal.dumps(_imp.get_frozen_object("_frozen_importlib")).hex(),
        "header": header.hex(),
        "at_start": at_start,
        "include": known("INCLUDEPY"),
        "archive": f"{known('LIBPL')}/{known('LIBRARY')}",
        "flags": f"{known('MODLIBS')} {known('LIBS')} {known('SYSLIBS')}",
    }


if __name__ == "__main__":
    found = {"extensions": extensions(sys.argv[1:]), "mapped": mapped(), **rest()}
    __import__("json").dump(found, sys.stdout)
