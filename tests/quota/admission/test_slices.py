"""A slice of an elastic job takes the place of the one before: one reservation, one end, whenever the process dies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.kube import kinds
from controlplane.kube.slices import REPLACEMENT_FOR
from controlplane.runtime.controller import WriteRefusal
from tests.quota.admission.checks import answer, checked
from tests.quota.admission.scene import NS, Scene
from tests.support.rows import each

PLACE = ("q", "default", "cpu")


def slices(old: str = "4", new: str = "7", quota: str = "10") -> Scene:
    """Return a scene with an admitted slice, and another one that is to take its place."""
    scene = Scene()
    scene.queue("q", quota)
    scene.workload("old", "q", old)
    scene.settle()
    assert scene.is_true("old", "Admitted")
    scene.now += timedelta(seconds=1)
    grow(scene, new)
    return scene


def grow(scene: Scene, cpu: str, name: str = "new", of: str = "old", **spec: Any) -> None:
    scene.workload(name, "q", cpu, annotations={REPLACEMENT_FOR: f"{NS}/{of}"}, **spec)


def used(scene: Scene) -> int:
    return scene.controller.index.engine.snapshot.queues["q"].usage[("default", "cpu")]


def left(scene: Scene) -> dict[str, int]:
    """Return what the ledger says that Workloads have, those that have something."""
    found = {stream.rpartition("/")[2]: of.get(PLACE, 0) for stream, of in scene.posted().items()}
    return {name: amount for name, amount in found.items() if amount}


def test_a_new_slice_gets_the_difference_and_the_old_one_ends() -> None:
    scene = slices()
    scene.settle()
    assert scene.is_true("new", "Admitted")
    (given,) = scene.said(events.QuotaReservationDecided, "new")
    assert (given.replaces, given.amounts) == (f"{NS}/old", {"default": {"cpu": 7000}})
    ended = scene.condition("old", "Finished")
    uid = scene.of("new")["metadata"]["uid"]
    assert (ended["status"], ended["reason"]) == ("True", "WorkloadSliceReplaced")
    assert ended["message"] == (
        f"Replaced to accommodate a workload (UID: {uid}, JobUID: ) due to workload slice aggregation"
    )
    (end,) = scene.said(events.WorkloadStatusDecided, "old")[-1:]
    assert end.reason == AdmissionReason.SLICE_REPLACED
    assert (used(scene), left(scene)) == (7000, {"new": 7000})
    assert not scene.is_true("old", "Evicted")


def test_the_ledger_never_has_both_for_longer_than_one_decision() -> None:
    scene = slices(old="6", new="9")
    scene.decide()
    assert scene.said(events.QuotaReservationDecided, "new")
    scene.decide()  # the entry of the old one, before any write was carried out
    assert (used(scene), left(scene)) == (9000, {"new": 9000})
    assert not scene.is_true("old", "Finished")  # it ends once the reservation is seen
    scene.settle()
    assert left(scene) == {"new": 9000}
    (released,) = scene.said(events.QuotaPosted, "old")
    assert (released.reason, released.amounts) == (AdmissionReason.SLICE_REPLACED, {"default": {"cpu": -6000}})


def test_what_is_missing_is_the_difference() -> None:
    scene = slices(old="6", new="12")
    scene.settle()
    waits = scene.said(events.WorkloadInadmissible, "new")[-1]
    assert waits.message.endswith("insufficient unused quota for cpu in flavor default, 2 more needed")
    assert (used(scene), left(scene)) == (6000, {"old": 6000})
    assert not scene.is_true("old", "Finished")
    scene.queue("q", "12")
    scene.settle()
    assert scene.is_true("new", "Admitted")
    assert left(scene) == {"new": 12000}


@each("steps", range(12))
def test_a_crash_at_any_moment_ends_the_old_slice_once_and_leaves_nothing_charged(steps: int) -> None:
    """A process dies after so many steps, of which each is a decision or a write; the one after goes on from the
    log."""
    scene = slices()
    for step in range(steps):
        _ = scene.decide() if step % 2 else scene.carry_out()
    scene.controller = scene.replayed()
    scene.controller.index.all_dirty()
    scene.settle()
    assert scene.is_true("new", "Admitted")
    assert scene.condition("old", "Finished")["reason"] == "WorkloadSliceReplaced"
    assert (used(scene), left(scene)) == (7000, {"new": 7000})
    ends = [one for one in scene.written if one.ref.name == "old" and "Finished" in str(one.body)]
    assert len(ends) == 1


def test_a_reservation_that_cannot_be_written_leaves_the_old_slice_as_it_was() -> None:
    scene = slices()
    scene.refuses = lambda request: WriteRefusal(403, "Forbidden", "no") if request.ref.name == "new" else None
    scene.settle()
    assert (used(scene), left(scene)) == (4000, {"old": 4000})
    assert not scene.is_true("old", "Finished")
    scene.refuses = lambda request: None
    scene.pass_time(600)
    assert left(scene) == {"new": 7000}
    assert scene.is_true("old", "Finished")


def test_a_new_slice_that_is_deleted_leaves_the_old_one_its_quota() -> None:
    scene = slices()
    scene.decide()
    scene.drop((kinds.WORKLOADS, NS, "new"))
    scene.settle()
    assert (used(scene), left(scene)) == (4000, {"old": 4000})
    assert not scene.is_true("old", "Finished")


def test_an_old_slice_that_is_evicted_meanwhile_makes_the_new_one_need_all() -> None:
    scene = slices(old="6", new="12")
    scene.settle()
    scene.put(kinds.WORKLOADS, "old", NS, spec={**scene.of("old")["spec"], "active": False})
    scene.settle()
    assert left(scene) == {}
    scene.release("old")
    scene.settle()
    assert "maximum capacity (10)" in scene.condition("new", "QuotaReserved")["message"]
    assert left(scene) == {}


def test_a_slice_that_needs_a_check_has_the_quota_at_once() -> None:
    """As with Kueue the old slice ends with the reservation, and not only with the admission."""
    scene = Scene()
    checked(scene)
    scene.workload("old", "q", "4")
    scene.settle()
    answer(scene, "old", "Ready")
    grow(scene, "7")
    scene.settle()
    assert scene.is_true("new", "QuotaReserved")
    assert not scene.is_true("new", "Admitted")
    assert scene.is_true("old", "Finished")
    assert left(scene) == {"new": 7000}


def test_a_slice_goes_where_the_old_one_is() -> None:
    scene = slices()
    scene.put(kinds.WORKLOADS, "old", NS, status={**scene.status("old"), "clusterName": "worker-1"})
    scene.settle()
    assert scene.status("new")["clusterName"] == "worker-1"


def test_fewer_pods_in_place_give_their_quota_back() -> None:
    scene = Scene()
    scene.queue("q", "10")
    spec = scene.workload("old", "q", "2", count=5)["spec"]
    scene.settle()
    (pod_set,) = spec["podSets"]
    scene.put(kinds.WORKLOADS, "old", NS, spec={**spec, "podSets": [{**pod_set, "count": 2}]})
    scene.settle()
    assert (used(scene), left(scene)) == (4000, {"old": 4000})
    scene.finish("old")
    scene.settle()
    assert left(scene) == {}
