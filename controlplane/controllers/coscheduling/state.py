"""The fold of one run: its attempts, what was made for each and is not deleted yet, and which writes are open.

In: the events of `pipelinerun/NS/NAME`, in order. Out: `RunState`, a value. An attempt is one object of the run's
name, told from others of its name by UID; what was made for it is what was seen of it and not seen to go, so cleanup
after success, deletion and failover is one and the same."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.controllers.coscheduling import observations
from controlplane.controllers.coscheduling.events import (
    AttemptFenced,
    ClusterChosen,
    CoschedulingFailed,
    CoschedulingUnneeded,
    CoschedulingWrite,
    ModePinned,
    PlaceholderEvicted,
    RefusalWithdrawn,
    RunCompleted,
    RunRefused,
    UnfitTaskTold,
    target_of,
)
from controlplane.controllers.coscheduling.events import Where as Place
from controlplane.controllers.coscheduling.names import claim_name, made_claim_name, placeholder_name
from controlplane.log.event import Recorded
from controlplane.runtime.streams import Folded, StreamFold, StreamFolds
from controlplane.runtime.writes import OpenWrites, WriteFailure, closed, dropped, is_late, opened, refused, without
from controlplane.values import Value

CONDITION = "Coscheduled"
_REST = timedelta(minutes=5)
_replace = msgspec.structs.replace


class Moved(msgspec.Struct, frozen=True):
    """That a placeholder's pod was sent away from a node: for which unfitness of the node (`since`), when, and how
    often so far.
    """

    uid: str
    node: str
    since: int
    at: datetime
    times: int = 1


class RunAttempt(Value):
    """One object of a run's name. `run` is as it was last seen, None before that; `gone` after it was deleted.
    `refused` is what was last said on it, `unfit` what was said of a task that never fits; `unsaid`: that it is to be
    said again; `wiped`: how often somebody overwrote it, `wiped_at`: when last."""

    uid: str
    number: int = 0
    cluster: str = ""
    run: observations.WorkerRunObserved | None = None
    gone: bool = False
    pinned: ModePinned | None = None
    refused: str = ""
    unfit: str = ""
    unsaid: bool = False
    wiped: int = 0
    wiped_at: datetime | None = None
    completed: bool = False
    fenced: bool = False
    placeholders: dict[str, observations.PlaceholderCreated] = {}
    claims: dict[str, observations.ClaimObserved] = {}
    tasks: dict[str, observations.TaskBound] = {}
    moved: dict[str, Moved] = {}

    @property
    def live(self) -> bool:
        """Whether the run is there."""
        return self.run is not None and not self.gone

    @property
    def expected(self) -> bool:
        """Whether the run is still to be seen: one kind may be seen before another, and its tasks were."""
        return self.run is None and not self.gone and bool(self.tasks)

    @property
    def quiet_until(self) -> datetime | None:
        """Until when nothing is said again that somebody overwrote; later each time."""
        return (
            self.wiped_at + min(timedelta(seconds=1 << min(self.wiped, 9)), _REST)
            if self.wiped_at is not None
            else None
        )

    @property
    def over(self) -> bool:
        """Whether what was made for it goes."""
        return self.completed or self.fenced

    def placeholder(self, name: str) -> observations.PlaceholderCreated | None:
        """Return a placeholder of the attempt by its name."""
        return next((found for found in self.placeholders.values() if found.name == name), None)


class RunState(OpenWrites[CoschedulingWrite, WriteFailure], StreamFold):
    """A run of one name, through all its attempts. `pods` are placeholders' pods by UID, `task_pods` those of tasks;
    `waiting`: since when those wait that the scheduler finds no node for.
    """

    namespace: str
    name: str
    version: int = 0
    position: int = 0
    attempts: dict[str, RunAttempt] = {}
    claims: dict[str, observations.ClaimObserved] = {}
    pods: dict[str, observations.PlaceholderReady | observations.PlaceholderUnready] = {}
    task_pods: dict[str, observations.TaskPodObserved] = {}
    waiting: dict[str, datetime] = {}

    @property
    def settled(self) -> bool:
        """Whether nothing more can come of it: no run, nothing made for one, no open write, and no task that was seen
        before its run.
        """
        claimed = any(one.owners or one.placeholder for one in self.claims.values())
        quiet = not self.effects and not self.pods and not self.task_pods and not claimed
        return quiet and not any(one.live or one.placeholders or one.expected for one in self.attempts.values())

    @property
    def current(self) -> RunAttempt | None:
        """The attempt whose run is there; the newest, if several are."""
        live = [one for one in self.attempts.values() if one.live]
        return live[-1] if live else None

    def claims_of(self, attempt: RunAttempt) -> list[observations.ClaimObserved]:
        """Return the claims that were made of an attempt's templates, by their names, which its UID is in: those that
        it owns, and those that nobody does. Another claim that names the run as its owner is somebody's who wants it to
        go with the run.
        """
        names = _claim_names(attempt)
        claims = [one for one in self.claims.values() if one.name in names]
        return [one for one in claims if attempt.uid in one.owners or (not one.owners and names[one.name])]


def _claim_names(attempt: RunAttempt) -> dict[str, bool]:
    """Return the names that claims of an attempt's templates may have, each with whether one may have no owner: those
    that Tekton's StatefulSets make have none.
    """
    run = attempt.run
    if run is None:
        return {}
    places = [(one.base, one.name, attempt.uid) for one in run.workspaces if one.template]
    placeholder = placeholder_name("", run.name)
    made = {made_claim_name(*place, placeholder): True for place in places}
    return {claim_name(*place): False for place in places} | made


def fold(state: RunState, recorded: Recorded) -> RunState:
    """Return the state after one more event of the run's stream."""
    return _pruned(_fold(state.folded_to(recorded), recorded))


