"""Of the client library only what is used is imported, and nobody else notices."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def test_the_controller_imports_no_models() -> None:
    code = (
        "import sys, whereabouts_fast.controller.process\n"
        "print([m for m in sys.modules if m.startswith('kubernetes_asyncio.client.models.')])"
    )
    assert run(code) == "[]"


def test_who_imports_the_library_later_gets_all_of_it() -> None:
    code = (
        "from whereabouts_fast.kube import library\n"
        "import kubernetes_asyncio\n"
        "from kubernetes_asyncio.client import ApiClient, V1Pod\n"
        "print(V1Pod.__name__, ApiClient is library.ApiClient)"
    )
    assert run(code) == "V1Pod True"


def test_a_library_that_was_imported_before_is_used_as_it_is() -> None:
    code = (
        "from kubernetes_asyncio.client import ApiClient\n"
        "from whereabouts_fast.kube import library\n"
        "print(ApiClient is library.ApiClient)"
    )
    assert run(code) == "True"


def test_a_library_made_otherwise_is_imported_whole() -> None:
    code = (
        "import sys\n"
        "sys.modules['kubernetes_asyncio.client.configuration'] = None\n"
        "try:\n"
        "    from whereabouts_fast.kube import library\n"
        "finally:\n"
        "    print('kubernetes_asyncio.client.models.v1_pod' in sys.modules)"
    )
    assert run(code) == "True"
