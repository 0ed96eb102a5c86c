"""Reads the Kubernetes shapes of MultiKueue: objects as dicts in, typed fields out, or `Misfit` with the field that is
wrong.

The CRDs guarantee most of it; what reaches us from an older or patched API server may still not fit, and is then
refused by name."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.multikueue.observations import CheckState, Owner, PreemptionGate, Priority
from controlplane.controllers.multikueue.scoring import CLUSTER_SELECTOR
from controlplane.kube import fields, slices
from controlplane.kube.fields import items, number, section, strings, text
from controlplane.kube.kinds import Json, meta
from controlplane.kube.kueue_names import COMPONENT_INDEX, PREEMPTION_GATE, PRIORITY_BOOST
from controlplane.log.event import Body, body_of

JOB_OWNER_GVK = "kueue.x-k8s.io/job-owner-gvk"
JOB_OWNER_NAME = "kueue.x-k8s.io/job-owner-name"
EVICTED_ON_MANAGER = "EvictedOnManagerCluster"
"""The reason of the DeactivationTarget with which we have a copy stopped."""
EXECUTION_POLICY = "controlplane/execution-policy"
_NOT_APPLIED = frozenset({"conditions", "admissionChecks", "clusterName", "nominatedClusterNames", "reclaimablePods"})
_SAID = 300
_CHECK_FIELDS = frozenset({"name", "state", "message", "lastTransitionTime", "retryCount"})


def checks(status: Json) -> list[CheckState]:
    """Return `status.admissionChecks`."""
    return [
        CheckState(
            name=text(item, "name", "status.admissionChecks[]"),
            state=text(item, "state", "status.admissionChecks[]") or "Pending",
            message=text(item, "message", "status.admissionChecks[]"),
            last_transition_time=text(item, "lastTransitionTime", "status.admissionChecks[]"),
            retry_count=number(item, "retryCount", "status.admissionChecks[]"),
            rest={key: value for key, value in item.items() if key not in _CHECK_FIELDS},
        )
        for item in items(status, "admissionChecks", "status")
    ]


def gated(spec: Json) -> bool:
    """Return whether a Workload has MultiKueue's preemption gate."""
    return any(item.get("name") == PREEMPTION_GATE for item in items(spec, "preemptionGates", "spec"))


def gates(status: Json) -> list[PreemptionGate]:
    """Return `status.preemptionGates`."""
    where = "status.preemptionGates[]"
    return [
        PreemptionGate(
            name=text(item, "name", where),
            position=text(item, "position", where),
            last_transition_time=text(item, "lastTransitionTime", where),
        )
        for item in items(status, "preemptionGates", "status")
    ]


def awaited(status: Json) -> dict[str, str]:
    """Return the admission checks that are not Ready, with the beginning of what each says."""
    return {check.name: (check.message or check.state)[:_SAID] for check in checks(status) if check.state != "Ready"}


def check_json(check: CheckState) -> Json:
    """Return an entry of `status.admissionChecks` as the API has it."""
    result: Json = {
        "name": check.name,
        "state": check.state,
        "message": check.message,
        "lastTransitionTime": check.last_transition_time,
        **check.rest,
    }
    if check.retry_count:
        result["retryCount"] = check.retry_count
    return result


def owner(obj: Json) -> Owner | None:
    """Return the owner that decides the adapter, as Kueue does (`adapter` in kubernetes-sigs/kueue
    pkg/controller/admissionchecks/multikueue/workload.go, ff69552e): by annotation, else the controller, else the first
    owner reference."""
    annotations = section(meta(obj), "annotations")
    gvk, name = annotations.get(JOB_OWNER_GVK), annotations.get(JOB_OWNER_NAME)
    references = items(meta(obj), "ownerReferences", "metadata")
    if gvk and name:
        api_version, _, kind = str(gvk).partition(", Kind=")
        uid = next((r.get("uid", "") for r in references if r.get("kind") == kind and r.get("name") == name), "")
        return Owner(api_version=api_version, kind=kind, name=str(name), uid=uid)
    chosen = next((r for r in references if r.get("controller")), references[0] if references else None)
    if chosen is None:
        return None
    where = "metadata.ownerReferences[]"
    return Owner(
        api_version=text(chosen, "apiVersion", where),
        kind=text(chosen, "kind", where),
        name=text(chosen, "name", where),
        uid=text(chosen, "uid", where),
    )


