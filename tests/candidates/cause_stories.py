"""Stories of a pod and its candidates, each up to the decision whose cause is asked for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from controlplane.controllers.candidates.objects import CANDIDATES
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import events
from controlplane.controllers.candidates.source.delegate_status import DELEGATED
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateObservationRefused,
    CandidateReserved,
    CandidateUnreserved,
    CandidateUnschedulable,
    CandidateWaiting,
)
from controlplane.controllers.candidates.source.policy import PlacementPolicy
from controlplane.controllers.connectivity.events import KindOff, cluster_stream
from controlplane.kube.conditions import Condition
from tests.candidates.stage import NS
from tests.candidates.told import Told

R = CandidateReason
Row = tuple[type[events.CandidateDecision], str, Callable[[], Told]]
BEST = PlacementPolicy(mode="BestOf", min_candidates=2)
SPREAD = PlacementPolicy(max_skew=1)
LEASE = 30 + 5 + 30 + 1  # the lease, the skew, the patience, and a little


def full(told: Told, *clusters: str, pods: tuple[str, ...] = ("web",), preemptable: bool = False) -> Told:
    for cluster in clusters:
        for pod in pods:
            told.says(CandidateUnschedulable, cluster, pod, message="no room", preemptable=preemptable)
    return told


def needs_nodes(**more: object) -> Told:
    """Two targets that know of autoscalers, of which the first has said that it has no node."""
    told = Told("a", "b", scale_up_wait=timedelta(seconds=600), **more).asked()
    return told.says(CandidateUnschedulable, "a", message="no room", scale_up=False).settle()


def buying() -> Told:
    """The first target's autoscaler may add nodes."""
    told = needs_nodes().says(CandidateUnschedulable, "b", message="no room", scale_up=False).settle()
    return told.says(CandidateUnschedulable, "a", message="no room", scale_up=True).settle()


def two(name: str, *pods: str) -> Told:
    """Two pods of one workload, of which the first is bound in a target."""
    told = Told("a", "b", placement=SPREAD)
    told.asked("one", workload="rs").reserves(name, "one").settle().binds(name, "one").settle()
    return told.asked("web", workload="rs")


def formed(*targets: str) -> Told:
    told = Told(*targets).gang("m-0", "m-1").reserves("a", "m-0", "m-1").settle()
    return told.binds("a", "m-0", "m-1").settle()


def half(**more: object) -> Told:
    """A gang that is permitted, and of which one is bound."""
    return Told("a", "b", **more).gang("m-0", "m-1").reserves("a", "m-0", "m-1").settle().binds("a", "m-0").settle()


def resting() -> Told:
    """A gang of which one has a place, and for which no target has enough."""
    told = full(Told("a").gang("m-0", "web").reserves("a", "m-0"), "a").settle()
    return told.tick(16).settle()


def ready_again() -> Told:
    """Two targets are ready when the permit of a third comes to its end."""
    told = Told("a", "b", "c").permitted("c").reserves("a").reserves("b").settle()
    return told.says(CandidateUnreserved, "c", reservation=1).settle()


def replaced() -> Told:
    """The pod is deleted and made anew while its delegate still runs."""
    told = Told("a").bound("a").pod_gone().settle().pod(uid="web#2").settle()
    return full(told, "a")


def waited_for_predecessor() -> Told:
    """An earlier pod's delegate has stopped at last, after the next one's candidate had its place."""
    told = Told("a", "b").bound("a").pod_gone().settle()
    old = told.latest("a")
    told.pod(uid="web#2").settle().says(CandidateWaiting, "b").settle().reserves("b").settle()
    return told.put_gone("a", old)


def asked_to_preempt() -> Told:
    return full(Told("a", "b").asked(), "b", "a", preemptable=True).settle()


def resent() -> Told:
    """The target's candidate is put back by a backup to what it was before the permit."""
    told = Told("a").permitted("a").says(CandidateReserved, "a", permit=1, reservation=1, node="n").settle()
    return told.says(CandidateReserved, "a", permit=0, reservation=1, node="n")


def gang_permitted() -> Told:
    return Told("a", "b").gang("m-0", "m-1").reserves("a", "m-0", "m-1").settle()


def withdrawn() -> Told:
    return gang_permitted().says(CandidateUnreserved, "a", "m-0", reservation=1).settle()


def kept() -> Told:
    return withdrawn().binds("a", "m-1")


def both_ready(**more: object) -> Told:
    return Told("a", "b", **more).gang("m-0", "m-1").reserves("a", "m-0").reserves("b", "m-0").settle()


def follower() -> Told:
    """Two of a gang run; a third comes."""
    return formed("a").asked("web", group="gang")


def shown(told: Told) -> Told:
    """What was decided to be shown on the pod is there."""
    last = [row.event for row in told.rows if isinstance(row.event, events.StatusShown)][-1]
    told.pod(conditions=[Condition(type=DELEGATED, status="True", message=last.mark)])
    return told.settle()


def once() -> Told:
    """A pod that may not be started twice has started."""
    return shown(Told("a").bound("a", restart_policy="Never").status("a").settle())


def dissolved_once() -> Told:
    told = Told("a").group(2)
    told.asked("web", "m-1", group="gang", restart_policy="Never").reserves("a", "web", "m-1").settle()
    told.binds("a").settle().status("a").settle()
    return shown(told).tick(LEASE).settle().tick(300).settle()


def hidden(*clusters: str) -> Told:
    told = Told(*clusters).pod().settle()
    for name in clusters:
        off = KindOff(kind=f"{CANDIDATES.name}/{NS}", reason="Forbidden", message="no")
        told.put(cluster_stream(name), off, name)
    return told


def unread(told: Told) -> Told:
    """A Candidate of the pod shows on a target that cannot be read, and never was."""
    head = {"kind": CANDIDATES.name, "namespace": NS, "name": "web-x", "uid": "x", "resource_version": "1"}
    refused = CandidateObservationRefused(**head, field="f", error="f: odd", object="", pod="web")
    return told.put(f"refused/a/{CANDIDATES.name}/{NS}/web-x", refused, "a")


def gated() -> Told:
    """A delegate whose Candidate can be told of readiness gates."""
    told = Told("a").bound("a")
    return told.says(CandidateBound, "a", reservation=1, permit=1, node="n", pod="p", bound_by=1, gates=[]).settle()
