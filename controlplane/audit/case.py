"""What the answers of `explain` are made of: one Workload's case, and the findings that several answers share.

In: the folds and the events of one Workload. Out: events that were decisive, and pieces of sentences. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterConnectFailed,
    ClusterForgotten,
    ClusterLost,
    ClusterRestored,
    ClusterStandby,
    KindSynced,
    cluster_stream,
)
from controlplane.controllers.multikueue import strays
from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.decision_pass import stamp
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    ClustersScored,
    EffectFailed,
    FinishDecided,
    GateOpeningDecided,
    StatusRelayDecided,
    WinnerChosen,
)
from controlplane.controllers.multikueue.observations import (
    CloneObserved,
    Conditioned,
    Observation,
    ObservationRefused,
    RemoteJobObserved,
    WorkloadGone,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.phrases import because, face
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.unobserved_jobs import unseen
from controlplane.controllers.multikueue.unread_copies import MADE_FOR_FIELD
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Event, Recorded
from controlplane.runtime.explanation import Standing
from controlplane.runtime.phrases import listed

E = TypeVar("E", bound=Observation)
STAMP = "%Y-%m-%d %H:%M:%S UTC"
Answer = tuple[str, list[Recorded | None]]
"""A sentence and the events it rests on, None for one that is not in the log."""


class Case(msgspec.Struct, frozen=True):
    """What the sentences are made of. `begin` is the position of the first observation of the Workload: what its stream
    has before is of another one that had its name, and tells nothing of it."""

    state: WorkloadState
    context: WorkloadContext
    now: datetime
    events: Sequence[Recorded]
    standing: Standing
    begin: int = 0

    @property
    def stream(self) -> str:
        """The Workload's own stream."""
        return f"workload/{self.state.namespace}/{self.state.name}"

    def last(self, *types: type[Event], test: Callable[[Recorded], bool] = lambda recorded: True) -> Recorded | None:
        """Return the newest event of some types that passes a test, of its own stream since it began."""
        return next((e for e in self.backwards() if isinstance(e.event, types) and test(e)), None)

    def backwards(self) -> Iterator[Recorded]:
        """Yield the events, the newest first, without those of another Workload that had its name before."""
        return (e for e in reversed(self.events) if e.stream != self.stream or e.position >= self.begin)

    def since(self, kind: type[E], test: Callable[[E], bool], cluster: str = MANAGEMENT) -> Recorded | None:
        """Return the event since which something holds of the object that a cluster showed last: not the newest that
        shows it.

        None if it does not hold of what was seen last.
        """
        first: Recorded | None = None
        uid = ""
        for recorded in reversed(self.events):
            seen = recorded.event
            if recorded.stream != self.stream or recorded.cluster != cluster or not isinstance(seen, kind):
                continue
            uid = uid or seen.uid
            if seen.uid != uid or not test(seen):
                break
            first = recorded
        return first

    def shown(self, test: Callable[[WorkloadObserved], bool]) -> Recorded | None:
        """Return the observation since which something holds of the Workload; the newest one if it does not hold of
        that.
        """
        own = self.last(WorkloadObserved, test=lambda recorded: recorded.stream == self.stream)
        return self.since(WorkloadObserved, test) or own

    def on(self, cluster: str, *types: type[Event]) -> Recorded | None:
        """Return the newest event of some types on a cluster."""
        return self.last(*types, test=lambda recorded: recorded.cluster == cluster)


def result_of(case: Case, shows: Recorded | None = None) -> tuple[str, Recorded | None]:
    """Return the cluster whose result the Workload has, and the decision that took it over; "" and None if nobody's
    was.

    Kueue may finish the Workload by the last status of its job before we do. `shows` is the event that shows it
    finished."""

    def took(recorded: Recorded) -> bool:
        event, early = recorded.event, shows is None or recorded.position < shows.position
        relayed = (
            isinstance(event, StatusRelayDecided) and event.reason == WorkloadReason.FINAL_STATUS and event.source != ""
        )
        return early and recorded.stream == case.stream and (isinstance(event, FinishDecided) or relayed)

    decided = case.last(FinishDecided, StatusRelayDecided, test=took)
    return (decided.event.source if decided is not None else ""), decided  # type: ignore[union-attr]


