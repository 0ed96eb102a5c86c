"""`batch/v1` Job: one pod set named `main` (kubernetes-sigs/kueue pkg/controller/jobs/job/job_controller.go,
job_multikueue_adapter.go, ff69552e; statuses: kubernetes/kubernetes pkg/controller/job/job_controller.go)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.job_kinds.base import PodSet, SimulatedKind
from controlplane.kube.conditions import condition, set_condition
from controlplane.kube.kinds import JOBS, Json, meta

_MINIMUM = "kueue.x-k8s.io/job-min-parallelism"
_SAME_COMPLETIONS = "kueue.x-k8s.io/job-completions-equal-parallelism"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_WHOLE = re.compile(r"\d{1,10}", re.ASCII)
_COUNTERS = ("succeeded", "failed")
_CRITERIA = ("SuccessCriteriaMet", "FailureTarget")

# Set by the worker's own API server or controller when the copy is created: the manager's values would be refused
# there.
GENERATED_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid")


class BatchJob(SimulatedKind):
    """A Job."""

    integration = "batch/job"
    kind = JOBS
    own_controller = "kubernetes.io/job-controller"
    status_manager = "kube-controller-manager"
    succeeded = "Complete"
    failed = "Failed"
    elastic = sliced = True
    reconciled = True
    stops_by_steps = True
    index_label = "batch.kubernetes.io/job-completion-index"
    generated_labels = (*GENERATED_LABELS, "batch.kubernetes.io/job-name")

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return the pod set: as many pods as run at once, never more than have to complete."""
        return [PodSet("main", pods_at_once(job["spec"]), ("spec", "template"))]

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod set, without the labels that the Job controller puts on the template."""
        (found,) = super().pod_sets(job)
        _take_labels(found["template"])
        return [found]

    def minimum(self, job: Mapping[str, Any]) -> int | None:
        """Return the annotation's number, if it is one."""
        found = str((meta(job).get("annotations") or {}).get(_MINIMUM, ""))
        return int(found) if _WHOLE.fullmatch(found) else None

    def counted(self, job: Mapping[str, Any], counts: Mapping[str, int]) -> Json:
        """Return the parallelism, and as many completions if an annotation asks for that."""
        if self.minimum(job) is None or "main" not in counts:
            return {}
        same = str((meta(job).get("annotations") or {}).get(_SAME_COMPLETIONS, "")) in _TRUE
        return {"parallelism": counts["main"], **({"completions": counts["main"]} if same else {})}

    def ready(self, job: Mapping[str, Any]) -> bool:
        """Return whether as many pods as run at once are ready, or have succeeded."""
        status = job.get("status") or {}
        uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
        return (status.get("succeeded") or 0) + (status.get("ready") or 0) + len(uncounted) >= pods_at_once(job["spec"])

    def reclaimable(self, job: Mapping[str, Any]) -> dict[str, int] | None:
        """Return how many of those that run at once have nothing left to do."""
        spec, status = job["spec"], job.get("status") or {}
        parallelism = 1 if spec.get("parallelism") is None else int(spec["parallelism"])
        completions = parallelism if spec.get("completions") is None else int(spec["completions"])
        ended = int(status.get("succeeded") or 0)
        if spec.get("completionMode") == "Indexed":
            ended = _ended_indexes(status, completions)
        free = parallelism - max(completions - ended, 0)
        return {"main": free} if parallelism > 1 and ended > 0 and free > 0 else {}

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether `status.active` is not 0."""
        return bool(status.get("active"))

    def clone_spec(self, template: Json) -> Json:
        """Return the spec without selector, and without generated labels in its template; as it is where the user chose
        them (`manualSelector`): the worker's API server makes none then, and refuses a Job without."""
        spec = super().clone_spec(template)
        if spec.get("manualSelector") is not True:
            spec.pop("selector", None)
            _take_labels(spec.get("template", {}))
        return spec

    def resized(self, part: Json, job: Mapping[str, Any]) -> Json:
        """Return the parallelism."""
        return {"parallelism": job["spec"].get("parallelism")}

    def of_size(self, spec: Json, size: Mapping[str, int]) -> Json:
        """Return the spec with the parallelism of its pod set."""
        return {**spec, "parallelism": size["main"]} if "main" in size else spec

    def may_relay(self, *, local_suspended: bool, remote_suspended: bool, remote_finished: bool) -> bool:
        """A suspended Job cannot have a start time: relay when it runs here, when both rest, or when all is over."""
        return not local_suspended or remote_suspended or remote_finished

    def shown(self, status: Json, local: Json, *, suspended: bool) -> Json:
        """Return the copy's status as the API server takes it for the user's Job, which takes nothing back of what it
        was told (`ValidateJobStatusUpdate` in kubernetes/kubernetes pkg/apis/batch/validation/validation.go, 1.36.2):
        the copy of a later attempt counts anew, and one that was stopped and goes on has another start.
        """
        found = {**status, **{key: local[key] for key in _COUNTERS if (local.get(key) or 0) > (status.get(key) or 0)}}
        start, end = local.get("startTime"), status.get("completionTime")
        if start and not suspended:
            found["startTime"] = start
            if end:
                found["completionTime"] = max(start, end)
        kept = [one for one in _true(local, _CRITERIA) if not _true(status, (*_CRITERIA, self.failed, self.succeeded))]
        if kept:
            types = {one["type"] for one in kept}
            said = [one for one in status.get("conditions") or () if one["type"] not in types]
            found["conditions"] = [*said, *kept]
        return found

    def drained(self, status: Json) -> Json:
        """Return the status with no active, ready or terminating pods and no start time."""
        kept = {
            key: value for key, value in status.items() if key not in ("active", "ready", "terminating", "startTime")
        }
        if status.get("active"):
            kept["active"] = 0
        if status.get("ready"):
            kept["ready"] = 0
        return kept

    def marks_suspended(self) -> bool:
        """Kueue adds the condition for a Job."""
        return True

    def runs(self, job: Mapping[str, Any]) -> bool:
        """Return whether it has a start time."""
        return bool((job.get("status") or {}).get("startTime"))

    def since(self, job: Mapping[str, Any]) -> str | None:
        """Return the start time."""
        found = (job.get("status") or {}).get("startTime")
        return str(found) if found else None

    def show_suspended(self, job: Json, status: Json, at: str) -> None:
        """Say so in the condition, and take away start time and pods."""
        set_condition(status, "Suspended", True, "JobSuspended", "Job suspended", at=at)
        for field in ("startTime", "active", "uncountedTerminatedPods"):
            status.pop(field, None)
        status.update({"ready": 0, "terminating": 0})
        status["conditions"] = [
            one for one in status["conditions"] if one["type"] not in ("SuccessCriteriaMet", "FailureTarget")
        ]

    def show_started(self, job: Json, status: Json, at: str, *, ready: bool) -> None:
        """Show the start time and the active pods."""
        if condition(job, "Suspended") is not None:
            set_condition(status, "Suspended", False, "JobResumed", "Job resumed", at=at)
        pods = pods_at_once(job["spec"])
        status |= {"startTime": at, "active": pods, "ready": pods if ready else 0, "terminating": 0}
        status["uncountedTerminatedPods"] = {}

    def show_ready(self, job: Json, status: Json) -> None:
        """Show that all active pods are ready."""
        status["ready"] = status.get("active", 0)

    def show_ended(self, job: Json, status: Json, at: str, *, success: bool, brief: bool) -> None:
        """Show first that the pods have ended and are not counted yet, then that the Job has."""
        pods, met = pods_at_once(job["spec"]), "SuccessCriteriaMet" if success else "FailureTarget"
        status.pop("active", None)
        if not brief and not any(condition(job, one) for one in ("SuccessCriteriaMet", "FailureTarget")):
            ended = [f"{meta(job)['uid']}-{index}" for index in range(pods)]
            status.update({"ready": 0, "uncountedTerminatedPods": {"succeeded" if success else "failed": ended}})
            set_condition(status, met, True, *_why(success), at=at)
            return
        status.update({"ready": 0, "terminating": 0, "uncountedTerminatedPods": {}})
        if success:
            completions = job["spec"].get("completions")
            status.update({"succeeded": pods if completions is None else int(completions), "completionTime": at})
        else:
            status["failed"] = status.get("failed", 0) + pods
        for type_ in (met, self.succeeded if success else self.failed):
            set_condition(status, type_, True, *_why(success), at=at)


