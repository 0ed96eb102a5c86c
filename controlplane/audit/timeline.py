"""The timeline of a Workload: of its events, those at which something changed, with why.

In: the recorded events of a Workload and its job, in order. Out: moments. It is the timeline of the view
`audit.workload_timeline`, moment for moment (a test compares the two); here as well because simulations and what-ifs
have events and no database, and because sentences are made of typed events. The view says "may start" also of a job
whose pods have ended, and of its copy. What admission and the job framework record of a Workload
(`controlplane.audit.quota_story`) is told here alone: the view has no moments of it.

An observation is noteworthy if it shows something else than the one before of the same object; a decision, if it is
another one than the one before about the same object in the same attempt. So a status that is copied every second is
one moment, not thousands."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from datetime import datetime

from controlplane.audit import quota_story
from controlplane.audit.words import reason_of, type_of, what
from controlplane.controllers.jobframework.events import JobWorkloadObserved
from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    CloneDecided,
    CloneUpdateDecided,
    ClusterRefused,
    CopyJudged,
    DeactivationDecided,
    EffectFailed,
    FinalizerAdditionDecided,
    FinalizerRemovalDecided,
    FinishDecided,
    JobCreationDecided,
    NamesClearDecided,
    NominationDecided,
    RemovalDecided,
    SpecUpdateDecided,
    StatusRelayDecided,
    WinnerChosen,
    WinnerReleased,
    WorkloadDecision,
)
from controlplane.controllers.multikueue.phrases import because
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.runtime.writes import WriteFailed, WriteUnneeded
from controlplane.values import Value


class TimelineEntry(Value):
    """One line of a timeline. `why` completes it: the reason of a decision in words, or what the object itself said."""

    position: int
    at: datetime
    cluster: str
    what: str
    why: str
    reason: str
    type: str
    noteworthy: bool = True


def entry_of(
    recorded: Recorded, said: str, why: str, reason: str, *, noteworthy: bool, cluster: str | None = None
) -> TimelineEntry:
    """Return the line that tells an event; `cluster` where it is about another one than the event names."""
    return TimelineEntry(
        position=recorded.position,
        at=recorded.recorded_at,
        cluster=recorded.cluster if cluster is None else cluster,
        what=said,
        why=why,
        reason=reason,
        type=type_of(recorded),
        noteworthy=noteworthy,
    )


class Timeline:
    """Tells the moments of one Workload's events, one after another; `told_elsewhere` are types of events that repeat
    what others say, and are not noteworthy."""

    def __init__(self, told_elsewhere: tuple[type[Event], ...] = ()) -> None:
        self._told_elsewhere = told_elsewhere
        self._turns: dict[str, tuple[str, int]] = {}
        self._life = 0
        self._attempt = 0
        self._winner = ""
        self._ran: dict[str, str] = {}
        self._last: dict[Hashable, tuple[str, str, str]] = {}

    def tell(self, recorded: Recorded) -> TimelineEntry:
        """Return the moment of the next event."""
        event = recorded.event
        if isinstance(event, observations.WorkloadGone):
            self._life, self._attempt = self._life + 1, 0
        elif isinstance(event, NominationDecided):
            self._attempt = max(self._attempt, event.attempt)
        elif isinstance(event, WinnerChosen):
            self._winner = event.cluster
        turn, turns = self._turns.get(recorded.stream, ("", 0))
        if (next_turn := quota_story.turn(event)) and next_turn != turn:
            self._turns[recorded.stream] = next_turn, turns + 1
        said = (self._job(event, recorded.cluster) or what(event), reason_of(recorded), str(getattr(event, "uid", "")))
        told, noteworthy = why(event, self._winner), self._is_new(event, recorded, said)
        return entry_of(recorded, said[0], told, said[1], noteworthy=noteworthy)

    def _job(self, event: Event | Unknown, cluster: str) -> str:
        """Return what is said of a job, or of its copy, whose pods have ended; "" for all else.

        Its own controller writes that nothing is active before it says how the job ended. The status of a job that was
        dispatched is copied to the management cluster, and shows there as well that it may start anew.
        """
        match event:
            case observations.RemoteJobObserved() if not event.made_for:
                what_is = "job's copy"
            case observations.JobObserved() if not self._attempt:
                what_is = "job"
            case _:
                return ""
        if event.suspended or not event.inactive:
            self._ran[cluster] = "" if event.suspended else event.uid
            return ""
        ran = self._ran.get(cluster) == event.uid and not event.finished
        return f"nothing of the {what_is} runs any more" if ran else ""

    def _is_new(self, event: Event | Unknown, recorded: Recorded, said: tuple[str, str, str]) -> bool:
        if isinstance(event, (NamesClearDecided, WriteUnneeded, *self._told_elsewhere)):
            return False
        if isinstance(event, WriteFailed) and event.code == 409:
            return False
        chain = quota_story.chain(recorded, self._turns.get(recorded.stream, ("", 0))[1])
        if chain is None:
            chain = _chain(event, recorded, (self._life, self._attempt))
        said = quota_story.said(event, said[0]), *said[1:]
        before, self._last[chain] = self._last.get(chain), said
        return before != said


def moments(events: Iterable[Recorded]) -> list[TimelineEntry]:
    """Return the moment of each event of a Workload and its job; what repeats itself is there, and not noteworthy."""
    told = list(events)
    moments = Timeline(quota_story.told_elsewhere(told))
    return [moments.tell(recorded) for recorded in told]


def why(event: Event | Unknown, winner: str = "") -> str:
    """Return why something happened, in words; "" where nothing more is known than that it did."""
    match event:
        case WorkloadDecision():
            return because(event, winner)
        case observations.WorkloadObserved() | observations.CloneObserved() | JobWorkloadObserved():
            return _said(event)
        case EffectFailed():
            return event.message
        case _:
            return quota_story.because(event)


def _said(seen: observations.WorkloadObserved | observations.CloneObserved | JobWorkloadObserved) -> str:
    """Return the message of the condition that tells how far an object has come."""
    if seen.is_true("Finished"):
        kind = "Finished"
    elif seen.is_true("Evicted"):
        kind = "Evicted"
    elif not seen.is_true("QuotaReserved"):
        kind = "QuotaReserved"
    else:
        return ""
    condition = seen.condition(kind)
    return condition.message if condition is not None else ""


def _chain(event: Event | Unknown, recorded: Recorded, attempt: tuple[int, int]) -> Hashable:
    """Return the object and the attempt within which an event may repeat the one before."""
    match event:
        case (
            observations.WorkloadObserved()
            | observations.WorkloadGone()
            | observations.CloneObserved()
            | observations.CloneGone()
        ):
            return "seen Workload", recorded.cluster
        case (
            observations.JobObserved()
            | observations.JobGone()
            | observations.RemoteJobObserved()
            | observations.RemoteJobGone()
        ):
            return "seen job", recorded.cluster
        case EffectFailed():
            return "failed", event.target, event.action, attempt
        case JobCreationDecided():
            return "job", recorded.cluster, attempt
        case RemovalDecided() | FinalizerRemovalDecided() if event.of == "Job":
            return "job", recorded.cluster, attempt
        case (
            CloneDecided()
            | CloneUpdateDecided()
            | SpecUpdateDecided()
            | DeactivationDecided()
            | RemovalDecided()
            | FinalizerAdditionDecided()
            | FinalizerRemovalDecided()
        ):
            return "copy", recorded.cluster, attempt
        case WinnerChosen() | WinnerReleased() | ClusterRefused():
            return "choice", recorded.cluster, attempt
        case CopyJudged():
            return "judged", recorded.cluster, attempt
        case NominationDecided() | CheckStateDecided() | StatusRelayDecided() | FinishDecided():
            return type(event).__name__, attempt
        case _:
            return recorded.position
