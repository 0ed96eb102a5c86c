"""The queue of one ClusterQueue: who may be tried, in which order, and who waits for a change.

In: workloads that come, change and go, and what became of those that were tried. Out: the head. A workload that did not
fit is set aside as inadmissible, with all of its shape if the ClusterQueue is BestEffortFIFO, until something wakes it
(kubernetes-sigs/kueue pkg/cache/queue/cluster_queue.go)."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import BEST_EFFORT_FIFO, STRICT_FIFO, Workload

Order = tuple[int, float, float, str]
Bucket = list[tuple[Order, str, int]]
Used = Callable[[str], float]
"""What a LocalQueue used in the past, by its key."""

_AT_ONCE = frozenset({reasons.FAILED_AFTER_NOMINATION, reasons.PENDING_PREEMPTION})
_OF_ITS_SHAPE = frozenset({reasons.NO_FIT, reasons.NO_CANDIDATES})


class PendingQueue:
    """Workloads that wait in a ClusterQueue. `wakes` is the number of the change that woke its inadmissible workloads last.

    `first`: who waits for its victims; with BestEffortFIFO it is tried before the others. `no_fit`: why those of a shape do not fit."""

    def __init__(self, name: str, strategy: str = BEST_EFFORT_FIFO) -> None:
        self.name = name
        self.strategy = strategy
        self.active: dict[str, Info] = {}
        self.inadmissible: dict[str, Info] = {}
        self.wakes = 0
        self.no_fit: dict[object, str] = {}
        self.first = ""
        self._by_shape: dict[object, dict[str, Info]] = {}
        self._buckets: dict[str, Bucket] = {}
        self._tokens: dict[str, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self.active) + len(self.inadmissible)

    def find(self, key: str) -> Info | None:
        """Return a workload that waits here, or None."""
        return self.active.get(key) or self.inadmissible.get(key)

    def all(self) -> list[Info]:
        """Return who waits here, in no order."""
        return [*self.active.values(), *self.inadmissible.values()]

    @property
    def sticky(self) -> str:
        """Who is tried before the others whatever its order, since it waits for its victims; "" for nobody."""
        return self.first if self.strategy == BEST_EFFORT_FIFO and self.first in self.active else ""

    def known_not_to_fit(self, key: str) -> str:
        """Return why a workload is not even tried, since one of its shape did not fit; "" if it is."""
        info = self.inadmissible.get(key)
        return self.no_fit.get(info.shape, "") if info is not None else ""

    def head(self, used: Used | None = None) -> Info | None:
        """Return who is tried next; with `used` one of the LocalQueue that used least. None if nobody is."""
        sticks = self.sticky
        if used is None:
            if sticks:
                return self.active[sticks]
            tops = [(top[0], top[1]) for bucket in list(self._buckets) if (top := self._top(bucket))]
            return self.active[min(tops)[1]] if tops else None
        found = []
        for bucket in list(self._buckets):
            if top := self._top(bucket):
                first = self.active.get(sticks)
                sticky = first is not None and first.workload.local_queue == bucket
                order, key = (order_of(first.workload), first.key) if sticky and first else (top[0], top[1])
                found.append((used(bucket), not sticky, order, key))
        return self.active[min(found)[3]] if found else None

    def enter(self, info: Info) -> None:
        """Take a workload of a LocalQueue that now leads here; it is tried at once, unless it waits here already."""
        if self.find(info.key) is None:
            self._activate(info)

    def enter_as_it_was(self, info: Info, *, active: bool) -> None:
        """Take a workload that was here before, as `controlplane.controllers.quota.engine.kept` has it."""
        if active:
            self._activate(info)
        else:
            self.inadmissible[info.key] = info

    def put(self, info: Info, now: float) -> None:
        """Take a new or changed workload."""
        key, known = info.key, self.find(info.key)
        if known is not None and known.progress is not None and known.progress.shape == info.shape:
            info = info.having(progress=known.progress)
        if key in self.inadmissible:
            old = self.inadmissible[key]
            if not _concerns(old, info.workload):
                self.inadmissible[key] = info.having(evaluated_generation=old.evaluated_generation)
                return
            del self.inadmissible[key]
        if key not in self.active:
            known_not_to_fit = self.strategy == BEST_EFFORT_FIFO and info.shape in self.no_fit
            if known_not_to_fit or info.workload.requeue_at > now:
                self.inadmissible[key] = info
                return
        self._activate(info)

    def drop(self, key: str) -> None:
        """Forget a workload."""
        self.inadmissible.pop(key, None)
        self._deactivate(key)
        if self.first == key:
            self.first = ""

    def requeue(self, info: Info, reason: str, now: float, wakes: int, told: str = "") -> None:
        """Put back who was tried; `wakes` is what it was when the decision was made, `told` the reason of its condition."""
        if reason == reasons.PENDING_PREEMPTION:
            self.first = info.key
        strict = self.strategy == STRICT_FIFO
        at_once = reason != reasons.NAMESPACE_MISMATCH if strict else reason in _AT_ONCE
        pending_flavors = info.progress is not None and info.progress.pending_flavors
        info = info.having(evaluated_generation=info.workload.generation)
        if info.workload.requeue_at <= now and (at_once or self.wakes > wakes or pending_flavors):
            self.inadmissible.pop(info.key, None)
            self._activate(info)
            return
        self._deactivate(info.key)
        self.inadmissible[info.key] = info
        if reason in _OF_ITS_SHAPE and self.strategy == BEST_EFFORT_FIFO:
            self.no_fit[info.shape] = told
            for alike in list(self._by_shape.get(info.shape, {}).values()):
                self._deactivate(alike.key)
                self.inadmissible[alike.key] = alike

    def wake(self, now: float, admits: Callable[[Workload], bool], change: int) -> int:
        """Let inadmissible workloads be tried again for a change with this number, but those that must wait or whose
        namespace is not admitted; return how many.
        """
        self.wakes = change
        self.no_fit.clear()
        woken = [
            info for info in self.inadmissible.values() if info.workload.requeue_at <= now and admits(info.workload)
        ]
        for info in woken:
            del self.inadmissible[info.key]
            self._activate(info)
        return len(woken)

    def _activate(self, info: Info) -> None:
        self._deactivate(info.key)
        self.active[info.key] = info
        self._by_shape.setdefault(info.shape, {})[info.key] = info
        self._count += 1
        self._tokens[info.key] = self._count
        bucket = self._buckets.setdefault(info.workload.local_queue, [])
        heapq.heappush(bucket, (order_of(info.workload), info.key, self._count))

    def _deactivate(self, key: str) -> None:
        info = self.active.pop(key, None)
        if info is None:
            return
        del self._tokens[key]
        alike = self._by_shape[info.shape]
        del alike[key]
        if not alike:
            del self._by_shape[info.shape]

    def _top(self, name: str) -> tuple[Order, str, int] | None:
        """Return the first of a LocalQueue, without those that are not there any more."""
        bucket = self._buckets[name]
        while bucket and self._tokens.get(bucket[0][1]) != bucket[0][2]:
            heapq.heappop(bucket)
        if bucket:
            return bucket[0]
        del self._buckets[name]
        return None


def order_of(workload: Workload) -> Order:
    """Return a key that sorts a queue: higher priorities, then who ran for longer on a cluster that was lost, then who has
    waited longer."""
    return -workload.priority, -workload.lost_after, workload.queued_at, workload.uid


def _concerns(old: Info, new: Workload) -> bool:
    """Return whether a change of an inadmissible workload may make it admissible, or moves it in its queue."""
    before = old.workload
    if old.evaluated_generation and new.generation != old.evaluated_generation:
        return True
    if new.requeue_at < before.requeue_at:
        return True  # it need not wait for a moment any more
    return (before.pod_sets, before.priority, before.queue, before.active, before.reclaimable, before.eviction) != (
        new.pod_sets,
        new.priority,
        new.queue,
        new.active,
        new.reclaimable,
        new.eviction,
    )
