"""Compiles the shim's modules into one blob of bytecode.

`python -m cni.bytecode` prints it, for the interpreter that runs it; `made_by` is the same for
another one. Marshalling shows which strings else live in its process, so only a process of its own
makes the same bytes each time.
"""

from __future__ import annotations

import ast
import marshal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType

_ROOT = Path(__file__).resolve().parents[1]
_ENTRY = "cni.main"

# Runs first inside the blob. The import system's own way costs several times what running a small
# module does, so what a module imports at its top is put in place before it runs; only imports
# inside functions come by the finder. Packages keep a path for the latter. Modules that are needed
# together are unmarshalled together, which is quicker than one by one.
_LOADER = """\
import sys, marshal
Spec = type(sys.__spec__)
Module = type(sys)
loaded = sys.modules
codes = {}
def load(name):
    parent, _, leaf = name.rpartition(".")
    if parent and parent not in loaded:
        load(parent)
    module = loaded[name] = Module(name)
    if parent:
        setattr(loaded[parent], leaf, module)
    run(module, name)
def run(module, name):
    path, needs, group = modules[name]
    if path is not None:
        module.__path__ = path
    for need in needs:
        if need not in loaded:
            load(need)
    if name not in codes:
        codes.update(marshal.loads(groups[group]))
    exec(codes.pop(name), module.__dict__)
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in modules:
            return Spec(name, Finder, is_package=modules[name][0] is not None)
    @staticmethod
    def create_module(spec):
        return None
    @staticmethod
    def exec_module(module):
        run(module, module.__name__)
sys.meta_path.insert(0, Finder)
load("cni.main")
loaded["cni.main"].main(start)
"""


class Module:
    """One module of the shim: its file, its syntax tree, and what it imports of the project.

    `needs` is imported when the module is, `later` by one of its functions.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = _Bare().visit(ast.parse(path.read_bytes()))
        self.needs = _imports(self.tree.body)
        self.later = [name for name in _imports(ast.walk(self.tree)) if name not in self.needs]

    @property
    def is_package(self) -> bool:
        """Whether it is a package's __init__."""
        return self.path.stem == "__init__"

    def code(self) -> CodeType:
        """Return its bytecode, without docstrings and asserts."""
        # Relative names, so that builds are alike on all machines.
        shown = str(self.path.relative_to(_ROOT))
        return compile(self.tree, shown, "exec", dont_inherit=True, optimize=2)


def sources() -> dict[str, Module]:
    """Return the modules that the shim can ever import, by name."""
    return {name: module for group in groups() for name, module in group.items()}


def groups() -> list[dict[str, Module]]:
    """Return the same in groups: each is needed whole as soon as its first one is."""
    done: list[dict[str, Module]] = []
    roots = [_ENTRY]
    for root in roots:
        group: dict[str, Module] = {}
        waiting = [root]
        while waiting:
            name = waiting.pop()
            path = _file(name)
            if path is not None and name not in group and not any(name in g for g in done):
                module = group[name] = Module(path)
                waiting += [name.rpartition(".")[0], *module.needs]
                roots += module.later
        if group:
            done.append(group)
    return done


def _file(name: str) -> Path | None:
    base = _ROOT / name.replace(".", "/")
    candidates = (base / "__init__.py", base.with_suffix(".py")) if name else ()
    return next((path for path in candidates if path.is_file()), None)


def _imports(body: Iterable[ast.AST]) -> list[str]:
    names = []
    for node in body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


class _Bare(ast.NodeTransformer):
    """Drops what only readers and type checkers need, down to the module __future__."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        return None if node.module == "__future__" else node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node.orelse
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        self.generic_visit(node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node


def foreign() -> list[str]:
    """Return the modules that the shim imports and that are not its own."""
    found = sources()
    imported = {name for module in found.values() for name in (*module.needs, *module.later)}
    tops = {name.partition(".")[0] for name in imported}
    return sorted(tops - {name.partition(".")[0] for name in found})


def blob(first: str = "") -> bytes:
    """Return all modules as one marshalled code object that starts the shim.

    first: source that runs before. What starts the blob gives it the moment of its own start, in
    seconds of the monotonic clock, as the global `start`.
    """
    found = groups()
    known = {name for group in found for name in group}
    modules: dict[str, tuple[list[str] | None, tuple[str, ...], int]] = {
        name: (
            [] if module.is_package else None,
            tuple(dict.fromkeys(need for need in module.needs if need in known)),
            number,
        )
        for number, group in enumerate(found)
        for name, module in sorted(group.items())
    }
    code = [
        marshal.dumps({name: module.code() for name, module in sorted(group.items())})
        for group in found
    ]
    text = f"{first}\nmodules = {modules!r}\ngroups = {code!r}\n{_LOADER}"
    return marshal.dumps(compile(text, "launcher", "exec", dont_inherit=True, optimize=2))


def made_by(python: Path, first: str = "") -> bytes:
    """Return what `blob` returns when an interpreter runs it afresh. Raises OSError."""
    done = subprocess.run(
        [python, "-BSE", "-m", "cni.bytecode"],
        cwd=_ROOT,
        input=first.encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise OSError(f"{python} does not compile the shim: {done.stderr.decode(errors='replace')}")
    return done.stdout


if __name__ == "__main__":
    sys.stdout.buffer.write(blob(sys.stdin.read()))
