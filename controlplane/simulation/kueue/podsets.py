"""Compares the pod sets of a job with those of its Workload, and directs pods to where they were admitted.

In: pod sets and templates. Out: answers and changed templates, by the rules of Kueue's job framework.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.job_kinds.batch_job import GENERATED_LABELS
from controlplane.kube.kinds import Json


def equivalent(
    pod_sets: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], *, tolerations: bool = True
) -> bool:
    """Return whether two lists of pod sets ask for the same: counts, containers, init containers and, unless told
    otherwise, tolerations.
    """
    if len(pod_sets) != len(others):
        return False
    for one, other in zip(pod_sets, others, strict=True):
        if one.get("count") != other.get("count") or one.get("minCount") != other.get("minCount"):
            return False
        fields = ("containers", "initContainers", "tolerations") if tolerations else ("containers", "initContainers")
        mine, theirs = one["template"].get("spec") or {}, other["template"].get("spec") or {}
        if any((mine.get(field) or []) != (theirs.get(field) or []) for field in fields):
            return False
    return True


def admitted_sets(workload: Mapping[str, Any]) -> list[Json]:
    """Return the pod sets of a Workload with as many pods as each was admitted for."""
    given = (workload.get("status") or {}).get("admission") or {}
    counts = {str(one["name"]): one.get("count") for one in given.get("podSetAssignments") or ()}
    return [{**one, "count": counts.get(str(one["name"])) or one["count"]} for one in workload["spec"]["podSets"]]


class PodSetPlacement(NamedTuple):
    """What admission adds to the pods of one pod set."""

    labels: Mapping[str, str]
    node_selector: Mapping[str, str]


def placed(template: Mapping[str, Any], placement: PodSetPlacement) -> Json:
    """Return a template with a placement merged in; what the template says itself stays."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    merged: Json = {
        **template,
        "metadata": {**metadata, "labels": {**placement.labels, **(metadata.get("labels") or {})}},
    }
    if placement.node_selector:
        merged["spec"] = {**spec, "nodeSelector": {**placement.node_selector, **(spec.get("nodeSelector") or {})}}
    return merged


def restored(template: Mapping[str, Any], original: Mapping[str, Any]) -> Json:
    """Return a template whose labels and node selector are again those of the Workload's pod set.

    Labels that the Job controller put there are kept.
    """
    labels = (template.get("metadata") or {}).get("labels") or {}
    wanted = dict((original.get("metadata") or {}).get("labels") or {})
    wanted.update({name: value for name, value in labels.items() if name in GENERATED_LABELS})
    made: Json = {**template, "metadata": {**(template.get("metadata") or {}), "labels": wanted}}
    spec = {name: value for name, value in (template.get("spec") or {}).items() if name != "nodeSelector"}
    if selector := (original.get("spec") or {}).get("nodeSelector"):
        spec["nodeSelector"] = selector
    made["spec"] = spec
    return made
