"""Which event each decision about a pod or its gang rests on: the decision, its reason, and a story that ends so."""

from __future__ import annotations

from controlplane.controllers.candidates.objects import HINT_CLUSTER
from controlplane.controllers.candidates.source import events, gang_events
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateReserved,
    CandidateUnreserved,
    CandidateUnschedulable,
    CandidateWaiting,
    DelegateMissing,
)
from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.kube.conditions import Condition
from tests.candidates.cause_stories import (
    BEST,
    LEASE,
    R,
    Row,
    asked_to_preempt,
    both_ready,
    buying,
    dissolved_once,
    follower,
    formed,
    full,
    gang_permitted,
    gated,
    half,
    hidden,
    kept,
    needs_nodes,
    once,
    ready_again,
    replaced,
    resent,
    resting,
    shown,
    two,
    unread,
    waited_for_predecessor,
    withdrawn,
)
from tests.candidates.told import Told, options

ELECTIONS: list[Row] = [
    (
        events.PlacementFound,
        R.PERMIT_UNKNOWN,
        lambda: Told("a").asked().says(CandidateReserved, "a", reservation=1, permit=5, node="n").cause(),
    ),
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
            R.POD_TOO_LARGE,
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
    (events.CandidateAmended, R.SOURCE_CHANGED, lambda: Told("a").asked().pod(template="t2").cause()),
    (
        events.CandidateAmended,
        R.SOURCE_CHANGED,
        lambda: Told("a").asked().lose("a").pod(template="t2").settle().connect("a").cause(),
    ),
    (events.CandidateDropped, R.SOURCE_DELETED, lambda: Told("a").asked().pod_gone().cause()),
    (
        events.CandidateDropped,
        R.SOURCE_DELETED,
        lambda: Told("a").asked().lose("a").pod_gone().settle().connect("a").cause(),
    ),
    (
        events.CandidateDropped,
        R.SOURCE_TERMINAL,
        lambda: Told("a", "b").bound("a").status("a", 1, "Succeeded").pod(phase="Succeeded").cause(),
    ),
    (events.CandidateDropped, R.SOURCE_TERMINAL, lambda: Told("a").bound("a").pod(phase="Failed").cause()),
    (
        events.CandidateDropped,
        R.SOURCE_TERMINAL,
        lambda: Told("a").bound("a").status("a").settle().lose("a").pod(phase="Failed").settle().connect("a").cause(),
    ),
    (
        events.CandidateDropped,
        R.SOURCE_TERMINAL,
        lambda: (
            Told("a")
            .bound("a")
            .status("a", 1, "Succeeded")
            .pod(phase="Succeeded")
            .settle()
            .status("a", 2, "Running")
            .cause()
        ),
    ),
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
    (
        events.AutoscalerChosen,
        R.NODES_NEEDED,
        lambda: needs_nodes().says(CandidateUnschedulable, "b", message="no room", scale_up=False).cause(),
    ),
    (
        events.GatesSet,
        R.GATES_CHANGED,
        lambda: gated().pod(gates=["g"], conditions=[Condition(type="g", status="True")]).cause(),
    ),
    (
        events.ScaleUpSet,
        R.NODES_NEEDED,
        lambda: needs_nodes().says(CandidateUnschedulable, "b", message="no room", scale_up=False).cause(),
    ),
    (
        events.ScaleUpSet,
        R.NODES_ELSEWHERE,
        lambda: (
            buying()
            .tick(600)
            .settle()
            .says(CandidateUnschedulable, "a", message="no room", scale_up=False)
            .settle()
            .says(CandidateUnschedulable, "a", message="no room", scale_up=True)
            .cause()
        ),
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
    (events.DelegateLost, R.POD_REJECTED, lambda: Told("a").bound("a").rejected("a").cause()),
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
    (events.StatusShown, R.CANDIDATE_UNREAD, lambda: unread(Told("a", "b").asked()).cause()),
    (
        events.StatusShown,
        R.DELEGATE_UNSEEN,
        lambda: Told("b").connect("a").lose("a").pod(hints={HINT_CLUSTER: "a"}).settle().cause(events.Elected),
    ),
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
