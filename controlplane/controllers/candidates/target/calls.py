"""What a scheduler says about candidates: pure answers to its calls, each an event to be appended before anything is
done, or None.

In: a candidate's state and the scheduler's finding. Out: the event, if it may be said now. The contract: nothing is
reserved for a candidate that is not waiting for a node, nothing is bound without `bind_order`, nothing is given up
while its binding may be on its way."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target.decide import TargetPolicy, bind_order, may_preempt
from controlplane.controllers.candidates.target.events import BindFailed, NotSchedulable, Reserved, Unreserved
from controlplane.controllers.candidates.target.state import TargetState

__all__ = ["bind_failed", "bind_order", "may_preempt", "not_schedulable", "reserved", "unreserved", "waits_for_node"]


def waits_for_node(state: TargetState) -> bool:
    """Whether the scheduler should look for a node: the Pod is there, and nothing is held for it or bound."""
    seen, pod = state.seen, state.pod
    if seen is None or seen.deleting or not state.admitted or pod is None or pod.deleting or pod.owner != seen.uid:
        return False
    return not state.unfenced and state.held is None and state.binding is None and state.bound is None and not pod.node


def reserved(state: TargetState, policy: TargetPolicy, node: str, score: int, now: datetime) -> Reserved | None:
    """Return the event of a reservation, which is taken once this is in the log; None if the candidate does not wait
    for a node.
    """
    if not waits_for_node(state):
        return None
    return Reserved(number=state.reservations + 1, node=node, score=score, expires=now + policy.reservation_ttl)


def not_schedulable(
    state: TargetState,
    policy: TargetPolicy,
    message: str,
    now: datetime,
    *,
    preemptable: bool = False,
    making_room: bool = False,
) -> NotSchedulable | None:
    """Return the event of a cycle that found no node, None if it says nothing new.

    While victims are being evicted, the permit for that is not used up: the source would let the next target evict too.
    """
    if not waits_for_node(state):
        return None
    tried = 0 if making_room else may_preempt(state, policy, now)
    said = NotSchedulable(message=message, preemptable=preemptable, tried=tried)
    told = state.told
    same = told is not None and (told.message, told.preemptable) == (message, preemptable) and not said.tried
    return None if same else said


def unreserved(state: TargetState, number: int, reason: TargetReason, message: str = "") -> Unreserved | None:
    """Return the event of a reservation given up; None if another is held, or its binding may be on its way: that is
    settled first.
    """
    if state.held is None or state.held.number != number or state.binding is not None:
        return None
    return Unreserved(number=number, reason=reason, message=message)


def bind_failed(state: TargetState, message: str) -> BindFailed | None:
    """Return the event of a binding that was not confirmed; what became of it is found out."""
    return BindFailed(number=state.binding.number, message=message) if state.binding is not None else None
