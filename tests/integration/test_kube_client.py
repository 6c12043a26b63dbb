"""The client against the real API server."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from kubernetes_asyncio.config import incluster_config

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from whereabouts_fast.kube import errors
from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.resource import IPPOOLS, NODES, NODESLICEPOOLS, PODS

NAMESPACE = "ipam-system"
AGENT = "whereabouts-fast-kubetest/1.0"


def pool(name: str) -> Object:
    return {
        "apiVersion": IPPOOLS.api_version,
        "kind": IPPOOLS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"range": "10.40.0.0/26", "allocations": {}},
    }


async def test_objects_are_created_read_changed_and_deleted_in_one_request_each(
    api: Api, cluster: Cluster, kubeconfig: Path
) -> None:
    point = cluster.audit.mark()
    async with Client.connect(str(kubeconfig), AGENT) as client:
        assert client.namespace == NAMESPACE
        created = await client.create(IPPOOLS, NAMESPACE, pool("a"))
        read = await client.get(IPPOOLS, NAMESPACE, "a")
        assert read == created
        read["spec"]["node"] = "n1"
        replaced = await client.replace(IPPOOLS, NAMESPACE, "a", read)
        assert replaced["spec"]["node"] == "n1"
        patched = await client.patch(
            IPPOOLS, NAMESPACE, "a", [{"op": "add", "path": "/spec/closed", "value": True}]
        )
        assert patched["spec"]["closed"] is True
        listed = await client.list(IPPOOLS, NAMESPACE)
        assert [each["metadata"]["name"] for each in listed["items"]] == ["a"]
        await client.delete(IPPOOLS, NAMESPACE, "a", uid=created["metadata"]["uid"])
    counts = cluster.audit.counts(point)
    ours = {key[1:]: n for key, n in counts.items() if key[0].startswith("whereabouts-fast-kube")}
    assert Counter(ours) == Counter(
        {
            ("create", "ippools", 201): 1,
            ("get", "ippools", 200): 1,
            ("update", "ippools", 200): 1,
            ("patch", "ippools", 200): 1,
            ("list", "ippools", 200): 1,
            ("delete", "ippools", 200): 1,
        }
    )


async def test_metadata_only_answers_hold_no_spec(api: Api, kubeconfig: Path) -> None:
    async with Client.connect(str(kubeconfig), AGENT) as client:
        await client.create(IPPOOLS, NAMESPACE, pool("a"))
        patch = [{"op": "add", "path": "/spec/closed", "value": True}]
        for answer in (
            await client.get(IPPOOLS, NAMESPACE, "a", metadata_only=True),
            await client.patch(IPPOOLS, NAMESPACE, "a", patch, metadata_only=True),
            (await client.list(IPPOOLS, NAMESPACE, metadata_only=True))["items"][0],
        ):
            assert answer["metadata"]["name"] == "a"
            assert "spec" not in answer


async def test_what_the_server_refuses_arrives_as_its_own_error(api: Api, kubeconfig: Path) -> None:
    async with Client.connect(str(kubeconfig), AGENT) as client:
        with pytest.raises(errors.NotFound):
            await client.get(IPPOOLS, NAMESPACE, "a")
        with pytest.raises(errors.NotFound):
            await client.patch(IPPOOLS, NAMESPACE, "a", [])
        first = await client.create(IPPOOLS, NAMESPACE, pool("a"))
        with pytest.raises(errors.AlreadyExists):
            await client.create(IPPOOLS, NAMESPACE, pool("a"))
        patch = [{"op": "add", "path": "/spec/closed", "value": True}]
        await client.patch(IPPOOLS, NAMESPACE, "a", patch)
        with pytest.raises(errors.Conflict):
            await client.replace(IPPOOLS, NAMESPACE, "a", first)
        failing = {"op": "test", "path": "/spec/closed", "value": None}
        with pytest.raises(errors.Invalid):
            await client.patch(IPPOOLS, NAMESPACE, "a", [failing])
        with pytest.raises(errors.Invalid):
            await client.create(IPPOOLS, NAMESPACE, {**pool("b"), "spec": {}})
        stale = first["metadata"]["resourceVersion"]
        with pytest.raises(errors.Conflict):
            await client.delete(IPPOOLS, NAMESPACE, "a", resource_version=stale)
        with pytest.raises(errors.Conflict):
            await client.delete(IPPOOLS, NAMESPACE, "a", uid="somebody-else")
        assert await client.get(IPPOOLS, NAMESPACE, "a")
        with pytest.raises(errors.ApiError) as bad:
            await client.list(IPPOOLS, NAMESPACE, field_selector="no.such=field")
        assert bad.value.status == 400


async def test_a_replace_without_a_version_is_refused_before_it_is_sent(kubeconfig: Path) -> None:
    async with Client.connect(str(kubeconfig), AGENT) as client:
        with pytest.raises(ValueError, match="resourceVersion"):
            await client.replace(IPPOOLS, NAMESPACE, "a", pool("a"))


async def test_what_is_forbidden_names_verb_and_resource(cluster: Cluster) -> None:
    token = cluster.service_account_token("default")
    async with Client.connect(str(cluster.kubeconfig_for(token=token)), AGENT) as client:
        with pytest.raises(errors.Forbidden) as refused:
            await client.list(NODESLICEPOOLS, NAMESPACE)
        assert refused.value.verb == "list"
        assert refused.value.resource == "nodeslicepools.whereabouts.cni.cncf.io"
        with pytest.raises(errors.Forbidden):
            async with client.stream(NODES, query={}, silence=5):
                pass


async def test_a_wrong_token_is_unauthorized_and_not_tried_twice(cluster: Cluster) -> None:
    point = cluster.audit.mark()
    wrong = cluster.kubeconfig_for(token="wrong")
    async with Client.connect(str(wrong), AGENT) as client:
        with pytest.raises(errors.Unauthorized):
            await client.get(NODES, None, "n1")
    counts = cluster.audit.counts(point)
    assert sum(n for key, n in counts.items() if key[0].startswith("whereabouts-fast-kube")) == 1


def token_file_kubeconfig(cluster: Cluster, folder: Path) -> tuple[Path, Path]:
    """A kubeconfig that names a token file, and that file."""
    token = folder / "token"
    path = folder / "kubeconfig"
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
clusters:
- name: test
  cluster: {{server: "{cluster.server}/", certificate-authority: {cluster.ca_file}}}
users: [{{name: test, user: {{tokenFile: {token}}}}}]
"""
    )
    return path, token


