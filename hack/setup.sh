#!/bin/sh
# Makes .venv with the pinned packages, or brings it up to date; at once when there is nothing to do.
# PYTHON names the interpreter to build on (default: python3).
set -eu
cd "$(dirname "$0")/.."
stamp=.venv/.ready
want=$(cat pyproject.toml constraints.txt | cksum)
ready() { [ -x .venv/bin/python ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; }
ready && exit 0

fail() { echo "setup: $*" >&2; exit 1; }

# Two makes at once must not fill one environment: the second waits and finds it made.
mkdir -p build
if command -v flock >/dev/null 2>&1; then
    exec 9>build/setup.lock
    flock -n 9 || { echo "setup: another process is making .venv, waiting for it"; flock 9; }
    ready && exit 0
fi

python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 ||
    fail "no interpreter '$python' on PATH: install Python 3.11 or later, or set PYTHON=/path/to/python3"
# A python3 on PATH may be a wrapper script: build on the real interpreter behind it.
real=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))') ||
    fail "'$python' does not run: set PYTHON=/path/to/python3, of Python 3.11 or later"
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

# An environment of the same interpreter is kept: pip changes only what differs, and whoever uses
# it meanwhile keeps his tools.
same=$(.venv/bin/python -c 'import os, pip, sys; print(os.path.realpath(sys.executable))' 2>/dev/null || true)
if [ "$same" = "$real" ]; then
    echo "setup: bringing the packages in .venv up to date"
else
    echo "setup: creating .venv with Python $version"
    rm -rf .venv
    "$real" -m venv .venv || fail "$real -m venv .venv failed: see above; PYTHON names another interpreter"
    echo "setup: installing packages (about a minute)"
fi

log=build/setup.log
: > "$log"
(while sleep 10 >/dev/null 2>&1; do
    echo "setup: still installing, $(grep -c '^Collecting' "$log") packages fetched"
done) 9>&- &
ticker=$!
trap 'kill $ticker 2>/dev/null || true' EXIT
.venv/bin/python -m pip install --progress-bar off --disable-pip-version-check \
    --constraint constraints.txt --editable '.[dev]' >"$log" 2>&1 9>&- || {
    tail -n 20 "$log" >&2
    fail "pip failed (all of its output: $log): it needs a package index, the default one or PIP_INDEX_URL"
}
echo "$want" > "$stamp"
