"""What an API server takes and nobody expects: amounts beyond 64 bits, moments at the end of time, a gate on a Workload
that something else is in the way of."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.quota.admission.pods_ready import WaitForPodsReady
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.kube.quantities import nanos
from tests.quota.admission.placed import RACK, places, with_topology
from tests.quota.admission.scene import NS, Scene
from tests.support.rows import each

AT_THE_END = "9999-12-31T23:59:59Z"


@each("cpu", ["1E", "9223372036854775807", "9223372036854775.807"])
def test_amounts_beyond_64_bits_are_written_as_quantities(cpu: str) -> None:
    scene = Scene()
    scene.queue("q", cpu)
    scene.queue("small", "1", cohortName="all")
    scene.workload("w", "q", cpu)
    scene.workload("waits", "small", cpu)
    scene.settle()
    assert scene.is_true("w", "Admitted")
    (given,) = scene.status("w")["admission"]["podSetAssignments"]
    (asked,) = scene.status("waits")["resourceRequests"]
    (used,) = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["status"]["flavorsUsage"]
    (local,) = scene.objects[kinds.LOCAL_QUEUES, NS, "q"]["status"]["flavorsReservation"]
    said = [given["resourceUsage"]["cpu"], asked["resources"]["cpu"], used["resources"][0]["total"]]
    for quantity in (*said, local["resources"][0]["total"]):
        assert quantity == "9223372036854775807m"  # as Kueue writes it
        assert nanos(quantity)
    message = scene.condition("waits", "QuotaReserved")["message"]
    assert message.endswith("current podset request (9223372036854775807m) > maximum capacity (1)")


@each("what", ["AdmissionCheck", "Admitted", "Finished", "PodsReady"])
def test_a_moment_after_which_there_is_none(what: str) -> None:
    waiting = WaitForPodsReady(timedelta(minutes=5), timedelta(minutes=5))
    scene = Scene(pods_ready=waiting, after_finished=timedelta(hours=1))
    strategy = {"admissionChecks": [{"name": "check"}]} if what == "AdmissionCheck" else {}
    scene.put(kinds.ADMISSION_CHECKS, "check", spec={"controllerName": "theirs"})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": AT_THE_END}
    scene.put(kinds.ADMISSION_CHECKS, "check", status={"conditions": [active]})
    scene.queue("q", "4", admissionChecksStrategy=strategy)
    scene.workload("w", "q", maximumExecutionTimeSeconds=2**31 - 1)
    scene.settle()
    status = scene.status("w")
    if what == "AdmissionCheck":
        check = {"name": "check", "message": "", "lastTransitionTime": AT_THE_END, "requeueAfterSeconds": 2**31 - 1}
        status = {**status, "admissionChecks": [{**check, "state": "Retry"}]}
    else:
        if what == "PodsReady":
            scene.set_condition("w", what, "False", "WaitForRecovery")
        elif what == "Finished":
            scene.finish("w")
        conditions = scene.status("w")["conditions"]
        moved = [{**one, "lastTransitionTime": AT_THE_END} if one["type"] == what else one for one in conditions]
        status = {**scene.status("w"), "conditions": moved}
    scene.put(kinds.WORKLOADS, "w", NS, status=status)
    scene.settle()
    scene.pass_time(3600)


@pytest.mark.parametrize("what", ["inactive", "stopped", "no queue", "on hold"])
def test_a_gate_is_not_told_in_turns_with_what_is_in_the_way(what: str) -> None:
    """Kueue writes both conditions in turns, for as long as both hold."""
    scene = Scene()
    scene.queue("q", "4", stopPolicy="Hold" if what == "stopped" else "None")
    queue = "none" if what == "no queue" else "q"
    gate = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    scene.workload("w", queue, annotations=gate, active=what != "inactive")
    if what == "on hold":
        scene.set_condition("w", "QuotaReserved", "False", "OnHold")
    scene.settle()
    reason = {"inactive": "Deactivated", "stopped": "Suspended", "no queue": "Misconfigured", "on hold": "OnHold"}
    assert scene.condition("w", "QuotaReserved")["reason"] == reason[what]
    if what == "stopped":
        scene.queue("q", "4")
        scene.settle()
        assert scene.condition("w", "QuotaReserved")["reason"] == "AdmissionGated"
        assert not scene.is_true("w", "Admitted")
        scene.put(kinds.WORKLOADS, "w", NS, metadata={"annotations": {}})
        scene.settle()
        assert scene.is_true("w", "Admitted")


@pytest.mark.parametrize("way", ["inactive", "stopped"])
def test_a_gate_on_one_that_has_quota_takes_it_away_whatever_else_is_in_the_way(way: str) -> None:
    scene = Scene()
    scene.put(kinds.ADMISSION_CHECKS, "check", spec={"controllerName": "theirs"})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": AT_THE_END}
    scene.put(kinds.ADMISSION_CHECKS, "check", status={"conditions": [active]})
    scene.queue("q", "4", admissionChecksStrategy={"admissionChecks": [{"name": "check"}]})
    scene.workload("w", "q")
    scene.settle()
    assert scene.is_true("w", "QuotaReserved")
    spec = {**scene.of("w")["spec"], "active": way != "inactive"}
    if way == "stopped":
        scene.queue("q", "4", stopPolicy="Hold")
    gate = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    scene.put(kinds.WORKLOADS, "w", NS, spec=spec, metadata={"annotations": gate})
    scene.settle()
    assert not scene.is_true("w", "QuotaReserved")


def test_the_ledger_closes_what_is_beyond_64_bits() -> None:
    scene = Scene()
    scene.queue("q", "1E")
    scene.workload("w", "q", "1E")
    scene.settle()
    assert scene.is_true("w", "Admitted")
    scene.finish("w")
    scene.settle()
    assert not any(amount for of in scene.posted().values() for amount in of.values())
    assert scene.controller.index.workload(f"{NS}/w").posted.amounts == {}


def test_a_status_tells_of_as_many_flavors_as_it_may() -> None:
    """An API server takes 64 of them in a status, and 16 groups of 64 in a spec."""
    scene = Scene()
    names = [f"flavor-{number}" for number in range(80)]
    for name in names:
        scene.put(kinds.RESOURCE_FLAVORS, name, spec={})
    groups = [
        {"coveredResources": [resource], "flavors": [flavor_of(resource, name) for name in of]}
        for resource, of in (("cpu", names[:40]), ("memory", names[40:]))
    ]
    scene.queue("q", resourceGroups=groups)
    scene.settle()
    for kind, namespace in ((kinds.CLUSTER_QUEUES, ""), (kinds.LOCAL_QUEUES, NS)):
        status = scene.objects[kind, namespace, "q"]["status"]
        for field in ("flavorsReservation", "flavorsUsage"):
            assert [one["name"] for one in status[field]] == names[:64]


def flavor_of(resource: str, name: str) -> Json:
    return {"name": name, "resources": [{"name": resource, "nominalQuota": "1"}]}


def test_what_caused_an_eviction_is_counted_by_what_a_status_has_room_for() -> None:
    scene = Scene()
    scene.queue("q")
    scene.workload("w", "q")
    scene.settle()
    scene.set_condition("w", "DeactivationTarget", reason="R" * 1020)
    scene.settle()
    (counted,) = scene.status("w")["schedulingStats"]["evictions"]
    assert counted == {"reason": "Deactivated", "underlyingCause": "R" * 316, "count": 1}
    assert len(scene.condition("w", "Evicted")["reason"]) == 1024


@each("weight", ["0", "1n"])
def test_a_share_beyond_64_bits_is_the_largest_one(weight: str) -> None:
    """An API server takes no other number, and nothing of the status with it."""
    scene = Scene(fair_sharing=True)
    scene.queue("q", "0", cohortName="all", fairSharing={"weight": weight})
    scene.queue("lender", "1E", cohortName="all")
    scene.workload("w", "q", "9000000000000000")
    scene.settle()
    scene.queue("lender", "1", cohortName="all")
    scene.settle()
    scene.pass_time(5)
    status = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["status"]
    assert status["fairSharing"] == {"weightedShare": 2**63 - 1}


@each("what", ["8Ei", "9223372036854775807"])
def test_what_a_pod_asked_for_beyond_64_bits_is_given_back_with_it(what: str) -> None:
    """Whoever may make pods may name a node for them, and ask for any memory there."""
    scene = with_topology(("n1", "r1", "4"))
    memory = [{"name": "cpu", "nominalQuota": "9"}, {"name": "memory", "nominalQuota": "9Gi"}]
    of = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "gpu", "resources": memory}]}
    scene.queue("q", resourceGroups=[of])
    status = scene.objects[kinds.NODES, "", "n1"]["status"]
    scene.put(kinds.NODES, "n1", status={**status, "allocatable": {**status["allocatable"], "memory": "8Gi"}})
    for name, asked in (("stays", "1Gi"), ("huge", what)):
        spec = {"containers": [{"name": "c", "resources": {"requests": {"memory": asked}}}], "nodeName": "n1"}
        scene.put(kinds.PODS_OF_TOPOLOGIES, name, NS, spec=spec, status={"phase": "Pending"})
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "7Gi"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    scene.workload("w", "q", podSets=[{**pod_set, "topologyRequest": {"required": RACK}}])
    scene.settle()
    assert not scene.is_true("w", "QuotaReserved")
    scene.drop((kinds.PODS_OF_TOPOLOGIES, NS, "huge"))
    scene.pass_time(15)
    assert scene.is_true("w", "Admitted")
    assert places(scene, "w") == {"n1": 1}


@each("ends", ["huge", "small"])
def test_usage_beyond_64_bits_is_what_is_left_once_less_is_used(ends: str) -> None:
    scene = Scene()
    scene.queue("q", "1E", cohortName="all")
    scene.queue("other", "0", cohortName="all")
    scene.workload("small", "q", "3")
    scene.workload("borrows", "other", "2")
    scene.settle()
    scene.workload("huge", "q", "9223372036854775807")
    scene.settle()
    assert all(scene.is_true(name, "Admitted") for name in ("huge", "small", "borrows"))
    scene.finish(ends)
    scene.settle()
    scene.finish({"huge": "small", "small": "huge"}[ends])
    scene.workload("last", "q", "3")
    scene.settle()
    scene.pass_time(2)
    (used,) = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["status"]["flavorsUsage"]
    assert used["resources"][0]["total"] == "3"
    usage = scene.controller.index.engine.snapshot.queues["q"].root().usage
    assert usage == {("default", "cpu"): 5000}
    scene.queue("q", "6", cohortName="all")
    scene.workload("more", "q", "2")
    scene.settle()
    assert not scene.is_true("more", "Admitted"), "3 and 2 are used of 6"
