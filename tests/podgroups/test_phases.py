"""Phases: the table, the latch, the time limit, and what is reserved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.podgroups import phases
from controlplane.controllers.podgroups.objects import MIN_MEMBER, POD_GROUPS, PODS
from controlplane.controllers.podgroups.phases import ClusterCapacity, Counts, GroupClaim, Phase
from controlplane.kube.kinds import Json, meta
from controlplane.kube.quantities import nanos
from tests.podgroups.scenes import manifest, pod_manifest, ref
from tests.podgroups.stage import Stage
from tests.support.rows import each

JOB = ref("StatefulSet", "db")
GROUP = "podgroup-uid-db"

TABLE: list[tuple[Phase, Counts, int, Phase]] = [
    ("Pending", Counts(), 1, "Pending"),
    ("Pending", Counts(pending=3), 3, "Pending"),
    ("Inqueue", Counts(pending=3), 3, "Inqueue"),
    ("Inqueue", Counts(pending=1), 3, "Inqueue"),
    ("Inqueue", Counts(), 3, "Pending"),
    ("Inqueue", Counts(succeeded=1), 3, "Pending"),
    ("Inqueue", Counts(running=3), 3, "Running"),
    ("Running", Counts(running=2), 3, "Pending"),
    ("Running", Counts(running=1, succeeded=2), 3, "Running"),
    ("Running", Counts(running=3, pending=1, unschedulable=1), 3, "Running"),
    ("Running", Counts(running=2, pending=1, unschedulable=1), 3, "Unknown"),
    ("Unknown", Counts(running=2, pending=1), 3, "Pending"),
    ("Running", Counts(succeeded=2, failed=1), 3, "Completed"),
    ("Completed", Counts(), 3, "Completed"),
    ("Completed", Counts(pending=3), 3, "Completed"),
    ("Completed", Counts(running=2), 3, "Completed"),
    ("Completed", Counts(running=3), 3, "Running"),
    ("Pending", Counts(), 0, "Pending"),
]


@each(("before", "counts", "min_member", "after"), TABLE)
def test_the_table(before: Phase, counts: Counts, min_member: int, after: Phase) -> None:
    assert phases.phase_after(before, counts, min_member) == after


counts = st.builds(
    Counts,
    pending=st.integers(0, 4),
    unschedulable=st.integers(0, 2),
    running=st.integers(0, 4),
    succeeded=st.integers(0, 4),
    failed=st.integers(0, 4),
)


@given(st.lists(counts), st.integers(0, 4))
def test_what_is_complete_never_reserves_again_and_nothing_empty_is_admitted(seen: list[Counts], wanted: int) -> None:
    phase: Phase = "Inqueue"
    complete = False
    for one in seen:
        phase = phases.phase_after(phase, one, wanted)
        assert phase != "Inqueue" or (one.live and not complete)
        complete = complete or phase == "Completed"
        assert not complete or phase in ("Completed", "Running", "Pending", "Unknown")
        if not one.live:
            claim = GroupClaim(phase=phase, live=0, min_member=wanted, min_resources={"cpu": 5})
            assert phases.reserved_by(claim) == {}
            assert not phases.fits(claim, ClusterCapacity(total={"cpu": 99}), {})


def claim(phase: Phase, live: int = 2, **more: object) -> GroupClaim:
    return GroupClaim(phase=phase, live=live, min_member=2, min_resources={"cpu": 10}, **more)  # type: ignore[arg-type]


@each(
    ("one", "reserved"),
    [
        (claim("Pending"), {}),
        (claim("Inqueue"), {"cpu": 10}),
        (claim("Inqueue", live=0), {}),
        (claim("Running", allocated={"cpu": 4}, allocated_members=2), {"cpu": 6}),
        (claim("Running", allocated={"cpu": 4}, allocated_members=1), {}),
        (claim("Running", allocated={"cpu": 40}, allocated_members=2), {}),
        (claim("Completed"), {}),
    ],
)
def test_reservations(one: GroupClaim, reserved: dict[str, int]) -> None:
    assert phases.reserved_by(one) == reserved


@each(
    ("room", "reserved", "factor", "fits"),
    [
        (ClusterCapacity(total={"cpu": 10}), {}, 1.0, True),
        (ClusterCapacity(total={"cpu": 10}), {"cpu": 1}, 1.0, False),
        (ClusterCapacity(total={"cpu": 10}), {"cpu": 2}, 1.2, True),
        (ClusterCapacity(total={"cpu": 10}), {"cpu": 2}, 0.5, True),
        (ClusterCapacity(total={"cpu": 20}, used={"cpu": 11}), {}, 1.0, False),
        (ClusterCapacity(total={"cpu": 10}), {"memory": 99}, 1.0, True),
        (ClusterCapacity(), {}, 1.2, False),
    ],
)
def test_admission(room: ClusterCapacity, reserved: dict[str, int], factor: float, fits: bool) -> None:
    assert phases.fits(claim("Pending"), room, reserved, factor) is fits


def test_a_group_without_min_resources_is_always_admitted() -> None:
    assert phases.fits(GroupClaim(phase="Pending", live=1, min_member=1), ClusterCapacity(), {})


def test_when_inqueue_ends() -> None:
    at, limit = datetime(2026, 1, 1, tzinfo=UTC), timedelta(minutes=1)
    assert phases.expires_at("Inqueue", at, limit) == at + limit
    assert phases.expires_at("Running", at, limit) is None


# --- in the loop -----------------------------------------------------------------------------------------------------


def scene(pods: int, members: int, **policy: object) -> Stage:
    made = Stage(**policy)
    made.put(manifest(JOB, notes={MIN_MEMBER: str(members)}))
    for number in range(pods):
        made.put(pod_manifest(JOB, f"p{number}", cpu="1"))
    return made.settle().later(seconds=2)


def show(made: Stage, name: str, **status: object) -> None:
    stored = made.get(PODS, name)
    made.put(stored | {"spec": stored["spec"] | {"nodeName": "n1"}, "status": status})


def status(made: Stage) -> Json:
    found: Json = made.get(POD_GROUPS, GROUP).get("status", {})
    return found


def test_from_creation_to_completion_and_it_stays() -> None:
    made = scene(2, 2)
    assert status(made)["phase"] == "Pending"
    for name in ("p0", "p1"):
        show(made, name, phase="Running")
    made.settle().later(seconds=2)
    assert status(made) == {"phase": "Running", "running": 2, "succeeded": 0, "failed": 0}
    for name in ("p0", "p1"):
        show(made, name, phase="Succeeded")
    made.settle().later(seconds=2)
    assert (status(made)["phase"], status(made)["succeeded"]) == ("Completed", 2)
    for name in ("p0", "p1"):
        made.remove(made.get(PODS, name))
    made.settle().room(cpu=nanos(99)).later(hours=1)
    assert status(made)["phase"] == "Completed"


def test_inqueue_needs_room_and_ends_by_itself() -> None:
    made = scene(2, 2)
    made.room(cpu=nanos(1)).settle()
    assert status(made)["phase"] == "Pending"
    made.room(cpu=nanos(2)).settle().later(seconds=2)
    assert status(made)["phase"] == "Inqueue"
    made.later(minutes=10)
    assert status(made)["phase"] == "Pending"
    made.later(minutes=9)
    assert status(made)["phase"] == "Pending"
    made.later(minutes=2)
    assert status(made)["phase"] == "Inqueue"


def test_one_groups_reservation_keeps_another_out() -> None:
    made = scene(2, 2)
    made.room(cpu=nanos(2)).settle().later(seconds=2)
    other = ref("StatefulSet", "other")
    made.put(manifest(other))
    made.put(pod_manifest(other, "o", cpu="1"))
    made.settle().later(seconds=2)
    assert made.get(POD_GROUPS, "podgroup-uid-other")["status"]["phase"] == "Pending"
    for name in ("p0", "p1"):  # its members go: it reserves nothing any more
        made.remove(made.get(PODS, name))
    made.settle().later(seconds=2)
    made.room(cpu=nanos(2)).settle().later(seconds=2)
    assert status(made)["phase"] == "Pending"
    assert made.get(POD_GROUPS, "podgroup-uid-other")["status"]["phase"] == "Inqueue"


def test_groups_that_are_asked_in_one_round_do_not_get_the_same_room() -> None:
    """The loop decides about many streams before it folds what was decided."""
    made = scene(2, 2)
    for name in ("x", "y"):
        owner = ref("StatefulSet", name)
        made.put(manifest(owner))
        made.put(pod_manifest(owner, f"{name}-0", cpu="1"))
        made.settle().later(seconds=2)
    made.room(cpu=nanos(3))
    decided = [made.fleet.decide(stream, made.now).events for stream in made.fleet.take_dirty()]
    assert [[one.event.reason for one in events] for events in decided] == [["RoomFound"], ["RoomFound"], []]


def test_a_status_is_not_written_more_often_than_the_interval() -> None:
    made = scene(6, 2)
    before = made.requests["patch", "podgroups.scheduling.volcano.sh"]
    for number in range(6):
        show(made, f"p{number}", phase="Running")
        made.settle()
    made.later(seconds=2)
    assert made.requests["patch", "podgroups.scheduling.volcano.sh"] <= before + 2
    assert status(made)["running"] == 6
    assert meta(made.get(POD_GROUPS, GROUP))["name"] == GROUP
