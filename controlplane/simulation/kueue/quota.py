"""What the quota of one simulated Kueue is decided from: the engine's state, fed with the objects of the cluster.

In: ClusterQueues, Cohorts, LocalQueues, flavors, checks, Namespaces and Workloads, as they come, change and go. Out:
the state that `controllers.quota.engine` decides on. Topologies are not simulated: pods are placed nowhere in
particular, and nothing that flavors or pods say of topology counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from controlplane.controllers.quota.engine import parse_queues, parse_workloads
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import ResourceFlavor, Workload
from controlplane.controllers.quota.engine.pending import PendingQueue
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.state import State
from controlplane.kube import kinds
from controlplane.kube.fields import Misfit
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.simulation.controllers.behaviour import Place, place_of
from controlplane.simulation.kueue.common import Usage

_KUEUE = EngineSettings(readmission_order="Timestamp", try_all_released=True)
_log = structlog.get_logger(__name__)


def _flavor(obj: Json) -> ResourceFlavor:
    return replace(parse_queues.resource_flavor(obj), topology="")


_PUT: Final[Mapping[Kind, Callable[[State, Json, float], None]]] = {
    kinds.CLUSTER_QUEUES: lambda state, obj, now: state.put_cluster_queue(parse_queues.new_cluster_queue(obj), now),
    kinds.COHORTS: lambda state, obj, now: state.put_cohort(parse_queues.cohort(obj), now),
    kinds.LOCAL_QUEUES: lambda state, obj, now: state.put_local_queue(parse_queues.local_queue(obj)),
    kinds.RESOURCE_FLAVORS: lambda state, obj, now: state.put_flavor(_flavor(obj), now),
    kinds.ADMISSION_CHECKS: lambda state, obj, now: state.put_check(parse_queues.admission_check(obj), now),
    kinds.NAMESPACES: lambda state, obj, now: state.put_namespace(_name(obj), meta(obj).get("labels") or {}, now),
}
_DROP: Final[Mapping[Kind, Callable[[State, Json, float], None]]] = {
    kinds.CLUSTER_QUEUES: lambda state, obj, now: state.drop_cluster_queue(_name(obj), now),
    kinds.COHORTS: lambda state, obj, now: state.drop_cohort(_name(obj), now),
    kinds.LOCAL_QUEUES: lambda state, obj, now: state.drop_local_queue("/".join(place_of(obj))),
    kinds.RESOURCE_FLAVORS: lambda state, obj, now: state.drop_flavor(_name(obj), now),
    kinds.ADMISSION_CHECKS: lambda state, obj, now: state.drop_check(_name(obj), now),
    kinds.NAMESPACES: lambda state, obj, now: state.drop_namespace(_name(obj)),
}
QUOTA_KINDS: Final = tuple(_PUT)
"""What quota is decided from besides Workloads."""


def _name(obj: Json) -> str:
    return str(meta(obj)["name"])


def thousandths(at: tuple[str, str], amount: int) -> int:
    """Return an amount of the engine's, which has thousandths of CPUs and whole units of all else, in thousandths."""
    return amount if at[1] == "cpu" else amount * 1000


class Quota:
    """The quota of one cluster, as its Kueue knows it."""

    def __init__(self) -> None:
        self.state = State(_KUEUE)
        self._pod_sets: dict[Place, tuple[tuple[str, int], Workload]] = {}

    def note(self, kind: Kind, old: Json | None, new: Json | None, now: float) -> None:
        """Take over an object that is no Workload. What cannot be read is as it was: Kueue's webhooks refuse such a
        one."""
        if new is None:
            _DROP[kind](self.state, old or {}, now)
            return
        try:
            _PUT[kind](self.state, new, now)
        except Misfit as problem:
            _log.warning(
                "a simulated Kueue cannot read an object", kind=kind.kind, name=_name(new), problem=str(problem)
            )

    def note_workload(self, place: Place, obj: Json | None, now: float) -> None:
        """Take over a Workload: it has quota, waits for it, does neither, or is gone."""
        found = self._parsed(place, obj) if obj is not None else None
        if found is None:
            self._pod_sets.pop(place, None)
            self.state.drop_workload("/".join(place), now)
        else:
            self.state.put_workload(found, now)

    def try_again(self, place: Place, obj: Json, now: float) -> None:
        """Consider a Workload anew that may be set aside, since what kept it is no part of what the engine knows."""
        self.state.drop_workload("/".join(place), now)
        self.note_workload(place, obj, now)

    def _parsed(self, place: Place, obj: Json) -> Workload | None:
        """Return a Workload. Its pod sets are read once for each generation: a status is written ten times as often."""
        version = (str(meta(obj)["uid"]), int(meta(obj).get("generation") or 0))
        known = self._pod_sets.get(place)
        try:
            if known is not None and known[0] == version:
                spec = {**obj["spec"], "podSets": []}
                return replace(parse_workloads.workload({**obj, "spec": spec}), pod_sets=known[1].pod_sets)
            found = parse_workloads.workload(obj)
        except Misfit as problem:
            _log.warning("a simulated Kueue cannot read a Workload", workload=place, problem=str(problem))
            return None
        found = replace(found, pod_sets=tuple(replace(one, topology=None) for one in found.pod_sets))
        self._pod_sets[place] = version, found
        return found

    # What is asked.

    def queue(self, name: str) -> QueueNode | None:
        """Return a ClusterQueue in its tree, or None."""
        return self.state.snapshot.queues.get(name)

    def waiting(self, name: str) -> PendingQueue | None:
        """Return who waits in a ClusterQueue, None if there is none of the name."""
        return self.state.queues.pending.get(name)

    def holders(self, name: str) -> Mapping[str, Info]:
        """Return who has quota in a ClusterQueue, by namespace and name."""
        found = self.queue(name)
        return found.workloads if found is not None else {}

    def used(self) -> dict[str, Usage]:
        """Return what is used of each ClusterQueue, by flavor and resource in thousandths, without what is not used."""
        queues = self.state.snapshot.queues.values()
        return {queue.name: {at: thousandths(at, used) for at, used in queue.usage.items() if used} for queue in queues}

    def nominal(self, name: str) -> Usage:
        """Return the nominal quota of a ClusterQueue, by flavor and resource in thousandths."""
        found = self.queue(name)
        quotas = found.spec.quotas if found is not None else {}
        return {at: thousandths(at, quota.nominal) for at, quota in quotas.items()}

    def admits(self, name: str) -> bool:
        """Return whether a ClusterQueue is there and active."""
        found = self.queue(name)
        return found is not None and found.active
