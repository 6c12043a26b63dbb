"""What is left of a configuration when an address is only to be released."""

from __future__ import annotations

from typing import Any

import pytest

from whereabouts_fast.ipam import netconf, ranges

BLUE = {
    "type": "whereabouts",
    "network_name": "blue",
    "range": "10.40.0.0/24",
    "node_slice_size": "/26",
}


def lenient(ipam: Any, flat: Any = None) -> netconf.NetConf:
    return netconf.parse_lenient({"cniVersion": "1.0.0", "name": "net", "ipam": ipam}, flat)


def test_a_type_alone_leaves_the_settings() -> None:
    """T35."""
    conf = lenient({"type": "whereabouts"}, {"kubernetes": {"kubeconfig": "/k"}, "wait_seconds": 1})
    assert conf.networks == ()
    assert (conf.cni_version, conf.name) == ("1.0.0", "net")
    assert (conf.kubeconfig, conf.wait_seconds, conf.hints_dir) == ("/k", 1, "/run/whereabouts")


@pytest.mark.parametrize(
    "wrong",
    [
        {"exclude": ["10.40.0.x"]},
        {"exclude": "x"},
        {"range_start": "10.99.0.0"},
        {"range_end": 5},
        {"gateway": "x"},
        {"routes": 5},
        {"address_cooldown": -1},
    ],
)
def test_a_wrong_value_beside_the_identity_leaves_the_network(wrong: dict[str, Any]) -> None:
    """T35."""
    conf = lenient({**BLUE, **wrong})
    (network,) = conf.networks
    assert network.identity == ("blue", "10.40.0.0/24")
    assert network.slice_size == 26
    assert network.range == ranges.build("10.40.0.0/24")
    assert [problem.key for problem in conf.problems] == [f"ipam.{key}" for key in wrong]


@pytest.mark.parametrize(
    "wrong",
    [
        {"range": "x"},
        {"network_name": 5},
        {"network_name": "Blue_"},
        {"node_slice_size": "x"},
        {"node_slice_size": "/20"},
        {"ipRanges": [{"range": "x"}]},
        {"ipRanges": 5},
    ],
)
def test_a_doubtful_identity_leaves_no_network(wrong: dict[str, Any]) -> None:
    conf = lenient({**BLUE, **wrong})
    assert conf.networks == ()
    assert len(conf.problems) == 1


def test_a_wrong_setting_yields_to_the_flat_file_and_then_to_the_default() -> None:
    flat = {"wait_seconds": 2, "del_deadline_seconds": "x"}
    conf = lenient({**BLUE, "wait_seconds": "x", "del_deadline_seconds": []}, flat)
    assert (conf.wait_seconds, conf.del_deadline_seconds) == (2, 15)
    assert len(conf.problems) == 3


def test_nothing_at_all_leaves_the_defaults() -> None:
    nested: Any = "x"
    for _ in range(100_000):
        nested = [nested]
    huge = {"ipam": {"range": 10**5000}}
    configs: list[object] = [None, [], "x", {}, {"ipam": nested}, huge, nested]
    for config in configs:
        conf = netconf.parse_lenient(config, nested)
        assert conf.networks == ()
        assert conf.del_deadline_seconds == 15
        assert all(str(problem) for problem in conf.problems)
