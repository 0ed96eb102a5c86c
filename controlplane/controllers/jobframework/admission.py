"""Answers the admission hook of jobs where this control plane decides on quota: a job that names a queue is created
suspended, so that it runs for no moment before its Workload is admitted. A pod is created with Kueue's scheduling gate,
and with what marks it as looked after; the templates of a kind whose pods wait say so.

In: an AdmissionReview, which jobs belong to another with a queue, and what a namespace has by the name `default`. Out:
the job as it is to be created. Source: `ApplyDefaultLocalQueue`, `ApplyDefaultWorkloadPriorityClass`,
`ApplyDefaultForSuspend` (kubernetes-sigs/kueue pkg/controller/jobframework/defaults.go, utils.go,
pkg/controller/jobs/pod/pod_webhook.go, ff69552e). Without the hook such a job is suspended at first sight; a pod that
has neither gate nor mark is left alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.observe import controller_of
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.pod import Pod
from controlplane.kube.fields import UNFIT, section
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL, PRIORITY_CLASS, QUEUE_LABEL
from controlplane.kube.reviews import namespace_of, requested
from controlplane.values import Value

DEFAULT = "default"
"""The name of the LocalQueue and of the WorkloadPriorityClass of jobs that name none."""

Belongs = Callable[[str, events.QueuedOwner], bool]
"""Tells whether a job in a namespace with an owner belongs to another job that names a queue, or may do so."""


class Defaults(Value):
    """What jobs get that do not say it: `queue` tells whether a namespace has the LocalQueue `default`,
    `priority_class` whether there is a WorkloadPriorityClass of this name, `looked_after` whether an owner is of a kind
    that Workloads are made of. `selected` tells whether jobs of a namespace are looked after, `managed` whether those
    are that name no queue. `of_set` has the labels of pods of a set whose template does not name its queue."""

    queue: Callable[[str], bool] = lambda namespace: False
    priority_class: Callable[[], bool] = lambda: False
    looked_after: Callable[[events.QueuedOwner], bool] = lambda owner: False
    selected: Callable[[str], bool] = lambda namespace: True
    managed: Callable[[str], bool] = lambda namespace: False
    of_set: Callable[[str, events.QueuedOwner], Mapping[str, str]] = lambda namespace, owner: {}

    def labels(self, namespace: str, labels: Json, owner: events.QueuedOwner | None) -> Json:
        """Return the labels of a job, with those that it gets."""
        if owner is not None and self.looked_after(owner):
            return labels
        made = dict(labels)
        if not made.get(QUEUE_LABEL) and self.queue(namespace):
            made[QUEUE_LABEL] = DEFAULT
        if made.get(QUEUE_LABEL) and not made.get(PRIORITY_CLASS) and self.priority_class():
            made[PRIORITY_CLASS] = DEFAULT
        return made


_NO_DEFAULTS = Defaults()


def created_as(
    review: Mapping[str, Any], adapters: Mapping[Kind, JobKind], belongs: Belongs, defaults: Defaults = _NO_DEFAULTS
) -> Json | None:
    """Return the job, suspended; None if nothing of what is reviewed is changed."""
    request = requested(review)
    if request is None:
        return None
    obj, named = request.get("object"), request.get("kind")
    adapter = next((one for kind, one in adapters.items() if named == _named(kind)), None)
    if adapter is None or not isinstance(obj, dict) or not _answered(request.get("operation"), adapter):
        return None
    try:
        if ORIGIN_LABEL in section(meta(obj), "labels") or not isinstance(obj.get("spec"), dict):
            return None
        if adapter.made_for_another(obj):
            return _waiting(obj, namespace_of(request, obj), adapter, adapters, defaults)
        made = _submitted(obj, namespace_of(request, obj), adapter, belongs, defaults)
        return made if made != obj else None
    except UNFIT:
        return None  # the API server refuses it, or knows better


def _answered(operation: object, adapter: JobKind) -> bool:
    """Whether what is done to a kind concerns it: a template whose pods wait is looked at with each change."""
    return operation == "CREATE" or (adapter.suspends_pods and operation == "UPDATE")


def _submitted(obj: Json, namespace: str, adapter: JobKind, belongs: Belongs, defaults: Defaults) -> Json | None:
    """Return a job as it is created, None if it is left as it is."""
    labels, owner = section(meta(obj), "labels"), controller_of(obj)
    marked = defaults.labels(namespace, labels, owner)
    without_queue = not (adapter.ends_by_deletion or adapter.suspends_pods) and defaults.managed(namespace)
    if not (marked.get(QUEUE_LABEL) or without_queue) or not defaults.selected(namespace):
        return None
    if adapter.skipped(obj) or (owner is not None and belongs(namespace, owner)):
        return None
    return adapter.submitted(obj if marked == labels else {**obj, "metadata": {**meta(obj), "labels": marked}})


def _waiting(
    pod: Json, namespace: str, adapter: JobKind, adapters: Mapping[Kind, JobKind], defaults: Defaults
) -> Json | None:
    """Return a pod that is made for another kind, gated, in the queue of that; None if that kind is not looked after.
    The template of a StatefulSet that Kueue's webhook has seen names no queue: Kueue gives it to the pods when they are
    there."""
    parents = {one.integration for one in adapters.values() if one.suspends_pods}
    if not isinstance(adapter, Pod) or adapter.parent(pod) not in parents:
        return None
    labels, owner = section(meta(pod), "labels"), controller_of(pod)
    told = {} if labels.get(QUEUE_LABEL) or owner is None else defaults.of_set(namespace, owner)
    queued = {**pod, "metadata": {**meta(pod), "labels": {**told, **labels}}} if told else pod
    made = adapter.submitted(queued)
    return made if made != pod else None


def _named(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}