async def test_a_replaced_token_file_is_read_once_for_all_refused_requests(
    api: Api, cluster: Cluster, tmp_path: Path
) -> None:
    path, token = token_file_kubeconfig(cluster, tmp_path)
    token.write_text("outdated\n")
    async with Client.connect(str(path), AGENT) as client:
        assert client.namespace is None
        token.write_text(cluster.token.strip() + "\n")
        point = cluster.audit.mark()
        await asyncio.gather(*(client.list(NODES) for _ in range(5)))
        await client.list(NODES)
        counts = cluster.audit.counts(point)
    ours = {key[3]: n for key, n in counts.items() if key[0].startswith("whereabouts-fast-kube")}
    assert ours[200] == 6
    assert ours[401] <= 5


async def test_a_torn_credential_file_is_unauthorized_and_later_fine(
    api: Api, cluster: Cluster, tmp_path: Path
) -> None:
    path, token = token_file_kubeconfig(cluster, tmp_path)
    token.write_text("outdated")
    whole = path.read_text()
    async with Client.connect(str(path), AGENT) as client:
        for torn in (whole[:120], "", "][", whole.replace("users:", "losers:")):
            path.write_text(torn)
            with pytest.raises(errors.Unauthorized):
                await client.list(NODES)
        path.write_text(whole)
        token.write_text(cluster.token)
        await client.list(NODES)


