"""Gathers the pools of devices that a node reaches: which slices count, and what is wrong with a pool.

In: ResourceSlices, a node. Out: `Pool`s in the order in which they are tried: by driver and name, within one by the
slices' names. Slices of an older generation are left out; a pool of which slices are missing, or that contradicts
itself, is there without devices (kubernetes/dynamic-resource-allocation structured/internal/incubating, v0.36)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from controlplane.controllers.scheduling.snapshot.objects import Node
from controlplane.kube.devices.objects import Device, ResourceSlice, Where

PoolID = tuple[str, str]


class SliceError(ValueError):
    """A slice says where it is reached from in terms that do not parse."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as a node sees it. `slices` are those that it reaches; `others` those of the pool that it does not.

    `incomplete`: slices are missing yet; `invalid`: why nothing is taken from it."""

    driver: str
    name: str
    slices: tuple[ResourceSlice, ...] = ()
    others: tuple[ResourceSlice, ...] = ()
    counters: dict[str, dict[str, int]] | None = None
    incomplete: bool = False
    invalid: str = ""


def reached(where: Where, node: Node) -> bool:
    """Return whether a node reaches something; `SliceError` if that is said in terms that do not parse."""
    if where.node:
        return where.node == node.name
    if where.everywhere:
        return True
    if where.terms is None:
        return False
    wrong = next((term.error for term in where.terms if term.error), "")
    if wrong:
        raise SliceError(wrong)
    return any(term.matches(node.labels, node.name) for term in where.terms)


class Slices:
    """The ResourceSlices of a cluster, by pool and name."""

    def __init__(self) -> None:
        self._pools: dict[PoolID, dict[str, ResourceSlice]] = {}
        self._by_name: dict[str, PoolID] = {}
        self._of_node: dict[str, Counter[PoolID]] = {}  # by node, "" for what more than one may reach

    def put(self, one: ResourceSlice) -> None:
        """Take a slice, in place of the one of that name."""
        self.drop(one.name)
        pool = (one.driver, one.pool)
        self._by_name[one.name] = pool
        self._pools.setdefault(pool, {})[one.name] = one
        self._of_node.setdefault(_node_of(one), Counter())[pool] += 1

    def drop(self, name: str) -> None:
        """Forget a slice, if it is there."""
        pool = self._by_name.pop(name, None)
        if pool is None:
            return
        old = self._pools[pool].pop(name)
        if not self._pools[pool]:
            del self._pools[pool]
        there = self._of_node[_node_of(old)]
        there[pool] -= 1
        if not there[pool]:
            del there[pool]
        if not there:
            del self._of_node[_node_of(old)]

    def pools(self, node: Node) -> list[Pool]:
        """Return the pools that a node reaches; those whose devices have conditions to be bound come last."""
        keys = {*self._of_node.get(node.name, ()), *self._of_node.get("", ())}
        found = (_pool(key, self._pools[key].values(), node) for key in sorted(keys))
        pools = [pool for pool in found if pool is not None]
        return sorted(pools, key=lambda pool: any(device.conditions for device in devices(pool)))


def _node_of(one: ResourceSlice) -> str:
    return "" if one.counters or one.twice else one.where.node


def devices(pool: Pool) -> Iterator[Device]:
    """Yield the devices of a pool that its node reaches."""
    for one in pool.slices:
        yield from one.devices


def _pool(key: PoolID, slices: Iterable[ResourceSlice], node: Node) -> Pool | None:
    """Return a pool as a node sees it, None if it sees nothing of it or only what is being replaced."""
    everything = list(slices)
    relevant = [one for one in everything if _relevant(one, node)]
    if not relevant:
        return None
    newest = max(one.generation for one in relevant)
    near = sorted((one for one in relevant if one.generation == newest), key=lambda one: one.name)
    if len(near) == near[0].count:
        return _built(key, near, [])
    if any(one.generation > newest for one in everything):
        return None
    whole = [one for one in everything if one.generation == newest]
    if len(whole) != near[0].count:
        return Pool(*key, incomplete=True)
    return _built(key, near, [one for one in whole if one not in near])


def _relevant(one: ResourceSlice, node: Node) -> bool:
    if one.counters or one.twice:
        return True
    if one.where.said:
        return reached(one.where, node)
    return one.each and any(reached(device.where, node) for device in one.devices)


def _built(key: PoolID, near: list[ResourceSlice], others: list[ResourceSlice]) -> Pool:
    counting = [one for one in near if one.counters or one.twice]
    offering = [one for one in near if not (one.counters or one.twice)]
    counters: dict[str, dict[str, int]] = {}
    wrong = _named_twice(offering)
    for one in counting:
        wrong = wrong or (f"duplicate counter set name {one.twice}" if one.twice else "")
        wrong = wrong or next((f"duplicate counter set name {name}" for name in one.counters if name in counters), "")
        counters |= one.counters
    wrong = wrong or _uncounted(counters, [*near, *others])
    return Pool(*key, invalid=wrong) if wrong else Pool(*key, tuple(offering), tuple(others), counters)


def _named_twice(slices: list[ResourceSlice]) -> str:
    seen: set[str] = set()
    for one in slices:
        for device in one.devices:
            if device.name in seen:
                return f"duplicate device name {device.name}"
            seen.add(device.name)
    return ""


def _uncounted(counters: dict[str, dict[str, int]], slices: list[ResourceSlice]) -> str:
    for one in slices:
        for device in one.devices:
            for name, consumed in device.consumes:
                if name not in counters:
                    return f"counter set {name} not found"
                missing = next((counter for counter in consumed if counter not in counters[name]), "")
                if missing:
                    return f"counter {missing} not found in counter set {name}"
    return ""
