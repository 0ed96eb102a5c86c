"""Which target's autoscaler may add a node for a pod that has room nowhere: one at a time.

In: a pass over a pod that waits for a node. Out: `ScaleUpAsked` and `ScaleUpWithdrawn`. An autoscaler adds nodes
for pods whose condition PodScheduled says `Unschedulable` (kubernetes/autoscaler,
cluster-autoscaler/utils/kubernetes/listers.go), so a pod that were so in every target would get a node in each. A
Candidate says by `spec.scaleUp` whether its Pod may look so; what does not have the field always does, as before there
was one. Level-triggered on what the targets show: one that is away delays nobody, and is told when it is back."""

from __future__ import annotations

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.events import ScaleUpAsked, ScaleUpWithdrawn
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateRefused,
    CandidateReserved,
    CandidateSeen,
    CandidateUnschedulable,
)
from controlplane.controllers.candidates.source.permits import counts_by_target
from controlplane.controllers.candidates.source.policy import preemptor
from controlplane.controllers.candidates.source.state import dropping


def one_at_a_time(pass_: PodPass) -> bool:
    """Whether targets' autoscalers are asked one after the other; those of a gang's pods, or of one target, never."""
    return bool(pass_.context.policy.scale_up_timeout) and pass_.context.gang is None and len(pass_.targets()) > 1


def settle(pass_: PodPass, waits: CandidateReason | None) -> None:
    """Withdraw what a target was asked beside the one whose turn it is; if nobody has room (`waits`), ask one."""
    if pass_.context.gang is not None:
        return
    told = _told(pass_)
    asked = _asked(pass_, told)
    held = [name for name, (_, seen) in sorted(told.items()) if seen.scale_up and name != asked]
    for name in held:
        _withdraw(pass_, told, name, CandidateReason.ANOTHER_SCALES_UP)
    if not held and waits == CandidateReason.UNSCHEDULABLE_EVERYWHERE:
        _ask(pass_, told, asked)


def _ask(pass_: PodPass, told: dict[str, tuple[str, CandidateSeen]], asked: str) -> None:
    others = {name for name, (_, seen) in told.items() if isinstance(seen, CandidateUnschedulable)} - {asked}
    if asked and others and _is_over(pass_):
        _withdraw(pass_, told, asked, CandidateReason.SCALE_UP_TIMED_OUT)
        return
    chosen = asked or _next(pass_, others)
    if not chosen or told[chosen][1].scale_up:
        return
    name, seen = told[chosen]
    pass_.write(
        ScaleUpAsked(
            cluster=chosen,
            candidate=name,
            resource_version=seen.resource_version,
            reason=CandidateReason.ROOM_BY_SCALE_UP,
        )
    )


def _told(pass_: PodPass) -> dict[str, tuple[str, CandidateSeen]]:
    """Return the candidates that can be told now, by target: in view, there to stay, with the field, and without a node.

    One that has a node is permitted next: a write of ours would only be in the way.
    """
    targets = pass_.targets()
    return {
        cluster: (name, known.seen)
        for cluster, (name, known) in pass_.current().items()
        if cluster in targets
        and pass_.context.in_view(cluster)
        and known.seen is not None
        and known.seen.scale_up is not None
        and not isinstance(known.seen, (CandidateReserved, CandidateBound))
        and not known.seen.deleting
        and not dropping(pass_.state, name)
    }


def _asked(pass_: PodPass, told: dict[str, tuple[str, CandidateSeen]]) -> str:
    """Return the target that is asked and can still help, "" if none is."""
    known = pass_.state.scale_up
    name, seen = told.get(known.cluster, ("", None)) if known is not None else ("", None)
    there = known is not None and seen is not None and name == known.candidate
    return known.cluster if known is not None and there and not isinstance(seen, CandidateRefused) else ""


def _is_over(pass_: PodPass) -> bool:
    """Whether the target that is asked has had its time."""
    known = pass_.state.scale_up
    until = known.since + pass_.context.policy.scale_up_timeout if known is not None else pass_.now
    if pass_.now < until:
        pass_.wake_at(until)
    return pass_.now >= until


def _next(pass_: PodPass, able: set[str]) -> str:
    """Return whose turn it is: who was asked least, of the preferred tier; "" if spread forbids them all."""
    targets = pass_.targets()
    candidates = {name: targets[name] for name in able}
    return preemptor(candidates, pass_.state.scale_ups, counts_by_target(pass_), pass_.placement.max_skew)


def _withdraw(
    pass_: PodPass, told: dict[str, tuple[str, CandidateSeen]], cluster: str, reason: CandidateReason
) -> None:
    name, seen = told[cluster]
    pass_.write(
        ScaleUpWithdrawn(cluster=cluster, candidate=name, resource_version=seen.resource_version, reason=reason)
    )
