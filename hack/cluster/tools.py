"""Finds etcd and kube-apiserver: in KUBEBUILDER_ASSETS, then in the tool cache."""

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MODULE = Path(__file__).parent
ASSETS = "KUBEBUILDER_ASSETS"


class ToolsError(Exception):
    """The tools can be neither found nor made; the message names the remedies."""


@dataclass(frozen=True)
class Versions:
    """The versions that the Go module beside this file asks for, with their leading v."""

    kubernetes: str
    etcd: str

    @classmethod
    def wanted(cls) -> "Versions":
        """Read them from go.mod, their only source."""
        text = (MODULE / "go.mod").read_text()
        return cls(
            kubernetes=_required(text, "k8s.io/kubernetes"),
            etcd=_required(text, "go.etcd.io/etcd/server/v3"),
        )

    @property
    def key(self) -> str:
        """The cache folder's name: another version or machine type never finds these tools."""
        system, machine = platform.system().lower(), platform.machine()
        return f"kubernetes-{self.kubernetes}_etcd-{self.etcd}_{system}-{machine}"


@dataclass(frozen=True)
class Tools:
    """Both programs in one folder."""

    folder: Path

    @property
    def etcd(self) -> Path:
        """The etcd server."""
        return self.folder / "etcd"

    @property
    def apiserver(self) -> Path:
        """The Kubernetes API server."""
        return self.folder / "kube-apiserver"

    def missing(self) -> list[str]:
        """Return the names of those that are not executable files here."""
        return [
            tool.name
            for tool in (self.etcd, self.apiserver)
            if not (tool.is_file() and os.access(tool, os.X_OK))
        ]


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all cached tools, in the user's cache folder (XDG base directories)."""
    base = environ.get("XDG_CACHE_HOME", "")
    # The specification has relative values ignored.
    root = Path(base) if base.startswith("/") else Path(environ.get("HOME", "/")) / ".cache"
    return root / "whereabouts-fast" / "tools"


def find(environ: Mapping[str, str] = os.environ) -> Tools | None:
    """Return the tools that are there already; None when they would have to be built.

    Raises ToolsError when KUBEBUILDER_ASSETS names a folder that lacks one: whoever set it means
    those tools and no others.
    """
    if assets := environ.get(ASSETS):
        tools = Tools(Path(assets).absolute())
        if absent := tools.missing():
            raise ToolsError(
                f"{ASSETS}={assets} has no executable {' and no '.join(absent)}: put etcd and "
                f"kube-apiserver there, or unset {ASSETS} to have them built"
            )
        return tools
    cached = Tools(cache_folder(environ) / Versions.wanted().key)
    return None if cached.missing() else cached


def _required(text: str, module: str) -> str:
    found = re.search(rf"^\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise ToolsError(f"{MODULE / 'go.mod'} does not require {module}: restore the file")
    return found.group(1)
