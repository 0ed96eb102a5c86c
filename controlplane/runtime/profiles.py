"""The ClusterProfiles of our namespace, as they now are: where workers' clusters are, if their MultiKueueClusters say
so.

In: the deltas of one reflector. Out: what a profile says of the way to its cluster, and a word to the connections when
that changed. They never reach the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from controlplane.clusters.cluster_profile import access_of, not_found
from controlplane.clusters.kubeconfig import BAD_PROFILE, KubeconfigError
from controlplane.clusters.protocol import Change, Delta, Off
from controlplane.kube.kinds import CLUSTER_PROFILES, meta


class Profiles:
    """A `Sink` for ClusterProfiles. `on_change(name)` hears of each that appears, changes or goes; "" means all."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._access: dict[str, bytes] = {}
        self._on_change = on_change
        self._listed = asyncio.Event()
        self._off = ""

    async def __call__(self, cluster: str, deltas: Sequence[Delta]) -> None:
        """Take what the API server showed."""
        for delta in deltas:
            if isinstance(delta, Change):
                self._take(delta)
                continue
            off = _off(delta) if isinstance(delta, Off) else ""
            self._listed.set()
            if off != self._off:
                self._off = off
                self._on_change("")

    def _take(self, change: Change) -> None:
        name = str(meta(change.object)["name"])
        before = self._access.pop(name, None)
        if change.op != "gone":
            self._access[name] = access_of(change.object)
        if self._access.get(name) != before:
            self._on_change(name)

    async def read(self, name: str) -> bytes:
        """Return what a profile says of the way to its cluster, once the profiles are listed; `KubeconfigError` if it
        is not there."""
        await self._listed.wait()
        if self._off:
            raise KubeconfigError(BAD_PROFILE, self._off)
        if name not in self._access:
            raise not_found(name)
        return self._access[name]


def _off(delta: Off) -> str:
    if delta.reason == "NotServed":
        kind = CLUSTER_PROFILES
        return f'no matches for kind "{kind.kind}" in version "{kind.api_version}"'
    return f"ClusterProfiles cannot be read: {delta.message}"
