"""The queue of one ClusterQueue: who may be tried, in which order, and who waits for a change.

In: workloads that come, change and go, and what became of those that were tried. Out: the head. A workload that did not
fit is set aside as inadmissible, with all of its shape if the ClusterQueue is BestEffortFIFO, until something wakes it
(kubernetes-sigs/kueue pkg/cache/queue/cluster_queue.go)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection
from typing import NamedTuple

from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.amounts import FlavorResource
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import BEST_EFFORT_FIFO, STRICT_FIFO, Workload

Order = tuple[int, float, float, str]
Place = tuple[Order, str]
"""A workload's place in its queue: what sorts it, and its key."""

Used = Callable[[str], float]
"""What a LocalQueue used in the past, by its key."""

_AT_ONCE = frozenset({reasons.FAILED_AFTER_NOMINATION, reasons.PENDING_PREEMPTION})


_SPARE = 4


class NoFit(NamedTuple):
    """Why those of a shape do not fit: the reason of their condition, and what they are `short_of`, as of
    `Inadmissible`."""

    told: str
    short_of: frozenset[FlavorResource] | None = None

    def concerned(self, released: Collection[FlavorResource] | None) -> bool:
        """Return whether they may fit, or are told something else, once quota of some resources is given back; None:
        after any other change."""
        return released is None or self.short_of is None or not self.short_of.isdisjoint(released)


UNKNOWN = NoFit("")


class _Alike:
    """Workloads of one LocalQueue and one shape. They fit or do not fit together, so they are set aside and woken
    together, whatever their number: their places stay in the heap meanwhile. `placed`: the places that are in it, by
    key; `delayed`: who waits, or has waited, for a moment."""

    __slots__ = ("active", "delayed", "heap", "inadmissible", "placed")

    def __init__(self) -> None:
        self.active: dict[str, Info] = {}
        self.inadmissible: dict[str, Info] = {}
        self.heap: list[Place] = []
        self.placed: dict[str, Order] = {}
        self.delayed: set[str] = set()

    def __len__(self) -> int:
        return len(self.active) + len(self.inadmissible)

    def activate(self, info: Info) -> None:
        """Let one be tried in its place."""
        self.active[info.key] = info
        if self.placed.get(info.key) != (order := order_of(info.workload)):
            self._place(info.key, order)

    def set_aside(self, info: Info) -> None:
        """Let one not be tried."""
        self.inadmissible[info.key] = info
        if info.workload.requeue_at:
            self.delayed.add(info.key)
        if self.placed.get(info.key) != order_of(info.workload):
            self.placed.pop(info.key, None)

    def set_all_aside(self) -> None:
        """Let none of them be tried."""
        self.inadmissible.update(self.active)
        self.active.clear()

    def wake(self, now: float) -> dict[str, Info]:
        """Let all of them be tried that need not wait for a moment; return them, by key."""
        woken = self.inadmissible
        if any(woken[key].workload.requeue_at > now for key in self.delayed & woken.keys()):
            woken = {key: one for key, one in woken.items() if one.workload.requeue_at <= now}
            self.inadmissible = {key: one for key, one in self.inadmissible.items() if key not in woken}
        else:
            self.inadmissible = {}
        self.active.update(woken)
        for key in woken.keys() - self.placed.keys():
            self._place(key, order_of(woken[key].workload))
        return woken

    def first(self) -> Place | None:
        """Return the place of the first that may be tried, None if none may."""
        while self.active:
            order, key = self.heap[0]
            if self.placed.get(key) == order:
                if key in self.active:
                    return self.heap[0]
                del self.placed[key]
            heapq.heappop(self.heap)
        return None

    def _place(self, key: str, order: Order) -> None:
        self.placed[key] = order
        heapq.heappush(self.heap, (order, key))
        if len(self.heap) > _SPARE * (len(self) + 1):  # most of it are places of those who left
            self.placed = {
                one.key: order_of(one.workload) for one in (*self.active.values(), *self.inadmissible.values())
            }
            self.heap = [(order, key) for key, order in self.placed.items()]
            heapq.heapify(self.heap)


