"""The ConfigMaps and Secrets that placed pods name, as they now are: held in memory alone, for the moment at which a
copy is written.

In: what the watches of single objects show. Out: their metadata to the log, their bytes to whoever carries a copy out.
One watch for each object, narrowed to its name: so a Role may name the objects, and nothing else of a namespace is ever
read (docs/decisions/0019)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import orjson

from controlplane.clusters.protocol import Change, Delta, Off, Synced
from controlplane.controllers.candidates.objects import FOLLOWED, LIVE, live_ref
from controlplane.controllers.candidates.references.decide import UNFIT
from controlplane.controllers.candidates.references.needs import unfit
from controlplane.kube.kinds import Json, meta
from controlplane.kube.watches import WatchSpec
from controlplane.log.port import Log
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.recorder import Recorder

if TYPE_CHECKING:
    from controlplane.controllers.candidates.references.controller import ReferenceController

_PATIENCE, _LOOK = 5.0, 0.1


class LiveObjectCache(Bodies):
    """Bodies of the log, and beside them the objects that are in no log."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.objects: dict[str, Json] = {}

    async def get(self, refs: Iterable[str]) -> dict[str, bytes]:
        """Return bodies by ref; an object that was not seen yet is waited for a while, then it is missing."""
        asked = list(refs)
        found = await super().get([ref for ref in asked if not ref.startswith(LIVE)])
        for ref in asked:
            if ref.startswith(LIVE) and (obj := await self._object(ref)) is not None:
                found[ref] = orjson.dumps(obj)
        return found

    async def _object(self, ref: str) -> Json | None:
        for _ in range(int(_PATIENCE / _LOOK)):
            if ref in self.objects:
                return self.objects[ref]
            await asyncio.sleep(_LOOK)
        return None


class NamedSink:
    """A `Sink` for the watch of one object of the source."""

    def __init__(
        self,
        kind: str,
        namespace: str,
        name: str,
        copies: ReferenceController,
        held: LiveObjectCache,
        recorder: Recorder,
    ) -> None:
        self.place, self._copies, self._held, self._recorder = (kind, namespace, name), copies, held, recorder
        self._last: Change | None = None
        self._absence, self._cluster = "", ""

    async def __call__(self, cluster: str, deltas: Sequence[Delta]) -> None:
        """Keep what is shown, and record that it is there, or is not."""
        ref, self._cluster = live_ref(*self.place), cluster
        for delta in deltas:
            if isinstance(delta, Change):
                self._last = delta if delta.op != "gone" else None
                self._absence = "" if self._last is not None else "it was deleted"
                if delta.op == "gone":
                    self._held.objects.pop(ref, None)
                else:
                    self._held.objects[ref] = delta.object
                await self._recorder(cluster, [_bare(delta, unfit(self.place[0], delta.object))])
            else:
                await self._absent(delta)

    async def again(self) -> None:
        """Record once more what the watch showed last: what nobody named for a moment was forgotten, and the watch goes
        on.
        """
        if (shown := self._last) is not None:
            await self._recorder(self._cluster, [_bare(shown, unfit(self.place[0], shown.object))])
        elif self._absence and (event := self._copies.missing(*self.place, self._absence)) is not None:
            await self._recorder.record([event])

    async def _absent(self, delta: Synced | Off) -> None:
        if isinstance(delta, Synced) and delta.count:
            return
        message = delta.message if isinstance(delta, Off) else "there is none"
        self._last, self._absence = None, message
        event = self._copies.missing(*self.place, message)
        if event is not None:
            self._held.objects.pop(live_ref(*self.place), None)
            await self._recorder.record([event])


class CopySink:
    """A `Sink` for the watch of our copies in a namespace of a target; what they hold is not looked at."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def __call__(self, cluster: str, deltas: Sequence[Delta]) -> None:
        """Record which copies there are."""
        await self._recorder(cluster, [_bare(delta) for delta in deltas if isinstance(delta, Change)])


def named_spec(kind: str, namespace: str, name: str) -> WatchSpec:
    """Return the watch of one object."""
    return WatchSpec(FOLLOWED[kind], namespace=namespace, field_selector=f"metadata.name={name}")


def _bare(change: Change, why: str = "") -> Change:
    """Return a change without what the object holds; `why` it cannot be copied is said beside."""
    obj = change.object
    kept: Json = {key: obj[key] for key in ("apiVersion", "kind", "type") if key in obj}
    kept |= {UNFIT: why} if why else {}
    head = {key: value for key, value in meta(obj).items() if key in _HEAD}
    return Change(
        change.op, change.kind, {**kept, "metadata": head}, change.resource_version, unreadable=change.unreadable
    )


_HEAD = frozenset({"name", "namespace", "uid", "resourceVersion", "labels", "annotations", "deletionTimestamp"})
