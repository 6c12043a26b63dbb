"""Reservations as whereabouts and this project write them."""

from __future__ import annotations

from whereabouts_fast.ipam.overlap import Holder
from whereabouts_fast.resources.reservations import decode_reservation, encode_reservation


def test_what_is_encoded_is_decoded_alike() -> None:
    for holder in (Holder("t/p", "c1", "net1"), Holder("t/p"), Holder("")):
        view = decode_reservation(encode_reservation("ipam-system", "10.0.0.5", holder))
        assert (view.name, view.holder) == ("10.0.0.5", holder)


def test_old_versions_recorded_the_pod_alone() -> None:
    raw = {"metadata": {"name": "10.0.0.5", "uid": "u"}, "spec": {"podref": "t/p"}}
    view = decode_reservation(raw)
    assert (view.uid, view.holder) == ("u", Holder("t/p"))
    assert view.holder.agrees(Holder("t/p", "c1", "net1"))
    assert not view.holder.agrees(Holder("t/q", "c1", "net1"))


def test_one_that_cannot_be_read_is_nobodys() -> None:
    raw = {"metadata": {"name": "10.0.0.5", "uid": "u"}, "spec": {"podref": 5}}
    view = decode_reservation(raw)
    assert (view.name, view.uid, view.holder) == ("10.0.0.5", "u", Holder(""))
