"""Writes to a status, byte for byte: the Workload's and the user's job's."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from controlplane.controllers.multikueue.observations import CheckState
from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.kinds import APPLY_PATCH, JOBS, MERGE_PATCH, Json, ObjectRef, Request
from tests.multikueue.rendered import body, request_of
from tests.multikueue.scene import CHECK, NS, START, Scene, stamp

# --- the Workload's status -------------------------------------------------------------------------------------------


def test_a_nomination_replaces_the_whole_list() -> None:
    scene = Scene("b", "a").reserved()
    scene.decide()
    request = request_of(scene, action="NominationDecided")
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


# --- the Workload's status, as Kueue applies it ----------------------------------------------------------------------

ADMISSION: Json = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]}
REST: Json = {"admission": ADMISSION, "schedulingStats": {"evictions": [{"reason": "Preempted", "count": 1}]}}


def apply_of(scene: Scene, rest: Json, action: str = "", **local: Any) -> Request:
    """The request of the one open write after the Workload was seen once more, with this rest of its status."""
    ref, bodies = body(rest)
    scene.workload(applied=ref, **local)
    scene.decide()
    return request_of(scene, bodies, action)


def test_a_nomination_is_applied_with_everything_that_kueue_applies() -> None:
    scene = Scene("a").reserved().workload({"WaitingForReplacementPods": False})
    request = apply_of(scene, REST, "NominationDecided")
    assert (request.content_type, request.field_manager) == (APPLY_PATCH, "kueue-admission")
    assert (request.verb, request.subresource) == ("patch", "status")
    assert scene.state.local is not None
    assert request.resource_version == scene.state.local.resource_version
    status = request.body["status"]
    assert [condition["type"] for condition in status.pop("conditions")] == ["QuotaReserved"]
    assert [check["name"] for check in status.pop("admissionChecks")] == [CHECK]
    assert status == {**REST, "nominatedClusterNames": ["a"]}


def test_what_the_admission_replaces_and_an_empty_requeue_state_are_left_out() -> None:
    rest = {"resourceRequests": [{"name": "main"}], "requeueState": {}}
    assert not {"resourceRequests", "requeueState"} & set(
        apply_of(Scene("a").reserved(), {**rest, **REST}, "NominationDecided").body["status"]
    )
    kept = {"resourceRequests": [{"name": "main"}], "requeueState": {"count": 1}}
    assert kept.items() <= apply_of(Scene("a").reserved(), kept, "NominationDecided").body["status"].items()


def test_the_selection_leaves_the_nomination_out_and_answers_topology_in_the_admission() -> None:
    waits = {"name": "main", "count": 1, "delayedTopologyRequest": "Pending"}
    rest: Json = {"admission": {"clusterQueue": "cq", "podSetAssignments": [waits]}}
    scene = Scene("a").cloned("a").clone("a", {"Admitted": True}, topology=["main"])
    scene.decide()
    status = apply_of(scene.remote_job("a"), rest, delayed_topology=["main"], assignments=[waits]).body["status"]
    assert status["clusterName"] == "a"
    assert "nominatedClusterNames" not in status
    assert status["admission"]["podSetAssignments"] == [{**waits, "delayedTopologyRequest": "Ready"}]
    assert status["admission"]["clusterQueue"] == "cq"


def test_a_check_that_only_changes_its_state_is_applied_alone_under_multikueues_name() -> None:
    other = CheckState(name="other", state="Ready", message="o", last_transition_time="T0")
    ours = CheckState(name=CHECK, state="Ready", message="m", last_transition_time="T1", retry_count=1)
    scene = Scene("a").running("a").clone_gone("a").remote_job_gone("a")
    request = apply_of(scene, REST, checks=[other, ours])
    assert (request.content_type, request.field_manager) == (APPLY_PATCH, "kueue.x-k8s.io/multikueue")
    assert [entry["name"] for entry in request.body["status"].pop("admissionChecks")] == [CHECK]
    assert request.body["status"] == {}
    assert request.resource_version


def test_a_copy_that_its_worker_evicted_is_taken_back_with_the_whole_set() -> None:
    request = apply_of(Scene("a").running("a").clone("a", {"Evicted": True}), REST)
    assert request.field_manager == "kueue-admission"
    assert request.body["status"]["clusterName"] == "a"  # Kueue's eviction removes it, and needs to be its only owner


@pytest.mark.parametrize("applied", [True, False])
def test_what_is_mended_is_queued_again_by_a_condition(applied: bool) -> None:
    """Kueue's queues look at who was set aside again for a change of Requeued, and not for one of a check."""
    scene = Scene("a").job(execution_policy="perhaps")
    scene.workload({"QuotaReserved": False}, check="Rejected").job(execution_policy="never-twice")
    scene.decide()
    if applied:
        request = apply_of(scene, REST, check="Rejected", conditions={"QuotaReserved": False})
        assert request.field_manager == "kueue-admission"
    else:
        request = request_of(scene)
    status = request.body["status"]
    assert [(entry["name"], entry["state"]) for entry in status["admissionChecks"]] == [(CHECK, "Pending")]
    assert [one["type"] for one in status["conditions"]] == ["QuotaReserved", "Requeued"]
    requeued = status["conditions"][-1]
    assert (requeued["status"], requeued["reason"]) == ("True", "NoLongerRejected")


def test_the_end_is_applied_with_the_generation() -> None:
    scene = Scene("a").running("a").remote_job("a", status="00" * 32, finished=True)
    scene.clone("a", {"Finished": ("Succeeded", "Job finished successfully")})
    request = apply_of(scene, REST, generation=3)
    assert request.field_manager == "kueue-admission"
    assert request.body["status"]["conditions"][-1]["observedGeneration"] == 3


def test_names_that_stayed_are_removed_whoever_owns_them() -> None:
    scene = Scene("a").running("a")
    request = apply_of(scene, REST, "NamesClearDecided", conditions={"Evicted": True}, check="Pending")
    assert (request.content_type, request.field_manager) == (MERGE_PATCH, "")
    assert request.body["status"] == {"clusterName": None, "nominatedClusterNames": None}


# --- the job's status ------------------------------------------------------------------------------------------------


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
    found = JOB_KINDS[adapter]
    before = copy.deepcopy(status)
    drained = found.drained(status)
    assert found.active(status)
    assert not found.active(drained)
    assert status == before
    assert json.dumps(drained).count("failed") == json.dumps(status).count("failed")
