"""What the metrics say of Cohorts that were deleted."""

from __future__ import annotations

from controlplane.kube import kinds
from tests.quota.admission.scene import Scene
from tests.telemetry.test_quota_measure import Meter


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
