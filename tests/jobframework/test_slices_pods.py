"""Which slice of an elastic job counts, and which of its pods may run."""

from __future__ import annotations

import pytest

from controlplane.controllers.jobframework import events, slices
from controlplane.controllers.jobframework.parts import SliceFacts
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.topology_events import PodUngateDecided
from controlplane.kube.conditions import Condition
from controlplane.kube.kinds import PODS, WORKLOADS, Json, meta
from controlplane.kube.slices import ELASTIC_GATE, SLICE_NAME
from tests.jobframework.scene import NS, Scene, pod_template
from tests.jobframework.test_slices import admitted, get, grown, replace, resize
from tests.support.rows import each

# --- which slice counts ---


def slice_(name: str, replaces: str = "", *said: str, at: int = 0) -> events.JobWorkloadObserved:
    return events.JobWorkloadObserved(
        namespace=NS, name=name, uid=f"uid-{name}", resource_version="1", created=f"2026-01-01T00:00:0{at}Z",
        slice=SliceFacts(name="a", replaces=f"{NS}/{replaces}" if replaces else ""),
        conditions=[Condition(type=one, status="True", reason="", message="", last_transition_time="") for one in said],
    )  # fmt: skip


QUOTA, EVICTED = "QuotaReserved", "Evicted"


@each(
    ("live", "chosen", "head", "over"),
    [
        ([slice_("a")], "a", "", []),
        ([slice_("a", "", QUOTA)], "a", "a", []),
        ([slice_("a", "", QUOTA), slice_("b", "a")], "b", "a", []),
        # Both have quota: whoever admits ends the old one.
        ([slice_("a", "", QUOTA), slice_("b", "a", QUOTA)], "b", "b", []),
        ([slice_("a", "", QUOTA), slice_("b", "a", QUOTA), slice_("c", "b")], "c", "b", []),
        # Two for one place: the newer counts, and the other one is over.
        ([slice_("a", "", QUOTA), slice_("b", "a"), slice_("c", "a")], "b", "a", [("c", False)]),
        ([slice_("a", "", QUOTA), slice_("b", "a"), slice_("c", "a", QUOTA)], "c", "c", [("b", False)]),
        # None has quota: the newest that is not evicted.
        ([slice_("a"), slice_("b", "a")], "b", "", [("a", True)]),
        ([slice_("a", "", EVICTED), slice_("b", "a")], "b", "", [("a", True)]),
        ([slice_("a", "", QUOTA), slice_("b", "a", EVICTED)], "a", "a", [("b", False)]),
        ([slice_("a", "", EVICTED), slice_("b", "a", EVICTED)], "", "", [("a", False), ("b", False)]),
    ],
)  # fmt: skip
def test_which_slice_counts_and_which_are_over(
    live: list[events.JobWorkloadObserved], chosen: str, head: str, over: list[tuple[str, bool]]
) -> None:
    found = slices.settled(live)
    assert (found.chosen.name if found.chosen else "", found.head.name if found.head else "") == (chosen, head)
    assert [(one.name, taken) for one, taken in found.over] == over


# --- its pods ---


def pod(name: str, slice_name: str, *, runs: bool = False, pod_set: str = "main") -> Json:
    notes = {"kueue.x-k8s.io/workload": slice_name, SLICE_NAME: slice_name}
    gates = [{"name": "example.com/other"}] if runs else [{"name": "example.com/other"}, {"name": ELASTIC_GATE}]
    spec = {**pod_template()["spec"], "schedulingGates": gates}
    head = {"namespace": NS, "name": name, "labels": {"kueue.x-k8s.io/podset": pod_set}, "annotations": notes}
    return {"metadata": head, "spec": spec}


def waiting(scene: Scene) -> list[str]:
    gated = {"name": ELASTIC_GATE}
    pods = scene.store.list(PODS)[0]
    return sorted(meta(one)["name"] for one in pods if gated in one["spec"].get("schedulingGates", ()))


def with_pods(size: int, *names: str) -> Scene:
    scene = admitted(size)
    for one in scene.store.list(PODS)[0]:
        scene.store.delete(PODS, NS, meta(one)["name"], grace=0)
    first = meta(scene.workload())["name"]
    for name in names:
        scene.create(pod(name, first), PODS)
    scene.settle()
    return scene


def test_as_many_pods_run_as_the_slice_has_and_the_first_by_name() -> None:
    scene = with_pods(2, "p-3", "p-1", "p-2")
    assert waiting(scene) == ["p-3"]
    found = scene.store.get(PODS, NS, "p-1")["spec"]
    assert found["schedulingGates"] == [{"name": "example.com/other"}]
    assert [one.reason for one in scene.decided(PodUngateDecided)] == [JobReason.SLICE_ADMITTED] * 2


def test_a_new_slice_lets_the_others_run_once_it_is_admitted() -> None:
    scene = with_pods(2, "p-1", "p-2", "p-3", "p-4", "p-5")
    assert waiting(scene) == ["p-3", "p-4", "p-5"]
    old, new = grown(scene, 4)
    assert waiting(scene) == ["p-3", "p-4", "p-5"]
    replace(scene, old, new)
    scene.settle()
    assert waiting(scene) == ["p-5"]
    # The first slice may be gone: its name is that of all.
    scene.store.delete(WORKLOADS, NS, meta(old)["name"])
    scene.store.delete(PODS, NS, "p-1", grace=0)
    scene.settle()
    assert waiting(scene) == []


def test_a_smaller_slice_lets_nobody_run_before_enough_have_ended() -> None:
    scene = with_pods(3, "p-1", "p-2", "p-3")
    resize(scene, 2)
    scene.create(pod("p-4", meta(scene.workload())["name"]), PODS)
    scene.settle()
    scene.store.delete(PODS, NS, "p-1", grace=0)
    scene.settle()
    assert waiting(scene) == ["p-4"]
    scene.store.delete(PODS, NS, "p-2", grace=0)
    scene.settle()
    assert waiting(scene) == []


def test_a_slice_that_waits_for_its_checks_lets_no_more_pods_run() -> None:
    scene = with_pods(2, "p-1", "p-2", "p-3")
    old, new = grown(scene, 3)
    scene.say(get(scene, new), QuotaReserved=(True, "QuotaReserved", ""))
    scene.say(get(scene, old), Finished=(True, "WorkloadSliceReplaced", ""))
    scene.settle()
    assert waiting(scene) == ["p-3"]


@pytest.mark.parametrize("lost", [False, True])
def test_pods_are_let_run_once_though_the_process_dies(*, lost: bool) -> None:
    scene = admitted(2)
    for one in scene.store.list(PODS)[0]:
        scene.store.delete(PODS, NS, meta(one)["name"], grace=0)
    for name in ("p-1", "p-2", "p-3"):
        scene.create(pod(name, meta(scene.workload())["name"]), PODS)
    scene.settle_through_crashes(lost=lost)
    assert waiting(scene) == ["p-3"]
