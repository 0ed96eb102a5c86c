"""The quota of a simulated Kueue: it is decided by the quota engine, and holds what the objects say."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    JOBSETS,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Json,
    meta,
)
from controlplane.simulation.kueue.common import Usage, holds_quota, usage_of, workload_name
from tests.simulation.kueue_cluster import Cluster, clone, is_true, says
from tests.support.deep import examples
from tests.support.rows import each

MULTIKUEUE, PROVISIONING = "kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"


def flavors(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.store.create(RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": {}})


def queue(cluster: Cluster, *given: tuple[str, str], name: str = "cluster-queue", **spec: Any) -> None:
    """Create a ClusterQueue of some flavors with so many CPUs, and enough memory."""
    offered = [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for flavor, cpu in given]
    memory = [{"name": "ram", "resources": [{"name": "memory", "nominalQuota": "64Gi"}]}]
    groups = [
        {"coveredResources": ["cpu"], "flavors": offered},
        {"coveredResources": ["memory"], "flavors": memory},
    ]
    body = {"metadata": {"name": name}, "spec": {"namespaceSelector": {}, "resourceGroups": groups, **spec}}
    cluster.store.create(CLUSTER_QUEUES, body)


def worker(*given: tuple[str, str], **spec: Any) -> Cluster:
    found = Cluster()
    flavors(found, "ram", *(name for name, _ in given))
    queue(found, *given, **spec)
    found.local_queue("user-queue")
    found.settle()
    return found


def arrive(cluster: Cluster, name: str, **options: Any) -> Json:
    cluster.store.create(WORKLOADS, clone(name, **options))
    cluster.move(1)
    return cluster.workload(name)


def given_to(workload: Json) -> str:
    return str(workload["status"]["admission"]["podSetAssignments"][0]["flavors"]["cpu"])


def held(cluster: Cluster) -> dict[str, Usage]:
    """What Workloads hold, by the objects alone."""
    found: dict[str, Usage] = {}
    for one in cluster.store.list(WORKLOADS)[0]:
        if holds_quota(one):
            sums = found.setdefault(one["status"]["admission"]["clusterQueue"], {})
            for place, amount in usage_of(one).items():
                sums[place] = sums.get(place, 0) + amount
    return found


def test_the_next_flavor_is_taken_when_the_first_is_full() -> None:
    cluster = worker(("spot", "2"), ("on-demand", "4"))
    found = [given_to(arrive(cluster, name, cpu="2")) for name in ("a", "b", "c")]
    assert found == ["spot", "on-demand", "on-demand"]
    text = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor on-demand, 2 more "
        "needed, insufficient unused quota for cpu in flavor spot, 2 more needed"
    )
    assert says(arrive(cluster, "d", cpu="2"), "QuotaReserved") == ("False", "Pending", text)


def test_a_queue_borrows_what_another_one_of_its_cohort_does_not_use_and_gives_it_back() -> None:
    cluster = worker(("spot", "2"), cohortName="all", preemption={"reclaimWithinCohort": "Any"})
    queue(cluster, ("spot", "2"), name="other", cohortName="all")
    cluster.store.create(COHORTS, {"metadata": {"name": "all"}, "spec": {}})
    cluster.local_queue("other", "other")
    cluster.settle()
    assert is_true(arrive(cluster, "borrows", cpu="4", queue="other"), "QuotaReserved")
    cluster.submit("borrows", prebuilt="borrows", cpu="4", queue="other")
    cluster.settle()
    status = cluster.store.get(CLUSTER_QUEUES, "", "other")["status"]
    (of_cpu,) = status["flavorsReservation"][0]["resources"]
    assert (of_cpu["total"], of_cpu["borrowed"]) == ("4", "2")
    arrive(cluster, "owns", cpu="2")
    assert says(cluster.workload("borrows"), "Preempted")[:2] == ("True", "InCohortReclamation")
    assert is_true(cluster.workload("owns"), "QuotaReserved")


def test_a_namespace_that_is_not_selected_gets_no_quota_until_it_is() -> None:
    cluster = worker(("spot", "2"), namespaceSelector={"matchLabels": {"team": "a"}})
    text = "workload namespace doesn't match ClusterQueue selector"
    assert says(arrive(cluster, "a"), "QuotaReserved")[2] == text
    cluster.store.patch(NAMESPACES, "", "default", {"metadata": {"labels": {"team": "a"}}})
    cluster.settle()
    assert is_true(cluster.workload("a"), "QuotaReserved")


def test_checks_may_be_for_some_flavors_only() -> None:
    checks = [{"name": "all"}, {"name": "spot-only", "onFlavors": ["spot"]}]
    cluster = worker(("spot", "2"), ("on-demand", "4"), admissionChecksStrategy={"admissionChecks": checks})
    for name in ("all", "spot-only"):
        cluster.store.create(ADMISSION_CHECKS, {"metadata": {"name": name}, "spec": {"controllerName": "example"}})
        cluster.activate(name)
    cluster.settle()

    def required(workload: Json) -> list[str]:
        return sorted(check["name"] for check in workload["status"]["admissionChecks"])

    assert required(arrive(cluster, "a", cpu="2")) == ["all", "spot-only"]
    assert required(arrive(cluster, "b", cpu="2")) == ["all"]


@each(
    ("checks", "reason"),
    [
        ({}, "Ready"),
        ({"a": None}, "AdmissionCheckNotFound"),
        ({"a": (MULTIKUEUE, False)}, "AdmissionCheckInactive"),
        ({"a": (MULTIKUEUE, True)}, "Ready"),
        ({"a": (MULTIKUEUE, True), "b": (MULTIKUEUE, True)}, "MultipleMultiKueueAdmissionChecks"),
        ({"a": (MULTIKUEUE, True), "b": (PROVISIONING, True)}, "MultiKueueWithProvisioningRequest"),
    ],
)
def test_when_a_cluster_queue_is_active(checks: dict[str, tuple[str, bool] | None], reason: str) -> None:
    named = [{"name": name} for name in checks]
    cluster = worker(("spot", "1"), admissionChecksStrategy={"admissionChecks": named})
    for name, one in checks.items():
        if one is not None:
            cluster.store.create(ADMISSION_CHECKS, {"metadata": {"name": name}, "spec": {"controllerName": one[0]}})
            cluster.activate(name, active=one[1])
    cluster.settle()
    said = says(cluster.store.get(CLUSTER_QUEUES, "", "cluster-queue"), "Active")
    assert said[:2] == (str(reason == "Ready"), reason)


def test_a_missing_flavor_keeps_a_queue_inactive_until_it_is_there() -> None:
    cluster = Cluster()
    flavors(cluster, "ram")
    queue(cluster, ("spot", "1"))
    cluster.settle()

    def said() -> tuple[str, str, str]:
        return says(cluster.store.get(CLUSTER_QUEUES, "", "cluster-queue"), "Active")

    text = "Can't admit new workloads: references missing ResourceFlavor(s): spot."
    assert said() == ("False", "FlavorNotFound", text)
    flavors(cluster, "spot")
    cluster.settle()
    assert said()[:2] == ("True", "Ready")


@settings(max_examples=examples(8, 25), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("aaidD"), st.integers(0, 5), st.integers(1, 4)), max_size=30))
def test_what_is_used_is_what_the_objects_hold_and_never_more_than_the_quota(steps: list[tuple[str, int, int]]) -> None:
    cluster = worker(("spot", "3"), ("on-demand", "3"), preemption={"withinClusterQueue": "LowerPriority"})
    for step, number, cpu in steps:
        name = f"w{number}"
        there = any(meta(one)["name"] == name for one in cluster.store.list(WORKLOADS)[0])
        if step == "a" and not there:
            arrive(cluster, name, cpu=str(cpu), priority=number % 2)
        elif step == "i" and there:
            cluster.kueue.deactivate("default", name)
        elif step == "d" and there:
            cluster.store.delete(WORKLOADS, "default", name)
        elif step == "D" and there:
            cluster.kueue.evict("default", name, "Test", "away")
        cluster.settle()
        quota = cluster.kueue.queues.quota
        used = {name: found for name, found in quota.used().items() if found}
        assert used == held(cluster)
        most = quota.nominal("cluster-queue")
        assert all(amount <= most[place] for found in used.values() for place, amount in found.items())


def test_workload_names() -> None:
    assert workload_name(JOBS, "a", "uid") == "job-a-5a678"
    assert workload_name(JOBSETS, "a", "uid") != workload_name(JOBS, "a", "uid").replace("job-", "jobset-")
    assert len(workload_name(JOBS, "x" * 300, "uid")) == 253
    assert len(workload_name(JOBS, "x" * 300, "uid", short=True)) == 63
