"""What the metrics say of quota under Kueue's names: a scene of admission, told event by event as the service folds
it."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from controlplane.app.measure import Measure
from controlplane.app.quota_measure import QuotaReport
from controlplane.controllers.quota.admission.pods_ready import WaitForPodsReady
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.kube import kinds
from controlplane.kube.slices import REPLACEMENT_FOR
from controlplane.quota_metrics import GAUGES
from controlplane.settings.quota_metrics import QuotaMetricsSettings
from controlplane.telemetry import Metrics
from tests.audit.script import Script
from tests.quota.admission.checks import answer, checked
from tests.quota.admission.scene import NS, Scene


class Meter:
    """A `Measure` beside a scene; `read` is what Prometheus would scrape."""

    def __init__(self, scene: Scene, *, local_queues: str = "yes", resources: str = "yes", leads: bool = True) -> None:
        self.scene, self.metrics, self._heard = scene, Metrics(), 0
        settings = QuotaMetricsSettings(cluster_queue_resources=resources, local_queues=local_queues)
        report = QuotaReport(self.metrics, scene.controller, settings)
        self.measure = Measure(self.metrics, Script("a").fleet, quota=report)
        self.hear(live=False)
        if leads:
            self.measure.leads(1)

    def hear(self, *, live: bool = True) -> Meter:
        """Hear what was recorded since."""
        new, self._heard = self.scene.log[self._heard :], len(self.scene.log)
        if new:
            self.measure.folded(new, live)
        return self

    def settle(self) -> Meter:
        self.scene.settle()
        return self.hear()

    def read(self, name: str, /, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"kueue_{name}", {**labels, "replica_role": "leader"})

    def count(self, name: str, /, **labels: str) -> float:
        """Return the sum of a metric's samples with some labels."""
        return sum(
            sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == f"kueue_{name}" and labels.items() <= sample.labels.items()
        )

    def named(self) -> set[str]:
        """Return the names of Kueue's metrics that have a sample."""
        return {
            family.name
            for family in self.metrics.registry.collect()
            if family.name.startswith("kueue_") and family.samples
        }


def test_a_workload_is_counted_on_its_way_by_both_of_its_queues() -> None:
    scene = Scene()
    scene.queue("q", "5", cohortName="team")
    meter = Meter(scene)
    scene.workload("a", "q", "2")
    scene.now += timedelta(seconds=3)
    meter.settle()
    scene.now += timedelta(seconds=40)
    scene.finish("a")
    meter.settle()
    local = {"name": "q", "namespace": NS, "priority_class": ""}
    cluster = {"cluster_queue": "q", "priority_class": ""}
    for name in ("quota_reserved_workloads_total", "admitted_workloads_total", "finished_workloads_total"):
        assert meter.read(name, **cluster) == 1, name
        assert meter.read(f"local_queue_{name}", **local) == 1, name
    for name, seconds in (("quota_reserved_wait_time", 3), ("admission_wait_time", 3), ("execution_time", 40)):
        assert meter.read(f"{name}_seconds_sum", **cluster) == seconds, name
        assert meter.read(f"local_queue_{name}_seconds_sum", **local) == seconds, name
    assert meter.read("cohort_subtree_admitted_workloads_total", cohort="team", priority_class="") == 1
    assert meter.read("admission_attempts_total", result="success") == 1
    assert meter.read("admission_checks_wait_time_seconds_count", **cluster) is None, "it has no checks"
    assert meter.read("finished_workloads", cluster_queue="q") == 1
    assert meter.read("local_queue_finished_workloads", name="q", namespace=NS) == 1


def test_a_workload_with_a_check_is_admitted_later() -> None:
    scene = Scene()
    checked(scene)
    meter = Meter(scene)
    scene.workload("a", "q", "2")
    meter.settle()
    cluster = {"cluster_queue": "q", "priority_class": ""}
    assert (meter.read("reserving_active_workloads", cluster_queue="q"), meter.count("admitted_workloads_total")) == (
        1,
        0,
    )
    assert meter.read("admitted_active_workloads", cluster_queue="q") == 0
    scene.now += timedelta(seconds=20)
    answer(scene, "a", "Ready")
    meter.hear()
    assert meter.read("admission_checks_wait_time_seconds_sum", **cluster) == 20
    assert meter.read("admitted_active_workloads", cluster_queue="q") == 1


