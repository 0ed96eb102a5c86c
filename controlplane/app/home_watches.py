"""Watches of the management cluster that are wanted by what was seen there, beside those that the settings ask for.

In: what the hosted controllers want after each fold, and the watches of single objects
(`controlplane.app.candidates.watches`). Out: `want` on the management connection; what they show is recorded as that of
all others. What a controller wanted once is watched for as long as the process leads: that it is in view is said once,
and would be said still while nobody looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from controlplane.clusters.connection import ClusterConnection
from controlplane.clusters.protocol import Sink
from controlplane.kube.watches import WatchSpec


class HomeWatches:
    """What is wanted of the management connection; `wanted` says what the controllers want now."""

    def __init__(self, wanted: Callable[[], Sequence[WatchSpec]], home: ClusterConnection, sink: Sink) -> None:
        self._wanted, self._home, self._sink = wanted, home, sink
        self._kept: dict[WatchSpec, Sink] = {}
        self._named: Mapping[WatchSpec, Sink] = {}

    def want(self, named: Mapping[WatchSpec, Sink]) -> None:
        """Follow these besides, each with its own sink; what is no longer among them is let go."""
        self._named = dict(named)
        self._home.want({**self._kept, **self._named})

    def look(self) -> None:
        """Have followed what the controllers want by now."""
        if more := [spec for spec in self._wanted() if spec not in self._kept]:
            self._kept |= dict.fromkeys(more, self._sink)
            self._home.want({**self._kept, **self._named})
