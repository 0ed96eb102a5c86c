"""Makes of a StatefulSet or a LeaderWorkerSet that names a queue the narrow event that is recorded of it.

In: a set as the API server showed it. Out: stream, event and body; None for one that is left alone. Pure. Sources:
kubernetes-sigs/kueue pkg/controller/jobs/statefulset/statefulset_reconciler.go,
pkg/controller/jobs/leaderworkerset/leaderworkerset_reconciler.go (`filterWorkloads`), ff69552e."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.jobframework.names import job_stream
from controlplane.controllers.jobframework.set_events import QueuedSetObserved
from controlplane.job_kinds.base import JobKind
from controlplane.kube import fields
from controlplane.kube.fields import UNFIT, number, section
from controlplane.kube.kinds import Json, meta
from controlplane.kube.kueue_names import GATED_BY, ORIGIN_LABEL, PRIORITY_CLASS, QUEUE_LABEL
from controlplane.log.event import Body, body_of

Built = tuple[str, QueuedSetObserved, tuple[Body, ...]]


def observed_set(adapter: JobKind, obj: Json) -> Built | None:
    """Return what is recorded of a set; None if it names no queue, or waits for another kind."""
    metadata = meta(obj)
    labels, notes = section(metadata, "labels"), section(metadata, "annotations")
    queue = str(labels.get(QUEUE_LABEL) or "")
    if not queue or adapter.skipped(obj):
        return None
    body = body_of({"labels": labels, "annotations": notes, "spec": section(obj, "spec")})
    event = QueuedSetObserved(
        **fields.identity(obj),
        kind=adapter.kind.name,
        generation=number(metadata, "generation", "metadata"),
        queue=queue,
        priority_class=str(labels.get(PRIORITY_CLASS) or ""),
        gated_by=str(notes.get(GATED_BY) or ""),
        copied=ORIGIN_LABEL in labels,
        body=body.ref,
        **_composed(adapter, obj),
    )
    return job_stream(adapter.kind.name, event.namespace, event.name), event, (body,)


def _composed(adapter: JobKind, obj: Json) -> dict[str, Any]:
    """Return the groups of a set, or why it has none."""
    try:
        pods = {str(one["name"]): int(one["count"]) for one in adapter.workload_pod_sets(obj)}
        found = {"pods": pods, "pod_priority_class": adapter.priority_class(obj), "size": sum(pods.values())}
        if not adapter.composed:
            return found
        return {**found, "groups": _groups(adapter.components(obj), obj), "led": "leader" in pods}
    except UNFIT as error:
        return {"groups": 0, "size": 0, "problem": str(error) or type(error).__name__}


def _groups(replicas: int, obj: Json) -> int:
    """Return how many groups there are: more than are asked for while those of a rolling update are added to them."""
    status = section(obj, "status")
    strategy = section(section(obj, "spec"), "rolloutStrategy", "spec")
    surge = section(strategy, "rollingUpdateConfiguration", "spec.rolloutStrategy").get("maxSurge")
    more = surge.removesuffix("%").isdigit() and int(surge.removesuffix("%")) if isinstance(surge, str) else surge
    there, updated = number(status, "replicas", "status"), number(status, "updatedReplicas", "status")
    return there if there > replicas and more and updated < replicas else replicas
