"""What a Candidate's status is to say to the source, by what its target knows of it.

In: the fold of a candidate. Out: the report, a value. Pure."""

from __future__ import annotations

import msgspec

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target import events
from controlplane.controllers.candidates.target.state import POD, TargetState


def report_of(state: TargetState) -> events.Reported:
    """Return what the Candidate's status is to say to the source."""
    held, bound, answer = state.held, state.bound, state.told
    phase, reason, message = _phase(state)
    report = events.Reported(
        phase=phase,
        reservation=state.reservations,
        node=state.node,
        score=held.score if held is not None else 0,
        expires=held.expires if held is not None and phase == "Reserved" else None,
        acknowledged=state.withdrawn,
        tried=state.tried,
        preemptable=answer is not None and answer.preemptable and phase == "Unschedulable",
        reason=reason,
        message=message[:1024],
        follows=state.follows,
        gates=state.seen is not None and (state.seen.gates_told or bool(state.seen.gates)),
    )
    if bound is None:
        return report
    return msgspec.structs.replace(
        report, node=bound.node, pod=state.name, bound_by=bound.number, sequence=state.sequence
    )


def _phase(state: TargetState) -> tuple[str, str, str]:
    """Return the phase of a candidate, and its reason and message where it has some."""
    if state.bound is not None:
        if state.missing:
            return "Missing", TargetReason.POD_GONE, "the pod is not there any more, and had not ended"
        told = state.amendment
        if told is not None and state.seen is not None and told.template == state.seen.template:
            return "Bound", told.reason, told.message
        return "Bound", "", ""
    if state.refused is not None and state.binding is None:
        return "Refused", state.refused.reason, state.refused.message
    if state.held is not None:
        return "Reserved", "", ""
    if state.told is not None:
        return "Unschedulable", state.told.reason, state.told.message
    if state.unreserved is not None:
        return "Unreserved", state.unreserved.reason, state.unreserved.message
    failure = state.trouble.get(POD) if state.pod is None else None
    if failure is not None:
        return "Pending", "", f"its Pod cannot be made yet: {failure.message or failure.error}"
    return "Pending", "", ""
