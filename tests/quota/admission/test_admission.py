"""Quota is reserved, waited for, preempted and released; admissions follow from checks."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.kube import kinds
from controlplane.kube.kinds import Request
from controlplane.kube.requests import timestamp
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import WriteRefusal
from tests.quota.admission.checks import CHECK, answer, checked
from tests.quota.admission.scene import NS, Scene, quota

LOWER = {"withinClusterQueue": "LowerPriority"}


def test_quota_is_reserved_and_the_workload_admitted_at_once() -> None:
    scene = Scene()
    scene.queue("q", "10")
    scene.workload("a", "q", "2", count=3)
    scene.settle()
    assert scene.status("a")["admission"] == {
        "clusterQueue": "q",
        "podSetAssignments": [
            {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "6"}, "count": 3}
        ],
    }
    reserved, admitted = scene.condition("a", "QuotaReserved"), scene.condition("a", "Admitted")
    assert (reserved["reason"], reserved["message"]) == ("QuotaReserved", "Quota reserved in ClusterQueue q")
    assert (admitted["reason"], admitted["message"]) == ("Admitted", "The workload is admitted")
    (decision,) = scene.said(events.QuotaReservationDecided, "a")
    assert (decision.amounts, decision.borrowed) == ({"default": {"cpu": 6000}}, {})


def test_what_is_borrowed_is_in_the_ledger() -> None:
    scene = Scene()
    scene.queue("q", "2", cohortName="all")
    scene.queue("other", "8", cohortName="all")
    scene.workload("a", "q", "5")
    scene.settle()
    (decision,) = scene.said(events.QuotaReservationDecided, "a")
    assert decision.borrowed == {"default": {"cpu": 3000}}
    usage = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["status"]["flavorsReservation"]
    assert usage == [{"name": "default", "resources": [{"name": "cpu", "total": "5", "borrowed": "3"}]}]


def test_who_does_not_fit_waits_and_is_admitted_when_quota_is_released() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", "3")
    scene.settle()
    scene.workload("b", "q", "4")
    scene.settle()
    waits = scene.condition("b", "QuotaReserved")
    assert (waits["status"], waits["reason"]) == ("False", "WaitingForQuota")
    assert "insufficient unused quota for cpu in flavor default, 2 more needed" in waits["message"]
    assert scene.status("b")["resourceRequests"] == [{"name": "main", "resources": {"cpu": "4"}}]
    scene.finish("a")
    scene.settle()
    assert scene.is_true("b", "Admitted")
    assert "resourceRequests" not in scene.status("b")
    (released,) = scene.said(events.QuotaPosted, "a")
    assert (released.reason, released.amounts) == (R.WORKLOAD_FINISHED, {"default": {"cpu": -3000}})


def test_a_pass_with_nothing_to_do_writes_nothing() -> None:
    scene = Scene()
    scene.queue("q", "5", queueingStrategy="StrictFIFO")
    for name in "abc":
        scene.workload(name, "q", "3")
    scene.settle()
    scene.pass_time(2)  # counts are written once a second
    before = len(scene.log)
    scene.controller.index.all_dirty()
    scene.settle()
    scene.pass_time(3600)
    assert len(scene.log) == before


def test_one_that_is_tried_from_another_flavor_each_time_comes_to_rest() -> None:
    """The head of a StrictFIFO queue is tried at once again, its first pod set in the next flavor, so that what is
    missing is another thing each time. Kueue goes round; here each is said once."""
    scene = Scene()
    scene.put(kinds.RESOURCE_FLAVORS, "spot", spec={})
    groups = quota("2")
    groups["flavors"] += quota("2", "spot")["flavors"]
    scene.queue("q", queueingStrategy="StrictFIFO", resourceGroups=[groups])
    for name in ("stays", "goes", "stays-in-spot"):
        scene.workload(name, "q", "1")
        scene.settle()
    scene.finish("goes")
    scene.settle()
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    pod_sets = [
        {"name": name, "count": count, "template": {"spec": {"containers": containers}}}
        for name, count in (("driver", 1), ("workers", 2))
    ]
    scene.workload("roles", "q", podSets=pod_sets)
    scene.settle()
    scene.pass_time(2)  # counts are written once a second
    before = len(scene.log)
    scene.pass_time(60)
    assert len(scene.log) == before
    waits = scene.condition("roles", "QuotaReserved")
    assert waits["status"] == "False"
    assert "pod set workers" in waits["message"]


def test_strict_fifo_waits_for_the_first_and_best_effort_does_not() -> None:
    admitted = {}
    for strategy in ("StrictFIFO", "BestEffortFIFO"):
        scene = Scene()
        scene.queue("q", "5", queueingStrategy=strategy)
        scene.workload("big", "q", "9")
        scene.now += timedelta(seconds=1)
        scene.workload("small", "q", "1")
        scene.settle()
        admitted[strategy] = scene.is_true("small", "Admitted")
    assert admitted == {"StrictFIFO": False, "BestEffortFIFO": True}


def test_a_higher_priority_preempts_and_takes_over_once_the_pods_are_gone() -> None:
    scene = Scene()
    scene.queue("q", "4", preemption=LOWER)
    scene.workload("low", "q", "3")
    scene.settle()
    high = scene.workload("high", "q", "3", priority=10)
    scene.settle()
    evicted, preempted = scene.condition("low", "Evicted"), scene.condition("low", "Preempted")
    assert (evicted["status"], evicted["reason"]) == ("True", "Preempted")
    assert preempted["reason"] == "InClusterQueue"
    assert f"(UID: {high['metadata']['uid']}, JobUID: UNKNOWN)" in preempted["message"]
    assert scene.condition("high", "QuotaReserved")["reason"] == "WaitingForPreemptedWorkloads"
    (decision,) = scene.said(events.WorkloadPreemptionDecided, "low")
    assert (decision.preemptor, decision.amounts) == (f"{NS}/high", {"default": {"cpu": 3000}})
    assert not scene.is_true("high", "Admitted")
    scene.release("low")
    scene.settle()
    assert scene.is_true("high", "Admitted")
    assert scene.condition("low", "QuotaReserved")["status"] == "False"
    assert scene.said(events.QuotaPosted, "low")[-1].reason == R.RESERVATION_RELEASED


def test_checks_are_pending_before_they_are_ready() -> None:
    scene = Scene()
    checked(scene)
    scene.workload("a", "q")
    scene.settle()
    assert [(one["name"], one["state"]) for one in scene.status("a")["admissionChecks"]] == [(CHECK, "Pending")]
    assert scene.is_true("a", "QuotaReserved")
    assert scene.condition("a", "Admitted")["reason"] == "UnsatisfiedAdmissionChecks"
    answer(scene, "a", "Ready")
    assert scene.is_true("a", "Admitted")


def test_a_check_that_asks_for_another_try_evicts_and_sets_the_time() -> None:
    scene = Scene()
    checked(scene)
    scene.workload("a", "q")
    scene.settle()
    scene.now += timedelta(seconds=10)
    answer(scene, "a", "Retry", requeueAfterSeconds=60, message="no machines")
    at = scene.now + timedelta(seconds=60)
    assert scene.status("a")["requeueState"]["requeueAt"] == timestamp(at)
    scene.pass_time(61)
    evicted = scene.condition("a", "Evicted")
    assert (evicted["reason"], evicted["message"]) == (
        "AdmissionCheck",
        f'Evicted due to AdmissionCheck in Retry state: "{CHECK}" (no machines)',
    )
    (state,) = scene.status("a")["admissionChecks"]
    assert (state["state"], state["retryCount"]) == ("Pending", 1)
    assert state["message"] == "Reset to Pending after eviction. Previously: Retry"


def test_a_check_that_rejects_deactivates() -> None:
    scene = Scene()
    checked(scene)
    scene.workload("a", "q")
    scene.settle()
    answer(scene, "a", "Rejected", message="too large")
    assert scene.of("a")["spec"]["active"] is False
    evicted = scene.condition("a", "Evicted")
    assert evicted["reason"] == "DeactivatedDueToAdmissionCheck"
    assert evicted["message"] == (
        f'The workload is deactivated due to AdmissionCheck in Rejected state: "{CHECK}" (too large)'
    )
    assert not scene.condition("a", "DeactivationTarget")
    assert scene.posted()[f"admission/workload/{NS}/a"] == {("q", "default", "cpu"): 0}


def test_a_workload_whose_owner_is_gone_is_finished_and_let_go() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q")
    scene.settle()
    labels = {"kueue.x-k8s.io/job-uid": "job-a"}
    kept = {"ownerReferences": [], "labels": labels, "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
    scene.put(kinds.WORKLOADS, "a", NS, metadata=kept)
    scene.settle()
    assert scene.condition("a", "Finished")["reason"] == "OwnerNotFound"
    assert scene.of("a")["metadata"]["finalizers"] == []


def test_a_workload_that_runs_for_too_long_is_deactivated() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", maximumExecutionTimeSeconds=100)
    scene.settle()
    scene.pass_time(50)
    assert scene.of("a")["spec"].get("active") is None
    scene.pass_time(51)
    assert scene.of("a")["spec"]["active"] is False
    assert scene.condition("a", "Evicted")["reason"] == "DeactivatedDueToMaximumExecutionTimeExceeded"


def test_a_gate_keeps_a_workload_out_of_its_queue() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q")
    gate = {"annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}}
    scene.put(kinds.WORKLOADS, "a", NS, metadata=gate)
    scene.settle()
    told = scene.condition("a", "QuotaReserved")
    assert (told["reason"], told["message"]) == ("AdmissionGated", "Admission is gated by: example.com/gate")
    scene.put(kinds.WORKLOADS, "a", NS, metadata={"annotations": {}})
    scene.settle()
    assert scene.is_true("a", "Admitted")


def test_a_reservation_that_is_refused_gives_the_quota_back_and_is_tried_again() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.settle()

    def refused(request: Request) -> WriteRefusal | None:
        mine = request.ref.kind == kinds.WORKLOADS and request.ref.name == "a"
        return WriteRefusal(403, "Forbidden", "not allowed") if mine else None

    scene.refuses = refused
    scene.workload("a", "q", "5")
    scene.settle()
    scene.workload("b", "q", "5")
    scene.settle()
    assert scene.is_true("b", "Admitted")
    assert scene.posted()[f"admission/workload/{NS}/a"] == {("q", "default", "cpu"): 0}
    scene.refuses = lambda request: None
    scene.finish("b")
    scene.pass_time(600)
    assert scene.is_true("a", "Admitted")


def test_a_workload_that_changes_before_the_write_is_decided_about_anew() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.settle()
    scene.workload("a", "q", "5")
    scene.decide()
    assert scene.said(events.QuotaReservationDecided, "a")
    scene.put(kinds.WORKLOADS, "a", NS, metadata={"labels": {"changed": "yes"}})
    scene.settle()
    assert scene.is_true("a", "Admitted")
    assert scene.posted()[f"admission/workload/{NS}/a"] == {("q", "default", "cpu"): 5000}


def test_a_reservation_that_kueue_made_before_is_taken_over() -> None:
    scene = Scene()
    scene.workload("a", "q", "4")
    admission = {
        "clusterQueue": "q",
        "podSetAssignments": [
            {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "4"}, "count": 1}
        ],
    }
    scene.set_condition("a", "QuotaReserved", admission=admission)
    scene.set_condition("a", "Admitted")
    scene.queue("q", "5")
    scene.workload("b", "q", "2")
    scene.settle()
    assert not scene.is_true("b", "QuotaReserved")
    (taken,) = scene.said(events.QuotaPosted, "a")
    assert (taken.reason, taken.amounts) == (R.OBSERVED_RESERVATION, {"default": {"cpu": 4000}})


def test_pods_that_are_done_give_their_quota_back() -> None:
    scene = Scene()
    scene.queue("q", "4")
    scene.workload("a", "q", "1", count=4)
    scene.settle()
    scene.workload("b", "q", "2")
    scene.settle()
    assert not scene.is_true("b", "QuotaReserved")
    scene.put(kinds.WORKLOADS, "a", NS, status={**scene.status("a"), "reclaimablePods": [{"name": "main", "count": 2}]})
    scene.settle()
    assert scene.is_true("b", "Admitted")
    assert scene.said(events.QuotaPosted, "a")[-1].reason == R.PODS_RECLAIMED


def test_a_changed_priority_class_gives_its_workloads_their_priority() -> None:
    scene = Scene()
    scene.queue("q", "1")
    scene.put(kinds.WORKLOAD_PRIORITY_CLASSES, "high", value=5)
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    scene.workload("a", "q", priority=5, priorityClassRef=ref)
    scene.workload("b", "q", priority=5, priorityClassRef={**ref, "group": "scheduling.k8s.io"})
    scene.settle()
    scene.put(kinds.WORKLOAD_PRIORITY_CLASSES, "high", value=9)
    scene.settle()
    assert [scene.of(name)["spec"]["priority"] for name in "ab"] == [9, 5]
    # As with Kueue: who changes it by hand keeps that until the class changes.
    scene.put(kinds.WORKLOADS, "a", NS, spec={**scene.of("a")["spec"], "priority": 1})
    scene.settle()
    assert scene.of("a")["spec"]["priority"] == 1


def test_why_it_waits_is_said_although_the_workload_changes_before_the_write() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", "3")
    scene.settle()
    scene.workload("b", "q", "4")
    scene.decide()
    assert scene.said(events.WorkloadInadmissible, "b")
    scene.put(kinds.WORKLOADS, "b", NS, metadata={"labels": {"changed": "yes"}})
    scene.settle()
    assert scene.condition("b", "QuotaReserved")["reason"] == "WaitingForQuota"
    assert len(scene.said(events.WorkloadInadmissible, "b")) == 1


def test_who_is_like_one_that_did_not_fit_says_so_without_being_tried() -> None:
    scene = Scene()
    scene.queue("q", "1")
    scene.workload("a", "q")
    for name in ("b", "c"):
        scene.workload(name, "q", "1")
    scene.settle()
    scene.put(kinds.WORKLOADS, "c", NS, spec={**scene.of("c")["spec"], "active": False})
    scene.settle()
    scene.put(kinds.WORKLOADS, "c", NS, spec={**scene.of("c")["spec"], "active": True})
    scene.settle()
    waits = scene.condition("c", "QuotaReserved")
    assert (waits["reason"], waits["message"]) == (
        "WaitingForQuota",
        "Bypassed scheduling evaluation because an equivalent workload recently failed",
    )


def test_a_write_that_changes_nothing_rests() -> None:
    """An API server that takes a field away would be asked for ever."""
    scene = Scene()
    scene.queue("q", "5")
    scene.settle()
    scene.workload("a", "q")
    for _ in range(3):
        scene.decide()
        for write in scene.open_writes():
            version = scene.of("a")["metadata"]["resourceVersion"]
            if write.stream.endswith("/a"):
                scene.record(scene.controller.unneeded(write, version))
    assert len(scene.said(events.QuotaReservationDecided, "a")) == 1
    scene.settle()
    assert scene.posted()[f"admission/workload/{NS}/a"] == {("q", "default", "cpu"): 0}
    scene.pass_time(301)
    assert scene.is_true("a", "Admitted")


def test_what_is_not_in_view_is_named() -> None:
    scene = Scene()
    assert scene.controller.index.unseen == ""
    lost = connectivity.KindOff(kind=kinds.COHORTS.name, reason="Forbidden", message="no")
    scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=lost, cluster=MANAGEMENT))
    assert scene.controller.index.unseen == ("admission does not see all that quota rests on: cohorts.kueue.x-k8s.io")
    gone = connectivity.ClusterLost(reason="Unreachable", message="connection refused")
    scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=gone, cluster=MANAGEMENT))
    assert scene.controller.index.unseen == "admission does not see all that quota rests on"


def test_who_waits_is_tried_again_when_another_may_be_preempted_from_now_on() -> None:
    scene = Scene()
    scene.queue("q", "5", preemption={"withinClusterQueue": "LowerPriority"})
    scene.workload("a", "q", "5", priority=10)
    scene.workload("b", "q", "5", priority=10)
    scene.settle()
    assert scene.condition("b", "QuotaReserved")["status"] == "False"
    scene.put(kinds.WORKLOADS, "a", NS, spec={**scene.of("a")["spec"], "priority": 1})
    scene.settle()
    assert scene.is_true("a", "Preempted")
    scene.release("a")
    scene.settle()
    assert scene.is_true("b", "Admitted")
