"""The controllers that run jobs: batch/v1 Jobs and JobSets, without pods.

In: jobs that are neither suspended nor managed by somebody else. Out: their statuses, in the transitions and words of
the real controllers (`pkg/controller/job`, JobSet's `jobset_controller`): started, ready, finished after a while, or
suspended again. How long a job runs and how it ends is said by its annotations, otherwise by the cluster's `JobPace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from controlplane.clock import Clock
from controlplane.kube import durations
from controlplane.kube.kinds import JOBS, JOBSETS, Json, Kind, meta
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View
from controlplane.simulation.kueue.common import condition, difference, parse_timestamp, set_condition, timestamp
from controlplane.simulation.kueue.podsets import INTEGRATIONS, suspended

DURATION: Final = "simulation.controlplane/duration"
OUTCOME: Final = "simulation.controlplane/outcome"

_KINDS: Mapping[str, Kind] = {JOBS.name: JOBS, JOBSETS.name: JOBSETS}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPace:
    """How jobs run where their annotations do not say: `duration` from start to end, `startup` until pods are ready,
    and the outcome.

    `brief` leaves out the intermediate states of the real controllers (pods not ready yet, criteria met but not
    complete), which halves the writes.
    """

    duration: timedelta = timedelta(seconds=5)
    startup: timedelta = timedelta(0)
    outcome: Literal["succeed", "fail"] = "succeed"
    brief: bool = False


class JobController(Behaviour):
    """Runs the Jobs and JobSets of one cluster."""

    def __init__(self, name: str, view: View, clock: Clock, pace: JobPace) -> None:
        super().__init__(name, clock)
        self._view, self._pace = view, pace
        self._started: dict[str, float] = {}
        view.listen(self._on_change)

    def reconcile(self, key: Key) -> float | None:
        """Take a job one step on; return after how many seconds the next is due."""
        kind = _KINDS[key[0]]
        job = self._view.get(kind, key[1], key[2])
        integration = INTEGRATIONS[kind]
        if job is None or meta(job).get("deletionTimestamp") or integration.finished(job) is not None:
            return None
        if job["spec"].get("managedBy") not in (None, integration.own_controller):
            return None
        status = dict(job.get("status") or {})
        if suspended(job):
            self._started.pop(meta(job)["uid"], None)
            (_suspend_job if kind == JOBS else _suspend_job_set)(job, status, self._stamp())
            self._write(kind, job, status)
            return None
        return self._run(kind, job, status)

    def _run(self, kind: Kind, job: Json, status: Json) -> float | None:
        uid = meta(job)["uid"]
        running = _job_running(job) if kind == JOBS else _job_set_running(job)
        if not running:
            self._started[uid] = self.clock.monotonic()
            ready = not self._pace.startup
            (_start_job if kind == JOBS else _start_job_set)(job, status, self._stamp(), ready=ready)
            self._write(kind, job, status)
            return self._left(kind, job)
        left = self._left(kind, job)
        if left > 0:
            if self._elapsed(kind, job) >= self._pace.startup.total_seconds():
                (_ready_job if kind == JOBS else _ready_job_set)(job, status)
                self._write(kind, job, status)
            return left
        success = self._outcome(job) == "succeed"
        if kind == JOBSETS:
            _finish_job_set(job, status, self._stamp(), success=success)
        elif not self._pace.brief and not _target_set(job):
            _meet_criteria(job, status, self._stamp(), success=success)
        else:
            _finish_job(job, status, self._stamp(), success=success)
        self._write(kind, job, status)
        return None

    def _left(self, kind: Kind, job: Json) -> float:
        """Seconds until the next thing happens: ready, or the end."""
        elapsed, startup = self._elapsed(kind, job), self._pace.startup.total_seconds()
        left = self._duration(job) - elapsed
        return min(left, startup - elapsed) if 0 <= elapsed < startup < left + elapsed else left

    def _elapsed(self, kind: Kind, job: Json) -> float:
        began = self._started.get(meta(job)["uid"])
        if began is not None:
            return self.clock.monotonic() - began
        since = (job.get("status") or {}).get("startTime") if kind == JOBS else _resumed_at(job)
        past = (self.clock.now() - parse_timestamp(since)).total_seconds() if since else 0.0
        self._started[meta(job)["uid"]] = self.clock.monotonic() - past
        return past

    def _duration(self, job: Json) -> float:
        said = (meta(job).get("annotations") or {}).get(DURATION)
        try:
            return (durations.parse(said) if said else self._pace.duration).total_seconds()
        except ValueError:
            return self._pace.duration.total_seconds()

    def _outcome(self, job: Json) -> str:
        return str((meta(job).get("annotations") or {}).get(OUTCOME) or self._pace.outcome)

    def _stamp(self) -> str:
        return timestamp(self.clock.now())

    def _write(self, kind: Kind, job: Json, status: Json) -> None:
        old = job.get("status") or {}
        if status == old:
            return
        metadata = meta(job)
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": difference(old, status)}
        manager = "kube-controller-manager" if kind == JOBS else "jobset-controller"
        self._view.store.patch(
            kind, metadata["namespace"], metadata["name"], patch, subresource="status", field_manager=manager
        )

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        if kind not in (JOBS, JOBSETS):
            return
        metadata = meta(new or old or {})
        if new is None:
            self._started.pop(metadata["uid"], None)
        else:
            self.mark((kind.name, metadata["namespace"], metadata["name"]))


# batch/v1 Job


def _pods(job: Json) -> int:
    parallelism, completions = job["spec"].get("parallelism", 1), job["spec"].get("completions")
    return int(parallelism) if completions is None else min(int(parallelism), int(completions))


def _job_running(job: Json) -> bool:
    return bool((job.get("status") or {}).get("startTime"))


def _suspend_job(job: Json, status: Json, at: str) -> None:
    set_condition(status, "Suspended", True, "JobSuspended", "Job suspended", at=at)
    status.pop("startTime", None)
    status.pop("active", None)
    status.pop("uncountedTerminatedPods", None)
    status.update({"ready": 0, "terminating": 0})
    status["conditions"] = [c for c in status["conditions"] if c["type"] not in ("SuccessCriteriaMet", "FailureTarget")]


def _start_job(job: Json, status: Json, at: str, *, ready: bool) -> None:
    if condition(job, "Suspended") is not None:
        set_condition(status, "Suspended", False, "JobResumed", "Job resumed", at=at)
    pods = _pods(job)
    status.update(
        {
            "startTime": at,
            "active": pods,
            "ready": pods if ready else 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
        }
    )


def _ready_job(job: Json, status: Json) -> None:
    status["ready"] = status.get("active", 0)


def _target_set(job: Json) -> bool:
    return condition(job, "SuccessCriteriaMet") is not None or condition(job, "FailureTarget") is not None


def _verdict(success: bool) -> tuple[str, str]:
    if success:
        return "CompletionsReached", "Reached expected number of succeeded pods"
    return "BackoffLimitExceeded", "Job has reached the specified backoff limit"


def _meet_criteria(job: Json, status: Json, at: str, *, success: bool) -> None:
    """The pods have ended and are not counted yet."""
    ended = [f"{meta(job)['uid']}-{index}" for index in range(_pods(job))]
    status.pop("active", None)
    status.update({"ready": 0, "uncountedTerminatedPods": {"succeeded" if success else "failed": ended}})
    set_condition(status, "SuccessCriteriaMet" if success else "FailureTarget", True, *_verdict(success), at=at)


def _finish_job(job: Json, status: Json, at: str, *, success: bool) -> None:
    status.pop("active", None)
    status.update({"ready": 0, "terminating": 0, "uncountedTerminatedPods": {}})
    if success:
        completions = job["spec"].get("completions")
        status.update({"succeeded": _pods(job) if completions is None else int(completions), "completionTime": at})
    else:
        status["failed"] = status.get("failed", 0) + _pods(job)
    for type_ in ("SuccessCriteriaMet", "Complete") if success else ("FailureTarget", "Failed"):
        set_condition(status, type_, True, *_verdict(success), at=at)


# jobset.x-k8s.io/v1alpha2 JobSet


def _counts(job_set: Json, *counts: str) -> list[Json]:
    """One entry for each replicated job; `counts` names the fields that hold its number of replicas, the others are
    0.
    """
    fields = ("active", "failed", "ready", "succeeded", "suspended")
    return [
        {"name": replicated["name"], **{f: int(replicated.get("replicas", 1)) if f in counts else 0 for f in fields}}
        for replicated in job_set["spec"]["replicatedJobs"]
    ]


def _job_set_running(job_set: Json) -> bool:
    statuses = (job_set.get("status") or {}).get("replicatedJobsStatus") or ()
    return any(entry.get("active") for entry in statuses)


def _resumed_at(job_set: Json) -> str | None:
    found = condition(job_set, "Suspended")
    if found is not None and found["status"] == "False":
        return str(found["lastTransitionTime"])
    return str(meta(job_set)["creationTimestamp"])


def _suspend_job_set(job_set: Json, status: Json, at: str) -> None:
    set_condition(status, "Suspended", True, "SuspendedJobs", "jobset is suspended", at=at)
    status["replicatedJobsStatus"] = _counts(job_set, "suspended")


def _start_job_set(job_set: Json, status: Json, at: str, *, ready: bool) -> None:
    if condition(job_set, "Suspended") is not None:
        set_condition(status, "Suspended", False, "ResumeJobs", "jobset is resumed", at=at)
    status["replicatedJobsStatus"] = _counts(job_set, "active", "ready") if ready else _counts(job_set, "active")
    status.setdefault("restarts", 0)


def _ready_job_set(job_set: Json, status: Json) -> None:
    status["replicatedJobsStatus"] = _counts(job_set, "active", "ready")


def _finish_job_set(job_set: Json, status: Json, at: str, *, success: bool) -> None:
    if success:
        set_condition(status, "Completed", True, "AllJobsCompleted", "jobset completed successfully", at=at)
        status["replicatedJobsStatus"] = _counts(job_set, "succeeded")
    else:
        set_condition(status, "Failed", True, "FailedJobs", "jobset failed due to one or more job failures", at=at)
        status["replicatedJobsStatus"] = _counts(job_set, "failed")
    status["terminalState"] = "Completed" if success else "Failed"
