"""The forms that the shim is built in, and which of them this run is about.

SHIM_FORMS names them, separated by commas: `folder` (the default: bytecode beside a launcher) and
`static` (one executable). A form that was named is tested or the run fails: nothing is left out
because it is not there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cni import build
from cni.static import base, link

FOLDER, STATIC = "folder", "static"
VARIABLE = "SHIM_FORMS"


def named() -> list[str]:
    """Return the forms to test; raises pytest.UsageError for what is no form."""
    forms = [form.strip() for form in os.environ.get(VARIABLE, FOLDER).split(",")]
    for form in forms:
        if form not in (FOLDER, STATIC):
            raise pytest.UsageError(
                f"{VARIABLE} names {form!r}: name {FOLDER}, {STATIC}, or both with a comma"
            )
    return forms


def make(form: str, folder: Path) -> Path:
    """Build one form from the tree as it is; return the executable."""
    if form == FOLDER:
        return build.build(folder)
    found = base.find()
    # Compiling Python takes minutes: that is no test's business.
    assert found is not None, "Python and OpenSSL are not compiled yet: run `make shim-static`"
    return link.link(found, folder)