class _OfLocalQueue:
    """Those of one LocalQueue, by shape. `_firsts`: for each shape of which some may be tried a place that is not
    behind the first of them, which `_noted` has too; one that is not that place any more is put right once it is looked
    at."""

    __slots__ = ("_count", "_firsts", "_noted", "shapes")

    def __init__(self) -> None:
        self.shapes: dict[object, _Alike] = {}
        self._firsts: list[tuple[Place, int, object]] = []
        self._noted: dict[object, Place] = {}
        self._count = 0

    def note(self, shape: object) -> None:
        """Note that another one of a shape may be its first now."""
        alike = self.shapes.get(shape)
        first = alike.first() if alike is not None else None
        if first is None or ((noted := self._noted.get(shape)) is not None and noted <= first):
            return
        self._count += 1
        self._noted[shape] = first
        heapq.heappush(self._firsts, (first, self._count, shape))
        if len(self._firsts) > _SPARE * (
            len(self.shapes) + 1
        ):  # most of it are places of shapes that nobody has any more
            self._noted = {shape: place for shape, place in self._noted.items() if shape in self.shapes}
            self._firsts = [(place, at, shape) for at, (shape, place) in enumerate(self._noted.items())]
            self._count = len(self._firsts)
            heapq.heapify(self._firsts)

    def first(self) -> Place | None:
        """Return the place of the first that may be tried, None if none may."""
        while self._firsts:
            place, _, shape = self._firsts[0]
            alike = self.shapes.get(shape)
            if alike is not None and alike.first() == place:
                return place
            heapq.heappop(self._firsts)
            if self._noted.get(shape) == place:
                del self._noted[shape]
                self.note(shape)
        return None


