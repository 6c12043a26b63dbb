"""How fast is the shim beside whereabouts, beside its own bare interpreter and beside plain steps?

Asks the questions in `benchmarks.shim` of one API server: the folder, the static form where
`make shim-static` has compiled its parts, and the binary that WHEREABOUTS_BIN names take turns.
Writes build/bench/shim.json and prints the ratios; without that binary the comparison is not run.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.shim import breakdown, burst, calls, memory, requests
from benchmarks.shim.plugin import Plugin
from benchmarks.shim.population import FEW, MANY, PODS_PER_NODE
from benchmarks.timing import ratio
from cni import build
from cni.static import link
from cni.version import VERSION
from hack.cluster.server import Cluster

RESULT = Path("build/bench/shim.json")
MEMORY = Path("/dev/shm")  # where hints are on nodes, too: below /run
FOLDER, STATIC, THEIRS = "folder", "static", "whereabouts"
# What the project promises: figure -> form -> how often ours goes into whereabouts' at least.
AIMS: dict[str, dict[str, float]] = {
    f"{FEW} nodes, slices, ADD": {FOLDER: 2.5, STATIC: 3.5},
    f"{FEW} nodes, slices, VERSION": {FOLDER: 1 / 0.7, STATIC: 1 / 0.4},
    f"{MANY} nodes, slices, ADD": {FOLDER: 40, STATIC: 40},
    "burst, slices, 1 node, per s": {FOLDER: 5, STATIC: 5},
    f"burst, slices, {FEW} nodes, per s": {FOLDER: 3, STATIC: 3},
    "memory, ADD": {FOLDER: 3, STATIC: 3},
}


def measure(cluster: Cluster, folder: Path, nodes: Path, binary: Path | None) -> dict[str, Any]:
    """Ask all questions once; executables go to `folder`, what the nodes keep to `nodes`."""
    found = link.ready()

    def make(form: str, first: str = "") -> Path:
        target = folder / f"{form}{'-plain' * bool(first)}"
        if form == FOLDER:
            return build.build(target, first=first)
        assert found is not None
        return link.link(found, target, first=first)

    forms = [FOLDER] if found is None else [FOLDER, STATIC]
    ours = [Plugin(form, make(form), cluster, nodes) for form in forms]
    plugins = list(ours)
    if binary is not None:
        plugins.append(Plugin(THEIRS, binary, cluster, nodes, ours=False))
    figures: dict[str, Mapping[str, float]] = {}
    for what, values in calls.measure(plugins).items():
        figures[f"{FEW} nodes, {what}"] = values
    sent = requests.measure(plugins, cluster)
    parts = breakdown.measure(ours, cluster, make)
    figures["memory"] = memory.measure(plugins)
    for what, values in burst.measure(plugins).items():
        figures[f"burst, {what}"] = values
    for plugin in plugins:
        plugin.population.grow()
    for what, values in calls.among_many(plugins).items():
        figures[f"{MANY} nodes, {what}"] = values
    return {"figures": figures, "parts of an ADD": parts, "requests": sent}


def ratios(result: Mapping[str, Any]) -> dict[str, float | None]:
    """Return everything as ratios: whereabouts' figure by ours, and an ADD by its plain steps."""
    found: dict[str, float | None] = {}
    for form, parts in result["parts of an ADD"].items():
        found[f"{form}: ADD / bare interpreter"] = ratio(parts["ADD"], parts["process start"])
        found[f"{form}: ADD / plain steps"] = ratio(parts["ADD"], parts["the plain steps"])
    for question, values in result["figures"].items():
        for name, ours in values.items():
            form, _, what = name.partition(" ")
            if form != THEIRS:
                theirs = values.get(f"{THEIRS} {what}")
                # A rate is the better the higher it is.
                pair = (ours, theirs) if what == "per s" else (theirs, ours)
                found[f"{question}, {what}: {THEIRS} / {form}"] = ratio(*pair)
    return found


def show(result: Mapping[str, Any]) -> str:
    """Return the ratios and the parts of an ADD as text."""
    lines = []
    for name, value in result["ratios"].items():
        question, _, pair = name.partition(": ")
        aim = AIMS.get(question, {}).get(pair.rpartition(" ")[2])
        shown = "not run" if value is None else f"{value:.2f}"
        lines.append(f"{name:66}{shown:>8}{f'  aim {aim:.2f}' if aim else ''}")
    for form, parts in result["parts of an ADD"].items():
        told = ", ".join(f"{part} {ms:.1f}" for part, ms in parts.items())
        lines.append(f"{form}, ms: {told}")
    return "\n".join(lines)


def main() -> None:
    """Measure, write the result down and print it."""
    named = os.environ.get("WHEREABOUTS_BIN")
    binary = Path(named).resolve() if named else None
    with (
        Cluster.start() as cluster,
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as nodes,
    ):
        result = measure(cluster, Path(folder), Path(nodes), binary)
    result["ratios"] = ratios(result)
    result["machine"] = {"cpus": os.cpu_count(), "python": platform.python_version()}
    result["of"] = {"shim": VERSION, "pods per node": PODS_PER_NODE, "rounds": calls.ROUNDS}
    result["whereabouts"] = "not run" if binary is None else "run"
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(show(result))
    if binary is None:
        print("whereabouts: not run, for WHEREABOUTS_BIN names no binary of it")


if __name__ == "__main__":
    main()