def pods_at_once(spec: Mapping[str, Any]) -> int:
    """Return how many pods of a Job's spec run at one time."""
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    most = 1 if parallelism is None else int(parallelism)
    return most if completions is None else min(most, int(completions))


def _ended_indexes(status: Mapping[str, Any], completions: int) -> int:
    """Return how many indexes have completed, or have failed for good; those that were taken away do not count."""
    intervals = []
    for field in ("completedIndexes", "failedIndexes"):
        for interval in filter(None, str(status.get(field) or "").split(",")):
            first, _, last = interval.partition("-")
            if _WHOLE.fullmatch(first) and (not last or _WHOLE.fullmatch(last)):
                intervals.append((int(first), min(int(last or first), completions - 1)))
    ended, counted = 0, -1
    for begin, end in sorted(intervals):
        ended += max(end - max(begin, counted + 1) + 1, 0)
        counted = max(counted, end)
    return ended


def _take_labels(template: Json) -> None:
    labels = (template.get("metadata") or {}).get("labels") or {}
    for label in GENERATED_LABELS:
        labels.pop(label, None)


def _true(status: Json, kinds: Iterable[str]) -> list[Json]:
    """Return the conditions of some kinds that are true."""
    return [one for one in status.get("conditions") or () if one["type"] in kinds and one["status"] == "True"]


def _why(success: bool) -> tuple[str, str]:
    if success:
        return "CompletionsReached", "Reached expected number of succeeded pods"
    return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