class PendingQueue:
    """Workloads that wait in a ClusterQueue. `wakes` is the number of the change that woke its inadmissible workloads
    last.

    `first`: who waits for its victims; with BestEffortFIFO it is tried before the others. `no_fit`: why those of a
    shape do not fit."""

    def __init__(self, name: str, strategy: str = BEST_EFFORT_FIFO) -> None:
        self.name = name
        self.strategy = strategy
        self.active: dict[str, Info] = {}
        self.inadmissible: dict[str, Info] = {}
        self.wakes = 0
        self.no_fit: dict[object, NoFit] = {}
        self.first = ""
        self._local: dict[str, _OfLocalQueue] = {}

    def __len__(self) -> int:
        return len(self.active) + len(self.inadmissible)

    def find(self, key: str) -> Info | None:
        """Return a workload that waits here, or None."""
        return self.active.get(key) or self.inadmissible.get(key)

    def all(self) -> list[Info]:
        """Return who waits here, in no order."""
        return [*self.active.values(), *self.inadmissible.values()]

    def shapes(self) -> tuple[set[object], set[object]]:
        """Return the shapes of those that are tried, and of those that wait for a change."""
        several = [one for local in self._local.values() for one in local.shapes.items()]
        return {shape for shape, alike in several if alike.active}, {
            shape for shape, alike in several if alike.inadmissible
        }

    @property
    def sticky(self) -> str:
        """Who is tried before the others whatever its order, since it waits for its victims; "" for nobody."""
        return self.first if self.strategy == BEST_EFFORT_FIFO and self.first in self.active else ""

    def known_not_to_fit(self, key: str) -> str:
        """Return why a workload is not even tried, since one of its shape did not fit; "" if it is."""
        info = self.inadmissible.get(key)
        known = self.no_fit.get(info.shape) if info is not None else None
        return known.told if known is not None else ""

    def head(self, used: Used | None = None) -> Info | None:
        """Return who is tried next; with `used` one of the LocalQueue that used least. None if nobody is."""
        sticks = self.sticky
        if used is None:
            if sticks:
                return self.active[sticks]
            tops = [top for local in self._local.values() if (top := local.first())]
            return self.active[min(tops)[1]] if tops else None
        found = []
        for local_queue, local in self._local.items():
            if top := local.first():
                first = self.active.get(sticks)
                sticky = first is not None and first.workload.local_queue == local_queue
                order, key = (order_of(first.workload), first.key) if sticky and first else top
                found.append((used(local_queue), not sticky, order, key))
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
            self._set_aside(info)

    def put(self, info: Info, now: float) -> None:
        """Take a new or changed workload."""
        key, known = info.key, self.find(info.key)
        if known is not None and known.progress is not None and known.progress.shape == info.shape:
            info = info.having(progress=known.progress)
        old = self.inadmissible.get(key)
        if old is not None and not _concerns(old, info.workload):
            self._set_aside(info.having(evaluated_generation=old.evaluated_generation))
            return
        not_to_be_tried = (
            info.workload.requeue_at == math.inf
        )  # not a back-off of Kueue's, which only keeps new ones out
        if key not in self.active or not_to_be_tried:
            known_not_to_fit = self.strategy == BEST_EFFORT_FIFO and info.shape in self.no_fit
            if known_not_to_fit:  # it is to be told why of its own as soon as with Kueue
                self.no_fit[info.shape] = self.no_fit[info.shape]._replace(short_of=None)
            if known_not_to_fit or info.workload.requeue_at > now:
                self._set_aside(info)
                return
        self._activate(info)

    def drop(self, key: str) -> None:
        """Forget a workload, and with the last one of its shape that they do not fit: the next one is tried, and told
        why."""
        info = self.find(key)
        self._forget(key)
        if info is not None and not any(info.shape in local.shapes for local in self._local.values()):
            self.no_fit.pop(info.shape, None)
        if self.first == key:
            self.first = ""

    def requeue(self, info: Info, reason: str, now: float, wakes: int, no_fit: NoFit = UNKNOWN) -> None:
        """Put back who was tried; `wakes` is what it was when the decision was made, `no_fit` why it does not fit if it
        does not."""
        if reason == reasons.PENDING_PREEMPTION:
            self.first = info.key
        strict = self.strategy == STRICT_FIFO
        at_once = reason != reasons.NAMESPACE_MISMATCH if strict else reason in _AT_ONCE
        pending_flavors = info.progress is not None and info.progress.pending_flavors
        info = info.having(evaluated_generation=info.workload.generation)
        if info.workload.requeue_at <= now and (at_once or self.wakes > wakes or pending_flavors):
            self._activate(info)
            return
        self._set_aside(info)
        if reason in reasons.OF_ITS_SHAPE and self.strategy == BEST_EFFORT_FIFO:
            self.no_fit[info.shape] = no_fit
            self._set_shape_aside(info.shape)

    def _set_shape_aside(self, shape: object) -> None:
        """Set aside all that ask for the same: none of them fits."""
        for local in self._local.values():
            alike = local.shapes.get(shape)
            if alike is not None and alike.active:
                self.inadmissible.update(alike.active)
                for key in alike.active:
                    del self.active[key]
                alike.set_all_aside()

    def wake(
        self,
        now: float,
        admits: Callable[[str], bool],
        change: int,
        released: Collection[FlavorResource] | None = None,
    ) -> int:
        """Let inadmissible workloads be tried again for a change with this number, but those that must wait or whose
        namespace is not admitted; return how many. `released`: nothing but this quota was given back: those that it
        does not concern need not be tried.
        """
        self.wakes = change
        self.no_fit = {shape: one for shape, one in self.no_fit.items() if not one.concerned(released)}
        if not self.inadmissible:
            return 0
        count = 0
        for name, local in self._local.items():
            if not admits(name.partition("/")[0]):
                continue
            for shape, alike in local.shapes.items():
                woken = alike.wake(now) if alike.inadmissible and shape not in self.no_fit else {}
                if woken:
                    count += len(woken)
                    self.active.update(woken)
                    for key in woken:
                        del self.inadmissible[key]
                    local.note(shape)
        return count

    def _activate(self, info: Info) -> None:
        local, alike = self._anew(info)
        self.active[info.key] = info
        alike.activate(info)
        local.note(info.shape)

    def _set_aside(self, info: Info) -> None:
        _, alike = self._anew(info)
        self.inadmissible[info.key] = info
        alike.set_aside(info)

    def _anew(self, info: Info) -> tuple[_OfLocalQueue, _Alike]:
        """Forget what is known of a workload; return those of its LocalQueue, and those that it is alike."""
        local = self._local.setdefault(info.workload.local_queue, _OfLocalQueue())
        alike = local.shapes.setdefault(info.shape, _Alike())
        self._forget(info.key, alike)
        return local, alike

    def _forget(self, key: str, kept: _Alike | None = None) -> None:
        """Forget a workload; those that it is alike too if they are none any more, unless it comes back."""
        info = self.active.pop(key, None) or self.inadmissible.pop(key, None)
        if info is None:
            return
        local = self._local[info.workload.local_queue]
        alike = local.shapes[info.shape]
        alike.active.pop(key, None)
        alike.inadmissible.pop(key, None)
        if not alike and alike is not kept:
            del local.shapes[info.shape]
            if not local.shapes:
                del self._local[info.workload.local_queue]


def order_of(workload: Workload) -> Order:
    """Return a key that sorts a queue: higher priorities, then who ran for longer on a cluster that was lost, then who
    has waited longer."""
    return -workload.priority, -workload.lost_after, workload.queued_at, workload.uid


def _concerns(old: Info, new: Workload) -> bool:
    """Return whether a change of an inadmissible workload may make it admissible, or moves it in its queue."""
    before = old.workload
    if old.evaluated_generation and new.generation != old.evaluated_generation:
        return True
    if new.requeue_at < before.requeue_at:
        return True  # it need not wait for a moment any more
    return _asked(before) != _asked(new)


def _asked(workload: Workload) -> tuple[object, ...]:
    who = workload.queue, workload.priority, workload.active, workload.eviction, workload.preemption_gated
    return workload.pod_sets, workload.reclaimable, *who
