"""Has the delegate's cluster know what is said of a source pod's readiness gates.

In: a pass. Out: `GatesSet`, when its Candidate says otherwise. Only the delegate's Candidate is told: the kubelet of no
other looks for it. A Candidate in which nothing can be said of them (its CRD is older, or it was made by an older
version) is left alone, and the pod says so."""

from __future__ import annotations

from controlplane.controllers.candidates.readiness import said_of
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.events import GatesSet
from controlplane.controllers.candidates.source.observations import CandidateBound, CandidateSeen, SourcePodObserved


def tell(pass_: PodPass, pod: SourcePodObserved) -> None:
    """Bring what the delegate's Candidate says of the gates in line with the pod."""
    if (known := pass_.state.chosen) is None or not isinstance(seen := known.seen, CandidateBound):
        return
    wanted, told = said_of(pod.gates, pod.conditions), seen.gates
    if told is None or told == wanted or seen.deleting:
        return
    if pass_.busy(known.cluster, seen.name) or not pass_.context.in_view(known.cluster):
        return
    pass_.write(
        GatesSet(
            cluster=known.cluster,
            candidate=seen.name,
            conditions=wanted,
            resource_version=seen.resource_version,
            reason=CandidateReason.GATES_CHANGED,
        )
    )


def untold(pod: SourcePodObserved, cluster: str, seen: CandidateSeen) -> str:
    """Return why what is said of the gates does not reach the delegate, "" if it does."""
    if not pod.gates or seen.gates is not None:
        return ""
    return (
        f"its readinessGates: {', '.join(pod.gates)} cannot be told to {cluster}: apply the CRDs and the scheduler of "
        "this version there, then delete the pod to have it placed anew"
    )
