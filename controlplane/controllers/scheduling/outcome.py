"""Turns a cycle's outcome into events and messages: the failure of a pod, the victims, the score; and what a plugin's
own fault means.

In: a `CycleResult`. Out: `SchedulingFailed` with the message that readers of `kubectl describe` know, the nodes behind
each of its reasons, `VictimChosen` events. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from controlplane.controllers.scheduling.binding.protocol import BindingRequests, Score
from controlplane.controllers.scheduling.cycle import CycleResult
from controlplane.controllers.scheduling.events import SchedulingFailed, VictimChosen
from controlplane.controllers.scheduling.framework.plugin import CycleState
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.framework.status import SUCCESS, NodeStatuses, Status, failed
from controlplane.controllers.scheduling.queue.queue import QueueEntry
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.controllers.scheduling.state import victim_stream
from controlplane.log.event import NewEvent


def failure_of(found: CycleResult, nominated: str, entry: QueueEntry | None, *, preempt: bool) -> SchedulingFailed:
    """Return why there is no node. `nominated` is the node that it was nominated for before; without `preempt` no room
    may be made.
    """
    status, preemption = found.status, found.post_filtered
    attempt, woken = (entry.attempts, entry.woken) if entry is not None else (0, None)
    if not status.rejected:
        why = "; ".join(status.reasons)
        return SchedulingFailed(reason=SchedulingReason.SCHEDULER_ERROR, message=why, attempt=attempt, woken=woken)
    message = " ".join(status.reasons)
    if preemption is not None and preemption.status.reasons and not preemption.candidates:
        message = f"{message} {' '.join(preemption.status.reasons)}"
    if preemption is None:
        nominated = ""  # it was not asked: a plugin refused the node that was found, or the profile has none
    elif preemption.nominate is not None and (preempt or not preemption.nominate):
        nominated = preemption.nominate
    return SchedulingFailed(
        reason=SchedulingReason.UNSCHEDULABLE,
        message=message,
        plugins=refusing(found),
        nominated=nominated,
        attempt=attempt,
        woken=woken,
    )


def refusing_nodes(found: CycleResult, snapshot: Snapshot) -> dict[str, list[str]]:
    """Return the nodes that gave each reason, so many and of so many reasons that the event stays small: of each the
    first rows, and the reasons of the most nodes. None where all were refused before any was looked at, or a plugin
    refused the one that was found.
    """
    if found.node or found.status.plugin or not found.status.rejected:
        return {}
    order = np.argsort(found.statuses.which, kind="stable")
    numbers, starts, counts = np.unique(found.statuses.which[order], return_index=True, return_counts=True)
    rows: dict[str, set[int]] = {}
    many: Counter[str] = Counter()
    for number, start, count in zip(numbers.tolist(), starts.tolist(), counts.tolist(), strict=True):
        first = order[start : start + min(count, SchedulingFailed.NAMED)].tolist()
        for reason in found.statuses.statuses[number].reasons:
            rows.setdefault(reason, set()).update(first)
            many[reason] += count
    told = sorted(many, key=lambda reason: (-many[reason], reason))[: SchedulingFailed.NAMED]
    return {
        reason: sorted(snapshot.nodes[row].name for row in sorted(rows[reason])[: SchedulingFailed.NAMED])
        for reason in sorted(told)
    }


def refusing(found: CycleResult) -> list[str]:
    """Return the plugins that refused: those of the nodes, or the one that ended the cycle."""
    plugins = {found.statuses.statuses[number].plugin for number in np.unique(found.statuses.which).tolist()}
    if not found.node:
        plugins.add(found.status.plugin)
    else:
        plugins = {found.status.plugin}  # nodes there were; Reserve or Permit refused
    return sorted(plugins - {""})


def victims_of(victims: Sequence[Pod], pod: Pod, node: str, scheduler: str, cause: int) -> list[NewEvent]:
    """Return the events that choose the pods which have to go for another; `cause` is what that one's own answer rests
    on.
    """
    return [
        NewEvent(
            stream=victim_stream(victim.namespace, victim.name),
            event=VictimChosen(
                uid=victim.uid,
                node=victim.node_name or node,  # members of a gang go from other nodes too
                preemptor=pod.key,
                preemptor_uid=pod.uid,
                scheduler=scheduler,
                generation=victim.generation,
                reason=SchedulingReason.LOWER_PRIORITY,
            ),
            caused_by=cause,
        )
        for victim in victims
    ]


def score_of(framework: Framework, snapshot: Snapshot, pod: Pod, found: CycleResult, entry: QueueEntry | None) -> Score:
    """Return the score of the chosen node; of an only one too, which a cycle does not score: a source compares it with
    other clusters'.
    """
    row, scores = snapshot.row[found.node], found.scores
    attempt, woken = (entry.attempts, entry.woken) if entry is not None else (0, None)
    if scores is None:
        rows, state = np.array([row], dtype=np.int64), found.state.clone()
        if not framework.pre_score(state, pod, snapshot, rows).ok:
            return Score(0, {}, len(found.feasible), attempt, woken)
        scores = framework.score(state, pod, snapshot, rows)
    at = np.flatnonzero(scores.rows == row)
    if not len(at):
        return Score(0, {}, len(found.feasible), attempt, woken)
    parts = {name: int(weighted[at[0]]) for name, weighted in scores.weighted.items()}
    return Score(int(scores.total[at[0]]), parts, len(found.feasible), attempt, woken)


class PluginFaults:
    """A plugin that fails by an exception fails one pod's cycle, not the scheduler. `heard` is told of each."""

    def __init__(self) -> None:
        self.heard: Callable[[Exception], None] = lambda error: None

    def guard(self, cycle: Callable[[], CycleResult]) -> CycleResult:
        """Run a cycle; a fault is an error of the cycle."""
        try:
            return cycle()
        except Exception as error:
            nothing = np.empty(0, dtype=np.int64)
            statuses = NodeStatuses(np.empty(0, dtype=np.int32), (SUCCESS,))
            return CycleResult(self._said(error), statuses, nothing, CycleState())

    def status(self, ask: Callable[[], tuple[Status, dict[str, float]]]) -> tuple[Status, dict[str, float]]:
        """Run Reserve and Permit; a fault is an error of theirs."""
        try:
            return ask()
        except Exception as error:
            return self._said(error), {}

    def answer(self, ask: Callable[[], tuple[Status, BindingRequests | None]]) -> tuple[Status, BindingRequests | None]:
        """Run PreBind and Bind; a fault is an error of theirs."""
        try:
            return ask()
        except Exception as error:
            return self._said(error), None

    def _said(self, error: Exception) -> Status:
        self.heard(error)
        return failed(f"a plugin failed: {type(error).__name__}: {error}")
