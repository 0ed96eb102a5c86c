"""One simulated Kueue: its controllers put together and driven by one queue of dirty keys.

In: the changes of a cluster's view. Out: what `kueue_queues`, `kueue_workloads` and `kueue_jobs` do about them.
`KueueManager` and `KueueWorker` are this, with what differs on the two sides. The hooks are what Kueue's webhooks do:
jobs with a queue name are created suspended, Workloads obey the rules of `kueue_webhook`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from controlplane.clock import Clock
from controlplane.job_kinds import INTEGRATIONS
from controlplane.kube import kinds
from controlplane.kube.kinds import WORKLOAD_PRIORITY_CLASSES, Json, Kind, meta
from controlplane.kube.kueue_names import QUEUE_LABEL
from controlplane.simulation.apiserver.errors import not_found
from controlplane.simulation.apiserver.patches import merge_patch
from controlplane.simulation.apiserver.store import Operation
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View
from controlplane.simulation.kueue.common import Gates
from controlplane.simulation.kueue.core import Core
from controlplane.simulation.kueue.jobs import JobReconciler
from controlplane.simulation.kueue.queues import Queues
from controlplane.simulation.kueue.quota import QUOTA_KINDS
from controlplane.simulation.kueue.status import StatusWriter
from controlplane.simulation.kueue.webhook import validate_workload
from controlplane.simulation.kueue.workloads import WorkloadReconciler

KUEUE_KINDS: Final = (
    *QUOTA_KINDS,
    WORKLOAD_PRIORITY_CLASSES,
    kinds.WORKLOADS,
    *INTEGRATIONS,
)
"""What Kueue watches, in the order in which it is told at the start: queues before those who stand in them."""


class Kueue(Behaviour):
    """Kueue's core in one cluster: quota, admission, eviction, and the jobs that follow from them."""

    def __init__(self, name: str, view: View, clock: Clock, gates: Gates) -> None:
        super().__init__(name, clock)
        self.view, self.gates = view, gates
        self.core = Core(
            store=view.store,
            view=view,
            clock=clock,
            gates=gates,
            writer=StatusWriter(view.store, gates),
            enqueue=self.enqueue,
            enqueue_after=self.enqueue_after,
        )
        self.queues = Queues(self.core)
        self.workloads = WorkloadReconciler(self.core, self.queues)
        self.jobs = JobReconciler(self.core, self.bind)
        self._handlers: Mapping[str, Callable[..., float | None]] = {
            "workload": self.workloads.reconcile,
            "job": self.jobs.reconcile,
            "schedule": self.queues.schedule,
            "clusterqueue": self.queues.reconcile_cluster_queue,
            "clusterqueue-status": self.queues.publish,
            "localqueue": self.queues.publish_local,
        }
        view.listen(self._on_change)
        view.store.admission += [self.admit, validate_workload]

    def reconcile(self, key: Key) -> float | None:
        """Hand a key to the controller that its first word names."""
        return self._handlers[key[0]](*key[1:])

    def admit(self, operation: Operation, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
        """Suspend a job with a queue name at its creation; an admission hook."""
        if (
            operation == "create"
            and new is not None
            and kind in INTEGRATIONS
            and (meta(new).get("labels") or {}).get(QUEUE_LABEL)
        ):
            new["spec"] = merge_patch(new["spec"], INTEGRATIONS[kind].stopped(new))
            self.default_job(kind, new)

    def default_job(self, kind: Kind, job: Json) -> None:
        """Change a managed job that is being created further; here nothing."""

    def bind(self, kind: Kind, job: Json, name: str) -> Json | None:
        """Return the Workload that a job names as its own, bound to it; here none ever is, so that such a job stays
        suspended.
        """
        return None

    def preempt(self, namespace: str, name: str, *, reason: str = "InClusterQueue", message: str = "") -> bool:
        """Preempt a Workload, as the scheduler would for another one; False if it is evicted already, ApiError 404 if
        it is not there.
        """
        text = (
            message
            or "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: UNKNOWN) due to prioritization "
            "in the ClusterQueue"
        )
        return self.workloads.preempt(self._known(namespace, name), reason, text)

    def evict(self, namespace: str, name: str, reason: str, message: str) -> bool:
        """Evict a Workload for a reason of Kueue's; False if it is evicted already, ApiError 404 if it is not there."""
        return self.workloads.evict(self._known(namespace, name), reason, message)

    def deactivate(self, namespace: str, name: str) -> None:
        """Set `spec.active` to false, as a user would. ApiError 404 if the Workload is not there."""
        self.core.patch(self._known(namespace, name), {"spec": {"active": False}})

    def _known(self, namespace: str, name: str) -> Json:
        workload = self.core.workload(namespace, name)
        if workload is None:
            raise not_found(kinds.WORKLOADS, name)
        return workload

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        if kind == kinds.WORKLOADS:
            metadata = meta(new or old or {})
            self.queues.on_workload(old, new)
            self.enqueue(("workload", metadata["namespace"], metadata["name"]))
            for job in self.jobs.on_workload(old, new):
                self.enqueue(("job", *job))
        elif kind in INTEGRATIONS:
            self.enqueue(("job", *self.jobs.on_job(kind, old, new)))
        elif kind in QUOTA_KINDS:
            self.queues.on_object(kind, old, new)
