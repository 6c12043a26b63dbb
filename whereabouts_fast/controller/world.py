"""What the controller knows: four informers, with its own latest writes laid over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from whereabouts_fast.controller.poolmap import PoolMap
from whereabouts_fast.controller.recent import Recent
from whereabouts_fast.controller.tablemap import TableMap
from whereabouts_fast.ipam.holdings import NodeSeen
from whereabouts_fast.ipam.leaks import Allocation
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.hooks import WatchHook
from whereabouts_fast.kube.informer import Informer
from whereabouts_fast.kube.resource import IPPOOLS, NADS, NODES, NODESLICEPOOLS
from whereabouts_fast.resources.attachments import AttachmentView, decode_attachment
from whereabouts_fast.resources.nodes import NodeView, decode_node
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.tables import TableView

T = TypeVar("T")


@dataclass(slots=True)
class Changes:
    """Who is told of what; each called on the event loop, to enqueue keys and nothing else."""

    networks: Callable[[], None] = lambda: None
    pool: Callable[[PoolView], None] = lambda _: None
    table: Callable[[TableView], None] = lambda _: None
    nodes: Callable[[], None] = lambda: None
    labels: Callable[[NodeView, NodeView], None] = lambda _, __: None
    used: Callable[[PoolView | None, PoolView | None], None] = lambda _, __: None
    # Of each node and of each pool about which a plan may find anything else than before.
    node: Callable[[str], None] = lambda _: None
    moved: Callable[[PoolView | None, PoolView | None], None] = lambda _, __: None


@dataclass(slots=True)
class World:
    """The caches of one process and, for each term of leadership, the memory of its writes."""

    namespace: str
    nodes: Informer[NodeView]
    attachments: Informer[AttachmentView]
    tables: Informer[TableView]
    pools: Informer[PoolView]
    latest_tables: TableMap
    latest_pools: PoolMap
    # Pools that stand in the way of others of their name -> the address spaces that wait for them.
    blocking: dict[str, set[str]] = field(default_factory=dict)
    # Entries of pools that somebody deleted although they had any, by name.
    lost: dict[str, tuple[Allocation, ...]] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)
    _nodes_seen: tuple[NodeSeen, ...] | None = None

    @classmethod
    def watching(cls, client: Client, namespace: str, hook: WatchHook | None = None) -> World:
        """Build the informers; none runs yet."""
        latest_tables = TableMap(lambda key: tables.get(key))
        latest_pools = PoolMap(
            lambda key: pools.get(key), lambda old, new: world.changes.moved(old, new)
        )
        tables = Informer(
            client, NODESLICEPOOLS, decode=latest_tables.decode, namespace=namespace, hook=hook
        )
        pools = Informer(
            client, IPPOOLS, decode=latest_pools.decode, namespace=namespace, hook=hook
        )
        world = cls(
            namespace=namespace,
            nodes=Informer(client, NODES, decode=decode_node, metadata_only=True, hook=hook),
            attachments=Informer(client, NADS, decode=decode_attachment, hook=hook),
            tables=tables,
            pools=pools,
            latest_tables=latest_tables,
            latest_pools=latest_pools,
        )
        world.nodes.add_handler(world._node_changed)
        world.attachments.add_handler(world._attachment_changed)
        world.tables.add_handler(world._table_changed)
        world.pools.add_handler(world._pool_changed)
        return world

    @property
    def informers(
        self,
    ) -> tuple[
        Informer[NodeView], Informer[AttachmentView], Informer[TableView], Informer[PoolView]
    ]:
        """All informers, to run and to wait for."""
        return self.nodes, self.attachments, self.tables, self.pools

    def begin_term(self, changes: Changes) -> None:
        """Forget what was written in an earlier term, and tell `changes` from now on.

        Another may have led since; the caches have its writes by now or will get them, and
        whatever is planned from older data fails its conditions.
        """
        self.latest_tables.begin_term()
        self.latest_pools.begin_term()
        self.blocking = {}
        self.changes = changes

    def end_term(self) -> None:
        """Tell nobody any more."""
        self.changes = Changes()

    def nodes_seen(self) -> tuple[NodeSeen, ...]:
        """Return all listed nodes, those being deleted too."""
        if self._nodes_seen is None:
            self._nodes_seen = tuple(node.seen() for node in self.nodes.values())
        return self._nodes_seen

    @property
    def recent_tables(self) -> Recent[TableView]:
        """The memory of writes to tables in this term."""
        return self.latest_tables.recent

    @property
    def recent_pools(self) -> Recent[PoolView]:
        """The memory of writes to pools in this term."""
        return self.latest_pools.recent

    def all_tables(self) -> list[TableView]:
        """Return all slice tables, as last written or seen."""
        return self.latest_tables.values()

    def table(self, name: str) -> TableView | None:
        """Return one slice table, as last written or seen."""
        return self.latest_tables.get(f"{self.namespace}/{name}")

    def entries_lost(self, name: str) -> tuple[Allocation, ...]:
        """Return what a pool held that is to be created now, when somebody deleted it.

        The informer may not have shown yet that it is gone.
        """
        cached = self.pools.get(f"{self.namespace}/{name}")
        return self.lost.get(name, () if cached is None else cached.entries)

    def pools_of(self, space: str) -> list[PoolView]:
        """Return the readable pools that may be of one address space, as last written or seen."""
        return self.latest_pools.of(space)

    def pools_on(self, node: str) -> list[PoolView]:
        """Return the slice pools that are known to be a node's, as last written or seen."""
        return self.latest_pools.on(node)

    def pool(self, name: str) -> PoolView | None:
        """Return one pool, as last written or seen."""
        return self.latest_pools.get(f"{self.namespace}/{name}")

    # Handlers: they pass on only what can change a plan.

    def _node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        # Kubelets touch their nodes all the time; only coming, going, age and labels matter.
        one = new or old
        if one is not None and (old is None or new is None or _differ(old, new)):
            self.changes.node(one.name)
        if old is None or new is None or old.created != new.created:
            self._nodes_seen = None
            self.changes.nodes()
        elif old.labels != new.labels:
            self.changes.labels(old, new)

    def _attachment_changed(self, old: AttachmentView | None, new: AttachmentView | None) -> None:
        if (
            old is None
            or new is None
            or (old.uid, old.config, old.problem, old.node_selector)
            != (new.uid, new.config, new.problem, new.node_selector)
        ):
            self.changes.networks()

    def _table_changed(self, old: TableView | None, new: TableView | None) -> None:
        if self.latest_tables.observe(old, new):
            return
        for table in _present(old, new):
            self.changes.table(table)
        if old is None or new is None or (old.range, old.problem) != (new.range, new.problem):
            self.changes.networks()

    def _pool_changed(self, old: PoolView | None, new: PoolView | None) -> None:
        if old is None and new is not None:
            self.lost.pop(new.name, None)
        elif old is not None and new is None:
            self.lost[old.name] = old.entries
            if not old.entries:
                del self.lost[old.name]
        known = self.latest_pools.observe(old, new)
        # What we wrote may hold what others wrote before.
        self.changes.used(old, new)
        if not known:
            self.tell_of_pool(old, new)

    def tell_of_pool(self, old: PoolView | None, new: PoolView | None) -> None:
        """Tell of a change that no plan made, unless it changes none."""
        if old is None or new is None or _relevant(old) != _relevant(new):
            for pool in _present(old, new):
                self.changes.pool(pool)


def _differ(old: NodeView, new: NodeView) -> bool:
    return (old.created, old.labels) != (new.created, new.labels)


def _relevant(pool: PoolView) -> tuple[object, ...]:
    # Addresses come and go in open pools all the time; whether that changes a plan is asked apart.
    seen = replace(pool.seen(), taken=())
    return (pool.uid, seen if pool.closed else replace(seen, empty=False))


def _present(*objects: T | None) -> list[T]:
    return [one for one in objects if one is not None]
