"""All queues: which LocalQueue and ClusterQueue a workload waits in.

In: LocalQueues, ClusterQueues and workloads, in whatever order they come. Out: the queue of each ClusterQueue
(kubernetes-sigs/kueue pkg/cache/queue/manager.go)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import NO_STOP, ClusterQueue, LocalQueue, Workload
from controlplane.controllers.quota.engine.pending import PendingQueue


class PendingQueues:
    """Workloads that have no quota, by LocalQueue; those whose LocalQueue leads to a ClusterQueue wait in its queue."""

    def __init__(self) -> None:
        self.pending: dict[str, PendingQueue] = {}
        self.local: dict[str, LocalQueue] = {}
        self._waiting: dict[str, Workload] = {}
        self._delayed: set[str] = set()
        self._of_local: dict[str, dict[str, Workload]] = {}

    def put_cluster_queue(self, spec: ClusterQueue) -> None:
        """Note a ClusterQueue, new or changed."""
        known = self.pending.get(spec.name)
        if known is not None:
            known.strategy = spec.queueing_strategy
            return
        self.pending[spec.name] = PendingQueue(spec.name, spec.queueing_strategy)
        for queue in self.local.values():
            if queue.cluster_queue == spec.name:
                self._enter_all(queue)

    def drop_cluster_queue(self, name: str) -> None:
        """Note that a ClusterQueue is gone."""
        self.pending.pop(name, None)

    def put_local_queue(self, queue: LocalQueue) -> None:
        """Note a LocalQueue, new or changed; workloads of one that is stopped do not wait."""
        if self.local.get(queue.key) == queue:
            return
        self.drop_local_queue(queue.key)
        self.local[queue.key] = queue
        self._enter_all(queue)

    def drop_local_queue(self, key: str) -> None:
        """Note that a LocalQueue is gone."""
        queue = self.local.pop(key, None)
        pending = self.pending.get(queue.cluster_queue) if queue else None
        if pending is not None:
            for workload in self._of_local.get(key, ()):
                pending.drop(workload)

    def put(self, workload: Workload, now: float) -> None:
        """Take a workload that waits for quota, new or changed."""
        known = self._waiting.get(workload.key)
        if known is not None and known.local_queue != workload.local_queue:
            self.drop(workload.key)
        self.wait(workload)
        pending = self.of(workload)
        if pending is not None:
            pending.put(Info(workload, pending.name), now)

    def wait(self, workload: Workload) -> None:
        """Note a workload that waits for quota, wherever its LocalQueue leads."""
        self._waiting[workload.key] = workload
        if 0 < workload.requeue_at < math.inf:
            self._delayed.add(workload.key)
        else:
            self._delayed.discard(workload.key)
        self._of_local.setdefault(workload.local_queue, {})[workload.key] = workload

    def waiting(self) -> Iterable[Workload]:
        """Return the workloads that wait for quota."""
        return self._waiting.values()

    def drop(self, key: str) -> None:
        """Forget a workload."""
        workload = self._waiting.pop(key, None)
        self._delayed.discard(key)
        if workload is None:
            return
        of_local = self._of_local[workload.local_queue]
        del of_local[key]
        if not of_local:
            del self._of_local[workload.local_queue]
        pending = self.of(workload)
        if pending is not None:
            pending.drop(key)

    def of(self, workload: Workload) -> PendingQueue | None:
        """Return the queue that a workload waits in, or None."""
        queue = self.local.get(workload.local_queue)
        if queue is None or queue.stop_policy != NO_STOP:
            return None
        return self.pending.get(queue.cluster_queue)

    def waiting_in(self, local_queue: str) -> int:
        """Return how many workloads of a LocalQueue wait, by its namespace and name."""
        return len(self._of_local.get(local_queue, ()))

    def delayed(self, now: float) -> list[Workload]:
        """Return the workloads that had to wait for a moment which has come."""
        return [self._waiting[key] for key in sorted(self._delayed) if self._waiting[key].requeue_at <= now]

    def _enter_all(self, queue: LocalQueue) -> None:
        """Let the workloads of a LocalQueue be tried, whatever they waited for: Kueue does so too."""
        for workload in self._of_local.get(queue.key, {}).values():
            pending = self.of(workload)
            if pending is not None:
                pending.enter(Info(workload, pending.name))
