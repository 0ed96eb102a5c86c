"""Watches of the management cluster that are wanted by what was seen there, beside those that the settings ask for.

In: what the hosted controllers want after each fold, and the watches of single objects (`controlplane.app.dynamic_watches`). Out:
`want` on the management connection; what they show is recorded as that of all others. What a controller wanted once is watched
for as long as the process leads: that it is in view is said once, and would be said still while nobody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from controlplane.clusters.connection import ClusterConnection
from controlplane.clusters.protocol import Sink
from controlplane.kube.watches import WatchSpec


class HomeWatches:
    """The driver of `want` on the management connection; `wanted` says what the controllers want now."""

    def __init__(self, wanted: Callable[[], Sequence[WatchSpec]], home: ClusterConnection, sink: Sink) -> None:
        self._wanted, self._home, self._sink = wanted, home, sink
        self._changed = asyncio.Event()
        self._kept: dict[WatchSpec, Sink] = {}
        self._named: Mapping[WatchSpec, Sink] = {}

    def want(self, named: Mapping[WatchSpec, Sink]) -> None:
        """Follow these besides, each with its own sink; what is no longer among them is let go."""
        self._named = dict(named)
        self._changed.set()

    def wake(self) -> None:
        """Look at what is to be watched now, if that may have changed."""
        if any(spec not in self._kept for spec in self._wanted()):
            self._changed.set()

    async def run(self) -> None:
        """Apply changes until cancelled."""
        self.wake()
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._kept |= dict.fromkeys((spec for spec in self._wanted() if spec not in self._kept), self._sink)
            self._home.want({**self._kept, **self._named})
