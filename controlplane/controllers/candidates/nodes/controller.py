"""All virtual Nodes in memory, as the log says it: one in the source for each target that some namespace may use.

In: Nodes of the source, what the targets' own nodes come to, and the connections. Out: Nodes made, shown and removed;
for whoever binds pods, which are there. `placing` says which targets there are and who is bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from controlplane.controllers.candidates.nodes.decide import NodeContext, NodePolicy, decide, observed, request
from controlplane.controllers.candidates.nodes.events import (
    NODE_EVENTS,
    TargetNodesCounted,
    VirtualNodeGone,
    VirtualNodeObserved,
    VirtualNodeStatus,
)
from controlplane.controllers.candidates.objects import target_of, virtual_node
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.events import (
    CandidateWrite,
    CandidateWriteFailed,
    CandidateWriteUnneeded,
)
from controlplane.controllers.candidates.source.observations import event_of
from controlplane.controllers.candidates.source.observe import refused as misfit
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.connectivity.versions import ResourceVersionTracker, ShownVersion
from controlplane.kube.kinds import NODES, Request, meta
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.writes import OpenWrites, WriteFailure, WritingController, closed, is_late, opened, refused

VIRTUAL_NODE = "virtualnode"
OWNS = frozenset({VIRTUAL_NODE})
HEARS = frozenset({"cluster", "candidatetarget", "sourcepod", "service"})
_KEY = f"{MANAGEMENT}/Node"
_replace = msgspec.structs.replace


class VirtualNodeState(OpenWrites[CandidateWrite, WriteFailure]):
    """One target's Node as it is seen, what its nodes come to, and the open writes."""

    version: int = 0
    position: int = 0
    seen: VirtualNodeObserved | None = None
    counts: TargetNodesCounted | None = None


