"""Folds what belongs to no queue and concerns many Workloads: namespaces, priority classes, defaults of pods.

In: the index of admission, and an event. Out: the index, with what follows from it, and which streams are to be decided about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from controlplane.controllers.quota.admission import events
from controlplane.log.event import Recorded

if TYPE_CHECKING:
    from controlplane.controllers.quota.admission.index import AdmissionIndex


def fold_namespace(index: AdmissionIndex, recorded: Recorded) -> None:
    """Take an event of a namespace: its labels select it, and its Workloads may be admissible now, or no more."""
    event: Any = recorded.event
    if isinstance(event, events.AdmissionNamespaceObserved):
        index.changed(recorded, lambda now: index.engine.put_namespace(event.name, event.labels, now))
    elif isinstance(event, events.AdmissionNamespaceGone):
        index.changed(recorded, lambda now: index.engine.drop_namespace(event.name))
    index.mark(f"admission/workload/{key}" for key in index.workloads if key.startswith(f"{event.name}/"))


def fold_priority_class(index: AdmissionIndex, event: Any) -> None:
    """As with Kueue, a class gives its Workloads their priority when it comes or changes, and at no other time."""
    if not isinstance(event, events.AdmissionPriorityClassObserved):
        return
    for key, state in index.workloads.items():
        seen = state.observed
        if seen is not None and seen.priority_class == event.name:
            wanted = event.value if seen.priority != event.value else None
            index.workloads[key] = msgspec.structs.replace(state, new_priority=wanted)
            index.mark([f"admission/workload/{key}"])


def redefault(index: AdmissionIndex, recorded: Recorded, namespace: str, runtime_class: str) -> None:
    """Count anew what Workloads without quota ask for: those of a namespace, or with pods of a RuntimeClass."""
    index.forget_defaults("" if runtime_class else namespace)
    for key, state in index.workloads.items():
        seen = state.observed
        if seen is None or state.reservation is not None or key in index.engine.snapshot.workloads:
            continue
        if runtime_class:
            concerns = any(one.resources.get("runtimeClassName") == runtime_class for one in seen.pod_sets)
        else:
            concerns = seen.namespace == namespace
        if concerns:
            index.put(recorded, state)
            index.mark([f"admission/workload/{key}"])
