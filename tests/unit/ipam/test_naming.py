"""Names as whereabouts gives them, so that its objects are found."""

from __future__ import annotations

import pytest

from whereabouts_fast.ipam import naming


def test_pools_have_the_names_that_whereabouts_gives() -> None:
    assert naming.ip_pool("10.40.0.7/24") == "10.40.0.0-24"
    assert naming.ip_pool("10.40.0.0/24", "blue") == "blue-10.40.0.0-24"
    assert naming.ip_pool("10.40.0.64/26", node="n1") == "n1-10.40.0.64-26"
    assert naming.ip_pool("10.40.0.64/26", "blue", "n1") == "blue-n1-10.40.0.64-26"


def test_only_an_ending_colon_is_completed() -> None:
    assert naming.ip_pool("fd10::/64") == "fd10---64"
    assert naming.reservation("fd10::") == "fd10--0"
    assert naming.reservation("FD10::", "blue") == "blue-fd10--0"
    assert naming.reservation("fd10::1") == "fd10--1"
    assert naming.reservation("10.40.0.7", "blue") == "blue-10.40.0.7"


def test_slice_pools_have_a_plain_and_a_long_name() -> None:
    assert naming.slice_pool("macvlan") == "macvlan"
    assert naming.slice_pool_long("macvlan", "10.44.0.9/24") == "macvlan-10.44.0.0-24"
    assert naming.slice_pool_long("macvlan", "fd10::/112") == "macvlan-fd10---112"


@pytest.mark.parametrize("name", ["Blue", "blue_1", "blue.", "-blue", "", "b" * 254, "blué"])
def test_a_name_that_kubernetes_refuses_is_an_error_naming_it(name: str) -> None:
    with pytest.raises(naming.InvalidNameError) as caught:
        naming.slice_pool(name)
    assert caught.value.name == name
    assert name in str(caught.value)


def test_the_whole_name_counts_not_its_parts() -> None:
    node = "n" * 240
    assert naming.ip_pool("10.0.0.0/8", node=node).startswith(node)
    with pytest.raises(naming.InvalidNameError):
        naming.ip_pool("10.0.0.0/8", "blue", node)
    with pytest.raises(naming.InvalidNameError):
        naming.reservation("::1")
    assert naming.reservation("::1", "blue") == "blue---1"


def test_a_long_node_name_keeps_its_beginning_in_its_label() -> None:
    node = "node-" + "a" * 100
    value = naming.label_value(node)
    assert value.startswith(node[:46] + "-")
    assert len(value) == 63
    assert naming.label_value(node + "b") != value


def test_a_text_of_invalid_characters_is_labelled_by_its_digest_alone() -> None:
    assert len(naming.label_value("___")) == 16
    assert naming.label_value("ä_b") == "b-" + naming.label_value("ä_b")[2:]
