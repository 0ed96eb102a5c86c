"""Says what is to be kept of the engine's state, and makes the same state of it again.

In: a state. Out: its objects and who waits, as plain values in their order, and another state made of them. What
follows from these is not kept, but made anew: trees, totals, heaps. The order is kept too, since among equals it
decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from controlplane.controllers.quota.engine.amounts import FlavorResource
from controlplane.controllers.quota.engine.info import Info, Progress
from controlplane.controllers.quota.engine.model import ClusterQueue, Cohort
from controlplane.controllers.quota.engine.pending import NoFit, PendingQueue
from controlplane.controllers.quota.engine.queues import PendingQueues
from controlplane.controllers.quota.engine.snapshot import QuotaSnapshot
from controlplane.controllers.quota.engine.tree import QuotaNode

Kept = dict[tuple[str, str], Any]
"""By what something is, and its name."""

_FLAVOR, _CHECK, _NAMESPACE, _LOCAL_QUEUE = "flavor", "check", "namespace", "local queue"
_TOPOLOGY, _NODE, _POD = "topology", "node", "pod"
_COHORT, _CLUSTER_QUEUE, _RESERVING, _WAITING, _QUEUED = "cohort", "cluster queue", "reserving", "waiting", "queued"
_Over = tuple[tuple[tuple[str, str], tuple[tuple[bool, str], ...]], ...]


class _Cohort(NamedTuple):
    """A Cohort, with the names of what is below it in its order."""

    spec: Cohort | None
    cohorts: tuple[str, ...]
    queues: tuple[str, ...]
    over: _Over
    used: tuple[FlavorResource, ...]


class _ClusterQueue(NamedTuple):
    """A ClusterQueue, and what its queue knows; `used` is what was ever used of it, be it nothing now."""

    spec: ClusterQueue
    generation: int
    wakes: int
    first: str
    no_fit: tuple[tuple[object, NoFit], ...]
    used: tuple[FlavorResource, ...]


class _Queued(NamedTuple):
    """Where a workload waits, and how far it was tried; `shape`: of the search for flavors, None if it is the
    workload's."""

    cluster_queue: str
    active: bool
    evaluated_generation: int
    tried: tuple[Mapping[str, int], ...] | None = None
    tried_at: tuple[int, int] = (0, 0)
    shape: object = None


def kept(snapshot: QuotaSnapshot, queues: PendingQueues) -> Kept:
    """Return what is to be kept of both."""
    found: Kept = {}

    def keep(what: str, values: Mapping[str, object]) -> None:
        found.update({(what, name): one for name, one in values.items()})

    keep(_FLAVOR, snapshot.flavors)
    keep(_CHECK, snapshot.checks)
    keep(_NAMESPACE, {name: dict(labels) for name, labels in snapshot.namespaces.items()})
    keep(_TOPOLOGY, snapshot.topology.topologies)
    keep(_NODE, snapshot.topology.nodes)
    keep(_POD, snapshot.topology.pods)
    for name, node, spec in snapshot.cohorts_with_specs():
        found[_COHORT, name] = _Cohort(spec, tuple(node.cohorts), tuple(node.queues), _over(node), tuple(node.usage))
    for name, queue in snapshot.queues.items():
        pending = queues.pending[name]
        no_fit = tuple(pending.no_fit.items())
        found[_CLUSTER_QUEUE, name] = _ClusterQueue(
            queue.spec, queue.generation, pending.wakes, pending.first, no_fit, tuple(queue.usage)
        )
    keep(_LOCAL_QUEUE, queues.local)
    keep(_RESERVING, {key: info.workload for key, info in snapshot.workloads.items()})
    keep(_WAITING, {one.key: one for one in queues.waiting()})
    for pending in queues.pending.values():
        keep(_QUEUED, {key: _queued(pending, info, active=True) for key, info in pending.active.items()})
        keep(_QUEUED, {key: _queued(pending, info, active=False) for key, info in pending.inadmissible.items()})
    return found


