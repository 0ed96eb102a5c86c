"""The shape that every kind of job has: what Kueue, MultiKueue and a simulated cluster have to know of it.

In: objects as dicts. Out: values, statuses, and parts of specs; pure. A kind is a class with a few lines of data, and
methods where it differs from the others. Sources: `GenericJob` and `MultiKueueAdapter` (kubernetes-sigs/kueue
pkg/controller/jobframework/interface.go, multikueue.go, ff69552e)."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from controlplane.job_kinds.generic_job import GenericJob
from controlplane.kube.conditions import condition, set_condition
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL, PREBUILT
from controlplane.kube.requests import merge_diff

ATTEMPT = "controlplane/attempt"
"""The annotation of a copy with the number of its attempt, where attempts are fenced."""

MADE_FOR = "controlplane/management-cluster"
"""The annotation of what is made on a worker with the UID of the namespace kube-system of its management cluster."""

Path = tuple[str | int, ...]


class JobOutcome(NamedTuple):
    """How a finished job ended: the message of its last condition, and whether it succeeded."""

    message: str
    success: bool


class PodSet(NamedTuple):
    """A pod set of a job's Workload; `template` is the way through the job to its pod template."""

    name: str
    pods: int
    template: Path


class JobKind(GenericJob):
    """One kind of job.

    `integration` is its name in Kueue's `integrations.frameworks`; `external`: it takes part as one of Kueue's
    `externalFrameworks`. `suspend_path` and `managed_by_path` are where below `spec` it is suspended and given to a
    controller. `own_controller` is what `managedBy` names, if anything, where the kind's own controller runs the job;
    `succeeded` and `failed` are the types of its final conditions. The rest is what an API server shows of it: short
    names, columns (name, JSONPath, type), the merge keys of its lists, and where pod specs lie in it. Fields of its
    spec that are `synced` follow the user's job to the copy also after that was made. What is `elastic` can be made
    larger and smaller while it runs, if a job asks for it, and its copy follows. What does not `delegate` names no
    controller, and is ours wherever its Workload has our check; `home_selector` narrows what is watched of it on the
    management cluster. `relays`: its status is that of its copy; `names_origin`: the copy has the UID of the user's as
    an annotation; `composed`: it has several Workloads, and one copy for all of them. What is not `dispatched` runs
    where it was submitted."""

    integration: str
    kind: Kind
    external: ClassVar[bool] = False
    suspend_path: ClassVar[tuple[str, ...]] = ("suspend",)
    managed_by_path: ClassVar[tuple[str, ...]] = ("managedBy",)
    own_controller: ClassVar[str] = ""
    status_manager: ClassVar[str] = ""
    succeeded: ClassVar[str] = "Succeeded"
    failed: ClassVar[str] = "Failed"
    short_names: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    list_map_keys: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    pod_specs: ClassVar[tuple[str, ...]] = ()
    synced: ClassVar[tuple[str, ...]] = ()
    elastic: ClassVar[bool] = False
    delegates: ClassVar[bool] = True
    home_selector: ClassVar[str] = ""
    relays: ClassVar[bool] = True
    names_origin: ClassVar[bool] = False
    composed: ClassVar[bool] = False
    dispatched: ClassVar[bool] = True

    # Kueue's job framework.

    def managed_by(self, job: Mapping[str, Any]) -> str:
        """Return the controller that the job names, "" if none."""
        return str(_found(job.get("spec"), self.managed_by_path) or "")

    def suspended(self, job: Mapping[str, Any]) -> bool:
        """Return whether the job waits to be started."""
        return _found(job.get("spec"), self.suspend_path) is True

    def delegated(self, controller: str) -> Json:
        """Return the part of a spec that gives a job to a controller."""
        return _nested(self.managed_by_path, controller)

    def claimed(self, job: Mapping[str, Any], controller: str) -> Json:
        """Return the part of a spec with which a job is created that this controller is to have: empty if it has it, or
        another one is named.
        """
        return self.delegated(controller) if self.managed_by(job) in ("", self.own_controller) else {}

    def started(self) -> Json:
        """Return the part of a spec that lets a suspended job start."""
        return _nested(self.suspend_path, False)

    def stopped(self, job: Mapping[str, Any]) -> Json:
        """Return the part of a spec that stops a job, or keeps it from starting; empty if it is being stopped."""
        return _nested(self.suspend_path, True)

    def submitted(self, job: Mapping[str, Any]) -> Json:
        """Return the job as it is created where a queue has to admit it first: suspended."""
        return dict(job) if self.suspended(job) else {**job, "spec": merged(job["spec"], self.stopped(job))}

    @abstractmethod
    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return the pod sets in the order of the Workload's."""

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the Workload's `spec.podSets` for the job."""
        return [
            {"name": one.name, "count": one.pods, "template": copy.deepcopy(_at(job, one.template))}
            for one in self.pods(job)
        ]

    def templates(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod templates in the order of the pod sets."""
        return [_at(job, one.template) for one in self.pods(job)]

    def with_templates(self, templates: Sequence[Json], job: Mapping[str, Any]) -> Json:
        """Return the part of a spec that puts these templates in place, as a merge patch."""
        spec = copy.deepcopy(job["spec"])
        for one, template in zip(self.pods(job), templates, strict=True):
            _at({"spec": spec}, one.template[:-1])[one.template[-1]] = template
        return merge_diff(job["spec"], spec)

    def outcome(self, status: Mapping[str, Any]) -> JobOutcome | None:
        """Return how the job ended, None while it has not."""
        for found in status.get("conditions") or ():
            if found.get("type") in (self.succeeded, self.failed) and found.get("status") == "True":
                return JobOutcome(str(found.get("message") or ""), found["type"] == self.succeeded)
        return None

    @abstractmethod
    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether by this status pods of the job still run: Kueue's test before it gives quota back."""

    def refused(self, status: Mapping[str, Any]) -> bool:
        """Return whether its own controller has refused the job, so that nothing of it will run."""
        return False

    # MultiKueue's adapter.

    def clone(self, template: Json, namespace: str, name: str, workload: str, origin: str) -> Json:
        """Return the job as it is created on a worker, from the body {labels, annotations, spec}: managed by nobody
        else, and suspended. The worker's Kueue starts it when the clone's quota is there; until it has seen the job it
        must not run.

        The prebuilt name is an annotation (Kueue's gate WorkloadIdentifierAnnotations, Beta and on); with the gate off
        Kueue reads it too."""
        spec = self.clone_spec(template)
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": {
                "namespace": namespace,
                "name": name,
                "labels": {**template.get("labels", {}), ORIGIN_LABEL: origin},
                "annotations": {**template.get("annotations", {}), PREBUILT: workload},
            },
            "spec": spec,
        }

    def clone_spec(self, template: Json) -> Json:
        """Return the spec of the copy."""
        spec: Json = copy.deepcopy(template["spec"])
        holder = _found(spec, self.managed_by_path[:-1])
        if isinstance(holder, dict):
            holder.pop(self.managed_by_path[-1], None)
        return merged(spec, self.stopped(template))

    def synced_spec(self, job: Mapping[str, Any]) -> Json:
        """Return the fields of a spec that follow the user's job to its copy; None stands for one that is not there."""
        spec = job.get("spec") or {}
        return {field: spec.get(field) for field in self.synced}

    def marked(self, job: Mapping[str, Any]) -> bool:
        """Return whether what `home_selector` shows is looked after by Kueue."""
        return True

    def held(self, job: Mapping[str, Any]) -> bool:
        """Return whether it is kept from running on the management cluster by something that Kueue leaves alone, of a
        kind that names no controller.
        """
        return False

    def group(self, job: Mapping[str, Any]) -> str:
        """Return the group of which a job is one of several that have one Workload, "" for none."""
        return ""

    def components(self, job: Mapping[str, Any]) -> int:
        """Return how many Workloads a job of a composed kind has, 0 for any other."""
        return 0

    def shared(self, job: Mapping[str, Any]) -> tuple[str, str]:
        """Return the UID of the user's job that a copy of a composed kind is of, and its first Workload; "" for any
        other.
        """
        return "", ""

    def shown(self, status: Json, local: Json, *, suspended: bool) -> Json:
        """Return what of a copy's status is written to the user's job, which has the status `local`."""
        return status

    def size(self, job: Mapping[str, Any]) -> dict[str, int]:
        """Return how many pods each pod set of a job has, by the names of its Workload's, which Kueue writes small."""
        return {one.name.lower(): one.pods for one in self.pods(job)}

    def sized(self, spec: Mapping[str, Any]) -> Json:
        """Return the part of a copy's spec that is written again when its size changes; empty if only the size is."""
        return {}

    def resized(self, part: Json, job: Mapping[str, Any]) -> Json:
        """Return the part of a spec, as a merge patch, that gives a copy the size of the user's job; `part`: what
        `sized` returned of the copy.
        """
        return {}

    def of_size(self, spec: Json, size: Mapping[str, int]) -> Json:
        """Return a copy's spec with as many pods as its Workload has, by pod set: the user's job may be of another size
        by now, which the next slice is for."""
        return spec

    def may_relay(self, *, local_suspended: bool, remote_suspended: bool, remote_finished: bool) -> bool:
        """Whether the remote status may be written to the user's job now: always, unless the kind says otherwise."""
        return True

    @abstractmethod
    def drained(self, status: Json) -> Json:
        """Return the status in which nothing runs."""

    def ended_as(self, status: Json, outcome: str) -> Json:
        """Return the status of a job whose end nobody saw, and whose Workload ended as `outcome`: as it was, but of a
        pod."""
        return status

    def tells_activity(self) -> bool:
        """Whether the status says whether anything runs. Else the worker's Kueue says it, by giving the quota back."""
        return True

    def overtaken_counts(self) -> bool:
        """Whether a copy that was overtaken by another attempt and succeeded all the same gives the result: what
        succeeded need not be done again.
        """
        return True

    def marks_suspended(self) -> bool:
        """Whether a suspended local job gets a `Suspended` condition while its copy already runs; Kueue adds it to a
        Job only.
        """
        return False


