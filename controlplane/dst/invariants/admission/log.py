"""What holds of the log of admission and of the job framework: decisions have causes and reasons, a target has one open
write at most, what was refused waits; and the log alone gives the state.

In: the events, and the controllers that fold them. Out: a violation, or the first difference in words."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.jobframework.controller import JobFrameworkController
from controlplane.controllers.jobframework.events import JobDecision, JobWrite
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.admission.events import AdmissionDecision, AdmissionWrite
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.log_rules import EventMeanings, LogRules
from controlplane.dst.scenes.workloads.oddities import planted
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.store import Store

SEEN = "the log is like the cluster"


class DecisionRules(LogRules):
    """The rules of any log, for the decisions of one of the two. Who writes is looked at with those of Workloads."""

    def resume(self, recorded: Recorded) -> None:
        """Take an event of a log that went back for looked at."""
        self._note(recorded)

    def _may_write(self, recorded: Recorded, writer: str) -> bool:
        return True


def of_admission(trace: Trace, controller: AdmissionController) -> DecisionRules:
    """Return the rules of the decisions of admission."""
    meanings = _meanings((AdmissionDecision,), (AdmissionWrite,), frozenset(AdmissionReason))
    return DecisionRules(trace, meanings, controller.open_writes, "admission")


def of_jobs(trace: Trace, controller: JobFrameworkController) -> DecisionRules:
    """Return the rules of the decisions of the job framework."""
    meanings = _meanings((JobDecision,), (JobWrite,), frozenset(JobReason))
    return DecisionRules(trace, meanings, controller.open_writes, "jobs")


def _meanings(decisions: Any, writes: Any, reasons: frozenset[str]) -> EventMeanings:
    return EventMeanings(decisions, writes, reasons, may_cause=lambda cause, stream: True, replaces=decisions)


def difference(one: AdmissionController, other: AdmissionController) -> str:
    """Return where what two processes know of quota differs."""
    for name in ("workloads", "objects"):
        left, right = getattr(one.index, name), getattr(other.index, name)
        for key in sorted({*left, *right}):
            if left.get(key) != right.get(key):
                return f"{name}: {key}: {left.get(key)!r} and {right.get(key)!r}"
    mine, theirs = usage(one), usage(other)
    if mine != theirs:
        return f"usage: {mine} and {theirs}"
    mine, theirs = waiting(one), waiting(other)
    return "" if mine == theirs else f"queues: {mine} and {theirs}"


def usage(one: AdmissionController) -> dict[str, Any]:
    """Return what ClusterQueues use."""
    queues = one.index.engine.snapshot.queues
    return {name: {place: used for place, used in node.usage.items() if used} for name, node in queues.items()}


def waiting(one: AdmissionController) -> dict[str, Any]:
    """Return who waits in which ClusterQueue, to be tried and not to be."""
    return {
        name: (sorted(pending.active), sorted(pending.inadmissible))
        for name, pending in one.index.engine.queues.pending.items()
    }


def unlike(one: AdmissionController, store: Store, kind: Any) -> str:
    """Return what admission believes of Workloads that is not so. Of one that nobody can read it believes what it
    knew."""
    odd = {f"{record.namespace}/{record.name}" for record in store.records(kind) if planted(record)}
    there = {f"{record.namespace}/{record.name}": str(record.version) for record in store.records(kind)}
    there = {key: version for key, version in there.items() if key not in odd}
    known = {key: state.observed.resource_version for key, state in one.index.workloads.items() if state.observed}
    known = {key: version for key, version in known.items() if key not in odd}
    return "" if there == known else f"the log says {known}, there is {there}"
