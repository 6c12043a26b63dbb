#!/bin/sh
# Makes .venv with the pinned packages; does nothing when it is up to date.
# PYTHON names the interpreter to build on (default: python3).
set -eu
cd "$(dirname "$0")/.."
stamp=.venv/.ready
want=$(cat pyproject.toml constraints.txt | cksum)
[ -x .venv/bin/python ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && exit 0

fail() { echo "setup: $*" >&2; exit 1; }

python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 ||
    fail "no interpreter '$python' on PATH: install Python 3.11 or later, or set PYTHON=/path/to/python3"
# A python3 on PATH may be a wrapper script: build on the real interpreter behind it.
real=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')
version=$("$real" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$real" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$real is Python $version: install Python 3.11 or later, or set PYTHON=/path/to/python3"

if ! "$real" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    remedy="install the package python$version-venv (Debian, Ubuntu), or set PYTHON to an interpreter with the modules venv and ensurepip"
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || fail "$real has no usable venv module: $remedy"
    echo "setup: $real has no usable venv module, installing python$version-venv"
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "python$version-venv"; } >&2 ||
        fail "could not install python$version-venv: $remedy"
fi

echo "setup: creating .venv with Python $version and installing packages (about a minute the first time)"
rm -rf .venv
"$real" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --constraint constraints.txt --editable '.[dev]'
echo "$want" > "$stamp"
