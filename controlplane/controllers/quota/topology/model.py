"""What topology-aware scheduling decides on: Topologies, Nodes, what pod sets ask for, and what they were given.

Parsed and rendered by `topology.parse`; amounts as in `amounts`. The names of fields are those of
kueue.x-k8s.io/v1beta2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from controlplane.controllers.quota.engine.amounts import Requests
from controlplane.kube.tolerations import Taint, Toleration
from controlplane.kube.well_known import HOSTNAME

PENDING, READY = "Pending", "Ready"
"""The states of a `delayedTopologyRequest`."""

Values = tuple[str, ...]
"""The values of a domain's levels, the broadest first."""


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """What of Kueue's alpha gates holds. `balanced`: pods with a preferred level are spread evenly over as few domains
    as can be (`TASBalancedPlacement`). `preferred_affinity`: domains with nodes that the preferred node affinity of
    pods names come before others (`TASRespectNodeAffinityPreferred`)."""

    balanced: bool = False
    preferred_affinity: bool = False


DEFAULT_RULES = PlacementRules()


@dataclass(frozen=True, slots=True)
class Topology:
    """A Topology's spec: the keys of node labels, from the broadest level to the narrowest."""

    name: str
    levels: tuple[str, ...]

    @property
    def of_nodes(self) -> bool:
        """Whether each of its narrowest domains is one node."""
        return self.levels[-1:] == (HOSTNAME,)


@dataclass(frozen=True, slots=True)
class Node:
    """A Node: what of it placement rests on. `ready`: its condition Ready is True; `schedulable`: it is not
    cordoned."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Requests = field(default_factory=dict)
    schedulable: bool = True
    ready: bool = True

    @property
    def usable(self) -> bool:
        """Whether pods may be placed on it at all."""
        return self.schedulable and self.ready


class PodSetSlice(NamedTuple):
    """A `podsetSliceRequiredTopologyConstraints` entry: so many pods together have to be within one domain of a
    level."""

    topology: str
    size: int


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """A pod set's `topologyRequest`. `required` and `preferred` name a level, "" if they say nothing. `slices`:
    constraints from the broadest to the narrowest level, of both forms that the API has. `group`: pod sets of one group
    get one flavor, and are placed together. `explicit`: it asks for a placement, and not only says how pods are told
    apart (`IsExplicitlyRequestingTAS` in kubernetes-sigs/kueue pkg/workload/workload.go).
    """

    required: str = ""
    preferred: str = ""
    unconstrained: bool = False
    slices: tuple[PodSetSlice, ...] = ()
    group: str = ""
    pod_index_label: str = ""
    explicit: bool = True


class DomainPods(NamedTuple):
    """How many pods are placed in one domain."""

    values: Values
    pods: int


@dataclass(frozen=True, slots=True)
class TopologyAssignment:
    """A pod set's `topologyAssignment`: the levels, and the pods of each domain. Where the narrowest level is the
    hostname, it is the only one."""

    levels: tuple[str, ...]
    domains: tuple[DomainPods, ...]

    def __iter__(self) -> Iterator[DomainPods]:
        """Yield the pods of each domain."""
        return iter(self.domains)

    @property
    def lowest(self) -> Iterator[str]:
        """The values of the narrowest level: names of nodes, where that is the hostname."""
        return (values[-1] for values, _ in self.domains)

    @property
    def pods(self) -> int:
        """How many pods are placed."""
        return sum(pods for _, pods in self.domains)


class PodSetUpdate(NamedTuple):
    """A `podSetUpdates` entry of an admission check that is Ready: where the pods may be placed besides."""

    name: str
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class Placed(NamedTuple):
    """Pods that are alike, in one domain of a flavor's topology: what one of them takes of a node, and how many they
    are."""

    flavor: str
    key: Values
    pod: Requests
    pods: int
