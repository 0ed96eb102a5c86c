"""The Secrets of our namespace, as they now are: where workers' kubeconfigs come from. They never reach the log.

In: the deltas of one reflector. Out: the bytes of a kubeconfig, and a word to the connections when a Secret changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from controlplane.clusters.kubeconfig import BAD, KubeconfigError
from controlplane.clusters.protocol import Change, Delta, Off
from controlplane.clusters.sources import kubeconfig_of_secret
from controlplane.kube.kinds import Json, meta


class Secrets:
    """A `Sink` for Secrets. `on_change(name)` hears of each that appears, changes or goes, and of each that somebody
    asked for while none could be read."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._objects: dict[str, Json] = {}
        self._on_change = on_change
        self._listed = asyncio.Event()
        self._off = ""
        self._refused: dict[str, None] = {}

    async def __call__(self, cluster: str, deltas: Sequence[Delta]) -> None:
        """Take what the API server showed."""
        for delta in deltas:
            if isinstance(delta, Change):
                self._take(delta)
            elif isinstance(delta, Off):
                self._off = delta.message
                self._listed.set()
            else:
                self._off = ""
                self._listed.set()
                self._tell_refused()

    def _tell_refused(self) -> None:
        refused, self._refused = self._refused, {}
        for name in refused:
            self._on_change(name)

    def _take(self, change: Change) -> None:
        name = str(meta(change.object)["name"])
        before = self._objects.get(name)
        if change.op == "gone":
            self._objects.pop(name, None)
        else:
            self._objects[name] = change.object
        if change.op == "gone" or before is None or before.get("data") != change.object.get("data"):
            self._on_change(name)

    async def read(self, name: str) -> bytes:
        """Return the kubeconfig in a Secret, once the Secrets are listed; `KubeconfigError` if it is not there."""
        await self._listed.wait()
        if self._off:
            self._refused[name] = None
            raise KubeconfigError(BAD, f'Secret "{name}" cannot be read: {self._off}')
        return kubeconfig_of_secret(name, self._objects.get(name))