def said(seen: Conditioned | None, kind: str) -> str:
    """Return what a condition says, in brackets and after a space; "" if it says nothing."""
    condition = seen.condition(kind) if seen is not None else None
    if condition is None:
        return ""
    text = ": ".join(filter(None, [condition.reason, condition.message.rstrip(".")]))
    return f" ({text})" if text else ""


def said_of_quota(case: Case) -> str:
    """Return what the condition QuotaReserved says, as `said` does; "" where it repeats why the Workload was evicted,
    which it does until it is tried again."""
    local = case.state.local
    evicted = local.condition("Evicted") if local is not None else None
    text = said(local, "QuotaReserved")
    repeated = evicted is not None and evicted.message != "" and evicted.message.rstrip(".") in text
    return "" if repeated else text


def away(case: Case, cluster: str, position: int | None = None) -> Recorded | None:
    """Return the event with which a cluster's absence began: the one that lasts now, or that lasted at a position; or
    that says why the Workload's copy there cannot be read.
    """
    if position is None and case.context.unread_on(cluster) is not None:
        return case.on(cluster, ObservationRefused)
    stream = cluster_stream(cluster)
    own = [e for e in case.events if e.stream == stream and (position is None or e.position < position)]
    back = max((e.position for e in own if isinstance(e.event, ClusterConnected)), default=0)
    began = ClusterLost | ClusterConnectFailed | ClusterStandby
    return next((e for e in own if isinstance(e.event, began) and e.position > back), None)


def given_up(case: Case, cluster: str, position: int | None = None) -> Recorded | None:
    """Return the event with which an operator gave a cluster up during the absence that `away` returns."""
    began = away(case, cluster, position)
    stream = cluster_stream(cluster)
    return case.last(
        ClusterForgotten,
        test=lambda e: (
            e.stream == stream
            and began is not None
            and began.position < e.position
            and (position is None or e.position < position)
        ),
    )


def by_operator(gave_up: Recorded | None) -> str:
    """Return who gave a cluster up, in brackets and after a space; "" if nobody did."""
    return f" ({gave_up.event.by} gave it up)" if gave_up and isinstance(gave_up.event, ClusterForgotten) else ""


def taken_back(case: Case) -> Answer | None:
    """Return why the last attempt ended, if it did: our own Retry, or an eviction on the management cluster."""
    evicted = _eviction(case)
    if evicted is None or not isinstance(evicted.event, WorkloadObserved):
        return None
    chosen = case.last(WinnerChosen, test=lambda e: e.position < evicted.position)
    retry = case.last(CheckStateDecided, test=lambda e: e.position < evicted.position)
    condition = evicted.event.condition("Evicted")
    if (
        condition is not None
        and condition.reason == "AdmissionCheck"
        and retry is not None
        and isinstance(retry.event, CheckStateDecided)
        and retry.event.state == "Retry"
    ):
        cluster = chosen.cluster if chosen is not None else ""
        text = f"it was taken back from {cluster or 'its cluster'} because {because(retry.event, cluster)}"
        lost, gave_up = away(case, cluster, retry.position), given_up(case, cluster, retry.position)
        return text + by_operator(gave_up), [chosen, lost, gave_up, retry, evicted]
    return f"it was evicted on the management cluster{said(evicted.event, 'Evicted')}", [chosen, evicted]


def _eviction(case: Case) -> Recorded | None:
    """Return the observation with which the newest eviction was first seen."""
    first: Recorded | None = None
    for recorded in case.backwards():
        if isinstance(recorded.event, WorkloadObserved):
            if recorded.event.is_true("Evicted"):
                first = recorded
            elif first is not None:
                break
    return first


