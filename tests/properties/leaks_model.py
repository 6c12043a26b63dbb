"""A cluster as the collector of leaks sees it: what is true, and what its caches say meanwhile."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import Callable
from typing import Any, cast

from whereabouts_fast.controller.announce import SliceEvents
from whereabouts_fast.controller.leaks import Leaks
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.releases import Releases
from whereabouts_fast.controller.reservations import Reservations
from whereabouts_fast.controller.usage import Usage
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam.leaks import Graces
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import Invalid, NotFound, Unreachable
from whereabouts_fast.kube.resource import IPPOOLS, NODES, PODS, Resource
from whereabouts_fast.kube.workqueue import RetryAfter
from whereabouts_fast.resources.pods import NETWORK_STATUS

GRACES = Graces(usual=15.0, lost=300.0)
SLOWEST_ADD = 60.0  # from an ADD's write to the network-status that names its address
SYSTEM = "ipam-system"
RANGES = {"blue-n1-10.40.0.0-29": "n1", "blue-n2-10.40.0.8-29": "n2", "grey-10.41.0.0-29": ""}
OFFSETS = range(1, 6)


class Death:
    """When an attachment's pod ceased to live, and on which node it was."""

    def __init__(self, at: float, node: str) -> None:
        self.at = at
        self.node = node