def test_a_slice_is_counted_whose_place_another_one_took() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("old", "q", "3")
    scene.settle()
    meter = Meter(scene)
    scene.workload("new", "q", "5", annotations={REPLACEMENT_FOR: f"{NS}/old"})
    meter.settle()
    assert meter.read("replaced_workload_slices_total", cluster_queue="q") == 1
    scene.finish("new")
    meter.settle()
    assert meter.read("replaced_workload_slices_total", cluster_queue="q") == 1


def test_a_slice_that_ends_without_quota_is_counted_for_its_queue() -> None:
    """It is stopped before another one takes its place, so that its quota is gone by then; Kueue ends it while it has
    it."""
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("old", "q", "9")
    scene.settle()
    meter = Meter(scene)
    scene.set_condition("old", "Finished", "True", "WorkloadSliceReplaced")
    meter.settle()
    assert meter.read("finished_workloads_total", cluster_queue="q", priority_class="") == 1
    assert meter.read("local_queue_finished_workloads_total", name="q", namespace=NS, priority_class="") == 1


def test_a_preemption_is_counted_by_who_it_makes_room_for() -> None:
    scene = Scene()
    scene.put(kinds.WORKLOAD_PRIORITY_CLASSES, "low", value=0)
    scene.queue("q", "5", preemption={"withinClusterQueue": "LowerPriority"})
    scene.workload(
        "victim", "q", "5", priorityClassRef={"kind": "WorkloadPriorityClass", "group": "kueue.x-k8s.io", "name": "low"}
    )
    scene.settle()
    meter = Meter(scene)
    scene.workload("preemptor", "q", "5", priority=5)
    meter.settle()
    assert meter.read("preempted_workloads_total", preempting_cluster_queue="q", reason="InClusterQueue") == 1
    why = {"cluster_queue": "q", "reason": "Preempted", "underlying_cause": "", "priority_class": "low"}
    assert meter.read("evicted_workloads_total", **why) == meter.read("evicted_workloads_once_total", **why) == 1
    assert meter.count("local_queue_evicted_workloads_total", name="q", reason="Preempted") == 1
    scene.now += timedelta(seconds=7)
    scene.release("victim")
    meter.settle()
    assert meter.read("workload_eviction_latency_seconds_sum", cluster_queue="q", reason="Preempted") == 7
    assert meter.count("admission_attempts_total", result="inadmissible") >= 1
    pending = [meter.read("pending_workloads", cluster_queue="q", status=one) for one in ("active", "inadmissible")]
    assert sum(one or 0 for one in pending) == 1
    scene.finish("preemptor")
    meter.settle()
    scene.workload("again", "q", "5", priority=6)
    meter.settle()
    assert meter.read("evicted_workloads_total", **why) == 2
    assert meter.read("evicted_workloads_once_total", **why) == 1, "it was evicted for that before"


def test_pods_that_are_not_ready_in_time_are_counted_with_the_cause() -> None:
    scene = Scene(pods_ready=WaitForPodsReady(timedelta(minutes=5), None, None, 60, 3600))
    scene.queue("q", "5")
    meter = Meter(scene)
    for name in ("a", "b"):
        scene.workload(name, "q", "1")
    meter.settle()
    scene.now += timedelta(seconds=30)
    scene.set_condition("b", "PodsReady", "True", "Started")
    meter.settle()
    cluster = {"cluster_queue": "q", "priority_class": ""}
    assert meter.read("ready_wait_time_seconds_sum", **cluster) == 30
    assert meter.read("admitted_until_ready_wait_time_seconds_sum", **cluster) == 30
    scene.pass_time(300)
    meter.hear()
    why = {"cluster_queue": "q", "reason": "PodsReadyTimeout", "underlying_cause": "WaitForStart"}
    assert meter.count("evicted_workloads_total", **why) == 1
    assert meter.count("pods_ready_to_evicted_time_seconds_count") == 0, "its pods were never ready"


