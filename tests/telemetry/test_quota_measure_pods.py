"""What the metrics say of gates of pods, and of Cohorts that were deleted."""

from __future__ import annotations

from controlplane.job_kinds.gated import KUEUE_GATE
from controlplane.kube import kinds
from controlplane.kube.topologies import TOPOLOGY_GATE
from tests.quota.admission.scene import Scene
from tests.telemetry.test_quota_measure import Meter


def test_it_is_measured_how_long_after_admission_gates_are_gone() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", "1")
    meter = Meter(scene).settle()
    for uid, kind, gates in (
        ("t", "placed", [TOPOLOGY_GATE, "mine"]),
        ("job-a", "pods", [KUEUE_GATE]),
        ("x", "pods", []),
    ):
        meter.pod(uid, kind, gates)
    scene.pass_time(3)
    for uid, kind in (("t", "placed"), ("t", "placed"), ("job-a", "pods"), ("x", "pods")):
        meter.pod(uid, kind, [])
    place = {"cluster_queue": "q", "is_group": "false"}
    for gate in (TOPOLOGY_GATE, KUEUE_GATE):
        name = "pod_scheduling_gate_removal_seconds"
        assert meter.read(f"{name}_count", name=gate, **place) == 1
        assert meter.read(f"{name}_sum", name=gate, **place) == 3
    assert meter.count("pod_scheduling_gate_removal_seconds_count") == 2


def test_a_deleted_cohort_that_queues_still_name_is_not_reported_before_something_changes_below_it() -> None:
    scene = Scene()
    scene.put(kinds.COHORTS, "team", spec={})
    scene.queue("q", "5", cohortName="team")
    scene.workload("a", "q", "1")
    meter = Meter(scene)
    tree = {"cohort": "team", "flavor": "default", "resource": "cpu"}
    meter.settle()
    assert (
        meter.read("cohort_subtree_quota", **tree),
        meter.read("cohort_info", cohort="team", parent_cohort="", root_cohort="team"),
    ) == (5, 1)
    scene.delete(kinds.COHORTS, "team")
    meter.settle()
    assert not meter.count("cohort_subtree_quota")
    assert not meter.count("cohort_subtree_admitted_active_workloads")
    assert meter.count("admitted_active_workloads", cluster_queue="q") == 1
    scene.finish("a")
    meter.settle()
    assert not meter.count("cohort_subtree_quota"), "it has its quota to the end"
    scene.workload("b", "q", "2")
    meter.settle()
    assert meter.read("cohort_subtree_quota", **tree) == 5
    scene.put(kinds.COHORTS, "team", spec={})
    scene.delete(kinds.COHORTS, "team")
    scene.queue("q", "6", cohortName="team")
    assert meter.settle().read("cohort_subtree_quota", **tree) == 6
