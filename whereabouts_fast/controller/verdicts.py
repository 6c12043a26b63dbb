"""Tells of what does not fit and lasts: a condition on the table, an event, and log lines."""

from __future__ import annotations

from collections.abc import Callable

from whereabouts_fast.controller.announce import Reference, Tell
from whereabouts_fast.controller.inspection import Inspection, nobody
from whereabouts_fast.controller.reasons import Reason
from whereabouts_fast.controller.usage import Usage
from whereabouts_fast.ipam.findings import ERROR, Finding, summary
from whereabouts_fast.kube.resource import IPPOOLS, NODESLICEPOOLS, RESERVATIONS
from whereabouts_fast.observability import logs
from whereabouts_fast.resources.tables import TableView

_RESOURCES = {one.kind: one for one in (NODESLICEPOOLS, IPPOOLS, RESERVATIONS)}
_Subject = tuple[str, str]


class Verdicts:
    """One term's; what was told in an earlier term may be told once more.

    `replan` has a table's conditions written.
    """

    def __init__(
        self, usage: Usage, inspection: Inspection, tell: Tell, replan: Callable[[TableView], None]
    ) -> None:
        self._usage = usage
        self._inspection = inspection
        self._tell = tell
        self._replan = replan
        self._told: dict[_Subject, frozenset[Finding]] = {}
        self._log = logs.get("consistency")

    def begin(self) -> None:
        """Tell of everything there is, and of each change from now on."""
        self._inspection.changed = self._changed
        self._changed({finding.network for finding in self._inspection.shown()})

    def end(self) -> None:
        """Tell no more."""
        self._inspection.changed = nobody

    def _changed(self, networks: set[str]) -> None:
        for network in networks:
            if (table := self._usage.world.table(network)) is not None:
                self._replan(table)
        found: dict[_Subject, set[Finding]] = {}
        for finding in self._inspection.shown():
            if finding.network in networks:
                found.setdefault(self._subject(finding), set()).add(finding)
        over = {
            subject
            for subject, told in self._told.items()
            if subject not in found and {one.network for one in told} <= networks
        }
        for subject, findings in found.items():
            self._speak(subject, frozenset(findings))
        for subject in over:
            self._speak(subject, frozenset())

    def _subject(self, finding: Finding) -> _Subject:
        """Return the object that a finding is told of: its network's, where that is known."""
        if not finding.network:
            return finding.kind, finding.name
        known = self._usage.world.table(finding.network) is not None
        return (NODESLICEPOOLS if known else IPPOOLS).kind, finding.network

    def _speak(self, subject: _Subject, found: frozenset[Finding]) -> None:
        told = self._told.pop(subject, frozenset())
        if found:
            self._told[subject] = found
        about = self._reference(subject)
        for finding in sorted(found - told, key=lambda one: (one.kind, one.name, one.reason)):
            say = self._log.error if finding.severity == ERROR else self._log.warning
            say("Found inconsistency", object=finding.name, reason=finding.reason, err=str(finding))
        if found - told and about:
            self._tell(about, Reason.INCONSISTENT, summary(found))
        elif told and not found:
            self._log.info("Found consistency again", object=subject[1])
            if about:
                self._tell(about, Reason.CONSISTENT, "all that is recorded agrees again")

    def _reference(self, subject: _Subject) -> Reference:
        """Return the reference of an object, {} when it is gone."""
        kind, name = subject
        key = f"{self._usage.world.namespace}/{name}"
        one = {
            NODESLICEPOOLS.kind: self._usage.world.tables.get,
            IPPOOLS.kind: self._usage.world.pools.get,
            RESERVATIONS.kind: self._usage.reservations.get,
        }[kind](key)
        if one is None:
            return {}
        return {
            "apiVersion": _RESOURCES[kind].api_version,
            "kind": kind,
            "namespace": self._usage.world.namespace,
            "name": name,
            "uid": one.uid,
        }
