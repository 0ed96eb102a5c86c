"""Why a candidate is where it is, by the log of the scheduler beside its cluster, and how a group stands there.

In: the events of `candidate/NS/NAME` with those of its Pod. Out: an `Explanation`, of the folds
by which the target decides. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.candidates.target.events import (
    Admitted,
    BindFailed,
    BindStarted,
    Bound,
    CandidateObserved,
    CandidatePodObserved,
    CandidateVanished,
    NotSchedulable,
    PermitSeen,
    Refused,
    Reserved,
    StatusReported,
    TargetWriteFailed,
    UnreadCandidateDeleted,
    Unreserved,
)
from controlplane.controllers.candidates.target.phrases import WRITES, target_because
from controlplane.controllers.candidates.target.state import CANDIDATE, POD, TargetState, target_fold
from controlplane.controllers.scheduling.events import (
    PendingPodObserved,
    SchedulingFailed,
)
from controlplane.controllers.scheduling.explain import UNTRIED, nodes_sentence
from controlplane.controllers.scheduling.helps import helped_by
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Explanation, Standing, Word, answer, last, with_last_known
from controlplane.runtime.phrases import listed
from controlplane.runtime.streams import replayed

Said = tuple[Word, str, str, Sequence[type[object]]]


def candidate_state(stream: str, events: Sequence[Recorded]) -> TargetState:
    """Return the state of a candidate's stream."""
    return replayed(TargetState, target_fold, stream, events)


def explain_candidate(stream: str, events: Sequence[Recorded]) -> Explanation:
    """Return why a candidate is where it is."""
    state = candidate_state(stream, events)
    told = _explained(state, events)
    if state.seen is not None or state.leaving is not None:
        return told
    return with_last_known(told, events, CandidateVanished, lambda before: explain_candidate(stream, before))


def _explained(state: TargetState, events: Sequence[Recorded]) -> Explanation:
    state_word, waits_for, sentence, rests_on = _said(state, events)
    failure = state.trouble.get(CANDIDATE)
    evidence = [last(events, kind) for kind in rests_on]
    if failure is not None and failure.action == StatusReported.__name__:
        sentence += f" Its source has not been told: {WRITES[failure.action]} was refused ({failure.message})."
        evidence.append(last(events, TargetWriteFailed))
    seen = state.seen
    if seen is not None:
        origin = seen.origin
        sentence += f" It is the candidate of pod {origin.namespace}/{origin.name} of {origin.cluster}."
    return answer(Standing(state_word, "", waits_for), sentence, *evidence)


def _said(state: TargetState, events: Sequence[Recorded]) -> Said:
    seen = state.seen
    if seen is None or seen.deleting or state.leaving is not None:
        return _going(state, events)
    if state.bound is not None:
        return _bound(state, state.bound, seen, events)
    if state.refused is not None:
        text = f"It is refused: {state.refused.message.rstrip('.')}."
        return "Rejected", "somebody to change that", text, (Refused,)
    if not state.admitted:
        return "Pending", "its turn", "It is there, and it was not looked at yet.", (CandidateObserved,)
    if state.pod is None:
        failure = state.trouble.get(POD)
        refused = f": {WRITES['PodMade']} was refused ({failure.message})" if failure is not None else ""
        return "Pending", "its pod", f"It was taken, and its pod is being made{refused}.", (Admitted, TargetWriteFailed)
    if state.binding is not None:
        return _binding(state, state.binding)
    if state.held is not None:
        return _held(state, state.held, seen)
    return _without_node(state, seen, events)


def _going(state: TargetState, events: Sequence[Recorded]) -> Said:
    if state.leaving is not None:
        text = f"It is being deleted, and it cannot be read: {state.leaving.error}."
        return "Deleting", "its pod to stop" if state.pod is not None else "", text, (UnreadCandidateDeleted,)
    if state.seen is None:
        left = " Its pod is still to go." if state.pod is not None else ""
        text = f"It is gone{_deleted_by(events)}.{left}"
        return "Deleted", "its pod to go" if left else "", text, (Bound, CandidateObserved, CandidateVanished)
    left = ", and its pod stops first" if state.pod is not None else ""
    return "Deleting", "its pod to stop" if left else "", f"It is being deleted{left}.", (CandidateObserved,)


def _deleted_by(events: Sequence[Recorded]) -> str:
    """Return who deleted a candidate, and where it is recorded why; "" if the log saw nobody do so."""
    found = last(events, CandidateObserved)
    if found is None or not isinstance(found.event, CandidateObserved) or not found.event.deleting:
        return ""
    origin = found.event.origin
    pod = f"{origin.namespace}/{origin.name}"
    return f": it was the candidate of pod {pod} of {origin.cluster}, whose log says why it was deleted"


