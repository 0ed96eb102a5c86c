"""Kinds that name no controller: pods are made of them on the management cluster too, and stay gated there.

The gate is Kueue's own where its feature gate MultiKueue is on, else `HELD`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from controlplane.job_kinds.base import JobKind, JobOutcome
from controlplane.kube.kinds import Json, meta
from controlplane.kube.kueue_names import ADMISSION_GATE, PRIORITY_CLASS, QUEUE_LABEL

HELD = "controlplane/dispatched"
"""The scheduling gate that keeps a pod from running on the management cluster, whatever Kueue's gate MultiKueue says: a
gate cannot be added to a pod that is there, and Kueue removes only its own."""


PARENT = "kueue.x-k8s.io/pod-suspending-parent"
"""The annotation of a pod that waits for the kind that it is made for, such as a StatefulSet: that kind's name."""


class Gated(JobKind):
    """`main`: the name of the template that every job of the kind has."""

    delegates = False
    main: ClassVar[str] = "template"

    @abstractmethod
    def specs_by_template(self, job: Mapping[str, Any]) -> Mapping[str, Json]:
        """Return the job's pod specs by the names of their templates."""

    @abstractmethod
    def with_gates(self, gates: Mapping[str, Sequence[Json] | None]) -> Json:
        """Return the part of a spec with these scheduling gates, by the names of templates."""

    def managed_by(self, job: Mapping[str, Any]) -> str:
        """Return "": nothing in it says so."""
        return ""

    def delegated(self, controller: str) -> Json:
        """Return nothing."""
        return {}

    def claimed(self, job: Mapping[str, Any], controller: str) -> Json:
        """Return the gates of its pods with the one that holds them here."""
        return {} if self.held(job) else self._with_gate(job, HELD)

    def suspended(self, job: Mapping[str, Any]) -> bool:
        """Return whether all its pods are gated when they are made."""
        return all(gate_names(spec) for spec in self.specs_by_template(job).values())

    def started(self) -> Json:
        """Return the part of a spec whose pods have no gates."""
        return self.with_gates({self.main: None})

    def stopped(self, job: Mapping[str, Any]) -> Json:
        """Return the part of a spec whose pods have Kueue's gate from the beginning."""
        return self._with_gate(job, ADMISSION_GATE)

    def clone_spec(self, template: Json) -> Json:
        """Return the spec with Kueue's gate, and without the one that is for the management cluster alone."""
        made = super().clone_spec(template)
        for spec in self.specs_by_template({"spec": made}).values():
            spec["schedulingGates"] = [gate for gate in spec["schedulingGates"] if gate.get("name") != HELD]
        return made

    def held(self, job: Mapping[str, Any]) -> bool:
        """Return whether its pods have a gate that Kueue does not take away."""
        return all(HELD in gate_names(spec) for spec in self.specs_by_template(job).values())

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod sets; gates are no part of them."""
        found = super().pod_sets(job)
        for one in found:
            one["template"]["spec"].pop("schedulingGates", None)
        return found

    def _with_gate(self, job: Mapping[str, Any], gate: str) -> Json:
        return self.with_gates({name: _with(spec, gate) for name, spec in self.specs_by_template(job).items()})


class GatedSet(Gated):
    """A kind that keeps a number of pods running and does not end. The management cluster's own controller writes its
    status, so none is copied; on a worker Kueue finds the Workload of its pods by the UID of the user's. `counts`: the
    fields of the status that count pods that run."""

    relays = False
    names_origin = True
    counts: ClassVar[tuple[str, ...]]
    suspends_pods = True
    template_labels: ClassVar[Mapping[str, str]] = {}
    template_notes: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def pod_templates(self, job: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """Return where the pod templates are, below its spec."""

    def skipped(self, job: Mapping[str, Any]) -> bool:
        """Return whether its pods wait for another kind, that it is made for."""
        found = [_below(job.get("spec") or {}, path) for path in self.pod_templates(job)]
        named = [(meta(one).get("annotations") or {}).get(PARENT) for one in found]
        return any(one not in (None, self.integration) for one in named)

    def submitted(self, job: Mapping[str, Any]) -> Json:
        """Return it with what its pods are made with: who they wait for, in which queue, with which class."""
        labels = meta(job).get("labels") or {}
        told = {name: labels[name] for name in (QUEUE_LABEL, PRIORITY_CLASS) if labels.get(name)}
        spec: Json = dict(job["spec"])
        for path in self.pod_templates(job):
            spec = _with_template(spec, path, self._marked(_below(spec, path), path[-1], told))
        return {**job, "spec": spec}

    def _marked(self, template: Json, name: str, told: Mapping[str, str]) -> Json:
        metadata = meta(template)
        labels = {**(metadata.get("labels") or {}), **told, **self.template_labels}
        notes = {**(metadata.get("annotations") or {}), PARENT: self.integration, **self.template_notes}
        return {**template, "metadata": {**metadata, "labels": labels, "annotations": notes}}

    def outcome(self, status: Mapping[str, Any]) -> JobOutcome | None:
        """Return None: it does not end."""
        return None

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether any of it is ready."""
        return bool(status.get("readyReplicas"))

    def drained(self, status: Json) -> Json:
        """Return the status with nothing ready."""
        return {name: value for name, value in status.items() if name not in self.counts}

    def tells_activity(self) -> bool:
        """No: pods that are not ready run as well."""
        return False


def gate_names(spec: Mapping[str, Any]) -> list[str]:
    """Return the names of a pod spec's scheduling gates."""
    return [str(gate.get("name")) for gate in spec.get("schedulingGates") or ()]


def _below(spec: Mapping[str, Any], path: Sequence[str]) -> Json:
    found: Any = spec
    for step in path:
        found = found.get(step) or {}
    template: Json = found
    return template


def _with_template(spec: Json, path: Sequence[str], template: Json) -> Json:
    inner = template if len(path) == 1 else _with_template(spec.get(path[0]) or {}, path[1:], template)
    return {**spec, path[0]: inner}


def _with(spec: Mapping[str, Any], gate: str) -> list[Json]:
    gates = list(spec.get("schedulingGates") or ())
    return gates if gate in gate_names(spec) else [*gates, {"name": gate}]
