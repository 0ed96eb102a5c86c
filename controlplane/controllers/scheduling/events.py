"""Defines what a scheduler records: a stream per pod that is its own to schedule, `pod/NS/NAME`, and per pod that it
evicts, `victim/NS/NAME`.

Nodes, other schedulers' pods and everything else that a cycle looks at are not here: they feed the snapshot straight
from the watches (docs/decisions/0018-what-a-scheduler-records.md). What is here is what must outlive the process: which
node is held for which pod, and every write, before it is made."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.kube.kinds import Json, Kind, ObjectRef, Request
from controlplane.log.event import Event, Part
from controlplane.runtime.observations import SubjectObserved, SubjectVanished
from controlplane.runtime.writes import ObjectWrite, WriteRefused, WriteUnneeded

HERE = MANAGEMENT  # the API server that the scheduler stands beside


class Scheduled(Part):
    """The condition PodScheduled of a pod."""

    status: str
    reason: str = ""
    message: str = ""


class PluginRequest(Part):
    """One request that a plugin asks for, as it is to be sent: the fields of `controlplane.kube.kinds.Request`."""

    verb: str
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    namespace: str = ""
    name: str = ""
    body: dict[str, Any] = {}
    subresource: str = ""
    content_type: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def where(self) -> Kind:
        """The kind of the object."""
        return Kind(self.group, self.version, self.kind, self.plural, self.namespaced)


class Woken(Part):
    """What gave a waiting pod another try: something that happened to an object, or (resource `Queue`) its time, or
    a request of the loop.
    """

    resource: str
    action: str
    name: str = ""


# --- what is seen -----------------------------------------------------------------------------------------------------


class PendingPodObserved(SubjectObserved):
    """A pod that names one of our profiles, in what decides about it; recorded when any of that changes, and no more
    once it has a node.

    `candidate`: its Candidate decides about it, and only its condition is ours; `scale_up`: the autoscaler may add
    nodes for it. `over`: it has ended. `problem`: the field that cannot be read, so that it cannot be scheduled.
    `generation` is that of its spec, 0 where it was not recorded."""

    scheduler: str
    priority: int = 0
    node: str = ""
    nominated: str = ""
    deleting: bool = False
    over: bool = False
    gates: list[str] = []
    scheduled: Scheduled | None = None
    candidate: bool = False
    problem: str = ""
    scale_up: bool = True
    generation: int = 0


class PendingPodGone(SubjectVanished):
    """The pod is not there any more."""


class PreBindSeen(Event):
    """What the `index`-th request before the binding asked for is there."""

    number: int
    index: int


class VictimSeen(SubjectObserved):
    """A pod that is to be evicted: whether it carries the condition DisruptionTarget, whether it is being deleted."""

    marked: bool = False
    terminating: bool = False


class VictimGone(SubjectVanished):
    """An evicted pod is not there any more."""


class GangObserved(SubjectObserved):
    """A PodGroup that the plugin Gang looks after, by the conditions that it shows."""

    conditions: list[dict[str, Any]] = []


class GangGone(SubjectVanished):
    """The PodGroup is not there any more."""


# --- decisions --------------------------------------------------------------------------------------------------------


class SchedulingDecision(Event):
    """A decision; `reason` is one of the closed set."""

    reason: SchedulingReason


class SchedulingWrite(SchedulingDecision, ObjectWrite):
    """A decision that means a write."""

    cluster: str = HERE


class NodeReserved(SchedulingDecision):
    """A node is held for the pod: its `number`-th reservation. `waits`: the Permit plugins that wait, and until when.

    `score` is the sum of `scores`, by plugin and with their weights, among `feasible` nodes. `attempt` counts the pod's
    cycles since it came, or since the scheduler started; `woken` is what gave it this one."""

    number: int
    node: str
    uid: str
    score: int = 0
    waits: dict[str, datetime] = {}
    scores: dict[str, int] = {}
    feasible: int = 0
    attempt: int = 0
    woken: Woken | None = None


class PermitGiven(SchedulingDecision):
    """A Permit plugin lets the pod go on."""

    number: int
    plugin: str


class ReservationDropped(SchedulingDecision):
    """The reservation of this number is given up; `plugin` is the one that refused."""

    number: int
    message: str = ""
    plugin: str = ""


class PreBindDecided(SchedulingWrite):
    """What is to be written, in order, before the pod is bound; `bind` is the binding, where a plugin has its own.

    `until`: how long what has to come of it is waited for; None if the binding follows at once.
    """

    WHAT: ClassVar[str] = "PreBind"
    number: int
    calls: list[PluginRequest]
    bind: PluginRequest | None = None
    until: datetime | None = None


class BindingDecided(SchedulingWrite):
    """Bind the pod with this UID to the node that is held; `call` where a plugin does so in its own way."""

    WHAT: ClassVar[str] = "Binding"
    number: int
    node: str
    uid: str
    call: PluginRequest | None = None


class SchedulingFailed(SchedulingDecision):
    """No node, by reason and message of the condition; `plugins` refused it, `nominated` is the node on which room is
    being made.

    `attempt` counts the pod's cycles since it came, or since the scheduler started, and `woken` is what gave it this
    one. `nodes`: for each reason in the message some of the nodes that gave it (`NAMED` at most, for as many reasons);
    empty where all were refused before any was looked at. A cycle that says nothing new is not recorded."""

    NAMED: ClassVar[int] = 20
    message: str
    plugins: list[str] = []
    nominated: str = ""
    attempt: int = 0
    woken: Woken | None = None
    nodes: dict[str, list[str]] = {}

    @property
    def says(self) -> tuple[str, str, list[str], str]:
        """What makes it differ from the one before: all but which cycle it was, and which nodes it was that refused."""
        return self.reason, self.message, self.plugins, self.nominated


class PodStatusDecided(SchedulingWrite):
    """Say on the pod why it has no node: condition PodScheduled=False, and the nominated node."""

    WHAT: ClassVar[str] = "Status"
    uid: str
    said: str
    message: str
    nominated: str = ""


class VictimChosen(SchedulingDecision):
    """This pod goes, so that another of higher priority can run: preemption. `generation` is that of its spec, 0 where
    it was not recorded."""

    uid: str
    node: str
    preemptor: str
    preemptor_uid: str
    scheduler: str
    generation: int = 0


class VictimMarkDecided(SchedulingWrite):
    """Say on the victim why it goes: condition DisruptionTarget."""

    WHAT: ClassVar[str] = "Mark"
    uid: str


class VictimRemovalDecided(SchedulingWrite):
    """Delete the victim, within its own grace period."""

    WHAT: ClassVar[str] = "Removal"
    uid: str


class GangJudged(SchedulingDecision):
    """How a whole group stands: the one condition of it, `Scheduled` or `Unschedulable`, in Volcano's terms."""

    condition: str
    said: str
    message: str


