"""Gangs: each rule of section 3 as a table, and that a gang is all or nothing whatever happens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kube import pod_groups as gangs
from controlplane.kube.pod_groups import EMPTY, GangDefaults, GangProgress, GangWait, Go, GroupSpec, Member
from tests.support.rows import each

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = GangDefaults()


def group(min_member: int = 3, **more: object) -> GroupSpec:
    return GroupSpec(namespace="a", name="g", created=NOW, min_member=min_member, **more)  # type: ignore[arg-type]


def of(*stages: str) -> GangProgress:
    """A gang with members m0, m1, … in these stages."""
    found = EMPTY
    for number, stage in enumerate(stages):
        found = gangs.seen(found, Member(uid=f"m{number}", name=f"m{number}", stage=stage))  # type: ignore[arg-type]
    return found


def waiting(count: int, members: int, wanted: GroupSpec) -> GangProgress:
    found = of(*["Pending"] * members)
    for number in range(count):
        found, answer = gangs.permit(wanted, found, f"m{number}", NOW, LIMITS)
        assert isinstance(answer, GangWait)
    return found


@each(
    ("wanted", "found", "reason"),
    [
        (None, of("Pending"), "GroupMissing"),
        (group(3), of("Pending", "Pending"), "TooFewMembers"),
        (group(3), of("Pending", "Pending", "Failed"), "TooFewMembers"),
        (group(3), of("Pending", "Pending", "Pending"), None),
        (group(3), of("Assigned", "Succeeded", "Pending"), None),
        (group(1), of("Pending"), None),
    ],
)
def test_held_before_the_queue(wanted: GroupSpec | None, found: GangProgress, reason: str | None) -> None:
    held = gangs.hold(wanted, found, NOW)
    assert (held.reason if held else None) == reason


def test_a_rolling_update_is_not_held() -> None:
    """Old members that run satisfy the quorum of the surge pod (specs 1.8)."""
    found = of("Assigned", "Assigned", "Assigned", "Pending")
    assert gangs.hold(group(3), found, NOW) is None
    assert gangs.permit(group(3), found, "m3", NOW, LIMITS)[1] == Go()


def test_groups_are_ordered_not_pods() -> None:
    early, late = NOW - timedelta(hours=1), NOW
    first = group(2, priority=0)
    other = GroupSpec(namespace="a", name="h", created=NOW, min_member=2)
    high = GroupSpec(namespace="a", name="z", created=late, min_member=1, priority=9)
    pods = [
        ("h-0", gangs.rank(other, early, "h-0")),
        ("g-1", gangs.rank(first, late, "g-1")),
        ("h-1", gangs.rank(other, late, "h-1")),
        ("z-0", gangs.rank(high, late, "z-0")),
        ("g-0", gangs.rank(first, early, "g-0")),
        ("solo", gangs.rank_single("a", "solo", 0, early)),
    ]
    assert [name for name, key in sorted(pods, key=lambda pod: pod[1])] == ["z-0", "solo", "g-0", "g-1", "h-0", "h-1"]


def test_the_resources_are_checked_without_the_groups_own_pods() -> None:
    wanted = group(min_resources={"cpu": 4000, "gpu": 2})
    assert gangs.shortage(wanted, {"cpu": 5000, "gpu": 2, "memory": 0}, {}) == {}
    assert gangs.shortage(wanted, {"cpu": 1000, "gpu": 1}, {"cpu": 2000}) == {"cpu": 1000, "gpu": 1}
    assert gangs.shortage(group(), {}, {}) == {}


def test_a_quorum_lets_everybody_go_and_the_first_wakes_its_siblings() -> None:
    wanted, found = group(3), of("Pending", "Pending", "Pending", "Pending")
    found, answer = gangs.permit(wanted, found, "m1", NOW, LIMITS)
    assert answer == GangWait(deadline=NOW + timedelta(minutes=5), activate=("m0", "m2", "m3"))
    found, answer = gangs.permit(wanted, found, "m0", NOW + timedelta(seconds=9), LIMITS)
    assert answer == GangWait(deadline=NOW + timedelta(minutes=5))
    found, answer = gangs.permit(wanted, found, "m3", NOW, LIMITS)
    assert answer == Go(released=("m1", "m0"))
    assert found.waiting == ()
    assert found.deadline is None
    # the one member more is scheduled singly, and its failure is its own
    assert gangs.unplaced(wanted, found, "m2", NOW, LIMITS)[1] == ()
    assert gangs.permit(wanted, found, "m2", NOW, LIMITS)[1] == Go()


def test_one_failure_turns_all_back_and_the_group_rests_longer_each_time() -> None:
    wanted = group(3)
    found = waiting(2, 3, wanted)
    for pause in (1, 2, 4):
        found, _rejected = gangs.unplaced(wanted, found, "m2", NOW, LIMITS)
        assert found.not_before == NOW + timedelta(seconds=pause)
        held = gangs.hold(wanted, found, NOW)
        assert held is not None
        assert (held.reason, held.until) == ("BackingOff", found.not_before)
        assert gangs.hold(wanted, found, found.not_before) is None
    assert gangs.unplaced(wanted, waiting(2, 3, wanted), "m2", NOW, LIMITS)[1] == ("m0", "m1")


def test_a_gap_may_be_allowed() -> None:
    wanted, limits = group(10), GangDefaults(gap_percent=10)
    found = waiting(8, 11, wanted)
    found, rejected = gangs.unplaced(wanted, found, "m8", NOW, limits)
    assert rejected == ()
    _, rejected = gangs.unplaced(wanted, found, "m9", NOW, limits)
    assert len(rejected) == 8


@pytest.mark.parametrize(("own", "seconds"), [(None, 300), (timedelta(seconds=30), 30)])
def test_after_its_time_all_are_turned_back_together(own: timedelta | None, seconds: int) -> None:
    wanted = group(3, timeout=own)
    found = waiting(2, 3, wanted)
    end = NOW + timedelta(seconds=seconds)
    assert gangs.expire(found, end - timedelta(seconds=1), LIMITS) == (found, ())
    found, rejected = gangs.expire(found, end, LIMITS)
    assert rejected == ("m0", "m1")
    assert gangs.expire(found, end, LIMITS) == (found, ())


def test_a_restarted_member_needs_no_new_quorum_while_others_run() -> None:
    wanted = group(3)
    found = waiting(2, 3, wanted)
    found, _ = gangs.permit(wanted, found, "m2", NOW, LIMITS)
    for uid in ("m0", "m1", "m2"):
        found = gangs.seen(found, Member(uid=uid, name=uid, stage="Assigned"), wanted)
    found = gangs.gone(gangs.gone(found, "m1"), "m2")
    found = gangs.seen(found, Member(uid="n", name="n"))
    assert gangs.hold(wanted, found, NOW) is None
    assert gangs.permit(wanted, found, "n", NOW, LIMITS)[1] == Go()
    over = gangs.gone(found, "m0")
    assert gangs.hold(wanted, over, NOW) is not None
    assert isinstance(gangs.permit(wanted, over, "n", NOW, LIMITS)[1], GangWait)


def test_of_a_quorum_that_was_let_go_the_failure_of_one_turns_back_who_is_not_on_a_node() -> None:
    wanted = group(3)
    found, _ = gangs.permit(wanted, waiting(2, 3, wanted), "m2", NOW, LIMITS)
    found = gangs.seen(found, Member(uid="m0", name="m0", stage="Assigned"), wanted)
    found, rejected = gangs.unplaced(wanted, found, "m1", NOW, LIMITS)
    assert rejected == ("m2",)
    assert found.failures == 1
    assert gangs.hold(wanted, found, NOW) is not None  # it rests
    later = NOW + timedelta(seconds=2)
    found, answer = gangs.permit(wanted, found, "m2", later, LIMITS)
    assert isinstance(answer, GangWait)  # one on a node and one with a place are two
    found, answer = gangs.permit(wanted, found, "m1", later, LIMITS)
    assert answer == Go(released=("m2",))
    for uid in ("m1", "m2"):
        assert not found.started
        found = gangs.seen(found, Member(uid=uid, name=uid, stage="Assigned"), wanted)
    assert found.started
    assert found.failures == 0


@each(
    ("stages", "wanted", "victims"),
    [
        (["Assigned"] * 4, ["m0"], {"m0"}),
        (["Assigned"] * 4, ["m0", "m1"], {"m0", "m1", "m2", "m3"}),
        (["Assigned"] * 3, ["m0"], {"m0", "m1", "m2"}),
        (["Assigned", "Assigned", "Assigned", "Succeeded"], ["m0"], {"m0"}),
        (["Assigned", "Pending"], ["m0"], {"m0"}),
        (["Assigned"] * 4, ["x"], set()),
        (["Assigned"] * 4, [], set()),
    ],
)
def test_preemption_takes_the_surplus_or_everybody(stages: list[str], wanted: list[str], victims: set[str]) -> None:
    assert gangs.victims(group(3), of(*stages), wanted) == victims


def test_one_condition_for_a_group() -> None:
    found = gangs.group_condition(group(3), of("Pending", "Pending", "Assigned", "Pending"), "0/2 nodes are available")
    assert found.message == ("3/4 tasks in gang unschedulable: at least 3 are needed together; 0/2 nodes are available")
    assert gangs.group_condition(group(3), of(*["Assigned"] * 3)).type == "Scheduled"


# --- all or nothing --------------------------------------------------------------------------------------------------

moves = st.lists(
    st.tuples(
        st.sampled_from(["appear", "permit", "unplaced", "bound", "done", "failed", "gone", "expire"]),
        st.integers(0, 7),
    ),
    max_size=60,
)


@given(moves, st.integers(1, 5))
def test_a_gang_is_all_or_nothing(steps: list[tuple[str, int]], min_member: int) -> None:
    wanted, found, now = group(min_member), EMPTY, NOW
    for move, number in steps:
        uid, before = f"m{number}", found
        now += timedelta(seconds=20)
        rejected: tuple[str, ...] = ()
        match move:
            case "appear" if uid not in found.members:
                found = gangs.seen(found, Member(uid=uid, name=uid))
            case "permit" if uid in found.members and found.members[uid].stage == "Pending":
                found, answer = gangs.permit(wanted, found, uid, now, LIMITS)
                if isinstance(answer, Go) and not before.started:
                    # the first to go go together, and they are enough
                    assert len(found.assigned) >= min_member
                    assert {*before.waiting} <= found.assigned
                if isinstance(answer, GangWait):
                    assert uid in found.waiting
                    assert len({*found.waiting} | found.assigned) < min_member
            case "unplaced" if uid in found.members:
                found, rejected = gangs.unplaced(wanted, found, uid, now, LIMITS)
                assert found.waiting == () or gangs.hold(wanted, found, now) is None
            case "bound" if uid in found.released:
                found = gangs.seen(found, Member(uid=uid, name=uid, stage="Assigned"), wanted)
            case "done" | "failed" if uid in found.members and found.members[uid].stage == "Assigned":
                stage = "Succeeded" if move == "done" else "Failed"
                found = gangs.seen(found, Member(uid=uid, name=uid, stage=stage))  # type: ignore[arg-type]
            case "gone" if uid in found.members:
                found = gangs.gone(found, uid)
            case "expire":
                found, rejected = gangs.expire(found, now, LIMITS)
        if rejected:  # nobody is left behind holding a place
            assert found.waiting == ()
        assert (found.deadline is None) == (not found.waiting)
        assert not {*found.waiting} & found.released
        assert {*found.waiting, *found.released} <= found.members.keys()
        assert len(gangs.victims(wanted, found, [uid])) in (0, 1) or gangs.victims(wanted, found, [uid]) >= {
            *found.waiting,
            *found.released,
        }
