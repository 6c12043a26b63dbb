"""A cluster in which everything happens at once, chosen by one seed: pods, nodes, edits, faults.

Controllers and plugins are the real ones, behind proxies that lose, repeat and delay. The seed
chooses what is done and in which order; how it interleaves is the machine's business.
"""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from hack.cluster.simnode import Pod
from tests.faults.actions import (
    Action,
    CutBeforeSending,
    CutReply,
    DelayStream,
    Forward,
    Gate,
    Request,
    refusal,
)
from tests.faults.proxy import Proxy
from tests.faults.rules import Given
from tests.integration.controller_process import (
    GROUP,
    NODES,
    Controller,
    create_nad,
    create_node,
    nad_path,
)
from tests.integration.pods import create_pod, delete_pod, finish
from tests.shim.world import CheckedNode, World

FLAGS = (
    *("--lease-duration", "3", "--renew-deadline", "2", "--retry-period", "0.3"),
    *("--leak-grace", "0.2", "--leak-grace-lost", "0.5", "--leak-sweep-period", "2"),
    *("--idle-slice-seconds", "1", "--inconsistency-grace", "3"),
)
NODE_NAMES = [f"n{number}" for number in range(8)]
POD_NAMES = [f"p{number}" for number in range(40)]
ZONES = {"zone": "a"}, {"zone": "b"}
SELECTOR = "k8s.v1.cni.cncf.io/nodeSelector"
# What an edit may choose; sizes are given up seldom, since all addresses then wait for all pods.
RANGES = ["10.40.0.0/25", "10.40.0.0/26", "10.40.0.0/24"]
EDITS: dict[str, list[Any]] = {
    "range": RANGES,
    "exclude": [[], ["10.40.0.8/29"], ["10.40.0.40/32"]],
    "node_slice_max": [2, 8],
    "node_slice_size": ["/28", "/28", "/29", "/29", "/30", None],
}
ATTEMPTS = 2
THREADS = 4


