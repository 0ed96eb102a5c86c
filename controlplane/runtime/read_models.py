"""Has the leader keep the read models of the log, little by little, so that nothing else waits for the database.

In: where they are kept. Out: nothing but what is kept; a database that does not answer is asked again later."""

from __future__ import annotations

from datetime import timedelta

import structlog

from controlplane.clock import Clock
from controlplane.log.event import LogUnavailable
from controlplane.log.read_models import ReadModels

_log = structlog.get_logger(__name__)

_MOST, _LEAST = 2000, 50
"""So many events are looked through at once: as many as the database manages in the time that a statement may take."""
_PAUSE = 15.0
"""Seconds until more is looked for, once everything was looked through."""
_SHARE = 4
"""While there is more, the database rests for so many times as long as it worked."""


async def keep_read_models(models: ReadModels, age: timedelta, clock: Clock) -> None:
    """Keep the read models of events older than an age, until cancelled."""
    position, events = -1, _MOST
    try:
        while True:
            began = clock.monotonic()
            try:
                reached = await models.keep(events, age)
            except LogUnavailable as error:
                events = max(_LEAST, events // 2)
                _log.debug("read models are not kept, will try again", error=str(error), events=events)
                await clock.sleep(_PAUSE)
                continue
            took, more = clock.monotonic() - began, reached - position >= events
            position, events = reached, min(_MOST, events * 2)
            await clock.sleep(min(_PAUSE, _SHARE * took) if more else _PAUSE)
    finally:
        await models.close()