class Truth:
    """The API server's objects, and what is behind them."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.versions = itertools.count(1)
        self.pods: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, bool] = {"n1": True, "n2": True}
        self.pools = {name: self._pool(name, node) for name, node in RANGES.items()}
        self.events: dict[Resource, list[tuple[str, dict[str, Any]]]] = {PODS: [], IPPOOLS: []}
        self.in_use: dict[tuple[str, int], str] = {}  # (pool, offset) -> uid of the pod in it
        self.dead: dict[tuple[str, int], Death] = {}
        self.unnamed: list[tuple[float, str, str, int]] = []
        self.released = 0

    def _pool(self, name: str, node: str) -> dict[str, Any]:
        network, _, tail = name.partition("-")
        cidr = tail.removeprefix(f"{node}-")
        spec = {"range": f"{cidr[:-3]}/29", "allocations": {}, "network": network, "node": node}
        return self._stored(name, SYSTEM, spec=spec)

    def _stored(self, name: str, namespace: str, **body: Any) -> dict[str, Any]:
        version = str(next(self.versions))
        meta = {"name": name, "namespace": namespace, "uid": f"uid-{version}"}
        return {"metadata": {**meta, "resourceVersion": version}, **body}

    def _changed(self, resource: Resource, raw: dict[str, Any]) -> None:
        raw["metadata"]["resourceVersion"] = str(next(self.versions))
        finished = raw.get("status", {}).get("phase") == "Failed"
        kind = "DELETED" if resource is PODS and finished else "MODIFIED"
        self.events[resource].append((kind, copy.deepcopy(raw)))

    # What happens in the cluster.

    def start_pod(self, name: str, node: str, mirror: bool) -> None:
        notes = {"kubernetes.io/config.hash": f"hash-{next(self.versions)}"} if mirror else {}
        raw = self._stored(name, "tenant", spec={"nodeName": node}, status={"phase": "Running"})
        raw["metadata"]["annotations"] = notes
        self.pods[name] = raw
        self._changed(PODS, raw)

    def end_pod(self, name: str, *, finished: bool) -> None:
        raw = self.pods[name]
        if finished:
            raw["status"]["phase"] = "Failed"
            self._changed(PODS, raw)
        else:
            del self.pods[name]
            self.events[PODS].append(("DELETED", copy.deepcopy(raw)))
        uid = raw["metadata"]["uid"]
        for place in [place for place, user in self.in_use.items() if user == uid]:
            del self.in_use[place]
            self.dead[place] = Death(self.now, RANGES[place[0]] or raw["spec"]["nodeName"])

    def lives(self, name: str) -> bool:
        return name in self.pods and self.pods[name]["status"]["phase"] == "Running"

    def add(self, name: str, pool: str, *, with_uid: bool) -> None:
        """An ADD for a pod's one interface; what it had in this range before is in use no more."""
        raw, taken = self.pods[name], self.pools[pool]["spec"]["allocations"]
        free = next((n for n in OFFSETS if str(n) not in taken), None)
        if free is None:
            return
        uid, notes = raw["metadata"]["uid"], raw["metadata"]["annotations"]
        for place, user in list(self.in_use.items()):
            if user == uid and place[0].partition("-")[0] == pool.partition("-")[0]:
                del self.in_use[place]
                self.dead[place] = Death(self.now, "")
        entry = {"id": f"c{next(self.versions)}", "podref": f"tenant/{name}", "ifname": "net1"}
        if with_uid:
            entry["uid"] = notes.get("kubernetes.io/config.hash", uid)
        if not RANGES[pool] and with_uid:
            entry["node"] = raw["spec"]["nodeName"]
        taken[str(free)] = entry
        self.in_use[pool, free] = uid
        self.dead.pop((pool, free), None)
        self._changed(IPPOOLS, self.pools[pool])
        self.unnamed.append((self.now + SLOWEST_ADD, name, uid, free))

    def delete_late(self) -> str:
        """A DEL for what is in use no more; return the pool that it was in."""
        for pool, offset in self.leaked()[:1]:
            del self.pools[pool]["spec"]["allocations"][offset]
            self.dead.pop((pool, int(offset)))
            self._changed(IPPOOLS, self.pools[pool])
            return pool
        return ""

    def record_foreign(self, podref: str, pool: str) -> None:
        """An entry of a pod that never was."""
        taken = self.pools[pool]["spec"]["allocations"]
        free = next((n for n in OFFSETS if str(n) not in taken), None)
        if free is not None:
            taken[str(free)] = {"id": f"c{next(self.versions)}", "podref": podref, "uid": "never"}
            self.dead[pool, free] = Death(self.now, RANGES[pool])
            self._changed(IPPOOLS, self.pools[pool])

    def name_addresses(self, *, all_: bool) -> None:
        """Write the network-status of pods whose ADDs are over, or of all."""
        for one in [one for one in self.unnamed if all_ or one[0] <= self.now]:
            self.unnamed.remove(one)
            raw = self.pods.get(one[1])
            if raw is None or raw["metadata"]["uid"] != one[2]:
                continue
            ips = [
                f"{self.pools[pool]['spec']['range'][:-4]}{self._last(pool) + offset}"
                for (pool, offset), user in self.in_use.items()
                if user == one[2]
            ]
            raw["metadata"]["annotations"][NETWORK_STATUS[0]] = json.dumps([{"ips": ips}])
            self._changed(PODS, raw)

    def _last(self, pool: str) -> int:
        return int(self.pools[pool]["spec"]["range"].partition("/")[0].rpartition(".")[2])

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.name_addresses(all_=False)

    def runs_unseen(self, node: str) -> bool:
        return not self.nodes.get(node, False)

    def leaked(self) -> list[tuple[str, str]]:
        return [
            (pool, offset)
            for pool, raw in self.pools.items()
            for offset in raw["spec"]["allocations"]
            if (pool, int(offset)) not in self.in_use
        ]

    # What the collector's patch does, with the rules that never bend.

    def patch(self, name: str, ops: list[dict[str, Any]]) -> dict[str, Any]:
        taken = self.pools[name]["spec"]["allocations"]
        for op in ops:
            path = op["path"].split("/")[2:]
            if path[0] != "allocations":
                continue
            entry = taken.get(path[1])
            if op["op"] == "test":
                if entry is None or entry.get(path[2]) != op["value"]:
                    raise Invalid(422, "Invalid", "a test failed")
            else:
                self._judge(name, int(path[1]))
                del taken[path[1]]
        self._changed(IPPOOLS, self.pools[name])
        return self.pools[name]

    def _judge(self, pool: str, offset: int) -> None:
        place = (pool, offset)
        assert place not in self.in_use, f"{place} was released, and a live pod uses it"
        death = self.dead.pop(place)
        gone = self.now - death.at
        assert gone >= GRACES.usual, f"{place} was released {gone} s after its pod had gone"
        if death.node and self.runs_unseen(death.node):
            assert gone >= GRACES.lost, f"{place} was released while its node is lost"
        self.released += 1


