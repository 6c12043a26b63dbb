"""Every key of the ipam section, in both modes."""

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
CLASSIC = {"type": "whereabouts", "range": "10.40.0.0/24"}


def plugin(ipam: Any, **more: Any) -> dict[str, Any]:
    return {"cniVersion": "1.0.0", "name": "net", "type": "macvlan", "ipam": ipam, **more}


def parse(ipam: Any = None, /, **keys: Any) -> netconf.NetConf:
    return netconf.parse(plugin({**(BLUE if ipam is None else ipam), **keys}))


def only(conf: netconf.NetConf) -> netconf.Network:
    (network,) = conf.networks
    return network


def test_a_slice_mode_network_has_these_defaults() -> None:
    conf = parse()
    network = only(conf)
    assert network.identity == ("blue", "10.40.0.0/24")
    assert (network.network_name, network.slice_size, network.slice_max) == ("blue", 26, 8)
    assert (network.slice_cooldown, network.address_cooldown) == (60, 30)
    assert network.overlap_check
    assert network.gateway == ""
    assert (conf.cni_version, conf.name) == ("1.0.0", "net")
    assert (conf.wait_seconds, conf.add_deadline_seconds, conf.del_deadline_seconds) == (5, 30, 15)
    assert (conf.hints_dir, conf.kubeconfig) == ("/run/whereabouts", "")
    assert (conf.standalone, conf.overlap_reservations) == (False, "auto")
    assert (conf.log_file, conf.log_level) == ("", "")
    assert (conf.routes, conf.dns, conf.addresses) == ((), {}, ())
    assert (conf.ignored, conf.unknown, conf.problems) == ((), (), ())


def test_a_classic_network_is_named_by_the_cni_name_and_reuses_addresses_at_once() -> None:
    network = only(parse(CLASSIC))
    assert network.identity == ("net", "10.40.0.0/24")
    assert (network.network_name, network.slice_size, network.address_cooldown) == ("", None, 0)


def test_every_key_is_read() -> None:
    conf = parse(
        range_start="10.40.0.5",
        range_end="10.40.0.99",
        exclude=["10.40.0.8/30", "10.40.0.20", "10.40.0.30-10.40.0.39"],
        gateway="10.40.0.50",
        enable_overlapping_ranges=False,
        node_slice_max=2,
        node_slice_cooldown=1.5,
        address_cooldown=0,
        routes=[{"dst": "0.0.0.0/0", "gw": "10.40.0.50", "mtu": 1400}, {"dst": "FD10::/64"}],
        dns={"nameservers": ["10.40.0.53"], "search": ["a.test"], "domain": "", "options": None},
        addresses=[{"address": "10.50.0.7/24", "gateway": "10.50.0.1"}, {"address": "fd10::7/64"}],
        kubernetes={"kubeconfig": "/etc/cni/k"},
        log_file="/var/log/w.log",
        log_level="DEBUG",
        hints_dir="/tmp/hints",
        wait_seconds=0,
        add_deadline_seconds=0.5,
        del_deadline_seconds=1,
        standalone=True,
        overlap_reservations="always",
        configuration_path="/etc/x.conf",
    )
    network = only(conf)
    exclude = ["10.40.0.8-10.40.0.11", "10.40.0.20", "10.40.0.50", "10.40.0.30-10.40.0.39"]
    assert network.range == ranges.build("10.40.0.0/24", "10.40.0.5", "10.40.0.99", exclude)
    assert network.gateway == "10.40.0.50"
    assert not network.overlap_check
    assert (network.slice_max, network.slice_cooldown, network.address_cooldown) == (2, 1.5, 0)
    assert conf.routes == (
        {"dst": "0.0.0.0/0", "gw": "10.40.0.50", "mtu": 1400},
        {"dst": "fd10::/64"},
    )
    assert conf.dns == {"nameservers": ["10.40.0.53"], "search": ["a.test"]}
    assert conf.addresses == (
        {"address": "10.50.0.7/24", "gateway": "10.50.0.1"},
        {"address": "fd10::7/64"},
    )
    assert (conf.kubeconfig, conf.hints_dir) == ("/etc/cni/k", "/tmp/hints")
    assert (conf.log_file, conf.log_level) == ("/var/log/w.log", "debug")
    assert (conf.wait_seconds, conf.add_deadline_seconds, conf.del_deadline_seconds) == (0, 0.5, 1)
    assert (conf.standalone, conf.overlap_reservations) == (True, "always")
    assert conf.unknown == ()


@pytest.mark.parametrize("size", ["/26", "26", 26])
def test_a_slice_size_is_a_text_or_a_number(size: object) -> None:
    """T10."""
    assert only(parse(node_slice_size=size)).slice_size == 26


