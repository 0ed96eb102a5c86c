"""Defines what is recorded of topologies: the objects that placement rests on, and what is decided about it.

Of a Node what placement rests on, without what its kubelet reports every few seconds; of a pod what it takes of which
node, from when it is bound until it ends."""

from __future__ import annotations

from typing import Any, ClassVar

from controlplane.controllers.quota.admission.events import (
    AdmissionDecision,
    AdmissionObjectObserved,
    AdmissionWrite,
    WorkloadAdmissionWrite,
)
from controlplane.log.event import Event
from controlplane.runtime.observations import ObjectObserved, ObjectVanished


class AdmissionTopologyObserved(AdmissionObjectObserved):
    """A Topology: the node labels of its levels."""


class AdmissionTopologyGone(ObjectVanished):
    """The Topology was deleted."""


class AdmissionNodeObserved(ObjectObserved):
    """A Node. `taints` and `allocatable` are as its API has them, the taints without times; `ready`: its condition
    Ready is True, `reports`: it has that condition at all."""

    deleting: bool = False
    labels: dict[str, str] = {}
    taints: list[dict[str, Any]] = []
    unschedulable: bool = False
    ready: bool = False
    reports: bool = True
    allocatable: dict[str, Any] = {}


class AdmissionNodeGone(ObjectVanished):
    """The Node was deleted."""


class AdmissionPodObserved(ObjectObserved):
    """A pod that is bound to a node, has not ended, and that no topology has placed there. `workload`: the one that it
    says it is of, if any. `requests` are those of its spec: cpu in thousandths, everything else in whole units."""

    deleting: bool = False
    node: str
    workload: str = ""
    requests: dict[str, int] = {}


class AdmissionPodGone(ObjectVanished):
    """The pod was deleted, has ended, or is placed by a topology now: it takes nothing of the node any more."""


class AdmissionPlacedPodObserved(ObjectObserved):
    """A pod that a topology assignment has placed, that waits behind no gate of topologies, and has not ended. `node`:
    the one that it is bound to; `host`: the one that its node selector names; `pending`: its phase is Pending.
    `conditions`, as its API has them, are those of a pod that is bound to no node yet."""

    deleting: bool = False
    workload: str
    node: str = ""
    host: str = ""
    pending: bool = False
    conditions: list[dict[str, Any]] = []

    @property
    def is_unbound(self) -> bool:
        """Whether it waits for the scheduler."""
        return self.pending and not self.node


class AdmissionPlacedPodGone(ObjectVanished):
    """The pod was deleted, or has ended."""


class NodeRoomFreed(AdmissionDecision):
    """Pods have ended on nodes of these flavors: who waits for one of them may be tried again."""

    flavors: list[str] = []


class TopologyAssignmentDecided(WorkloadAdmissionWrite):
    """Place a Workload that has quota: since its admission checks are ready, or in the place of nodes that failed.
    `admission` as it is written, `admitted`: it is admitted with that."""

    cycle: int
    cluster_queue: str
    admission: dict[str, Any]
    admitted: bool = False


class TopologyAssignmentFailed(AdmissionDecision):
    """A Workload that has quota could not be placed, for the how manieth time in a row (`tries`). It keeps its quota,
    and is tried again."""

    cycle: int
    cluster_queue: str
    message: str
    tries: int = 1


class PodFailureDecided(AdmissionWrite):
    """Let a pod fail that is placed on a node on which it cannot run, and is bound to none: whoever made it makes
    another one. `conditions` are those that it has."""

    WHAT: ClassVar[str] = "Pod"
    name: str
    node: str
    conditions: list[dict[str, Any]] = []

    @property
    def target(self) -> str:
        """The key of the pod in the stream of its Workload's pods."""
        return f"{self.WHAT}/{self.name}"


class SecondPassNoticeDecided(AdmissionWrite):
    """Tell by a Kubernetes Event that a Workload that has quota could not be placed."""

    WHAT: ClassVar[str] = "Event"
    message: str


EVENTS: tuple[type[Event], ...] = (
    AdmissionTopologyObserved,
    AdmissionTopologyGone,
    AdmissionNodeObserved,
    AdmissionNodeGone,
    AdmissionPodObserved,
    AdmissionPodGone,
    AdmissionPlacedPodObserved,
    AdmissionPlacedPodGone,
    NodeRoomFreed,
    TopologyAssignmentDecided,
    TopologyAssignmentFailed,
    PodFailureDecided,
    SecondPassNoticeDecided,
)
