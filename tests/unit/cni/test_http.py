"""Requests as one write, answers read whole or refused, however the bytes come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni import http


def read(raw: bytes, step: int = 1 << 16) -> http.Answer:
    """Read an answer whose bytes come `step` at a time, then the end."""
    pieces = [raw[at : at + step] for at in range(0, len(raw), step)]
    return http.read_answer(lambda: pieces.pop(0) if pieces else b"")


SIZED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"1\r\n{\r\n1;ignored=yes\r\n}\r\n0\r\nTrailer: x\r\n\r\n"
)


def test_a_request_is_one_write_with_its_length() -> None:
    raw = http.encode("PATCH", "/x", {"Host": "h"}, b"[]")
    assert raw == b"PATCH /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n[]"


def test_a_header_value_cannot_smuggle_another_header() -> None:
    with pytest.raises(ValueError, match="Authorization"):
        http.encode("GET", "/x", {"Authorization": "Bearer a\r\nEvil: yes"})


@pytest.mark.parametrize("raw", [SIZED, CHUNKED])
@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_an_answer_is_the_same_however_its_bytes_come(raw: bytes, step: int) -> None:
    answer = read(raw, step)
    assert (answer.status, answer.body) == (200, b"{}")


def test_interim_answers_are_passed_over() -> None:
    assert read(b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED).status == 200


@pytest.mark.parametrize(
    ("head", "closing"),
    [
        (b"HTTP/1.1 200 OK\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", True),
        (b"HTTP/1.0 200 OK\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", False),
    ],
)
def test_the_server_says_whether_the_connection_lives_on(head: bytes, closing: bool) -> None:
    assert read(head + b"Content-Length: 0\r\n\r\n").closing == closing


@pytest.mark.parametrize("cut", range(1, len(SIZED)))
def test_every_cut_of_a_sized_answer_is_noticed(cut: int) -> None:
    with pytest.raises(http.HttpError, match="cut off"):
        read(SIZED[:cut])


@pytest.mark.parametrize("cut", range(1, len(CHUNKED)))
def test_every_cut_of_a_chunked_answer_is_noticed(cut: int) -> None:
    with pytest.raises(http.HttpError):
        read(CHUNKED[:cut])


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n{}", "no length"),
        (b"HTTP/2 200\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 abc\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "colon"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "content length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "larger"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "gzip"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", "larger"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 70000, "endless"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 17, "final"),
    ],
)
def test_what_is_no_whole_answer_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(http.HttpError, match=why):
        read(raw)


@given(st.binary(max_size=300), st.integers(0, len(CHUNKED)), st.integers(1, 50))
def test_hostile_bytes_are_an_answer_or_an_error(noise: bytes, at: int, step: int) -> None:
    try:
        read(CHUNKED[:at] + noise, step)
    except http.HttpError:
        pass
