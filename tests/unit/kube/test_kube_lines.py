import pytest

from whereabouts_fast.kube.lines import LineLimitError, LineSplitter


def test_lines_come_out_whole_however_they_are_cut() -> None:
    text = b'{"a":1}\n{"b":"x\xc3\xa9"}\n\n  \n{"c":3}\n'
    for size in range(1, len(text) + 1):
        splitter = LineSplitter(100)
        found: list[bytes] = []
        for start in range(0, len(text), size):
            found += splitter.feed(text[start : start + size])
        assert found == [b'{"a":1}', b'{"b":"x\xc3\xa9"}', b'{"c":3}']


def test_an_unfinished_line_is_not_handed_out() -> None:
    splitter = LineSplitter(100)
    assert splitter.feed(b"half") == []
    assert splitter.feed(b" and half\nrest") == [b"half and half"]


def test_a_line_without_end_is_an_error_and_not_all_our_memory() -> None:
    splitter = LineSplitter(1000)
    for _ in range(10):
        splitter.feed(b"x" * 100)
    with pytest.raises(LineLimitError, match="longer than 1000 bytes"):
        splitter.feed(b"x")


def test_the_limit_is_for_one_line_and_not_for_a_chunk() -> None:
    assert len(LineSplitter(10).feed(b"123456789\n" * 50)) == 50
