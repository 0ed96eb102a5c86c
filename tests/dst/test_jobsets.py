"""JobSets in the simulation: they are submitted, dispatched, lost and found like Jobs, and the same rules look at
them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.workloads.runs import RunRules, runs
from controlplane.dst.play import play
from controlplane.dst.scenes.workloads.plan import plan_of
from controlplane.kube.kinds import JOBS, JOBSETS, Json
from controlplane.kube.kueue_names import ORIGIN_LABEL, PREBUILT
from controlplane.simulation.apiserver.history import Commit, record_of
from tests.dst.plans import ended, held, plan, step, told


def test_a_job_set_runs_on_one_cluster_and_finishes() -> None:
    outcome = play(plan(step(5, "submit-set", "job-set-1", 20, 3)))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided", "job-set-1")) == 1
    assert len(told(outcome, "ADDED JobSet job-set-1")) == 2  # the user's, and one copy
    assert len(ended(outcome)) == 1


@pytest.mark.parametrize(("name", "requeued"), [("job-set-1", 1), ("once-set-1", 0)])
def test_a_lost_job_set_is_queued_again_after_the_grace_and_under_never_twice_is_not(name: str, requeued: int) -> None:
    outcome = play(plan(step(5, "submit-set", name, 250, 4), step(30, "partition", "w1", 300), step(290, "cut", "w2")))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == 1
    assert len(told(outcome, "CheckStateDecided", "RemoteLost")) == requeued


def test_a_worker_that_does_not_serve_job_sets_gets_jobs_all_the_same() -> None:
    steps = [
        step(1, "sets-off", "w1", 120),
        step(1, "sets-off", "w2", 120),
        step(1, "sets-off", "w3", 120),
        step(20, "submit", "job-1", 5, 1),
        step(20, "submit-set", "job-set-2", 5, 1),
    ]
    outcome = play(plan(*steps))
    assert held(outcome)
    (job,) = told(outcome, "JobCreationDecided", "job-job-1")
    (job_set,) = told(outcome, "JobCreationDecided", "jobset-job-set-2")
    assert float(job.split()[0]) < 60 < 120 < float(job_set.split()[0])


def test_somebody_elses_job_set_of_the_same_name_stays() -> None:
    steps = [step(4, "submit-set", "job-set-1", 60, 1), *(step(4.01, "foreign-job", w) for w in ("w1", "w2"))]
    outcome = play(plan(*steps))
    assert held(outcome)
    assert len(told(outcome, "ADDED JobSet job-set-1")) == 4


def job_set(active: int, *, suspend: bool = False, done: bool = False) -> Json:
    conditions = [{"type": "Completed", "status": "True"}] if done else []
    return {
        "spec": {"suspend": suspend, "replicatedJobs": [{"name": "workers"}]},
        "status": {"replicatedJobsStatus": [{"name": "workers", "active": active}], "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (job_set(1), True),
        (job_set(0), False),
        (job_set(1, suspend=True), False),
        (job_set(1, done=True), False),
        ({"spec": {}}, False),
    ],
)
def test_when_a_job_set_runs(obj: Json, expected: bool) -> None:
    assert runs(JOBSETS, obj) is expected


@pytest.mark.parametrize("kind", [JOBS, JOBSETS])
def test_two_that_run_at_once_break_the_rule(kind: Any) -> None:
    loop = VirtualLoop("test")  # type: ignore[abstract]
    trace, now = Trace(loop), datetime(2026, 1, 1, tzinfo=UTC)
    rule = RunRules(trace, timedelta(minutes=3), lambda: now, lambda name: None)
    metadata = {
        "namespace": "default",
        "name": "a",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    metadata |= {"labels": {ORIGIN_LABEL: "multikueue"}, "annotations": {PREBUILT: "w"}}
    body = job_set(1) if kind == JOBSETS else {"spec": {}, "status": {"active": 1}}
    for cluster in ("w1", "w2"):
        assert trace.violation is None
        rule.on_commit(
            cluster, Commit("ADDED", record_of(kind, {"metadata": {**metadata, "uid": cluster}, **body}), None)
        )
    assert trace.violation is not None
    assert trace.violation.rule == "one cluster runs a workload"


@pytest.mark.deep
def test_the_first_edition_knows_no_job_sets() -> None:
    outcome = play(plan_of(7, edition=1))
    assert not told(outcome, "jobsets")
    assert told(play(plan_of(7)), "jobsets")
