"""Lists the Workloads that wait for quota, with their positions, as Kueue's visibility API does.

In: the index of admission. Out: a `PendingLine`, which holds what it needs of it as of one moment: it may be sorted
while the index changes (kubernetes-sigs/kueue pkg/visibility/storage)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from controlplane.controllers.quota.admission.events import AdmissionWorkloadObserved
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.state import WorkloadState
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import NO_STOP
from controlplane.controllers.quota.engine.queue_order import OrderKey, key_of

_AT_ONCE = 2048  # workloads that are sorted in one go: nobody else runs meanwhile


@dataclass(frozen=True, slots=True)
class PendingWorkload:
    """A Workload that waits, and its positions, 0 for the first."""

    observed: AdmissionWorkloadObserved
    in_cluster_queue: int
    in_local_queue: int


class PendingLine:
    """The Workloads that wait in one ClusterQueue."""

    def __init__(self, waiting: list[Info], key: OrderKey, states: dict[str, WorkloadState]) -> None:
        self._waiting, self._key, self._states = waiting, key, states

    def of_cluster_queue(self, offset: int, limit: int) -> list[PendingWorkload]:
        """Return at most `limit` of them in order, from a position on."""
        found, seen = [], dict[str, int]()
        for position, info in enumerate(islice(self._sorted(), offset + limit)):
            at = seen.get(info.workload.local_queue, 0)
            seen[info.workload.local_queue] = at + 1
            if position >= offset:
                found.append((info, position, at))
        return self._entries(found)

    def of_local_queue(self, local_queue: str, offset: int, limit: int) -> list[PendingWorkload]:
        """Return those of a LocalQueue, by its namespace and name, from a position in it on."""
        its = (
            (position, one) for position, one in enumerate(self._sorted()) if one.workload.local_queue == local_queue
        )
        found = [
            (info, position, at) for at, (position, info) in enumerate(islice(its, offset + limit)) if at >= offset
        ]
        return self._entries(found)

    def _sorted(self) -> Iterator[Info]:
        pieces = [
            sorted(self._waiting[start : start + _AT_ONCE], key=self._key)
            for start in range(0, len(self._waiting), _AT_ONCE)
        ]
        return iter(pieces[0]) if len(pieces) == 1 else heapq.merge(*pieces, key=self._key)

    def _entries(self, found: list[tuple[Info, int, int]]) -> list[PendingWorkload]:
        """Return what is told of Workloads; those that were deleted meanwhile are left out."""
        entries = []
        for info, position, at in found:
            state = self._states.get(info.key)
            if state is not None and state.observed is not None and state.observed.uid == info.workload.uid:
                entries.append(PendingWorkload(state.observed, position, at))
        return entries


def of_cluster_queue(index: AdmissionIndex, name: str) -> PendingLine | None:
    """Return the line of a ClusterQueue; None if there is none of that name."""
    pending = index.engine.queues.pending.get(name)
    if pending is None:
        return None
    return PendingLine(pending.all(), key_of(index.engine, pending), index.workloads)


def of_local_queue(index: AdmissionIndex, key: str) -> PendingLine | None:
    """Return the line of the ClusterQueue that a LocalQueue leads to, by its namespace and name; an empty one if that
    is not there, None if the LocalQueue is not there or stopped."""
    local = index.engine.queues.local.get(key)
    if local is None or local.stop_policy != NO_STOP:
        return None
    return of_cluster_queue(index, local.cluster_queue) or PendingLine([], lambda info: (0.0, True, (0, 0, 0, "")), {})
