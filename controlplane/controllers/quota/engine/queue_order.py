"""The order of all workloads that wait in a ClusterQueue, inadmissible ones among them: that in which its heads are
taken.

In: the state and a queue. Out: a sort key, which reads nothing of the state any more: it may be used while that changes
(kubernetes-sigs/kueue pkg/cache/queue/cluster_queue.go, Snapshot)."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.pending import Order, PendingQueue, order_of
from controlplane.controllers.quota.engine.state import State

OrderKey = Callable[[Info], tuple[float, bool, Order]]
"""Sorts by the past usage of the LocalQueue, then whoever waits for its victims first, then by `order_of`."""


def key_of(state: State, pending: PendingQueue) -> OrderKey:
    """Return the key that sorts a queue, as of now."""
    sticky, used = pending.sticky, _usage(state, pending.name)

    def key(info: Info) -> tuple[float, bool, Order]:
        return used.get(info.workload.local_queue, 0.0), info.key != sticky, order_of(info.workload)

    return key


def _usage(state: State, cluster_queue: str) -> dict[str, float]:
    """Return the past usage of the LocalQueues that lead to a ClusterQueue; nothing where it does not count."""
    queue = state.snapshot.queues.get(cluster_queue)
    if queue is None or not state.by_usage(queue.spec):
        return {}
    return {
        key: state.usage_of(key) for key, local in state.queues.local.items() if local.cluster_queue == cluster_queue
    }
