"""What the controllers inside one simulated Kueue share: the store, the view of it, the clock, the gates, and their
common writes.

In: a store and a clock. Out: reads from the view, writes to the store. The controllers (`kueue_queues`,
`kueue_workloads`, `kueue_jobs`) hold no other way to the outside, so a test drives each with a store and a clock alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.clock import Clock
from controlplane.kube.conditions import is_true, set_condition
from controlplane.kube.kinds import WORKLOADS, Json, meta
from controlplane.kube.kueue_names import RESOURCE_IN_USE
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import Key, View
from controlplane.simulation.kueue.common import Gates, timestamp
from controlplane.simulation.kueue.status import StatusWriter, draft


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The surroundings of Kueue's controllers in one cluster. `enqueue` and `enqueue_after` queue a key of theirs, now
    or in some seconds.
    """

    store: Store
    view: View
    clock: Clock
    gates: Gates
    writer: StatusWriter
    enqueue: Callable[[Key], None]
    enqueue_after: Callable[[Key, float], None]

    def now(self) -> datetime:
        """Return the time of the cluster."""
        return self.clock.now()

    def stamp(self) -> str:
        """Return the time of the cluster as Kubernetes writes it."""
        return timestamp(self.clock.now())

    def workload(self, namespace: str, name: str) -> Json | None:
        """Return a Workload as last seen, or None."""
        return self.view.get(WORKLOADS, namespace, name)

    def finish(self, workload: Mapping[str, Any], reason: str, message: str) -> bool:
        """Set Finished; False if it is already."""
        if is_true(workload, "Finished"):
            return False
        status, generation = draft(workload), meta(workload).get("generation", 0)
        set_condition(status, "Finished", True, reason, message, at=self.stamp(), generation=generation)
        return self.writer.write(workload, status)

    def patch(self, workload: Mapping[str, Any], patch: Json) -> None:
        """Merge a patch into a Workload, guarded by its resourceVersion. ApiError 409 if it has moved on."""
        metadata = meta(workload)
        guarded = {**(patch.get("metadata") or {}), "resourceVersion": metadata["resourceVersion"]}
        body = {**patch, "metadata": guarded}
        self.store.patch(WORKLOADS, metadata["namespace"], metadata["name"], body, field_manager="kueue")

    def remove_finalizer(self, workload: Mapping[str, Any]) -> bool:
        """Take Kueue's finalizer off a Workload; False if it had none."""
        finalizers = meta(workload).get("finalizers") or []
        if RESOURCE_IN_USE not in finalizers:
            return False
        self.patch(workload, {"metadata": {"finalizers": [f for f in finalizers if f != RESOURCE_IN_USE]}})
        return True

    def orphaned(self, workload: Mapping[str, Any], *, may_finish: bool) -> bool:
        """Finish a Workload whose owner is gone (gate FinishOrphanedWorkloads), then let it go; return whether anything
        was written.
        """
        metadata, wrote = meta(workload), False
        if self.gates.finish_orphans and may_finish and not metadata.get("deletionTimestamp"):
            wrote = self.finish(workload, "OwnerNotFound", "The workload's owner no longer exists")
        current = self.workload(metadata["namespace"], metadata["name"])
        return (current is not None and self.remove_finalizer(current)) or wrote

    def delete(self, workload: Mapping[str, Any]) -> None:
        """Delete a Workload, finalizer first, as core does."""
        metadata = meta(workload)
        self.remove_finalizer(workload)
        current = self.workload(metadata["namespace"], metadata["name"])
        if current is not None and not meta(current).get("deletionTimestamp"):
            self.store.delete(WORKLOADS, metadata["namespace"], metadata["name"], uid=metadata["uid"])
