"""From what the reflectors see to what the log holds.

In: deltas of one kind of one cluster, in order (`controlplane.clusters.protocol.Sink`). Out: their events, committed,
before the reflector reads on: that is the back-pressure, and the reason why a crash loses nothing that a relist would
not bring back. Whatever the log says, the reflector does not go past an event that is not in it. Only one that is bad
in itself is set aside, and that is known by the log taking the word that it was refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import structlog

from controlplane.clock import Clock
from controlplane.clusters.protocol import Change, Delta, Off, Synced
from controlplane.kube.kinds import Json, meta
from controlplane.log.event import Append, Body, Fenced, LogError, LogUnavailable, NewEvent
from controlplane.log.port import Log
from controlplane.log.redaction import Redaction
from controlplane.runtime.bodies import Bodies, BodyOwner
from controlplane.runtime.controller import Controller, ObjectChange, observed_by

_log = structlog.get_logger(__name__)

# Seconds between two tries on a log that does not answer.
_AWAY_PAUSE = 0.5
# Seconds between two tries on a log that refuses whatever it is given.
_REFUSED_PAUSE = 2.0


class Recorder:
    """A `Sink` that writes to the log. `lift` makes the event of a list that is complete or a kind that is off.

    `incarnations` is told, before the first delta of a connection, which incarnation of the cluster it shows. `sole`:
    one controller alone looks at every kind, so what reflectors know of it is in the log, and a list after a takeover
    or a cut costs only what is new. `refused(event, error)` makes the event that takes the place of one that the
    database refuses; `stuck(why)` hears when it takes neither, and None when it takes something again. `redaction` says
    what the log keeps of bodies, which are whole in memory alone."""

    def __init__(
        self,
        log: Log,
        controller: Controller,
        bodies: Bodies,
        clock: Clock,
        lift: Callable[[str, Synced | Off], NewEvent],
        *,
        refused: Callable[[NewEvent, str], NewEvent],
        stuck: Callable[[str | None], None] = lambda why: None,
        sole: bool = False,
        redaction: Redaction | None = None,
    ) -> None:
        self._redaction = redaction or Redaction()
        self._write, self._bodies, self._clock, self._lift = log, bodies, clock, lift
        self._refused, self._stuck = refused, stuck
        self._observe, self._sole = partial(observed_by, controller), sole
        self.incarnations: dict[str, str] = {}

    async def __call__(self, cluster: str, deltas: Sequence[Delta]) -> None:
        """Record deltas; returns when they are in the log."""
        now = self._clock.now()
        events: list[NewEvent] = []
        for delta in deltas:
            if isinstance(delta, Change):
                seen = self._seen(cluster, delta, now)
                # What the log holds is not offered again; the bodies of it are in no other place than in what is shown
                # now.
                events += () if delta.seen and self._sole else seen
            else:
                events.append(self._lift(cluster, delta))
        await self.record(events)

    async def record(self, events: Sequence[NewEvent]) -> None:
        """Append events; one that the database refuses is left out and recorded as refused, the others go in.

        Returns when all of it is in the log. Raises `Fenced`.
        """
        if not events:
            return
        for event in events:
            self._bodies.keep(event.bodies)
        await self._take([self._redaction.stored(event) for event in events])

    def bodies_of(self, place: BodyOwner, obj: Json) -> list[Body]:
        """Return the bodies of an object that was looked at again."""
        version = str(meta(obj).get("resourceVersion", ""))
        shown = ObjectChange(place.cluster, self.incarnations.get(place.cluster, ""), place.kind, obj, version, False)
        return [body for event in self._observe(shown, self._clock.now()) for body in event.bodies]

    def _seen(self, cluster: str, change: Change, now: datetime) -> Sequence[NewEvent]:
        """Return the events of a change; the bodies are at hand before any of them is in the log."""
        gone, incarnation = change.op == "gone", self.incarnations.get(cluster, "")
        shown = ObjectChange(
            cluster,
            incarnation,
            change.kind,
            change.object,
            change.resource_version,
            gone,
            change.unreadable,
            change.manager,
            change.op == "listed",
        )
        events = self._observe(shown, now)
        self._bodies.saw(shown, [body for event in events for body in event.bodies])
        return events

    async def _take(self, events: Sequence[NewEvent]) -> None:
        try:
            await self._append(events)
        except Fenced:
            raise
        except LogError as error:
            if len(events) == 1:
                await self._set_aside(events[0], str(error))
                return
            for event in events:
                await self._take([event])

    async def _set_aside(self, event: NewEvent, error: str) -> None:
        """Record that an event was refused. A log that refuses that too refuses everything: then both are tried
        again. One that refused everything may have recovered between the two, so the event is tried once more.
        """
        stuck = False
        try:
            while True:
                try:
                    await self._append([self._refused(event, error)])
                except Fenced:
                    raise
                except LogError as other:
                    stuck = True
                    self._stuck(f"the log takes no events: {other}")
                    _log.warning("the log takes no events, will try again", stream=event.stream, error=str(other))
                    await self._clock.sleep(_REFUSED_PAUSE)
                    if await self._tried_again(event):
                        return
                else:
                    if not await self._tried_again(event):
                        _log.error("event refused by the database", stream=event.stream, error=error)
                    return
        finally:
            if stuck:
                self._stuck(None)

    async def _tried_again(self, event: NewEvent) -> bool:
        try:
            await self._append([event])
        except Fenced:
            raise
        except LogError:
            return False
        return True

    async def _append(self, events: Sequence[NewEvent]) -> None:
        while True:
            try:
                await self._write.append(Append(events))
            except LogUnavailable as error:
                # It has refused nothing: whoever waits for us waits for the log.
                _log.warning("the log does not answer, will try again", error=str(error))
                await self._clock.sleep(_AWAY_PAUSE)
            else:
                return