def not_available(case: Case, cluster: str) -> str:
    """Return why a cluster cannot take the Workload now, as a clause without a subject."""
    if (unread := case.context.unread_on(cluster)) is not None:
        what = "may be another's" if unread.field == MADE_FOR_FIELD else "cannot be read"
        return f"{unread.kind} {unread.namespace}/{unread.name} is there and {what} ({unread.error})"
    connection = case.context.connections.get(cluster)
    if connection is None:
        return "there is no connection to it"
    if not connection.connected:
        since = connection.lost_since or connection.since
        text = f"{connection.phase.lower()}{f' since {since:{STAMP}}' if since else ''}"
        return f"{text}{f': {connection.message}' if connection.message else ''}"
    return (
        "; ".join(f"{kind}: {said}" for kind, said in sorted(connection.off.items())) or "not all kinds are listed yet"
    )


def waits_since(case: Case) -> Recorded | None:
    """Return since when the Workload has no quota, as its condition now says it."""
    text = said(case.state.local, "QuotaReserved")
    return case.shown(lambda seen: not seen.is_true("QuotaReserved") and said(seen, "QuotaReserved") == text)


def quota_since(case: Case) -> Recorded | None:
    """Return since when it has quota, with the states that its admission checks now have."""
    local = case.state.local
    checks = {entry.name: entry.state for entry in local.checks} if local is not None else {}
    return case.shown(
        lambda seen: seen.is_true("QuotaReserved") and {entry.name: entry.state for entry in seen.checks} == checks
    )


def placed_since(case: Case) -> Recorded | None:
    """Return since when the Workload says that it is with its cluster; without one, that it is admitted."""
    if not case.standing.cluster:
        return true_since(case, "Admitted")
    return case.shown(lambda seen: seen.cluster_name == case.standing.cluster)


def true_since(case: Case, kind: str) -> Recorded | None:
    """Return since when a condition is true."""
    return case.shown(lambda seen: seen.is_true(kind))


def beside(case: Case, cluster: str) -> tuple[str, Recorded | None]:
    """Return for which checks of its worker the copy on a cluster with quota waits, or since when one without may
    preempt others, with the decision; nothing if neither is so."""
    clone = case.state.remote(cluster).clone
    if clone is not None and clone.is_true("QuotaReserved") and not clone.is_true("Admitted") and clone.awaits:
        each = (f"{name} ({said.rstrip('.')})" for name, said in sorted(clone.awaits.items()))
        return f", and waits for the check of {listed(list(each))}", None
    if clone is None or clone.gate is None or clone.is_true("QuotaReserved"):
        return "", None
    since = stamp(clone.gate.last_transition_time, case.now)
    return f", and may preempt others since {since:{STAMP}}", case.on(cluster, GateOpeningDecided)


def scores_of(case: Case) -> tuple[str, Recorded | None]:
    """Return how the clusters were scored for this attempt, and the event that says so; nothing where they were not."""
    last = case.last(ClustersScored, test=lambda e: getattr(e.event, "attempt", 0) == case.state.attempt)
    if last is None or not isinstance(last.event, ClustersScored):
        return "", None
    each = (
        f"{one.cluster} {one.score} "
        f"({', '.join(f'{name} {points}: {one.facts[name]}' for name, points in one.rules.items())})"
        for one in last.event.clusters
    )
    out = (f"{name} was left out: {why}" for name, why in last.event.left_out.items())
    return f"; scores: {'; '.join((*each, *out))}", last


def held_by(case: Case) -> list[str]:
    """Return the clusters that are waited for because the job may run there unseen."""
    return list(unseen(case.state, case.context, case.now, case.state.winner))


def copies_seen(case: Case) -> list[Recorded]:
    """Return what was seen last of the copies that nobody knows and that an elastic job waits for."""
    newest = {(e.stream, e.cluster): e for e in case.events if isinstance(e.event, RemoteJobObserved)}
    places = ((copy.stream, copy.cluster) for copy in strays.waited_for(case.context))
    return [newest[place] for place in places if place in newest]


def not_reached(case: Case, clusters: Iterable[str]) -> str:
    """Return why each of some clusters cannot be reached."""
    return "; ".join(f"{name}: {not_available(case, name)}" for name in clusters)


