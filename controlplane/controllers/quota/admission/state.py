"""What admission knows of one Workload or one queue, as the log says it.

In: events of one stream. Out: the object as it was seen last, its open write, what the API server said against one, and
of a Workload the reservation that is decided and not seen yet, and what the ledger says that it has."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.facts import by_flavor, by_place
from controlplane.controllers.quota.admission.topology_events import (
    SecondPassNoticeDecided,
    TopologyAssignmentDecided,
    TopologyAssignmentFailed,
)
from controlplane.controllers.quota.admission.workload_status import as_read
from controlplane.controllers.quota.engine.amounts import UNLIMITED, clamped
from controlplane.kube.kinds import Json
from controlplane.log.event import Recorded
from controlplane.runtime.writes import OpenWrites, WriteFailure, dropped, is_late, opened, refused
from controlplane.values import Value

_replace = msgspec.structs.replace
_UNNEEDED, _REST = "Unneeded", timedelta(minutes=5)


class Posted(Value):
    """What the ledger says that a Workload has, of which ClusterQueue."""

    cluster_queue: str = ""
    amounts: events.Amounts = {}


class ObjectState(OpenWrites[events.AdmissionWrite, WriteFailure]):
    """An object that is written: as it was seen, at which position; when its status was last decided on."""

    version: int = 0
    position: int = 0
    observed: Any = None
    decided_at: datetime | None = None


class WorkloadState(ObjectState):
    """A Workload. `reservation`: quota that is decided and not seen yet; `held`: one could not be written, and it is
    not queued before it is time to try again; one that may have been written all the same counts until that is clear.
    `placement`: where its pods are to be, decided and not seen yet. `unplaced`: that they cannot be placed yet, and
    `told`: what was told of that last.

    `new_priority`: what its WorkloadPriorityClass says since that changed, while it has another one. `unsaid`: why it
    waits, as long as its condition does not say so: the write of it may be overtaken, or have to wait since one was
    refused, and a cycle says it once. `since`: when it was seen first. `preempted`: when it was preempted of late;
    `paused`: too often, so that it is not queued for a while."""

    reservation: events.QuotaReservationDecided | None = None
    held: bool = False
    placement: TopologyAssignmentDecided | None = None
    unplaced: TopologyAssignmentFailed | None = None
    told: str = ""
    new_priority: int | None = None
    unsaid: events.WorkloadInadmissible | None = None
    posted: Posted = Posted()
    since: datetime | None = None
    preempted: tuple[datetime, ...] = ()
    paused: bool = False


def rests(state: ObjectState, now: datetime) -> bool:
    """Whether an API server said no to a write of an object, and it is not time to try again."""
    return any(trouble.until > now for trouble in state.trouble.values())


def says_why(state: WorkloadState) -> bool:
    """Whether the write is open that says why a Workload waits."""
    return any(isinstance(effect.decision, events.WorkloadInadmissible) for effect in state.effects.values())


def says_otherwise(state: WorkloadState, decision: events.WorkloadStatusDecided) -> bool:
    """Whether a write says something else of the quota than what is still to be said; a write that says just that may
    be overtaken."""
    said = [(one.reason, one.message) for one in decision.conditions if one.type == "QuotaReserved"]
    waits = state.unsaid
    return bool(said) and (waits is None or (waits.why, waits.message) not in said)


def seen_again(state: Any, observed: Any, recorded: Recorded) -> Any:
    """Return the state of an object that was seen. A write is open for the version that it was decided on alone."""
    stays = {
        target: effect
        for target, effect in state.effects.items()
        if effect.decision.resource_version == observed.resource_version
    }
    trouble = {target: one for target, one in state.trouble.items() if one.error not in ("Conflict", _UNNEEDED)}
    return _replace(
        state,
        observed=observed,
        version=recorded.version,
        position=recorded.position,
        effects=stays,
        trouble=trouble,
    )


def without_said(state: WorkloadState) -> WorkloadState:
    """Return the state of a Workload that was seen: what its condition says now is not `unsaid`, nor what no longer
    counts since it has quota."""
    waits = state.unsaid
    if state.observed is None:
        return state
    if state.unplaced is not None and not as_read(state.observed.status).reserved:
        state = _replace(state, unplaced=None, told="")
    if waits is None:
        return state
    conditions: list[Json] = state.observed.status.get("conditions") or []
    found = next((one for one in conditions if one["type"] == "QuotaReserved"), {})
    said = found.get("reason") == waits.why and found.get("message") == waits.message
    said = said and all(state.observed.status.get(name) == value for name, value in waits.changes.items())
    return _replace(state, unsaid=None) if said or found.get("status") == "True" else state


def folded_write(state: Any, recorded: Recorded) -> Any:
    """Return the state after a decision that means a write, or its outcome."""
    event: Any = recorded.event
    state = _replace(state, version=recorded.version)
    if getattr(event, "action", "") == SecondPassNoticeDecided.__name__:
        # An Event is told once, whatever came of it: nothing rests on it.
        told = state.unplaced.message if state.unplaced is not None else ""
        return _replace(dropped(state, event.target), told=told)
    outcome = isinstance(event, events.AdmissionWriteFailed | events.AdmissionWriteUnneeded)
    if outcome and is_late(state, event.target, recorded):
        return state
    if isinstance(event, events.AdmissionWriteFailed):
        return refused(state, event)
    if isinstance(event, events.AdmissionWriteUnneeded):
        # It would be decided again at once, and for ever: whatever is not as it should be, a write does not change it.
        rests = WriteFailure(1, 0, _UNNEEDED, "it changed nothing", recorded.recorded_at + _REST, event.action)
        return _replace(dropped(state, event.target), trouble={**state.trouble, event.target: rests})
    if isinstance(event, events.WorkloadInadmissible) and not event.written:
        return state
    if isinstance(event, events.AdmissionWrite):
        return _replace(opened(state, event, recorded), decided_at=recorded.recorded_at)
    return state


def placed(state: WorkloadState, recorded: Recorded) -> WorkloadState:
    """Return the state after a decision about where the pods of a Workload that has quota are to be, or that they
    cannot be placed."""
    event = recorded.event
    if isinstance(event, TopologyAssignmentFailed):
        changed: dict[str, Any] = {"placement": None, "unplaced": event}
    else:
        changed = {"placement": event, "unplaced": None, "told": ""}
    found: WorkloadState = _replace(folded_write(state, recorded), **changed)
    return found


def posted(state: WorkloadState, event: events.QuotaReservationDecided | events.QuotaPosted) -> WorkloadState:
    """Return the state after an entry of the ledger. What is unlimited ends with an entry of as much, as any amount
    does."""
    before, more = by_place(state.posted.amounts), by_place(event.amounts)
    sums = {place: max(-UNLIMITED, clamped(before.get(place, 0) + more.get(place, 0))) for place in {**before, **more}}
    amounts = by_flavor(sums)
    return _replace(state, posted=Posted(cluster_queue=event.cluster_queue if amounts else "", amounts=amounts))