def owners(obj: Json) -> list[str]:
    """Return the UIDs of a Workload's owners, if they are several: the pods of a group."""
    found = [text(one, "uid", "metadata.ownerReferences[]") for one in items(meta(obj), "ownerReferences", "metadata")]
    return found if len(found) > 1 else []


def component(obj: Json) -> int:
    """Return which one of the Workloads of a job that has several this is; -1 for any other, or if it cannot be
    read."""
    found = str(section(meta(obj), "annotations").get(COMPONENT_INDEX, ""))
    return int(found) if found.isascii() and found.isdigit() else -1


def priority(obj: Json) -> Priority:
    """Return a Workload's priority and its class."""
    spec = section(obj, "spec")
    reference = section(spec, "priorityClassRef")
    return Priority(
        value=number(spec, "priority", "spec"),
        class_group=text(reference, "group", "spec.priorityClassRef"),
        class_kind=text(reference, "kind", "spec.priorityClassRef"),
        class_name=text(reference, "name", "spec.priorityClassRef"),
        boost=str(section(meta(obj), "annotations").get(PRIORITY_BOOST, "")),
    )


def elastic(obj: Json) -> bool:
    """Return whether a Workload is one of an elastic job."""
    return slices.is_elastic(obj)


def replaces(obj: Json) -> str:
    """Return the Workload, as `NAMESPACE/NAME`, whose place this slice of an elastic job is to take; "" if it is
    none.
    """
    return str(section(meta(obj), "annotations").get(slices.REPLACEMENT_FOR, ""))


def size(obj: Json) -> dict[str, int]:
    """Return how many pods each pod set of a Workload has, if it is one of an elastic job."""
    if not (elastic(obj) or replaces(obj)):
        return {}
    sets = items(section(obj, "spec"), "podSets", "spec")
    return {text(one, "name", "spec.podSets[]"): number(one, "count", "spec.podSets[]") for one in sets}


def execution_policy(obj: Json) -> str:
    """Return the execution policy that an object's annotation asks for; "" if it asks for none."""
    return str(section(meta(obj), "annotations").get(EXECUTION_POLICY, ""))


def queue_checks(obj: Json) -> list[str]:
    """Return the names of a ClusterQueue's admission checks."""
    where = "spec.admissionChecksStrategy"
    rules = items(section(section(obj, "spec"), "admissionChecksStrategy", "spec"), "admissionChecks", where)
    return [text(one, "name", f"{where}.admissionChecks[]") for one in rules]


def cluster_selector(obj: Json) -> str:
    """Return the label selector for clusters that an object's annotation gives; "" if it gives none."""
    return str(section(meta(obj), "annotations").get(CLUSTER_SELECTOR, ""))


def labels(obj: Json) -> dict[str, str]:
    """Return an object's labels."""
    return {key: str(value) for key, value in section(meta(obj), "labels").items()}


def template(obj: Json) -> Body:
    """Return what a copy is made of: labels, annotations and spec."""
    metadata = meta(obj)
    return body_of(
        {
            "labels": section(metadata, "labels"),
            "annotations": {
                key: value
                for key, value in section(metadata, "annotations").items()
                if key != "kubectl.kubernetes.io/last-applied-configuration"
            },
            "spec": section(obj, "spec"),
        }
    )


def applied(status: Json) -> Body:
    """Return what Kueue applies with every write of the admission, without what an observation has as fields: the
    admission, and whatever else may be in a status but what Kueue writes under other names.
    """
    return body_of({field: value for field, value in status.items() if field not in _NOT_APPLIED})


def finalizers(obj: Json) -> list[str]:
    """Return the finalizers, those of Kueue and others'."""
    return strings(meta(obj), "finalizers", "metadata")


def assignments(status: Json) -> list[Json]:
    """Return `status.admission.podSetAssignments`."""
    return items(section(status, "admission"), "podSetAssignments", "status.admission")


def identity(obj: Json) -> dict[str, Any]:
    """Return the fields of `Seen`; `Misfit` if the object has no name or UID."""
    return {**fields.identity(obj), "generation": number(meta(obj), "generation", "metadata")}