def test_several_ranges_are_networks_in_order_with_slices_of_equal_size() -> None:
    """T19."""
    more = [{"range": "10.45.0.0/24", "exclude": ["10.45.0.1"]}, {"range": "fd10::/112"}]
    conf = parse(ipRanges=more, gateway="fd10::1")
    assert [n.range.cidr for n in conf.networks] == ["10.40.0.0/24", "10.45.0.0/24", "fd10::/112"]
    assert [n.slice_size for n in conf.networks] == [26, 26, 122]
    assert [n.gateway for n in conf.networks] == ["", "", "fd10::1"]
    assert [n.name for n in conf.networks] == ["blue"] * 3
    first = conf.networks[2].range.next_usable(0)
    assert first == conf.networks[2].range.base + 2


def test_ranges_may_stand_in_the_list_alone() -> None:
    conf = netconf.parse(
        plugin({"ipRanges": [{"range": "10.45.0.0/24"}], "exclude": ["10.45.0.1"]})
    )
    assert only(conf).range == ranges.build("10.45.0.0/24")
    assert conf.unknown == ("exclude",)


def test_an_ipv6_network_takes_its_slice_size_as_it_is() -> None:
    """T9."""
    assert only(parse(range="fd10::/112", node_slice_size="/120")).slice_size == 120


WRONG: dict[str, list[Any]] = {
    "node_slice_size": ["/33", "abc", "", "/-1", "/20", 26.0, True, "26 "],
    "range": ["::ffff:10.0.0.0/120", "10.40.0.0", "blue", 5, ["x"]],
    "range_start": ["10.41.0.0", "fd10::", 7],
    "range_end": ["10.40.1.0", "x"],
    "exclude": ["10.40.0.0/30", {"a": 1}, 5],
    "ipRanges": ["10.45.0.0/24", {"range": "10.45.0.0/24"}],
    "network_name": ["Blue", "blue_1", "b" * 250, "-", 5],
    "gateway": ["10.40.0", "10.40.0.1/24", 5],
    "enable_overlapping_ranges": ["true", 1],
    "node_slice_max": [0, -1, "8", 1.5, True],
    "node_slice_cooldown": [-1, "60", float("nan"), float("inf")],
    "address_cooldown": [-1, True, 10**400],
    "wait_seconds": [-0.1, 86400, []],
    "add_deadline_seconds": [0, -5],
    "del_deadline_seconds": [0, {}],
    "hints_dir": ["run/whereabouts", "/run/\x00", 5],
    "standalone": ["yes", 0],
    "overlap_reservations": ["never"],
    "log_level": ["loud"],
    "log_file": [5],
    "configuration_path": [["x"]],
    "kubernetes": ["/etc/x", []],
    "routes": [{"dst": "0.0.0.0/0"}, "x"],
    "dns": [["10.0.0.1"]],
    "addresses": ["10.0.0.1/24"],
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in WRONG.items() for value in values]
)
def test_a_value_that_cannot_be_right_is_named_with_its_key(key: str, value: object) -> None:
    """T10."""
    with pytest.raises(netconf.ConfigError) as caught:
        parse(**{key: value})
    error = caught.value
    assert error.key == f"ipam.{key}"
    assert f"ipam.{key} " in str(error)
    assert str(error).endswith("; " + error.remedy)
    if isinstance(value, str) and value.isprintable() and len(value) < 100:
        assert value in str(error)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"exclude": ["10.40.0.0/30", "10.40.0.x"]}, 'ipam.exclude "10.40.0.x"'),
        ({"exclude": [None]}, "ipam.exclude null"),
        ({"ipRanges": [None]}, "ipam.ipRanges[0] null"),
        ({"ipRanges": [{}]}, "ipam.ipRanges[0].range is missing"),
        ({"ipRanges": [{"range": "x"}]}, 'ipam.ipRanges[0].range "x"'),
        (
            {"ipRanges": [{"range": "10.45.0.0/24", "range_end": "10.46.0.0"}]},
            'ipam.ipRanges[0].range_end "10.46.0.0"',
        ),
        ({"ipRanges": [{"range": "10.40.0.9/24"}]}, 'ipam.ipRanges[0].range "10.40.0.9/24"'),
        ({"ipRanges": [{"range": "fd10::/124"}]}, 'ipam.node_slice_size "/26"'),
        ({"kubernetes": {"kubeconfig": "k"}}, 'ipam.kubernetes.kubeconfig "k"'),
        ({"routes": [{}]}, "ipam.routes[0].dst is missing"),
        ({"routes": [{"dst": "x"}]}, 'ipam.routes[0].dst "x"'),
        ({"routes": [{"dst": "::/0", "gw": "x"}]}, 'ipam.routes[0].gw "x"'),
        ({"routes": [{"dst": "::/0", "mtu": "9000"}]}, 'ipam.routes[0].mtu "9000"'),
        ({"dns": {"search": [5]}}, "ipam.dns.search 5"),
        ({"addresses": [{"address": "10.0.0.1"}]}, 'ipam.addresses[0].address "10.0.0.1"'),
        (
            {"addresses": [{"address": "10.0.0.1/8", "gateway": "fd10::"}]},
            'ipam.addresses[0].gateway "fd10::"',
        ),
        ({"range": None}, "ipam.range is missing"),
        ({"range": ""}, "ipam.range is missing"),
    ],
)
def test_a_wrong_value_inside_is_named_with_its_place(keys: dict[str, Any], named: str) -> None:
    with pytest.raises(netconf.ConfigError) as caught:
        parse(**keys)
    assert str(caught.value).startswith(named + " " if "missing" not in named else named)


