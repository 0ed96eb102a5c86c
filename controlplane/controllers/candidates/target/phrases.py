"""The words of a target: what each event about a candidate says in the log of the scheduler beside it, and why each was
decided.

In: an event of `controlplane.controllers.candidates.target.events`. Out: one short line, as `controlplane.audit.words`
has them, and a clause that completes "because …". A test sees to it that no event and no reason is missing."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target import events as events
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, Sentence, choice, refused_write, told

TARGET_EVENTS: tuple[type[Event], ...] = events.TARGET_EVENTS
WRITES: Mapping[str, str] = {
    events.PodMade.__name__: "the Pod's creation",
    events.PodAmended.__name__: "the change of the Pod",
    events.PodGatesSet.__name__: "the conditions of its readiness gates",
    events.BindStarted.__name__: "the binding",
    events.PodFenced.__name__: "the touch that stops a late binding",
    events.PodRemoved.__name__: "the Pod's deletion",
    events.StatusReported.__name__: "the report to the source",
    events.FinalizerReleased.__name__: "letting the Candidate go",
}
"""What each write of a target is, in words, by the decision that asks for it."""


def _candidate(event: events.CandidateObserved) -> str:
    if event.deleting:
        return "candidate is being deleted"
    if event.problem:
        return f"candidate cannot become a pod: {event.problem_message or event.problem}"
    permit = event.permit
    if permit is not None and permit.number > event.withdrawn:
        may = "bind" if permit.kind == "Bind" else "make room"
        return f"{event.origin.cluster}'s permit {permit.number}: the candidate may {may} until {permit.until:%H:%M:%S}"
    if event.withdrawn:
        return f"{event.origin.cluster} withdraws its permit {event.withdrawn}"
    return f"candidate of pod {event.origin.namespace}/{event.origin.name} of {event.origin.cluster} is there"


def _pod(event: events.CandidatePodObserved) -> str:
    if event.deleting:
        return "pod is being deleted"
    return f"pod is {event.phase} on node {event.node}" if event.node else "pod is there, without a node"


def _invited(event: events.InvitationObserved) -> str:
    most = f", {event.most} at a time" if event.most else ""
    classes = f", of the classes {', '.join(event.priority_classes)}" if event.priority_classes else ""
    return f"candidates of {event.cluster} are invited{most}{classes}"


def _gates(event: events.PodGatesSet) -> str:
    said = ", ".join(f"{one.type}={one.status}" for one in event.conditions)
    parts = [f"to have the conditions {said}"] if said else []
    if event.removed:
        parts.append(f"to lose {', '.join(event.removed)}")
    return f"pod is {' and '.join(parts)}"


def _reported(event: events.StatusReported) -> str:
    said = event.reported
    where = f" on node {said.node}" if said.node else ""
    return f"{said.phase or 'nothing yet'}{where} is to be reported to the source"


def _no_node(event: events.NotSchedulable) -> str:
    preemption = "; pods of lower priority are in its way" if event.preemptable else ""
    tried = f"; permit {event.tried} to make room is used up" if event.tried else ""
    return f"no node: {event.message.rstrip('.') or 'none fits'}{preemption}{tried}"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        events.CandidateObserved: _candidate,
        events.UnreadCandidateDeleted: "candidate is being deleted, and cannot be understood: {e.error}",
        events.CandidateVanished: "candidate is gone",
        events.CandidatePodObserved: _pod,
        events.CandidatePodGone: "pod is gone",
        events.InvitationObserved: _invited,
        events.InvitationGone: "invitation is gone",
        events.TargetObservationRefused: lambda e: (
            f"{e.kind} {e.namespace}/{e.name} cannot be understood: {e.field}: {e.error}"
        ),
        events.Reserved: lambda e: (
            f"node {e.node} is held (reservation {e.number}), score {e.score}, until {e.expires:%H:%M:%S} without a "
            "permit"
        ),
        events.NotSchedulable: _no_node,
        events.Unreserved: "reservation {e.number} is given up",
        events.BindFailed: "binding {e.number} was not confirmed: {e.message}",
        events.Admitted: "candidate is taken",
        events.Refused: "candidate is refused: {e.message}",
        events.FollowingAllowed: lambda e: f"{', '.join(e.kinds) or 'nothing more'} may come with the candidate",
        events.PodMade: "pod is to be made",
        events.PodAmended: "pod is to follow a change of its source",
        events.PodGatesSet: _gates,
        events.AmendmentRefused: "a change of the source pod is not followed: {e.message}",
        events.PermitSeen: "permit {e.number} for reservation {e.reservation} is read, until {e.until:%H:%M:%S}",
        events.BindStarted: "pod is to be bound to node {e.node}, by permit {e.number}",
        events.PodFenced: "pod is to be touched, so that binding {e.number} cannot come late",
        events.Bound: lambda e: f"pod is bound to node {e.node}" + (f", by permit {e.number}" if e.number else ""),
        events.Withdrawn: "permits up to {e.number} are void here",
        events.StatusReported: _reported,
        events.PodRemoved: "pod is to be deleted",
        events.FinalizerReleased: "candidate is to be let go",
        events.TargetWriteFailed: lambda e: refused_write(e, WRITES),
        events.TargetWriteUnneeded: "write changed nothing",
    }
)

R = TargetReason
REASONS: Mapping[TargetReason, Sentence] = {
    R.INVITED: Sentence(
        "a CandidateSource of the namespace names the source", "a CandidateSource of the namespace names its source"
    ),
    R.NOT_INVITED: Sentence("none does", "no CandidateSource of the namespace names its source"),
    R.SERVICE_ACCOUNT_NOT_ALLOWED: Sentence("the CandidateSource does not lend its ServiceAccount", "{message}"),
    R.POD_SECURITY: Sentence("the CandidateSource does not allow what its pod asks for", "{message}"),
    R.POD_NOT_CREATED: Sentence("the API server does not let its Pod be made, as things are", "{message}"),
    R.TOO_MANY_CANDIDATES: Sentence("the CandidateSource allows no more", "the CandidateSource allows no more"),
    R.UNKNOWN_PRIORITY_CLASS: Sentence("the class does not exist here", "its priority class does not exist here"),
    R.PRIORITY_CLASS_NOT_ALLOWED: Sentence(
        "the CandidateSource does not allow the class", "the CandidateSource does not allow its priority class"
    ),
    R.INVALID_POD: Sentence("a field of the template is wrong", "a field of its template is wrong"),
    R.POD_TOO_LARGE: Sentence("the template is larger than a Candidate can be", "its template is too large"),
    R.FORGED_ANNOTATION: Sentence(
        "the template carries a mark that only the target sets", "its template carries a mark that only this side sets"
    ),
    R.POD_NAME_TAKEN: Sentence("a Pod of that name is somebody else's", "a Pod of its name is somebody else's"),
    R.POD_REFUSED: Sentence("the API server refused the Pod", "the API server refused the Pod"),
    R.CANNOT_BE_CHANGED: Sentence("no Pod may be changed so", "no Pod may be changed so"),
    R.SOURCE_CHANGED: Sentence("the source pod was changed", "its source pod was changed"),
    R.GATES_CHANGED: Sentence(
        "so they stand on the source pod", "so the conditions of its readiness gates stand on its source pod"
    ),
    R.SOURCE_UNMARKED: Sentence(
        "it does not say which cluster it comes from", "its Pod does not say which cluster it comes from"
    ),
    R.SCALE_UP_CHANGED: Sentence(
        "the source says otherwise whose autoscaler may add nodes",
        "its source says otherwise whose autoscaler may add nodes",
    ),
    R.TO_BE_SCHEDULED: Sentence("its Pod is made", "it is taken, and a node is to be found for it"),
    R.NODE_FOUND: Sentence("a cycle found a node", "no other feasible node had a higher score"),
    R.NO_NODE: Sentence("no node fits, or a plugin refused", "no node fits, or a plugin refused"),
    R.PERMITTED: Sentence(
        "the source's permit for this reservation was read", "its source's permit for this reservation was read"
    ),
    R.TIMEOUT: Sentence("no permit came in time", "no permit came in time"),
    R.REVOKED: Sentence("the source withdrew its permit", "its source withdrew the permit"),
    R.NODE_GONE: Sentence("the node was deleted", "the node was deleted"),
    R.PREEMPTED: Sentence("a pod of higher priority needs the node", "a pod of higher priority needs the node"),
    R.BIND_FAILED: Sentence("the API server did not confirm the binding", "the API server did not confirm the binding"),
    R.POD_GONE: Sentence("its Pod is gone", "its Pod is gone"),
    R.DELETED: Sentence("the Candidate is being deleted, or gone", "the Candidate is being deleted, or gone"),
    R.WITHDRAWN: Sentence("the withdrawal is acknowledged", "its source withdrew them"),
    R.FENCED: Sentence(
        "the Pod was touched, so that a binding on its way cannot be made",
        "a binding may be on its way that is not to be made any more",
    ),
    R.POD_STOPPED: Sentence("its Pod has stopped", "its Pod has stopped"),
    R.REPORT: Sentence("what the source is to be told has changed", "its source has not been told so yet"),
    R.NOTHING_LEFT: Sentence("nothing is left to do", "nothing is left to do"),
}


def target_because(event: Event) -> str:
    """Return why something was decided about a candidate, to follow "because"; "" of an event without a reason."""
    if isinstance(event, events.Reserved):
        return choice(event.score, event.scores, event.feasible)
    reason = getattr(event, "reason", None)
    if not isinstance(reason, TargetReason):
        return ""
    message = str(getattr(event, "message", "")).rstrip(".")
    said = f": {message}" if message and isinstance(event, events.Unreserved) else ""
    return REASONS[reason].clause + said
