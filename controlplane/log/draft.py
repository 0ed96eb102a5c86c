"""The requests that are to be committed next, judged as they come: on what the writer knows of the log and, while a
batch is in flight, on that batch. So the database and this process work at the same time.

In: requests that wait, with their futures. Out: a batch that is ready to be sent. What is judged on a batch in flight
is worth nothing unless that batch is committed: whoever holds the draft then drops it and judges its requests anew."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable

import msgspec

from controlplane.log.batch import Batch, EncodedRequest
from controlplane.log.writer_cache import WriterCache


class WaitingRequest(msgspec.Struct, eq=False):
    """A request, and the future of whoever waits for it."""

    request: EncodedRequest
    future: asyncio.Future[int]


class Draft:
    """See the module. `below` is the batch in flight, None if there is none; `size` is the number of events that were
    asked for, and `decides` whether a request among them expects a version."""

    def __init__(self, cache: WriterCache, below: Batch | None = None) -> None:
        self.group: list[WaitingRequest] = []
        self.size = 0
        self.decides = False
        self.batch = Batch(cache, below)
        self._cache, self._on_flight = cache, below is not None

    def add(self, waiting: WaitingRequest) -> None:
        """Judge a request after those that are here."""
        self.group.append(waiting)
        self.size += len(waiting.request.events)
        self.decides = self.decides or bool(waiting.request.expected)
        self.batch.add(waiting.request)

    def take(self, queue: deque[WaitingRequest], most: int) -> bool:
        """Take requests of a queue until there are `most` events; return whether there are as many by that. On a batch
        in flight the arrays are made then."""
        if self.size >= most:
            return False
        while queue and self.size < most:
            self.add(queue.popleft())
        full = self.size >= most
        if full and self._on_flight:
            with contextlib.suppress(TypeError, ValueError):  # raised again when it is sent
                _ = self.batch.parameters
        return full

    @property
    def may_be_sent(self) -> bool:
        """Whether it can be sent before the batch in flight is committed: it is ready, nothing has to be asked, and
        nothing of it was taken back."""
        batch = self.batch
        ready = batch.is_ready and not (batch.empty or batch.ahead or batch.has_to_ask())
        return ready and not any(waiting.future.done() for waiting in self.group)

    def landed(self) -> None:
        """Go on with what was judged on a batch in flight: it is committed."""
        self._on_flight = False

    def judge(self, group: Iterable[WaitingRequest] | None = None) -> None:
        """Judge anew, on what the writer knows of the log by now; `group`: these requests alone."""
        kept = list(self.group if group is None else group)
        self.group, self.size, self.decides, self.batch = [], 0, False, Batch(self._cache)
        for waiting in kept:
            self.add(waiting)

    def drop_answered(self) -> bool:
        """Leave out what was taken back; return whether there was any."""
        kept = [waiting for waiting in self.group if not waiting.future.done()]
        if len(kept) == len(self.group):
            return False
        self.judge(kept)
        return True
