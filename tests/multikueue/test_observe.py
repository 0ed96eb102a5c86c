"""From an object to its narrow event: what is kept, what is refused and by which field, whose stream it is, and what
never gets in.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.job_kinds.custom import CustomJob
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind
from controlplane.runtime.controller import ObjectChange
from tests.multikueue.observed import HOME, PREBUILT, job, metadata, observe, remote_job, sighting, workload
from tests.multikueue.scene import NS, START, STREAM, WL, Scene
from tests.support.rows import each

# --- what is kept ----------------------------------------------------------------------------------------------------


def test_a_workload_keeps_what_decides() -> None:
    new = observe(HOME, kinds.WORKLOADS, workload())
    event = new.event
    assert isinstance(event, observations.WorkloadObserved)
    assert (new.stream, new.source, new.mark, new.cluster) == (
        STREAM,
        f"{HOME}/inc/workloads.kueue.x-k8s.io/uid-{WL}",
        42,
        HOME,
    )
    assert event.owner == observations.Owner(api_version="batch/v1", kind="Job", name="train", uid="job-uid")
    assert (event.cluster_name, event.nominated, event.queue_name) == ("a", ["a", "b"], "user-queue")
    assert (event.generation, event.active, event.cluster_queue) == (3, True, "cq")
    assert (event.priority.value, event.priority.class_kind, event.priority.class_name) == (
        7,
        "WorkloadPriorityClass",
        "high",
    )
    assert event.is_true("QuotaReserved")
    (check,) = event.checks
    assert (check.name, check.state, check.retry_count, check.rest) == (
        "multikueue",
        "Retry",
        2,
        {"requeueAfterSeconds": 8},
    )
    assert event.delayed_topology == ["main"]
    assert event.assignments == workload()["status"]["admission"]["podSetAssignments"]


def test_the_template_is_a_body_and_not_in_the_event() -> None:
    new = observe(HOME, kinds.WORKLOADS, workload())
    body, _ = new.bodies
    assert body.ref == new.event.template
    assert json.loads(body.text) == {
        "labels": {"kueue.x-k8s.io/job-uid": "job-uid", "team": "x"},
        "annotations": {"note": "y"},
        "spec": workload()["spec"],
    }
    assert b"podSets" not in msgspec.json.encode(new.event)


def test_what_kueue_applies_with_the_admission_is_a_body() -> None:
    obj = workload()
    more: Json = {
        "requeueState": {"count": 2},
        "resourceRequests": [{"name": "main", "resources": {"cpu": "1"}}],
        "accumulatedPastExecutionTimeSeconds": 7,
        "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
        "unhealthyNodes": [{"name": "n"}],
        "preemptionGates": [{"name": "g", "position": "Closed"}],
        "laterField": {"of": "a version to come"},
    }
    admission = obj["status"]["admission"]
    obj["status"] |= {**more, "reclaimablePods": [{"name": "main", "count": 1}]}
    new = observe(HOME, kinds.WORKLOADS, obj)
    _, body = new.bodies
    assert body.ref == new.event.applied
    assert json.loads(body.text) == {"admission": admission, **more}


def test_kubectls_copy_of_the_object_is_not_kept() -> None:
    obj = workload()
    obj["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
    body, _ = observe(HOME, kinds.WORKLOADS, obj).bodies
    assert json.loads(body.text)["annotations"] == {"note": "y"}


@each(
    ("field", "value", "same"),
    [
        ("priority", 9, True),
        ("priorityClassRef", None, True),
        ("active", False, True),
        ("preemptionGates", [{"name": "g"}], True),
        ("queueName", "other", False),
        ("maximumExecutionTimeSeconds", 60, False),
        ("podSets", [], False),
    ],
)
def test_what_a_clones_spec_must_share(field: str, value: Any, same: bool) -> None:
    before, changed = workload(), workload()
    changed["spec"] = {**changed["spec"], field: value}
    keys = [observe(HOME, kinds.WORKLOADS, obj).event.spec_key for obj in (before, changed)]
    assert (keys[0] == keys[1]) is same
    assert observe("a", kinds.WORKLOADS, before).event.spec_key == keys[0]


def test_a_clone_keeps_what_decides() -> None:
    obj = workload()
    obj["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use", "x/y"]
    obj["spec"]["active"] = False
    obj["status"]["admission"]["podSetAssignments"] = [{"name": "main", "topologyAssignment": {"levels": []}}, {}]
    new = observe("a", kinds.WORKLOADS, obj)
    event = new.event
    assert isinstance(event, observations.CloneObserved)
    assert (new.stream, new.cluster) == (STREAM, "a")
    assert (event.active, event.bound_to) == (False, "job-uid")
    assert event.finalizers == ["kueue.x-k8s.io/resource-in-use", "x/y"]
    assert event.topology == ["main"]


def test_a_job_of_the_user_keeps_what_decides() -> None:
    new = observe(HOME, kinds.JOBS, job())
    event = new.event
    assert isinstance(event, observations.JobObserved)
    assert new.stream == f"job/jobs.batch/{NS}/train"
    assert (event.managed_by, event.suspended, event.finished, event.inactive, event.says_suspended) == (
        "kueue.x-k8s.io/multikueue",
        False,
        False,
        False,
        False,
    )
    assert {body.ref for body in new.bodies} == {event.template, event.status}


@each(
    ("status", "finished", "inactive"),
    [
        ({}, False, True),
        ({"active": 0}, False, True),
        ({"active": 2}, False, False),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, True, True),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, True, True),
        ({"active": 1, "conditions": [{"type": "FailureTarget", "status": "True"}]}, False, False),
        ({"conditions": [{"type": "Complete", "status": "False"}]}, False, True),
    ],
)
def test_when_a_job_is_finished_and_when_nothing_of_it_runs(status: Json, finished: bool, inactive: bool) -> None:
    event = observe("a", kinds.JOBS, remote_job(status=status)).event
    assert (event.finished, event.inactive) == (finished, inactive)


@each(
    ("status", "finished", "inactive"),
    [
        ({}, False, True),
        ({"replicatedJobsStatus": [{"name": "x", "active": 0, "ready": 0}]}, False, True),
        ({"replicatedJobsStatus": [{"name": "x", "active": 0}, {"name": "y", "active": 1}]}, False, False),
        ({"conditions": [{"type": "Completed", "status": "True"}]}, True, True),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, True, True),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, False, True),
    ],
)
def test_when_a_jobset_is_finished_and_when_nothing_of_it_runs(status: Json, finished: bool, inactive: bool) -> None:
    event = observe(
        "a", kinds.JOBSETS, remote_job(status=status, kind="JobSet", apiVersion=kinds.JOBSETS.api_version)
    ).event
    assert (event.finished, event.inactive, event.kind) == (finished, inactive, kinds.JOBSETS.name)


def test_a_job_without_a_queue_and_of_another_manager_concerns_nobody() -> None:
    obj = job(spec={"template": {}})
    obj["metadata"]["labels"] = {}
    assert Scene("a").fleet.observe(sighting(HOME, kinds.JOBS, obj), START) is None


@pytest.mark.parametrize("by", ["annotations", "labels"])
def test_a_jobs_copy_is_found_by_the_workload_that_it_names(by: str) -> None:
    obj = job()
    obj["metadata"] = {**obj["metadata"], by: {PREBUILT: WL}}
    new = observe("a", kinds.JOBS, obj)
    assert isinstance(new.event, observations.RemoteJobObserved)
    assert (new.stream, new.event.prebuilt) == (STREAM, WL)


def test_the_annotation_goes_before_the_label() -> None:
    obj = remote_job()
    obj["metadata"]["labels"] = {PREBUILT: "another"}
    assert observe("a", kinds.JOBS, obj).stream == STREAM


@pytest.mark.parametrize(
    ("kind", "obj", "event", "stream"),
    [
        (
            kinds.ADMISSION_CHECKS,
            {
                "metadata": {"name": "ac", "uid": "u"},
                "spec": {"controllerName": "c", "parameters": {"apiGroup": "g", "kind": "k", "name": "n"}},
            },
            observations.AdmissionCheckObserved(
                name="ac",
                uid="u",
                resource_version="",
                controller_name="c",
                parameters={"apiGroup": "g", "kind": "k", "name": "n"},
            ),
            "admissioncheck/ac",
        ),
        (
            kinds.MULTIKUEUE_CONFIGS,
            {"metadata": {"name": "cf", "uid": "u"}, "spec": {"clusters": ["b", "a"]}},
            observations.MultiKueueConfigObserved(name="cf", uid="u", resource_version="", clusters=["b", "a"]),
            "multikueueconfig/cf",
        ),
        (
            kinds.MULTIKUEUE_CLUSTERS,
            {
                "metadata": {"name": "w", "uid": "u"},
                "spec": {"clusterSource": {"kubeConfig": {"location": "/x", "locationType": "Path"}}},
            },
            observations.MultiKueueClusterObserved(
                name="w", uid="u", resource_version="", location="/x", location_type="Path"
            ),
            "cluster/w",
        ),
        (
            kinds.MULTIKUEUE_CLUSTERS,
            {"metadata": {"name": "w", "uid": "u"}, "spec": {"clusterSource": {"clusterProfileRef": {"name": "p"}}}},
            observations.MultiKueueClusterObserved(name="w", uid="u", resource_version="", cluster_profile="p"),
            "cluster/w",
        ),
    ],
)
def test_the_cluster_scoped_kinds(kind: Kind, obj: Json, event: Any, stream: str) -> None:
    new = observe(HOME, kind, obj)
    assert (new.event, new.stream) == (event, stream)


# --- whose owner -----------------------------------------------------------------------------------------------------


def test_the_owner_is_named_by_annotation_then_controller_then_first_reference() -> None:
    def found(references: list[Json], annotations: Json) -> observations.Owner | None:
        obj = workload()
        obj["metadata"] |= {"ownerReferences": references, "annotations": annotations}
        owner: observations.Owner | None = observe(HOME, kinds.WORKLOADS, obj).event.owner
        return owner

    first = {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "ua"}
    second = {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "ub", "controller": True}
    assert found([first, second], {}) == observations.Owner(api_version="v1", kind="B", name="b", uid="ub")
    assert found([first], {}) == observations.Owner(api_version="v1", kind="A", name="a", uid="ua")
    assert found([], {}) is None
    annotated = {"kueue.x-k8s.io/job-owner-gvk": "batch/v1, Kind=Job", "kueue.x-k8s.io/job-owner-name": "big"}
    assert found([first], annotated) == observations.Owner(api_version="batch/v1", kind="Job", name="big")
    owner = found([first], annotated)
    assert owner is not None
    assert owner.gvk == "batch/v1, Kind=Job"


# --- what is gone ----------------------------------------------------------------------------------------------------


@each(
    ("cluster", "kind", "event", "stream"),
    [
        (HOME, kinds.WORKLOADS, observations.WorkloadGone, STREAM),
        (HOME, kinds.JOBS, observations.JobGone, f"job/jobs.batch/{NS}/{WL}"),
        (HOME, kinds.ADMISSION_CHECKS, observations.AdmissionCheckGone, f"admissioncheck/{WL}"),
        (HOME, kinds.MULTIKUEUE_CONFIGS, observations.MultiKueueConfigGone, f"multikueueconfig/{WL}"),
        (HOME, kinds.MULTIKUEUE_CLUSTERS, observations.MultiKueueClusterGone, f"cluster/{WL}"),
        ("a", kinds.WORKLOADS, observations.CloneGone, STREAM),
    ],
)
def test_a_tombstone_of_a_relist_is_enough(cluster: str, kind: Kind, event: type[Any], stream: str) -> None:
    stone = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"namespace": NS, "name": WL, "uid": "u"}}
    new = observe(cluster, kind, stone, gone=True)
    assert isinstance(new.event, event)
    assert (new.stream, new.event.uid, new.mark) == (stream, "u", 42)


def test_a_tombstone_of_a_jobs_copy_finds_its_stream_by_uid() -> None:
    scene = Scene("a").running("a")
    stone = {"metadata": {"namespace": NS, "name": "train", "uid": "rjob-a"}}
    new = observe("a", kinds.JOBS, stone, gone=True, scene=scene)
    assert new.stream == STREAM
    assert new.event == observations.RemoteJobGone(
        namespace=NS, name="train", uid="rjob-a", kind=kinds.JOBS.name, resource_version="42"
    )
    scene.remote_job_gone("a")
    assert scene.fleet.observe(sighting("a", kinds.JOBS, stone, gone=True), START) is None


def test_a_tombstone_of_a_job_that_was_never_seen_concerns_nobody() -> None:
    stone = {"metadata": {"namespace": NS, "name": "train", "uid": "unknown"}}
    assert Scene("a").fleet.observe(sighting("a", kinds.JOBS, stone, gone=True), START) is None


def test_the_same_uid_on_another_cluster_is_another_job() -> None:
    scene = Scene("a", "b").running("a", "a", "b")
    stone = {"metadata": {"namespace": NS, "name": "train", "uid": "rjob-a"}}
    assert scene.fleet.observe(sighting("b", kinds.JOBS, stone, gone=True), START) is None


# --- identity --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rv", "mark", "named"), [("42", 42, True), ("", 0, False), ("opaque", 0, False)])
def test_the_identity_of_an_observation(rv: str, mark: int, named: bool) -> None:
    new = Scene("a").fleet.observe(sighting("a", kinds.WORKLOADS, workload(), rv=rv), START)
    assert new is not None
    assert new.mark == mark
    assert bool(new.source) is named
    assert new.observed_at == START


def test_a_cluster_that_was_restored_is_another_source() -> None:
    fleet = Scene("a").fleet
    changes = [ObjectChange("a", name, kinds.WORKLOADS, workload(), "42", False) for name in ("one", "two")]
    seen = [fleet.observe(change, START) for change in changes]
    assert len({new.source for new in seen if new is not None}) == 2


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (kinds.MULTIKUEUE_CONFIGS, {"clusters": ["a"]}),
        (kinds.MULTIKUEUE_CLUSTERS, {"clusterSource": {"kubeConfig": {"location": "a"}}}),
        (kinds.ADMISSION_CHECKS, {"controllerName": "kueue.x-k8s.io/multikueue"}),
        (kinds.CLUSTER_QUEUES, {}),
        (kinds.LOCAL_QUEUES, {"clusterQueue": "cq"}),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_who_changed_the_configuration_is_recorded(kind: Kind, spec: Json) -> None:
    fleet = Scene("a", policy={"claims": True}).fleet
    seen = ObjectChange(
        HOME, "inc", kind, {"metadata": metadata("x"), "spec": spec}, "42", gone=False, manager="kubectl-edit"
    )
    found = fleet.observe(seen, START)
    assert found is not None
    assert getattr(found.event, "manager", None) == "kubectl-edit"


def test_of_workloads_and_jobs_no_manager_is_recorded() -> None:
    seen = ObjectChange(HOME, "inc", kinds.WORKLOADS, workload(), "42", gone=False, manager="kueue")
    found = Scene("a").fleet.observe(seen, START)
    assert found is not None
    assert not hasattr(found.event, "manager")


def test_a_job_that_is_not_ours_any_more_is_recorded_as_that() -> None:
    """Of a custom kind, whose API server lets `managedBy` be changed: its Workload is to be rejected."""
    render = CustomJob("Render.v1.example.com")
    scene = Scene("a")
    scene.fleet = MultiKueueController(MultiKueuePolicy(adapters={render.kind.gvk: render}), "test")
    ours = {"metadata": metadata("film"), "spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}
    theirs = {"metadata": metadata("film"), "spec": {"managedBy": "example.com/farm"}}
    assert scene.fleet.observe(sighting(HOME, render.kind, theirs), START) is None
    first = scene.fleet.observe(sighting(HOME, render.kind, ours), START)
    assert first is not None
    scene.fold(first.stream, first.event)
    after = scene.fleet.observe(sighting(HOME, render.kind, theirs, rv="43"), START)
    assert after is not None
    assert after.event.managed_by == "example.com/farm"


def test_a_copy_says_how_it_ended() -> None:
    copy = remote_job(status={"conditions": [{"type": "Failed", "status": "True", "message": "no more tries"}]})
    event = observe("a", kinds.JOBS, copy).event
    assert event.end == observations.JobEnd(success=False, message="no more tries")
    assert observe("a", kinds.JOBS, remote_job()).event.end is None
