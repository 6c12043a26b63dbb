"""The forms that the shim is built in, and which of them this run is about.

SHIM_FORMS names them, separated by commas: `folder` (Python's core and the shim in one executable,
the rest beside it), `script` (the same where no compiler is: a script starts an interpreter beside
it) and `static` (one executable). A form that was named is tested or the run fails: nothing is left
out because it is not there. Without SHIM_FORMS these are `folder`, and `static` where its compiled
parts are in the cache.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cni import build
from cni.folder import interpreter, linked
from cni.static import link

FOLDER, SCRIPT, STATIC = ALL = "folder", "script", "static"
VARIABLE = "SHIM_FORMS"


def named() -> list[str]:
    """Return the forms to test; raises pytest.UsageError for what is no form."""
    if VARIABLE not in os.environ:
        return [FOLDER] if link.ready() is None else [FOLDER, STATIC]
    forms = [form.strip() for form in os.environ[VARIABLE].split(",")]
    for form in forms:
        if form not in ALL:
            raise pytest.UsageError(
                f"{VARIABLE} names {form!r}: name some of {', '.join(ALL)}, with a comma between"
            )
    return forms


def make(form: str, folder: Path, first: str = "") -> Path:
    """Build one form from the tree as it is; return the executable.

    first: source that runs before the shim's own.
    """
    if form == STATIC:
        found = link.ready()
        # Compiling Python takes minutes: that is no test's business.
        assert found is not None, "Python and OpenSSL are not compiled yet: run `make shim-static`"
        return link.link(found, folder, first=first)
    # A launcher that does not compile must not pass as a machine without a compiler.
    lacking = linked.lacking(interpreter.examine(build.interpreter()))
    return build.build(folder, link=form == FOLDER and not lacking, first=first)
