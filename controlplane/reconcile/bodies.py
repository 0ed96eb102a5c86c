"""The bodies that are in use: a bounded cache before the log's own, so that an effect on a fresh object reads nothing.

In: the bodies of new events, and refs. Out: JSON. Dropping it loses nothing but time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from controlplane.log.event import Body
from controlplane.log.port import Log


class Bodies:
    """The most recently used bodies, up to `limit` bytes of JSON."""

    def __init__(self, log: Log, limit: int = 64 * 1024 * 1024) -> None:
        self._log, self._limit = log, limit
        self._texts: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def keep(self, bodies: Iterable[Body]) -> None:
        """Remember bodies that are on their way into the log."""
        for body in bodies:
            self._put(body.ref, body.text.encode())

    async def get(self, refs: Iterable[str]) -> dict[str, bytes]:
        """Return bodies by ref, from memory or from the log; refs that the log does not have are missing."""
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
                self._put(ref, text)
                found[ref] = text
        return found

    def _put(self, ref: str, text: bytes) -> None:
        if ref in self._texts:
            self._texts.move_to_end(ref)
            return
        self._texts[ref] = text
        self._size += len(text)
        while self._size > self._limit and len(self._texts) > 1:
            _, dropped = self._texts.popitem(last=False)
            self._size -= len(dropped)
