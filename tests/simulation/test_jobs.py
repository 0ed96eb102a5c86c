"""The controllers that run Jobs and JobSets: every transition of their statuses."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.controllers.jobs import JobPace
from tests.simulation.kueue_cluster import JOBS, JOBSETS, Cluster, says


def statuses(cluster: Cluster, kind: Kind) -> list[Json]:
    seen: list[Json] = []
    cluster.store.subscribe(lambda event: seen.append(event.object["status"]) if event.kind == kind else None)
    return seen


def test_a_job_starts_runs_and_completes() -> None:
    cluster = Cluster()
    cluster.submit("a", queue="", pods=3)
    seen = statuses(cluster, JOBS)
    cluster.settle()
    running = cluster.job("a")["status"]
    assert running == {
        "startTime": "2026-01-01T00:00:00Z",
        "active": 3,
        "ready": 3,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }
    cluster.move(9.9)
    assert cluster.job("a")["status"] == running
    cluster.move(0.1)
    done = cluster.job("a")["status"]
    ended = seen[-2]
    assert ended["uncountedTerminatedPods"] == {"succeeded": [f"uid-{_uid(cluster)}-{i}" for i in range(3)]}
    assert [c["type"] for c in ended["conditions"]] == ["SuccessCriteriaMet"]
    assert "active" not in ended
    assert [c["type"] for c in done["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert says({"status": done}, "Complete") == (
        "True",
        "CompletionsReached",
        "Reached expected number of succeeded pods",
    )
    assert (done["succeeded"], done["ready"], done["terminating"], done["uncountedTerminatedPods"]) == (3, 0, 0, {})
    assert done["completionTime"] == "2026-01-01T00:00:10Z"
    version = cluster.store.version
    cluster.move(100)
    assert cluster.store.version == version


def _uid(cluster: Cluster) -> str:
    return str(cluster.job("a")["metadata"]["uid"]).removeprefix("uid-")


def test_annotations_say_how_long_and_how_it_ends() -> None:
    cluster = Cluster()
    notes = {"simulation.controlplane/duration": "1m30s", "simulation.controlplane/outcome": "fail"}
    cluster.submit("a", queue="", annotations=notes)
    cluster.settle()
    cluster.move(89)
    assert cluster.job("a")["status"]["active"] == 1
    cluster.move(1)
    done = cluster.job("a")
    assert says(done, "FailureTarget")[0] == "True"
    assert says(done, "Failed") == ("True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    assert done["status"]["failed"] == 1
    assert "completionTime" not in done["status"]


def test_an_unreadable_duration_counts_as_none() -> None:
    cluster = Cluster()
    cluster.submit("a", queue="", annotations={"simulation.controlplane/duration": "soon"})
    cluster.settle()
    cluster.move(10)
    assert says(cluster.job("a"), "Complete")[0] == "True"


def test_pods_become_ready_after_the_startup() -> None:
    cluster = Cluster(pace=JobPace(duration=timedelta(seconds=10), startup=timedelta(seconds=2)))
    cluster.submit("a", queue="", pods=2)
    cluster.submit("s", kind=JOBSETS, queue="")
    cluster.settle()
    assert (cluster.job("a")["status"]["active"], cluster.job("a")["status"]["ready"]) == (2, 0)
    assert cluster.job("s", JOBSETS)["status"]["replicatedJobsStatus"][0]["ready"] == 0
    cluster.move(2)
    assert cluster.job("a")["status"]["ready"] == 2
    assert cluster.job("s", JOBSETS)["status"]["replicatedJobsStatus"][0]["ready"] == 2
    cluster.move(8)
    assert says(cluster.job("a"), "Complete")[0] == "True"


def test_a_brief_pace_goes_straight_to_the_end() -> None:
    cluster = Cluster(pace=JobPace(duration=timedelta(seconds=1), brief=True))
    cluster.submit("a", queue="")
    seen = statuses(cluster, JOBS)
    cluster.settle()
    cluster.move(1)
    assert len(seen) == 2
    assert [c["type"] for c in seen[-1]["conditions"]] == ["SuccessCriteriaMet", "Complete"]


def test_suspending_stops_and_resuming_starts_over() -> None:
    cluster = Cluster()
    cluster.submit("a", queue="", suspend=True)
    cluster.settle()
    assert says(cluster.job("a"), "Suspended") == ("True", "JobSuspended", "Job suspended")
    assert "startTime" not in cluster.job("a")["status"]
    cluster.store.patch(JOBS, "default", "a", {"spec": {"suspend": False}})
    cluster.move(5)
    assert says(cluster.job("a"), "Suspended") == ("False", "JobResumed", "Job resumed")
    assert cluster.job("a")["status"]["startTime"] == "2026-01-01T00:00:05Z"
    cluster.store.patch(JOBS, "default", "a", {"spec": {"suspend": True}})
    cluster.move(4)
    stopped = cluster.job("a")["status"]
    assert says({"status": stopped}, "Suspended")[0] == "True"
    assert "active" not in stopped
    assert "startTime" not in stopped
    cluster.store.patch(JOBS, "default", "a", {"spec": {"suspend": False}})
    cluster.settle()
    cluster.move(9)
    assert cluster.job("a")["status"]["active"] == 1, "the time before the suspension does not count"
    cluster.move(1)
    assert says(cluster.job("a"), "Complete")[0] == "True"


@pytest.mark.parametrize("kind", [JOBS, JOBSETS])
def test_what_somebody_else_manages_is_left_alone(kind: Kind) -> None:
    cluster = Cluster()
    cluster.submit("a", kind=kind, queue="", managedBy="kueue.x-k8s.io/multikueue")
    cluster.settle()
    cluster.move(100)
    assert not cluster.job("a", kind).get("status")


def test_a_job_set_starts_and_completes() -> None:
    cluster = Cluster()
    cluster.submit("s", kind=JOBSETS, queue="", replicas=2)
    cluster.settle()
    counts = {"name": "workers", "active": 2, "ready": 2, "succeeded": 0, "failed": 0, "suspended": 0}
    assert cluster.job("s", JOBSETS)["status"] == {"replicatedJobsStatus": [counts], "restarts": 0}
    cluster.move(10)
    done = cluster.job("s", JOBSETS)
    assert says(done, "Completed") == ("True", "AllJobsCompleted", "jobset completed successfully")
    assert done["status"]["terminalState"] == "Completed"
    assert done["status"]["replicatedJobsStatus"] == [{**counts, "active": 0, "ready": 0, "succeeded": 2}]


def test_a_job_set_fails_and_is_suspended_and_resumed() -> None:
    cluster = Cluster(pace=JobPace(duration=timedelta(seconds=10), outcome="fail"))
    cluster.submit("s", kind=JOBSETS, queue="", suspend=True)
    cluster.settle()
    waiting = cluster.job("s", JOBSETS)
    assert says(waiting, "Suspended") == ("True", "SuspendedJobs", "jobset is suspended")
    assert waiting["status"]["replicatedJobsStatus"][0]["suspended"] == 2
    cluster.store.patch(JOBSETS, "default", "s", {"spec": {"suspend": False}})
    cluster.settle()
    assert says(cluster.job("s", JOBSETS), "Suspended") == ("False", "ResumeJobs", "jobset is resumed")
    cluster.move(10)
    done = cluster.job("s", JOBSETS)
    assert says(done, "Failed") == ("True", "FailedJobs", "jobset failed due to one or more job failures")
    assert done["status"]["terminalState"] == "Failed"


def test_after_a_restart_a_running_job_goes_on_where_it_was() -> None:
    from controlplane.simulation.controllers.behaviour import View
    from controlplane.simulation.controllers.jobs import JobController

    cluster = Cluster()
    cluster.submit("a", queue="")
    cluster.settle()
    cluster.move(7)
    cluster.view.stop()
    view = View(cluster.store, (JOBS, JOBSETS))
    again = JobController("jobs", view, cluster.clock, JobPace(duration=timedelta(seconds=10)))
    view.start()
    again.drain()
    assert cluster.job("a")["status"]["active"] == 1
    cluster.clock.move(3)
    again.drain()
    assert says(cluster.job("a"), "Complete")[0] == "True"


def test_a_deleted_job_is_forgotten() -> None:
    cluster = Cluster()
    cluster.submit("a", queue="")
    cluster.settle()
    cluster.store.delete(JOBS, "default", "a")
    cluster.move(100)
    assert cluster.store.list(JOBS)[0] == []