class VirtualNodes(WritingController[CandidateWrite]):
    """See the module. `around` is the last event of a target's connection, or of who may use it; `left`: the Nodes of
    targets that nobody may use any more."""

    types: Sequence[type[Event]] = (*NODE_EVENTS, CandidateWriteFailed, CandidateWriteUnneeded)
    FAILED, UNNEEDED = CandidateWriteFailed, CandidateWriteUnneeded
    GIVEN = ("policy", "_placing")

    def __init__(self, placing: SourceController, policy: NodePolicy) -> None:
        self.policy, self._placing = policy, placing
        self.nodes: dict[str, VirtualNodeState] = {}
        self.newest = ResourceVersionTracker(_shown)
        self._around: dict[str, int] = {}
        self._dirty: dict[str, None] = {}
        self._left: list[str] = []

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of a Node that stands for a target; None for any other."""
        if change.cluster != MANAGEMENT or change.kind != NODES:
            return None
        head = meta(change.object)
        name, uid = str(head.get("name", "")), str(head.get("uid", ""))
        named = target_of(change.object)
        cluster = named if named and virtual_node(named) == name else ""
        if change.gone:
            known = (one for one, node in self.nodes.items() if node.seen and node.seen.uid == uid)
            of = next(known, cluster)  # its beginning may be on its way to the log
            gone = VirtualNodeGone(name=name, namespace="", uid=uid)
            return event_of(change, now, lambda: (_stream(of), gone, ()) if of else None, _never)
        if not cluster:
            return None
        return event_of(
            change,
            now,
            lambda: (_stream(cluster), observed(change.whole()), ()),
            lambda error: misfit(MANAGEMENT, NODES, change.object, error),
        )

    def counted(self, cluster: str, counts: TargetNodesCounted) -> NewEvent | None:
        """Return the event of what a target's nodes come to; None if that is known."""
        known = self.nodes.get(cluster)
        if known is not None and known.counts == counts:
            return None
        return NewEvent(stream=_stream(cluster), event=counts, cluster=cluster)

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.newest.fold(recorded)
        kind, _, name = recorded.stream.partition("/")
        if kind == VIRTUAL_NODE:
            self.nodes[name] = _fold(self.nodes.get(name, VirtualNodeState()), recorded)
            self._dirty[name] = None
        elif kind == "sourcepod":
            self._around |= dict.fromkeys(self._left, recorded.position)
            self._dirty.update(dict.fromkeys(self._left))
        else:
            at = [name] if kind == "cluster" and name != MANAGEMENT else [*self.clusters()]
            self._around |= dict.fromkeys(at, recorded.position)
            self._dirty.update(dict.fromkeys(at))
        if kind != "sourcepod":
            self._left = sorted(self.nodes.keys() - self._placing.used)

    def clusters(self) -> set[str]:
        """Return the targets that have a Node, or are to have one."""
        return {*self.nodes, *self._placing.used}

    def there(self) -> Mapping[str, VirtualNodeObserved]:
        """Return the Nodes that there are, by target."""
        return {name: one.seen for name, one in self.nodes.items() if one.seen is not None and not one.seen.deleting}

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        dirty, self._dirty = [_stream(name) for name in self._dirty], {}
        return dirty

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion)."""
        if cluster != MANAGEMENT or kind != NODES.name:
            return {}
        return {one.uid: ("", one.name, one.resource_version) for one in (s.seen for s in self.nodes.values()) if one}

    # --- what follows ------------------------------------------------------------------------------------------------

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a target's Node."""
        cluster = stream.partition("/")[2]
        state, home = self.nodes.get(cluster, VirtualNodeState()), self._placing.connections.get(MANAGEMENT)
        failure = state.trouble.get(_KEY)
        if failure is not None and failure.until > now:
            return Decided((), state.version, failure.until)
        if home is None or not home.in_view(NODES.name) or not self._placing.around_in_view() or state.effects:
            return Decided((), state.version)
        context = NodeContext(
            policy=self.policy,
            cluster=cluster,
            wanted=cluster in self._placing.used,
            pods=self._placing.bound_to(virtual_node(cluster), cluster),
            connection=self._placing.connections.get(cluster, Connection(name=cluster)),
        )
        decision = decide(context, state.seen, state.counts)
        if decision is None:
            return Decided((), state.version)
        cause = max(state.position, self._around.get(cluster, 0))
        event = NewEvent(stream=stream, event=decision, cluster=MANAGEMENT, caused_by=cause)
        return Decided([event], state.version)

    # --- what is open ------------------------------------------------------------------------------------------------

    def _writes(self, stream: str) -> VirtualNodeState | None:
        return self.nodes.get(stream.partition("/")[2])

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return nothing: a Node is made of what the decision says."""
        return ()

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out."""
        decision, state = self._decision(write), self._writes(write.stream)
        if decision is None or state is None:
            return None
        before = state.seen.status if state.seen is not None else VirtualNodeStatus()
        return request(decision, write.stream.partition("/")[2], before, now)

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Say nothing: the Node says it."""


def _stream(cluster: str) -> str:
    return f"{VIRTUAL_NODE}/{cluster}"


def _never(error: Exception) -> tuple[str, Event, tuple[()]]:
    raise error


def _fold(state: VirtualNodeState, recorded: Recorded) -> VirtualNodeState:
    event = recorded.event
    state = _replace(state, version=recorded.version, position=recorded.position)
    match event:
        case TargetNodesCounted():
            return _replace(state, counts=event)
        case VirtualNodeObserved():
            return _replace(closed(state, _KEY), seen=event)
        case VirtualNodeGone() if state.seen is not None and state.seen.uid == event.uid:
            return _replace(closed(state, _KEY), seen=None)
        case CandidateWriteFailed() | CandidateWriteUnneeded() if is_late(state, event.target, recorded):
            return state
        case CandidateWriteFailed():
            return refused(state, event)
        case CandidateWriteUnneeded():
            return closed(state, event.target)
        case CandidateWrite():
            return opened(state, event, recorded)
        case _:
            return state


def _shown(event: Event) -> ShownVersion | None:
    if not isinstance(event, (VirtualNodeObserved, VirtualNodeGone)):
        return None
    return ShownVersion(NODES.name, event.resource_version, event.uid if isinstance(event, VirtualNodeGone) else "")
