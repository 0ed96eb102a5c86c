"""The custom labels of Kueue's metrics: what each metric has, and what becomes of it when an object's labels change."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.quota.admission.metric_labels import MetricLabels
from controlplane.custom_labels import UNTRACKED, CustomLabels
from controlplane.kube import kinds
from controlplane.kube.selectors import parse_selector
from controlplane.quota_metrics import GAUGES, label_sources
from controlplane.settings.custom_metric_labels import CustomLabel
from controlplane.telemetry import Metrics
from tests.quota.admission.scene import NS, Scene
from tests.telemetry.test_quota_measure import Meter

QUEUE = CustomLabel("team", "ClusterQueue", "team")
LOCAL = CustomLabel("lq", "LocalQueue", "team")
COHORT = CustomLabel("note", "Cohort", "", "note")
SORT = CustomLabel("sort", "Workload", "sort", "", ("train", "serve"))


def labelled(*rules: CustomLabel, select: str = "", **settings: Any) -> Scene:
    return Scene(labels=MetricLabels(CustomLabels(rules), parse_selector(select)), **settings)


def queue(scene: Scene, name: str = "q", cpu: str = "5", **spec: Any) -> None:
    """A ClusterQueue and a LocalQueue, both of the team `a`."""
    scene.queue(name, cpu, **spec)
    label(scene, "a", name)


def label(scene: Scene, team: str, name: str = "q", *, of: tuple[str, ...] = ("cluster", "local")) -> None:
    if "cluster" in of:
        scene.put(kinds.CLUSTER_QUEUES, name, metadata={"labels": {"team": team}})
    if "local" in of:
        scene.put(kinds.LOCAL_QUEUES, name, NS, metadata={"labels": {"team": team}})


def samples(meter: Meter, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by its custom labels."""
    found: dict[tuple[str, ...], float] = {}
    for family in meter.metrics.registry.collect():
        for sample in family.samples:
            if sample.name == f"kueue_{name}":
                custom = tuple(value for key, value in sample.labels.items() if key.startswith("custom_"))
                found[custom] = found.get(custom, 0) + sample.value
    return found


def test_each_metric_has_the_labels_of_the_objects_that_it_is_about() -> None:
    scene = labelled(QUEUE, LOCAL, COHORT, SORT)
    scene.put(kinds.COHORTS, "c", spec={}, metadata={"annotations": {"note": "n"}})
    queue(scene, cohortName="c", preemption={"withinClusterQueue": "LowerPriority"})
    meter = Meter(scene)
    scene.workload("a", "q", "5", labels={"sort": "train"})
    meter.settle()
    scene.workload("b", "q", "5", priority=5, labels={"sort": "else"})
    meter.settle()
    scene.release("a")
    meter.settle()
    by_name: dict[str, set[tuple[str, ...]]] = {}
    for family in meter.metrics.registry.collect():
        for sample in family.samples:
            if sample.name.startswith("kueue_"):
                name = family.name.removeprefix("kueue_") + ("_total" if family.type == "counter" else "")
                by_name.setdefault(name, set()).add(tuple(one for one in sample.labels if one.startswith("custom_")))
    names = {
        "ClusterQueue": "custom_team",
        "LocalQueue": "custom_lq",
        "Cohort": "custom_note",
        "Workload": "custom_sort",
    }
    assert len(by_name) > 25
    for name, found in by_name.items():
        kinds_of = () if name == "admission_attempts_total" else label_sources(name)
        assert found == {tuple(names[kind] for kind in kinds_of)}, name
    assert samples(meter, "preempted_workloads_total") == {("a",): 1}
    assert samples(meter, "local_queue_admitted_workloads_total") == {("a", "train"): 1, ("a", UNTRACKED): 1}
    assert samples(meter, "cohort_subtree_admitted_workloads_total") == {("n",): 2}
    assert samples(meter, "admitted_active_workloads") == {("a", UNTRACKED): 1}
    assert samples(meter, "pending_workloads") == {("a", "train"): 1}, "only what is there is counted by Workload"


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("pending_workloads", ("ClusterQueue", "Workload")),
        ("local_queue_pending_workloads", ("LocalQueue",)),
        ("admitted_workloads_total", ("ClusterQueue",)),
        ("local_queue_admitted_workloads_total", ("LocalQueue", "Workload")),
        ("local_queue_admission_wait_time_seconds", ("LocalQueue", "Workload")),
        ("local_queue_unadmitted_workloads", ("LocalQueue",)),
        ("local_queue_admission_fair_sharing_usage", ("LocalQueue",)),
        ("cohort_info", ("Cohort",)),
        ("cluster_queue_nominal_quota", ("ClusterQueue",)),
        ("cohort_subtree_admitted_active_workloads", ("ClusterQueue",)),
        ("preempted_workloads_total", ("ClusterQueue",)),
    ],
)
def test_which_objects_a_metric_is_about(name: str, sources: tuple[str, ...]) -> None:
    assert label_sources(name) == sources


