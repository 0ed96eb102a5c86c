"""What a job's own cluster has to know of a kind to run jobs by their Workloads: the pod sets of a Workload, whether
the pods are ready, which of them give their quota back.

In: objects as dicts. Out: values and parts of specs; pure. A kind that says `reconciled` is one that
`controlplane.controllers.jobframework` makes Workloads of. Sources: `GenericJob`, `JobWithReclaimablePods` and
`JobWithPriorityClass` (kubernetes-sigs/kueue pkg/controller/jobframework/interface.go, tas.go, ff69552e)."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from controlplane.kube.fields import BadValue
from controlplane.kube.kinds import Json, Kind, ObjectRef, meta
from controlplane.kube.pod_templates import digest, stored_template
from controlplane.kube.topologies import (
    POD_SET_GROUP,
    PREFERRED,
    REQUIRED,
    SLICE,
    SLICE_LAYERS,
    SLICE_SIZE,
    UNCONSTRAINED,
)

RUNTIME = "runtime"
"""Where a job has the spec of the object that its pods rest on, beside metadata, spec and status."""
_MOST_LAYERS = 3
_TRUE, _FALSE = (
    frozenset({"1", "t", "T", "TRUE", "true", "True"}),
    frozenset({"0", "f", "F", "FALSE", "false", "False"}),
)
_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
_INT32 = 2**31


class GenericJob(ABC):
    """What Kueue's job framework asks of a kind of job.

    `reconciled`: Workloads are made of its jobs here. `index_label` is what tells a pod's index in its pod set.
    `generated_labels`: what its own controller puts on templates, and nobody takes away. `stops_by_steps`: its start
    time has to be cleared before its templates can be what they were. `ends_by_deletion`: what runs of it cannot be
    suspended again, and is deleted where it has to stop. `infos_apart`: what its pods were admitted with stands beside
    their templates, put there by `with_infos`. `changes_at_rest`: that is put there and taken away only while it is
    suspended and nothing of it runs. `runtimes`: the kinds of the objects that its pods rest on. `sliced`: a job that
    asks for it may change its size while it runs, with several Workloads for a while. What `suspends_pods` is not
    suspended itself: its pods wait, each alone, or, where it is `grouped`, together as the groups whose Workloads it
    has."""

    reconciled: ClassVar[bool] = False
    index_label: ClassVar[str] = ""
    generated_labels: ClassVar[tuple[str, ...]] = ()
    stops_by_steps: ClassVar[bool] = False
    ends_by_deletion: ClassVar[bool] = False
    infos_apart: ClassVar[bool] = False
    changes_at_rest: ClassVar[bool] = False
    runtimes: ClassVar[tuple[Kind, ...]] = ()
    sliced: ClassVar[bool] = False
    suspends_pods: ClassVar[bool] = False
    grouped: ClassVar[bool] = False

    def skipped(self, job: Mapping[str, Any]) -> bool:
        """Return whether a job is left alone though it has a queue."""
        return False

    def made_for_another(self, job: Mapping[str, Any]) -> bool:
        """Return whether it is a part of another kind, that sees to it."""
        return False

    def with_infos(self, job: Mapping[str, Any], infos: Sequence[Json]) -> Json:
        """Return the part of a spec with what pods were admitted with: name, annotations, labels, nodeSelector,
        tolerations and schedulingGates of each pod set; with none, of a job that waits.
        """
        return {}

    def injected(self, job: Mapping[str, Any]) -> str:
        """Return the `infos_digest` of what a job that `changes_at_rest` has of an admission."""
        return ""

    def runtime_of(self, job: Mapping[str, Any]) -> ObjectRef | None:
        """Return the object that its pods rest on; None if there is none, or it is of no kind that is known."""
        return None

    def sized_by(self, job: Mapping[str, Any]) -> ObjectRef | None:
        """Return the job that is made of this one, and has the sizes of its pod sets while it runs, with the name "" as
        long as there is none; None if they are its own."""
        return None

    def outlined(self, job: Mapping[str, Any]) -> Json:
        """Return what of a job's spec the log may have, and is read with the outline of a runtime: it makes the
        outlines of templates.
        """
        return {}

    def outlined_runtime(self, spec: Mapping[str, Any]) -> Json:
        """Return what of a runtime's spec the log may have."""
        return {}

    def outlined_template(self, template: Json) -> Json:
        """Return what is compared of a template."""
        return template

    def facts_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the Workload's pod sets, with the labels, annotations and node selectors that an admission is added
        to."""
        return self.workload_pod_sets(job)

    @abstractmethod
    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return name, count and template of each pod set."""

    def workload_pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return `spec.podSets` of the Workload that is made of a job; `BadValue` for what cannot be."""
        made = []
        for at, one in enumerate(self.pod_sets(job)):
            found = {**one, "name": str(one["name"]).lower(), "template": stored_template(one["template"])}
            if (minimum := self.minimum(job)) is not None:
                found["minCount"] = minimum
            label, groups = self.sub_groups(job, at)
            if request := topology_request(one["template"], self.index_label, label, groups):
                found["topologyRequest"] = request
            made.append(found)
        return made

    def minimum(self, job: Mapping[str, Any]) -> int | None:
        """Return with how many pods a job is content if it cannot have all; None if with no less."""
        return None

    def sub_groups(self, job: Mapping[str, Any], at: int) -> tuple[str, int | None]:
        """Return the label that tells a pod's group within a pod set, by its position, and how many there are; "" and
        None for none.
        """
        return "", None

    def counted(self, job: Mapping[str, Any], counts: Mapping[str, int]) -> Json:
        """Return the part of a spec with which a job has as many pods as it was admitted for; empty if it takes all or
        nothing.
        """
        return {}

    def priority_class(self, job: Mapping[str, Any]) -> str:
        """Return the PriorityClass that a job names, "" if none: that of the first template that names one."""
        classes = ((one["template"].get("spec") or {}).get("priorityClassName") for one in self.pod_sets(job))
        return str(next((one for one in classes if one), ""))

    def ready(self, job: Mapping[str, Any]) -> bool:
        """Return whether all pods are ready or have succeeded."""
        conditions = (job.get("status") or {}).get("conditions") or ()
        return any(one.get("type") == "Running" and one.get("status") == "True" for one in conditions)

    def reclaimable(self, job: Mapping[str, Any]) -> dict[str, int] | None:
        """Return how many pods of each pod set will not run again, by its name; None if the kind does not tell."""
        return None


def infos_digest(infos: Sequence[Mapping[str, Any]]) -> str:
    """Return a digest of where pods of each pod set were admitted to; "" for none."""
    fields = ("name", "nodeSelector", "tolerations", "schedulingGates")
    found = [{name: one[name] for name in fields if one.get(name)} for one in infos]
    return digest(found) if found else ""


def topology_request(template: Json, index_label: str, group_label: str, groups: int | None) -> Json:
    """Return a pod set's `topologyRequest`, empty for none; `BadValue` for an annotation that is none (`Build` in
    pkg/controller/jobframework/tas.go).
    """
    notes = meta(template).get("annotations") or {}
    request = _topology_level(notes) | _topology_slices(notes)
    if not (request or index_label or group_label or groups is not None):
        return {}
    if index_label:
        request["podIndexLabel"] = index_label
    if groups is not None:
        request["subGroupCount"] = groups
    if group_label:
        request["subGroupIndexLabel"] = group_label
    if POD_SET_GROUP in notes and (REQUIRED in notes or PREFERRED in notes):
        request["podSetGroupName"] = notes[POD_SET_GROUP]
    return request


def _topology_level(notes: Mapping[str, str]) -> Json:
    if REQUIRED in notes:
        return {"required": notes[REQUIRED]}
    if PREFERRED in notes:
        return {"preferred": notes[PREFERRED]}
    if UNCONSTRAINED in notes:
        return {"unconstrained": _boolean(notes[UNCONSTRAINED], UNCONSTRAINED)}
    return {}


def _topology_slices(notes: Mapping[str, str]) -> Json:
    if SLICE_LAYERS in notes:
        return {"podsetSliceRequiredTopologyConstraints": _layers(notes[SLICE_LAYERS])}
    if SLICE in notes and SLICE_SIZE in notes:
        size = _whole(notes[SLICE_SIZE], SLICE_SIZE)
        return {"podSetSliceRequiredTopology": notes[SLICE], "podSetSliceSize": size}
    return {}


def _boolean(text: str, name: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise BadValue(f"annotation {name}", f'"{text}" is neither true nor false')
    return text in _TRUE


def _whole(text: str, name: str) -> int:
    if not _NUMBER.fullmatch(text) or not -_INT32 <= int(text) < _INT32:
        raise BadValue(f"annotation {name}", f'"{text}" is no number of 32 bits')
    return int(text)


def _layers(text: str) -> list[Json]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadValue(f"annotation {SLICE_LAYERS}", f"is no JSON: {error}") from None
    if not isinstance(found, list) or not 1 <= len(found) <= _MOST_LAYERS:
        raise BadValue(f"annotation {SLICE_LAYERS}", f"has to be a list of 1 to {_MOST_LAYERS} entries")
    return found
