"""The pages of docs/reference that are made from the code were made from this code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hack.reference import FOLDER, PAGES


@pytest.mark.parametrize(("name", "page"), PAGES.items(), ids=PAGES)
def test_a_page_says_what_the_code_says(name: str, page: Callable[[], str]) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == page(), "run: make reference"
