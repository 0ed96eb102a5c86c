"""Decides whether a candidate's Pod follows a change of its template, and says what of it cannot.

In: the state of a candidate, the invitations of its namespace. Out: one decision, or none. A changed template is held
against the invitation like a new one, bound or not; a Pod that is being bound is left alone until that is known."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target.amendment import Made
from controlplane.controllers.candidates.target.events import (
    AmendmentRefused,
    CandidateObserved,
    CandidatePodObserved,
    InvitationObserved,
    PodAmended,
    PodGatesSet,
)
from controlplane.controllers.candidates.target.permissions import unfit_for
from controlplane.controllers.candidates.target.state import AMENDMENT, POD, TargetState
from controlplane.kube.pod_groups import GROUP_NAME
from controlplane.kube.well_known import ENDED_PHASES

_Unfit = tuple[TargetReason, str]


def amended(
    state: TargetState, seen: CandidateObserved, invitations: Sequence[InvitationObserved]
) -> PodAmended | AmendmentRefused | None:
    """Return what follows from the template that a candidate has now."""
    pod = state.pod
    if pod is None or pod.deleting or pod.phase in ENDED_PHASES or state.missing or state.binding is not None:
        return None
    made = state.made or (Made(template=pod.template) if pod.template else None)
    if made is None:
        return None
    agrees, forbidden = (pod.template or made.template) == seen.template, _forbidden(seen, invitations)
    unfit = forbidden or (None if agrees else _refused(state, seen)) or _beyond(made, seen)
    if unfit is not None and not (agrees and forbidden) and _is_news(state.amendment, seen, unfit):
        return AmendmentRefused(template=seen.template, message=unfit[1], reason=unfit[0])
    scales, source, uid = _other_scale_up(state, seen, pod), _unsaid_source(seen, pod), _unsaid_uid(seen, pod)
    if (agrees and scales is None and not source and not uid) or forbidden is not None or POD in state.effects:
        return None
    if seen.changeable is None and not agrees:
        return None
    return PodAmended(
        uid=pod.uid,
        template=seen.template,
        scale_up=scales,
        source=source,
        source_uid=uid,
        resource_version=pod.resource_version,
        reason=_why(scales) if agrees else TargetReason.SOURCE_CHANGED,
    )


def _other_scale_up(state: TargetState, seen: CandidateObserved, pod: CandidatePodObserved) -> bool | None:
    """Return whether the autoscaler may add nodes for a Pod that says otherwise; None if it says so, or needs no
    node."""
    if seen.scale_up is None or seen.scale_up == pod.scale_up or pod.node or state.held is not None:
        return None
    return seen.scale_up


def gates(state: TargetState, seen: CandidateObserved) -> PodGatesSet | None:
    """Return what its source says of a bound Pod's readiness gates that the Pod does not, and what the Pod still says
    by us that its source does not any more. What the Pod has said once, and does not any more, somebody here has
    changed: it is left until the source says something else."""
    pod = state.pod
    if pod is None or not pod.node or pod.deleting or pod.phase in ENDED_PHASES or state.bound is None or state.missing:
        return None
    unsaid = [one for one in seen.gates if one not in pod.gates and one not in state.agreed]
    removed = _taken_away(state, seen, pod)
    if not unsaid and not removed:
        return None
    return PodGatesSet(
        uid=pod.uid,
        conditions=unsaid,
        removed=removed,
        # Somebody here may change it in this moment: then it is not ours any more.
        resource_version=pod.resource_version if removed else "",
        reason=TargetReason.GATES_CHANGED,
    )


def _taken_away(state: TargetState, seen: CandidateObserved, pod: CandidatePodObserved) -> list[str]:
    """Return the types of what the Pod says of its readiness gates as we have set it, and its source does not say."""
    said = {one.type for one in seen.gates}
    ours = [one.type for one in pod.gates if one in state.ours.get(one.type, ())]
    return [kind for kind in ours if kind not in said] if seen.gates_told else []


def _unsaid_source(seen: CandidateObserved, pod: CandidatePodObserved) -> str:
    """Return the cluster that a member of a gang comes from, if its Pod does not say so: gangs are told apart by it."""
    return seen.origin.cluster if of_group(seen) and pod.source != seen.origin.cluster else ""


def _unsaid_uid(seen: CandidateObserved, pod: CandidatePodObserved) -> str:
    """Return which cluster of that name it is, if its Candidate says it, and its Pod does not."""
    return seen.source_uid if of_group(seen) and pod.source_uid != seen.source_uid else ""


def of_group(seen: CandidateObserved) -> bool:
    """Whether a candidate's Pod names a PodGroup, or may: of one that an earlier version saw that was not noted."""
    if seen.least > 0 or seen.changeable is None:
        return True
    return f"annotations/{GROUP_NAME}" in seen.changeable.marks


def _why(scales: bool | None) -> TargetReason:
    return TargetReason.SOURCE_UNMARKED if scales is None else TargetReason.SCALE_UP_CHANGED


def _is_news(said: AmendmentRefused | None, seen: CandidateObserved, unfit: _Unfit) -> bool:
    return said is None or (said.template, said.reason, said.message) != (seen.template, *unfit)


def _forbidden(seen: CandidateObserved, invitations: Sequence[InvitationObserved]) -> _Unfit | None:
    """Return why a template may not be followed: what a new Pod would be refused for. Who is not invited any more
    keeps what is bound as it is.
    """
    if seen.problem:
        return TargetReason(seen.problem), seen.problem_message
    invitation = next((one for one in invitations if one.cluster == seen.origin.cluster), None)
    if invitation is None:
        message = f'cluster "{seen.origin.cluster}" is not invited into namespace "{seen.namespace}" any more'
        return TargetReason.NOT_INVITED, message
    return unfit_for(seen, invitation)


def _refused(state: TargetState, seen: CandidateObserved) -> _Unfit | None:
    """Return the API server's no to the change."""
    failure = state.trouble.get(AMENDMENT)
    if failure is None:
        return None
    return TargetReason.POD_REFUSED, f'Pod "{seen.name}" cannot be changed: {failure.message or failure.error}'


def _beyond(made: Made, seen: CandidateObserved) -> _Unfit | None:
    """Return what of a change cannot follow, None if all of it can, or if that is not known."""
    if not made.fixed or not seen.fixed or made.fixed == seen.fixed:
        return None
    return (
        TargetReason.CANNOT_BE_CHANGED,
        (
            f'Pod "{seen.name}": spec: more than labels, annotations, images, tolerations and deadlines was changed (its '
            "resources were resized?), which a Pod in another cluster cannot follow; delete the pod to have it placed anew"
        ),
    )