def test_the_gauges_of_a_queue_follow_its_labels_and_its_counters_begin_anew() -> None:
    scene = labelled(QUEUE, LOCAL, COHORT)
    scene.put(kinds.COHORTS, "c", spec={}, metadata={"annotations": {"note": "n"}})
    queue(scene, cohortName="c")
    meter = Meter(scene)
    scene.workload("a", "q", "5")
    meter.settle()
    both = ("reserving_active_workloads", "admitted_workloads_total")
    local = ("local_queue_reserving_active_workloads", "local_queue_admitted_workloads_total")
    assert [samples(meter, one) for one in (*both, *local)] == [{("a",): 1}] * 4
    label(scene, "b", of=("cluster",))
    meter.settle()
    assert [samples(meter, one) for one in both] == [{("b",): 1}, {}]
    assert [samples(meter, one) for one in local] == [{("a",): 1}] * 2, "the LocalQueue has not changed"
    label(scene, "b", of=("local",))
    meter.settle()
    assert [samples(meter, one) for one in local] == [{("b",): 1}, {}]
    scene.put(kinds.COHORTS, "c", metadata={"annotations": {"note": "m"}})
    meter.settle()
    assert samples(meter, "cohort_info") == {("m",): 1}
    assert samples(meter, "cohort_subtree_admitted_workloads_total") == {("n",): 1}, "as with Kueue it goes on"


def test_what_is_below_a_cohort_is_counted_by_the_labels_of_its_queues() -> None:
    scene = labelled(QUEUE)
    queue(scene, "q", cohortName="c")
    queue(scene, "p", cohortName="c")
    label(scene, "b", "p")
    meter = Meter(scene)
    for name, at in (("a", "q"), ("b", "p"), ("c", "p")):
        scene.workload(name, at, "1")
    meter.settle()
    assert samples(meter, "cohort_subtree_admitted_active_workloads") == {("a",): 1, ("b",): 2}
    assert samples(meter, "cohort_info") == {(): 1}


def test_a_workload_whose_labels_change_is_counted_by_what_it_says_now() -> None:
    scene = labelled(SORT)
    queue(scene)
    meter = Meter(scene)
    scene.workload("a", "q", "1", labels={"sort": "train"})
    meter.settle()
    assert samples(meter, "admitted_active_workloads") == {("train",): 1}
    scene.put(kinds.WORKLOADS, "a", NS, metadata={"labels": {"sort": "serve"}})
    meter.settle()
    assert samples(meter, "admitted_active_workloads") == {("serve",): 1}
    assert samples(meter, "local_queue_admitted_workloads_total") == {("train",): 1}
    scene.finish("a")
    meter.settle()
    assert samples(meter, "admitted_active_workloads") == {}


def test_what_is_gone_is_forgotten_and_another_one_of_its_name_is_not() -> None:
    scene = labelled(QUEUE)
    queue(scene)
    meter = Meter(scene)
    uid = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["metadata"]["uid"]
    labels = scene.controller.labels
    assert labels.of(kinds.CLUSTER_QUEUES, "", "q") == ("a",)
    scene.delete(kinds.CLUSTER_QUEUES, "q")
    scene.drop((kinds.CLUSTER_QUEUES, "", "q")) if (kinds.CLUSTER_QUEUES, "", "q") in scene.objects else None
    assert labels.of(kinds.CLUSTER_QUEUES, "", "q") == ("",)
    queue(scene)
    assert scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["metadata"]["uid"] != uid
    labels.fold(next(one for one in scene.log if type(one.event).__name__ == "AdmissionClusterQueueGone"))
    assert samples(meter.settle(), "cluster_queue_info") == {("a",): 1}


def test_a_process_reports_nothing_before_it_has_been_shown_what_there_is() -> None:
    """The labels are not in the log: another process knows them once the cluster has been listed."""
    scene = labelled(QUEUE)
    queue(scene)
    scene.workload("a", "q", "1")
    scene.settle()
    before = scene.controller
    scene.controller = labelled(QUEUE).controller
    for recorded in scene.log:
        scene.controller.fold(recorded)
    meter = Meter(scene)
    scene.finish("a")
    meter.hear()
    assert samples(meter, "cluster_queue_info") == samples(meter, "finished_workloads_total") == {}
    scene.show(kinds.CLUSTER_QUEUES, scene.objects[kinds.CLUSTER_QUEUES, "", "q"])
    meter.hear()
    assert samples(meter, "cluster_queue_info") == {("a",): 1}
    assert samples(meter, "finished_workloads_total") == {("a",): 1}, "what happened meanwhile is counted"
    assert before.labels.of(kinds.CLUSTER_QUEUES, "", "q") == ("a",)


def test_of_local_queues_those_are_reported_that_are_selected() -> None:
    scene = labelled(select="team=a")
    queue(scene, "q")
    queue(scene, "p")
    label(scene, "b", "p")
    meter = Meter(scene)
    for name, at in (("a", "q"), ("b", "p")):
        scene.workload(name, at, "1")
        scene.workload(f"{name}-2", at, "9")
    meter.settle()
    local = [name for name in GAUGES if name.startswith("local_queue_") and "fair_sharing" not in name]
    for name in (*local, "local_queue_admitted_workloads_total"):
        assert (meter.count(name, name="q") > 0 or "finished" in name, meter.count(name, name="p")) == (True, 0), name
    assert meter.count("admitted_workloads_total", cluster_queue="p") == 1
    label(scene, "b", "q", of=("local",))
    label(scene, "a", "p", of=("local",))
    meter.settle()
    assert (
        meter.count("local_queue_admitted_active_workloads", name="p"),
        meter.count("local_queue_status", name="q"),
    ) == (1, 0)
    assert meter.count("local_queue_admitted_workloads_total") == 0, "who is not selected any more has no counters"


def test_without_rules_the_metrics_are_as_they_are_in_the_reference() -> None:
    metrics, table = Metrics(), Metrics().table
    metrics.quota.label(metrics.registry, CustomLabels((QUEUE,)))
    assert metrics.table == table
    metrics.quota.evicted_once.labels("q", "r", "", "", "leader", "a").inc()
    metrics.quota.label(metrics.registry, CustomLabels())
    metrics.quota.evicted_once.labels("q", "r", "", "", "leader").inc()