class ModelClient:
    """Requests as the collector makes them; `before` and `fault` are called ahead of each."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.before: Callable[[], None] = lambda: None
        self.fault: Callable[[], str] = lambda: ""

    async def get(
        self, resource: Resource, _: str | None, name: str, *, metadata_only: bool = False
    ) -> dict[str, Any]:
        self._arrive()
        if resource is NODES and name in self.truth.nodes:
            status = "True" if self.truth.nodes[name] else "Unknown"
            return {"status": {"conditions": [{"type": "Ready", "status": status}]}}
        objects = {PODS: self.truth.pods, IPPOOLS: self.truth.pools}.get(resource, {})
        if name not in objects:
            raise NotFound(404, "NotFound", name)
        return copy.deepcopy(objects[name])

    async def patch(
        self, _: Resource, __: str, name: str, ops: list[dict[str, Any]], **___: object
    ) -> dict[str, Any]:
        fault = self._arrive()
        answer = copy.deepcopy(self.truth.patch(name, ops))
        if fault == "answer lost":
            raise Unreachable("Unreachable", fault)
        return answer

    def _arrive(self) -> str:
        self.before()
        fault = self.fault()
        if fault == "not sent":
            raise Unreachable("Unreachable", fault)
        return fault


class Counters:
    """Candidates by reason, as the metrics count them."""

    def __init__(self) -> None:
        self.candidates = 0

    def leak_candidates(self, _: str, change: int) -> None:
        self.candidates += change

    def leak_released(self, _: str) -> None:
        """Nobody looks."""


class Collector:
    """The real loop over the caches of one process, with time and events in the model's hand."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.model = ModelClient(truth)
        client = cast("Client", self.model)
        self.world = World.watching(client, SYSTEM)
        self.usage = Usage.watching(client, self.world)
        self.due: dict[str, float] = {}
        self.counters = Counters()
        pools = Pools(client, self.world, lambda *_: None)
        reservations = Reservations(client, SYSTEM, lambda *_: None)
        events = SliceEvents(lambda *_: None)
        releases = Releases(self.world, self.usage, pools, reservations, events, self.counters)
        self.leaks = Leaks(
            client,
            self.usage,
            releases,
            GRACES,
            self.later,
            self.counters,
            in_flight=4,
            again=600.0,
            clock=lambda: truth.now,
        )
        self.unseen = {kind: len(events) for kind, events in truth.events.items()}
        for raw in truth.pools.values():
            self.world.pools._cache.changed(copy.deepcopy(raw))
        for name, raw in truth.pods.items():
            if truth.lives(name):
                self.usage.pods._cache.changed(copy.deepcopy(raw))
        self.usage.changed = self.leaks.consider
        self.sweep()

    def later(self, key: str, seconds: float) -> None:
        due = self.truth.now + seconds
        self.due[key] = min(self.due.get(key, due), due)

    def see(self, resource: Resource, count: int) -> None:
        """Deliver so many more events of one watch."""
        cache = (self.usage.pods if resource is PODS else self.world.pools)._cache
        for _ in range(count):
            if self.unseen[resource] == len(self.truth.events[resource]):
                return
            kind, raw = self.truth.events[resource][self.unseen[resource]]
            self.unseen[resource] += 1
            if kind == "DELETED":
                cache.deleted(copy.deepcopy(raw))
            else:
                cache.changed(copy.deepcopy(raw))

    def sweep(self) -> None:
        for podref in self.usage.podrefs():
            self.leaks.consider(podref)

    async def work(self) -> None:
        """Do all that is due."""
        for key in [key for key, due in self.due.items() if due <= self.truth.now]:
            del self.due[key]
            try:
                outcome = await self.leaks.reconcile(key)
            except (Unreachable, NotFound):
                self.later(key, 1.0)
            else:
                if isinstance(outcome, RetryAfter):
                    self.later(key, max(outcome.seconds, 0.01))
        # Timers of events that were told.
        await asyncio.sleep(0)
