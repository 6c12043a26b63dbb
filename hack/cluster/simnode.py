"""A node as far as the shim can tell: its flat file, its hints, its name, and a runtime's call."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALL_LIMIT = 60.0


@dataclass(frozen=True)
class Pod:
    """The pod a call is for; `container` is the sandbox id, new for each attempt."""

    name: str
    uid: str
    container: str
    namespace: str = "tenant"


@dataclass(frozen=True)
class Outcome:
    """What the runtime sees of one call; `seconds` is its whole wall time."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def result(self) -> dict[str, Any]:
        """The result or error object; {} where the verb prints nothing."""
        return json.loads(self.stdout) if self.stdout else {}

    @property
    def address(self) -> str:
        """The first address given, without its prefix length.

        Raises RuntimeError with the plugin's own error when the call failed.
        """
        if self.code:
            raise RuntimeError(f"the plugin failed: {self.stdout or self.stderr}")
        address: str = self.result["ips"][0]["address"]
        return address.split("/")[0]


def _attachment(pod: Pod, ifname: str) -> dict[str, str]:
    arguments = {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": pod.namespace,
        "K8S_POD_NAME": pod.name,
        "K8S_POD_INFRA_CONTAINER_ID": pod.container,
        "K8S_POD_UID": pod.uid,
    }
    return {
        "CNI_CONTAINERID": pod.container,
        "CNI_NETNS": "/var/run/netns/none",
        "CNI_IFNAME": ifname,
        "CNI_ARGS": ";".join(f"{key}={value}" for key, value in arguments.items()),
    }


class SimulatedNode:
    """Calls the shim as a container runtime on node `name` would.

    folder: where this node's flat file and hints live; made when missing.
    settings: further keys of the flat file.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        kubeconfig: Path | str,
        shim: Path,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.shim = shim
        folder.mkdir(parents=True, exist_ok=True)
        self.hints = folder / "hints"
        self.flat_file = folder / "whereabouts.conf"
        defaults = {"kubernetes": {"kubeconfig": str(kubeconfig)}, "hints_dir": str(self.hints)}
        self.flat_file.write_text(json.dumps({**defaults, **(settings or {})}))

    def start(
        self, verb: str, pod: Pod | None, config: dict[str, Any], *, ifname: str = "net1"
    ) -> subprocess.Popen[str]:
        """Start one call without waiting for it; its standard input is already written.

        Without a pod, the runtime names no attachment (GC, STATUS, VERSION).
        """
        ipam = {"configuration_path": str(self.flat_file), **config["ipam"]}
        process = subprocess.Popen(
            [self.shim],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                "CNI_COMMAND": verb,
                "CNI_PATH": str(self.shim.parent),
                "NODENAME": self.name,
                **(_attachment(pod, ifname) if pod else {}),
            },
        )
        assert process.stdin is not None
        # A process that ended without reading is told by its exit status.
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps({**config, "ipam": ipam}))
        process.stdin = None
        return process

    def call(
        self, verb: str, pod: Pod | None, config: dict[str, Any], *, ifname: str = "net1"
    ) -> Outcome:
        """Run one call to its end, at most CALL_LIMIT seconds."""
        begin = time.perf_counter()
        process = self.start(verb, pod, config, ifname=ifname)
        try:
            stdout, stderr = process.communicate(timeout=CALL_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return Outcome(process.returncode, stdout, stderr, time.perf_counter() - begin)

    def add(self, pod: Pod, config: dict[str, Any], *, ifname: str = "net1") -> Outcome:
        """ADD: give this pod's interface an address."""
        return self.call("ADD", pod, config, ifname=ifname)

    def delete(self, pod: Pod, config: dict[str, Any], *, ifname: str = "net1") -> Outcome:
        """DEL: take it back."""
        return self.call("DEL", pod, config, ifname=ifname)
