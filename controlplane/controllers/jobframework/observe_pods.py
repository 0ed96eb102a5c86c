"""Makes of a pod that names a queue the narrow event that is recorded of it.

In: a pod as the API server showed it. Out: stream, event and body; None for one that is looked after by another kind.
Sources: kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_controller.go, constants/constants.go, ff69552e."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.names import job_stream, max_execution
from controlplane.controllers.jobframework.pod_events import QueuedPodObserved
from controlplane.controllers.jobframework.pod_sets import pod_set_facts
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.gated import gate_names
from controlplane.job_kinds.leaderworkerset import GROUP_INDEX, LEADER_NAME, SET_NAME
from controlplane.job_kinds.pod import MANAGED, Pod
from controlplane.kube import fields
from controlplane.kube.fields import UNFIT, items, section, strings, text
from controlplane.kube.kinds import STATEFUL_SETS, Json, meta
from controlplane.kube.kueue_names import ADMISSION_GATE, GATED_BY, MAX_EXECUTION, PREBUILT, PRIORITY_CLASS, QUEUE_LABEL
from controlplane.kube.workload_owners import is_of_group
from controlplane.log.event import Body, body_of

POD_GROUPS = "podgroups"
"""What stands for the kind in the stream of a group."""
TOTAL, FAST = "kueue.x-k8s.io/pod-group-total-count", "kueue.x-k8s.io/pod-group-fast-admission"
SERVING, RETRIABLE = "kueue.x-k8s.io/pod-group-serving", "kueue.x-k8s.io/retriable-in-group"
TERMINATION = "TerminationTarget"
_replace = msgspec.structs.replace

Built = tuple[str, QueuedPodObserved, tuple[Body, ...]]


def pod_stream(adapter: Pod, namespace: str, name: str, group: str) -> str:
    """Return the stream of a pod: its own, or that of its group."""
    return job_stream(POD_GROUPS, namespace, group) if group else job_stream(adapter.kind.name, namespace, name)


def observed_pod(adapter: Pod, obj: Json, parents: Mapping[str, JobKind], *, owned: bool) -> Built | None:
    """Return what is recorded of a pod; `owned`: it belongs to another job. None if it names no queue, or waits for a
    kind that is none of the `parents`.
    """
    metadata = meta(obj)
    labels, notes = section(metadata, "labels"), section(metadata, "annotations")
    queue = str(labels.get(QUEUE_LABEL) or "")
    if not queue or adapter.skipped(obj):
        return None
    spec, status = section(obj, "spec"), section(obj, "status")
    parent = parents.get(adapter.parent(obj))
    if adapter.made_for_another(obj) and parent is None:
        return None
    event = QueuedPodObserved(
        **fields.identity(obj),
        kind=adapter.kind.name,
        queue=queue,
        group=adapter.group(obj),
        managed=labels.get(MANAGED) == "true",
        owned=owned,
        parent=adapter.parent(obj),
        gated=ADMISSION_GATE in gate_names(spec),
    )
    if parent is not None and parent.grouped and not (event.managed and event.group):
        return _of_set(parent, obj, event)
    stream = pod_stream(adapter, event.namespace, event.name, event.group)
    if not event.managed:
        return stream, event, ()
    body = body_of({"labels": labels, "annotations": notes, "spec": spec})
    more = {
        **_of_job(labels, notes),
        **_of_group(labels, notes),
        **_of_status(obj, status),
        **_of_pod_set(adapter, obj),
    }
    return stream, _replace(event, **more, placed=bool(spec.get("nodeName")), body=body.ref), (body,)


def _of_set(parent: JobKind, obj: Json, event: QueuedPodObserved) -> Built | None:
    """Return what is recorded of a pod of a set that has not joined its group yet; None if it does not tell its set."""
    metadata, status = meta(obj), section(obj, "status")
    labels, notes = section(metadata, "labels"), section(metadata, "annotations")
    if parent.kind == STATEFUL_SETS:
        owners = (one for one in items(metadata, "ownerReferences", "metadata") if one.get("controller") is True)
        owner = next((one for one in owners if one.get("kind") == STATEFUL_SETS.kind), {})
        name, index = str(owner.get("name") or ""), str(owner.get("uid") or "")
    else:
        name, index = str(labels.get(SET_NAME) or ""), str(labels.get(GROUP_INDEX) or "")
    if not name:
        return None
    more = {
        "managed": False,
        "set_index": index,
        "led": LEADER_NAME in notes,
        "deleting": "deletionTimestamp" in metadata,
        "phase": text(status, "phase", "status"),
    }
    return job_stream(parent.kind.name, event.namespace, name), _replace(event, **more), ()


def _of_job(labels: Json, notes: Json) -> dict[str, Any]:
    return {
        "prebuilt": str(notes.get(PREBUILT) or labels.get(PREBUILT) or ""),
        "priority_class": str(labels.get(PRIORITY_CLASS) or ""),
        "max_execution_seconds": max_execution(labels.get(MAX_EXECUTION)),
        "gated_by": str(notes.get(GATED_BY) or ""),
    }


def _of_group(labels: Json, notes: Json) -> dict[str, Any]:
    total, index = notes.get(TOTAL), labels.get(Pod.index_label)
    return {
        "total": None if total is None else str(total),
        "fast": notes.get(FAST) == "true",
        "serving": notes.get(SERVING) == "true",
        "retriable": notes.get(RETRIABLE) != "false",
        "index": None if index is None else str(index),
    }


def _of_status(obj: Json, status: Json) -> dict[str, Any]:
    metadata = meta(obj)
    conditions = {text(one, "type", "status.conditions[]"): one for one in items(status, "conditions", "status")}

    def true(type_: str) -> bool:
        return (conditions.get(type_) or {}).get("status") == "True"

    containers = conditions.get("ContainersReady") or {}
    failed = containers.get("status") == "False" and containers.get("reason") == "PodFailed"
    grace = metadata.get("deletionGracePeriodSeconds")
    return {
        "phase": text(status, "phase", "status"),
        "ready": true("Ready"),
        "message": text(status, "message", "status"),
        "terminating": true(TERMINATION),
        "finalizers": strings(metadata, "finalizers", "metadata"),
        "created": text(metadata, "creationTimestamp", "metadata"),
        "failed_at": text(containers, "lastTransitionTime", "status.conditions[]") if failed else "",
        "deleted_at": text(metadata, "deletionTimestamp", "metadata"),
        "grace": grace if isinstance(grace, int) else None,
    }


def _of_pod_set(adapter: Pod, obj: Json) -> dict[str, Any]:
    """Return the facts of the pod set that a pod makes, with the pod's own labels and annotations, which an admission
    adds to; or why it makes none.
    """
    try:
        (made,) = adapter.workload_pod_sets(obj)
        facts = pod_set_facts({**made, "template": {**made["template"], "metadata": meta(obj)}})
        return {"pod_set": [facts], "role": adapter.role(obj), "pod_priority_class": adapter.priority_class(obj)}
    except UNFIT as error:
        return {"problem": str(error) or type(error).__name__}


def is_group_workload(obj: Json) -> bool:
    """Whether a Workload was made of a group of pods."""
    return is_of_group(meta(obj))


def facts_of(pod: QueuedPodObserved, name: str, count: int) -> events.PodSetFacts:
    """Return a pod's facts as those of a pod set with this name and so many pods."""
    return _replace(pod.pod_set[0], name=name, count=count)
