"""Whatever input, environment, files and server are like: an answer in time, no made-up address."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni.protocol import VERBS, VERSIONS
from tests.shim import schemas
from tests.unit.cni import hostile
from tests.unit.cni.hostile import Called, Clock

LIMITS = {"ADD": 30.0, "CHECK": 30.0, "GC": 30.0, "DEL": 15.0, "STATUS": 5.0, "VERSION": 0.0}
SLACK = 0.5  # seconds: the clock of the harness passes by being looked at

verbs = st.sampled_from(sorted(VERBS))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["10.40.0.0/26", "10.40.0.9", "fd10::/64", "n1", "Draining", "Cooling"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
twists = st.sampled_from(
    [
        ("metadata",),
        ("metadata", "uid"),
        ("spec",),
        ("spec", "range"),
        ("spec", "allocations"),
        ("spec", "allocations", "1"),
        ("spec", "closed"),
        ("spec", "overlapping"),
        ("spec", "network"),
        ("status",),
        ("status", "allocations"),
        ("status", "conditions"),
        ("items",),
    ]
)
statuses = st.sampled_from([200, 201, 301, 400, 401, 403, 404, 409, 410, 422, 429, 500, 503])
offsets = st.sampled_from(["0", "1", "63", "64", "-5", "1_0", " 7", "x", "9" * 12, "1" * 60])
our_entry = st.fixed_dictionaries(
    {"id": st.just("c1"), "podref": st.just("t/p")},
    optional={"ifname": st.sampled_from(["net1", "net2", ""]), "uid": st.just("u1") | values},
)
our_entries = st.dictionaries(offsets, our_entry, max_size=3)
messages = st.builds(
    lambda first, headers, body: "\r\n".join([first, *headers, "", body]).encode(
        "utf-8", "replace"
    ),
    st.sampled_from(
        [
            *("HTTP/1.1 200 OK", "HTTP/1.1 200", "HTTP/1.0 200 OK", "HTTP/1.1 204 No Content"),
            *("HTTP/1.1 100 Continue", "HTTP/1.1 422 X", "HTTP/1.1 404 X", "HTTP/2 200", "200 OK"),
            *("HTTP/1.1 99999 X", "HTTP/1.1 -1 X", "HTTP/1.1 2e2 X", ""),
        ]
    ),
    st.lists(
        st.sampled_from(
            [
                *("Content-Type: application/json", "content-type:application/json", "X", ": x"),
                *("Content-Length: 2", "Content-Length: 0", "Content-Length: -1"),
                *("Content-Length: 99999999999", "Content-Length: 2, 3", "Content-Length: x"),
                *("Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked"),
                *("Retry-After: 99999", "Retry-After: \u0663", "Connection: close"),
                "X: " + "x" * 70000,
            ]
        ),
        max_size=4,
    ),
    st.sampled_from(
        ["{}", "", "2\r\n{}\r\n0\r\n\r\n", "zz\r\n", "-1\r\n", "[]", '{"kind":"Status"}']
    ),
)
answers = st.one_of(
    st.sampled_from([("honest",), ("cut",), ("lost",), ("refuse",), ("slow",)]),
    st.tuples(st.just("status"), statuses, st.sampled_from(["", "0", "1", "9999", "x"])),
    st.tuples(st.just("raw"), st.binary(max_size=40) | messages),
    st.tuples(st.just("json"), values),
    st.tuples(st.just("twisted"), twists, values),
    st.tuples(st.just("twisted"), st.just(("spec", "allocations")), our_entries),
    st.tuples(
        st.just("twisted"),
        st.just(("status", "allocations")),
        st.lists(
            st.fixed_dictionaries({"nodeName": st.just("n1"), "sliceRange": values}), max_size=3
        ),
    ),
)
scripts = st.lists(answers, max_size=12)


@contextmanager
def place(kubeconfig: object = hostile.KUBECONFIG) -> Iterator[Path]:
    """A folder with a kubeconfig, on a file system without a disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        text = kubeconfig if isinstance(kubeconfig, bytes) else json.dumps(kubeconfig).encode()
        (Path(name) / "kubeconfig").write_bytes(text)
        yield Path(name)


