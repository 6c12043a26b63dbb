"""A call of the shim inside this process, where everything it meets may be hostile.

Clock, connection, standard input, environment and output are the harness's; all else is the shim.
What really happens on the wire is tests/faults' business, with the real API server behind a proxy.
"""

from __future__ import annotations

import copy
import gc
import json
import posix
import re
from pathlib import Path
from typing import Any

import pytest

from cni import apiserver, deadline, files, hints, jsontext, main, marks, tls, turns
from whereabouts_fast.ipam import netconf

PARTS = (apiserver, deadline, files, hints, marks, turns)

POOL: dict[str, Any] = {
    "kind": "IPPool",
    "metadata": {"name": "blue-n1-10.40.0.0-26", "uid": "uid-pool"},
    "spec": {
        "range": "10.40.0.0/26",
        "node": "n1",
        "network": "blue",
        "allocations": {"3": {"id": "other", "podref": "a/b", "ifname": "net1", "uid": "u"}},
    },
}
TABLE = {
    "kind": "NodeSlicePool",
    "metadata": {"name": "blue", "uid": "uid-table"},
    "spec": {"range": "10.40.0.0/24", "sliceSize": "/26"},
    "status": {"allocations": [{"nodeName": "n1", "sliceRange": "10.40.0.0/26"}]},
}
CONFIG: dict[str, Any] = {
    "cniVersion": "1.1.0",
    "name": "blue",
    "type": "macvlan",
    "ipam": {
        "type": "whereabouts",
        "network_name": "blue",
        "range": "10.40.0.0/24",
        "node_slice_size": "/26",
    },
    "prevResult": {"ips": [{"address": "10.40.0.1/24"}]},
    "cni.dev/valid-attachments": [{"containerID": "c9", "ifname": "net1"}],
}
ENVIRONMENT = {
    "CNI_CONTAINERID": "c1",
    "CNI_NETNS": "/var/run/netns/none",
    "CNI_IFNAME": "net1",
    "CNI_PATH": "/opt/cni/bin",
    "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=t;K8S_POD_NAME=p;K8S_POD_UID=u1",
    "NODENAME": "n1",
}
_CLUSTER = {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True}
KUBECONFIG: dict[str, Any] = {
    "clusters": [{"name": "c", "cluster": _CLUSTER}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "s"}}],
    "current-context": "x",
}
_SUCCESS = re.compile(rb"HTTP/1\.\d 2\d\d")


