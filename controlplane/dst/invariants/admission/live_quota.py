"""Nobody gets quota that is not there, also where queues, Cohorts and flavors change under load: what reservations sum
up to, against what ClusterQueues and Cohorts say, or have said a moment ago.

In: the commits of Workloads, ClusterQueues and Cohorts on the management cluster, virtual time. Out: a violation as
soon as a reservation is written with which something is more exceeded than without it, by each of the arrangements that
held within the last minutes: whoever decides may know of the last one a little later. The arithmetic is Kueue's,
written once more (kubernetes-sigs/kueue pkg/cache/scheduler/resource_node.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.admission.quota import HeldQuota
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.kube.kinds import CLUSTER_QUEUES, COHORTS, Json
from controlplane.kube.quantities import milli

_LATE = 240.0  # virtual seconds for which an arrangement may be what is decided on after it was changed
_Place = tuple[str, str]


class NodeQuota(NamedTuple):
    """In thousandths: nominal, and how much is borrowed and lent at most; None: as much as there is."""

    nominal: int = 0
    borrows: int | None = None
    lends: int | None = None


_NONE = NodeQuota()


class QuotaPlace(NamedTuple):
    """A ClusterQueue or a Cohort: in which Cohort it is, and what it has."""

    parent: str
    quotas: Mapping[_Place, NodeQuota]


Arrangement = Mapping[str, QuotaPlace]


def arrangement(place: ClusterEnvironment) -> Arrangement:
    """Return how quota is arranged now. A Cohort that is named and not there has nothing."""
    found: dict[str, QuotaPlace] = {}
    for record in place.store.records(COHORTS):
        parent = str(record.obj.get("spec", {}).get("parentName") or "")
        found[f"cohort/{record.name}"] = QuotaPlace(f"cohort/{parent}" if parent else "", _quotas(record.obj))
    for record in place.store.records(CLUSTER_QUEUES):
        parent = str(record.obj["spec"].get("cohortName") or "")
        found[f"queue/{record.name}"] = QuotaPlace(f"cohort/{parent}" if parent else "", _quotas(record.obj))
    for node in list(found.values()):
        if node.parent:
            found.setdefault(node.parent, QuotaPlace("", {}))
    return found


def _quotas(obj: Json) -> dict[_Place, NodeQuota]:
    found: dict[_Place, NodeQuota] = {}
    for group in (obj.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for one in flavor["resources"]:
                limits = (milli(one[name]) if name in one else None for name in ("borrowingLimit", "lendingLimit"))
                found[flavor["name"], one["name"]] = NodeQuota(milli(one["nominalQuota"]), *limits)
    return found


class ResourceTree:
    """What each node has and uses of one flavor and resource."""

    def __init__(self, nodes: Arrangement, used: Mapping[str, int], place: _Place) -> None:
        self._nodes, self._used, self._place = nodes, used, place
        self._children: dict[str, list[str]] = {}
        for name, node in nodes.items():
            self._children.setdefault(node.parent, []).append(name)

    def quota(self, name: str) -> NodeQuota:
        """Return what a node has by its own spec."""
        return self._nodes[name].quotas.get(self._place, _NONE)

    def subtree(self, name: str) -> int:
        """Return what a node has with what its children lend."""
        lent = sum(self.subtree(child) - self.guaranteed(child) for child in self._children.get(name, ()))
        return self.quota(name).nominal + lent

    def guaranteed(self, name: str) -> int:
        """Return what a node keeps for itself."""
        lends = self.quota(name).lends
        return 0 if lends is None else max(0, self.subtree(name) - lends)

    def usage(self, name: str) -> int:
        """Return what a node uses, of a Cohort what its children take."""
        taken = (max(0, self.usage(child) - self.guaranteed(child)) for child in self._children.get(name, ()))
        return self._used.get(name, 0) + sum(taken)

    def excess(self) -> Iterator[tuple[str, int]]:
        """Yield by how much each node uses more than it may."""
        for name, node in self._nodes.items():
            over, borrows = self.usage(name) - self.subtree(name), self.quota(name).borrows
            if not node.parent or borrows is not None:
                yield name, max(0, over - (borrows if node.parent and borrows is not None else 0))

    def available(self, name: str) -> int:
        """Return how much more a node may use."""
        used, subtree, kept = self.usage(name), self.subtree(name), self.guaranteed(name)
        parent, borrows = self._nodes[name].parent, self.quota(name).borrows
        if not parent:
            return subtree - used
        above = self.available(parent)
        if borrows is not None:
            above = min(above, subtree - kept - max(0, used - kept) + borrows)
        return max(0, kept - used) + above


class ArrangementHistory:
    """The arrangements of the last minutes, over all incarnations of the management cluster."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._found: list[tuple[float, Arrangement]] = []

    def note(self, place: ClusterEnvironment) -> None:
        """Note how quota is arranged from now on."""
        now = self._now()
        self._found.append((now, arrangement(place)))
        while len(self._found) > 1 and self._found[1][0] < now - _LATE:
            self._found.pop(0)

    def recent(self) -> Iterable[Arrangement]:
        """Return those that count now, the last first."""
        return [found for _, found in reversed(self._found)]


class LiveQuota(HeldQuota):
    """What is held of queues that change."""

    def __init__(self, trace: Trace, place: ClusterEnvironment, history: ArrangementHistory) -> None:
        self._history = history
        history.note(place)
        super().__init__(trace, place)

    def used(self, but: str = "") -> dict[_Place, dict[str, int]]:
        """Return what ClusterQueues use, by flavor and resource, without one Workload. Of a slice whose place another
        one has taken, and which is about to end, counts what is more than that.
        """
        heirs = {one.replaces: one.usage for uid, one in self._held.items() if one.replaces and uid != but}
        sums: dict[_Place, dict[str, int]] = {}
        for uid, one in self._held.items():
            if uid in self._taken_back or uid == but:
                continue
            for place, amount in one.usage.items():
                of, queue = sums.setdefault(place, {}), f"queue/{one.queue}"
                of[queue] = of.get(queue, 0) + max(0, amount - heirs.get(one.name, {}).get(place, 0))
        return sums

    def _wrong(self, uid: str) -> str:
        """Return what is exceeded by a Workload, by the last arrangement; "" if nothing is by one of the recent
        ones."""
        found = ""
        for nodes in self._history.recent():
            wrong = exceeded(nodes, self.used(but=uid), self.used(), self._held[uid].usage)
            if not wrong:
                return ""
            found = found or wrong
        return found


def exceeded(
    nodes: Arrangement,
    before: Mapping[_Place, Mapping[str, int]],
    after: Mapping[_Place, Mapping[str, int]],
    places: Iterable[_Place],
) -> str:
    """Return which node is more exceeded than before, in words; "" if none is."""
    for place in places:
        was = dict(ResourceTree(nodes, before.get(place, {}), place).excess())
        used = after.get(place, {})
        if unknown := sorted(used.keys() - nodes.keys()):
            return f"{unknown[0]} is not there"
        for name, over in ResourceTree(nodes, used, place).excess():
            if over > was.get(name, 0):
                return f"{name} uses {over} too much of {place} (thousandths)"
    return ""