def _bound(state: TargetState, bound: Bound, seen: CandidateObserved, events: Sequence[Recorded]) -> Said:
    kinds = (Reserved, PermitSeen, Bound, CandidatePodObserved)
    if state.missing:
        text = f"It was bound to node {bound.node}, and its pod is not there any more, though it had not ended."
        return "Evicted", f"{seen.origin.cluster} to decide what becomes of it", text, kinds
    if not bound.number:
        text = f"It is on node {bound.node}, and not by a permit of {seen.origin.cluster}: somebody else bound it."
        return "Running", f"{seen.origin.cluster} to remove it", text, kinds
    phase = f" Its pod is {state.pod_phase}." if state.pod_phase else ""
    reserved = last(events, Reserved)
    found = reserved.event if reserved is not None else None
    why = f" Here {target_because(found)}." if isinstance(found, Reserved) and found.node == bound.node else ""
    source = seen.origin.cluster
    text = (
        f"It is on node {bound.node}, because {source} permitted its reservation (permit {bound.number}).{why}{phase}"
    )
    return "Finished" if state.pod_phase in ("Succeeded", "Failed") else "Running", "", text, kinds


def _binding(state: TargetState, binding: BindStarted) -> Said:
    text = (
        f"It is being bound to node {binding.node} by permit {binding.number}; that may begin until"
        f" {binding.before:%H:%M:%S}."
    )
    if state.bind_failed:
        text += " The API server did not confirm the binding: the pod is touched, so that a late one cannot be made."
    return "Chosen", "its binding", text, (Reserved, PermitSeen, BindStarted, BindFailed)


def _held(state: TargetState, held: Reserved, seen: CandidateObserved) -> Said:
    source, permit = seen.origin.cluster, seen.permit
    first = f"Node {held.node} is held for it (reservation {held.number}), because {target_because(held)}"
    if state.permit is not None and state.permit.reservation == held.number:
        until = state.permit.until
        text = f"{first}. {source} permits it until {until:%H:%M:%S} (permit {state.permit.number}): it is to be bound."
        return "Chosen", "its binding", text, (Reserved, PermitSeen)
    text = (
        f"{first}. It waits for the permit of {source}; without one the node is given back at {held.expires:%H:%M:%S}."
    )
    if permit is not None and permit.reservation != held.number:
        text += f" Permit {permit.number} is for reservation {permit.reservation}, and void."
    return "Reserved", f"the permit of {source}", text, (Reserved, CandidateObserved)


def _without_node(state: TargetState, seen: CandidateObserved, events: Sequence[Recorded]) -> Said:
    if state.told is not None:
        return _unschedulable(state, state.told, seen, events)
    if state.unreserved is not None:
        why = target_because(state.unreserved)
        text = f"Its reservation {state.unreserved.number} was given up, because {why}. A node is looked for again."
        return "Pending", "a node", text, (Reserved, Unreserved)
    pod = last(events, PendingPodObserved)
    if pod is not None and isinstance(pod.event, PendingPodObserved) and pod.event.gates:
        gates = listed(pod.event.gates)
        text = f"Its pod is not tried, because it has scheduling gates: {gates}. Whoever set them takes them away."
        return "Pending", f"its scheduling gates to go ({gates})", text, (PendingPodObserved,)
    return (
        "Pending",
        "its turn",
        f"Its pod is there; no cycle has looked for a node for it yet. {UNTRIED}",
        (CandidatePodObserved,),
    )


def _unschedulable(
    state: TargetState, last_answer: NotSchedulable, seen: CandidateObserved, events: Sequence[Recorded]
) -> Said:
    source, permit = seen.origin.cluster, seen.permit
    text = f"No node: {last_answer.message.rstrip('.')}. {source} hears of it."
    found = last(events, SchedulingFailed)
    if found is not None and isinstance(found.event, SchedulingFailed) and found.event.plugins:
        again = helped_by(found.event.plugins)
        text += nodes_sentence(found.event) if found.event.message == last_answer.message else ""
        text += f" It is tried again when {again}; and after five minutes in any case."
    if last_answer.preemptable:
        text += f" Pods of lower priority are in its way: they go only if {source} permits it to make room."
    if permit is not None and permit.kind == "Preempt" and permit.number > max(state.withdrawn, state.tried):
        text += f" {source} does, until {permit.until:%H:%M:%S} (permit {permit.number})."
    return "Pending", "a node that fits it", text, (NotSchedulable,)
