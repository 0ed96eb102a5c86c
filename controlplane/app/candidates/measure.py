"""What the metrics hear of source pods: one place that turns what their fold brought about into numbers.

In: the source pods as they were when this process began to lead, then every event of theirs, in order. Out: counts by
target. A target says the same of a candidate many times, so what counts is how an event changed the state, by the very
fold that decisions rest on, and not the event."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.source.events import (
    CandidateRequested,
    CandidateWriteFailed,
    DelegateLost,
    Elected,
    EpochClosed,
    PermitGranted,
)
from controlplane.controllers.candidates.source.observations import (
    CandidateRefused,
    CandidateReserved,
    CandidateSeen,
    CandidateUnreserved,
    CandidateUnschedulable,
)
from controlplane.controllers.candidates.source.state import STREAM, SourceState, fold
from controlplane.log.event import Recorded, Unknown
from controlplane.log.folding import Folding
from controlplane.runtime.measure import exemplar
from controlplane.runtime.writes import says_no
from controlplane.telemetry import Metrics

NOT_CREATED, OTHER = "NotCreated", "Other"
_REASONS = frozenset(reason.value for reason in TargetReason)


class Placing(Protocol):
    """Who folds the source pods."""

    @property
    def sources(self) -> dict[str, SourceState]:
        """The source pods by stream, without those of which nothing is left."""


class CandidateMeasure:
    """See the module. It is made when a process begins to lead, and serves for as long as it does."""

    def __init__(self, metrics: Metrics, placing: Placing) -> None:
        self._metrics, self._placing = metrics.candidates, placing
        self._states = dict(placing.sources)
        self._elected: dict[str, datetime] = {}
        self._folding = Folding(self._take)  # what cannot be folded is left alone here as well

    def folded(self, events: Sequence[Recorded]) -> None:
        """Count what some more events brought about."""
        touched = set()
        for recorded in events:
            stream = recorded.stream
            if not stream.startswith(f"{STREAM}/") or isinstance(recorded.event, Unknown):
                continue
            self._folding(recorded)
            touched.add(stream)
        for stream in touched:  # share what the controller holds instead of keeping another of the same
            known = self._placing.sources.get(stream)
            if known is None:
                self._states.pop(stream, None)
                self._elected.pop(stream, None)
            else:
                self._states[stream] = known

    def _take(self, recorded: Recorded) -> None:
        before = self._states.get(recorded.stream) or SourceState.initial(recorded.stream)
        after = self._states[recorded.stream] = fold(before, recorded)
        self._count(before, after, recorded)

    def _count(self, before: SourceState, after: SourceState, recorded: Recorded) -> None:
        event, metrics = recorded.event, self._metrics
        match event:
            case Elected():
                self._elected[recorded.stream] = recorded.recorded_at
            case CandidateRequested() if event.candidate not in before.candidates:
                metrics.offered.labels(event.cluster).inc()
            case PermitGranted() if event.number > before.permits:
                metrics.permitted.labels(event.cluster, event.kind).inc()
            case CandidateWriteFailed():
                self._count_failure(before, after, event)
            case CandidateSeen():
                self._count_seen(before, event, recorded.cluster)
            case DelegateLost():
                metrics.lost.labels(event.cluster, event.reason.value).inc()
            case EpochClosed() if cluster := _holder(before):
                metrics.lost.labels(cluster, event.reason.value).inc()
        if not after.electing:
            self._elected.pop(recorded.stream, None)
        elif after.delegate and not before.delegate:
            self._count_bound(recorded)

    def _count_bound(self, recorded: Recorded) -> None:
        self._metrics.bound.labels(recorded.cluster).inc()
        since = self._elected.pop(recorded.stream, None)
        if since is not None:
            waited = max(0.0, (recorded.recorded_at - since).total_seconds())
            self._metrics.placement_seconds.labels(recorded.cluster).observe(waited, exemplar(recorded))

    def _count_seen(self, before: SourceState, seen: CandidateSeen, cluster: str) -> None:
        known = before.candidates.get(seen.name)
        last = known.seen if known is not None and known.cluster == cluster else None
        if last is not None and _says_the_same(last, seen):
            return
        match seen:
            case CandidateReserved():
                self._metrics.reserved.labels(cluster).inc()
            case CandidateUnreserved():
                self._metrics.unreserved.labels(cluster, _closed(seen.why)).inc()
            case CandidateRefused():
                self._metrics.refused.labels(cluster, _closed(seen.why)).inc()
            case CandidateUnschedulable():
                self._metrics.refused.labels(cluster, TargetReason.NO_NODE.value).inc()

    def _count_failure(self, before: SourceState, after: SourceState, event: CandidateWriteFailed) -> None:
        """Count a candidate that an API server does not take: once, however often it is tried again."""
        now = after.trouble.get(event.target)  # None for a no that came late: another write took the place of its own
        if event.action != CandidateRequested.__name__ or now is None or not says_no(now):
            return
        last = before.trouble.get(event.target)
        if last is None or not says_no(last):
            self._metrics.refused.labels(event.target.partition("/")[0], NOT_CREATED).inc()


def _says_the_same(last: CandidateSeen, seen: CandidateSeen) -> bool:
    """Whether a target says again what it said before: of the same reservation, or the same no."""
    return (type(last), last.uid, last.reservation, last.why) == (type(seen), seen.uid, seen.reservation, seen.why)


def _holder(state: SourceState) -> str:
    """Return the target that has a source pod, or may bind it; "" if none does."""
    if state.chosen is not None:
        return state.chosen.cluster
    return state.permit.cluster if state.permit is not None and state.permit.kind == "Bind" else ""


def _closed(why: str) -> str:
    """Return a target's reason as a label: it is another cluster's word, and may be anything."""
    return why if why in _REASONS else OTHER
