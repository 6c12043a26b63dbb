"""The reflector over hours, with a clock that jumps and answers written down beforehand."""

import asyncio

import pytest

from tests.unit.kube.jumping import run
from tests.unit.kube.scripted import ScriptedClient, bookmark, event, failure
from whereabouts_fast.kube import errors
from whereabouts_fast.kube.client import Object
from whereabouts_fast.kube.reflector import Reflector
from whereabouts_fast.kube.resource import NODES


class Names:
    """A sink that keeps names, and what was said of restarts."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.collected: set[str] = set()
        self.lists = 0
        self.reasons: list[str] = []

    def begin(self) -> None:
        self.collected = set()

    def listed(self, item: Object) -> None:
        self.collected.add(item["metadata"]["name"])

    def commit(self) -> None:
        self.names = self.collected
        self.lists += 1

    def changed(self, item: Object) -> None:
        self.names.add(item["metadata"]["name"])

    def deleted(self, item: Object) -> None:
        self.names.discard(item["metadata"]["name"])

    def restarted(self, resource: str, reason: str, error: errors.ApiError | None) -> None:
        self.reasons.append(reason)

    def cached(self, resource: str, objects: int) -> None: ...

    def synced(self, resource: str) -> None: ...

    def undecodable(self, resource: str, key: str, error: Exception) -> None: ...


def reflect(client: ScriptedClient, seconds: float, *, chance: float = 1.0) -> Names:
    names = Names()

    async def main() -> None:
        reflector = Reflector(
            client.as_client(), NODES, names, hook=names, chance=lambda: min(chance, 0.999)
        )
        try:
            async with asyncio.timeout(seconds):
                await reflector.run()
        except TimeoutError:
            pass

    run(main())
    return names


def test_one_request_lists_and_goes_on_as_the_watch() -> None:
    script: list[Object | float] = [
        event("ADDED", "a", "1"),
        event("ADDED", "b", "2"),
        bookmark("5", end=True),
        event("ADDED", "c", "6"),
        event("DELETED", "a", "7"),
        400.0,
    ]
    client = ScriptedClient(lambda n: script if n == 0 else None)
    names = reflect(client, 300)
    assert names.names == {"b", "c"}
    assert len(client.queries) == 1
    assert client.queries[0]["sendInitialEvents"] == "true"
    assert client.queries[0]["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in client.queries[0]


def test_a_watch_resumes_from_the_last_version_seen_be_it_only_a_bookmark_s() -> None:
    scripts: list[list[Object | float]] = [
        [bookmark("5", end=True), event("ADDED", "a", "6"), 60.0],
        [60.0, bookmark("90"), 60.0],
        [60.0],
    ]
    client = ScriptedClient(lambda n: scripts[n] if n < len(scripts) else None)
    names = reflect(client, 1000)
    assert [query.get("resourceVersion") for query in client.queries] == [None, "6", "90", "90"]
    assert names.lists == 1
    assert names.reasons == ["closed"] * 3


def test_a_server_that_closes_at_once_gets_few_requests() -> None:
    client = ScriptedClient(lambda n: [bookmark("5", end=True)] if n == 0 else [])
    names = reflect(client, 3600)
    # 0.8 + 1.6 + ... up to the ceiling of 30 s, and then one each 30 s.
    assert 110 <= len(client.queries) <= 130
    assert set(names.reasons) == {"short"}


def test_a_server_that_sends_an_event_and_closes_at_once_gets_few_requests_too() -> None:
    client = ScriptedClient(
        lambda n: [bookmark("5", end=True)] if n == 0 else [event("ADDED", f"n{n}", str(n))]
    )
    reflect(client, 3600)
    assert len(client.queries) <= 130


def test_watches_ask_to_be_ended_after_five_to_ten_minutes() -> None:
    for chance, seconds in ((0.0, "300"), (0.5, "450"), (0.999, "599")):
        client = ScriptedClient(lambda n: None)
        reflect(client, 10, chance=chance)
        assert client.queries[0]["timeoutSeconds"] == seconds
        assert client.queries[0]["allowWatchBookmarks"] == "true"


@pytest.mark.parametrize(
    "expired", [errors.Gone(410, "Expired", "too old"), failure(410, "Expired")]
)
def test_an_expired_version_is_listed_again_and_missed_deletes_come_out(
    expired: Exception | Object,
) -> None:
    scripts: list[list[Object | float] | Exception] = [
        [event("ADDED", "a", "1"), event("ADDED", "b", "2"), bookmark("5", end=True), 60.0],
        [expired] if isinstance(expired, dict) else expired,
        [event("ADDED", "b", "2"), event("ADDED", "c", "99"), bookmark("100", end=True), 60.0],
    ]
    client = ScriptedClient(lambda n: scripts[n] if n < len(scripts) else None)
    names = reflect(client, 100)
    assert names.names == {"b", "c"}
    assert names.lists == 2
    assert names.reasons[:2] == ["closed", "expired"]
    assert [query.get("resourceVersion") for query in client.queries[:3]] == [None, "5", None]


def test_a_list_that_expires_again_and_again_is_no_storm() -> None:
    client = ScriptedClient(lambda n: [failure(410, "Expired")])
    reflect(client, 3600)
    assert len(client.queries) <= 130


def test_a_list_by_stream_that_breaks_begins_anew() -> None:
    scripts: list[list[Object | float]] = [
        [event("ADDED", "a", "1"), 60.0],
        [event("ADDED", "b", "2"), bookmark("5", end=True), 60.0],
    ]
    client = ScriptedClient(lambda n: scripts[n] if n < len(scripts) else None)
    assert reflect(client, 100).names == {"b"}


@pytest.mark.parametrize(
    "refusal",
    [
        errors.Invalid(422, "Invalid", "sendInitialEvents: Forbidden"),
        errors.ApiError(400, "BadRequest", "unknown"),
        [failure(500, "InternalError")],
        # A server that does not know the parameter begins a plain watch.
        [event("ADDED", "old", "1"), 60.0, bookmark("3")],
    ],
)
def test_a_server_without_streaming_lists_is_listed_by_pages(
    refusal: Exception | list[Object | float],
) -> None:
    pages: list[Object] = [
        {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [_named("a")]},
        {"metadata": {"resourceVersion": "9"}, "items": [_named("b")]},
    ]
    client = ScriptedClient(lambda n: refusal if n == 0 else None, lambda n: pages[n])
    names = reflect(client, 100)
    assert names.names == {"a", "b"}
    assert client.tokens == [None, "more"]
    assert client.queries[1]["resourceVersion"] == "9"
    assert "sendInitialEvents" not in client.queries[1]
    assert names.reasons == ["unsupported"]


def test_an_expired_continue_token_restarts_the_pages() -> None:
    pages: list[Object | Exception] = [
        {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [_named("gone")]},
        errors.Gone(410, "Expired", "the continue token is too old"),
        {"metadata": {"resourceVersion": "20", "continue": "again"}, "items": [_named("a")]},
        {"metadata": {"resourceVersion": "20"}, "items": [_named("b")]},
    ]
    client = ScriptedClient(
        lambda n: errors.Invalid(422, "Invalid", "") if n == 0 else None, lambda n: pages[n]
    )
    names = reflect(client, 100)
    assert names.names == {"a", "b"}
    assert client.tokens == [None, "more", None, "again"]
    assert client.queries[1]["resourceVersion"] == "20"


def test_the_server_s_wish_to_wait_is_longer_than_our_pause() -> None:
    busy = errors.TooManyRequests(429, "TooManyRequests", "", retry_after=45)
    client = ScriptedClient(lambda n: busy if n == 0 else None)
    reflect(client, 100)
    assert client.at[1] - client.at[0] == pytest.approx(45, abs=0.01)


@pytest.mark.parametrize(
    "nonsense", [{}, {"type": "ADDED"}, {"type": "ADDED", "object": None}, {"object": {}}]
)
def test_nonsense_in_place_of_an_event_is_a_broken_watch(nonsense: Object) -> None:
    client = ScriptedClient(lambda n: [nonsense] if n == 0 else None)
    assert reflect(client, 100).reasons == ["broken"]


def _named(name: str) -> Object:
    return {"metadata": {"name": name, "resourceVersion": "1"}}
