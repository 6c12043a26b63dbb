"""Builds etcd and kube-apiserver from the Go module beside this file, into the tool cache."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from hack.cluster.locks import locked
from hack.cluster.progress import Progress
from hack.cluster.tools import ASSETS, MODULE, Tools, ToolsError, Versions, cache_folder, find

_APISERVER = "k8s.io/kubernetes/cmd/kube-apiserver"
_ETCD = "go.etcd.io/etcd/server/v3"


def say(line: str) -> None:
    """Print a progress line."""
    print(line, file=sys.stderr, flush=True)


def find_or_build(environ: Mapping[str, str] = os.environ) -> Tools:
    """Return the tools, building them when needed, with progress on standard error.

    Raises ToolsError.
    """
    return find(environ) or build(environ)


def build(environ: Mapping[str, str] = os.environ) -> Tools:
    """Build what the cache lacks and return it; a second builder waits for the first.

    The cache folder appears complete or not at all: it is filled under another name and renamed.
    Raises ToolsError.
    """
    versions = Versions.wanted()
    cache = cache_folder(environ)
    go = _go(environ, versions)
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolsError(
            f"cannot make the tool cache {cache} ({error.strerror}): set XDG_CACHE_HOME to a "
            f"folder that can be written, or {ASSETS} to one that has etcd and kube-apiserver"
        ) from error
    lock = cache / f"{versions.key}.lock"
    with locked(lock, lambda: say("tools: another process is building them, waiting for it")):
        found = find(environ)
        if found is not None:
            return found
        target = cache / versions.key
        prefix = f".{versions.key}."
        # We hold the lock, so these are what killed builders left.
        for left in cache.glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)
        filling = Path(tempfile.mkdtemp(prefix=prefix, dir=cache))
        try:
            _fill(Tools(filling), versions, go, environ)
            shutil.rmtree(target, ignore_errors=True)
            filling.chmod(0o755)
            filling.rename(target)
        finally:
            shutil.rmtree(filling, ignore_errors=True)
        say(f"tools: ready in {target}")
        return Tools(target)


def _go(environ: Mapping[str, str], versions: Versions) -> str:
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise ToolsError(
            f"etcd {versions.etcd} and kube-apiserver {versions.kubernetes} are neither in "
            f"{ASSETS} nor in {cache_folder(environ)}, and there is no Go on PATH to build them: "
            f"install Go 1.26 or later (https://go.dev/dl), or set {ASSETS} to a folder that has "
            "both programs"
        )
    return go


def _fill(tools: Tools, versions: Versions, go: str, environ: Mapping[str, str]) -> None:
    say(
        f"tools: building etcd {versions.etcd} and kube-apiserver {versions.kubernetes} once, "
        "into the tool cache (about 7 minutes on two cores)"
    )
    _go_build(go, "etcd", _ETCD, tools.etcd, "-s -w", environ)
    _go_build(
        go, "kube-apiserver", _APISERVER, tools.apiserver, _apiserver_flags(versions), environ
    )
    for tool, version in ((tools.etcd, versions.etcd), (tools.apiserver, versions.kubernetes)):
        _check(tool, version)
        _write_through(tool)


def _apiserver_flags(versions: Versions) -> str:
    """Return linker flags that tell kube-apiserver its version, as its own build does.

    Source: k8s.io/component-base/version/base.go. Without them it calls itself v0.0.0-master and
    compares feature gates with that.
    """
    major, minor, _ = versions.kubernetes.removeprefix("v").split(".", 2)
    values = {
        "gitVersion": versions.kubernetes,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    package = "k8s.io/component-base/version"
    return " ".join(["-s", "-w", *(f"-X {package}.{key}={v}" for key, v in values.items())])


def _go_build(
    go: str, name: str, package: str, target: Path, flags: str, environ: Mapping[str, str]
) -> None:
    command = [go, "build", "-v", "-trimpath", "-ldflags", flags, "-o", str(target), package]
    # Our module alone decides what is built, wherever the checkout lies.
    flags_of_user = environ.get("GOFLAGS", "")
    own = {
        **environ,
        "GOWORK": "off",
        "GOFLAGS": f"{flags_of_user} -mod=readonly -buildvcs=false".strip(),
    }
    begin = time.monotonic()
    process = subprocess.Popen(
        command, cwd=MODULE, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    with process, Progress(name, say) as progress:
        assert process.stderr is not None
        for line in process.stderr:
            progress.take(line.rstrip("\n"))
    if process.returncode != 0:
        raise ToolsError(
            f"building {name} failed ({' '.join(command)} in {MODULE}):\n{progress.errors()}\n"
            f"Building needs Go 1.26, 2 GB of memory and the Go module proxy (GOPROXY). Or set "
            f"{ASSETS} to a folder that has etcd and kube-apiserver"
        )
    say(f"tools: built {name} in {time.monotonic() - begin:.0f} s")


def _check(tool: Path, version: str) -> None:
    printed = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    if version.removeprefix("v") not in printed.stdout:
        raise ToolsError(
            f"the {tool.name} just built says {printed.stdout!r} {printed.stderr!r} when asked for "
            f"its version, not {version}: look at GOFLAGS and at {MODULE / 'go.mod'}"
        )


def _write_through(tool: Path) -> None:
    """Have the disk hold the file before its folder is renamed: a power cut must not empty it."""
    descriptor = os.open(tool, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
