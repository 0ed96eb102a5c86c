"""Why a workload waits for quota: its place in the queue, what is missing of which flavor, who has it, and who would
have to leave.

In: the state, a workload, the moment. Out: a `Wait`. Nothing is changed. What is missing is told flavor by flavor, as
all pods of the workload would have it; where resources are in several groups each is told for itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from controlplane.controllers.quota.engine.admissibility import problem
from controlplane.controllers.quota.engine.amounts import FlavorResource, Requests, Usage, add, in_order, sub
from controlplane.controllers.quota.engine.borrowing import may_preempt_for
from controlplane.controllers.quota.engine.candidates import using
from controlplane.controllers.quota.engine.cycle import preemptor
from controlplane.controllers.quota.engine.flavor_match import Unmatchable, mismatch
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import ResourceGroup
from controlplane.controllers.quota.engine.pending import PendingQueue
from controlplane.controllers.quota.engine.preemption import Need
from controlplane.controllers.quota.engine.queue_order import key_of
from controlplane.controllers.quota.engine.slices import other_flavor, replaced_slice
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.state import State
from controlplane.controllers.quota.engine.tree import Journal, add_all, remove_all, rollback
from controlplane.controllers.quota.topology.queue_topology import QueueTopology
from controlplane.controllers.quota.topology.workload_placement import failure
from controlplane.kube.well_known import PODS_RESOURCE

MOST_HOLDERS = 10


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that has what is missing. `cluster_queue` has its quota, `amount` in the engine's units; `borrows`:
    its ClusterQueue uses more than its own quota of it. `evicted`: it is about to leave."""

    workload: str
    cluster_queue: str
    amount: int
    priority: int
    borrows: bool
    evicted: bool


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of a flavor. `wanted` by the workload; `free` to its ClusterQueue now, borrowed quota included;
    `most`: what would be if nobody used anything. `has`: what a slice has whose place it takes, which is not in
    `wanted`."""

    flavor: str
    resource: str
    wanted: int
    free: int
    most: int
    has: int = 0
    holders: tuple[Holder, ...] = ()

    @property
    def missing(self) -> int:
        """How much more is wanted than is free."""
        return max(0, sub(self.wanted, self.free))

    @property
    def never(self) -> bool:
        """Whether it cannot fit, whoever leaves."""
        return add(self.wanted, self.has) > self.most


@dataclass(frozen=True, slots=True)
class FlavorOption:
    """A flavor, for one group of resources. `unusable`: why pods may not run on it, "" if they may. `preemptible`: whom
    the workload may preempt so that it fits, empty if that does not help; `would_end`: whose end would be enough, those
    of the lowest priority and the latest reservations first, empty if no end is. `unplaced`: why its pods have no place
    in the flavor's topology now, "" if they have or need none; `never_placed`: they would have none if nobody else was
    placed."""

    name: str
    unusable: str = ""
    shortages: tuple[Shortage, ...] = ()
    preemptible: tuple[str, ...] = ()
    would_end: tuple[str, ...] = ()
    unplaced: str = ""
    never_placed: bool = False

    @property
    def fits(self) -> bool:
        """Whether nothing is missing."""
        return not (self.unusable or self.unplaced) and not any(one.missing for one in self.shortages)

    @property
    def never(self) -> bool:
        """Whether it cannot fit, whoever leaves."""
        return bool(self.unusable) or self.never_placed or any(one.never for one in self.shortages)


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a workload waits. `position` of `pending` in its ClusterQueue, 1 for the first; `ahead`: who is before it,
    the first ones. `inactive`: why its ClusterQueue admits nobody, "" if it does; `inadmissible`: why the workload
    cannot be considered at all, "" if it can; `groups`: the flavors for each group of resources that it asks for.
    `tried`: it was tried since something changed, and waits for the next change. `used`: the past usage of its tenant,
    weighted, None where that does not count; tenants that used less come first. `dominant`: the resource of which it is
    a share, "" where it is a sum. `replaces`: the slice whose place it is to take, "" for none; what is wanted is what
    it needs beyond that."""

    cluster_queue: str
    position: int
    pending: int
    ahead: tuple[str, ...]
    tried: bool
    inactive: str = ""
    inadmissible: str = ""
    uncovered: tuple[str, ...] = ()
    groups: tuple[tuple[FlavorOption, ...], ...] = ()
    used: float | None = None
    dominant: str = ""
    replaces: str = ""