Phase = Literal["suspended", "started", "ready", "succeeded", "failed"]


class SimulatedKind(JobKind):
    """A kind whose own controller a simulated cluster plays: the statuses that it shows.

    As they stand here they have conditions: Suspended, Running, and the final one; the kind adds the `fields` of a
    phase.
    """

    conditions: ClassVar[bool] = True

    def fields(self, job: Json, phase: Phase) -> Json:
        """Return what a status says in a phase beside its conditions."""
        return {}

    def runs(self, job: Mapping[str, Any]) -> bool:
        """Return whether its controller has started it."""
        return self.active(job.get("status") or {})

    def since(self, job: Mapping[str, Any]) -> str | None:
        """Return when it was started, as Kubernetes writes a time."""
        found = condition(job, "Running")
        return str(found["lastTransitionTime"]) if found is not None else str(meta(job)["creationTimestamp"])

    def show_suspended(self, job: Json, status: Json, at: str) -> None:
        """Turn a status into that of a suspended job."""
        self._show(job, status, "suspended", at, Suspended=True, Running=False)

    def show_started(self, job: Json, status: Json, at: str, *, ready: bool) -> None:
        """Turn a status into that of a job whose pods were made, and are `ready` or not."""
        self._show(job, status, "ready" if ready else "started", at, Suspended=False, Running=True)

    def show_ready(self, job: Json, status: Json) -> None:
        """Turn a status into that of a job whose pods are ready."""
        status |= self.fields(job, "ready")

    def show_ended(self, job: Json, status: Json, at: str, *, success: bool, brief: bool) -> None:
        """Turn a status into the next one of a job whose pods have ended; `brief`: into the last one."""
        final = self.succeeded if success else self.failed
        self._show(job, status, "succeeded" if success else "failed", at, **{"Running": False, final: True})

    def _show(self, job: Json, status: Json, phase: Phase, at: str, /, **conditions: bool) -> None:
        status |= self.fields(job, phase)
        for type_, value in conditions.items() if self.conditions else ():
            if value or condition(job, type_) is not None:
                reason = f"{self.kind.kind}{phase.capitalize()}"
                set_condition(status, type_, value, reason, f"{self.kind.kind} is {phase}", at=at)


def _at(obj: Any, path: Path) -> Any:
    for step in path:
        obj = obj[step]
    return obj


def _found(spec: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        spec = spec.get(step) if isinstance(spec, Mapping) else None
    return spec


def _nested(path: tuple[str, ...], value: Any) -> Json:
    for step in reversed(path):
        value = {step: value}
    part: Json = value
    return part


def merged(spec: Json, part: Mapping[str, Any]) -> Json:
    """Return a spec with a part of one put into it; a field that is None there goes."""
    made = {name: value for name, value in spec.items() if part.get(name, value) is not None}
    for name, value in part.items():
        if isinstance(value, Mapping):
            inner = spec.get(name)
            made[name] = merged(inner if isinstance(inner, dict) else {}, value)
        elif value is not None:
            made[name] = value
    return made
