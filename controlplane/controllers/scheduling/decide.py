"""Decides what follows from the state of a pod, or of a victim, without looking at any node: time-outs, refused writes,
what the pod's condition says.

In: a state, the time. Out: decisions, and when to look again. Pure. Finding a node is a cycle's work (`loop`); what a
cycle found comes back here as events."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.scheduling.events import (
    BindingDecided,
    PendingPodObserved,
    PodStatusDecided,
    ReservationDropped,
    SchedulingFailed,
    VictimMarkDecided,
    VictimRemovalDecided,
)
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.state import (
    BINDING,
    MARK,
    PRE_BIND,
    REMOVAL,
    STATUS,
    PodState,
    VictimState,
    said,
    shows,
)
from controlplane.kube.well_known import GATED_MESSAGE
from controlplane.log.event import Event
from controlplane.runtime.writes import WriteFailure

# A binding that was answered with a conflict has been made, or cannot be: the watch shows which. If it is silent for so
# long, it was not.
_SILENCE = timedelta(seconds=60)
_MOST_TRIES = 4


class SchedulingPlan(msgspec.Struct):
    """What one pass decided, and when to look again though nothing happens."""

    decisions: list[Event] = []
    wake: datetime | None = None

    def say(self, *events: Event) -> None:
        """Add decisions."""
        self.decisions = [*self.decisions, *events]

    def wake_at(self, when: datetime) -> None:
        """Look again at this time at the latest."""
        self.wake = when if self.wake is None else min(self.wake, when)


def decide_pod(state: PodState, now: datetime) -> SchedulingPlan:
    """Return what follows for a pod."""
    plan, pod = SchedulingPlan(), state.pod
    if pod is None or pod.node:
        return plan
    if state.held is not None:
        _keep_hold(plan, state, pod, now)
    elif not pod.deleting and not pod.over:
        _tell(plan, state, pod, now)
    return plan


def _keep_hold(plan: SchedulingPlan, state: PodState, pod: PendingPodObserved, now: datetime) -> None:
    held = state.held
    assert held is not None
    if (pod.deleting or pod.over) and (state.binding is None or state.unsure):
        _drop(plan, held.number, SchedulingReason.POD_GONE)
    elif not state.permitted:
        _await_permits(plan, state, now)
    elif state.pre_bind is not None and state.binding is None:
        _after_pre_bind(plan, state, now)
    elif state.unsure:
        _settle_binding(plan, state, state.trouble.get(BINDING), now)


def _await_permits(plan: SchedulingPlan, state: PodState, now: datetime) -> None:
    held = state.held
    assert held is not None
    for plugin, until in sorted(held.waits.items(), key=lambda wait: (wait[1], wait[0])):
        if plugin in state.allowed:
            continue
        if now < until:
            plan.wake_at(until)
            return
        message = f'pod "{state.name}" rejected due to timeout after waiting at plugin {plugin}'
        _drop(plan, held.number, SchedulingReason.PERMIT_TIMEOUT, message, plugin)
        plan.say(SchedulingFailed(reason=SchedulingReason.UNSCHEDULABLE, message=message, plugins=[plugin]))
        return


def _after_pre_bind(plan: SchedulingPlan, state: PodState, now: datetime) -> None:
    """Go on to the binding; where something has to come of what was written first, the loop says when it has."""
    held, first = state.held, state.pre_bind
    assert held is not None
    assert first is not None
    failure = state.trouble.get(PRE_BIND)
    if failure is not None:
        _settle_pre_bind(plan, state, failure, now)
    elif first.until is not None and now >= first.until:
        message = f'pod "{state.name}" was not bound: what its binding waits for was not there in time'
        _drop(plan, held.number, SchedulingReason.PRE_BIND_TIMEOUT, message)
        plan.say(SchedulingFailed(reason=SchedulingReason.SCHEDULER_ERROR, message=message))
    elif first.until is not None:
        plan.wake_at(first.until)
    elif state.pre_bound >= len(first.calls) and state.pod is not None and not state.pod.candidate:
        plan.say(
            BindingDecided(
                number=held.number, node=held.node, uid=held.uid, call=first.bind, reason=SchedulingReason.BIND
            )
        )


def _settle_pre_bind(plan: SchedulingPlan, state: PodState, failure: WriteFailure, now: datetime) -> None:
    """A write before the binding was refused. One that may have been made is made again while there is time: the volume
    or device has its claim then, and nobody else may have it meanwhile.
    """
    held, first = state.held, state.pre_bind
    assert held is not None
    assert first is not None
    if not _is_unsure(failure) or first.until is None or failure.until >= first.until:
        _give_up(plan, held.number, SchedulingReason.PRE_BIND_FAILED, failure)
    elif now < failure.until:
        plan.wake_at(failure.until)
    else:
        left = first.calls[state.pre_bound :]
        plan.say(msgspec.structs.replace(first, calls=left, reason=SchedulingReason.BIND_AGAIN))


def _settle_binding(plan: SchedulingPlan, state: PodState, failure: WriteFailure | None, now: datetime) -> None:
    """The API server did not confirm the binding: wait for the watch, try again, or give up, by what it answered.

    Only an answer that rules out that it was made frees the node: otherwise it would be given away twice.
    """
    held, binding = state.held, state.binding
    assert held is not None
    assert binding is not None
    if BINDING in state.effects or failure is None:
        return
    if failure.code == 409:
        until = failure.until + _SILENCE
        if now >= until:
            _give_up(plan, held.number, SchedulingReason.BIND_FAILED, failure)
        else:
            plan.wake_at(until)
    elif _is_unsure(failure) and failure.failures < _MOST_TRIES:
        if now >= failure.until:
            plan.say(msgspec.structs.replace(binding, reason=SchedulingReason.BIND_AGAIN))
        else:
            plan.wake_at(failure.until)
    else:
        _give_up(plan, held.number, SchedulingReason.BIND_FAILED, failure)


def _is_unsure(failure: WriteFailure) -> bool:
    """Whether an answer leaves open what has become of a write, or will."""
    return failure.code >= 500 or failure.code == 429


def _give_up(plan: SchedulingPlan, number: int, reason: SchedulingReason, failure: WriteFailure) -> None:
    message = f"{failure.code} {failure.error}: {failure.message}"
    _drop(plan, number, reason, message)
    plan.say(SchedulingFailed(reason=SchedulingReason.SCHEDULER_ERROR, message=message))


def _drop(plan: SchedulingPlan, number: int, reason: SchedulingReason, message: str = "", plugin: str = "") -> None:
    plan.say(ReservationDropped(number=number, reason=reason, message=message, plugin=plugin))


def _tell(plan: SchedulingPlan, state: PodState, pod: PendingPodObserved, now: datetime) -> None:
    """Say on the pod why it has no node, if it does not say so yet."""
    told = state.told
    if pod.problem and (told is None or told.message != pod.problem):
        told = SchedulingFailed(reason=SchedulingReason.SCHEDULER_ERROR, message=pod.problem)
        plan.say(told)
    if pod.gates:
        told = SchedulingFailed(reason=SchedulingReason.SCHEDULING_GATED, message=GATED_MESSAGE)
    elif told is None:
        return
    decision = PodStatusDecided(
        uid=pod.uid,
        said=str(_said_of(told, pod)),
        message=told.message,
        nominated=told.nominated,
        reason=SchedulingReason.CONDITION_CHANGED,
    )
    failure = state.trouble.get(STATUS)
    if _is_told(state, pod, decision):
        return
    if failure is not None and failure.until > now:
        plan.wake_at(failure.until)
        return
    plan.say(decision)


def _said_of(told: SchedulingFailed, pod: PendingPodObserved) -> SchedulingReason:
    """Return the reason of the condition: an autoscaler adds nodes for what is `Unschedulable`, and for nothing
    else."""
    others = told.reason == SchedulingReason.UNSCHEDULABLE and pod.candidate and not pod.scale_up
    return SchedulingReason.NOT_PLACED if others else SchedulingReason(told.reason)


def _is_told(state: PodState, pod: PendingPodObserved, decision: PodStatusDecided) -> bool:
    """Whether the pod says it already, or is about to."""
    effect = state.effects.get(STATUS)
    if effect is not None and effect.decision == decision:
        return True
    return shows(pod, decision) or (bool(pod.gates) and said(pod)[0] == SchedulingReason.SCHEDULING_GATED)


def decide_victim(state: VictimState, now: datetime) -> SchedulingPlan:
    """Return what follows for a pod that is evicted: first it is said why, then it is deleted."""
    plan, chosen = SchedulingPlan(), state.chosen
    if chosen is None:
        return plan
    target = REMOVAL if state.marked else MARK
    if target in state.effects:
        return plan
    failure = state.trouble.get(target)
    if failure is not None and failure.until > now:
        plan.wake_at(failure.until)
    elif state.marked:
        plan.say(VictimRemovalDecided(uid=chosen.uid, reason=SchedulingReason.LOWER_PRIORITY))
    else:
        plan.say(VictimMarkDecided(uid=chosen.uid, reason=SchedulingReason.LOWER_PRIORITY))
    return plan
