"""Own writes stay visible until the informer delivers them, in whatever order things arrive."""

from __future__ import annotations

from dataclasses import dataclass

from whereabouts_fast.controller.recent import Recent


@dataclass(frozen=True)
class Thing:
    key: str
    uid: str
    resource_version: str


A1, A2, A3 = Thing("a", "u", "1"), Thing("a", "u", "2"), Thing("a", "u", "3")
NEXT = Thing("a", "v", "9")


def written(recent: Recent[Thing], thing: Thing, *, created: bool = False) -> None:
    write = recent.begin(thing.key)
    recent.wrote(write, thing, created=created)
    recent.end(write)


def deleted(recent: Recent[Thing], thing: Thing) -> None:
    write = recent.begin(thing.key)
    recent.deleted(write, thing.uid)
    recent.end(write)


def read(recent: Recent[Thing], live: Thing | None, cached: Thing | None) -> None:
    write = recent.begin("a")
    recent.correct(write, live, cached)
    recent.end(write)


def test_a_written_object_is_seen_before_the_informer_has_it() -> None:
    recent: Recent[Thing] = Recent()
    written(recent, A2)
    assert recent.latest("a", A1) == A2
    assert recent.observe(A1, A2) is True
    assert recent.latest("a", A3) == A3


def test_an_event_that_comes_before_the_answer_is_not_remembered_again() -> None:
    recent: Recent[Thing] = Recent()
    write = recent.begin("a")
    recent.observe(A1, A2)
    recent.observe(A2, A3)
    recent.wrote(write, A2)
    recent.end(write)
    assert recent.latest("a", A3) == A3


def test_any_version_of_an_object_we_created_is_newer_than_its_creation() -> None:
    recent: Recent[Thing] = Recent()
    written(recent, A1, created=True)
    assert recent.latest("a", None) == A1
    assert recent.observe(None, A3) is False
    assert recent.latest("a", A3) == A3


def test_a_deleted_object_stays_deleted_while_old_events_arrive() -> None:
    recent: Recent[Thing] = Recent()
    deleted(recent, A2)
    assert recent.observe(A1, A2) is True
    assert recent.latest("a", A2) is None
    assert recent.observe(A2, None) is True
    assert recent.latest("a", None) is None


def test_a_successor_of_a_deleted_object_is_seen() -> None:
    recent: Recent[Thing] = Recent()
    deleted(recent, A2)
    assert recent.latest("a", NEXT) == NEXT
    assert recent.observe(A2, NEXT) is False


def test_a_deletion_that_comes_before_its_answer_is_not_remembered() -> None:
    recent: Recent[Thing] = Recent()
    write = recent.begin("a")
    recent.observe(A2, None)
    recent.deleted(write, A2.uid)
    recent.end(write)
    assert recent.latest("a", A1) == A1


def test_somebody_elses_deletion_of_what_we_wrote_is_seen() -> None:
    recent: Recent[Thing] = Recent()
    written(recent, A2)
    assert recent.observe(A1, None) is False
    assert recent.latest("a", None) is None


def test_versions_that_cannot_be_ordered_are_settled_by_a_live_read() -> None:
    recent: Recent[Thing] = Recent()
    written(recent, A2)
    recent.observe(A1, A3)
    assert list(recent.doubtful(0)) == ["a"]
    assert recent.latest("a", A3) == A2
    read(recent, A3, A3)
    assert recent.latest("a", A3) == A3
    assert list(recent.doubtful(0)) == []


def test_a_live_read_ahead_of_the_cache_is_remembered() -> None:
    recent: Recent[Thing] = Recent()
    written(recent, A1)
    recent.observe(None, Thing("a", "u", "0"))
    read(recent, A3, A1)
    assert recent.latest("a", A1) == A3
    recent.observe(A1, A3)
    assert recent.latest("a", None) is None


def test_what_a_live_read_did_not_find_is_gone_whatever_the_cache_says() -> None:
    recent: Recent[Thing] = Recent()
    read(recent, None, A1)
    assert recent.latest("a", A1) is None
    assert recent.latest("a", NEXT) == NEXT
    assert recent.observe(A1, None) is True
    assert recent.latest("a", None) is None


def test_a_live_read_that_the_informer_overtook_is_not_remembered() -> None:
    recent: Recent[Thing] = Recent()
    write = recent.begin("a")
    recent.observe(A1, A2)
    recent.observe(A2, A3)
    recent.correct(write, A2, A3)
    recent.end(write)
    assert recent.latest("a", A3) == A3