async def test_the_in_cluster_configuration_is_found_by_environment_and_files(
    api: Api, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port = cluster.server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (tmp_path / "token").write_text(cluster.token)
    (tmp_path / "ca.crt").symlink_to(cluster.ca_file)
    (tmp_path / "namespace").write_text("ipam-system")
    async with Client.connect(None, AGENT, service_account=tmp_path) as client:
        assert client.namespace == "ipam-system"
        await client.list(NODES)


async def test_a_torn_token_of_the_pod_is_unauthorized_and_later_fine(
    api: Api, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port = cluster.server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    # The file is read again once a minute; here at each request.
    monkeypatch.setattr(incluster_config, "TOKEN_REFRESH_PERIOD", timedelta(0))
    token = tmp_path / "token"
    token.write_text(cluster.token)
    (tmp_path / "ca.crt").symlink_to(cluster.ca_file)
    async with Client.connect(None, AGENT, service_account=tmp_path) as client:
        assert client.namespace is None
        for torn in (b"", b"\xff\xfe", b"one\ntwo", "\u00fc".encode(), b"x\0y"):
            token.write_bytes(torn)
            with pytest.raises(errors.Unauthorized):
                await client.list(NODES)
        token.unlink()
        with pytest.raises(errors.Unauthorized, match="cannot be read"):
            await client.list(NODES)
        token.write_text(cluster.token)
        await client.list(NODES)


async def test_an_exec_plugin_is_asked_again_when_its_token_is_refused(
    api: Api, cluster: Cluster, tmp_path: Path
) -> None:
    path, token = token_file_kubeconfig(cluster, tmp_path)
    version = "client.authentication.k8s.io/v1"
    script = tmp_path / "plugin"
    script.write_text(
        f"""#!/bin/sh
echo >> {tmp_path}/calls
printf '{{"apiVersion":"{version}","kind":"ExecCredential",'
printf '"status":{{"token":"%s"}}}}' "$(cat {token})"
"""
    )
    script.chmod(0o755)
    by_file = f"tokenFile: {token}"
    by_plugin = f"exec: {{apiVersion: {version}, command: {script}}}"
    path.write_text(path.read_text().replace(by_file, by_plugin))
    token.write_text("expired")
    async with Client.connect(str(path), AGENT) as client:
        token.write_text(cluster.token)
        await asyncio.gather(*(client.list(NODES) for _ in range(4)))
        await client.list(NODES)
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


async def test_without_any_configuration_the_error_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(errors.ConfigurationError, match="--kubeconfig"):
        async with Client.connect(None, AGENT, service_account=tmp_path):
            pass


def _no_context(text: str) -> str:
    return text.replace("current-context", "current-kontext")


def _no_ca(text: str) -> str:
    return text.replace("certificate-authority: ", "certificate-authority: /no/such")


@pytest.mark.parametrize(
    "spoil", [lambda text: "", lambda text: "[", lambda text: "a: b", _no_context, _no_ca]
)
async def test_an_unusable_kubeconfig_is_an_error_naming_the_file(
    spoil: Callable[[str], str], cluster: Cluster, tmp_path: Path
) -> None:
    path, token = token_file_kubeconfig(cluster, tmp_path)
    token.write_text("x")
    path.write_text(spoil(path.read_text()))
    with pytest.raises(errors.ConfigurationError, match=str(path)):
        async with Client.connect(str(path), AGENT):
            pass


async def test_a_missing_kubeconfig_is_an_error_naming_the_file() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"/no/such/file.*no such file"):
        async with Client.connect("/no/such/file", AGENT):
            pass


async def test_a_stopped_server_is_unreachable_and_back_when_it_is(own_cluster: Cluster) -> None:
    heard: list[tuple[str, str]] = []
    async with Client.connect(
        str(own_cluster.kubeconfig),
        AGENT,
        hook=lambda method, code, s: heard.append((method, code)),
    ) as client:
        await client.list(NODES)
        own_cluster.stop_server()
        with pytest.raises(errors.Unreachable):
            await client.list(NODES)
        with pytest.raises(errors.Unreachable):
            async with client.stream(NODES, query={}, silence=5):
                pass
        own_cluster.start_server()
        await client.list(NODES)
    assert heard == [("GET", "200"), ("GET", "<error>"), ("GET", "<error>"), ("GET", "200")]


async def test_a_watch_that_is_cut_is_unreachable(own_cluster: Cluster) -> None:
    async def watch(client: Client) -> None:
        async with client.stream(NODES, query={}, silence=30) as batches:
            own_cluster.stop_server()
            async for _ in batches:
                pass

    async with Client.connect(str(own_cluster.kubeconfig), AGENT) as client:
        with pytest.raises(errors.Unreachable):
            await watch(client)


async def test_pods_are_kept_apart_by_namespace(api: Api, kubeconfig: Path) -> None:
    async with Client.connect(str(kubeconfig), AGENT) as client:
        for namespace in ("default", "tenant"):
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            await client.create(PODS, namespace, body)
        assert len((await client.list(PODS))["items"]) == 2
        assert len((await client.list(PODS, "tenant"))["items"]) == 1
