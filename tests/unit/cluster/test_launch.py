"""The launcher: a server begins only while its starter lives, or once it has been recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LAUNCHER = Path(__file__).parents[3] / "hack" / "cluster" / "launch.py"


def _launch(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-I", "-S", "-E", str(LAUNCHER), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)


def test_a_tied_server_begins_in_a_session_of_its_own() -> None:
    script = "import os; print(os.getpid() == os.getsid(0))"
    done = _launch("tied", str(os.getpid()), sys.executable, "-c", script)
    assert (done.returncode, done.stdout.strip()) == (0, b"True")


def test_a_tied_server_does_not_begin_when_its_starter_is_gone() -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    done = _launch("tied", str(gone.pid), "/bin/echo", "begun")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"the starter ended before the server began" in done.stderr


def test_a_detached_server_begins_when_it_is_recorded_and_reads_nothing() -> None:
    done = _launch("detached", "/bin/sh", "-c", "echo begun; cat", stdin=b"!rest")
    assert (done.returncode, done.stdout) == (0, b"begun\n")


def test_a_detached_server_does_not_begin_unrecorded() -> None:
    done = _launch("detached", "/bin/echo", "begun")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"before it recorded the server" in done.stderr
