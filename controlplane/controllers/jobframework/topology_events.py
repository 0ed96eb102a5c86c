"""Defines what is recorded of pods that wait for the domain that they are to run in: what was seen of one, and that it
may go.

The pods of a Workload share a stream, which is theirs alone: what is open there keeps nobody from stopping the job."""

from __future__ import annotations

from controlplane.controllers.jobframework.pod_events import PodWrite
from controlplane.kube.kinds import PODS_OF_TOPOLOGIES
from controlplane.log.event import Event
from controlplane.runtime.observations import ObjectObserved, ObjectVanished


class TopologyPodObserved(ObjectObserved):
    """A pod that topology-aware scheduling places, and that has not ended. `workload` and `pod_set` are what its
    annotation and label say; `gates`: the names of its scheduling gates; `numbers`: those of its labels whose values
    are numbers, by which pods tell their ranks; `offset`: what it says of where its ranks begin. `slice`: the first
    Workload of the elastic job that it belongs to, "" for none: no topology need place it then. `kind` says in which
    watch it was shown."""

    kind: str = PODS_OF_TOPOLOGIES.name
    deleting: bool = False
    workload: str = ""
    pod_set: str = ""
    gates: list[str] = []
    node_selector: dict[str, str] = {}
    numbers: dict[str, str] = {}
    offset: str | None = None
    slice: str = ""


class TopologyPodGone(ObjectVanished):
    """The pod was deleted, or has ended."""

    kind: str = PODS_OF_TOPOLOGIES.name


class PodUngateDecided(PodWrite):
    """Let a pod run in the domain that `node_selector` names: take the gate of topologies away, or that of elastic jobs
    from one for which a slice has room; `gates` stay. `rank` is its place in its pod set, where pods tell it."""

    workload: str
    pod_set: str
    node_selector: dict[str, str] = {}
    gates: list[str] = []
    rank: int | None = None


EVENTS: tuple[type[Event], ...] = (TopologyPodObserved, TopologyPodGone, PodUngateDecided)