def on_worker(case: Case, cluster: str) -> str:
    """Return what holds a Workload up on one of the clusters that it is offered to."""
    if not case.context.in_view(cluster):
        return f"cannot be asked ({not_available(case, cluster)})"
    failure = case.state.trouble.get(f"{cluster}/Workload")
    clone = case.state.remote(cluster).clone
    if failure is not None:
        return f"refused our write: {failure.message}"
    if clone is None:
        return "has no copy yet"
    quota = "" if clone.is_true("QuotaReserved") else said(clone, "QuotaReserved")
    return f"says: {face(clone)}{quota}{beside(case, cluster)[0]}"


def seen_on(case: Case, cluster: str) -> Recorded | None:
    """Return since when the copy on a cluster says what it says now."""
    clone = case.state.remote(cluster).clone
    if clone is None:
        return case.on(cluster, CloneObserved)
    now = face(clone), said(clone, "QuotaReserved")
    return case.since(CloneObserved, lambda seen: (face(seen), said(seen, "QuotaReserved")) == now, cluster)


def refusal(case: Case, cluster: str) -> list[Recorded | None]:
    """Return the last write that an API server refused, if that still holds us up."""
    targets = {target for target in case.state.trouble if target.startswith(f"{cluster}/")}
    return [case.last(EffectFailed, test=lambda e: getattr(e.event, "target", "") in targets)] if targets else []


def restores(events: Iterable[Recorded], stream: str) -> Iterator[tuple[Recorded, Recorded]]:
    """Yield each restore of the management cluster that showed the Workload of a stream otherwise than it was known,
    with the last observation that says so: what the lists after a restore show otherwise is recorded before Workloads
    count as listed."""
    restore: Recorded | None = None
    shown: Recorded | None = None
    for recorded in (e for e in events if e.stream in (stream, cluster_stream(MANAGEMENT))):
        event = recorded.event
        if isinstance(event, ClusterRestored):
            restore = restore or recorded
        elif restore is not None and isinstance(event, WorkloadObserved | WorkloadGone):
            shown = recorded
        elif isinstance(event, KindSynced) and event.kind == WORKLOADS.name:
            yield from _pair(restore, shown)
            restore = shown = None
    yield from _pair(restore, shown)


def _pair(restore: Recorded | None, shown: Recorded | None) -> list[tuple[Recorded, Recorded]]:
    return [(restore, shown)] if restore is not None and shown is not None else []


def restored(case: Case) -> tuple[Recorded, Recorded] | None:
    """Return the last restore that concerned the Workload; of another one that had its name before, nothing counts."""
    last = case.last(WorkloadObserved, WorkloadGone, test=lambda e: e.stream == case.stream)
    found = [(restore, shown) for restore, shown in restores(case.events, case.stream) if _same(shown, last)]
    return found[-1] if found else None


def _same(one: Recorded, other: Recorded | None) -> bool:
    return other is not None and getattr(one.event, "uid", "") == getattr(other.event, "uid", None)


def went_with_restore(case: Case) -> bool:
    """Whether the Workload is gone since the management cluster was put back to a backup which did not have it."""
    found = restored(case)
    return found is not None and isinstance(found[1].event, WorkloadGone)


def after_restore(case: Case) -> Answer:
    """Return what a sentence is to add about a restore of the management cluster, "" if it changed nothing for the
    Workload."""
    found = restored(case)
    if found is None or case.standing.word == "Finished":
        return "", []
    restore, shown = found
    return f"{said_of_restore(restore, shown)}.", [restore, shown]


def said_of_restore(restore: Recorded, shown: Recorded) -> str:
    """Return, as a sentence without its full stop, that the management cluster was restored, and what its backup
    had."""
    assert isinstance(restore.event, ClusterRestored)
    when = (
        f"The management cluster was restored from a backup at {restore.recorded_at:{STAMP}} ({restore.event.message})"
    )
    if isinstance(shown.event, WorkloadGone):
        return f"{when}, which did not have the Workload"
    return f"{when}, which had the Workload as it was before"