def test_gauges_of_resources_are_in_units_of_kueue() -> None:
    scene = Scene(fair_sharing=True)
    scene.queue("mine", "3", cohortName="team")
    scene.queue("other", "5", cohortName="team")
    scene.workload("a", "mine", "4500m")
    scene.settle()
    scene.workload("waits", "mine", "20")
    meter = Meter(scene).settle()
    place = {"cohort": "team", "cluster_queue": "mine", "flavor": "default", "resource": "cpu"}
    assert meter.read("cluster_queue_nominal_quota", **place) == 3
    assert meter.read("cluster_queue_borrowing_limit", **place) == math.inf
    assert meter.read("cluster_queue_resource_reservation", **place) == 4.5
    assert meter.read("cluster_queue_resource_usage", **place) == 4.5
    assert meter.read("cluster_queue_resource_pending", cluster_queue="mine", resource="cpu") == 20
    assert meter.read("cluster_queue_weighted_share", cluster_queue="mine", cohort="team") == 187.5
    tree = {"cohort": "team", "flavor": "default", "resource": "cpu"}
    assert (meter.read("cohort_subtree_quota", **tree), meter.read("cohort_subtree_resource_reservations", **tree)) == (
        8,
        4.5,
    )
    assert meter.read("cluster_queue_info", cluster_queue="mine", parent_cohort="team", root_cohort="team") == 1
    assert meter.read("cohort_info", cohort="team", parent_cohort="", root_cohort="team") == 1
    own = {"name": "mine", "namespace": NS, "flavor": "default", "resource": "cpu"}
    assert (
        meter.read("local_queue_resource_reservation", **own) == meter.read("local_queue_resource_usage", **own) == 4.5
    )


def test_who_waits_is_counted_once_where_the_scheduler_sees_no_difference() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.put(kinds.LOCAL_QUEUES, "other", NS, spec={"clusterQueue": "q"})
    meter = Meter(scene)
    for number in range(4):
        scene.workload(f"a-{number}", "q" if number % 2 else "other", "6")
    scene.workload("b", "q", "7")
    scene.workload("fits", "q", "1")
    meter.settle()

    def hashes() -> list[float | None]:
        return [
            meter.read("pending_scheduling_hashes", cluster_queue="q", status=one) for one in ("active", "inadmissible")
        ]

    assert meter.read("pending_workloads", cluster_queue="q", status="inadmissible") == 5
    assert hashes() == [0, 2]
    scene.queue("q", "5", stopPolicy="Hold")
    scene.workload("c", "q", "1")
    meter.settle()
    assert hashes() == [0, 3]


def test_a_stopped_queue_is_pending_and_all_that_wait_are_inadmissible() -> None:
    scene = Scene()
    scene.queue("q", "5")
    meter = Meter(scene)
    scene.queue("q", "5", stopPolicy="Hold")
    scene.workload("a", "q", "1")
    meter.settle()
    assert [meter.read("cluster_queue_status", cluster_queue="q", status=one) for one in ("pending", "active")] == [
        1,
        0,
    ]
    assert meter.read("pending_workloads", cluster_queue="q", status="inadmissible") == 1
    assert meter.read("local_queue_pending_workloads", name="q", namespace=NS, status="inadmissible") == 1
    assert meter.read("local_queue_status", name="q", namespace=NS, active="False") == 1


def test_who_is_not_admitted_is_counted_by_why() -> None:
    scene = Scene()
    checked(scene, cpu="5")
    meter = Meter(scene)
    for name in "ab":
        scene.workload(name, "q", "5")
        meter.settle()
    scene.workload("lost", "nowhere", "1")
    meter.settle()
    by_check, by_quota = ("UnsatisfiedAdmissionChecks", ""), ("NoReservation", "WaitingForQuota")
    assert (unadmitted(meter, by_check), unadmitted(meter, by_quota)) == ((1, 1), (1, 1))
    answer(scene, "a", "Ready")
    meter.hear()
    assert (unadmitted(meter, by_check), unadmitted(meter, by_quota)) == ((None, None), (1, 1))
    scene.finish("a")
    meter.settle()
    assert (unadmitted(meter, by_check), unadmitted(meter, by_quota)) == ((1, 1), (None, None)), (
        "the other one has quota"
    )
    assert meter.count("unadmitted_workloads") == 1, (
        "nobody knows the ClusterQueue of one whose LocalQueue is not there"
    )