def _pruned(state: RunState) -> RunState:
    """Return the state without attempts of which nothing is left. What still shows of one is collected with its
    owner.
    """
    left = [
        uid
        for uid, one in state.attempts.items()
        if one.gone and (one.over or one.pinned is None) and not one.placeholders and not state.claims_of(one)
    ]
    if not left:
        return state
    return _replace(state, attempts={uid: one for uid, one in state.attempts.items() if uid not in left})


def _fold(state: RunState, recorded: Recorded) -> RunState:
    event, cluster = recorded.event, recorded.cluster
    match event:
        case observations.WorkerRunObserved() | observations.WorkerRunGone():
            state = _unsaid(state, target_of(cluster, "PipelineRun", event.name), event)
            return _fold_run(_close(state, cluster, "PipelineRun", event.name), event, recorded)
        case observations.PlaceholderCreated() | observations.PlaceholderDeleted():
            return _fold_placeholder(_close(state, cluster, "StatefulSet", event.name), event)
        case observations.PlaceholderReady() | observations.PlaceholderUnready() | observations.PlaceholderPodGone():
            return _fold_pod(_close(state, cluster, "Pod", event.name), event)
        case observations.ClaimObserved() | observations.ClaimDeleted():
            return _fold_claim(_close(state, cluster, "PersistentVolumeClaim", event.name), event)
        case observations.TaskBound():
            state = _close(state, cluster, "TaskRun", event.name)
            attempt = _attempt(state, event.owner)
            return _with(state, _replace(attempt, tasks={**attempt.tasks, event.uid: event}))
        case observations.TaskGone():
            return _fold_task_gone(_close(state, cluster, "TaskRun", event.name), event.uid)
        case observations.TaskPodObserved() | observations.TaskPodGone():
            return _fold_task_pod(state, event, recorded.recorded_at)
        case _:
            return _fold_decision(state, recorded)


def _fold_decision(state: RunState, recorded: Recorded) -> RunState:
    event = recorded.event
    match event:
        case ClusterChosen():
            return _with(state, _replace(_attempt(state, event.uid), number=event.attempt, cluster=event.cluster))
        case ModePinned():
            return _with(state, _replace(_attempt(state, event.uid), pinned=event))
        case RunCompleted():
            return _with(_withdrawn(state, event.uid), _replace(_attempt(state, event.uid), completed=True))
        case AttemptFenced():
            return _with(_withdrawn(state, event.uid), _replace(_attempt(state, event.uid), fenced=True))
        case CoschedulingFailed() | CoschedulingUnneeded() if is_late(state, event.target, recorded):
            return state
        case CoschedulingFailed() | CoschedulingUnneeded():
            return _fold_ended(state, event, recorded.recorded_at)
        case CoschedulingWrite():
            return _fold_write(state, event, recorded)
        case _:
            return state


def _fold_ended(state: RunState, event: CoschedulingFailed | CoschedulingUnneeded, at: datetime) -> RunState:
    if isinstance(event, CoschedulingFailed):
        return refused(_unsaid(state, event.target), event)
    # The server took it and shows no change (a webhook undid it): it is not asked again at once.
    rest = WriteFailure(1, 0, "", "the write changed nothing", at + _REST, event.action)
    return _replace(dropped(state, event.target), trouble={**state.trouble, event.target: rest})


def _fold_write(state: RunState, decision: CoschedulingWrite, recorded: Recorded) -> RunState:
    state = opened(state, decision, recorded)
    attempt = _attempt(state, decision.attempt_uid)
    match decision:
        case RunRefused():
            return _with(state, _replace(attempt, refused=decision.message, unsaid=False))
        case RefusalWithdrawn():
            return _with(state, _replace(attempt, refused="", unsaid=False))
        case UnfitTaskTold():
            return _with(state, _replace(attempt, unfit=decision.message, unsaid=False))
        case PlaceholderEvicted():
            before = attempt.moved.get(decision.placeholder)
            again = before is not None and before.uid != decision.uid
            times = before.times + again if before is not None else 1
            moved = Moved(decision.uid, decision.node, decision.since, recorded.recorded_at, times)
            return _with(state, _replace(attempt, moved={**attempt.moved, decision.placeholder: moved}))
        case _:
            return state


