"""From an open write to its request: clones byte for byte, whole lists, explicit nulls, and merge patches that give
what is wanted.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.controllers.multikueue.observations import Priority
from controlplane.job_kinds import JOB_KINDS, adapters_for
from controlplane.job_kinds.base import JobKind, merged
from controlplane.kube.kinds import EVENTS, JOBS, JOBSETS, WORKLOADS, Json, ObjectRef
from controlplane.log.event import canonical
from tests.multikueue.rendered import GATES, ORIGIN, PREBUILT, TEMPLATE, body, request_of
from tests.multikueue.scene import NS, STREAM, WL, Scene
from tests.support.rows import each

# --- clones ----------------------------------------------------------------------------------------------------------


def test_the_clone_of_a_workload_byte_for_byte() -> None:
    ref, bodies = body(TEMPLATE)
    scene = Scene("a", policy=GATES).job().workload({"QuotaReserved": True}, template=ref)
    scene.decide()
    scene.workload(nominated=["a"])
    scene.decide()
    request = request_of(scene, bodies)
    assert canonical(request.body) == canonical(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {
                "namespace": NS,
                "name": WL,
                "labels": {"kueue.x-k8s.io/queue-name": "user-queue", "team": "blue", ORIGIN: "east-1"},
                "annotations": TEMPLATE["annotations"],
            },
            "spec": TEMPLATE["spec"],
        }
    )
    assert (request.verb, request.ref) == ("create", ObjectRef(WORKLOADS, NS, WL))
    assert request.owner_label == (ORIGIN, "east-1")
    assert (request.uid, request.resource_version, request.subresource) == ("", "", "")


def test_a_clone_without_annotations_has_none() -> None:
    ref, bodies = body({"labels": {}, "annotations": {}, "spec": {}})
    scene = Scene("a").job().workload({"QuotaReserved": True}, template=ref)
    scene.decide()
    scene.workload(nominated=["a"])
    scene.decide()
    assert request_of(scene, bodies).body["metadata"] == {"namespace": NS, "name": WL, "labels": {ORIGIN: "multikueue"}}


def test_a_clone_whose_body_is_gone_from_the_log_is_not_sent() -> None:
    scene = Scene("a").nominated("a")
    scene.decide()
    (write,) = scene.fleet.open_writes(STREAM)
    assert scene.fleet.request(write, {}, scene.now) is None


JOB_SPEC: Json = {
    "parallelism": 2,
    "suspend": True,
    "managedBy": "kueue.x-k8s.io/multikueue",
    "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "x"}},
    "template": {
        "metadata": {
            "labels": {
                "controller-uid": "x",
                "job-name": "train",
                "batch.kubernetes.io/controller-uid": "x",
                "batch.kubernetes.io/job-name": "train",
                "mine": "yes",
            }
        },
        "spec": {"restartPolicy": "Never"},
    },
}


def test_the_clone_of_a_job() -> None:
    template = {"labels": {"kueue.x-k8s.io/queue-name": "q"}, "annotations": {"a": "b"}, "spec": JOB_SPEC}
    ref, bodies = body(template)
    scene = Scene("a", policy=GATES).job(template=ref).workload({"QuotaReserved": True}, nominated=["a"])
    scene.decide()
    scene.workload(nominated=["a"])
    scene.decide()
    scene.clone("a", {"Admitted": True})
    scene.decide()
    request = request_of(scene, bodies)
    assert request.body == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": NS,
            "name": "train",
            "labels": {"kueue.x-k8s.io/queue-name": "q", ORIGIN: "east-1"},
            "annotations": {"a": "b", PREBUILT: WL},
        },
        "spec": {
            "parallelism": 2,
            "suspend": True,
            "template": {
                "metadata": {"labels": {"batch.kubernetes.io/job-name": "train", "mine": "yes"}},
                "spec": {"restartPolicy": "Never"},
            },
        },
    }
    assert (request.verb, request.ref, request.owner_label) == (
        "create",
        ObjectRef(JOBS, NS, "train"),
        (ORIGIN, "east-1"),
    )


def test_the_selector_that_a_user_chose_goes_along() -> None:
    chosen = {**JOB_SPEC, "manualSelector": True}
    made = JOB_KINDS["batch/job"].clone({"spec": chosen}, NS, "train", WL, "o")["spec"]
    assert made == {name: value for name, value in chosen.items() if name != "managedBy"}


@each("adapter", JOB_KINDS.values(), ids=JOB_KINDS)
def test_a_jobs_clone_is_suspended_unmanaged_and_leaves_the_template_as_it_is(adapter: JobKind) -> None:
    spec = merged({"selector": {}, "template": {}}, adapter.delegated("kueue.x-k8s.io/multikueue"))
    spec = merged(spec, adapter.started())
    template = {"labels": {}, "annotations": {}, "spec": spec}
    before = copy.deepcopy(template)
    clone = adapter.clone(template, NS, "n", WL, "o")
    assert template == before
    assert adapter.suspended(clone)
    assert adapter.managed_by(clone) == ""
    assert clone["kind"] == adapter.kind.kind
    # One copy of a job that has several Workloads is bound to none of them.
    assert clone["metadata"]["annotations"].get(PREBUILT) == (None if adapter.composed else WL)
    assert clone["metadata"]["labels"][ORIGIN] == "o"
    assert not {"ownerReferences", "finalizers", "uid", "resourceVersion"} & set(clone["metadata"])


def test_the_clone_of_a_jobset_keeps_its_spec_otherwise() -> None:
    spec = {"managedBy": "kueue.x-k8s.io/multikueue", "replicatedJobs": [{"name": "w", "replicas": 3}], "network": {}}
    clone = adapters_for(JOB_KINDS)[JOBSETS.gvk].clone({"spec": spec}, NS, "n", WL, "o")
    assert clone["spec"] == {"replicatedJobs": [{"name": "w", "replicas": 3}], "network": {}, "suspend": True}


# --- copies ----------------------------------------------------------------------------------------------------------


def test_a_removal_names_uid_version_and_mark() -> None:
    scene = Scene("a", policy=GATES).running("a").gone()
    scene.decide()
    request = request_of(scene)
    job = scene.state.remote("a").job
    assert job is not None
    assert (request.verb, request.ref, request.propagation) == ("delete", ObjectRef(JOBS, NS, "train"), "Background")
    assert (request.uid, request.resource_version) == (job.uid, job.resource_version)
    assert request.owner_label == (ORIGIN, "east-1")
    scene.remote_job_gone("a")
    scene.decide()
    request = request_of(scene)
    assert (request.verb, request.ref, request.uid) == ("delete", ObjectRef(WORKLOADS, NS, WL), "clone-a")
    assert (request.resource_version, request.owner_label) == ("", None)  # it holds nothing: whatever its version


@pytest.mark.parametrize(
    ("finalizers", "left"),
    [
        (["kueue.x-k8s.io/resource-in-use"], None),
        (["x/y", "kueue.x-k8s.io/resource-in-use", "z/w"], ["x/y", "z/w"]),
    ],
)
def test_only_kueues_finalizer_is_taken_off(finalizers: list[str], left: list[str] | None) -> None:
    scene = Scene("a").cloned("a").clone("a", finalizers=finalizers).workload({"Finished": True})
    scene.decide()
    request = request_of(scene)
    assert request.body == {"metadata": {"finalizers": left}}
    assert (request.uid, bool(request.resource_version), request.subresource) == ("clone-a", True, "")


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        (
            Priority(value=9, class_group="kueue.x-k8s.io", class_kind="WorkloadPriorityClass", class_name="high"),
            {
                "metadata": {"annotations": {"kueue.x-k8s.io/priority-boost": None}},
                "spec": {
                    "priority": 9,
                    "priorityClassRef": {
                        "group": "kueue.x-k8s.io",
                        "kind": "WorkloadPriorityClass",
                        "name": "high",
                    },
                },
            },
        ),
        (
            Priority(
                value=1,
                class_group="kueue.x-k8s.io",
                class_kind="WorkloadPriorityClass",
                class_name="low",
                boost="4",
            ),
            {
                "metadata": {"annotations": {"kueue.x-k8s.io/priority-boost": "4"}},
                "spec": {
                    "priority": 1,
                    "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "low"},
                },
            },
        ),
    ],
)
def test_a_priority_is_patched_in_place(priority: Priority, expected: Json) -> None:
    old = Priority(value=2, class_group="kueue.x-k8s.io", class_kind="WorkloadPriorityClass", class_name="mid")
    scene = Scene("a").cloned("a").clone("a", priority=old).workload(priority=priority)
    scene.decide()
    assert request_of(scene, action="CloneUpdateDecided").body == expected


def test_a_write_whose_object_is_gone_is_not_sent() -> None:
    scene = Scene("a").running("a").gone()
    scene.decide()
    (write,) = scene.fleet.open_writes(STREAM)
    scene.remote_job_gone("a")
    assert not scene.fleet.is_open(write)
    assert scene.fleet.request(write, {}, scene.now) is None


# --- Events ----------------------------------------------------------------------------------------------------------


def test_the_event_of_an_admission() -> None:
    scene = Scene("a").cloned("a").clone("a", {"Admitted": True})
    scene.decide()
    scene.remote_job("a")
    scene.decide()
    (write,) = scene.fleet.open_writes(STREAM)
    event = scene.fleet.announcement(write, scene.now)
    assert event is not None
    assert (event.verb, event.ref.kind) == ("create", EVENTS)
    assert {key: event.body[key] for key in ("type", "reason", "action", "note")} == {
        "type": "Normal",
        "reason": "MultiKueue",
        "action": "MultiKueue",
        "note": 'The workload was admitted on "a"',
    }
    assert event.body["regarding"] == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "namespace": NS,
        "name": WL,
        "uid": "wl-uid",
    }
    assert scene.fleet.announcement(write, scene.now) == event  # the same name: a second one is refused


@pytest.mark.parametrize(
    ("condition", "kind"),
    [({"Evicted": True}, "Normal"), ({"Finished": ("OutOfSync", "")}, "Warning")],
)
def test_the_event_of_a_retry(condition: dict[str, Any], kind: str) -> None:
    scene = Scene("a").running("a").clone("a", condition)
    (decision,) = scene.decide()
    (write,) = scene.fleet.open_writes(STREAM)
    event = scene.fleet.announcement(write, scene.now)
    assert event is not None
    assert (event.body["type"], event.body["note"]) == (kind, decision.message)  # type: ignore[attr-defined]


def test_a_late_topology_is_no_news_to_the_user() -> None:
    scene = Scene("a").running("a").workload(delayed_topology=["main"], assignments=[{"name": "main"}])
    scene.clone("a", topology=["main"])
    scene.decide()
    (write,) = [w for w in scene.fleet.open_writes(STREAM) if w.action == "CheckStateDecided"]
    assert scene.fleet.announcement(write, scene.now) is None