def hold(verb: str, version: object, called: Called) -> None:
    """One answer in its shape, in time, never a crash, never an address nobody confirmed."""
    assert called.seconds <= LIMITS.get(verb, 0) + SLACK
    if verb not in VERBS:
        assert called.output[0]["code"] == 4
        return
    shown = json.dumps(called.output[0]) if called.output else ""
    schemas.hold(verb, version if version in VERSIONS else None, called.code, shown or "")
    if called.code:
        assert called.output[0]["code"] != 999, called.output
    elif verb == "ADD":
        (result,) = called.output
        given_by_us = [one["address"] for one in result.get("ips", [])[:1]]
        given_by_us += [result[key]["ip"] for key in ("ip4",) if key in result]
        for text in given_by_us:
            offset = int(text.partition("/")[0].rpartition(".")[2])
            seen = any('"c1"' in body for body in called.server.shown)
            assert offset in called.server.confirmed or seen


def run(
    verb: str,
    config: dict[str, Any],
    script: list[Any],
    clock: Clock | None = None,
    pool: dict[str, Any] = hostile.POOL,
) -> Called:
    environment = {**hostile.ENVIRONMENT, "CNI_COMMAND": verb}
    return hostile.call(json.dumps(config).encode(), environment, script, clock or Clock(), pool)


def test_the_harness_lets_an_honest_life_pass() -> None:
    with place() as folder:
        clock, config = Clock(), hostile.configured(folder)
        added = run("ADD", config, [], clock)
        assert added.output[0]["ips"] == [{"address": "10.40.0.1/24"}]
        assert added.server.confirmed == {1}
        for verb in ("CHECK", "STATUS", "DEL", "GC"):
            called = run(verb, config, [], clock)
            assert (called.code, called.output) == (0, []), verb


@given(verbs, scripts)
def test_a_hostile_server(verb: str, script: list[Any]) -> None:
    with place() as folder:
        hold(verb, "1.1.0", run(verb, hostile.configured(folder), script))


@given(verbs, scripts)
def test_a_hostile_server_of_a_node_that_knows_its_pool(verb: str, script: list[Any]) -> None:
    with place() as folder:
        clock, config = Clock(), hostile.configured(folder)
        assert run("ADD", config, [], clock).code == 0
        if verb == "STATUS":
            clock.sleep(60)
        hold(verb, "1.1.0", run(verb, config, script, clock))


@given(
    st.sampled_from(["ADD", "CHECK", "DEL", "GC", "STATUS"]),
    st.integers(0, 7),
    values | st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5), values), max_size=2),
    st.lists(answers, max_size=4),
)
def test_a_hostile_hint(verb: str, at: int, value: object, script: list[Any]) -> None:
    with place() as folder:
        clock, config = Clock(), hostile.configured(folder)
        assert run("ADD", config, [], clock).code == 0
        (path,) = (folder / "hints").glob("*.json")
        data = json.loads(path.read_text())
        data[at] = value
        path.write_text(json.dumps(data))
        hold(verb, "1.1.0", run(verb, config, script, clock))


@given(verbs, st.integers(0, 5), values, st.integers(0, 5), values, offsets)
def test_a_hostile_pool_in_a_hint(
    verb: str, at: int, value: object, deep: int, inner: object, offset: str
) -> None:
    with place() as folder:
        clock, config = Clock(), hostile.configured(folder)
        assert run("ADD", config, [], clock).code == 0
        (path,) = (folder / "hints").glob("*.json")
        data = json.loads(path.read_text())
        data[6][0][4][offset] = data[6][0][4].pop("1")
        data[6][0][4][offset][deep] = inner
        data[6][0][at] = value if at != 4 else data[6][0][at]
        path.write_text(json.dumps(data))
        hold(verb, "1.1.0", run(verb, config, [], clock))