def _unsaid(
    state: RunState, target: str, seen: observations.WorkerRunObserved | observations.WorkerRunGone | None = None
) -> RunState:
    """Return the state in which what was to be said on a run is to be said again: the write that says it ends here, and
    the run does not show it.
    """
    effect = state.effects.get(target)
    if effect is None or not isinstance(decision := effect.decision, RunRefused | UnfitTaskTold):
        return state
    if isinstance(seen, observations.WorkerRunObserved) and seen.uid == decision.attempt_uid:
        told = said_on(seen)
        if told is not None and told.get("message") == decision.message:
            return state
    attempt = _attempt(state, decision.attempt_uid)
    return _with(state, _replace(attempt, unsaid=True))


def said_on(run: observations.WorkerRunObserved) -> dict[str, Any] | None:
    """Return what we said on a run, None if it shows nothing of ours."""
    return next((one for one in run.conditions if one.get("type") == CONDITION and one.get("status") == "False"), None)


def _wiped(attempt: RunAttempt, seen: observations.WorkerRunObserved, at: datetime) -> RunAttempt:
    """Return the attempt, on which something is to be said again if a run shows no longer what was said on it: Tekton
    writes the whole status, by what it had read before.
    """
    told = said_on(attempt.run) if attempt.run is not None else None
    if told is None or said_on(seen) is not None or told.get("message") not in (attempt.refused, attempt.unfit):
        return attempt
    return _replace(attempt, unsaid=True, wiped=attempt.wiped + 1, wiped_at=at)


def _fold_run(
    state: RunState, event: observations.WorkerRunObserved | observations.WorkerRunGone, recorded: Recorded
) -> RunState:
    if isinstance(event, observations.WorkerRunObserved):
        known = _wiped(state.attempts.get(event.uid) or RunAttempt(uid=event.uid), event, recorded.recorded_at)
        return _with(state, _replace(known, run=event, cluster=known.cluster or recorded.cluster))
    found = state.attempts.get(event.uid)
    return state if found is None else _with(state, _replace(found, gone=True))


def _fold_placeholder(
    state: RunState, event: observations.PlaceholderCreated | observations.PlaceholderDeleted
) -> RunState:
    before = next((one for one in state.attempts.values() if event.uid in one.placeholders), None)
    if before is not None:
        state = _with(state, _replace(before, placeholders=without(before.placeholders, event.uid)))
    if not isinstance(event, observations.PlaceholderCreated):
        return state
    # Whose run is deleted without its dependents loses its owner, and is what was made for that run all the same.
    attempt = _attempt(state, event.owner or (before.uid if before is not None else ""))
    return _with(state, _replace(attempt, placeholders={**attempt.placeholders, event.uid: event}))


def _fold_pod(
    state: RunState,
    event: observations.PlaceholderReady | observations.PlaceholderUnready | observations.PlaceholderPodGone,
) -> RunState:
    if isinstance(event, observations.PlaceholderPodGone):
        return _replace(state, pods=without(state.pods, event.uid))
    return _replace(state, pods={**state.pods, event.uid: event})


def _fold_claim(state: RunState, event: observations.ClaimObserved | observations.ClaimDeleted) -> RunState:
    if isinstance(event, observations.ClaimObserved):
        return _replace(state, claims={**state.claims, event.uid: event})
    return _replace(state, claims=without(state.claims, event.uid))


def _fold_task_gone(state: RunState, uid: str) -> RunState:
    for attempt in state.attempts.values():
        if uid in attempt.tasks:
            return _with(state, _replace(attempt, tasks=without(attempt.tasks, uid)))
    return state


def _fold_task_pod(
    state: RunState, event: observations.TaskPodObserved | observations.TaskPodGone, at: datetime
) -> RunState:
    waiting = without(state.waiting, event.uid)
    if isinstance(event, observations.TaskPodGone):
        return _replace(state, task_pods=without(state.task_pods, event.uid), waiting=waiting)
    if event.complaint and not event.node and not event.over:
        waiting[event.uid] = state.waiting.get(event.uid, at)
    return _replace(state, task_pods={**state.task_pods, event.uid: event}, waiting=waiting)


def _attempt(state: RunState, uid: str) -> RunAttempt:
    return state.attempts.get(uid) or RunAttempt(uid=uid)


def _with(state: RunState, attempt: RunAttempt) -> RunState:
    return _replace(state, attempts={**state.attempts, attempt.uid: attempt})


def _withdrawn(state: RunState, uid: str) -> RunState:
    """Return the state without the open creations of an attempt that is over; what was created all the same shows, and
    goes.
    """
    kept = {
        target: effect
        for target, effect in state.effects.items()
        if effect.decision.attempt_uid != uid or "CreationDecided" not in type(effect.decision).__name__
    }
    return _replace(state, effects=kept)


def _close(state: RunState, cluster: str, where: Place, name: str) -> RunState:
    """Return the state without the open write to an object that was seen to change: what follows is decided anew."""
    return closed(state, target_of(cluster, where, name))


FOLDS: StreamFolds = {"pipelinerun": Folded(RunState.initial, fold)}
