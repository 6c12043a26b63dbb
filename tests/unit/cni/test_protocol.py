"""Environment and standard input become a request or an error, whatever they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni import protocol, results
from cni.errors import CniError

ENVIRONMENT = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "c1",
    "CNI_NETNS": "/var/run/netns/x",
    "CNI_IFNAME": "net1",
}


def test_the_pod_is_read_from_the_arguments_in_any_order_and_repeated() -> None:
    arguments = (
        "IgnoreUnknown=true;K8S_POD_UID=u1;K8S_POD_NAME=p;K8S_POD_NAMESPACE=t;FOO=a=b;"
        "K8S_POD_NAME=p;IgnoreUnknown=1"
    )
    request = protocol.read_environment({**ENVIRONMENT, "CNI_ARGS": arguments})
    assert (request.podref, request.pod_uid) == ("t/p", "u1")


def test_outside_kubernetes_there_is_no_pod() -> None:
    request = protocol.read_environment(ENVIRONMENT)
    assert (request.podref, request.pod_uid) == ("/", "")


@pytest.mark.parametrize("value", ["1", "t", "T", "true", "TRUE", "True"])
def test_unknown_arguments_may_be_ignored(value: str) -> None:
    arguments = f"FOO=1;IgnoreUnknown={value}"
    protocol.read_environment({**ENVIRONMENT, "CNI_ARGS": arguments})


@pytest.mark.parametrize("arguments", ["FOO=1", "FOO", "FOO=1;IgnoreUnknown=0", "=;=", "x" * 9999])
def test_arguments_never_stop_a_del(arguments: str) -> None:
    protocol.read_environment({**ENVIRONMENT, "CNI_COMMAND": "DEL", "CNI_ARGS": arguments})


def test_a_del_needs_no_namespace() -> None:
    environment = {**ENVIRONMENT, "CNI_COMMAND": "DEL", "CNI_NETNS": ""}
    assert protocol.read_environment(environment).verb == "DEL"


@pytest.mark.parametrize("version", [None, ""])
def test_no_version_means_the_first_one(version: str | None) -> None:
    request = protocol.read_environment(ENVIRONMENT)
    protocol.read_config(request, json.dumps({"cniVersion": version, "name": "x"}).encode())
    assert request.version == "0.1.0"


@given(
    st.dictionaries(
        st.sampled_from([*ENVIRONMENT, "CNI_ARGS", "NODENAME"]),
        st.text() | st.sampled_from(["ADD", "DEL", "VERSION", "c1", "net1", "\udcff"]),
    ),
    st.binary(max_size=60) | st.sampled_from([b"{}", b'{"name":"x"}', b'{"cniVersion":[]}']),
)
def test_hostile_input_is_a_request_or_an_error_that_can_be_printed(
    environment: dict[str, str], raw: bytes
) -> None:
    try:
        request = protocol.read_environment(environment)
        protocol.read_config(request, raw)
    except CniError as error:
        shown = results.error_result("1.1.0", error)
        assert set(shown) <= {"cniVersion", "code", "msg", "details"}
        assert "\n" not in str(shown["msg"])
        json.dumps(shown)
    assert isinstance(protocol.asked_version(raw), str)


def test_long_messages_are_cut() -> None:
    shown = results.error_result("1.1.0", CniError(7, "a\nb" + "x" * 5000))
    assert str(shown["msg"]).startswith("a b")
    assert len(str(shown["msg"])) == 1000


def test_routes_and_gateways_go_to_their_family_in_old_results() -> None:
    addresses = [results.Address("10.0.0.1/24", "10.0.0.254"), results.Address("fd00::1/64")]
    routes: list[dict[str, object]] = [{"dst": "0.0.0.0/0"}, {"dst": "::/0", "gw": "fd00::2"}]
    assert results.add_result("0.2.0", addresses, routes, {}) == {
        "cniVersion": "0.2.0",
        "ip4": {"ip": "10.0.0.1/24", "gateway": "10.0.0.254", "routes": [{"dst": "0.0.0.0/0"}]},
        "ip6": {"ip": "fd00::1/64", "routes": [{"dst": "::/0", "gw": "fd00::2"}]},
    }


def test_new_keys_of_routes_are_only_for_new_readers() -> None:
    addresses = [results.Address("10.0.0.1/24")]
    routes: list[dict[str, object]] = [{"dst": "0.0.0.0/0", "mtu": 1400, "table": 7}]
    new = results.add_result("1.1.0", addresses, routes, {})
    assert new["routes"] == routes
    assert results.add_result("1.0.0", addresses, routes, {})["routes"] == [{"dst": "0.0.0.0/0"}]
