"""The fleet as quota sees it: flavors, ClusterQueues in their Cohort trees, and the workloads that have quota reserved.

In: objects as they come, change and go. Out: the nodes that decisions are made on. Each change touches only the path
from what changed to the root of its tree. A cycle's simulations write usages too; they note them in a journal and take
them back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Workload,
)
from controlplane.controllers.quota.engine.slices import Replacements
from controlplane.controllers.quota.engine.tree import QuotaNode, add_all
from controlplane.controllers.quota.topology.fleet import TopologyFleet
from controlplane.controllers.quota.topology.model import DEFAULT_RULES, Node, PlacementRules, Topology

MULTIKUEUE, PROVISIONING_REQUEST = "kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"


class QueueNode(QuotaNode):
    """A ClusterQueue in its tree, with the workloads that have quota in it. `generation` rises when there may be more
    of it.
    """

    __slots__ = ("generation", "spec", "workloads")

    def __init__(self, spec: ClusterQueue) -> None:
        super().__init__(spec.name)
        self.spec = spec
        self.workloads: dict[str, Info] = {}
        self.generation = 1

    @property
    def is_queue(self) -> bool:
        """Whether it is a ClusterQueue."""
        return True

    def path(self) -> str:
        """Return the names from the root Cohort to the ClusterQueue."""
        return "/" + "/".join([*reversed([cohort.name for cohort in self.ancestors()]), self.name])


@dataclass(slots=True)
class _CohortNode:
    """A Cohort that has an object, or that is named by a ClusterQueue or a Cohort."""

    node: QuotaNode
    spec: Cohort | None = None


class QuotaSnapshot:
    """What decisions are made on. `namespaces`: the labels of each; `topology`: nodes, and where workloads are."""

    def __init__(self, placement: PlacementRules = DEFAULT_RULES) -> None:
        self.flavors: dict[str, ResourceFlavor] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.local_queues: dict[str, LocalQueue] = {}
        self.queues: dict[str, QueueNode] = {}
        self.workloads: dict[str, Info] = {}
        self.topology = TopologyFleet(placement)
        self._cohorts: dict[str, _CohortNode] = {}
        self._cyclic: set[str] = set()
        self._orphans: dict[str, dict[str, Info]] = {}
        self.slices = Replacements()

    # What is asked.

    def cohorts(self) -> Iterator[QuotaNode]:
        """Yield the Cohorts."""
        for found in self._cohorts.values():
            yield found.node

    def cohorts_with_specs(self) -> Iterator[tuple[str, QuotaNode, Cohort | None]]:
        """Yield the Cohorts by name, each with its spec if it has an object."""
        for name, found in self._cohorts.items():
            yield name, found.node, found.spec

    def has_cycle(self, queue: QueueNode) -> bool:
        """Return whether a ClusterQueue's Cohorts are their own ancestors."""
        return queue.spec.cohort in self._cyclic

    def inactive_reasons(self, queue: QueueNode) -> list[str]:
        """Return why a ClusterQueue admits nothing, in the words of its Active condition; empty if it admits."""
        spec, found = queue.spec, []
        if spec.stopped:
            found.append(spec.stopped)
        missing = [name for group in spec.groups for name in group.flavors if name not in self.flavors]
        if missing:
            found.append(f"references missing ResourceFlavor(s): {','.join(missing)}")
        absent = [name for name, _ in spec.admission_checks if name not in self.checks]
        if absent:
            found.append(f"references missing AdmissionCheck(s): {','.join(absent)}")
        known = {name: self.checks[name] for name, _ in spec.admission_checks if name in self.checks}
        if inactive := [name for name, check in known.items() if not check.active]:
            found.append(f"references inactive AdmissionCheck(s): {','.join(inactive)}")
        found += self._controller_reasons(spec, known)
        if found or not self.has_multikueue(spec):
            found += self._topology_reasons(spec)
        return found

    def _topology_reasons(self, spec: ClusterQueue) -> list[str]:
        missing = (one for one in self._topologies_of(spec) if one[0] not in self.topology.flavors)
        return [f'there is no Topology "{topology}" for TAS flavor "{name}"' for name, topology in missing]

    def _topologies_of(self, spec: ClusterQueue) -> Iterator[tuple[str, str]]:
        for group in spec.groups:
            for name in group.flavors:
                flavor = self.flavors.get(name)
                if flavor is not None and flavor.topology:
                    yield name, flavor.topology

    def lacks_topology(self, spec: ClusterQueue) -> bool:
        """Return whether a flavor of a ClusterQueue names a Topology that is not there: it admits nothing then, even
        one that is active since it leaves topology to the workers of MultiKueue."""
        return any(name not in self.topology.flavors for name, _ in self._topologies_of(spec))

    def topology_only(self, spec: ClusterQueue) -> bool:
        """Return whether all flavors of a ClusterQueue have a topology: its pods are placed even if they do not ask."""
        found = (self.flavors.get(name) for group in spec.groups for name in group.flavors)
        return all(flavor is not None and flavor.topology for flavor in found)

    def has_multikueue(self, spec: ClusterQueue) -> bool:
        """Return whether one of a ClusterQueue's checks is MultiKueue's."""
        known = (self.checks.get(name) for name, _ in spec.admission_checks)
        return any(check is not None and check.controller == MULTIKUEUE for check in known)

    def provisions(self, spec: ClusterQueue, flavor: str) -> bool:
        """Return whether a ProvisioningRequest has to be answered before pods of a flavor are placed."""
        asked = (self.checks.get(name) for name, flavors in spec.admission_checks if flavor in flavors)
        return any(check is not None and check.controller == PROVISIONING_REQUEST for check in asked)

    def _controller_reasons(self, spec: ClusterQueue, known: Mapping[str, AdmissionCheck]) -> list[str]:
        """Return what MultiKueue does not go together with."""
        found = []
        every = {flavor for group in spec.groups for flavor in group.flavors}
        multikueue = [name for name, check in known.items() if check.controller == MULTIKUEUE]
        provisioning = [name for name, check in known.items() if check.controller == PROVISIONING_REQUEST]
        partial = [name for name, flavors in spec.admission_checks if name in multikueue and flavors != every]
        if len(multikueue) > 1:
            found.append(
                "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, "
                f"found: {','.join(multikueue)}"
            )
        if partial:
            found.append(f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {','.join(partial)}")
        if multikueue and provisioning:
            found.append(
                "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, "
                f"found: {','.join(multikueue)}, {','.join(provisioning)}"
            )
        return found

    # What changes it.

    def put_flavor(self, flavor: ResourceFlavor) -> list[str]:
        """Note a ResourceFlavor, new or changed; return the ClusterQueues that name it."""
        self.flavors[flavor.name] = flavor
        self.topology.put_flavor(flavor)
        return self._refresh_with_flavor(flavor.name)

    def drop_flavor(self, name: str) -> list[str]:
        """Note that a ResourceFlavor is gone; return the ClusterQueues that name it."""
        self.flavors.pop(name, None)
        self.topology.drop_flavor(name)
        return self._refresh_with_flavor(name)

    def put_topology(self, topology: Topology) -> list[str]:
        """Note a Topology, new or changed; return the ClusterQueues that have a flavor with it."""
        self.topology.put_topology(topology)
        return self._refresh_with_topology(topology.name)

    def drop_topology(self, name: str) -> list[str]:
        """Note that a Topology is gone; return the ClusterQueues that have a flavor with it."""
        self.topology.drop_topology(name)
        return self._refresh_with_topology(name)

    def put_node(self, node: Node) -> list[str]:
        """Note a Node, new or changed; return the ClusterQueues that it may help."""
        return self.with_flavors(self.topology.put_node(node))

    def drop_node(self, name: str) -> list[str]:
        """Note that a Node is gone; return the ClusterQueues that had it."""
        return self.with_flavors(self.topology.drop_node(name))

    def with_flavors(self, names: Collection[str]) -> list[str]:
        """Return the ClusterQueues that name one of some flavors."""
        if not names:
            return []
        wanted = set(names)
        found = self.queues.values()
        return [queue.name for queue in found if any(wanted.intersection(one.flavors) for one in queue.spec.groups)]

    def put_check(self, check: AdmissionCheck) -> list[str]:
        """Note an AdmissionCheck, new or changed; return the ClusterQueues that name it."""
        self.checks[check.name] = check
        return self._refresh_with_check(check.name)

    def drop_check(self, name: str) -> list[str]:
        """Note that an AdmissionCheck is gone; return the ClusterQueues that name it."""
        self.checks.pop(name, None)
        return self._refresh_with_check(name)

    def _refresh_with_flavor(self, name: str) -> list[str]:
        return self._refresh(
            queue for queue in self.queues.values() if any(name in group.flavors for group in queue.spec.groups)
        )

    def _refresh_with_topology(self, name: str) -> list[str]:
        names = self.with_flavors([one.name for one in self.flavors.values() if one.topology == name])
        return self._refresh(self.queues[queue] for queue in names)

    def _refresh_with_check(self, name: str) -> list[str]:
        return self._refresh(queue for queue in self.queues.values() if name in dict(queue.spec.admission_checks))

    def _refresh(self, queues: Iterable[QueueNode]) -> list[str]:
        """Find out anew which ClusterQueues are active; return their names."""
        names = []
        for queue in queues:
            names.append(queue.name)
            active = not self.inactive_reasons(queue)
            if active is not queue.active:
                queue.active = active
                queue.root().version += 1
        return names

    def put_cluster_queue(self, spec: ClusterQueue) -> None:
        """Note a ClusterQueue, new or changed."""
        queue = self.queues.get(spec.name)
        if queue is None:
            queue = self.queues[spec.name] = QueueNode(spec)
            for info in self._orphans.pop(spec.name, {}).values():
                self._reserve(queue, info)
        elif queue.spec.quotas != spec.quotas or queue.spec.groups != spec.groups or queue.spec.cohort != spec.cohort:
            self._more_quota(queue)
        moved = queue.spec.cohort if queue.parent is not None else ""
        queue.spec = spec
        queue.fair_weight = spec.fair_weight
        if queue.quotas != spec.quotas:
            queue.set_quotas(spec.quotas)
        parent = self._cohort(spec.cohort).node if spec.cohort else None
        if queue.parent is not parent:
            queue.detach()
            if parent is not None:
                queue.attach(parent)
            self._tidy(moved)
        self._refresh((queue,))
        self._more_quota(queue)

    def drop_cluster_queue(self, name: str) -> None:
        """Note that a ClusterQueue is gone; the workloads that have quota in it wait for another of its name."""
        queue = self.queues.pop(name, None)
        if queue is None:
            return
        queue.detach()
        self._tidy(queue.spec.cohort)
        if queue.workloads:
            self._orphans[name] = queue.workloads

    def put_cohort(self, spec: Cohort) -> None:
        """Note a Cohort, new or changed."""
        found = self._cohort(spec.name)
        moved = found.spec.parent if found.spec else ""
        found.spec = spec
        found.node.fair_weight = spec.fair_weight
        if found.node.quotas != spec.quotas:
            found.node.set_quotas(spec.quotas)
        if spec.parent:
            self._cohort(spec.parent)
        self._relink()
        self._tidy(moved)
        for queue in found.node.root().subtree_queues():
            queue.generation += 1

    def drop_cohort(self, name: str) -> None:
        """Note that a Cohort's object is gone; who names it is in a Cohort without quota of its own."""
        found = self._cohorts.get(name)
        if found is None:
            return
        moved = found.spec.parent if found.spec else ""
        found.spec = None
        found.node.fair_weight = 1.0
        found.node.set_quotas({})
        self._relink()
        self._tidy(name)
        self._tidy(moved)

    def put_all(self, cohorts: Mapping[str, Cohort | None], queues: Iterable[ClusterQueue]) -> None:
        """Note all Cohorts and ClusterQueues of a snapshot that has none yet, in their order."""
        for name in cohorts:
            self._cohort(name)
        for cohort in filter(None, cohorts.values()):
            self.put_cohort(cohort)
        for queue in queues:
            self.put_cluster_queue(queue)

    def put_workload(self, workload: Workload) -> None:
        """Note a workload that has quota reserved; one that has none any more leaves."""
        self.drop_workload(workload.key)
        if not workload.reserves or workload.admission is None:
            return
        info = self.slices.counted(Info(workload, workload.admission.cluster_queue), self.workloads)
        self.workloads[info.key] = info
        self.topology.put_workload(info.key, info.placed)
        queue = self.queues.get(info.cluster_queue)
        if queue is None:
            self._orphans.setdefault(info.cluster_queue, {})[info.key] = info
        else:
            self._reserve(queue, info)
        self._count_anew(self.slices.put(workload))

    def drop_workload(self, key: str) -> None:
        """Note that a workload has no quota reserved any more."""
        info = self.workloads.pop(key, None)
        if info is None:
            return
        self.topology.drop_workload(key)
        queue = self.queues.get(info.cluster_queue)
        if queue is None:
            self._orphans.get(info.cluster_queue, {}).pop(key, None)
        else:
            self._release(queue, queue.workloads.pop(key))
        self._count_anew(self.slices.drop(info.workload))

    def _count_anew(self, key: str) -> None:
        """Count a workload anew of which slices came or went that take its place; it keeps its place among others."""
        before = self.workloads.get(key)
        if before is None or (info := self.slices.counted(before, self.workloads)) is before:
            return
        self.workloads[key] = info
        queue = self.queues.get(info.cluster_queue)
        if queue is None:
            self._orphans[info.cluster_queue][key] = info
        else:
            self._release(queue, before)
            self._reserve(queue, info)

    def _release(self, queue: QueueNode, info: Info) -> None:
        queue.give_back(info.usage, (one.usage for one in queue.workloads.values() if one is not info))
        queue.generation += 1

    def _reserve(self, queue: QueueNode, info: Info) -> None:
        queue.workloads[info.key] = info
        add_all(queue, info.usage)

    def _more_quota(self, queue: QueueNode) -> None:
        for one in queue.root().subtree_queues():
            one.generation += 1

    # How Cohorts hang together.

    def _cohort(self, name: str) -> _CohortNode:
        if name not in self._cohorts:
            self._cohorts[name] = _CohortNode(QuotaNode(name))
        return self._cohorts[name]

    def _relink(self) -> None:
        """Attach each Cohort to its parent; those that are their own ancestors, or below such, stay apart."""
        self._cyclic = {name for name in self._cohorts if self._leads_nowhere(name)}
        for name, found in self._cohorts.items():
            wanted = self._parent_of(name)
            parent = None if name in self._cyclic or not wanted else self._cohorts[wanted].node
            if found.node.parent is not parent:
                found.node.detach()
        for name, found in self._cohorts.items():
            wanted = self._parent_of(name)
            if wanted and name not in self._cyclic and found.node.parent is None:
                found.node.attach(self._cohorts[wanted].node)

    def _parent_of(self, name: str) -> str:
        spec = self._cohorts[name].spec
        return spec.parent if spec is not None else ""

    def _leads_nowhere(self, name: str) -> bool:
        seen: set[str] = set()
        while name:
            if name in seen:
                return True
            seen.add(name)
            name = self._parent_of(name)
        return False

    def _tidy(self, name: str) -> None:
        """Forget a Cohort that has neither an object nor children."""
        found = self._cohorts.get(name)
        if found is None or found.spec is not None or any(found.node.children()):
            return
        if not any(self._parent_of(other) == name for other in self._cohorts):
            found.node.detach()
            del self._cohorts[name]
