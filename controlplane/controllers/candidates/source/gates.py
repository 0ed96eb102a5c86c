"""Has the delegate's cluster know what is said of a source pod's readiness gates.

In: a pass. Out: `GatesSet`, when its Candidate says otherwise. Only the delegate's Candidate is told: the kubelet of no
other looks for it. A Candidate in which nothing can be said of them (its CRD is older, or it was made by an older
version) is left alone, and the pod says so. It does too of a scheduler that does not say that it sets them on the
delegate: it is an older one."""

from __future__ import annotations

from controlplane.controllers.candidates.readiness import said_of
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.events import GatesSet
from controlplane.controllers.candidates.source.observations import CandidateBound, SourcePodObserved


def tell(pass_: PodPass, pod: SourcePodObserved) -> None:
    """Bring what the delegate's Candidate says of the gates in line with the pod."""
    known = pass_.state.chosen
    seen = known.seen if known is not None else None
    if known is not None and isinstance(seen, CandidateBound) and _may_be_told(pass_, pod, known.cluster, seen):
        told = GatesSet(
            cluster=known.cluster,
            candidate=seen.name,
            conditions=said_of(pod.gates, pod.conditions),
            resource_version=seen.resource_version,
            reason=CandidateReason.GATES_CHANGED,
        )
        pass_.write(told)


def _may_be_told(pass_: PodPass, pod: SourcePodObserved, cluster: str, seen: CandidateBound) -> bool:
    """Whether a delegate's Candidate says something else of the gates than the pod, and can be written to."""
    if seen.gates is None or seen.deleting or seen.gates == said_of(pod.gates, pod.conditions):
        return False
    return pass_.context.in_view(cluster) and not pass_.busy(cluster, seen.name)


def untold(pod: SourcePodObserved, cluster: str, seen: CandidateBound) -> str:
    """Return why what is said of the gates does not reach the delegate, "" if it does."""
    named = f"its readinessGates: {', '.join(pod.gates)}"
    if not pod.gates:
        return ""
    if seen.gates is None:
        return (
            f"{named} cannot be told to {cluster}: apply the CRDs and the scheduler of this version there, then delete "
            "the pod to have it placed anew"
        )
    if seen.gates_applied is False:
        return f"{named} are not set by the scheduler of {cluster}, which is older: upgrade it"
    return ""
