"""Lets a process start from what another one had folded of the log, and keeps what this one has folded for the next.

In: the controllers of a process with what the router and the log remember beside them, and where snapshots are kept.
Out: the same state as if the whole log had been read, or none, with a message that says why; and a snapshot whenever
enough has been folded since the last, at a moment at which nothing is. What is folded is taken at one position of the
log, at once, and written down in slices between which the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

import msgspec
import structlog

from controlplane.clock import Clock
from controlplane.log.ended import NeededPage, NeededStreams
from controlplane.log.event import LogUnavailable, Recorded
from controlplane.log.port import Log
from controlplane.log.snapshots import Contents, FoundSnapshot, SnapshotError, SnapshotStore, compressed
from controlplane.log.traces import Traces
from controlplane.runtime.collector import without_collector
from controlplane.runtime.ended import LeftStreams, LiveStreams
from controlplane.runtime.fold_version import fold_version
from controlplane.runtime.folded import FoldedError, check, give, keeps, taken
from controlplane.runtime.folded_records import Decoder, Encoder
from controlplane.runtime.lifecycle import ProcessContext
from controlplane.runtime.router import ControllerRouter
from controlplane.runtime.runner import Runner
from controlplane.tasks import end, to_the_end

_log = structlog.get_logger(__name__)

_CHUNK = 1 << 20
"""So many bytes are compressed and stored as one."""
_STREAMS, _MANY = "@streams", 20_000
"""The part that says which streams are not over, and how many are in a chunk of it."""
# Seconds for which states are written down without a pause, and how long the pause is.
_SLICE, _PAUSE = 0.005, 0.002
# A moment is quiet if nothing is folded for so many seconds. A process that has none is not waited for longer.
_QUIET, _PATIENCE = 0.25, 5.0
# At an orderly end a snapshot is worth it if it is newer than the last one by this part of what lies between two.
_AT_THE_END = 50
# Seconds that this may take.
_LAST_ONE = 5.0


class Start(msgspec.Struct, frozen=True):
    """Where a process begins to read: after which position, whose event was recorded then."""

    position: int
    recorded_at: datetime


class Snapshots:
    """The snapshots of one process that follows or leads a log. `every`: after so many events another one is kept;
    `fold` is the version of the process's fold."""

    def __init__(
        self, store: SnapshotStore, router: ControllerRouter, traces: Traces, fold: str, clock: Clock, every: int
    ) -> None:
        self._store, self._fold, self._clock, self._every = store, fold, clock, every
        self._router = router
        self._live = LiveStreams(router)
        self._left: NeededStreams | None = None
        self._left_from: FoundSnapshot | None = None
        self._kept: dict[str, object] = {one.name: one.controller for one in router.registrations}
        self._kept |= {"@router": router, "@traces": traces}
        router.remembers = True
        self._due = asyncio.Event()
        self._position = self._last = 0
        self._recorded_at: datetime | None = None
        self._at_end = False
        self._running: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Keep a snapshot now and then from now on, until the end."""
        self._running = self._running or asyncio.create_task(self.run(), name="snapshots")

    async def end(self, *, orderly: bool) -> None:
        """Keep a last snapshot, if the process ends in good order and there is enough in it that is new; let go of the
        database.
        """
        running = [self._running] if self._running is not None else []
        try:
            if orderly and self._at_end and self._position - self._last > self._every // _AT_THE_END:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LAST_ONE):
                        await end(*running)
                        await self.keep()
        finally:
            await self._store.close()  # whoever waits for an answer waits no longer
            await end(*running)

    # --- the start -------------------------------------------------------------------------------------------------

    async def restore(self, upto: int | None = None) -> Start | None:
        """Put the newest snapshot that is sound in the place of the state; return where it ends, None if there is none.

        `upto`: what the log had after that position was lost. Raises `LogUnavailable`."""
        tried: list[int] = []
        while (found := await self._store.found(self._fold, upto, tried)) is not None:
            try:
                with without_collector():
                    decoders = await self._read(found)
                    for name, one in self._kept.items():
                        check(one, decoders[name].parts)
            except (SnapshotError, FoldedError, msgspec.MsgspecError, KeyError) as error:
                _log.warning("a snapshot is not used", position=found.position, why=str(error))
                tried.append(found.position)
                continue
            for name, one in self._kept.items():
                give(one, decoders[name].parts)
            self._store.resume(found.place)
            self._position = self._last = found.position
            self._recorded_at = found.contents.recorded_at
            _log.info("starting from a snapshot", position=found.position)
            return Start(found.position, found.contents.recorded_at)
        return None

    async def _read(self, found: FoundSnapshot) -> dict[str, Decoder]:
        decoders = {name: Decoder() for name in self._kept}
        streams: list[tuple[str, datetime]] = []
        async for part, data in self._store.chunks(found):
            if part == _STREAMS:
                streams += msgspec.msgpack.decode(data, type=list[tuple[str, datetime]])
                continue
            decoder = decoders[part]
            for record in msgspec.msgpack.decode(data, type=list[msgspec.Raw]):
                decoder.read(record)
            await asyncio.sleep(0)
        self._live.restored(streams)
        return decoders

    async def _streams(self, found: FoundSnapshot) -> list[tuple[str, datetime]]:
        """Return the streams that were not over, each with the time of its last event. Raises `SnapshotError`."""
        streams: list[tuple[str, datetime]] = []
        async for _, data in self._store.chunks(found, [_STREAMS]):
            streams += msgspec.msgpack.decode(data, type=list[tuple[str, datetime]])
        return streams

    async def start(self, runner: Runner, upto: int | None) -> Start | None:
        """Begin with the newest snapshot of this fold; if there is only one of another, with what that says is left of
        the log. Return where that ends, None if there is neither. Whoever was interrupted calls it again. Raises
        `LogUnavailable`."""
        if not runner.position and (start := await self.restore(upto)) is not None:
            runner.position = start.position
            return start
        if await self.left(upto) is None:
            return None
        while (page := await self.next_left(runner.position)) is not None:
            runner.begin_with(page.events, page.looked_to)
        return self.left_at

    # --- the start without one of this fold ------------------------------------------------------------------------

    async def left(self, upto: int | None = None) -> NeededStreams | None:
        """Return what a snapshot of another fold says is left of the log without the streams that are over; None if
        there is none that this process believes. What was said once is said again, for whoever was interrupted. Raises
        `LogUnavailable`."""
        tried: list[int] = []
        while self._left is None and (found := await self._store.found("", upto, tried)) is not None:
            tried.append(found.position)
            try:
                if _STREAMS not in found.contents.parts or not self._live.believes(_said(found.contents)):
                    continue
                streams = await self._streams(found)
            except (SnapshotError, msgspec.MsgspecError) as error:
                _log.warning("a snapshot is not used", position=found.position, why=str(error))
                continue
            self._live.restored(streams)
            kinds = frozenset(_said(found.contents).kinds)
            self._left, self._left_from = NeededStreams(kinds, {name for name, _ in streams}, found.position), found
            _log.info("starting without the streams that are over", position=found.position, streams=len(streams))
        return self._left

    async def next_left(self, after: int) -> NeededPage | None:
        """Return the next events of that; None after the last of them: the rest of the log is read whole."""
        found, left = self._left_from, self._left
        assert found is not None, "asked for before"
        assert left is not None, "asked for before"
        if after < left.upto:
            return await self._store.needed(left, after)
        self._store.resume(found.place)
        self._position, self._recorded_at = found.position, found.contents.recorded_at
        return None

    @property
    def left_at(self) -> Start:
        """Where that ends."""
        assert self._left_from is not None, "asked for before"
        return Start(self._left_from.position, self._left_from.contents.recorded_at)

    # --- and the next one ------------------------------------------------------------------------------------------

    def folded(self, events: Sequence[Recorded]) -> None:
        """Hear of a batch that was folded."""
        self._live.folded(events)
        self._position, self._recorded_at = events[-1].position, events[-1].recorded_at
        self._look()

    def reached_end(self) -> None:
        """Hear that the end of the log was reached: before, what is folded is no start for anybody."""
        self._at_end = True
        self._look()

    def _look(self) -> None:
        if self._at_end and self._position - self._last >= self._every:
            self._due.set()

    async def run(self) -> None:
        """Keep a snapshot now and then, until cancelled. That it does not work harms nothing: it is said, and tried
        again after as many events.
        """
        while True:
            await self._due.wait()
            self._due.clear()
            await self._quiet()
            await self.keep()

    async def _quiet(self) -> None:
        waited = 0.0
        while waited < _PATIENCE:
            before = self._position
            await self._clock.sleep(_QUIET)
            waited += _QUIET
            if self._position == before:
                return

    async def keep(self) -> None:
        """Keep what is folded now, unless another process has kept as much."""
        position = self._position
        try:
            newest = await self._store.newest(self._fold)
            if newest > self._last and position - newest < self._every:
                self._last = newest
                return
            began = self._clock.monotonic()
            size = await self._keep()
        except LogUnavailable as error:
            _log.warning("no snapshot was kept", error=str(error))
        except Exception:
            # What is derived from the log must not stop what does not need it.
            _log.exception("no snapshot was kept")
        else:
            took = round(self._clock.monotonic() - began, 2)
            _log.info("a snapshot", position=position, kept=size > 0, bytes=size, seconds=took)
        self._last = max(self._last, position)

    async def _keep(self) -> int:
        """Return the size of the snapshot in bytes; 0 if it was not kept."""
        place, at = await self._store.place(), self._recorded_at
        if place is None or at is None or place.position != self._position:
            return 0
        self._router.tidy()
        states = {name: taken(one) for name, one in self._kept.items()}
        streams, said = self._live.left(self._position, at), msgspec.to_builtins(self._live.said())
        several = [streams[first : first + _MANY] for first in range(0, len(streams), _MANY)]
        chunks = [(_STREAMS, await to_the_end(partial(_chunk, some))) for some in several]
        counts = {_STREAMS: len(chunks)}
        for name in list(states):
            written = await self._written(states.pop(name))
            counts[name] = len(written)
            chunks += [(name, chunk) for chunk in written]
        kept = await self._store.keep(self._fold, place, Contents(counts, at, said), chunks)
        return sum(len(chunk) for _, chunk in chunks) if kept else 0

    async def _written(self, state: Mapping[str, object]) -> list[bytes]:
        """Return the chunks of one part, of which there is one at least."""
        chunks: list[bytes] = []
        records: list[msgspec.Raw] = []
        size, since = 0, self._clock.monotonic()
        for record in Encoder().records(state):
            records.append(msgspec.Raw(record))
            size += len(record)
            if size >= _CHUNK:
                chunks.append(await to_the_end(partial(_chunk, records)))
                records, size = [], 0
            if self._clock.monotonic() - since > _SLICE:
                await self._clock.sleep(_PAUSE)
                since = self._clock.monotonic()
        return [*chunks, await to_the_end(partial(_chunk, records))]


def _said(contents: Contents) -> LeftStreams:
    """Return what is said of the streams of a snapshot; `MsgspecError` if that is nothing which this version
    understands."""
    return msgspec.convert(contents.left, LeftStreams)


def _chunk(records: Sequence[object]) -> bytes:
    return compressed(msgspec.msgpack.encode(records))


def snapshots_of(context: ProcessContext, router: ControllerRouter, log: Log) -> Snapshots | None:
    """Return the snapshots of a process; None if it has none: they are off, or one of its controllers cannot be
    kept."""
    opened, every = context.ports.snapshots, context.settings.log.snapshot_every
    if opened is None or not every or not all(keeps(one.controller) for one in router.registrations):
        return None
    store = opened(log)
    if store is None:
        return None
    fold = fold_version(context.settings, [one.name for one in router.registrations])
    return Snapshots(store, router, log.traces, fold, context.clock, every)
