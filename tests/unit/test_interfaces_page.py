"""docs/reference/interfaces.md says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from cni import errors, protocol
from cni import version as shim_version
from whereabouts_fast.controller import permissions, process
from whereabouts_fast.ipam import naming, netconf
from whereabouts_fast.resources.attachments import NODE_SELECTOR

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/interfaces.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table rows between a heading and the next one, without back quotes."""
    section = re.split(rf"^#+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    body = [line for line in lines if not line.startswith("|---")][1:]
    found = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in body]
    assert found, f"no table under {heading}"
    return found


def first(heading: str) -> set[str]:
    return {row[0] for row in rows(heading)}


def test_every_ipam_key_is_documented() -> None:
    assert first("The ipam section") == netconf.KNOWN_KEYS
    ignored = re.findall(r"Accepted and ignored: (.*)\.$", PAGE, flags=re.MULTILINE)[0]
    assert set(re.findall(r"`(\w+)`", ignored)) == netconf.IGNORED_KEYS


def test_documented_defaults_are_those_of_the_parser() -> None:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/24", "node_slice_size": "/26"}
    conf = netconf.parse({"name": "x", "ipam": ipam})
    documented = {row[0]: row[1].split(",")[0].strip("`") for row in rows("The ipam section")}
    for key in ("hints_dir", "overlap_reservations"):
        assert documented[key] == getattr(conf, key)
    for key in ("wait_seconds", "add_deadline_seconds", "del_deadline_seconds"):
        assert float(documented[key]) == getattr(conf, key)
    (network,) = conf.networks
    assert int(documented["node_slice_max"]) == network.slice_max
    assert float(documented["node_slice_cooldown"]) == network.slice_cooldown
    assert float(documented["address_cooldown"]) == network.address_cooldown


def test_every_error_code_is_documented() -> None:
    codes = {str(value) for name, value in vars(errors).items() if name.isupper()}
    assert first("Error codes") == codes


def test_names_and_user_agents_are_documented() -> None:
    assert first("Labels and annotations") == {
        NODE_SELECTOR,
        *(v for name, v in vars(naming).items() if name.startswith(("LABEL_", "ANNOTATION_"))),
    }
    product = shim_version.USER_AGENT.split("/")[0]
    assert f"`{product}/<version>`" in PAGE
    assert f"| Lease | `{process.LEASE}` |" in PAGE
    verbs = re.findall(r"\| Verbs \| (.*) \|", PAGE)[0]
    assert set(re.findall(r"`([A-Z]+)`", verbs)) == set(protocol.VERBS)
    versions = re.findall(r"\| CNI versions \| (.*) \|", PAGE)[0]
    assert tuple(re.findall(r"`([\d.]+)`", versions)) == protocol.VERSIONS


@pytest.mark.parametrize("path", sorted((ROOT / "charts/whereabouts-fast/crds").glob("*.yaml")))
def test_kinds_and_short_names_are_documented(path: Path) -> None:
    names = yaml.safe_load(path.read_text())["spec"]["names"]
    row = next(row for row in rows("Objects") if row[0] == names["kind"])
    assert row[1:3] == [names["plural"], names["shortNames"][0]]


def test_every_right_is_documented() -> None:
    needed: dict[str, set[str]] = {}
    for need in permissions.needs("ipam-system", process.LEASE):
        needed.setdefault(need.resource.full_name, set()).add(need.verb)
    documented: dict[str, set[str]] = {}
    for kind, verbs, _ in rows("Rights"):
        documented.setdefault(kind, set()).update(verbs.split(", "))
    assert documented == needed
