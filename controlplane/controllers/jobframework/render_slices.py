"""Makes what a slice of an elastic job has that no other Workload has: its annotations, and pod sets of another size.

In: which slice it is; the spec of a Workload. Out: parts of an object. Pure. Source: `prepareWorkloadSlice`
(kubernetes-sigs/kueue pkg/controller/jobframework/reconciler.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.jobframework.parts import SliceFacts
from controlplane.kube.kinds import Json
from controlplane.kube.slices import ELASTIC_JOB, REPLACEMENT_FOR, SLICE_NAME


def slice_notes(found: SliceFacts | None) -> dict[str, str]:
    """Return the annotations of a slice, empty for a Workload that is none."""
    if found is None:
        return {}
    replaces = {REPLACEMENT_FOR: found.replaces} if found.replaces else {}
    return {ELASTIC_JOB: "true", SLICE_NAME: found.name, **replaces}


def with_counts(spec: Json, pods: Mapping[str, int]) -> list[Json]:
    """Return the pod sets of a Workload's spec, each with as many pods as `pods` has by its name."""
    return [{**one, "count": pods[str(one["name"])]} for one in spec["podSets"]]


def grown_pod_sets(spec: Json, pods: Mapping[str, int], found: SliceFacts | None) -> list[Json]:
    """Return the pod sets of the next slice: those of the one before in other numbers. As with Kueue their templates
    name the chain of slices, as those of the job do since it was started."""
    sized = with_counts(spec, pods)
    return [_named(one, found.name) for one in sized] if found is not None else sized


def _named(pod_set: Json, chain: str) -> Json:
    template = pod_set["template"]
    metadata = template.get("metadata") or {}
    notes = {**(metadata.get("annotations") or {}), SLICE_NAME: chain}
    return {**pod_set, "template": {**template, "metadata": {**metadata, "annotations": notes}}}