@dataclass
class Running:
    """A pod that exists, and its attachment once there is one."""

    pod: Pod
    node: CheckedNode
    config: dict[str, Any]
    address: str = ""
    work: Future[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether its calls are over."""
        return self.work is None or self.work.done()


@dataclass
class Replica:
    """One controller, which is killed, stopped and started again behind its own proxy."""

    proxy: Proxy
    process: Controller
    gate: Gate
    stopped: bool = False


@dataclass
class Turmoil:
    """All of it; `done` counts the steps by their kind."""

    cluster: Cluster
    world: World
    folder: Path
    seed: int
    random: Random = field(init=False)
    done: Counter[str] = field(default_factory=Counter)
    present: dict[str, dict[str, str]] = field(default_factory=dict)
    selected: dict[str, str | None] = field(default_factory=dict)
    given: list[Given] = field(default_factory=list)
    given_up: set[str] = field(default_factory=set)
    pods: dict[str, Running] = field(default_factory=dict)
    _calm: threading.Event = field(default_factory=threading.Event)
    _calls: list[Future[None]] = field(default_factory=list)
    _repeats: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self._luck = Random(self.seed)
        self.api: Api = self.cluster.api
        self.threads = ThreadPoolExecutor(THREADS)
        self.proxies = [Proxy(self.cluster) for _ in range(3)]
        for proxy in self.proxies:
            proxy.inject(self._fault, when=lambda one: one.path.startswith(GROUP))
        self.replicas = [self._replica(proxy) for proxy in self.proxies[:2]]
        kubeconfig = self.proxies[2].kubeconfig
        self.nodes = {
            name: self.world.node(
                name, kubeconfig=kubeconfig, address_cooldown=0, wait_seconds=1,
                add_deadline_seconds=10,
            )
            for name in NODE_NAMES
        }  # fmt: skip
        # Networks without a name share one space, in which they may overlap.
        self.name = "blue" if self.seed % 2 else None
        self.ipam: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        """End everything that this has started."""
        self._calm.set()
        self.threads.shutdown(cancel_futures=True)
        for replica in self.replicas:
            replica.gate.open()
            replica.process.close()
        for thread in self._repeats:
            thread.join()
        for proxy in self.proxies:
            proxy.close()

    def run(self, steps: int) -> None:
        """Do so many steps; what they start may still be under way afterwards."""
        self.edit("blue")
        for name in NODE_NAMES[:5]:
            self.node_comes_or_goes(name)
        kinds: list[tuple[int, Callable[[], object]]] = [
            (50, self.pod_starts),
            (28, self.pod_stops),
            (6, lambda: self.node_comes_or_goes(self.random.choice(NODE_NAMES))),
            (2, self.node_changes_zone),
            (4, lambda: self.edit("blue")),
            (2, self.other_network_comes_or_goes),
            (3, self.controller_restarts),
            (2, self.controller_stops_or_wakes),
            (6, self.watch_lags_or_catches_up),
            (2, self.hints_are_lost),
        ]
        weights = [weight for weight, _ in kinds]
        for _ in range(steps):
            (step,) = self.random.choices([step for _, step in kinds], weights)
            step()
            self._keep_pace()

    def _keep_pace(self) -> None:
        """Let no more calls wait than are under way, so that what happens next meets these."""
        pending = [one for one in self._calls if not one.done()]
        if len(pending) > THREADS:
            wait(pending, return_when=FIRST_COMPLETED)
        self._calls = pending

    def _call(self, work: Callable[..., None], *arguments: object) -> Future[None]:
        self._calls.append(self.threads.submit(work, *arguments))
        return self._calls[-1]

    def calm_down(self) -> None:
        """Stop all faults, let all calls end, and have both controllers run."""
        self._calm.set()
        for replica in self.replicas:
            replica.gate.open()
            if replica.stopped:
                self._wake(replica)
        for one in self._calls:
            one.result()
        for thread in self._repeats:
            thread.join()

    def takes_part(self, network: str) -> set[str]:
        """Return the nodes that may hold slices of a network."""
        asked = self.selected[network]
        return {
            n for n, zone in self.present.items() if not asked or asked == f"zone={zone['zone']}"
        }

    # What happens to pods.

    def pod_starts(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            name = self.random.choice(POD_NAMES)
            if name in self.pods:
                continue
            self.done["pod starts"] += 1
            network = self.random.choice(sorted(self.ipam))
            # Also on nodes that are gone: a partitioned node's plugin still writes.
            node = self.nodes[self.random.choice(sorted(self.present) * 5 + NODE_NAMES)]
            uid = create_pod(self.api, name, node=node.name)
            config = self._config(network)
            one = self.pods[name] = Running(Pod(name, uid, f"{uid}-0"), node, config)
            one.work = self._call(self._attach, one)

    def pod_stops(self) -> None:
        ready = sorted(name for name, one in self.pods.items() if one.ready)
        for name in self.random.sample(ready, min(len(ready), self.random.randint(1, 2))):
            one = self.pods[name]
            how = self.random.choice(["deleted", "deleted", "twice", "leaks", "finishes", "late"])
            self.done[f"pod {how}"] += 1
            if how == "finishes":
                finish(self.api, name)
            else:
                delete_pod(self.api, name)
            calls = {"leaks": 0, "finishes": 0, "twice": 2}.get(how, 1)
            work = self._call(self._detach, one, calls)
            if how != "late":
                one.work = work
            if how != "finishes":
                # A late DEL may meet the next pod of this name.
                del self.pods[name]

    def _attach(self, one: Running) -> None:
        for attempt in range(ATTEMPTS):
            one.pod = Pod(one.pod.name, one.pod.uid, f"{one.pod.uid}-{attempt}")
            outcome = one.node.add(one.pod, one.config)
            if outcome.code == 0:
                one.address = outcome.address
                self.given.append(Given(one.address, one.pod.container))
                self.done["ADD"] += 1
                return
            self.done["ADD failed"] += 1
            # As the runtime does: two DELs for what failed, and another sandbox.
            self.given_up.add(one.pod.container)
            self._detach(one, 2)

    def _detach(self, one: Running, calls: int) -> None:
        one.address = ""
        for _ in range(calls):
            self.done[
                "DEL" if one.node.delete(one.pod, one.config).code == 0 else "DEL failed"
            ] += 1

    def hints_are_lost(self) -> None:
        node = self.nodes[self.random.choice(NODE_NAMES)]
        for path in sorted(node.hints.glob("*")) if node.hints.exists() else []:
            with suppress(OSError):
                path.unlink()
        self.done["hints lost"] += 1

    # What happens to nodes and networks.

    def node_comes_or_goes(self, name: str) -> None:
        self.done["node"] += 1
        if name in self.present:
            del self.present[name]
            self.api.delete(f"{NODES}/{name}")
        else:
            self.present[name] = self.random.choice(ZONES)
            create_node(self.api, name, labels=self.present[name])

    def node_changes_zone(self) -> None:
        change = self.random.choice(ZONES)
        if self.present:
            name = self.random.choice(sorted(self.present))
            self.present[name] = change
            self.api.patch(f"{NODES}/{name}", {"metadata": {"labels": change}})
            self.done["zone"] += 1

    def edit(self, network: str) -> None:
        """Create a network, or change one thing of it: where it is, how it is cut, for whom."""
        self.done["edit"] += 1
        known = self.ipam.get(network)
        self.selected[network] = None
        if known is None:
            wide = network == "blue"
            ipam: dict[str, Any] = {
                "type": "whereabouts",
                "range": RANGES[0] if wide else "10.40.0.32/27",
                "node_slice_cooldown": 0.2,
                **({"node_slice_size": "/28"} if wide else {}),
                **({"network_name": self.name} if self.name else {}),
            }
        else:
            key = self.random.choice(sorted(EDITS))
            ipam = {**known, key: self.random.choice(EDITS[key])}
            self.selected[network] = self.random.choice([None, None, "zone=a"])
            if network == "red":
                ipam["range"] = known["range"]
        self.ipam[network] = ipam
        text = json.dumps(self._config(network))
        if known is None:
            create_nad(self.api, network, text=text)
        notes = {"annotations": {SELECTOR: self.selected[network]}}
        change = {"metadata": notes, "spec": {"config": text}}
        self.api.patch(f"{nad_path()}/{network}", change)

    def other_network_comes_or_goes(self) -> None:
        if self.name:
            self.edit("blue")
        elif self.ipam.pop("red", None) is None:
            self.edit("red")
        else:
            self.api.delete(f"{nad_path()}/red")

    def _config(self, network: str) -> dict[str, Any]:
        return {
            "cniVersion": "1.0.0", "name": network, "type": "macvlan", "master": "eth1",
            "ipam": {key: value for key, value in self.ipam[network].items() if value},
        }  # fmt: skip

    # What happens to controllers and to what is on the way to and from them.

    def controller_restarts(self) -> None:
        replica = self.random.choice(self.replicas)
        self.done["restart"] += 1
        replica.process.kill()
        replica.stopped = False
        replica.process = self._start(replica.proxy)

    def controller_stops_or_wakes(self) -> None:
        self.done["stop"] += 1
        stopped = [one for one in self.replicas if one.stopped]
        if stopped:
            self._wake(stopped[0])
        else:
            replica = self.random.choice(self.replicas)
            replica.process.process.send_signal(signal.SIGSTOP)
            replica.stopped = True

    def watch_lags_or_catches_up(self) -> None:
        self.done["lag"] += 1
        gate = self.random.choice(self.replicas).gate
        self.random.choice([gate.open, gate.open, gate.open, gate.close])()

    def _wake(self, replica: Replica) -> None:
        replica.process.process.send_signal(signal.SIGCONT)
        replica.stopped = False

    def _start(self, proxy: Proxy) -> Controller:
        # A name of its own: started again, it takes its own lease back at once.
        identity = f"replica-{self.proxies.index(proxy)}"
        return Controller(proxy.kubeconfig, self.folder, "--identity", identity, *FLAGS)

    def _replica(self, proxy: Proxy) -> Replica:
        gate = Gate(closed=False)
        proxy.inject(DelayStream(gate), when=lambda one: one.is_watch)
        return Replica(proxy, self._start(proxy), gate)

    def _fault(self, request: Request) -> Action:
        """Lose a request, its reply, or both ways the connection; or send it again, much later."""
        luck = self._luck.random()
        if self._calm.is_set() or not request.is_write or luck > 0.12:
            return Forward()
        self.done["write disturbed"] += 1
        if luck < 0.04:
            return CutReply()
        if luck < 0.06:
            return CutBeforeSending()
        if luck < 0.08:
            return refusal(429, "TooManyRequests", Retry_After="0")
        if luck < 0.09:
            return refusal(500, "InternalError")
        repeat = threading.Thread(target=self._repeat, args=(request, self._luck.random()))
        self._repeats.append(repeat)
        repeat.start()
        # The client hears of neither; or of the first alone.
        return CutBeforeSending() if luck < 0.11 else Forward()

    def _repeat(self, request: Request, seconds: float) -> None:
        self._calm.wait(seconds)
        kind = request.headers.get("content-type", "application/json")
        body = json.loads(request.body) if request.body else None
        self.api.exchange(request.method, request.target, body, headers={"Content-Type": kind})
