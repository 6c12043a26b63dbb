"""The demo's story: networks cut, addresses given, a node lost, its slice handed on."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hack.cluster.server import Cluster
from hack.cluster.simnode import Outcome, Pod
from hack.demo import screen
from hack.demo.stage import NETWORKS, NODES, Stage

IN_PARALLEL = 4
PODS_PER_NODE = 4


@dataclass(frozen=True)
class Verdict:
    """The figures of the last line; rates are requests per call."""

    addresses: int
    duplicates: int
    steady_add: float
    steady_del: float

    @classmethod
    def perfect(cls, addresses: int) -> Verdict:
        """What the same number of addresses must have cost."""
        return cls(addresses, 0, 1.0, 1.0)

    def line(self) -> str:
        """The demo's last line."""
        return (
            f"demo: {self.addresses} addresses, {self.duplicates} duplicates, "
            f"{self.steady_add:.2f} requests per steady ADD, "
            f"{self.steady_del:.2f} per steady DEL"
        )


@dataclass(frozen=True)
class Attachment:
    """One pod interface on one network, as the demo keeps it for its DEL."""

    node: str
    pod: Pod
    network: str
    address: str


@dataclass
class Tally:
    """Calls and the requests that the API server saw for them."""

    at_once: int
    calls: int = 0
    requests: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Requests per call."""
        return self.requests / self.calls


class Story:
    """Tells the story on a running cluster; `close` ends what it started."""

    def __init__(self, cluster: Cluster, folder: Path, shim: Path) -> None:
        self.stage = Stage(cluster, folder, shim)
        self.live: list[Attachment] = []
        self.given = 0
        self.duplicates = 0
        self.tallies: dict[str, Tally] = {}

    def close(self) -> None:
        """End what the story started."""
        self.stage.close()

    def tell(self) -> Verdict:
        """Run every step; raises RuntimeError when one does not come out."""
        self.deal_slices()
        self.give_addresses()
        self.lose_a_node()
        self.take_addresses_back()
        return Verdict(
            self.given,
            self.duplicates,
            self.tallies["steady ADD"].rate,
            self.tallies["steady DEL"].rate,
        )

    def deal_slices(self) -> None:
        """Start the controller, create nodes and NADs, wait for usable pools."""
        stage = self.stage
        print(screen.heading(f"{len(NODES)} nodes, {len(NETWORKS)} networks, one controller"))
        stage.start_controller()
        for node in NODES:
            stage.create_node(node)
        for network in NETWORKS:
            stage.create_network(network)
        stage.wait_until("every slice has its pool", stage.settled)
        for network in NETWORKS:
            waiting = stage.waiting(network)
            note = f"; waiting for a slice: {', '.join(waiting)}" if waiting else ""
            print(f"   {network.name}: {network.range} cut into {network.slice_size}{note}")

    def give_addresses(self) -> None:
        """Cold ADDs first, one per node and network; then the steady ones, in parallel."""
        print(screen.heading("Pods get addresses; each ADD is a process of its own"))
        places = [(n, net.name) for net in NETWORKS for n in NODES if self.stage.serves(n, net)]
        self.add("cold ADD", places, parallel=1)
        self.add("steady ADD", places * (PODS_PER_NODE - 1), parallel=IN_PARALLEL)
        self.show_slices()
        print()
        by_pod = [(a.pod.name, a.node, a.network, a.address) for a in self.live]
        for line in screen.table(("POD", "NODE", "NETWORK", "ADDRESS"), sorted(by_pod)[:12]):
            print(line)
        print(f"   ... and {len(by_pod) - 12} more")

    def lose_a_node(self) -> None:
        """Delete the first node and follow its slice to the node that waits."""
        gone, (network, *_) = NODES[0], NETWORKS
        (waiting,) = self.stage.waiting(network)
        print(
            screen.heading(f"Node {gone} is deleted; {waiting} waits for a slice of {network.name}")
        )
        self.stage.delete_node(gone)
        self.stage.wait_until("its slice drains", self.holds(network.name, gone, "Draining"))
        left = [a for a in self.live if a.node == gone]
        print(f"   No new address from its slice; its {len(left)} live ones stay for their pods:")
        self.show_slices(network.name)
        self.delete(left, "late DEL")
        self.stage.wait_until("the empty slice cools", self.holds(network.name, gone, "Cooling"))
        print("\n   Its pods are deleted, its pool is gone; the slice cools (here 2 s):")
        self.show_slices(network.name)
        self.stage.wait_until(f"{waiting} holds it", lambda: self.stage.serves(waiting, network))
        print(f"\n   The slice goes to {waiting}, which waited:")
        self.show_slices(network.name)
        self.add("cold ADD", [(waiting, network.name)], parallel=1)
        print(f"   {self.live[-1].pod.name} on {waiting} has {self.live[-1].address}")

    def take_addresses_back(self) -> None:
        """Compare what pods were told with what is recorded, then delete every pod."""
        print(screen.heading("No address twice"))
        recorded = self.stage.recorded()
        told = Counter((a.network, a.address) for a in self.live)
        if set(recorded) != set(told):
            raise RuntimeError(f"told and recorded differ: {set(recorded) ^ set(told)}")
        self.duplicates += sum(count - 1 for count in told.values())
        self.duplicates += sum(count - 1 for count in recorded.values())
        print(f"   {len(told)} addresses told to pods, the same {len(recorded)} in the pools")
        self.delete(list(self.live), "steady DEL")
        if left := self.stage.recorded():
            raise RuntimeError(f"addresses left after every pod was deleted: {left}")
        print("   every pod deleted, every address free again")
        print(
            screen.heading("What it cost: requests from the server's audit log, times of processes")
        )
        for line in screen.table(
            ("CALLS", "", "AT ONCE", "REQUESTS EACH", "MEDIAN TIME"), self.costs()
        ):
            print(line)

    def add(self, kind: str, places: list[tuple[str, str]], *, parallel: int) -> None:
        """ADD one new pod per (node, network) place; count duplicates against what is live."""
        work = [(node, network, self.stage.create_pod(node)) for node, network in places]
        outcomes = self.measured(
            kind,
            [
                partial(self.stage.node(node).add, pod, self.stage.config(network))
                for node, network, pod in work
            ],
            parallel,
        )
        for (node, network, pod), outcome in zip(work, outcomes, strict=True):
            self.live.append(Attachment(node, pod, network, outcome.address))
            self.given += 1

    def delete(self, attachments: list[Attachment], kind: str) -> None:
        """DEL attachments in parallel; their pods go first, as they do in a cluster."""
        self.stage.delete_pods([a.pod for a in attachments])
        outcomes = self.measured(
            kind,
            [
                partial(self.stage.node(a.node).delete, a.pod, self.stage.config(a.network))
                for a in attachments
            ],
            IN_PARALLEL,
        )
        for outcome in outcomes:
            if outcome.code:
                raise RuntimeError(f"a DEL failed: {outcome.stdout or outcome.stderr}")
        self.live = [a for a in self.live if a not in attachments]

    def measured(
        self, kind: str, calls: list[Callable[[], Outcome]], parallel: int
    ) -> list[Outcome]:
        """Run calls, and add them and the shim's audited requests to the tally of `kind`."""
        tally = self.tallies.setdefault(kind, Tally(parallel))
        mark = self.stage.cluster.audit.mark()
        with ThreadPoolExecutor(parallel) as pool:
            outcomes = list(pool.map(lambda call: call(), calls))
        tally.calls += len(calls)
        tally.requests += self.stage.shim_requests(mark)
        tally.seconds += [outcome.seconds for outcome in outcomes]
        return outcomes

    def costs(self) -> list[tuple[str, str, str, str, str]]:
        """Rows of the cost table, in the order the kinds were first seen."""
        return [
            (
                kind,
                f"x {tally.calls}",
                str(tally.at_once),
                f"{tally.rate:.2f}",
                f"{statistics.median(tally.seconds) * 1000:.0f} ms",
            )
            for kind, tally in self.tallies.items()
        ]

    def holds(self, network: str, node: str, state: str) -> Callable[[], bool]:
        """A condition: the table of `network` gives `node` a slice in `state`."""
        return lambda: any(
            row["nodeName"] == node and row.get("state") == state
            for row in self.stage.table(network)
        )

    def show_slices(self, only: str = "") -> None:
        """Print slices as bars, one block per network."""
        for network in NETWORKS:
            if only in ("", network.name):
                print(f"   {screen.paint(network.name, 'bold')} {network.range}")
                for line in screen.slice_rows(self.stage.slice_rows(network)):
                    print(line)
