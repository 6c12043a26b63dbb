"""Fetches Debian source packages without touching the machine's own apt configuration."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from cni.static.commands import Log, output, say
from cni.static.errors import StaticError

_MACHINE = Path("/etc/apt")

# Read after the machine's own configuration, whose proxies and credentials stay in force, and whose
# hooks would tidy up the machine's own lists.
_CONFIG = """\
Dir::Etc::sourcelist "{folder}/none";
Dir::Etc::sourceparts "{folder}/sources.list.d";
Dir::State::lists "{folder}/lists";
Dir::Cache "{folder}/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


class SourceIndex:
    """The machine's package sources, asked for source packages; its own state is in `folder`."""

    def __init__(self, folder: Path, machine: Path = _MACHINE) -> None:
        self.folder = folder.absolute()
        self._machine = machine

    def refresh(self) -> None:
        """Read the sources' lists anew. Raises StaticError."""
        parts = self.folder / "sources.list.d"
        for folder in (
            parts,
            self.folder / "lists/partial",
            self.folder / "cache/archives/partial",
        ):
            folder.mkdir(parents=True, exist_ok=True)
        for left in parts.iterdir():
            left.unlink()
        found = [
            *self._machine.glob("sources.list"),
            *sorted(self._machine.glob("sources.list.d/*.list")),
            *sorted(self._machine.glob("sources.list.d/*.sources")),
        ]
        for path in found:
            (parts / path.name).write_text(for_sources(path.read_text(), path.suffix))
        if not found:
            raise StaticError(
                f"{self._machine} names no package sources: build on Debian, or give it a file "
                "sources.list.d/debian.sources"
            )
        (self.folder / "apt.conf").write_text(_CONFIG.format(folder=self.folder))
        try:
            self._apt("apt-get", "update", "-qq")
        except StaticError as error:
            # Third parties often have no sources at all; whether ours are there shows below.
            say(f"not all package sources could be read: {error}")

    def versions(self, package: str) -> list[str]:
        """Return the versions of a source package, newest first. Raises StaticError."""
        shown = self._apt("apt-cache", "showsrc", "--only-source", package)
        found = set()
        for record in shown.split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version): (\S+)$", record, re.MULTILINE))
            if fields.get("Package") == package:
                found.add(fields["Version"])
        if not found:
            raise StaticError(
                f"the package sources of this machine have no source package {package}: the static "
                "shim is built on Debian 12, or where sources.list names its archive"
            )
        return sorted(found, key=functools.cmp_to_key(_compare), reverse=True)

    def fetch(self, package: str, version: str, into: Path, log: Log) -> Path:
        """Download one version, checked by apt, and unpack it; return its folder.

        Raises StaticError.
        """
        download = Path(tempfile.mkdtemp(prefix=f"{package}.download.", dir=into))
        wanted = f"{package}={version}"
        log.run([*self._command("apt-get"), "source", "-qq", "--download-only", wanted], download)
        (description,) = download.glob("*.dsc")
        folder = into / package
        # The signature was apt's business; dpkg-source would need a second key ring for it.
        log.run(["dpkg-source", "--no-check", "-x", description.absolute(), folder], into)
        shutil.rmtree(download)
        return folder

    def _apt(self, program: str, *arguments: str) -> str:
        return output(*self._command(program), *arguments)

    def _command(self, program: str) -> list[str]:
        return [program, "-c", str(self.folder / "apt.conf")]


def for_sources(text: str, suffix: str) -> str:
    """Return a file of apt's package sources that asks for source packages instead.

    suffix: ".sources" for the deb822 form, anything else for one line a source (sources.list(5)).
    """
    if suffix == ".sources":
        return re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.MULTILINE | re.IGNORECASE)
    lines = []
    for line in text.splitlines():
        kind, _, rest = line.strip().partition(" ")
        if kind == "deb":
            lines.append(f"deb-src {rest.strip()}\n")
    return "".join(lines)


def _compare(one: str, other: str) -> int:
    if one == other:
        return 0
    less = subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False)
    return -1 if less.returncode == 0 else 1
