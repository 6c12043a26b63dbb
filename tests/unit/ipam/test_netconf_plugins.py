"""Finding our plugins in the config of a NetworkAttachmentDefinition."""

from __future__ import annotations

import pytest

from whereabouts_fast.ipam import netconf

IPAM = {"type": "whereabouts", "range": "10.41.0.0/24", "node_slice_size": "/26"}
MACVLAN = {"type": "macvlan", "master": "eth1", "ipam": IPAM}


@pytest.mark.parametrize("ipam_first", [False, True])
def test_any_member_of_a_list_may_be_ours(ipam_first: bool) -> None:
    """T3."""
    plugins = [{"type": "sbr"}, {"type": "ipvlan", "name": "inner", "ipam": IPAM}]
    if ipam_first:
        plugins.reverse()
    config = {"cniVersion": "1.0.0", "name": "green", "plugins": plugins}
    (found,) = netconf.ipam_configs(config)
    assert found == {"cniVersion": "1.0.0", "name": "green", "type": "ipvlan", "ipam": IPAM}
    runtime = {**found, "prevResult": {}, "runtimeConfig": {}}
    assert netconf.parse(found).networks == netconf.parse(runtime).networks


def test_a_list_without_a_name_leaves_the_name_to_the_nad() -> None:
    (found,) = netconf.ipam_configs({"plugins": [{**MACVLAN, "name": "inner"}]})
    assert netconf.parse(found, fallback_name="nad").networks[0].name == "nad"


def test_each_member_that_is_ours_is_found() -> None:
    found = netconf.ipam_configs({"name": "x", "plugins": [MACVLAN, {"type": "sbr"}, MACVLAN]})
    assert len(found) == 2


def test_a_single_plugin_is_taken_as_it_is() -> None:
    assert netconf.ipam_configs(MACVLAN) == [MACVLAN]


@pytest.mark.parametrize(
    "config",
    [
        None,
        "",
        " \n",
        {"type": "macvlan"},
        {"type": "macvlan", "ipam": {}},
        {"type": "macvlan", "ipam": None},
        {"type": "macvlan", "ipam": {"type": "host-local", "ranges": [[{"subnet": "x"}]]}},
        {"type": "macvlan", "ipam": {"type": "static", "addresses": 5}},
        {"plugins": [{"type": "sbr"}, {"type": "ipvlan", "ipam": {"type": "dhcp"}}]},
    ],
)
def test_what_is_not_ours_is_passed_over_silently(config: object) -> None:
    """T10."""
    assert netconf.ipam_configs(config) == []


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({}, "type"),
        ({"name": "x"}, "type"),
        ({"name": "x", "plugins": []}, "plugins"),
        ({"name": "x", "plugins": None}, "plugins"),
        ({"name": "x", "plugins": {"type": "sbr"}}, "plugins"),
        ({"plugins": [None]}, "plugins[0]"),
        ({"plugins": [{"type": "sbr"}, 5]}, "plugins[1]"),
        ({"plugins": [{"type": "sbr"}, {}]}, "plugins[1].type"),
        ({"type": "macvlan", "ipam": "whereabouts"}, "ipam"),
        ({"plugins": [{"type": "macvlan", "ipam": [IPAM]}]}, "plugins[0].ipam"),
        ([MACVLAN], "config"),
        ("{not json", "config"),
        (5, "config"),
    ],
)
def test_what_no_runtime_could_use_is_refused_by_key(config: object, key: str) -> None:
    """T10."""
    with pytest.raises(netconf.ConfigError) as caught:
        netconf.ipam_configs(config)
    assert caught.value.key == key
    assert str(caught.value).startswith(key + " ")
