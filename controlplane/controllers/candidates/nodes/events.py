"""What is recorded of virtual Nodes, on `virtualnode/CLUSTER`: what the target's own nodes come to, the Node as it is
seen in the source, and what was decided about it.

Its Lease is renewed without a word in the log: that the service runs is in it already."""

from __future__ import annotations

from typing import ClassVar

from controlplane.controllers.candidates.source.events import CandidateWrite
from controlplane.controllers.candidates.source.observations import SourceObjectGone, SourceObservation
from controlplane.log.event import Event, Part


class TargetNodesCounted(Event):
    """What the schedulable nodes of a target have together, by resource; `problem`: why they cannot be read."""

    nodes: int = 0
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    problem: str = ""


class VirtualNodeStatus(Part):
    """What a virtual Node shows. `ready`: the status of its condition; `port` is that of the kubelet API, 0 for
    none."""

    ready: str = ""
    why: str = ""
    message: str = ""
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    address: str = ""
    port: int = 0
    version: str = ""


class VirtualNodeObserved(SourceObservation):
    """The Node that stands for a target, as the source's API server shows it."""

    target: str
    status: VirtualNodeStatus


class VirtualNodeGone(SourceObjectGone):
    """A Node that stood for a target is not there any more."""


class VirtualNodeMade(CandidateWrite):
    """Create the Node of a target."""

    WHAT: ClassVar[str] = "Node"
    name: str


class VirtualNodeShown(CandidateWrite):
    """Write the Node's status."""

    WHAT: ClassVar[str] = "Node"
    name: str
    uid: str
    status: VirtualNodeStatus


class VirtualNodeRemoved(CandidateWrite):
    """Delete the Node: nobody may use its target any more, and no pod is bound to it."""

    WHAT: ClassVar[str] = "Node"
    name: str
    uid: str


NODE_EVENTS: tuple[type[Event], ...] = (
    TargetNodesCounted,
    VirtualNodeObserved,
    VirtualNodeGone,
    VirtualNodeMade,
    VirtualNodeShown,
    VirtualNodeRemoved,
)
