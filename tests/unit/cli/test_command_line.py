"""Exit codes, help and lazy imports of the console script."""

from __future__ import annotations

import subprocess
import sys

import pytest

from whereabouts_fast.cli import main as cli
from whereabouts_fast.settings import ControllerSettings, describe


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["controller", "--help"]])
def test_help_and_version_succeed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 0
    assert "whereabouts-fast" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [[], ["bogus"], ["controller", "--bogus"], ["controller", "--listen", "x"]]
)
def test_wrong_usage_is_2_and_says_so(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert "whereabouts-fast" in capsys.readouterr().err


def test_help_lists_each_flag_with_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["controller", "--help"])
    text = capsys.readouterr().out
    for one in describe(ControllerSettings).values():
        assert one.flag in text
        assert one.variable in text
        assert all(choice in text for choice in one.choices)
    assert "{debug,info,warning,error}" in text
    assert "examples:" in text


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["controller", "--help"]])
def test_help_never_loads_the_kubernetes_client(words: list[str]) -> None:
    script = (
        "import sys; from whereabouts_fast.cli.main import main; main(sys.argv[1:]);"
        "sys.exit('kubernetes_asyncio' in sys.modules or 'aiohttp' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, *words], check=True, capture_output=True)


def test_missing_kubeconfig_is_a_failure_with_a_remedy() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "whereabouts_fast.cli.main", "controller",
         "--kubeconfig", "/does/not/exist", "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "/does/not/exist" in done.stderr
    assert "Traceback" not in done.stderr
