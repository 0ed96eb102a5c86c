"""A PipelineRun as a kind that is dispatched: inert here, whole on the worker (docs/explanation/coscheduling.md)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.events import JobCreationDecided
from controlplane.controllers.multikueue.observations import Owner, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.render import render
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.job_kinds import JOB_KINDS, adapters_for
from controlplane.job_kinds.pipelinerun import PipelineRun
from controlplane.kube.kinds import PIPELINE_RUNS
from controlplane.kube.kueue_names import ORIGIN_LABEL, PREBUILT
from controlplane.log.event import body_of
from controlplane.settings import KINDS, Settings
from tests.support.rows import each

ADAPTER = PipelineRun()
RUNNING = {"type": "Succeeded", "status": "Unknown", "reason": "Running"}
DONE = {"type": "Succeeded", "status": "True"}
FAILED = {"type": "Succeeded", "status": "False", "reason": "PipelineRunTimeout"}


def test_it_is_registered_and_has_to_be_asked_for() -> None:
    assert adapters_for(["tekton.dev/pipelinerun"]) == {
        "tekton.dev/v1, Kind=PipelineRun": JOB_KINDS["tekton.dev/pipelinerun"]
    }
    assert set(KINDS) == set(JOB_KINDS)
    assert Settings().multikueue.kinds == ("batch/job", "jobset.x-k8s.io/jobset")


@pytest.mark.parametrize(
    ("spec", "controller"), [({}, ""), ({"managedBy": "kueue.x-k8s.io/multikueue"}, "kueue.x-k8s.io/multikueue")]
)
def test_who_manages_it(spec: dict[str, str], controller: str) -> None:
    assert ADAPTER.managed_by({"spec": spec}) == controller


@pytest.mark.parametrize(
    ("status", "suspended"),
    [("PipelineRunPending", True), ("StoppedRunFinally", True), ("", False), ("Cancelled", False), (None, False)],
)
def test_pending_is_suspended_and_so_is_what_kueue_stopped(status: str | None, suspended: bool) -> None:
    assert ADAPTER.suspended({"spec": {"status": status}}) is suspended
    assert ADAPTER.suspended({}) is False


@each(
    ("status", "finished", "active"),
    [
        ({}, False, False),
        ({"conditions": [RUNNING]}, False, False),
        ({"startTime": "t", "conditions": [RUNNING]}, False, True),
        ({"startTime": "t", "conditions": [DONE]}, True, False),
        ({"startTime": "t", "conditions": [FAILED]}, True, False),
        ({"startTime": "t", "conditions": [{"type": "Other", "status": "True"}]}, False, True),
    ],
)
def test_how_it_stands(status: dict[str, Any], finished: bool, active: bool) -> None:
    assert (ADAPTER.outcome(status) is not None) is finished
    assert ADAPTER.active(status) is active
    assert not ADAPTER.active(ADAPTER.drained(status))


def test_the_copy() -> None:
    template = {
        "labels": {"team": "a"},
        "annotations": {"x": "y"},
        "spec": {"managedBy": "kueue.x-k8s.io/multikueue", "pipelineRef": {"name": "build"}},
    }
    assert ADAPTER.clone(template, "ci", "build-1", "workload-1", "hub") == {
        "apiVersion": "tekton.dev/v1",
        "kind": "PipelineRun",
        "metadata": {
            "namespace": "ci",
            "name": "build-1",
            "labels": {"team": "a", ORIGIN_LABEL: "hub"},
            "annotations": {"x": "y", PREBUILT: "workload-1"},
        },
        "spec": {"pipelineRef": {"name": "build"}, "status": "PipelineRunPending"},
    }
    assert template["spec"]["managedBy"]


def test_no_start_time_is_written_to_a_run_that_is_pending() -> None:
    for local in (True, False):
        allowed = ADAPTER.may_relay(local_suspended=local, remote_suspended=False, remote_finished=True)
        assert allowed is not local


def test_the_status_is_drained_of_what_runs() -> None:
    status = {
        "startTime": "t",
        "childReferences": [{"name": "x"}],
        "pipelineSpec": {"tasks": []},
        "conditions": [RUNNING, {"type": "Coscheduled", "status": "True"}],
    }
    kept = [{"type": "Coscheduled", "status": "True"}]
    assert ADAPTER.drained(status) == {"pipelineSpec": {"tasks": []}, "conditions": kept}
    assert ADAPTER.kind == PIPELINE_RUNS
    assert not ADAPTER.marks_suspended()
    assert not ADAPTER.overtaken_counts()


def test_the_copy_says_which_attempt_it_is() -> None:
    state = WorkloadState.initial("workload/ci/workload-1")
    owner = Owner(api_version="tekton.dev/v1", kind="PipelineRun", name="build-1", uid="u")
    local = WorkloadObserved(
        namespace="ci", name="workload-1", uid="w", resource_version="1", owner=owner, template="t", spec_key="k"
    )
    made = body_of({"labels": {}, "annotations": {}, "spec": {}})
    decided = JobCreationDecided(
        cluster="a", attempt=3, kind=PIPELINE_RUNS.name, template=made.ref, reason=WorkloadReason.ADMITTED_ON_WORKER
    )
    policy = MultiKueuePolicy(adapters=adapters_for(JOB_KINDS))
    bodies = {made.ref: made.text.encode()}
    request = render(msgspec.structs.replace(state, local=local), None, decided, bodies, policy, datetime.now(UTC))
    assert request.body["metadata"]["annotations"]["controlplane/attempt"] == "3"
    assert request.body["metadata"]["name"] == "build-1"
