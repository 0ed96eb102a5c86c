"""The bodies of live objects, as they were last seen: what copies are made of, by the hash that events name.

In: what the watches show, before the event of it is appended. Out: JSON whose hash is the ref that was asked for. The
log keeps less of a body than was seen (`controlplane.log.redaction`), so it is asked second, and believed where the
hash agrees. What has left the bounded memory is looked at again where it was seen. Nothing that was redacted gets out
of here: its hash is another one."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from controlplane.kube.kinds import Kind, meta
from controlplane.log.event import Body
from controlplane.log.port import Log
from controlplane.runtime.controller import ObjectChange

_MISSES_REMEMBERED = 10_000


class BodyOwner(msgspec.Struct, frozen=True):
    """Where the object is whose body something is."""

    cluster: str
    kind: Kind
    namespace: str
    name: str


class Bodies:
    """The most recently used bodies, up to `limit` bytes of JSON, and where each live object's are.

    `look` reads an object once more and gives its bodies. `complete`: everything is listed, so what is not here is
    there no more."""

    def __init__(self, log: Log, limit: int = 64 * 1024 * 1024) -> None:
        self.look: Callable[[BodyOwner], Awaitable[Iterable[Body]]] | None = None
        self.complete: Callable[[], bool] = lambda: True
        self._log, self._limit = log, limit
        self._texts: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._places: dict[str, BodyOwner] = {}
        self._refs: dict[tuple[str, Kind, str], tuple[str, ...]] = {}
        self._misses: OrderedDict[tuple[str, ...], int] = OrderedDict()

    def saw(self, change: ObjectChange, bodies: Iterable[Body]) -> None:
        """Take what an object showed, in the place of what it showed before."""
        key = change.cluster, change.kind, change.uid
        for ref in self._refs.pop(key, ()):
            self._places.pop(ref, None)
        found = tuple(bodies)
        if change.gone or not found:
            return
        metadata = meta(change.object)
        place = BodyOwner(
            change.cluster, change.kind, str(metadata.get("namespace", "")), str(metadata.get("name", ""))
        )
        self._refs[key] = tuple(body.ref for body in found)
        self._places.update(dict.fromkeys(self._refs[key], place))
        self.keep(found)

    def keep(self, bodies: Iterable[Body]) -> None:
        """Remember bodies as they were seen."""
        for body in bodies:
            self._put(body.ref, body.text.encode())

    async def get(self, refs: Iterable[str]) -> dict[str, bytes]:
        """Return bodies by ref: from memory, from the log if it has all of them, or looked at anew; what is not to be
        had is missing.
        """
        found: dict[str, bytes] = {}
        missing = []
        for ref in refs:
            text = self._texts.get(ref)
            if text is None:
                missing.append(ref)
            else:
                self._texts.move_to_end(ref)
                found[ref] = text
        if missing:
            for ref, text in (await self._log.bodies(missing)).items():
                if hashlib.sha256(text).hexdigest() == ref:
                    self._put(ref, text)
                    found[ref] = text
        for ref in missing:
            if ref not in found and (text := await self._seen_again(ref)) is not None:
                found[ref] = text
        return found

    def missed(self, refs: Iterable[str]) -> int:
        """Return how often these bodies were missed together, this time counted."""
        key = tuple(refs)
        count = self._misses[key] = self._misses.pop(key, 0) + 1
        if len(self._misses) > _MISSES_REMEMBERED:
            self._misses.popitem(last=False)
        return count

    async def _seen_again(self, ref: str) -> bytes | None:
        place = self._places.get(ref)
        if place is None or self.look is None:
            return None
        for body in await self.look(place):
            self._put(body.ref, body.text.encode())
            if body.ref == ref:
                return body.text.encode()
        return None

    def _put(self, ref: str, text: bytes) -> None:
        if ref in self._texts:
            self._texts.move_to_end(ref)
            return
        self._texts[ref] = text
        self._size += len(text)
        while self._size > self._limit and len(self._texts) > 1:
            _, dropped = self._texts.popitem(last=False)
            self._size -= len(dropped)
