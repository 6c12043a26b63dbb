"""Label selectors match as those of Kubernetes do, and bad ones say what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.ipam.selectors import SelectorError, parse

LABELS = {
    "role": "worker",
    "kubernetes.io/os": "linux",
    "cores": "16",
    "empty": "",
    "in": "x",
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "role",
        "role=worker",
        "role==worker",
        " role = worker , kubernetes.io/os=linux ",
        "kubernetes.io/os in (linux, windows)",
        "role in (worker),cores",
        "role notin (control-plane)",
        "role!=control-plane",
        "absent!=anything",
        "absent notin (a,b)",
        "!absent",
        "! absent",
        "cores>8",
        "cores < 17",
        "empty=",
        "empty in ()",
        "in in (x)",
        "in",
    ],
)
def test_these_match(text: str) -> None:
    assert parse(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "absent",
        "role=control-plane",
        "role=worker,absent",
        "role in (control-plane,etcd)",
        "role notin (worker)",
        "role!=worker",
        "!role",
        "cores>16",
        "cores<16",
        "role>1",
        "absent<1",
        "absent=",
    ],
)
def test_these_do_not_match(text: str) -> None:
    assert not parse(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "role=worker,",
        ",",
        "=worker",
        "role=wor ker",
        "role worker",
        "role in worker",
        "role in (a",
        "role=a=b",
        "-role",
        "Bad_Prefix/role",
        "a/b/c",
        "role=-x",
        "role=" + "x" * 64,
        "cores>many",
        "cores>",
        "!",
        '{"role":"worker"}',
    ],
)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse(text)


@given(st.text(alphabet="ab=!,<>() \tin", max_size=30) | st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        selector = parse(text)
    except SelectorError:
        return
    selector.matches(LABELS)
