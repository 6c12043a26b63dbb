"""Names and labels against the patterns of the API server, as regular expressions."""

from __future__ import annotations

import hashlib
import ipaddress
import re

from hypothesis import example, given
from hypothesis import strategies as st

from whereabouts_fast.ipam import naming

# k8s.io/apimachinery/pkg/util/validation
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = re.compile(rf"{PART}(\.{PART})*")

NODES = st.from_regex(SUBDOMAIN, fullmatch=True)
# An IPv4 address inside IPv6 is refused (see address.py).
PLAIN = st.ip_addresses().filter(lambda host: int(host) >> 32 != 0xFFFF)
NETWORKS = PLAIN.flatmap(
    lambda host: st.integers(8, host.max_prefixlen).map(lambda prefix: f"{host}/{prefix}")
)


@given(st.text() | st.text("aZ0-_./ é", max_size=80) | NODES)
@example("")
@example("-" * 64)
@example("a" * 63)
@example("a" * 64)
@example("\ud800")
def test_any_text_has_a_label_value_and_keeps_it_where_it_is_one(text: str) -> None:
    value = naming.label_value(text)
    assert LABEL_VALUE.fullmatch(value)
    assert len(value) <= 63
    if LABEL_VALUE.fullmatch(text) and len(text) <= 63:
        assert value == text
    else:
        assert value.endswith(
            hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        )


@given(st.text("aZ0-_. é", max_size=300) | NODES)
def test_a_text_names_an_object_exactly_when_the_api_server_says_so(text: str) -> None:
    valid = len(text) <= 253 and SUBDOMAIN.fullmatch(text) is not None
    assert naming.is_object_name(text) == valid


@given(NETWORKS, NODES.filter(lambda node: len(node) < 100), st.sampled_from(["", "blue"]))
def test_a_slice_is_named_after_its_network_whatever_host_bits_are_given(
    cidr: str, node: str, network_name: str
) -> None:
    network = str(ipaddress.ip_network(cidr, strict=False))
    name = naming.ip_pool(cidr, network_name, node)
    assert name == naming.ip_pool(network, network_name, node)
    assert SUBDOMAIN.fullmatch(name)
    expected = "-".join(filter(None, [network_name, node, re.sub("[:/]", "-", network)]))
    assert name == expected