def explain(state: State, key: str, now: float) -> Wait | None:
    """Return why a workload waits, by its namespace and name; None if it waits in no ClusterQueue."""
    for pending in state.queues.pending.values():
        info = pending.find(key)
        if info is None:
            continue
        queue = state.snapshot.queues[pending.name]
        by_usage = state.by_usage(queue.spec)
        line = in_line(state, pending)
        place = next(at for at, one in enumerate(line) if one.key == key)
        refused = problem(state.snapshot, queue, info)
        wait = Wait(
            pending.name,
            place + 1,
            len(line),
            tuple(one.key for one in line[:place][:MOST_HOLDERS]),
            key in pending.inadmissible,
            _inactive(state, queue),
            refused[1] if refused is not None else "",
            used=state.usage_of(info.workload.local_queue) if by_usage else None,
            dominant=state.dominant_resource(info.workload.local_queue) if by_usage else "",
        )
        return wait if refused is not None else _with_groups(state, queue, info, wait, now)
    return None


def _inactive(state: State, queue: QueueNode) -> str:
    """Return why a ClusterQueue admits nobody, in the words of its condition, "" if it does. The condition says nothing
    of Cohorts."""
    cycle = ["its Cohorts are in a cycle, by their spec.parentName"] if state.snapshot.has_cycle(queue) else []
    return ", ".join([*state.snapshot.inactive_reasons(queue), *cycle])


def in_line(state: State, pending: PendingQueue) -> list[Info]:
    """Return who waits in a ClusterQueue, in the order in which they are considered."""
    return sorted(pending.all(), key=key_of(state, pending))


def _with_groups(state: State, queue: QueueNode, info: Info, wait: Wait, now: float) -> Wait:
    asked = _asked(queue, info)
    undeclared = () if state.settings.ignore_undeclared else asked
    uncovered = tuple(name for name in undeclared if queue.spec.group_of(name) is None and asked[name])
    old = replaced_slice(info, queue.workloads, ())
    has = _asked(queue, old) if old is not None else {}
    groups = []
    for group in queue.spec.groups:
        requests = in_order({name: amount for name, amount in asked.items() if name in group.covered})
        if requests:
            groups.append(tuple(_options(state, queue, info, group, (requests, has), now)))
    return replace(wait, uncovered=uncovered, groups=tuple(groups), replaces=old.key if old is not None else "")


def _asked(queue: QueueNode, info: Info) -> Requests:
    """Return what a workload asks for in all, or has."""
    asked: Requests = {}
    for total in info.pod_sets:
        for name, amount in total.requests.items():
            asked[name] = add(asked.get(name, 0), amount)
        if queue.spec.group_of(PODS_RESOURCE) is not None and not total.flavors:
            asked[PODS_RESOURCE] = add(asked.get(PODS_RESOURCE, 0), total.count)
    return asked


def _options(
    state: State, queue: QueueNode, info: Info, group: ResourceGroup, asked: tuple[Requests, Requests], now: float
) -> Iterator[FlavorOption]:
    """Yield the flavors of a group. `asked`: what the workload asks for in all, and what a slice has whose place it
    takes."""
    topology = QueueTopology(state.snapshot, queue)
    requests, has = asked
    requests = {resource: max(0, sub(amount, has.get(resource, 0))) for resource, amount in requests.items()}
    for name in group.flavors:
        if told := _unusable(topology, info, name, group.covered) or _another(queue, info, name, requests):
            yield FlavorOption(name, told)
            continue
        unplaced, never_placed = _unplaced(topology, info, name)
        usage = {(name, resource): amount for resource, amount in requests.items()}
        shortages = tuple(
            _shortage(queue, info, place, amount, has.get(place[1], 0)) for place, amount in usage.items()
        )
        short = frozenset((name, one.resource) for one in shortages if one.missing)
        if not short or unplaced or any(one.never for one in shortages):
            yield FlavorOption(name, "", shortages, unplaced=unplaced, never_placed=never_placed)
            continue
        fair = state.settings.fair_sharing
        allowed = all(
            may_preempt_for(queue, (name, resource), requests[resource], fair_sharing=fair) for _, resource in short
        )
        targets = preemptor(state, now, []).targets(Need(info, queue, usage, short)) if allowed else []
        preemptible = tuple(sorted(target.info.key for target in targets))
        would_end = _would_end(queue, info, usage, short)
        yield FlavorOption(name, "", shortages, preemptible, would_end, unplaced, never_placed)


