"""Folds what is no Workload: queues, flavors, checks, namespaces, priority classes, defaults of pods.

In: what was folded of admission, and an event. Out: the same, with what follows from it, and which streams are to be
decided about."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.engine_objects import DROPS, put_object, record_sample
from controlplane.controllers.quota.admission.folded import CYCLE, FoldedAdmission
from controlplane.controllers.quota.admission.observe import stream_of, workload_stream
from controlplane.controllers.quota.admission.state import ObjectState, folded_write, seen_again
from controlplane.controllers.quota.admission.topologies import needed_kinds
from controlplane.kube import kinds
from controlplane.log.event import Recorded

_DEFAULTS = (events.AdmissionLimitRangeObserved, events.AdmissionRuntimeClassObserved)
_DEFAULTS_GONE = (events.AdmissionLimitRangeGone, events.AdmissionRuntimeClassGone)


def fold_namespace(index: FoldedAdmission, recorded: Recorded) -> None:
    """Take an event of a namespace: its labels select it, and its Workloads may be admissible now, or no more."""
    event: Any = recorded.event
    if isinstance(event, events.AdmissionNamespaceObserved):
        index.namespaces[event.name] = event.uid
        index.changed(recorded, lambda now: index.engine.put_namespace(event.name, event.labels, now))
    elif isinstance(event, events.AdmissionNamespaceGone) and index.namespaces.get(event.name) == event.uid:
        del index.namespaces[event.name]
        index.changed(recorded, lambda now: index.engine.drop_namespace(event.name))
    index.enqueue(map(workload_stream, index.in_namespace(event.name)))


def fold_priority_class(index: FoldedAdmission, event: Any) -> None:
    """As with Kueue, a class gives its Workloads their priority when it comes or changes, and at no other time."""
    if not isinstance(event, events.AdmissionPriorityClassObserved):
        return
    for key, state in index.workloads.items():
        seen = state.observed
        if seen is not None and seen.priority_class == event.name:
            wanted = event.value if seen.priority != event.value else None
            index.workloads[key] = msgspec.structs.replace(state, new_priority=wanted)
            index.enqueue([f"admission/workload/{key}"])


def redefault(index: FoldedAdmission, recorded: Recorded, namespace: str, runtime_class: str) -> None:
    """Count anew what Workloads without quota ask for: those of a namespace, or with pods of a RuntimeClass."""
    for key in list(index.workloads) if runtime_class else index.in_namespace(namespace):
        state = index.workloads[key]
        seen = state.observed
        if seen is None or state.reservation is not None or key in index.engine.snapshot.workloads:
            continue
        if not runtime_class or any(one.resources.get("runtimeClassName") == runtime_class for one in seen.pod_sets):
            index.put(recorded, state)
            index.enqueue([workload_stream(key)])


def fold_object(index: FoldedAdmission, recorded: Recorded, word: str) -> None:
    """Take an event of a queue, flavor, check, Topology, or of what gives pods defaults."""
    event: Any = recorded.event
    stream = recorded.stream
    index.enqueue([stream])
    state = index.objects.get(stream, ObjectState())
    if isinstance(event, events.AdmissionObjectObserved):
        other = state.observed is not None and state.observed.uid != event.uid
        index.objects[stream] = seen_again(ObjectState() if other else state, event, recorded)
        _fold_seen(index, recorded, word, state.observed)
    elif isinstance(event, _DEFAULTS_GONE) or type(event) in DROPS:
        if state.observed is not None and state.observed.uid == event.uid:
            index.objects.pop(stream)
            _fold_gone(index, recorded, word)
    elif state.observed is not None:  # the outcome of a write may come after the end of what was written
        index.objects[stream] = folded_write(state, recorded)
        if isinstance(event, events.LocalQueueUsageSampled):
            _fold_sample(index, recorded, event)


def _fold_seen(index: FoldedAdmission, recorded: Recorded, word: str, before: Any) -> None:
    event: Any = recorded.event
    if before is not None and before.uid != event.uid and word == "localqueue":
        index.engine.history.forget(f"{event.namespace}/{event.name}")  # another one, which used nothing yet
    if before is not None and _counts(before) == _counts(event):
        if isinstance(event, events.AdmissionClusterQueueObserved) and _said(before) != _said(event):
            _leading_to(index, event.name)
    elif isinstance(event, _DEFAULTS):
        index.gives_defaults(recorded.stream, event.namespace, gone=False)
        redefault(index, recorded, event.namespace, event.name if word == "runtimeclass" else "")
    else:
        index.changed(recorded, lambda now: put_object(index.engine, event, now))
        _others(index, word, event)


def _fold_gone(index: FoldedAdmission, recorded: Recorded, word: str) -> None:
    event: Any = recorded.event
    if isinstance(event, _DEFAULTS_GONE):
        index.gives_defaults(recorded.stream, event.namespace, gone=True)
        redefault(index, recorded, event.namespace, event.name if word == "runtimeclass" else "")
        return
    index.changed(recorded, lambda now: DROPS[type(event)](index.engine, event, now))
    _others(index, word, event)


def _fold_sample(index: FoldedAdmission, recorded: Recorded, event: events.LocalQueueUsageSampled) -> None:
    """Note what a LocalQueue used: it may have another place among those that wait for the same quota."""
    key = recorded.stream.removeprefix("admission/localqueue/")
    record_sample(index.engine, key, event)
    for one in index.engine.history.tenant(key):
        local = index.engine.queues.local.get(one)
        queue = index.engine.snapshot.queues.get(local.cluster_queue) if local is not None else None
        if queue is not None and index.engine.by_usage(queue.spec):
            index.touched[queue.root().name] = recorded.position
            index.enqueue([CYCLE])


def _leading_to(index: FoldedAdmission, cluster_queue: str) -> None:
    """Let the LocalQueues be looked at that lead to a ClusterQueue: what they say is what it says."""
    found = (one for one in index.engine.queues.local.values() if one.cluster_queue == cluster_queue)
    index.enqueue(stream_of(kinds.LOCAL_QUEUES, one.namespace, one.name) for one in found)


def _others(index: FoldedAdmission, word: str, event: Any) -> None:
    """Let everything be looked at that a change of a queue, flavor or check may concern. They are few, and change
    seldom."""
    index.enqueue(index.objects)
    index.needs = needed_kinds(index.engine.snapshot)
    if word == "localqueue":
        index.enqueue(map(workload_stream, index.in_queue(event.namespace, event.name)))
        return
    index.all_dirty()
    roots = {queue.root().name for queue in index.engine.snapshot.queues.values()}
    for name in index.touched.keys() - roots:
        del index.touched[name]


def _said(event: events.AdmissionClusterQueueObserved) -> object:
    return event.status.get("conditions")


def _counts(event: Any) -> tuple[object, ...]:
    """Return what of an object the engine goes by."""
    return event.spec, event.deleting, getattr(event, "active", None)
