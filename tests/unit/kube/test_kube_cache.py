from collections.abc import Iterable
from typing import Any

from whereabouts_fast.kube.cache import Cache, object_key

Item = dict[str, Any]


def item(name: str, version: str, **labels: str) -> Item:
    return {"metadata": {"name": name, "resourceVersion": version, "labels": labels}}


def colours(value: Item) -> Iterable[str]:
    labels = value["metadata"]["labels"]
    return [labels["colour"]] if "colour" in labels else []


class Watched:
    """A cache and everything it said."""

    def __init__(self) -> None:
        self.calls: list[tuple[str | None, str | None]] = []
        self.bad: list[tuple[str, str]] = []
        self.sizes: list[int] = []
        self.lists = 0
        self.decoded = 0
        self.cache: Cache[Item] = Cache(
            self.decode,
            {"colour": colours},
            undecodable=lambda key, error: self.bad.append((key, str(error))),
            committed=self.committed,
            resized=self.sizes.append,
        )
        self.cache.add_handler(lambda old, new: self.calls.append((version(old), version(new))))

    def decode(self, raw: Item) -> Item:
        self.decoded += 1
        if "bad" in raw["metadata"]["labels"]:
            raise ValueError("bad label")
        return raw

    def committed(self) -> None:
        self.lists += 1

    def take_list(self, *items: Item) -> None:
        self.cache.begin()
        for each in items:
            self.cache.listed(each)
        self.cache.commit()


def version(value: Item | None) -> str | None:
    return None if value is None else value["metadata"]["resourceVersion"]


def names(values: Iterable[Item]) -> list[str]:
    return [value["metadata"]["name"] for value in values]


def test_keys_hold_the_namespace_where_there_is_one() -> None:
    assert object_key({"metadata": {"name": "n1"}}) == "n1"
    assert object_key({"metadata": {"namespace": "a", "name": "n1"}}) == "a/n1"


def test_handlers_hear_of_creation_change_and_deletion() -> None:
    watched = Watched()
    watched.cache.changed(item("a", "1"))
    watched.cache.changed(item("a", "2"))
    watched.cache.deleted(item("a", "3"))
    assert watched.calls == [(None, "1"), ("1", "2"), ("2", None)]
    assert watched.sizes == [1, 0]


def test_deletes_that_nobody_saw_are_made_up_from_the_next_list() -> None:
    watched = Watched()
    watched.take_list(item("a", "1"), item("b", "2"), item("c", "3", colour="red"))
    watched.calls.clear()
    watched.take_list(item("a", "1"), item("b", "5"))
    assert sorted(watched.calls, key=str) == [("2", "5"), ("3", None)]
    assert watched.cache.keys() == ["a", "b"]
    assert watched.cache.by_index("colour", "red") == []


def test_an_unchanged_object_is_neither_decoded_nor_told_again() -> None:
    watched = Watched()
    watched.take_list(item("a", "1"))
    watched.take_list(item("a", "1"))
    watched.cache.changed(item("a", "1"))
    assert watched.decoded == 1
    assert watched.calls == [(None, "1")]
    assert watched.lists == 2


def test_an_unfinished_list_changes_nothing() -> None:
    watched = Watched()
    watched.take_list(item("a", "1"))
    watched.cache.begin()
    watched.cache.listed(item("b", "2"))
    assert watched.cache.keys() == ["a"]
    watched.take_list(item("c", "3"))
    assert watched.cache.keys() == ["c"]


def test_versions_are_opaque_and_may_go_down() -> None:
    watched = Watched()
    watched.take_list(item("a", "900"))
    watched.take_list(item("a", "7"))
    assert watched.calls == [(None, "900"), ("900", "7")]


def test_indexes_follow_changes_and_keep_nothing_empty() -> None:
    watched = Watched()
    cache = watched.cache
    cache.changed(item("a", "1", colour="red"))
    cache.changed(item("b", "2", colour="red"))
    cache.changed(item("a", "3", colour="blue"))
    assert names(cache.by_index("colour", "red")) == ["b"]
    assert names(cache.by_index("colour", "blue")) == ["a"]
    cache.deleted(item("b", "4"))
    assert cache.by_index("colour", "red") == []
    assert cache._values.named("colour") == ["blue"]


def test_an_index_may_name_a_value_twice() -> None:
    cache: Cache[Item] = Cache(
        lambda raw: raw,
        {"twice": lambda value: ["x", "x"]},
        undecodable=lambda key, error: None,
        committed=lambda: None,
        resized=lambda size: None,
    )
    cache.changed(item("a", "1"))
    assert names(cache.by_index("twice", "x")) == ["a"]
    cache.deleted(item("a", "2"))
    assert cache.by_index("twice", "x") == []


def test_one_undecodable_object_is_reported_and_stops_nobody() -> None:
    watched = Watched()
    watched.take_list(item("a", "1"), item("b", "2", bad="yes"), item("c", "3"))
    assert watched.bad == [("b", "bad label")]
    assert watched.cache.keys() == ["a", "c"]


def test_an_object_that_becomes_undecodable_stays_what_it_was_until_it_is_deleted() -> None:
    watched = Watched()
    watched.cache.changed(item("a", "1"))
    watched.cache.changed(item("a", "2", bad="yes"))
    assert version(watched.cache.get("a")) == "1"
    watched.take_list(item("a", "2", bad="yes"))
    assert version(watched.cache.get("a")) == "1"
    watched.cache.deleted(item("a", "3"))
    assert watched.cache.get("a") is None
    assert watched.calls == [(None, "1"), ("1", None)]


def test_a_late_handler_hears_of_what_is_there() -> None:
    watched = Watched()
    watched.take_list(item("a", "1"), item("b", "2"))
    heard: list[str | None] = []
    watched.cache.add_handler(lambda old, new: heard.append(version(new)))
    assert heard == ["1", "2"]


def test_a_delete_of_something_unknown_is_nothing() -> None:
    watched = Watched()
    watched.cache.deleted(item("a", "1"))
    assert watched.calls == []
