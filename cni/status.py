"""STATUS: can this node give addresses? Asked every few seconds, so mostly answered by the hint."""

from __future__ import annotations

from cni import configured, hints, log
from cni.deadline import Deadline
from cni.protocol import Request

_FRESH = 10.0  # seconds that an answer of the API server counts
_LIMIT = 5.0  # seconds that a call may take; the runtime asks as often
_WAIT = 1.0


def status(request: Request, environ: dict[str, str], start: float, parent: int) -> None:
    """Return when an ADD would be served; raises CniError 50 or 51 saying what to do."""
    conf, here = configured.read(request, environ)
    with log.Failures(conf, request):
        configured.check(here)
        # Without the lock: the file is replaced whole, and an ADD may hold the lock for long.
        known = [
            (network, hints.Store(conf.hints_dir, network.identity, here.name).load())
            for network in conf.networks
        ]
        contact = max(hint.contact for _, hint in known)
        fresh = 0 <= hints.now() - contact < _FRESH
        if fresh and all(hint.can_give(network.range) for network, hint in known):
            return
        # Only now: what connects costs more to load than all of the above.
        from cni import probe
        from cni.call import Call

        conf.wait_seconds = min(conf.wait_seconds, _WAIT)
        deadline = Deadline(start, min(_LIMIT, conf.add_deadline_seconds))
        probe.ask(lambda: Call(request, conf, here, deadline, parent), conf.networks, fresh=fresh)
