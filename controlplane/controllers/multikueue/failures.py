"""Remembers how an API server refused a write, and since when.

In: the refusal before, the event of the next one. Out: `RepeatedWriteFailure`, a value."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.multikueue import events
from controlplane.log.event import Recorded
from controlplane.runtime import writes


class RepeatedWriteFailure(writes.WriteFailure, frozen=True):
    """The last refusal of a write to a target, and since when it has been refused."""

    since: datetime

    @property
    def decides_nothing(self) -> bool:
        """Whether it is only the API server's own failure: an error, or too much to do. It does not answer for the
        attempts before."""
        return self.code == 429 or self.code >= 500


def failure_after(
    before: RepeatedWriteFailure | None, event: events.EffectFailed, recorded: Recorded
) -> RepeatedWriteFailure:
    """Return the failure of a write after one more refusal of it."""
    since = before.since if before is not None and before.action == event.action else recorded.recorded_at
    return RepeatedWriteFailure(
        event.failures, event.code, event.error, event.message, event.retry_at, event.action, since
    )
