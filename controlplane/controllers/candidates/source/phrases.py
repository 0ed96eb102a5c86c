"""The words of candidate pods: what each event says, in a few words, and why each decision was taken.

In: an event of `controlplane.controllers.candidates`. Out: one short line, as `controlplane.audit.words` has them, and
a clause that completes "because …". A test sees to it that no event and no reason is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.controllers.candidates.nodes.events import NODE_EVENTS
from controlplane.controllers.candidates.nodes.phrases import PHRASES as NODE_PHRASES
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.references import events as copies
from controlplane.controllers.candidates.references.events import COPY_EVENTS
from controlplane.controllers.candidates.source import events, observations
from controlplane.controllers.candidates.source.gang_events import GANG_EVENTS, GangPermitted
from controlplane.controllers.candidates.source.gang_phrases import PHRASES as GANG_PHRASES
from controlplane.controllers.candidates.source.gang_phrases import REASONS as GANG_REASONS
from controlplane.controllers.candidates.source.targets import (
    SURROUNDINGS,
    CandidateTargetGone,
    CandidateTargetObserved,
    SourceNamespaceGone,
    SourceNamespaceObserved,
)
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, Sentence, listed, told

POD_EVENTS: tuple[type[Event], ...] = (*events.EVENTS, *GANG_EVENTS, *SURROUNDINGS, *COPY_EVENTS, *NODE_EVENTS)


def _pod(event: observations.SourcePodObserved) -> str:
    if event.deleting:
        return "pod is being deleted"
    return f"pod is {event.phase}" + (f" ({event.problem})" if event.problem else "")


def _said(what: str) -> Callable[[Any], str]:
    return lambda event: f"candidate {what}" + (f": {event.message}" if event.message else "")


def _reserved(event: observations.CandidateReserved) -> str:
    return f"node {event.node} is held for the candidate, score {event.score}"


def _permit(event: events.PermitGranted) -> str:
    may = "bind" if event.kind == "Bind" else "make room"
    return f"permit {event.number}: the candidate may {may} until {event.until:%H:%M:%S}"


def _shown(event: events.StatusShown) -> str:
    return f"pod's status is to be {event.phase or 'Pending'}" + (f": {event.message}" if event.message else "")


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        observations.SourcePodObserved: _pod,
        observations.SourceDeleted: "pod is gone",
        observations.CandidateWaiting: "candidate waits for a node",
        observations.CandidateRefused: _said("is refused"),
        observations.CandidateUnschedulable: _said("finds no node"),
        observations.CandidateReserved: _reserved,
        observations.CandidateUnreserved: _said("lost its reservation"),
        observations.CandidateBound: "candidate is bound on node {e.node}",
        observations.DelegateStatus: lambda e: f"delegate is {e.pod_phase or 'Pending'} on node {e.node}",
        observations.DelegateMissing: _said("is bound, and its pod is missing"),
        observations.CandidateGone: "candidate is gone",
        observations.CandidateObservationRefused: lambda e: (
            f"{e.kind} {e.namespace}/{e.name} cannot be understood: {e.error}"
        ),
        events.Elected: lambda e: f"offered to {listed(e.targets) or 'nobody'} (epoch {e.epoch})",
        events.PlacementFound: lambda e: (
            f"{'is bound' if e.bound else 'may be bound'} in {e.cluster} by permit {e.number}, of which the log did "
            "not know"
        ),
        events.ElectionRefused: "not placed: {e.message}",
        events.CandidateRequested: "candidate is to be created (epoch {e.epoch})",
        events.CandidateAmended: "candidate is to have the pod's new template",
        events.AutoscalerChosen: "only the autoscaler of {e.cluster} may add nodes for it, until {e.until:%H:%M:%S}",
        events.GatesSet: lambda e: (
            "its delegate is to have the conditions "
            + (", ".join(f"{one.type}={one.status}" for one in e.conditions) or "of no readiness gate")
        ),
        events.ScaleUpSet: lambda e: f"candidate's autoscaler {'may' if e.allowed else 'is not to'} add nodes for it",
        events.PermitGranted: _permit,
        events.PermitRevoked: "permit {e.number} is to be taken back",
        events.RevokeAcked: "permit {e.number} is void",
        events.CandidateDropped: "candidate is to be removed",
        events.DelegateLost: "delegate is lost: {e.message}",
        events.EpochClosed: "epoch {e.epoch} is over",
        events.StatusShown: _shown,
        events.DelegateHinted: "pod is to say where its delegate is",
        events.SourceBound: "pod is to be bound to Node {e.node}",
        events.SourceRemoved: "pod is to be removed from Node {e.node}",
        **NODE_PHRASES,
        events.CleanupDone: "nothing is left of the pod",
        events.CandidateWriteFailed: lambda e: f"write refused ({' '.join(filter(None, [str(e.code), e.error]))})",
        events.CandidateWriteUnneeded: "write changed nothing",
        CandidateTargetObserved: "namespace {e.namespace} may use cluster {e.cluster}, tier {e.tier}",
        CandidateTargetGone: "CandidateTarget {e.namespace}/{e.name} is gone",
        SourceNamespaceObserved: "namespace may send pods, by its label",
        copies.NamedObserved: "{e.kind} {e.name} is at version {e.resource_version}",
        copies.NamedMissing: "{e.kind} {e.name} cannot be followed: {e.message}",
        copies.CopyObserved: lambda e: f"copy of {e.kind} {e.name} is of version {e.followed or '?'}",
        copies.CopyGone: "copy of {e.kind} {e.name} is gone",
        copies.CopyDecided: "{e.kind} {e.name} is to be copied, version {e.version}",
        copies.CopyDropped: "copy of {e.kind} {e.name} is to be removed",
        SourceNamespaceGone: "namespace has lost its label, or is gone",
        **GANG_PHRASES,
    }
)

R = CandidateReason
REASONS: Mapping[CandidateReason, Sentence] = {
    R.OPTED_IN: Sentence("the pod asks for it by its schedulerName", "the pod asks for it by its schedulerName"),
    R.DELEGATE_WAS_LOST: Sentence("the delegate before was lost", "the delegate before was lost"),
    R.PERMIT_WAS_OUTLIVED: Sentence(
        "a target kept silent about its permit until lease and patience were over",
        "{cluster} kept silent about its permit until lease and patience were over",
    ),
    R.TARGETS_CHANGED: Sentence("the namespace has other targets now", "the namespace has other targets now"),
    R.NAMESPACE_NOT_ALLOWED: Sentence("the namespace may not send pods", "{message}"),
    R.NO_TARGETS: Sentence("the namespace has no targets", "{message}"),
    R.UNKNOWN_TARGET: Sentence("the pod asks for a target that its namespace does not have", "{message}"),
    R.INVALID_OPTION: Sentence("an annotation of the pod asks for something impossible", "{message}"),
    R.INVALID_CONSTRAINT: Sentence("a constraint of the pod is invalid", "{message}"),
    R.POD_TOO_LARGE: Sentence("the pod is larger than a Candidate can be", "{message}"),
    R.FORGED_ANNOTATION: Sentence("the pod carries a mark that only we set", "{message}"),
    R.BOUND_ELSEWHERE: Sentence("the pod is bound to a node of its own cluster", "{message}"),
    R.GATED: Sentence("the pod has scheduling gates", "the pod has scheduling gates"),
    R.NOBODY_ANSWERED: Sentence("no target has answered yet", "no target has answered yet"),
    R.UNSCHEDULABLE_EVERYWHERE: Sentence("no target has a node for it", "no target has a node for it: {message}"),
    R.CANDIDATES_UNREADABLE: Sentence(
        "no target lets candidates of its namespace be read", "candidates of its namespace cannot be read: {message}"
    ),
    R.REFUSED_EVERYWHERE: Sentence("every target refuses it", "every target refuses it: {message}"),
    R.PREDECESSOR_STOPS: Sentence(
        "an earlier pod of this name may still run somewhere", "an earlier pod of this name may still run somewhere"
    ),
    R.AWAITS_ANSWER: Sentence(
        "a target that was permitted does not say whether it runs the pod, and never-twice was asked for", "{message}"
    ),
    R.PERMIT_UNKNOWN: Sentence(
        "the log was lost or put back to before the permit", "the log was put back to before {cluster} was permitted"
    ),
    R.CANDIDATE_UNREAD: Sentence(
        "a Candidate that may be the pod's is there and cannot be read: it may run", "{message}"
    ),
    R.DELEGATE_UNSEEN: Sentence(
        "the pod says that it runs in a target that does not show its candidates, and the log knows nothing of it",
        "{message}",
    ),
    R.PERMIT_OPEN: Sentence("the permit is open, and the candidate does not carry it yet", "the permit is open"),
    R.SOURCE_CHANGED: Sentence("the pod was changed", "the pod was changed"),
    R.GATES_CHANGED: Sentence(
        "so the conditions of its readiness gates stand", "so the conditions of its readiness gates stand"
    ),
    R.TARGET_OF_EPOCH: Sentence("the target belongs to the epoch", "{cluster} is one of its targets"),
    R.FIRST_READY: Sentence("this target was ready first", "{cluster} was ready first, of {among}"),
    R.ONLY_READY: Sentence("no other target was ready", "{cluster} was the only one that was ready"),
    R.BEST_SCORE: Sentence("this target had the best score", "{cluster} had the best score, of {among}"),
    R.PREFERRED_TIER: Sentence("this target is of a preferred tier", "{cluster} is of a preferred tier, of {among}"),
    R.LEAST_USED: Sentence(
        "this target has the fewest pods of the workload", "{cluster} has the fewest pods of the workload"
    ),
    R.WINDOW_CLOSED: Sentence(
        "the time for more offers was over, and this was the best",
        "the time for more offers was over, and {cluster} was the best of {among}",
    ),
    R.AWAITS_CANDIDATES: Sentence("more offers are waited for", "more offers are waited for"),
    R.AWAITS_TIER: Sentence("a preferred tier may still answer", "a preferred tier may still answer"),
    R.AWAITS_UNTRIED: Sentence(
        "a target that was not tried may still answer", "a target that was not tried may answer"
    ),
    R.SKEW_TOO_LARGE: Sentence(
        "it would make the workload's spread too uneven", "it would make the workload's spread too uneven"
    ),
    R.ROOM_BY_PREEMPTION: Sentence(
        "no target has room, and this one could make some", "no target has room, and {cluster} could make some"
    ),
    R.NODES_NEEDED: Sentence(
        "no target has a node, and one autoscaler at a time may add some",
        "no target has a node, and one autoscaler at a time may add some",
    ),
    R.NODES_ELSEWHERE: Sentence(
        "another target's autoscaler may add nodes", "another target's autoscaler may add nodes"
    ),
    R.LEASE_ENDED: Sentence("the lease is over", "the lease of {cluster} is over"),
    R.SOURCE_DELETED: Sentence("the pod was deleted", "the pod was deleted"),
    R.SOURCE_TERMINAL: Sentence("the pod has ended", "the pod has ended"),
    R.ANOTHER_READY: Sentence("another target is ready without preemption", "another target is ready without it"),
    R.ACKNOWLEDGED: Sentence("the target acknowledged the withdrawal", "{cluster} acknowledged the withdrawal"),
    R.UNRESERVED: Sentence("the target gave the reservation up", "{cluster} gave the reservation up"),
    R.ANSWERED: Sentence("the target has used it", "{cluster} has used it"),
    R.CANDIDATE_GONE: Sentence("the candidate is gone, and its pod with it", "the candidate is gone from {cluster}"),
    R.TARGET_FORGOTTEN: Sentence("an operator gave the target up", "an operator gave {cluster} up"),
    R.ANOTHER_TARGET_WON: Sentence("another target got the pod", "another target than {cluster} got the pod"),
    R.OLD_EPOCH: Sentence("the candidate is of an epoch that is over", "it is of an epoch that is over"),
    R.NOT_A_TARGET: Sentence("the cluster is not a target any more", "{cluster} is not a target any more"),
    R.BOUND_WITHOUT_PERMIT: Sentence("it was bound without a permit", "it was bound in {cluster} without a permit"),
    R.FOREIGN_CLAIM: Sentence("the candidate claims what is not its own", "the candidate claims what is not its own"),
    R.POD_MISSING: Sentence("the delegate's pod is gone", "the delegate's pod is gone from {cluster}"),
    R.POD_REJECTED: Sentence(
        "the kubelet of the delegate's node would not start it", "a kubelet of {cluster} would not start it: {message}"
    ),
    R.TARGET_LOST: Sentence(
        "the target could not be reached, or showed no candidates, for too long",
        "{cluster} could not be reached until candidates.lostAfter was over",
    ),
    R.STATUS_CHANGED: Sentence("the delegate's status is newer", "the delegate's status is newer"),
    R.STATUS_FINAL: Sentence("the delegate has ended", "the delegate has ended"),
    R.NOT_PLACED: Sentence("the pod has no place", "the pod has no place"),
    R.DELEGATE_FOUND: Sentence("the delegate's place is known", "the delegate's place is known"),
    R.DELEGATE_ACCEPTED: Sentence(
        "the delegate's kubelet has accepted it, and its target has a virtual Node",
        "the delegate's kubelet has accepted it, and its target has a virtual Node",
    ),
    R.DELEGATE_STOPPED: Sentence(
        "the pod was deleted, and its delegate has stopped", "the pod was deleted, and its delegate has stopped"
    ),
    R.TARGET_NAMED: Sentence("pods may use its target", "pods may use its target"),
    R.TARGET_SHOWS: Sentence("its target shows something else", "its target shows something else"),
    R.TARGET_NOT_NAMED: Sentence(
        "pods may not use its target any more, and none is bound to it",
        "pods may not use its target any more, and none is bound to it",
    ),
    R.NAMED_BY_DELEGATE: Sentence("a pod that is placed there names it", "a pod that is placed in {cluster} names it"),
    R.NOT_NAMED: Sentence(
        "no pod that is placed there names it", "no pod that is placed in {cluster} names it any more"
    ),
    R.NOTHING_LEFT: Sentence("no candidate is left anywhere", "no candidate is left anywhere"),
    **GANG_REASONS,
}


def pod_because(decision: events.CandidateDecision) -> str:
    """Return why a decision about a source pod was taken, to follow "because"."""
    cluster = str(getattr(decision, "cluster", ""))
    among = decision.among if isinstance(decision, (events.PermitGranted, GangPermitted)) else {}
    clause = REASONS[decision.reason].clause.format_map(
        {
            "cluster": cluster if cluster not in ("", MANAGEMENT) else "its cluster",
            "message": str(getattr(decision, "message", "")),
            "among": ", ".join(f"{name} (score {score})" for name, score in sorted(among.items())) or "none",
        }
    )
    return clause.removesuffix(": ")


def told_because(decision: events.CandidateDecision) -> str:
    """Return the same without what the decision itself says beside it."""
    why = pod_because(decision)
    if isinstance(decision, events.StatusShown) and decision.message:
        return why.removesuffix(decision.message).removesuffix(": ")
    return why
