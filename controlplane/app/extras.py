"""Watches that come and go with what is placed where: of Candidates, in just the namespaces of the targets that matter.

In: the source side's state after each fold. Out: `want` on the connections, and what the watches show, recorded; that a list is complete,
or a kind off, is said of the namespace, since another one of the same target may be closed to us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from controlplane.app.rooms import candidates_in
from controlplane.candidates.placing import Placing
from controlplane.clusters.connections import Connections
from controlplane.clusters.port import Change, Delta, Off, Sink, Synced
from controlplane.clusters.streams import WatchSpec
from controlplane.connectivity.events import KindOff, KindSynced
from controlplane.log.event import Event
from controlplane.multikueue.fleet import connectivity_event
from controlplane.reconcile.recorder import Recorder


class Extras:
    """The driver of `Connections.want`."""

    def __init__(self, placing: Placing, connections: Connections, recorder: Recorder) -> None:
        self._placing, self._connections, self._recorder = placing, connections, recorder
        self._changed = asyncio.Event()
        self._sinks: dict[WatchSpec, Sink] = {}

    def wake(self) -> None:
        """Look at what is to be watched now, if that may have changed."""
        if self._placing.watch_changed:
            self._changed.set()

    async def run(self) -> None:
        """Apply changes until cancelled."""
        self._placing.watch_changed = True
        while True:
            if self._placing.watch_changed:
                self._placing.watch_changed = False
                self._apply()
            self._changed.clear()
            await self._changed.wait()

    def _apply(self) -> None:
        policy = self._placing.policy
        if "*" in policy.namespaces:
            return  # all of them are watched as one, by the connections themselves
        self._connections.want(
            {
                cluster: {
                    spec: self._sink(spec) for spec in (candidates_in(ns, policy.cluster) for ns in sorted(found))
                }
                for cluster, found in self._placing.watched().items()
            }
        )

    def _sink(self, spec: WatchSpec) -> Sink:
        """Return the one sink of a watch, so that wanting it again changes nothing."""
        return self._sinks.setdefault(spec, _NamespaceSink(spec, self._recorder))


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
