"""Watches that come and go with what is placed where: Candidates in just the namespaces of targets that matter, and
what pods name.

In: the source side's state after each fold. Out: `want` on the connections, and what the watches show, recorded; that a
list is complete, or a kind off, is said of the namespace, since another one of the same target may be closed to us."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from controlplane.app.candidates.live_objects import CopySink, LiveObjectCache, NamedSink, named_spec
from controlplane.app.home_watches import HomeWatches
from controlplane.clusters.connections import Connections
from controlplane.clusters.protocol import Change, Delta, Off, Sink, Synced
from controlplane.controllers.candidates.nodes.capacity import TargetCapacity
from controlplane.controllers.candidates.nodes.controller import VirtualNodes
from controlplane.controllers.candidates.nodes.events import TargetNodesCounted
from controlplane.controllers.candidates.objects import LIVE, SOURCE_LABEL
from controlplane.controllers.candidates.references.controller import ReferenceController
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.hosting import candidates_in
from controlplane.controllers.connectivity.events import KindOff, KindSynced
from controlplane.controllers.connectivity.local_connection import connectivity_event
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import NODES, meta
from controlplane.kube.watches import WatchSpec
from controlplane.log.event import Event
from controlplane.runtime.recorder import Recorder

_Wanted = dict[str, dict[WatchSpec, Sink]]


class DynamicWatches:
    """The driver of `want`. `copies` is there if ConfigMaps and Secrets follow; `held` keeps them while they are
    named.
    """

    def __init__(
        self,
        placing: SourceController,
        copies: ReferenceController | None,
        connections: Connections,
        home: HomeWatches,
        recorder: Recorder,
        held: LiveObjectCache,
        nodes: VirtualNodes | None = None,
    ) -> None:
        self._nodes = TargetNodesSink(nodes, recorder) if nodes is not None else None
        self._placing, self._copies, self._held = placing, copies, held
        self._connections, self._home, self._recorder = connections, home, recorder
        self._copy_sink = CopySink(recorder)
        self._changed = asyncio.Event()
        self._sinks: dict[WatchSpec, Sink] = {}
        self._named: dict[WatchSpec, NamedSink] = {}

    def wake(self) -> None:
        """Look at what is to be watched now, if that may have changed."""
        if self._due():
            self._changed.set()

    def _due(self) -> bool:
        return self._placing.watch_changed or (self._copies is not None and self._copies.watch_changed)

    async def run(self) -> None:
        """Apply changes until cancelled."""
        self._placing.watch_changed = True
        while True:
            if self._due():
                self._apply()
            for sink in self._forgotten():
                await sink.again()
            self._changed.clear()
            await self._changed.wait()

    def _forgotten(self) -> list[NamedSink]:
        """Return the watches of objects of which nothing is known, though they may have shown something."""
        copies = self._copies
        return [] if copies is None else [sink for sink in self._named.values() if sink.place not in copies.named]

    def _apply(self) -> None:
        wanted: _Wanted = {}
        policy, self._placing.watch_changed = self._placing.policy, False
        if "*" not in policy.namespaces:  # else all of them are watched as one, by the connections themselves
            for cluster, namespaces in self._placing.watched().items():
                watches = [candidates_in(namespace, policy.cluster) for namespace in sorted(namespaces)]
                wanted.setdefault(cluster, {}).update({spec: self._sink(spec) for spec in watches})
        if self._copies is not None:
            self._follow(self._copies, wanted)
        if self._nodes is not None:
            for cluster in sorted(self._placing.used):
                wanted.setdefault(cluster, {})[WatchSpec(NODES)] = self._nodes
        self._connections.want(wanted)

    def _follow(self, copies: ReferenceController, wanted: _Wanted) -> None:
        """Watch what placed pods name, one object at a time, and our copies where they are."""
        copies.watch_changed = False
        mark = f"{SOURCE_LABEL}={self._placing.policy.cluster}"
        for cluster, namespaces in copies.watched().items():
            watches = [
                WatchSpec(kind, mark, namespace)
                for namespace in sorted(namespaces)
                for kind in copies.kinds(cluster, namespace)
            ]
            wanted.setdefault(cluster, {}).update(dict.fromkeys(watches, self._copy_sink))
        named = copies.wanted()
        before, self._named = self._named, {}
        for place in sorted(named):
            spec = named_spec(*place)
            self._named[spec] = before.get(spec) or NamedSink(*place, copies, self._held, self._recorder)
        self._held.objects = {ref: obj for ref, obj in self._held.objects.items() if _place(ref) in named}
        if self._named.keys() != before.keys():
            self._home.want(self._named)

    def _sink(self, spec: WatchSpec) -> Sink:
        """Return the one sink of a watch, so that wanting it again changes nothing."""
        return self._sinks.setdefault(spec, _NamespaceSink(spec, self._recorder))


class TargetNodesSink:
    """Counts together what the nodes of targets have, in memory: the log has what they come to."""

    def __init__(self, nodes: VirtualNodes, recorder: Recorder) -> None:
        self._nodes, self._recorder = nodes, recorder
        self._capacities: dict[str, TargetCapacity] = {}
        self._listed: set[str] = set()

    async def __call__(self, cluster: str, deltas: Sequence[Delta]) -> None:
        """Take what is shown, and record what it comes to, once all of it was listed."""
        capacity, problem = self._capacities.setdefault(cluster, TargetCapacity()), ""
        for delta in deltas:
            if isinstance(delta, Off):
                capacity.clear()
                self._listed.add(cluster)
                problem = f"its nodes cannot be read: {delta.message}"
            elif isinstance(delta, Synced):
                self._listed.add(cluster)
            else:
                _take(capacity, delta)
        if cluster not in self._listed:
            return
        counts = TargetNodesCounted(problem=problem) if problem else capacity.counted()
        if (event := self._nodes.counted(cluster, counts)) is not None:
            await self._recorder.record([event])


def _take(capacity: TargetCapacity, change: Change) -> None:
    """Count a node as it now is; one that is gone or cannot be read is not counted."""
    if change.op != "gone" and not change.unreadable:
        try:
            capacity.put(change.object)
        except UNFIT:
            pass
        else:
            return
    capacity.drop(str(meta(change.object).get("uid")))


def _place(ref: str) -> tuple[str, str, str]:
    kind, namespace, name = ref.removeprefix(LIVE).split("/")
    return kind, namespace, name


class _NamespaceSink:
    """Records what one watch shows, under its own label."""

    def __init__(self, spec: WatchSpec, recorder: Recorder) -> None:
        self._label, self._recorder = spec.label, recorder

    async def __call__(self, cluster: str, deltas: Sequence[Delta]) -> None:
        changes: list[Delta] = [delta for delta in deltas if isinstance(delta, Change)]
        await self._recorder(cluster, changes)
        said = [connectivity_event(cluster, self._event(d)) for d in deltas if not isinstance(d, Change)]
        await self._recorder.record(said)

    def _event(self, delta: Synced | Off) -> Event:
        if isinstance(delta, Synced):
            return KindSynced(
                kind=self._label, count=delta.count, resource_version=delta.resource_version, gap=delta.gap
            )
        return KindOff(kind=self._label, reason=delta.reason, message=delta.message)
