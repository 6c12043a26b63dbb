"""The built shim as a process: what it imports, where it may live, how it answers misuse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.shim.instruments import Observed
from tests.shim.world import World, config, pod

DIET = {"posix", "sys", "gc", "time", "_json", "_socket", "_ssl", "binascii", "fcntl"}
STAND_INS = {"json.decoder"}
AT_START = {"_signal", "marshal"}  # built in, and imported by every start of Python that is whole
ENVIRONMENT = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "c1",
    "CNI_NETNS": "/var/run/netns/none",
    "CNI_IFNAME": "net1",
}


def run(
    shim: Path, stdin: str | bytes = "", stdout: int = subprocess.PIPE, /, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [shim],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**ENVIRONMENT, **environment},
        timeout=60,
        check=False,
    )


def error(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    assert done.returncode == 1
    assert done.stderr == b""
    value: dict[str, Any] = json.loads(done.stdout)
    return value


@pytest.mark.parametrize("verb", ["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION", "misuse"])
def test_the_shim_imports_only_what_its_diet_allows(
    world: World, observed: Observed, verb: str
) -> None:
    world.slices("n1")
    node, one = world.node("n1"), pod()
    asked = {**config(), "cniVersion": "1.1.0", "cni.dev/valid-attachments": []}
    asked["prevResult"] = node.add(one, asked).result
    node.shim = observed.executable
    outcome = node.call(verb, pod() if verb == "ADD" else one, asked)
    assert outcome.code == (1 if verb == "misuse" else 0), outcome
    loaded = observed.modules()
    own = {name for name in loaded if name.partition(".")[0] in ("cni", "whereabouts_fast")}
    assert "cni.build" not in own
    assert loaded - own <= DIET | STAND_INS | AT_START
    # Loading is most of a call's cost: what it does not need must not be there.
    others = {"CHECK": {"cni.check"}, "GC": {"cni.collect"}, "STATUS": {"cni.status", "cni.probe"}}
    for other, modules in others.items():
        assert not own & modules or other == verb
    if verb == "STATUS":  # answered by the hint
        assert not own & {"cni.probe", "cni.tls", "cni.attach", "cni.detach"}
        assert "_ssl" not in loaded
    if verb in ("VERSION", "misuse"):
        assert "_ssl" not in loaded
        assert not any(name.startswith("whereabouts_fast") for name in loaded)


def test_the_folder_may_be_moved_and_linked_to(shim: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere with a blank"
    shutil.copytree(shim.parent, moved)
    link = tmp_path / "whereabouts"
    link.symlink_to(moved / "whereabouts")
    second = tmp_path / "again"
    second.symlink_to("whereabouts")
    for path in (moved / "whereabouts", link, second):
        assert json.loads(run(path, "{}", CNI_COMMAND="VERSION").stdout)["supportedVersions"]


@pytest.mark.parametrize(
    ("stdin", "shown"),
    [("{}", "1.1.0"), ('{"cniVersion":"0.4.0"}', "0.4.0"), ("nonsense", "1.1.0"), ("", "1.1.0")],
)
def test_version_ignores_bad_input_and_knows_all_seven(shim: Path, stdin: str, shown: str) -> None:
    answer = json.loads(run(shim, stdin, CNI_COMMAND="VERSION").stdout)
    assert answer["cniVersion"] == shown
    assert len(answer["supportedVersions"]) == 7


def text(**changes: Any) -> str:
    whole = config()
    whole["ipam"].update(changes.pop("ipam", {}))
    whole.update(changes)
    return json.dumps({key: value for key, value in whole.items() if value is not None})


MISUSE: dict[str, tuple[dict[str, str], str, int, str]] = {
    "no command": ({"CNI_COMMAND": ""}, text(), 4, "CNI_COMMAND"),
    "unknown command": ({"CNI_COMMAND": "FROB"}, text(), 4, '"FROB"'),
    "check before 0.4.0": ({"CNI_COMMAND": "CHECK"}, text(cniVersion="0.3.1"), 1, "CHECK"),
    "gc before 1.1.0": ({"CNI_COMMAND": "GC", "CNI_PATH": "/x"}, text(), 1, "GC"),
    "gc without a path": ({"CNI_COMMAND": "GC"}, text(), 4, "CNI_PATH"),
    "status before 1.1.0": ({"CNI_COMMAND": "STATUS"}, text(), 1, "STATUS"),
    "two variables missing": (
        {"CNI_NETNS": "", "CNI_IFNAME": ""},
        text(),
        4,
        "CNI_NETNS, CNI_IFNAME",
    ),
    "container id": ({"CNI_CONTAINERID": "../x"}, text(), 4, "CNI_CONTAINERID"),
    "long interface": ({"CNI_IFNAME": "x" * 16}, text(), 4, "CNI_IFNAME"),
    "interface with a slash": ({"CNI_IFNAME": "a/b"}, text(), 4, "CNI_IFNAME"),
    "unknown argument": ({"CNI_ARGS": "FOO=1"}, text(), 4, "FOO"),
    "argument without value": ({"CNI_ARGS": "FOO"}, text(), 4, '"FOO"'),
    "not json": ({}, "nonsense", 6, "standard input"),
    "not utf-8": ({}, "\udcff", 6, "standard input"),
    "empty": ({}, "", 6, "standard input"),
    "not an object": ({}, "[]", 6, "standard input"),
    "deeply nested": ({}, "[" * 100000, 6, "standard input"),
    "version": ({}, text(cniVersion="2.0.0"), 1, '"2.0.0"'),
    "no name": ({}, text(name=None), 7, "name"),
    "bad name": ({}, text(name="a b"), 7, '"a b"'),
    "no range": ({}, text(ipam={"range": None}), 7, "range"),
    "bad range": ({}, text(ipam={"range": "10.0.0.0/99"}), 7, "10.0.0.0/99"),
    "bad size": ({}, text(ipam={"node_slice_size": "/8"}), 7, "/8"),
    "range twice": ({}, text(ipam={"ipRanges": [{"range": "10.40.0.0/24"}]}), 7, "ipRanges[0]"),
    "fixed address": ({"CNI_ARGS": "IP=10.40.0"}, text(), 7, "CNI_ARGS IP"),
    "fixed addresses of the runtime": (
        {},
        text(runtimeConfig={"ips": "x"}),
        7,
        "runtimeConfig.ips",
    ),
    "fixed addresses among the arguments": (
        {},
        text(args={"cni": {"ips": ["x"]}}),
        7,
        "args.cni.ips",
    ),
    "reservations": ({}, text(ipam={"overlap_reservations": "often"}), 7, "overlap_reservations"),
    "no kubeconfig": (
        {},
        text(ipam={"kubernetes": {"kubeconfig": "/nonexistent/k"}, "hints_dir": "/dev/null/hints"}),
        7,
        "/nonexistent/k",
    ),
    "node name": ({"NODENAME": "No Name"}, text(), 7, '"No Name"'),
}


@pytest.mark.parametrize("how", MISUSE)
def test_misuse_is_a_cni_error_that_names_what_is_wrong(shim: Path, how: str) -> None:
    environment, stdin, code, named = MISUSE[how]
    raw = stdin.encode("utf-8", "surrogateescape")
    failure = error(run(shim, raw, **environment))
    assert failure["code"] == code, failure
    assert named in failure["msg"], failure
    assert "\n" not in failure["msg"]


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
@pytest.mark.parametrize(
    "extra",
    [{"addresses": [{"address": "10.1.2.3/24"}]}, {"ipRanges": [{"range": "10.45.0.0/24"}]}],
    ids=["fixed address", "second range"],
)
def test_two_addresses_of_a_family_are_refused_before_anything_is_allocated(
    shim: Path, version: str, extra: dict[str, Any]
) -> None:
    failure = error(run(shim, text(cniVersion=version, ipam=extra)))
    assert failure["code"] == 7
    assert version in failure["msg"]


def test_a_del_with_something_that_is_no_json_is_a_decoding_error(shim: Path) -> None:
    """Case T35: the third input."""
    assert error(run(shim, "nonsense", CNI_COMMAND="DEL"))["code"] == 6


def test_a_closed_standard_output_is_no_crash(shim: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run(shim, "{}", writer, CNI_COMMAND="VERSION")
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


SHAPES: dict[str, dict[str, Any]] = {
    "0.1.0": {"ip4": {"ip": "10.40.0.1/24", "gateway": "10.40.0.254", "routes": [{"dst": "0/0"}]}},
    "0.3.0": {"ips": [{"version": "4", "address": "10.40.0.1/24", "gateway": "10.40.0.254"}]},
    "1.0.0": {"ips": [{"address": "10.40.0.1/24", "gateway": "10.40.0.254"}]},
}


@pytest.mark.parametrize(
    ("version", "like"),
    [
        ("", "0.1.0"),
        ("0.1.0", "0.1.0"),
        ("0.2.0", "0.1.0"),
        ("0.3.0", "0.3.0"),
        ("0.3.1", "0.3.0"),
        ("0.4.0", "0.3.0"),
        ("1.0.0", "1.0.0"),
        ("1.1.0", "1.0.0"),
    ],
)
def test_a_result_has_the_shape_of_the_version_asked_for(
    world: World, version: str, like: str
) -> None:
    world.slices("n1")
    routes = [{"dst": "0.0.0.0/0", "mtu": 1400}, {"dst": "fd00::/8"}]
    asked = config(gateway="10.40.0.254", routes=routes, dns={"nameservers": ["10.40.0.53"]})
    asked["cniVersion"] = version
    shown = routes if version == "1.1.0" else [{"dst": "0.0.0.0/0"}, {"dst": "fd00::/8"}]
    expected = json.loads(json.dumps(SHAPES[like]))
    if like == "0.1.0":
        expected["ip4"]["routes"] = shown[:1]
    else:
        expected["routes"] = shown
    expected["dns"] = {"nameservers": ["10.40.0.53"]}
    expected["cniVersion"] = version or "0.1.0"
    assert world.node("n1").add(pod(), asked).result == expected


def test_an_empty_environment_is_an_error_and_no_traceback(shim: Path) -> None:
    done = subprocess.run([shim], env={}, input=b"", capture_output=True, check=False)
    assert error(done)["code"] == 4