@pytest.mark.parametrize("config", [None, [], "x", {}, {"ipam": None}, {"ipam": "whereabouts"}])
def test_a_configuration_without_ipam_is_one_error(config: object) -> None:
    with pytest.raises(netconf.ConfigError):
        netconf.parse(config)


def test_only_names_that_become_object_names_are_checked() -> None:
    assert only(netconf.parse(plugin(CLASSIC, name="My_Net"))).name == "My_Net"
    assert only(netconf.parse(plugin(BLUE, name="My_Net"))).name == "blue"
    with pytest.raises(netconf.ConfigError, match=r'^name "My_Net" '):
        netconf.parse(plugin({**CLASSIC, "node_slice_size": 26}, name="My_Net"))


def test_a_configuration_without_a_name_takes_the_given_one() -> None:
    assert netconf.parse({"ipam": CLASSIC}, fallback_name="nad").networks[0].name == "nad"
    with pytest.raises(netconf.ConfigError, match="name is missing"):
        netconf.parse({"ipam": CLASSIC})


def test_null_and_empty_texts_count_as_absent() -> None:
    absent = dict.fromkeys(("gateway", "range_start", "log_level", "exclude", "routes", "dns"))
    assert parse(**absent).networks == parse().networks
    empty = dict.fromkeys(("gateway", "range_start", "log_level", "kubernetes", "hints_dir"), "")
    assert parse(**empty).networks == parse().networks
    assert netconf.parse(plugin(BLUE, cniVersion="")).cni_version == "0.1.0"


def test_keys_without_effect_are_told_apart_from_unknown_ones() -> None:
    conf = parse(
        rangeStart="10.40.0.9",
        leader_lease_duration=1500,
        etcd_host="x",
        datastore="kubernetes",
        ipRanges=[{"range": "10.45.0.0/24", "rangeEnd": "x"}],
    )
    assert conf.unknown == ("rangeStart", "ipRanges[0].rangeEnd")
    assert conf.ignored == ("datastore", "etcd_host", "leader_lease_duration")


def test_the_flat_file_supplies_what_the_configuration_leaves_out() -> None:
    flat = {
        "kubernetes": {"kubeconfig": "/etc/flat"},
        "log_level": "info",
        "wait_seconds": 1,
        "reconciler_cron_expression": "30 4 * * *",
    }
    conf = netconf.parse(plugin({**BLUE, "log_level": "debug"}), flat)
    assert (conf.kubeconfig, conf.log_level, conf.wait_seconds) == ("/etc/flat", "debug", 1)
    assert conf.ignored == ("reconciler_cron_expression",)


def test_a_window_in_the_flat_file_belongs_to_the_flat_files_range() -> None:
    flat = {"range": "10.50.0.0/24", "exclude": ["10.50.0.1"], "range_end": "10.50.0.9"}
    assert only(netconf.parse(plugin(BLUE), flat)).range == ranges.build("10.40.0.0/24")
    bare = netconf.parse(plugin({"type": "whereabouts"}), flat)
    assert only(bare).range == ranges.build("10.50.0.0/24", None, "10.50.0.9", ["10.50.0.1"])


def test_a_wrong_value_in_the_flat_file_is_named_as_its() -> None:
    with pytest.raises(netconf.ConfigError, match=r'^flat file: wait_seconds "x" '):
        netconf.parse(plugin(BLUE), {"wait_seconds": "x"})
    with pytest.raises(netconf.ConfigError, match=r"^flat file "):
        netconf.parse(plugin(BLUE), ["x"])


def test_the_flat_files_path_is_found_without_reading_the_rest() -> None:
    assert netconf.configuration_path(plugin({"configuration_path": "/etc/x"})) == "/etc/x"
    wrong = plugin({"configuration_path": 5})
    without: list[object] = [None, [], {}, plugin(None), plugin("x"), wrong]
    for config in without:
        assert netconf.configuration_path(config) == ""
