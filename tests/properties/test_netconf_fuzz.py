"""Configurations as wrong as JSON can be: one kind of error, or a value that can be used."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.ipam import naming, netconf

KEYS = [
    *("type", "range", "range_start", "range_end", "exclude", "ipRanges", "node_slice_size"),
    *("network_name", "gateway", "routes", "dns", "addresses", "enable_overlapping_ranges"),
    *("kubernetes", "configuration_path", "log_file", "log_level", "node_slice_max"),
    *("node_slice_cooldown", "address_cooldown", "hints_dir", "wait_seconds", "standalone"),
    *("add_deadline_seconds", "del_deadline_seconds", "overlap_reservations", "etcd_host"),
    *(
        "kubeconfig",
        "dst",
        "gw",
        "mtu",
        "address",
        "nameservers",
        "search",
        "rangeStart",
        "etcd_\ud800",
        "\x1b",
    ),
]
TEXTS = st.sampled_from(
    [
        *("", " ", "whereabouts", "10.40.0.0/24", "10.40.0.5-10.40.0.9/24", "fd10::/64"),
        *("10.40.0.9", "fd10::1", "::ffff:10.0.0.0/120", "/26", "26", "/-1", "blue", "Blue_"),
        *("/run/x", "auto", "debug", "a" * 300, "\ud800", "\x00", "::/0", "::1/128"),
    ]
) | st.text(max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-1, 200)
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
SECTIONS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8)
LIKELY = st.fixed_dictionaries(
    {"type": st.just("whereabouts"), "range": TEXTS},
    optional={key: VALUES for key in KEYS if key not in ("type", "range")},
)
PLUGINS = st.fixed_dictionaries(
    {}, optional={"type": VALUES, "name": VALUES, "cniVersion": VALUES, "ipam": LIKELY | VALUES}
)
LISTS = st.fixed_dictionaries(
    {"plugins": st.lists(PLUGINS | VALUES, max_size=3) | VALUES}, optional={"name": VALUES}
)


def assert_usable(conf: netconf.NetConf) -> None:
    for network in conf.networks:
        assert network.name
        assert naming.ip_pool(network.range.cidr, network.network_name, "n")
        if network.slice_size is not None:
            assert naming.slice_pool(network.name)
            part = network.range.slice(network.range.base, network.slice_size)
            assert part.size <= network.range.size
        assert network.gateway == "" or (":" in network.gateway) == (network.range.version == 6)
    assert conf.wait_seconds >= 0
    assert conf.add_deadline_seconds > 0
    texts = (
        conf.name,
        conf.kubeconfig,
        conf.hints_dir,
        conf.log_file,
        *conf.ignored,
        *conf.unknown,
    )
    assert all(text.isprintable() for text in texts)


def assert_says_what_is_wrong(error: netconf.ConfigError) -> None:
    sentence = str(error)
    assert error.key in sentence
    assert error.remedy in sentence
    assert sentence.isprintable()
    assert len(sentence) < 1000


@given(PLUGINS | VALUES, st.none() | SECTIONS | VALUES, st.sampled_from(["", "nad"]))
def test_a_configuration_is_read_or_refused_with_key_and_remedy(
    config: Any, flat: Any, name: str
) -> None:
    lenient = netconf.parse_lenient(config, flat, name)
    assert_usable(lenient)
    try:
        strict = netconf.parse(config, flat, name)
    except netconf.ConfigError as error:
        assert_says_what_is_wrong(error)
        reported = [str(problem) for problem in lenient.problems]
        assert reported[0] == str(error)  # noqa: PT017 (either outcome is right)
    else:
        assert strict.networks
        assert_usable(strict)
        assert strict.problems == lenient.problems == ()
        assert strict.networks == lenient.networks
    assert netconf.configuration_path(config).isprintable()


@given(PLUGINS | LISTS | VALUES)
def test_the_config_of_a_nad_is_ours_or_not_or_refused(config: Any) -> None:
    try:
        found = netconf.ipam_configs(config)
    except netconf.ConfigError as error:
        assert_says_what_is_wrong(error)
        found = []
    for plugin in found:
        assert plugin["ipam"]["type"] == "whereabouts"
        netconf.parse_lenient(plugin)