def _shortage(queue: QueueNode, info: Info, place: FlavorResource, amount: int, has: int) -> Shortage:
    available = max(0, queue.available(place))
    holders = tuple(_holders(queue, info, place)) if amount > available else ()
    return Shortage(*place, amount, available, queue.potential_available(place), has, holders)


def _unplaced(topology: QueueTopology, info: Info, name: str) -> tuple[str, bool]:
    """Return why pods have no place in the topology of a flavor, and whether that is so whoever leaves."""
    requests = topology.requests_in(name, info)
    refused = failure(topology.find(requests, info))
    if refused is None:
        return "", False
    return refused.refusal, failure(topology.find(requests, info, empty=True)) is not None


def _unusable(topology: QueueTopology, info: Info, name: str, covered: Collection[str]) -> str:
    flavor = topology.snapshot.flavors.get(name)
    if flavor is None:
        return f"flavor {name} not found"
    listed = info.workload.pod_sets
    found = (topology.mismatch(one, flavor, covered) or mismatch(one, flavor) for one in listed)
    try:
        return next((told for told in found if told), "")
    except Unmatchable as error:
        return str(error)


def _another(queue: QueueNode, info: Info, flavor: str, requests: Requests) -> str:
    """Return that a slice whose place a workload takes has another flavor, "" if it has this one."""
    old = replaced_slice(info, queue.workloads, ())
    kept = (
        other_flavor(old, one.name, name, flavor) for one in info.pod_sets for name in one.requests if name in requests
    )
    found = next((one for one in kept if one is not None), None)
    return f"the slice whose place it takes has flavor {found or 'none'}" if found is not None else ""


def _in_reach(queue: QueueNode, info: Info, places: Iterable[FlavorResource]) -> Iterator[tuple[QueueNode, Info]]:
    """Yield the workloads of the tree that use some resources, with their ClusterQueues, without the slice whose place
    a workload takes: with its end all would be missing."""
    wanted = frozenset(places)
    for other in queue.root().subtree_queues():
        for one in using(other, wanted, ()):
            if one.key != info.workload.replaces:
                yield other, one


def _holders(queue: QueueNode, of: Info, place: FlavorResource) -> list[Holder]:
    """Return who has most of a resource where its end would give the ClusterQueue more: in it, or where quota is
    shared."""
    journal: Journal = []
    before, found = queue.available(place), []
    for other, info in _in_reach(queue, of, (place,)):
        remove_all(other, info.usage, journal)
        helps = queue.available(place) > before
        rollback(journal)
        if helps:
            borrows = other.borrows_with(place, 0)
            workload = info.workload
            found.append(Holder(info.key, other.name, info.usage[place], workload.priority, borrows, workload.evicted))
    return sorted(found, key=lambda one: (-one.amount, one.workload))[:MOST_HOLDERS]


def _would_end(queue: QueueNode, info: Info, usage: Usage, short: frozenset[FlavorResource]) -> tuple[str, ...]:
    """Return whose end would be enough: as few as are found by letting all go, and the others come back one by one."""
    journal: Journal = []
    need = Need(info, queue, usage, short)
    order = sorted(
        _in_reach(queue, info, short),
        key=lambda one: (one[1].workload.priority, -(one[1].workload.reserved_at or 0.0), one[1].key),
    )
    gone: list[tuple[QueueNode, Info]] = []
    for other, holder in order:
        if need.fits(True):
            break
        remove_all(other, holder.usage, journal)
        gone.append((other, holder))
    if not need.fits(True):
        rollback(journal)
        return ()
    stay = []
    for other, holder in reversed(gone):
        savepoint = len(journal)
        add_all(other, holder.usage, journal)
        if not need.fits(True):
            rollback(journal, savepoint)
            stay.append(holder.key)
    rollback(journal)
    return tuple(reversed(stay))
