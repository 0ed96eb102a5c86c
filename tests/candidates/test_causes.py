"""`caused_by` on the source side: of each decision that can be taken, the one event that it rests on, among much that
changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS, CANDIDATES, PODS
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.references import controller as copies
from controlplane.controllers.candidates.references.controller import ReferenceController
from controlplane.controllers.candidates.references.decide import NamedObject
from controlplane.controllers.candidates.references.events import (
    COPY_EVENTS,
    CopyDecided,
    CopyDropped,
    CopyGone,
    CopyObserved,
    NamedMissing,
    NamedObserved,
)
from controlplane.controllers.candidates.source import controller as placing
from controlplane.controllers.candidates.source import events, gang_events
from controlplane.controllers.candidates.source.causes import CAUSES, may_cause
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.delegate_status import DELEGATED, FOLLOWED
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateReserved,
    CandidateUnreserved,
    CandidateUnschedulable,
    CandidateWaiting,
    DelegateMissing,
)
from controlplane.controllers.candidates.source.policy import NEVER_TWICE, PlacementPolicy
from controlplane.controllers.connectivity.events import MANAGEMENT, KindOff, cluster_stream
from controlplane.kube.conditions import Condition
from controlplane.kube.kinds import POD_GROUPS
from controlplane.runtime.hosting import Registration
from controlplane.runtime.marks import ANY
from controlplane.runtime.router import ControllerRouter
from tests.candidates.stage import NS
from tests.candidates.test_capabilities import Process
from tests.candidates.told import Told, options

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


ELECTIONS: list[Row] = [
    (events.Elected, R.OPTED_IN, lambda: Told("a").pod().cause()),
    (events.Elected, R.OPTED_IN, lambda: Told("a").pod(gated=True).settle().pod(gated=False).cause()),
    (events.Elected, R.OPTED_IN, lambda: Told().pod().settle().target("a").cause()),
    (
        events.Elected,
        R.OPTED_IN,
        lambda: Told("a").pod(group="gang").pod("m-1", group="gang").settle().group(2).cause(),
    ),
    (
        events.Elected,
        R.OPTED_IN,
        lambda: Told("a").group(2).pod(group="gang").settle().pod("m-1", group="gang").cause(),
    ),
    (
        events.Elected,
        R.DELEGATE_WAS_LOST,
        lambda: Told("a").bound("a").says(DelegateMissing, "a").settle().cause(events.DelegateLost),
    ),
    (
        events.Elected,
        R.PERMIT_WAS_OUTLIVED,
        lambda: Told("a").permitted("a").tick(LEASE).settle().cause(events.EpochClosed),
    ),
    (
        events.Elected,
        R.TARGET_FORGOTTEN,
        lambda: Told("a", "b").permitted("a").lose("a").give_up("a").settle().cause(events.EpochClosed),
    ),
    (events.Elected, R.TARGETS_CHANGED, lambda: Told("a").asked().target("b").settle().cause(events.EpochClosed)),
    (
        events.Elected,
        R.GANG_INCOMPLETE,
        lambda: Told("a").gang("m-0", "web").pod_gone("m-0").settle().pod("m-0", uid="m-0#2", group="gang").cause(),
    ),
    (
        events.Elected,
        R.GANG_DISSOLVED,
        lambda: half().tick(LEASE).settle().tick(300).settle().cause(gang_events.GangReleased),
    ),
    *(
        (
            events.ElectionRefused,
            reason,
            lambda reason=reason: Told("a").pod(problem=reason, problem_message="no").cause(),
        )
        for reason in (
            R.INVALID_OPTION,
            R.INVALID_CONSTRAINT,
            R.FORGED_ANNOTATION,
            R.BOUND_ELSEWHERE,
            R.GANG_NEVER_SPREADS,
        )
    ),
    (events.ElectionRefused, R.NAMESPACE_NOT_ALLOWED, lambda: Told("a", namespaces=frozenset()).pod().cause()),
    (events.ElectionRefused, R.GATED, lambda: Told("a").pod(gated=True).cause()),
    (events.ElectionRefused, R.NO_TARGETS, lambda: Told().pod().cause()),
    (events.ElectionRefused, R.UNKNOWN_TARGET, lambda: Told("a").pod(options=options("b")).cause()),
    (events.ElectionRefused, R.GANG_RESTS, lambda: resting().cause(events.EpochClosed)),
    (events.ElectionRefused, R.GROUP_MISSING, lambda: Told("a").pod(group="gang").cause()),
    (events.ElectionRefused, R.TOO_FEW_MEMBERS, lambda: Told("a").pod(group="gang").settle().group(2).cause()),
    (
        events.ElectionRefused,
        R.GANG_TARGETS_DIFFER,
        lambda: (
            Told("a", "b")
            .group(2)
            .pod(group="gang", options=options("a"))
            .settle()
            .pod("m-1", group="gang", options=options("b"))
            .cause()
        ),
    ),
]

REQUESTS: list[Row] = [
    (events.CandidateRequested, R.TARGET_OF_EPOCH, lambda: Told("a").pod().settle().cause(events.Elected)),
    (
        events.CandidateRequested,
        R.TARGET_OF_EPOCH,
        lambda: Told("a", "b").lose("b").pod().settle().connect("b").cause(),
    ),
    (events.CandidateRequested, R.TARGET_OF_EPOCH, lambda: Told("a", "b").asked().candidate_gone("b").cause()),
    (events.CandidateDropped, R.SOURCE_DELETED, lambda: Told("a").asked().pod_gone().cause()),
    (
        events.CandidateDropped,
        R.SOURCE_DELETED,
        lambda: Told("a").asked().lose("a").pod_gone().settle().connect("a").cause(),
    ),
    (events.CandidateDropped, R.SOURCE_TERMINAL, lambda: Told("a", "b").bound("a").pod(phase="Succeeded").cause()),
    (events.CandidateDropped, R.OLD_EPOCH, lambda: Told("a").asked().target("b").cause()),
    (events.CandidateDropped, R.ANOTHER_TARGET_WON, lambda: Told("a", "b").permitted("a").binds("a").cause()),
    (events.CandidateDropped, R.NOT_A_TARGET, lambda: Told("a", "b").permitted("a").no_target("b").cause()),
    (events.CandidateDropped, R.BOUND_WITHOUT_PERMIT, lambda: Told("a", "b").permitted("a").binds("b").cause()),
    (events.CleanupDone, R.NOTHING_LEFT, lambda: Told("a").asked().pod_gone().settle().candidate_gone("a").cause()),
    (events.CleanupDone, R.NOTHING_LEFT, lambda: Told().pod().settle().pod_gone().cause()),
]

PERMITS: list[Row] = [
    (events.PermitGranted, R.ONLY_READY, lambda: Told("a", "b").asked().reserves("a").cause()),
    (
        events.PermitGranted,
        R.ONLY_READY,
        lambda: full(Told("a", "b", placement=BEST).asked().reserves("a").settle(), "b").cause(),
    ),
    (events.PermitGranted, R.FIRST_READY, lambda: ready_again().cause(events.RevokeAcked)),
    (
        events.PermitGranted,
        R.BEST_SCORE,
        lambda: Told("a", "b", placement=BEST).asked().reserves("a").settle().reserves("b").cause(),
    ),
    (
        events.PermitGranted,
        R.PREFERRED_TIER,
        lambda: Told("a", "b", tiers={"b": 2}).asked().reserves("b").reserves("a").cause(),
    ),
    (
        events.PermitGranted,
        R.WINDOW_CLOSED,
        lambda: Told("a", "b", placement=BEST).asked().reserves("a").cause().settle().tick(6),
    ),
    (events.PermitGranted, R.ONLY_READY, lambda: waited_for_predecessor().cause()),
    (events.PermitGranted, R.ONLY_READY, lambda: two("a").reserves("a").settle().pod_gone("one").cause()),
    (
        events.PermitGranted,
        R.ROOM_BY_PREEMPTION,
        lambda: full(Told("a", "b").asked(), "a", "b", preemptable=True).cause(),
    ),
    (events.PermitGranted, R.GANG_FOLLOWS, lambda: follower().reserves("a", "web").cause()),
    (events.PermitGranted, R.PERMIT_OPEN, lambda: resent().cause()),
    (events.PermitRevoked, R.LEASE_ENDED, lambda: Told("a").permitted("a").cause(events.PermitGranted).tick(31)),
    (
        events.PermitRevoked,
        R.GANG_INCOMPLETE,
        lambda: (
            gang_permitted()
            .says(CandidateUnreserved, "a", "m-0", reservation=1)
            .settle()
            .cause(gang_events.GangWithdrawn)
        ),
    ),
    (events.RevokeAcked, R.CANDIDATE_GONE, lambda: Told("a").permitted("a").candidate_gone("a").cause()),
    (events.RevokeAcked, R.ANSWERED, lambda: asked_to_preempt().says(CandidateUnschedulable, "a", tried=1).cause()),
    (
        events.RevokeAcked,
        R.ACKNOWLEDGED,
        lambda: Told("a").permitted("a").tick(31).settle().says(CandidateWaiting, "a", acknowledged=1).cause(),
    ),
    (
        events.RevokeAcked,
        R.UNRESERVED,
        lambda: Told("a").permitted("a").says(CandidateUnreserved, "a", reservation=1).cause(),
    ),
    (events.RevokeAcked, R.ANOTHER_READY, lambda: asked_to_preempt().reserves("b").cause()),
    (events.RevokeAcked, R.LEASE_ENDED, lambda: asked_to_preempt().cause(events.PermitGranted).tick(126)),
]

ENDS: list[Row] = [
    (events.DelegateLost, R.POD_MISSING, lambda: Told("a").bound("a").says(DelegateMissing, "a").cause()),
    (events.DelegateLost, R.POD_MISSING, lambda: Told("a").bound("a").candidate_gone("a").cause()),
    (events.DelegateLost, R.TARGET_LOST, lambda: Told("a").bound("a").lose("a").cause().settle().tick(901)),
    (events.DelegateLost, R.TARGET_FORGOTTEN, lambda: Told("a").bound("a").lose("a").settle().give_up("a").cause()),
    (events.EpochClosed, R.TARGETS_CHANGED, lambda: Told("a").asked().target("b").cause()),
    (events.EpochClosed, R.TARGETS_CHANGED, lambda: Told("a", "b").asked().pod(options=options("b")).cause()),
    (events.EpochClosed, R.GANG_INCOMPLETE, lambda: Told("a").gang("m-0", "web").pod_gone("m-0").cause()),
    (
        events.EpochClosed,
        R.GANG_DISSOLVED,
        lambda: half().tick(LEASE).settle().tick(300).settle().cause(gang_events.GangDissolved),
    ),
    (
        events.EpochClosed,
        R.PERMIT_WAS_OUTLIVED,
        lambda: Told("a").permitted("a").cause(events.PermitGranted).tick(LEASE),
    ),
    (events.EpochClosed, R.TARGET_FORGOTTEN, lambda: Told("a").permitted("a").lose("a").settle().give_up("a").cause()),
]

SHOWN: list[Row] = [
    (events.StatusShown, R.STATUS_CHANGED, lambda: Told("a").permitted("a").binds("a").cause()),
    (events.StatusShown, R.STATUS_CHANGED, lambda: shown(Told("a").bound("a")).status("a").cause()),
    (events.StatusShown, R.STATUS_FINAL, lambda: shown(Told("a").bound("a")).status("a", 1, "Succeeded").cause()),
    *(
        (events.StatusShown, row[1], lambda story=row[2]: story().settle().cause(events.ElectionRefused))  # type: ignore[misc]
        for row in ELECTIONS
        if row[0] is events.ElectionRefused and row[1] != R.GANG_RESTS
    ),
    (events.StatusShown, R.GANG_RESTS, lambda: resting().settle().cause(events.ElectionRefused)),
    (events.StatusShown, R.UNSCHEDULABLE_EVERYWHERE, lambda: full(Told("a", "b").asked(), "b", "a").cause()),
    (
        events.StatusShown,
        R.UNSCHEDULABLE_EVERYWHERE,
        lambda: full(Told("a", "b").asked(), "b").settle().lose("a").cause(),
    ),
    (events.StatusShown, R.CANDIDATES_UNREADABLE, lambda: hidden("a", "b").cause()),
    (events.StatusShown, R.SKEW_TOO_LARGE, lambda: full(two("a").reserves("a").settle(), "b").cause()),
    (events.StatusShown, R.PREDECESSOR_STOPS, lambda: replaced().cause()),
    (
        events.StatusShown,
        R.AWAITS_GANG,
        lambda: full(Told("a").gang("m-0", "web"), "a", pods=("m-0", "web")).settle().cause(gang_events.GangWaits),
    ),
    (events.StatusShown, R.AWAITS_GANG, lambda: full(follower(), "a").cause()),
    (
        events.StatusShown,
        R.AWAITS_ANSWER,
        lambda: Told("a", execution_policy=NEVER_TWICE).permitted("a").cause(events.PermitGranted).tick(LEASE),
    ),
    (
        events.StatusShown,
        R.DELEGATE_WAS_LOST,
        lambda: shown(Told("a", "b").bound("a").status("a")).says(DelegateMissing, "a").settle().cause(events.Elected),
    ),
    (events.StatusShown, R.POD_MISSING, lambda: once().says(DelegateMissing, "a").settle().cause(events.DelegateLost)),
    (
        events.StatusShown,
        R.TARGET_LOST,
        lambda: once().lose("a").settle().tick(901).settle().cause(events.DelegateLost),
    ),
    (events.StatusShown, R.TARGET_FORGOTTEN, lambda: once().lose("a").give_up("a").settle().cause(events.DelegateLost)),
    (events.StatusShown, R.GANG_DISSOLVED, lambda: dissolved_once().cause(events.EpochClosed, "web")),
    (events.DelegateHinted, R.DELEGATE_FOUND, lambda: Told("a").permitted("a").binds("a").cause()),
]

GANGS: list[Row] = [
    (
        gang_events.GangPermitted,
        R.ONLY_READY,
        lambda: Told("a").gang("m-0", "m-1").reserves("a", "m-0").settle().reserves("a", "m-1").cause(),
    ),
    (gang_events.GangPermitted, R.FIRST_READY, lambda: both_ready().reserves("b", "m-1").reserves("a", "m-1").cause()),
    (
        gang_events.GangPermitted,
        R.BEST_SCORE,
        lambda: both_ready(placement=BEST).reserves("a", "m-1").settle().reserves("b", "m-1").cause(),
    ),
    (
        gang_events.GangPermitted,
        R.PREFERRED_TIER,
        lambda: both_ready(tiers={"b": 1}).reserves("b", "m-1").reserves("a", "m-1").cause(),
    ),
    (
        gang_events.GangPermitted,
        R.WINDOW_CLOSED,
        lambda: both_ready(placement=BEST).reserves("a", "m-1").cause().settle().tick(6),
    ),
    (
        gang_events.GangPermitted,
        R.ROOM_BY_PREEMPTION,
        lambda: full(Told("a").gang("m-0", "m-1"), "a", pods=("m-0", "m-1"), preemptable=True).cause(),
    ),
    (gang_events.GangPermitted, R.GANG_FOUND, lambda: Told("a").bound("a").group(1).settle().pod(group="gang").cause()),
    (gang_events.GangFormed, R.GANG_FORMED, lambda: half().binds("a", "m-1").cause()),
    (
        gang_events.GangWithdrawn,
        R.GANG_INCOMPLETE,
        lambda: (
            gang_permitted().says(CandidateUnreserved, "a", "m-0", reservation=1).settle().cause(events.RevokeAcked)
        ),
    ),
    (gang_events.GangKept, R.GANG_BOUND_MEANWHILE, lambda: kept().cause()),
    (gang_events.GangDissolved, R.GANG_DISSOLVED, lambda: half().cause(CandidateBound).tick(LEASE).settle().tick(300)),
    (
        gang_events.GangReleased,
        R.GANG_ENDED,
        lambda: formed("a").pod("m-0", phase="Succeeded").settle().pod("m-1", phase="Succeeded").cause(),
    ),
    (
        gang_events.GangReleased,
        R.GANG_INCOMPLETE,
        lambda: withdrawn().says(CandidateUnreserved, "a", "m-1", reservation=1).settle().cause(events.RevokeAcked),
    ),
    (gang_events.GangRested, R.GANG_FITS_NOWHERE, lambda: resting().cause_before(gang_events.GangRested)),
    (
        gang_events.GangWaits,
        R.GANG_FITS_NOWHERE,
        lambda: full(Told("a").gang("m-0", "m-1"), "a", pods=("m-0", "m-1")).cause(),
    ),
]
REFS = [NamedObject("Secret", "keys"), NamedObject("ConfigMap", "files")]


class Following(Told):
    """Pods that name a Secret and a ConfigMap, which follow them."""

    def __init__(self, *targets: str) -> None:
        super().__init__(*targets)
        self.copies = ReferenceController(self.placing)
        self.process = Process(
            ControllerRouter(
                [
                    Registration("candidates", self.placing, placing.OWNS, placing.HEARS),
                    Registration("copies", self.copies, copies.OWNS, copies.HEARS, identities="copies"),
                ]
            ),
            (*SourceController.types, *COPY_EVENTS),
        )
        self.process.versions = Counter()
        self._tell(*targets)

    def _tell(self, *targets: str) -> None:
        self.connect(MANAGEMENT, PODS.name, CANDIDATE_TARGETS.name, POD_GROUPS.name)
        for name in targets:
            self.target(name).connect(name)

    def named(self, name: str, kind: str, version: str = "1") -> Following:
        head = {"namespace": NS, "name": name, "uid": f"u-{name}", "resource_version": version}
        self.put(f"named/{kind}/{NS}/{name}", NamedObserved(**head, kind=kind))
        return self

    def missing(self, name: str, kind: str) -> Following:
        self.put(f"named/{kind}/{NS}/{name}", NamedMissing(namespace=NS, name=name, kind=kind, message="there is none"))
        return self

    def copied(self, name: str, kind: str, followed: str = "1") -> Following:
        head = {"namespace": NS, "name": name, "uid": f"c-{name}", "resource_version": self._version()}
        self.put(f"copies/a/{NS}", CopyObserved(**head, kind=kind, mark="home", followed=followed), "a")
        return self

    def copy_gone(self, name: str, kind: str) -> Following:
        self.put(f"copies/a/{NS}", CopyGone(namespace=NS, name=name, uid=f"c-{name}", kind=kind), "a")
        return self

    def noise(self) -> Told:
        """The other of the two changes, and another pod names the same."""
        self.named("files", "ConfigMap", "9")
        return super().noise()


def following() -> Following:
    told = Following("a").named("keys", "Secret").named("files", "ConfigMap")
    told.bound("a", references=REFS)
    told.copied("files", "ConfigMap").copied("keys", "Secret").settle()
    return told


COPIES: list[Row] = [
    (
        CopyDecided,
        R.NAMED_BY_DELEGATE,
        lambda: Following("a").named("keys", "Secret").permitted("a", references=REFS[:1]).cause(events.PermitGranted),
    ),
    (CopyDecided, R.NAMED_BY_DELEGATE, lambda: following().named("keys", "Secret", "2").cause()),
    (CopyDecided, R.NAMED_BY_DELEGATE, lambda: following().copy_gone("keys", "Secret").cause()),
    (CopyDropped, R.NOT_NAMED, lambda: following().pod_gone().cause()),
    (CopyDropped, R.NOT_NAMED, lambda: following().missing("keys", "Secret").cause()),
    (events.StatusShown, R.STATUS_CHANGED, lambda: lacking().cause()),
    (events.StatusShown, R.STATUS_CHANGED, lambda: obstructed().named("keys", "Secret", "5").cause()),
]


def told_where(told: Following) -> Following:
    """The pod says where it is bound."""
    last = [row.event for row in told.rows if isinstance(row.event, events.StatusShown)][-1]
    hints = [row.event.hints for row in told.rows if isinstance(row.event, events.DelegateHinted)][-1]
    delegated = Condition(type=DELEGATED, status="True", message=last.mark)
    told.pod(hints=hints, conditions=[delegated, Condition(type="PodScheduled", status="True", message=last.message)])
    told.settle()
    return told


def lacking() -> Following:
    """What the pod names is gone, and then its copy."""
    told = told_where(following()).missing("keys", "Secret")
    told.settle()
    return told.copy_gone("keys", "Secret")


def obstructed() -> Following:
    """The pod says that something cannot follow it."""
    told = lacking()
    told.settle()
    last = [row.event for row in told.rows if isinstance(row.event, events.StatusShown)][-1]
    followed = Condition(type=FOLLOWED, status="False", message=last.obstacles)
    delegated = Condition(type=DELEGATED, status="True", message=last.mark)
    scheduled = Condition(type="PodScheduled", status="True", message=last.message)
    told.pod(conditions=[delegated, scheduled, followed]).settle()
    return told


TABLE = [*ELECTIONS, *REQUESTS, *PERMITS, *ENDS, *SHOWN, *GANGS, *COPIES]


@pytest.mark.parametrize(("decision", "reason", "story"), TABLE, ids=[f"{row[0].__name__}-{row[1]}" for row in TABLE])
def test_it_rests_on(decision: type[events.CandidateDecision], reason: str, story: Callable[[], Told]) -> None:
    told = story().noise().settle()
    rows = [row for row in told.rows[told.expected :] if type(row.event) is decision and row.event.reason == reason]
    # Of a gang the same is decided for each of its pods: what is asked is that of the pod that it happened to.
    same = [row for row in rows if row.stream == told.rows[told.expected - 1].stream]
    found = [row.caused_by for row in same or rows if getattr(row.event, "name", "keys") == "keys"]
    assert found, [type(row.event).__name__ for row in told.rows]
    described = {at: told.rows[at - 1] for at in (found[0], told.expected)}
    assert found[0] == told.expected, described
    for number, row in enumerate(told.rows, 1):
        if isinstance(row.event, events.CandidateDecision):
            assert 0 < row.caused_by < number
            assert may_cause(told.rows[row.caused_by - 1].stream, row.stream), (row, told.rows[row.caused_by - 1])


def test_every_row_of_the_table_is_told() -> None:
    told = {(decision, reason) for decision, reason, _ in TABLE}
    rows = {(decision, reason) for decision, reasons in CAUSES.items() for reason in reasons if reason != ANY}
    assert rows <= told
    for decision, reason in told:
        assert {reason, ANY} & CAUSES[decision].keys()


def test_every_decision_has_a_row() -> None:
    every = {
        one
        for one in (*events.EVENTS, *gang_events.GANG_EVENTS, *COPY_EVENTS)
        if issubclass(one, events.CandidateDecision)
    }
    assert every <= CAUSES.keys()