def restore(given: Kept, snapshot: QuotaSnapshot, queues: PendingQueues) -> None:
    """Make of what was kept the same again, in a snapshot and queues that are empty."""
    of: dict[str, dict[str, Any]] = {}
    for (what, name), one in given.items():
        of.setdefault(what, {})[name] = one
    for topology in of.get(_TOPOLOGY, {}).values():
        snapshot.topology.put_topology(topology)
    for flavor in of.get(_FLAVOR, {}).values():
        snapshot.put_flavor(flavor)
    for node in of.get(_NODE, {}).values():
        snapshot.topology.put_node(node)
    for key, (on, requests) in of.get(_POD, {}).items():
        snapshot.topology.put_pod(key, on, requests)
    snapshot.checks.update(of.get(_CHECK, {}))
    snapshot.namespaces.update(of.get(_NAMESPACE, {}))
    cohorts: dict[str, _Cohort] = of.get(_COHORT, {})
    listed: dict[str, _ClusterQueue] = of.get(_CLUSTER_QUEUE, {})
    snapshot.put_all({name: one.spec for name, one in cohorts.items()}, [one.spec for one in listed.values()])
    for workload in of.get(_RESERVING, {}).values():
        snapshot.put_workload(workload)
    for name, node, _ in snapshot.cohorts_with_specs():
        _arrange(node, cohorts[name])
    for name, one in listed.items():
        queue = snapshot.queues[name]
        queue.generation = one.generation
        _note_used(queue, one.used)
    _queue_again(of, queues)


def _queue_again(of: Mapping[str, Mapping[str, Any]], queues: PendingQueues) -> None:
    for workload in of.get(_WAITING, {}).values():
        queues.wait(workload)
    queues.local.update(of.get(_LOCAL_QUEUE, {}))
    for name, one in of.get(_CLUSTER_QUEUE, {}).items():
        pending = queues.pending[name] = PendingQueue(name, one.spec.queueing_strategy)
        pending.wakes, pending.first, pending.no_fit = one.wakes, one.first, dict(one.no_fit)
    for key, queued in of.get(_QUEUED, {}).items():
        info = Info(of[_WAITING][key], queued.cluster_queue, None, queued.evaluated_generation)
        if queued.tried is not None:
            shape = info.shape if queued.shape is None else queued.shape
            generation, cycle = queued.tried_at
            info = info.having(progress=Progress(queued.tried, generation, cycle, shape))
        queues.pending[queued.cluster_queue].enter_as_it_was(info, active=queued.active)


def _queued(pending: PendingQueue, info: Info, *, active: bool) -> _Queued:
    progress = info.progress
    if progress is None:
        return _Queued(pending.name, active, info.evaluated_generation)
    tried_at = progress.generation, progress.cycle
    shape = None if progress.shape == info.shape else progress.shape
    return _Queued(pending.name, active, info.evaluated_generation, progress.tried, tried_at, shape)


def _over(node: QuotaNode) -> _Over:
    return tuple(
        (place, tuple((child.is_queue, child.name) for child in exceed)) for place, exceed in node.over.items()
    )


def _note_used(node: QuotaNode, used: Iterable[FlavorResource]) -> None:
    """Let a node know what was ever used of it: nothing of that is another answer than nothing known."""
    node.usage = {place: node.usage.get(place, 0) for place in used}


def _arrange(node: QuotaNode, was: _Cohort) -> None:
    """Put what is below a Cohort in the order in which it was."""
    _note_used(node, was.used)
    node.cohorts = {name: node.cohorts[name] for name in was.cohorts}
    node.queues = {name: node.queues[name] for name in was.queues}
    node.over = {
        place: {(node.queues if is_queue else node.cohorts)[name]: None for is_queue, name in exceed}
        for place, exceed in was.over
    }
