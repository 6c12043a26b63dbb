"""Events as the real API server keeps them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hack.cluster.api import Api, JsonObject
from hack.cluster.server import Cluster
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.events import Recorder
from whereabouts_fast.kube.resource import EVENTS

AGENT = "whereabouts-fast-eventtest/1.0"


def subject(name: str, **metadata: str) -> JsonObject:
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"namespace": "tenant", "name": name, "uid": f"uid-{name}", **metadata},
        "spec": {"config": "{}"},
    }


def events(api: Api, name: str, namespace: str = "tenant") -> list[JsonObject]:
    found = api.list(EVENTS.path(namespace))
    return [event for event in found if event["regarding"]["name"] == name]


@asynccontextmanager
async def running(recorder: Recorder) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run())
        yield
        task.cancel()


async def until_written(api: Api, name: str) -> JsonObject:
    """The first event about `name`, once there is one."""
    await asyncio.to_thread(
        api.wait_for,
        EVENTS.path("tenant"),
        lambda found: any(event["regarding"]["name"] == name for event in found),
    )
    return events(api, name)[0]


async def test_an_event_says_who_what_and_about_whom(api: Api, kubeconfig: Path) -> None:
    async with Client.connect(str(kubeconfig), AGENT) as client:
        recorder = Recorder(client, "whereabouts-fast-controller", instance="pod-1")
        async with running(recorder):
            recorder.event(subject("says"), "Warning", "InvalidNetworkConfig", "range is 'x'")
            event = await until_written(api, "says")
    assert event["type"] == "Warning"
    assert event["reason"] == "InvalidNetworkConfig"
    assert event["note"] == "range is 'x'"
    assert event["reportingController"] == "whereabouts-fast-controller"
    assert event["reportingInstance"] == "pod-1"
    assert event["regarding"] == {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "namespace": "tenant",
        "name": "says",
        "uid": "uid-says",
    }


async def test_the_same_again_counts_up_one_event(api: Api, kubeconfig: Path) -> None:
    async with Client.connect(str(kubeconfig), AGENT) as client:
        recorder = Recorder(client, "controller")
        for _ in range(3):
            recorder.event(subject("again"), "Warning", "Reason", "the same")
        await recorder.flush()
        for _ in range(4):
            recorder.event(subject("again"), "Warning", "Reason", "the same")
        await recorder.flush()
    (event,) = events(api, "again")
    assert event["series"]["count"] == 7
    assert recorder.dropped == 0


async def test_another_message_or_reason_or_object_is_another_event(
    api: Api, kubeconfig: Path
) -> None:
    async with Client.connect(str(kubeconfig), AGENT) as client:
        recorder = Recorder(client, "controller")
        recorder.event(subject("many"), "Warning", "Waiting", "1 node waits")
        await recorder.flush()
        recorder.event(subject("many"), "Warning", "Waiting", "2 nodes wait")
        recorder.event(subject("many"), "Normal", "Other", "1 node waits")
        recorder.event(subject("more"), "Warning", "Waiting", "1 node waits")
        await recorder.flush()
    notes = sorted((event["reason"], event["note"]) for event in events(api, "many"))
    assert notes == [
        ("Other", "1 node waits"),
        ("Waiting", "1 node waits"),
        ("Waiting", "2 nodes wait"),
    ]
    assert len(events(api, "more")) == 1


async def test_an_event_that_the_server_has_forgotten_is_written_anew(
    api: Api, kubeconfig: Path
) -> None:
    async with Client.connect(str(kubeconfig), AGENT) as client:
        recorder = Recorder(client, "controller")
        recorder.event(subject("forgotten"), "Normal", "Reason", "text")
        await recorder.flush()
        (event,) = events(api, "forgotten")
        api.delete(EVENTS.path("tenant", event["metadata"]["name"]))
        recorder.event(subject("forgotten"), "Normal", "Reason", "text")
        await recorder.flush()
    (event,) = events(api, "forgotten")
    assert "series" not in event


async def test_an_object_without_namespace_has_its_events_in_default(
    api: Api, kubeconfig: Path
) -> None:
    reference = {"apiVersion": "v1", "kind": "Node", "name": "bare", "uid": "u"}
    async with Client.connect(str(kubeconfig), AGENT) as client:
        recorder = Recorder(client, "controller")
        recorder.event(reference, "Normal", "Reason", "text")
        await recorder.flush()
    assert len(events(api, "bare", "default")) == 1


async def test_long_names_and_messages_are_cut_to_what_the_server_takes(
    api: Api, kubeconfig: Path
) -> None:
    name = ".".join(["n" * 62] * 4)
    async with Client.connect(str(kubeconfig), AGENT) as client:
        recorder = Recorder(client, "controller")
        recorder.event(subject(name), "Normal", "Reason", "ä" * 5000)
        await recorder.flush()
    (event,) = events(api, name)
    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("ä...")
    assert recorder.dropped == 0


async def test_what_cannot_be_written_is_counted_and_stops_nothing(
    api: Api, cluster: Cluster, kubeconfig: Path
) -> None:
    dropped: list[str] = []
    powerless = cluster.kubeconfig_for(token=cluster.service_account_token("default"))
    async with Client.connect(str(powerless), AGENT) as client:
        recorder = Recorder(client, "controller", hook=dropped.append)
        recorder.event(subject("forbidden"), "Normal", "Reason", "text")
        recorder.event({"kind": "Node"}, "Normal", "Nameless", "text")
        recorder.event({}, "Normal", "Empty", "text")
        await recorder.flush()
    assert dropped == ["Nameless", "Empty", "Reason"]
    assert recorder.dropped == 3