def test_who_was_not_tried_yet_is_pending_evaluation() -> None:
    scene = Scene()
    scene.queue("q", "5")
    meter = Meter(scene)
    scene.workload("a", "q", "5")
    meter.hear()
    assert unadmitted(meter, ("NoReservation", "PendingEvaluation")) == (1, 1)


def unadmitted(meter: Meter, why: tuple[str, str]) -> tuple[float | None, float | None]:
    """Return how many are not admitted for a reason and its cause: of the ClusterQueue, and of its LocalQueue."""
    labels = {"cluster_queue": "q", "reason": why[0], "underlying_cause": why[1]}
    of_local = meter.read("local_queue_unadmitted_workloads", name="q", namespace=NS, **labels)
    return meter.read("unadmitted_workloads", **labels), of_local


def test_what_is_gone_is_not_reported_any_more() -> None:
    scene = Scene()
    scene.queue("q", "5", cohortName="team")
    meter = Meter(scene)
    scene.workload("a", "q", "1")
    meter.settle()
    assert meter.count("admitted_workloads_total", cluster_queue="q") == 1
    scene.drop((kinds.WORKLOADS, NS, "a"))
    meter.settle()
    scene.drop((kinds.LOCAL_QUEUES, NS, "q"))
    scene.drop((kinds.CLUSTER_QUEUES, "", "q"))
    meter.settle()
    assert not meter.count("cohort_subtree_admitted_workloads_total"), "nothing names the Cohort any more"
    left = [
        sample
        for family in meter.metrics.registry.collect()
        if family.name.startswith("kueue_")
        for sample in family.samples
        if "q" in sample.labels.values()
    ]
    assert not left


def test_only_who_leads_reports_and_counts_what_happens_then() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("before", "q", "1")
    scene.settle()
    meter = Meter(scene, leads=False)
    assert not meter.named()
    meter.measure.leads(1)
    assert (meter.count("admitted_workloads_total"), meter.read("admitted_active_workloads", cluster_queue="q")) == (
        0,
        1,
    )
    scene.workload("after", "q", "1")
    meter.settle()
    assert (meter.count("admitted_workloads_total"), meter.read("admitted_active_workloads", cluster_queue="q")) == (
        1,
        2,
    )
    meter.measure.follows()
    assert not any(f"kueue_{name}" in meter.named() for name in GAUGES)
    meter.measure.leads(2)
    assert meter.read("admitted_active_workloads", cluster_queue="q") == 2


@pytest.mark.parametrize(("local_queues", "resources"), [("no", "yes"), ("yes", "no")])
def test_what_is_not_asked_for_is_not_there(local_queues: str, resources: str) -> None:
    scene = Scene(past_usage=AdmissionFairSharing(3600))
    scene.queue("q", "5", cohortName="team")
    meter = Meter(scene, local_queues=local_queues, resources=resources)
    scene.workload("a", "q", "1")
    meter.settle()
    scene.finish("a")
    meter.settle()
    by_local = {name for name in meter.named() if name.startswith("kueue_local_queue_")}
    by_resource = {"kueue_cluster_queue_nominal_quota", "kueue_cluster_queue_resource_usage"} & meter.named()
    assert bool(by_local) is (local_queues == "yes")
    assert bool(by_resource) is (resources == "yes")
    if local_queues == "yes":
        assert (
            meter.read("local_queue_admission_fair_sharing_usage", name="q", namespace=NS, cluster_queue="q")
            is not None
        )


def test_every_gauge_has_the_labels_that_the_reference_names() -> None:
    scene = Scene(fair_sharing=True, past_usage=AdmissionFairSharing(3600))
    scene.queue("q", "5", cohortName="team")
    meter = Meter(scene)
    scene.workload("a", "q", "1")
    scene.workload("waits", "q", "5")
    meter.settle()
    table = {name: labels for name, _, labels, _ in meter.metrics.table}
    found = {family.name: family for family in meter.metrics.registry.collect()}
    for name in GAUGES:
        family = found[f"kueue_{name}"]
        assert all(tuple(sample.labels) == table[family.name] for sample in family.samples), name
