"""From an open write to its request: clones byte for byte, whole lists, explicit nulls, and merge patches that give what is wanted."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kube import EVENTS, JOBS, JOBSETS, MERGE_PATCH, WORKLOADS, Json, ObjectRef, Request
from controlplane.log.event import body_of, canonical
from controlplane.multikueue.adapters import ADAPTERS, adapters_for
from controlplane.multikueue.adapters.base import Adapter
from controlplane.multikueue.events import CheckState, Priority
from controlplane.rendering import event_about, merge_diff
from tests.multikueue.scene import CHECK, NS, START, STREAM, WL, Scene, stamp

ORIGIN = "kueue.x-k8s.io/multikueue-origin"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
GATES = {"origin": "east-1"}
TEMPLATE: Json = {
    "labels": {"kueue.x-k8s.io/job-uid": "u", "kueue.x-k8s.io/queue-name": "user-queue", "team": "blue"},
    "annotations": {"kueue.x-k8s.io/priority-boost": "3", "note": "für alle"},
    "spec": {
        "active": True,
        "queueName": "user-queue",
        "priority": 5,
        "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}],
    },
}


def request_of(scene: Scene, bodies: dict[str, bytes] | None = None, action: str = "") -> Request:
    """The request of the one open write, or of the one with this action."""
    writes = [w for w in scene.fleet.open_writes(STREAM) if not action or w.action == action]
    (write,) = writes
    assert set(scene.fleet.bodies_needed(write)) <= set(bodies or {})
    request = scene.fleet.request(write, bodies or {}, scene.now)
    assert request is not None
    return request


def body(value: Any) -> tuple[str, dict[str, bytes]]:
    made = body_of(value)
    return made.ref, {made.ref: made.text.encode()}


# --- clones ------------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=ADAPTERS)
def test_a_jobs_clone_is_suspended_unmanaged_and_leaves_the_template_as_it_is(adapter: Adapter) -> None:
    spec = {"suspend": False, "managedBy": "kueue.x-k8s.io/multikueue", "selector": {}, "template": {}}
    template = {"labels": {}, "annotations": {}, "spec": spec}
    before = copy.deepcopy(template)
    clone = adapter.clone(template, NS, "n", WL, "o")
    assert template == before
    assert adapter.suspended(clone)
    assert "managedBy" not in clone["spec"]
    assert clone["kind"] == adapter.kind.kind
    assert clone["metadata"]["annotations"][PREBUILT] == WL
    assert clone["metadata"]["labels"][ORIGIN] == "o"
    assert not {"ownerReferences", "finalizers", "uid", "resourceVersion"} & set(clone["metadata"])


def test_the_clone_of_a_jobset_keeps_its_spec_otherwise() -> None:
    spec = {"managedBy": "kueue.x-k8s.io/multikueue", "replicatedJobs": [{"name": "w", "replicas": 3}], "network": {}}
    clone = adapters_for(ADAPTERS)[JOBSETS.gvk].clone({"spec": spec}, NS, "n", WL, "o")
    assert clone["spec"] == {"replicatedJobs": [{"name": "w", "replicas": 3}], "network": {}, "suspend": True}


# --- the Workload's status -----------------------------------------------------------------------------------------------------


def test_a_nomination_replaces_the_whole_list() -> None:
    scene = Scene("b", "a").reserved()
    scene.decide()
    request = request_of(scene)
    assert request.body == {"status": {"nominatedClusterNames": ["a", "b"]}}
    assert (request.verb, request.subresource, request.content_type) == ("patch", "status", MERGE_PATCH)
    assert scene.state.local is not None
    assert request.resource_version == scene.state.local.resource_version


def test_ready_carries_every_check_the_cluster_and_no_nomination() -> None:
    other = CheckState(
        name="other", state="Ready", message="o", last_transition_time="T0", rest={"podSetUpdates": [{"name": "main"}]}
    )
    ours = CheckState(
        name=CHECK,
        state="Pending",
        message="m",
        last_transition_time="T1",
        retry_count=2,
        rest={"requeueAfterSeconds": 4},
    )
    scene = Scene("a").cloned("a").workload(checks=[other, ours]).clone("a", {"Admitted": True})
    scene.decide()
    scene.remote_job("a").tick(seconds=7)
    scene.decide()
    assert request_of(scene).body == {
        "status": {
            "admissionChecks": [
                {
                    "name": "other",
                    "state": "Ready",
                    "message": "o",
                    "lastTransitionTime": "T0",
                    "podSetUpdates": [{"name": "main"}],
                },
                {
                    "name": CHECK,
                    "state": "Ready",
                    "message": 'The workload was admitted on "a"',
                    "lastTransitionTime": stamp(scene.now),
                    "retryCount": 2,
                    "requeueAfterSeconds": 4,
                },
            ],
            "clusterName": "a",
            "nominatedClusterNames": None,
        }
    }


def test_retry_says_when_to_come_back_and_leaves_the_names_to_kueue() -> None:
    scene = Scene("a").running("a").workload(retry_count=3).clone("a", {"Evicted": True}).tick(seconds=9)
    scene.decide()
    (entry,) = request_of(scene).body["status"]["admissionChecks"]
    assert entry["state"] == "Retry"
    assert (entry["requeueAfterSeconds"], entry["retryCount"]) == (8, 3)
    assert entry["lastTransitionTime"] == stamp(scene.now)
    assert set(request_of(scene).body["status"]) == {"admissionChecks"}


def test_finished_is_added_to_the_conditions_that_are_there() -> None:
    scene = Scene("a").running("a").remote_job("a", status="00" * 32, finished=True)
    scene.clone("a", {"Finished": ("Succeeded", "Job finished successfully")}).tick(seconds=3)
    scene.decide()
    conditions = request_of(scene).body["status"]["conditions"]
    assert [c["type"] for c in conditions] == ["QuotaReserved", "Admitted", "Finished"]
    assert conditions[-1] == {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "message": "Job finished successfully",
        "lastTransitionTime": stamp(scene.now),
    }
    assert conditions[0]["lastTransitionTime"] == stamp(START)


def test_a_topology_flips_its_pod_set_and_carries_the_others() -> None:
    assigned: list[Json] = [
        {"name": "main", "count": 2, "flavors": {"cpu": "f"}, "delayedTopologyRequest": "Pending"},
        {"name": "side", "count": 1, "delayedTopologyRequest": "Pending"},
        {"name": "done", "count": 1, "delayedTopologyRequest": "Ready"},
    ]
    scene = Scene("a").running("a").workload(delayed_topology=["main", "side"], assignments=assigned)
    scene.clone("a", topology=["main"])
    scene.decide()
    status = request_of(scene, action="CheckStateDecided").body["status"]
    assert status["admission"] == {
        "podSetAssignments": [{**assigned[0], "delayedTopologyRequest": "Ready"}, assigned[1], assigned[2]]
    }
    assert status["admissionChecks"][0]["lastTransitionTime"] == stamp(START)


# --- the job's status ----------------------------------------------------------------------------------------------------------


def relayed(current: Json, remote: Json, **local: Any) -> Request:
    here, bodies = body(current)
    there, more = body(remote)
    scene = Scene("a").running("a").job(status=here, **local).remote_job("a", status=there).tick(seconds=2)
    scene.decide()
    return request_of(scene, {**bodies, **more})


def test_a_status_is_a_patch_with_nulls_for_what_is_not_there_any_more() -> None:
    request = relayed(
        {"active": 1, "ready": 1, "startTime": "T", "conditions": [{"type": "X"}]},
        {"succeeded": 1, "startTime": "T", "conditions": [{"type": "Complete"}]},
    )
    assert request.body == {
        "status": {"active": None, "ready": None, "succeeded": 1, "conditions": [{"type": "Complete"}]}
    }
    assert (request.ref, request.subresource) == (ObjectRef(JOBS, NS, "train"), "status")
    assert request.resource_version


def test_the_mark_of_a_suspended_job_is_kueues_own() -> None:
    kept = {"type": "Other", "status": "True"}
    old = {"type": "Suspended", "status": "False"}
    here, bodies = body({"conditions": [old, kept]})
    there, more = body({"active": 1})
    scene = Scene("a").running("a").job(status=here, suspended=True).remote_job("a", status=there).tick(seconds=2)
    scene.decide()
    assert request_of(scene, {**bodies, **more}).body["status"]["conditions"] == [
        kept,
        {
            "type": "Suspended",
            "status": "True",
            "reason": "MultiKueueAdapter",
            "message": "Set by MultiKueue adapter",
            "lastTransitionTime": stamp(scene.now),
        },
    ]


def test_a_status_brought_to_rest_says_that_nothing_runs() -> None:
    here, bodies = body({"active": 2, "ready": 1, "terminating": 1, "startTime": "T", "failed": 3, "conditions": []})
    scene = Scene("a").running("a").job(status=here, inactive=False, suspended=True)
    scene.workload({"Evicted": True}, check="Pending", cluster_name="").remote_job_gone("a").clone_gone("a")
    scene.decide()
    assert request_of(scene, bodies).body == {
        "status": {"active": 0, "ready": 0, "terminating": None, "startTime": None}
    }


@pytest.mark.parametrize(
    ("adapter", "status"),
    [
        ("batch/job", {"active": 3, "ready": 2, "startTime": "T", "failed": 1}),
        (
            "jobset.x-k8s.io/jobset",
            {"replicatedJobsStatus": [{"name": "a", "active": 2, "ready": 1, "failed": 1}, {"name": "b", "active": 1}]},
        ),
    ],
)
def test_what_is_brought_to_rest_is_at_rest_by_kueues_own_test(adapter: str, status: Json) -> None:
    found = ADAPTERS[adapter]
    before = copy.deepcopy(status)
    drained = found.drained(status)
    assert not found.inactive(status)
    assert found.inactive(drained)
    assert status == before
    assert json.dumps(drained).count("failed") == json.dumps(status).count("failed")


# --- copies --------------------------------------------------------------------------------------------------------------------


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
    assert request.owner_label == (ORIGIN, "east-1")


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


# --- Events ----------------------------------------------------------------------------------------------------------------------


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


def test_a_long_note_is_cut_as_kueue_cuts_it() -> None:
    ref = ObjectRef(WORKLOADS, NS, WL)
    note = event_about(ref, "u", "Normal", "R", "x" * 5000, "1", "me", START).body["note"]
    assert len(note) == 1024
    assert note.endswith("x ...")


# --- merge patches -----------------------------------------------------------------------------------------------------------------

# A field has one type in all versions of an object, as API schemas have it: numbers here, texts there. Null is not a value.
KEYS = st.sampled_from(["n1", "n2", "t1", "t2", "l1", "o1", "o2"])


def values(depth: int = 3) -> st.SearchStrategy[Json]:
    leaves: dict[str, st.SearchStrategy[Any]] = {
        "n": st.integers(-3, 3),
        "t": st.sampled_from(["", "a", "b"]),
        "l": st.lists(st.fixed_dictionaries({"type": st.sampled_from("XYZ"), "at": st.integers(0, 2)}), max_size=3),
    }
    if depth:
        leaves["o"] = st.deferred(lambda: values(depth - 1))
    names = [name for name in ("n1", "n2", "t1", "t2", "l1", "o1", "o2") if name[0] in leaves]
    return st.fixed_dictionaries({}, optional={name: leaves[name[0]] for name in names})


def rfc7386(target: Any, patch: Any) -> Any:
    """MergePatch of RFC 7386, section 2, to the letter."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = rfc7386(result.get(name), value)
    return result


@given(values(), values())
def test_applying_the_difference_gives_what_is_wanted(current: Json, wanted: Json) -> None:
    assert rfc7386(current, merge_diff(current, wanted)) == wanted


@given(values())
def test_there_is_no_difference_to_itself(value: Json) -> None:
    assert merge_diff(value, copy.deepcopy(value)) == {}


@given(values(), values())
def test_the_difference_changes_neither(current: Json, wanted: Json) -> None:
    before = copy.deepcopy((current, wanted))
    merge_diff(current, wanted)
    assert (current, wanted) == before
