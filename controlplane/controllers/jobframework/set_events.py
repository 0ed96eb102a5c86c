"""Defines what is recorded of sets of pods, whose pods wait as groups: StatefulSets and LeaderWorkerSets.

The stream of a set has what was seen of it, and of its pods that have joined no group yet; the stream of a group has
what is decided about its Workload and its pods."""

from __future__ import annotations

from controlplane.controllers.jobframework.events import PriorityClassName, WorkloadOfJobWrite
from controlplane.controllers.jobframework.pod_events import PodWrite
from controlplane.log.event import Event, Kept
from controlplane.runtime.observations import ObjectObserved, ObjectVanished


class QueuedSetObserved(ObjectObserved):
    """A set that names a queue. `groups`: how many groups of pods it has, each of `size`; a StatefulSet has one, of so
    many pods as it has replicas. `pods`: how many of each pod set a group has; `led`: it has leaders; `copied`: it is
    the copy of another cluster's. `problem`: why no pod sets can be made of it. `body` names its labels, annotations
    and spec."""

    kind: str
    generation: int = 0
    deleting: bool = False
    queue: str = ""
    priority_class: str = ""
    pod_priority_class: str = ""
    gated_by: str = ""
    copied: bool = False
    groups: int = 1
    size: int = 1
    led: bool = False
    pods: dict[str, int] = {}
    problem: str = ""
    body: str = ""
    kept: Kept = {}


class QueuedSetGone(ObjectVanished):
    """The set was deleted."""

    kind: str


class SetWorkloadCreationDecided(WorkloadOfJobWrite):
    """Create the Workload of a group of a set, of what the body has. `index` is that of the group, if the set has
    several."""

    kind: str
    set_name: str
    set_uid: str
    index: int | None = None
    body: str
    queue: str
    priority: int = 0
    priority_class: PriorityClassName = PriorityClassName()
    pods: dict[str, int] = {}
    label_keys: list[str] = []
    annotation_keys: list[str] = []


class SetHoldDecided(WorkloadOfJobWrite):
    """Take the quota of a set that has no pods any more, and keep its Workload out of its queue (`hold`); or let that
    queue again. A job that its own controller has refused is put on hold as well, with a `message` of its own."""

    hold: bool
    message: str = ""


class PodJoinDecided(PodWrite):
    """Have a pod of a set join the group: it gets these labels and annotations."""

    group: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


EVENTS: tuple[type[Event], ...] = (
    QueuedSetObserved,
    QueuedSetGone,
    SetWorkloadCreationDecided,
    SetHoldDecided,
    PodJoinDecided,
)
