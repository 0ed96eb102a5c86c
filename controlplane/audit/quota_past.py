"""How a Workload waited for quota, where this service decides on it: the intervals of its past, with what was missing.

In: the events of admission about one Workload, in order. Out: `WaitInterval`s that follow one another, equal neighbours
merged, and the same as plain values and as cells of a table. Pure. `audit.pending_reasons` has the conditions that
MultiKueue's stream shows; ClusterQueue, what was missing and who was preempted are in admission's decisions alone.

What was decided when the Workload itself was tried holds until it is tried again, or its condition says that it is not
to be tried: that one like it did not fit says less."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.audit.shown import span
from controlplane.controllers.quota.admission import events as admission
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.reasons import MissingQuota, missing_in
from controlplane.kube.kinds import Json
from controlplane.kube.kueue_names import PENDING_EVALUATION
from controlplane.log.event import Recorded
from controlplane.values import Value

NOT_TRIED = "not tried by itself"
"""What stands for the reason of a Workload that has none: it was not tried yet, or one that is like it was, and did not
fit."""
_BEING_EVICTED = " is being evicted"
_SHORT = timedelta(seconds=1)
# What its condition says of a Workload that the scheduler looks at.
_TRIED = frozenset(
    {
        "",
        "Pending",
        PENDING_EVALUATION,
        reasons.WAITING_FOR_QUOTA,
        reasons.WAITING_FOR_PREEMPTED,
        reasons.WAITING_FOR_PODS_READY,
        reasons.EXCEEDS_MAX_QUOTA,
        reasons.NO_MATCHING_FLAVOR,
    }
)


class WaitInterval(Value):
    """An interval in which a Workload waited for quota for one reason. `until` is None while it lasts; `missing`: what
    was missing of which flavor; `victims`: who was preempted for it; `preemptor`: for whom it had lost its quota
    before, "" if for nobody. `position` is that of the event with which it began."""

    since: datetime
    until: datetime | None
    reason: str
    message: str
    cluster_queue: str
    missing: tuple[MissingQuota, ...]
    victims: tuple[str, ...]
    preemptor: str
    position: int

    @property
    def said(self) -> tuple[object, ...]:
        """What is compared of neighbours."""
        return self.reason, self.message, self.cluster_queue, self.victims, self.preemptor


class _Story:
    """The fold of one Workload's events. `open`: the interval that lasts; `preemptor`: for whom it was preempted last;
    `uid`: its own, by which it is gone. Of another one that had its name before, nothing holds of it."""

    def __init__(self) -> None:
        self.found: list[WaitInterval] = []
        self.open: WaitInterval | None = None
        self.uid = ""
        self.preemptor = ""
        self.reserved = False
        self.decided: admission.WorkloadInadmissible | None = None

    def fold(self, recorded: Recorded) -> None:
        """Take one more event."""
        match recorded.event:
            case admission.AdmissionWorkloadObserved() as seen:
                if seen.uid != self.uid:
                    self._begin(recorded, seen.uid)
                self._seen(recorded, seen)
            case admission.AdmissionWorkloadGone() as gone if gone.uid == self.uid:
                self._begin(recorded, "")
            case admission.WorkloadInadmissible() as waits:
                self.decided = waits
                self._waits(recorded, waits.why, waits.message, waits)
            case admission.QuotaReservationDecided():
                self.preemptor, self.reserved, self.decided = "", True, None
                self._end(recorded)
            case admission.WorkloadPreemptionDecided() as preempted:
                self.preemptor = preempted.preemptor
            case admission.QuotaPosted(reason=AdmissionReason.RESERVATION_OVERTAKEN):
                self.reserved = False
                self._waits(recorded, "", "")

    def _begin(self, recorded: Recorded, uid: str) -> None:
        """Forget what was of the one before of the name."""
        self._end(recorded)
        self.uid, self.preemptor, self.reserved, self.decided = uid, "", False, None

    def _seen(self, recorded: Recorded, seen: admission.AdmissionWorkloadObserved) -> None:
        conditions: dict[str, Json] = {str(one.get("type")): one for one in seen.status.get("conditions") or ()}
        true = {type_ for type_, one in conditions.items() if one.get("status") == "True"}
        if seen.deleting or not seen.active or true & {"Finished", "QuotaReserved"}:
            self.reserved = False
            self._end(recorded)
        elif not self.reserved or "QuotaReserved" in conditions:
            self.reserved = False
            condition = conditions.get("QuotaReserved", {})
            reason, message = (str(condition.get(name) or "") for name in ("reason", "message"))
            if reason not in _TRIED:
                self.decided = None
            if self.decided is None:
                self._waits(recorded, reason, message)

    def _waits(
        self, recorded: Recorded, reason: str, message: str, decided: admission.WorkloadInadmissible | None = None
    ) -> None:
        """Begin an interval, unless the one that lasts says the same."""
        interval = WaitInterval(
            since=recorded.recorded_at,
            until=None,
            reason=reason,
            message=message,
            cluster_queue=decided.cluster_queue if decided is not None else "",
            missing=missing_in(message),
            victims=tuple(one.removesuffix(_BEING_EVICTED) for one in decided.victims) if decided is not None else (),
            preemptor=self.preemptor,
            position=recorded.position,
        )
        if self.open is not None and self.open.said == interval.said:
            return
        self._end(recorded)
        self.open = interval

    def _end(self, recorded: Recorded) -> None:
        if self.open is not None and self.open.since < recorded.recorded_at:
            self.found.append(msgspec.structs.replace(self.open, until=recorded.recorded_at))
        self.open = None


def intervals(events: Iterable[Recorded]) -> list[WaitInterval]:
    """Return how a Workload waited, by its events of admission; those of other controllers do no harm. What lasted for
    no time is left out."""
    story = _Story()
    for recorded in events:
        story.fold(recorded)
    found: list[WaitInterval] = []
    for one in [*story.found, *([story.open] if story.open is not None else [])]:
        before = found[-1] if found else None
        if before is not None and before.until == one.since and before.said == one.said:
            found[-1] = msgspec.structs.replace(before, until=one.until)
        else:
            found.append(one)
    return found


def worth_telling(found: Sequence[WaitInterval]) -> list[WaitInterval]:
    """Return the intervals for people: none of a Workload that never waited for a second."""
    waited = any(one.until is None or one.until - one.since >= _SHORT for one in found)
    return list(found) if waited else []


def plain(one: WaitInterval) -> dict[str, Any]:
    """Return an interval as plain values."""
    return {
        "since": one.since,
        "until": one.until,
        "reason": one.reason,
        "message": one.message,
        "cluster_queue": one.cluster_queue,
        "missing": [short._asdict() for short in one.missing],
        "victims": list(one.victims),
        "preemptor": one.preemptor,
        "position": one.position,
    }


def lasted(one: WaitInterval) -> str:
    """Return for how long an interval lasted, "" while it does."""
    return span(one.until - one.since) if one.until is not None else ""


def missing(one: WaitInterval) -> str:
    """Return what was missing, as in `4 of cpu in flavor default`."""
    return ", ".join(
        f"{short.amount} of {short.resource} in flavor {short.flavor}{' more than there is' if short.never else ''}"
        for short in one.missing
    )


def others(one: WaitInterval) -> str:
    """Return who was preempted for it, and for whom it had been."""
    parts = [f"{', '.join(one.victims)} preempted for it"] if one.victims else []
    parts += [f"it was preempted for {one.preemptor}"] if one.preemptor else []
    return "; ".join(parts)