class Clock:
    """Time that passes by looking at it and by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return the moment in seconds."""
        self.now += 0.0001
        return self.now

    def monotonic_ns(self) -> int:
        """Return the moment in nanoseconds."""
        return int(self.monotonic() * 1e9)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Server:
    """Answers requests as its script says, and honestly when that has ended.

    script: ("honest",), ("status", code, retry after), ("raw", bytes), ("json", value),
    ("twisted", path, value), ("cut",), ("lost",), ("refuse",) or ("slow",).
    confirmed: offsets that a patch answered with success was about. shown: bodies of answers.
    """

    def __init__(
        self, clock: Clock, script: list[tuple[Any, ...]], pool: dict[str, Any] = POOL
    ) -> None:
        self._clock = clock
        self._pool = pool
        self._script = list(script)
        self._pending = b""
        self.confirmed: set[int] = set()
        self.shown: list[str] = []
        self.reused = False

    def connect(self, access: object, limit: deadline.Deadline) -> Server:
        """Stand in for tls.connect."""
        if self._script and self._script[0][0] == "refuse":
            self._script.pop(0)
            raise tls.NoConnectionError("refused")
        return self

    def write(self, data: bytes, limit: deadline.Deadline) -> None:
        """Take a request, and decide what its answer is."""
        head, _, body = data.partition(b"\r\n\r\n")
        method, target, _ = head.decode("latin-1").split("\r\n")[0].split(" ", 2)
        kind, *rest = self._script.pop(0) if self._script else ("honest",)
        if kind in ("cut", "refuse"):
            raise OSError("cut")
        answer = self._honest(method, target)
        if kind == "status":
            answer = {"kind": "Status", "message": "scripted", "code": rest[0]}
        elif kind == "json":
            answer = rest[0]
        elif kind == "twisted":
            answer = _twisted(answer, *rest)
        status = rest[0] if kind == "status" else 200
        after = f"Retry-After: {rest[1]}\r\n" if kind == "status" and rest[1] else ""
        text = json.dumps(answer).encode()
        self._pending = (
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{after}"
            f"Content-Length: {len(text)}\r\n\r\n"
        ).encode() + text
        if kind == "raw":
            self._pending = rest[0]
        if kind in ("lost", "slow"):
            self._pending = b""
        self._slow = kind == "slow"
        self.shown.append(self._pending.decode("utf-8", "replace"))
        if method == "PATCH" and _SUCCESS.search(self._pending):
            paths = [op["path"].split("/") for op in json.loads(body)]
            self.confirmed |= {int(path[3]) for path in paths if path[2:3] == ["allocations"]}

    def read(self, limit: deadline.Deadline) -> bytes:
        """Give the answer's bytes."""
        if self._slow:
            self._clock.sleep(limit.left())
            raise TimeoutError("timed out")
        data, self._pending = self._pending, b""
        return data

    def close(self) -> None:
        """Stand in for Connection.close."""

    def _honest(self, method: str, target: str) -> Any:
        if method == "PATCH":
            return {"kind": "PartialObjectMetadata", "metadata": self._pool["metadata"]}
        if "labelSelector" in target:
            return {"kind": "IPPoolList", "items": [self._pool]}
        return TABLE if "nodeslicepools" in target else self._pool


def _twisted(answer: Any, path: tuple[str, ...], value: object) -> Any:
    twisted = copy.deepcopy(answer)
    place = twisted
    for key in path[:-1]:
        if not isinstance(place.get(key), dict):
            return twisted
        place = place[key]
    place[path[-1]] = value
    return twisted


class Called:
    """What came of one call: exit code, decoded output, seconds it took, and the server's view."""

    def __init__(self, code: int, output: list[Any], seconds: float, server: Server) -> None:
        self.code = code
        self.output = output
        self.seconds = seconds
        self.server = server


def call(
    raw: bytes,
    environment: dict[str, str],
    script: list[tuple[Any, ...]],
    clock: Clock,
    pool: dict[str, Any] = POOL,
) -> Called:
    """Run one call with this standard input, environment, server and pool."""
    server = Server(clock, script, pool)
    output: list[Any] = []
    encoded = {
        key.encode("utf-8", "surrogateescape"): value.encode("utf-8", "surrogateescape")
        for key, value in environment.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        for part in PARTS:
            patch.setattr(part, "time", clock)
        # Input that names no directory must not leave a trace on the machine that tests it.
        patch.setattr(netconf, "HINTS_DIR", "/dev/null/hints")
        patch.setattr(tls, "connect", server.connect)
        patch.setattr(posix, "environ", encoded)
        patch.setattr(main, "_read_input", lambda: raw)
        patch.setattr(
            main, "_print", lambda result: output.append(json.loads(jsontext.encode(result)))
        )
        start = clock.monotonic()
        try:
            code = main.run(start)
        finally:
            gc.enable()
    return Called(code, output, clock.now - start, server)


def configured(folder: Path, ipam: dict[str, Any] | None = None, **whole: Any) -> dict[str, Any]:
    """Return CONFIG with changes, its kubeconfig and hints in a folder."""
    own = {"kubernetes": {"kubeconfig": str(folder / "kubeconfig")}, "hints_dir": f"{folder}/hints"}
    return {**CONFIG, **whole, "ipam": {**CONFIG["ipam"], **(ipam or {}), **own}}
