"""Hints, marks and the lock, without any server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni import hints, jsontext
from cni.deadline import Deadline
from cni.errors import CniError
from cni.lock import Lock
from cni.marks import Marks
from cni.version import VERSION
from whereabouts_fast.ipam.pool import Entry

IDENTITY = ("blue", "10.40.0.0/24")


def hint_with_one_pool() -> hints.Hint:
    hint = hints.Hint("n1")
    hint.known = True
    hint.configs = ["blue"]
    one = hints.Pool("blue-n1-10.40.0.0-26", "10.40.0.0/26")
    one.closed = False
    one.take_over({1: Entry("c1", "t/p1", "net1", "u1"), 2: Entry("c2", "t/p2", "net1")})
    one.freed = {7: 12.5}
    hint.pools = [one]
    return hint


def test_the_version_told_to_the_server_is_the_packages_own() -> None:
    assert version("whereabouts-fast") == VERSION


def test_a_hint_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    store = hints.Store(str(tmp_path / "hints"), IDENTITY, "n1")
    store.save(hint_with_one_pool())
    found = store.load()
    assert found.known
    assert found.configs == ["blue"]
    (one,) = found.pools
    assert (one.name, one.cidr) == ("blue-n1-10.40.0.0-26", "10.40.0.0/26")
    assert (one.closed, one.overlapping, one.fresh) == (False, False, False)
    assert one.records[1] == ["c1", "net1", "t/p1", "u1", 1, "", ""]
    assert one.freed == {7: 12.5}
    assert found.find("c2", "net1") == (one, 2)
    assert found.find("c2", "net2") is None
    assert found.find_pod("t/p1", "u1", "net1") == (one, 1)
    assert found.find_pod("t/p2", "", "net1") is None  # a uid nobody knows equals no other


def test_the_directory_and_the_file_are_for_the_owner_only(tmp_path: Path) -> None:
    store = hints.Store(str(tmp_path / "hints"), IDENTITY, "n1")
    store.save(hint_with_one_pool())
    assert (tmp_path / "hints").stat().st_mode & 0o777 == 0o700
    (file,) = (tmp_path / "hints").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_directory_of_somebody_else_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "hints"
    store = hints.Store(str(folder), IDENTITY, "n1")
    store.save(hint_with_one_pool())
    monkeypatch.setattr("posix.geteuid", lambda: os.geteuid() + 1)
    assert not hints.Store(str(folder), IDENTITY, "n1").load().known
    assert hints.holders(str(folder), "c1", "net1", "") == []


def test_networks_whose_hint_knows_an_attachment_are_found(tmp_path: Path) -> None:
    folder = str(tmp_path / "hints")
    hints.Store(folder, IDENTITY, "n1").save(hint_with_one_pool())
    (tmp_path / "hints" / "other.json").write_text("nonsense")
    assert hints.holders(folder, "c1", "net1", "blue") == [IDENTITY]
    assert hints.holders(folder, "c1", "net1", "") == [IDENTITY]
    assert hints.holders(folder, "c1", "net1", "green") == []
    assert hints.holders(folder, "c9", "net1", "blue") == []
    assert hints.holders(str(tmp_path / "nowhere/else"), "c1", "net1", "") == []


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.integers(0, 7))
def test_a_hostile_hint_is_a_hint_or_absent(value: object, place: int) -> None:
    boot = hints.boot_id()
    data: list[object] = [hints.SCHEMA, boot, *IDENTITY, "n1", [], [], 0.0]
    data[place] = value
    for content in (value, data):
        path = Path("/dev/shm") / f"hint-{os.getpid()}"
        path.write_bytes(jsontext.encode(content))
        found = hints.read_hint(str(path), boot)
        path.unlink()
        assert found is None or found[1].known


def test_moments_beyond_all_numbers_can_be_written_again(tmp_path: Path) -> None:
    store = hints.Store(str(tmp_path / "hints"), IDENTITY, "n1")
    store.save(hint_with_one_pool())
    (file,) = (tmp_path / "hints").iterdir()
    file.write_text(file.read_text().replace("12.5", "-1e999").replace("0.0]", "1e999]"))
    found = store.load()
    assert found.known
    store.save(found)
    assert max(store.load().contact, store.load().pools[0].freed[7]) <= hints.now()


@given(st.binary(max_size=100))
def test_hostile_bytes_are_json_or_an_error(raw: bytes) -> None:
    try:
        value = jsontext.parse(raw)
    except jsontext.JsonError:
        return
    assert json.loads(raw) == value


@pytest.mark.parametrize("raw", [b"NaN", b"[Infinity]", b"-Infinity", b"[" * 100000, b"1" * 5000])
def test_what_only_python_takes_for_json_is_refused(raw: bytes) -> None:
    with pytest.raises(jsontext.JsonError):
        jsontext.parse(raw)


def test_names_of_files_are_short_and_differ() -> None:
    texts = ["a b@c", "a_b@c", "x" * 300, "x" * 299 + "y", "é", "e", "../../etc"]
    names = [hints.file_name(text) for text in texts]
    assert len(set(names)) == len(texts)
    assert all(len(name.encode()) < 220 and "/" not in name for name in names)


def test_a_mark_is_seen_by_what_began_before_it(tmp_path: Path) -> None:
    marks = Marks(str(tmp_path / "hints"))
    before = time.monotonic()
    assert not marks.since("c1", "net1", before)
    marks.leave("c1", "net1", 60)
    assert marks.since("c1", "net1", before)
    assert not marks.since("c1", "net1", time.monotonic())
    assert not marks.since("c1", "net2", before)
    assert not marks.since("c2", "net1", before)


def test_a_mark_from_before_a_reboot_is_ignored(tmp_path: Path) -> None:
    marks = Marks(str(tmp_path / "hints"))
    marks.leave("c1", "net1", 60)
    (file,) = (tmp_path / "hints/del").iterdir()
    future = time.monotonic_ns() + 10**12
    os.utime(file, ns=(future, future))
    assert not marks.since("c1", "net1", 0)


def test_old_marks_are_swept_when_there_are_many(tmp_path: Path) -> None:
    marks = Marks(str(tmp_path / "hints"))
    for number in range(100):
        marks.leave(f"c{number}", "net1", 3600)
    folder = tmp_path / "hints/del"
    assert len(list(folder.iterdir())) == 100
    marks.leave("last", "net1", 0)
    assert len(list(folder.iterdir())) <= 1


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_is_waited_for_until_the_deadline(tmp_path: Path) -> None:
    path, fallback = tmp_path / "lock", tmp_path / "kubeconfig"
    fallback.write_text("")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with (
            pytest.raises(CniError) as failure,
            Lock(str(path), str(fallback), Deadline(time.monotonic(), 0.2)),
        ):
            pytest.fail("two hold the lock")
        assert failure.value.code == 11
    with Lock(str(path), str(fallback), Deadline(time.monotonic(), 30)):
        pass


def test_without_a_directory_the_kubeconfig_is_the_lock(tmp_path: Path) -> None:
    fallback = tmp_path / "kubeconfig"
    fallback.write_text("")
    with (
        Lock("/dev/null/lock", str(fallback), Deadline(time.monotonic(), 30)),
        pytest.raises(CniError) as failure,
        Lock("", str(fallback), Deadline(time.monotonic(), 0.1)),
    ):
        pytest.fail("two hold the lock")
    assert failure.value.code == 11
    with pytest.raises(CniError) as failure, Lock("", "/nonexistent", Deadline(0, 1)):
        pass
    assert failure.value.code == 5