class GangStart(SchedulingDecision):
    """How far a group's start has come, whenever that changes.

    `together`: `minMember` were on nodes at once, which holds until nobody runs any more. `failures`: how often it was
    turned back since; `until`: how long it rests for that."""

    together: bool = False
    failures: int = 0
    until: datetime | None = None


class GangConditionDecided(SchedulingWrite):
    """Say on the PodGroup how it stands."""

    WHAT: ClassVar[str] = "Condition"
    uid: str
    condition: str
    said: str
    message: str


class SchedulingWriteFailed(WriteRefused):
    """The API server said no to a write. It is decided anew, not before `retry_at`."""


class SchedulingWriteUnneeded(WriteUnneeded):
    """A write changed nothing, by the API server's own answer."""


SCHEDULING_EVENTS: tuple[type[Event], ...] = (
    PendingPodObserved,
    PendingPodGone,
    PreBindSeen,
    VictimSeen,
    VictimGone,
    GangObserved,
    GangGone,
    NodeReserved,
    PermitGiven,
    ReservationDropped,
    PreBindDecided,
    BindingDecided,
    SchedulingFailed,
    PodStatusDecided,
    VictimChosen,
    VictimMarkDecided,
    VictimRemovalDecided,
    GangJudged,
    GangStart,
    GangConditionDecided,
    SchedulingWriteFailed,
    SchedulingWriteUnneeded,
)


def call_of(request: Request) -> PluginRequest:
    """Return a plugin's request as it is recorded."""
    ref, kind = request.ref, request.ref.kind
    body: Json = request.body
    return PluginRequest(
        verb=request.verb,
        group=kind.group,
        version=kind.version,
        kind=kind.kind,
        plural=kind.plural,
        namespaced=kind.namespaced,
        namespace=ref.namespace,
        name=ref.name,
        body=body,
        subresource=request.subresource,
        content_type=request.content_type,
        uid=request.uid,
        resource_version=request.resource_version,
    )


def request_of(call: PluginRequest) -> Request:
    """Return the request of a recorded call."""
    return Request(
        call.verb,  # type: ignore[arg-type]
        ObjectRef(call.where, call.namespace, call.name),
        call.body,
        subresource=call.subresource,
        content_type=call.content_type,
        uid=call.uid,
        resource_version=call.resource_version,
    )
