"""Kueue's job framework: a Workload for each job, and the job suspended or not as its Workload says.

In: the key of a job. Out: its Workload made, matched or finished; the job started when admitted, stopped when evicted;
quota released once the job's status says that nothing of it runs any more. The order of the steps is that of
`pkg/controller/jobframework/reconciler.go`. How a job is bound to a Workload made beforehand is the worker's business
(`kueue_worker`) and comes in as `bind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controlplane.job_kinds import INTEGRATIONS
from controlplane.job_kinds.base import JobKind, JobOutcome
from controlplane.kube.conditions import condition, is_true, set_condition
from controlplane.kube.kinds import RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, Json, Kind, meta
from controlplane.kube.kueue_names import (
    JOB_UID_LABEL,
    MAX_EXECUTION,
    ORIGIN_LABEL,
    POD_SET_LABEL,
    PRIORITY_CLASS,
    QUEUE_LABEL,
    RESOURCE_IN_USE,
    WORKER_POD,
)
from controlplane.kube.slices import SLICE_REPLACED, is_elastic
from controlplane.simulation.controllers.behaviour import Place, place_of
from controlplane.simulation.kueue import slices
from controlplane.simulation.kueue.common import controller_of, owner_reference, prebuilt_name, reindex, workload_name
from controlplane.simulation.kueue.core import Core
from controlplane.simulation.kueue.podsets import PodSetPlacement, admitted_sets, equivalent, placed, restored
from controlplane.simulation.kueue.status import draft, unreserve

JobKey = tuple[str, str, str]
Bind = Callable[[Kind, Json, str], Json | None]


def owner_of(workload: Mapping[str, Any], kinds: Iterable[Kind] = tuple(INTEGRATIONS)) -> JobKey | None:
    """Return the key of the job that controls a Workload: the name of its kind, namespace, name; None if none of the
    kinds does.
    """
    reference = controller_of(workload)
    named = (reference["apiVersion"], reference["kind"]) if reference is not None else None
    kind = next((one for one in kinds if (one.api_version, one.kind) == named), None)
    return (
        (kind.name, meta(workload)["namespace"], reference["name"])
        if kind is not None and reference is not None
        else None
    )


class JobReconciler:
    """The job controllers of one cluster's Kueue, or of a framework that brings kinds of its own."""

    def __init__(self, core: Core, bind: Bind, integrations: Mapping[Kind, JobKind] = INTEGRATIONS) -> None:
        self._core, self._bind, self._integrations = core, bind, integrations
        self._by_name = {kind.name: kind for kind in integrations}
        self._owned: dict[JobKey, dict[Place, None]] = {}
        self._bound: dict[Place, dict[JobKey, None]] = {}
        self._matches: dict[str, tuple[Any, ...]] = {}

    # What the view tells.

    def on_workload(self, old: Json | None, new: Json | None) -> list[JobKey]:
        """Keep the index of owned Workloads; return the jobs that have to be looked at."""
        key = place_of(new or old or {})
        before = owner_of(old, self._integrations) if old else None
        after = owner_of(new, self._integrations) if new else None
        reindex(self._owned, key, before, after)
        owners = [owner for owner in (before, after) if owner is not None]
        return list(dict.fromkeys([*owners, *self._bound.get(key, {})]))

    def on_job(self, kind: Kind, old: Json | None, new: Json | None) -> JobKey:
        """Keep the index of jobs that wait for a Workload by name; return the job's key."""
        namespace, name = place_of(new or old or {})
        job_key = (kind.name, namespace, name)
        before, after = (prebuilt_name(job, self._core.gates) if job else "" for job in (old, new))
        reindex(self._bound, job_key, (namespace, before) if before else None, (namespace, after) if after else None)
        if new is None and old is not None:
            self._matches.pop(meta(old)["uid"], None)
        return job_key

    # Reconciling.

    def reconcile(self, kind_name: str, namespace: str, name: str) -> None:
        """Take a job one step on."""
        kind = self._by_name[kind_name]
        job = self._core.view.get(kind, namespace, name)
        if job is None or meta(job).get("deletionTimestamp"):
            self._release_owned((kind_name, namespace, name))
            return
        if not _queue_name(job):
            return
        workload = self._ensure_workload(kind, job)
        job = self._core.view.get(kind, namespace, name) or job
        if workload is not None:
            self._with_workload(kind, job, workload)
        elif self._outcome(kind, job) is None:
            self._without_workload(kind, job)

    def _with_workload(self, kind: Kind, job: Json, workload: Json) -> None:
        """Let the job follow its Workload, or the Workload its job that has finished."""
        if is_true(workload, "Finished"):
            self._core.remove_finalizer(workload)
        elif meta(workload).get("deletionTimestamp"):
            self._stop(kind, job, workload)
            self._core.remove_finalizer(workload)
        elif (outcome := self._outcome(kind, job)) is not None:
            self._core.finish(workload, "Succeeded" if outcome.success else "Failed", outcome.message)
        elif is_true(workload, "Evicted"):
            self._evicted(kind, job, workload)
        elif not is_true(workload, "Admitted"):
            if slices.replaces(workload) is not None and not self._integrations[kind].suspended(job):
                return  # it runs on as large as it was until its next slice is admitted
            if self._integrations[kind].suspended(job):
                self._follow_labels(job, workload)
            else:
                self._stop(kind, job, workload)
        elif self._integrations[kind].suspended(job):
            self._start(kind, job, workload)

    def _release_owned(self, job_key: JobKey) -> None:
        """The job is gone or going: finish its Workloads as ownerless and let them go."""
        for key in list(self._owned.get(job_key, {})):
            workload = self._core.workload(*key)
            if workload is not None:
                self._core.orphaned(workload, may_finish=True)

    def _ensure_workload(self, kind: Kind, job: Json) -> Json | None:
        """Return the one Workload of the job, if there is one that fits; those that do not fit are updated or
        deleted.
        """
        if name := prebuilt_name(job, self._core.gates):
            return self._bind(kind, job, name)
        if self._sliced(kind, job):
            return self._ensure_slice(kind, job)
        match, others = self._choose(kind, job)
        waits = self._integrations[kind].suspended(job)
        if match is None and others and waits and not is_true(others[0], "QuotaReserved"):
            stale = others.pop(0)
            self._core.patch(stale, {"spec": {"podSets": self._pod_sets(kind, job)}})
            match = self._core.workload(*place_of(stale))
        if match is None and not waits and self._outcome(kind, job) is None:
            self._stop(kind, job, others[0] if len(others) == 1 else None)
        for workload in others:
            self._core.delete(workload)
        return match

    def _sliced(self, kind: Kind, job: Json) -> bool:
        return self._integrations[kind].elastic and is_elastic(job)

    def _live(self, kind: Kind, job: Json) -> list[Json]:
        """Return the job's Workloads that are not finished, oldest first."""
        keys = self._owned.get((kind.name, meta(job)["namespace"], meta(job)["name"]), {})
        found = [workload for key in keys if (workload := self._core.workload(*key)) is not None]
        return [one for one in found if not is_true(one, "Finished")]

    def _ensure_slice(self, kind: Kind, job: Json) -> Json | None:
        """Return the Workload of an elastic job that counts; a smaller size is changed in place, a larger one is that
        of another Workload.
        """
        chosen, over = slices.settle(self._live(kind, job))
        for one, replaced in over:
            reason = SLICE_REPLACED if replaced else "OutOfSync"
            self._core.finish(one, reason, "The workload slice is out of sync with its parent job")
        if chosen is None:
            return None
        wanted = slices.counts(self._integrations[kind].pod_sets(job))
        if slices.counts(chosen["spec"]["podSets"]) == wanted:
            return chosen
        if slices.fits_in_place(chosen, wanted):
            self._core.patch(chosen, {"spec": {"podSets": slices.resized(chosen, wanted)}})
            return self._core.workload(*place_of(chosen))
        return None

    def _choose(self, kind: Kind, job: Json) -> tuple[Json | None, list[Json]]:
        """Return the first Workload of a job that fits it, and the others that it has."""
        keys = self._owned.get((kind.name, meta(job)["namespace"], meta(job)["name"]), {})
        others = [workload for key in keys if (workload := self._core.workload(*key)) is not None]
        for at, workload in enumerate(others):
            if self.matches(kind, job, workload):
                return others.pop(at), others
        return None, others

    def matches(self, kind: Kind, job: Json, workload: Json) -> bool:
        """Return whether a Workload is for this very job and asks for the same; remembered until either changes."""
        owner = controller_of(workload)
        mine, theirs = meta(job), meta(workload)
        if (
            owner is None
            or owner["name"] != mine["name"]
            or (self._core.gates.finish_orphans and owner["uid"] != mine["uid"])
        ):
            return False
        admitted = is_true(workload, "Admitted")
        state = (mine.get("generation"), theirs["uid"], theirs.get("generation"), admitted)
        if self._matches.get(mine["uid"]) == state:
            return True
        limit = (mine.get("labels") or {}).get(MAX_EXECUTION)
        if (int(limit) if limit else None) != workload["spec"].get("maximumExecutionTimeSeconds"):
            return False
        if not self._asks_for_the_same(kind, job, workload, admitted):
            return False
        self._matches[mine["uid"]] = state
        return True

    def _asks_for_the_same(self, kind: Kind, job: Json, workload: Json, admitted: bool) -> bool:
        """Whether a job asks for what its Workload does; one that runs with fewer pods has as many as it was admitted
        for."""
        asked = self._pod_sets(kind, job)
        if equivalent(asked, workload["spec"]["podSets"], tolerations=not admitted):
            return True
        runs = admitted and not self._integrations[kind].suspended(job)
        return runs and equivalent(asked, admitted_sets(workload), tolerations=False)

    def _pod_sets(self, kind: Kind, job: Json) -> list[Json]:
        """Return the pod sets of a job's Workload. Runtimes are not read here, so that those that need one are made
        without."""
        adapter = self._integrations[kind]
        return adapter.pod_sets(job) if adapter.runtimes else adapter.workload_pod_sets(job)

    def _without_workload(self, kind: Kind, job: Json) -> None:
        """Make the job's Workload once nothing of the job runs; a job that names a missing one is only kept
        suspended.
        """
        prebuilt = bool(prebuilt_name(job, self._core.gates))
        if prebuilt:
            self._stop(kind, job, None)
        sliced = self._sliced(kind, job)
        if (self._integrations[kind].active(job.get("status") or {}) and not sliced) or prebuilt:
            return
        metadata = meta(job)
        labels = metadata.get("labels") or {}
        spec: Json = {
            "podSets": self._pod_sets(kind, job),
            "queueName": _queue_name(job),
            "active": True,
            **self._priority(labels.get(PRIORITY_CLASS) or ""),
        }
        if labels.get(MAX_EXECUTION):
            spec["maximumExecutionTimeSeconds"] = int(labels[MAX_EXECUTION])
        head = {
            "name": workload_name(
                kind,
                metadata["name"],
                metadata["uid"],
                extra=str(metadata.get("generation", 0)) if sliced else "",
                short=self._core.gates.short_names,
            ),
            "namespace": metadata["namespace"],
            "labels": {JOB_UID_LABEL: metadata["uid"]},
            "finalizers": [RESOURCE_IN_USE],
            "ownerReferences": [owner_reference(kind, job)],
        }
        if sliced:
            head["annotations"] = slices.marks_of(job, next(iter(self._live(kind, job)), None))
        body = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": head, "spec": spec}
        self._core.store.create(WORKLOADS, body, field_manager="kueue")

    def _priority(self, class_name: str) -> Json:
        found = self._core.view.get(WORKLOAD_PRIORITY_CLASSES, "", class_name) if class_name else None
        if found is None:
            return {"priority": 0}
        reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": class_name}
        return {"priority": int(found["value"]), "priorityClassRef": reference}

    def _follow_labels(self, job: Json, workload: Json) -> None:
        """Take over a new queue or priority class from the job's labels while no quota is held."""
        if is_true(workload, "QuotaReserved") or prebuilt_name(job, self._core.gates):
            return
        patch: Json = {}
        if _queue_name(job) != workload["spec"].get("queueName"):
            patch["queueName"] = _queue_name(job)
        wanted = (meta(job).get("labels") or {}).get(PRIORITY_CLASS) or ""
        if wanted and wanted != (workload["spec"].get("priorityClassRef") or {}).get("name", ""):
            priority = self._priority(wanted)
            if "priorityClassRef" in priority:
                patch.update(priority)
        if patch:
            self._core.patch(workload, {"spec": patch})

    def _evicted(self, kind: Kind, job: Json, workload: Json) -> None:
        """Stop the job; once its status says that nothing runs, give the quota back."""
        self._stop(kind, job, workload)
        current = self._core.view.get(kind, *place_of(job))
        evicted = condition(workload, "Evicted")
        if (
            current is None
            or evicted is None
            or not is_true(workload, "QuotaReserved")
            or self._integrations[kind].active(current.get("status") or {})
        ):
            return
        give_back(self._core, workload, evicted)

    def _start(self, kind: Kind, job: Json, workload: Json) -> None:
        """Unsuspend an admitted job, its pods directed to the assigned flavors."""
        placements = [
            self._placement(entry, workload) for entry in workload["status"]["admission"]["podSetAssignments"]
        ]
        integration = self._integrations[kind]
        templates = [
            placed(template, placement)
            for template, placement in zip(integration.templates(job), placements, strict=True)
        ]
        counted = integration.counted(job, slices.counts(admitted_sets(workload)))
        spec = {**integration.started(), **integration.with_templates(templates, job), **counted}
        self._patch_job(kind, job, spec)

    def _placement(self, assignment: Mapping[str, Any], workload: Json) -> PodSetPlacement:
        selector: dict[str, str] = {}
        for flavor in (assignment.get("flavors") or {}).values():
            found = self._core.view.get(RESOURCE_FLAVORS, "", flavor) or {}
            selector.update((found.get("spec") or {}).get("nodeLabels") or {})
        labels = {POD_SET_LABEL: str(assignment["name"])}
        if ORIGIN_LABEL in (meta(workload).get("labels") or {}):
            labels[WORKER_POD] = "true"
        return PodSetPlacement(labels, selector)

    def _stop(self, kind: Kind, job: Json, workload: Json | None) -> None:
        """Suspend a job that is not, take its templates back to what they were, and clear a Job's start time."""
        integration = self._integrations[kind]
        if not integration.suspended(job) and (spec := dict(integration.stopped(job))):
            templates = integration.templates(job)
            originals = [pod_set["template"] for pod_set in workload["spec"]["podSets"]] if workload is not None else []
            if len(originals) == len(templates):
                back = [restored(template, original) for template, original in zip(templates, originals, strict=True)]
                spec.update(integration.with_templates(back, job))
            if workload is not None:
                spec.update(integration.counted(job, slices.counts(workload["spec"]["podSets"])))
            self._patch_job(kind, job, spec)
        started = kind in INTEGRATIONS and (job.get("status") or {}).get("startTime")
        if started and self._outcome(kind, job) is None:
            namespace, name = place_of(job)
            patch = {"status": {"startTime": None}}
            self._core.store.patch(kind, namespace, name, patch, subresource="status", field_manager="kueue")

    def _outcome(self, kind: Kind, job: Json) -> JobOutcome | None:
        return self._integrations[kind].outcome(job.get("status") or {})

    def _patch_job(self, kind: Kind, job: Json, spec: Json) -> None:
        namespace, name = place_of(job)
        guard = {"resourceVersion": meta(job)["resourceVersion"]}
        self._core.store.patch(kind, namespace, name, {"metadata": guard, "spec": spec}, field_manager="kueue")


def give_back(core: Core, workload: Json, evicted: Mapping[str, Any]) -> None:
    """Give the quota of an evicted Workload back, of whose job nothing runs any more."""
    status, gates, generation = draft(workload), core.gates, meta(workload).get("generation", 0)
    at_once = evicted["reason"] in ("Preempted", "NodeFailures")
    set_condition(
        status, "Requeued", at_once, evicted["reason"], evicted["message"], at=core.stamp(), generation=generation
    )
    unreserve(workload, status, gates.reason("PendingEvaluation", "Pending"), evicted["message"], core.now(), gates)
    core.writer.write(workload, status)


def _queue_name(job: Mapping[str, Any]) -> str:
    return str((meta(job).get("labels") or {}).get(QUEUE_LABEL) or "")
