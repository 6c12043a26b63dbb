"""The process: environment and standard input in, one JSON object out, an exit code.

Nothing that goes wrong may show as a traceback on standard output, for the runtime parses that.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc
import posix
import time

from cni import errors, files, jsontext, protocol, results
from cni.errors import CniError

_INPUT_LIMIT = 4 << 20  # bytes of network configuration
_INPUT_SECONDS = 10.0


class _OutputLost(Exception):  # noqa: N818 - nobody is there to be told
    pass


def run(start: float) -> int:
    """Serve one call; `start` is the monotonic moment of the process's first statement."""
    gc.disable()
    if not _streams_open():
        return 1
    parent = posix.getppid()
    # A runtime that is gone shows as a failed write, after which there is something to undo.
    _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)
    jsontext.stand_in()
    version = protocol.VERSIONS[-1]
    try:
        environ = {
            key.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
            for key, value in posix.environ.items()
        }
        request = protocol.read_environment(environ)
        raw = _read_input()
        if request.verb == "VERSION":
            _print(results.version_result(protocol.asked_version(raw)))
            return 0
        asked = protocol.asked_version(raw)
        version = asked if asked in protocol.VERSIONS else version
        protocol.read_config(request, raw)
        version = request.version
        _serve(request, environ, start, parent)
        return 0
    except _OutputLost:
        return 1
    except CniError as error:
        failure = error
    except BaseException as error:  # noqa: BLE001 - the runtime has to be told whatever it is
        failure = CniError(errors.UNEXPECTED, *_unexpected(error))
    try:
        _print(results.error_result(version, failure))
    except _OutputLost:
        pass
    return 1


def _serve(request: protocol.Request, environ: dict[str, str], start: float, parent: int) -> None:
    # Only now, and only what the verb needs: loading is most of what a call costs.
    if request.verb in ("ADD", "DEL"):
        from cni import verbs

        if request.verb == "ADD":
            verbs.add(request, environ, start, parent, _print)
        else:
            verbs.delete(request, environ, start, parent)
    elif request.verb == "CHECK":
        from cni import check

        check.check(request, environ, start, parent)
    elif request.verb == "GC":
        from cni import collect

        collect.collect(request, environ, start, parent)
    else:
        from cni import status

        status.status(request, environ, start, parent)


def _streams_open() -> bool:
    """Fill the places of closed standard streams; False when there is no output to answer on.

    Otherwise the next file or connection would get that number, and our answer.
    """
    answerable = True
    for fd in (0, 1, 2):
        try:
            posix.fstat(fd)
        except OSError:
            posix.open("/dev/null", posix.O_RDWR)
            answerable = answerable and fd != 1
    return answerable


def _read_input() -> bytes:
    """Read standard input to its end; a caller that never closes it is not waited for forever."""

    def too_late(signum: int, frame: object) -> None:
        raise CniError(
            errors.IO_FAILURE,
            f"standard input did not end within {_INPUT_SECONDS:.0f} s",
            "the runtime has to write the network configuration and close its end",
        )

    before = _signal.signal(_signal.SIGALRM, too_late)
    _signal.setitimer(_signal.ITIMER_REAL, _INPUT_SECONDS)
    try:
        return files.read_all(0, _INPUT_LIMIT)
    except OSError as error:
        raise CniError(
            errors.IO_FAILURE,
            f"standard input: {error.strerror}",
            f"a network configuration of at most {_INPUT_LIMIT} bytes is read from there",
        ) from None
    finally:
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        _signal.signal(_signal.SIGALRM, before)


def _print(result: dict[str, object]) -> None:
    try:
        files.write_all(1, jsontext.encode(result) + b"\n")
    except OSError:
        raise _OutputLost from None


def _unexpected(error: BaseException) -> tuple[str, str]:
    """Return message and details, and leave the way to the place on standard error."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    kind = type(error).__name__
    try:
        files.write_all(2, f"{kind}: {error}\n  {'  '.join(places)}\n".encode("utf-8", "replace"))
    except OSError:
        pass
    return f"unexpected {kind}: {error}", f"at {places[-1] if places else 'an unknown place'}"


def main(start: float | None = None) -> None:
    """Serve one call and leave the process."""
    code = run(time.monotonic() if start is None else start)
    posix._exit(code)


if __name__ == "__main__":
    main()