WHOLE = (
    *("cniVersion", "name", "args", "runtimeConfig", "prevResult", "type"),
    *("cni.dev/valid-attachments", "cni.dev/attachments"),
)
ARGUMENTS = ("IP=10.40.0.9", "IP=x;GATEWAY=y", "IP=1.2.3.4/8;GATEWAY=1.1.1.1")
KEYS = (
    *("range", "ipRanges", "exclude", "gateway", "routes", "dns", "addresses", "node_slice_size"),
    *("range_start", "range_end", "network_name", "wait_seconds", "address_cooldown"),
)


@given(
    verbs,
    st.dictionaries(st.sampled_from(KEYS), values, max_size=3),
    st.dictionaries(
        st.sampled_from(WHOLE),
        values | st.fixed_dictionaries({"ips": values}) | st.sampled_from(VERSIONS),
        max_size=3,
    ),
)
def test_a_hostile_configuration(verb: str, ipam: dict[str, Any], whole: dict[str, Any]) -> None:
    with place() as folder:
        config = hostile.configured(folder, ipam, **whole)
        called = run(verb, config, [])
        # A configuration may ask for much: what it gets is only held to shape, time and no crash.
        if verb == "ADD" and called.code == 0:
            version = config["cniVersion"] or "0.1.0"
            schemas.hold("ADD", version, 0, json.dumps(called.output[0]))
        else:
            hold(verb, config.get("cniVersion"), called)


@given(verbs, st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()))
def test_hostile_standard_input(verb: str, raw: bytes) -> None:
    environment = {**hostile.ENVIRONMENT, "CNI_COMMAND": verb}
    hold(verb, None, hostile.call(raw, environment, [("refuse",)] * 99, Clock()))


@given(
    st.dictionaries(
        st.sampled_from([*hostile.ENVIRONMENT, "CNI_COMMAND"]),
        st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)
        | st.sampled_from(
            [*VERBS, "IP=10.40.0.9", "IP=x;GATEWAY=y", "IP=1.2.3.4/8;GATEWAY=1.1.1.1"]
        ),
    )
)
def test_a_hostile_environment(changes: dict[str, str]) -> None:
    with place() as folder:
        environment = {**hostile.ENVIRONMENT, "CNI_COMMAND": "ADD", **changes}
        raw = json.dumps(hostile.configured(folder)).encode()
        called = hostile.call(raw, environment, [], Clock())
        verb = environment["CNI_COMMAND"]
        if verb == "ADD" and called.code == 0:
            schemas.hold("ADD", "1.1.0", 0, json.dumps(called.output[0]))
        else:
            hold(verb, "1.1.0", called)


@given(
    verbs,
    st.binary(max_size=80)
    | values
    | st.dictionaries(st.sampled_from(sorted(hostile.KUBECONFIG)), values).map(
        lambda changes: {**hostile.KUBECONFIG, **changes}
    )
    | st.tuples(st.sampled_from(["cluster", "user"]), st.text(max_size=12), values).map(
        lambda change: {
            **hostile.KUBECONFIG,
            f"{change[0]}s": [{"name": change[0][0], change[0]: {change[1]: change[2]}}],
        }
    ),
)
def test_a_hostile_kubeconfig(verb: str, kubeconfig: object) -> None:
    with place(kubeconfig) as folder:
        hold(verb, "1.1.0", run(verb, hostile.configured(folder), []))


@pytest.mark.parametrize("verb", ["ADD", "CHECK", "DEL", "GC", "STATUS"])
def test_a_server_that_never_answers_is_left_at_the_deadline(verb: str) -> None:
    with place() as folder:
        called = run(verb, hostile.configured(folder), [("slow",)] * 1000)
        assert called.code == 1
        assert called.output[0]["code"] == (50 if verb == "STATUS" else 11)
        hold(verb, "1.1.0", called)
