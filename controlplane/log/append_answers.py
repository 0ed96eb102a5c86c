"""What callers are told of their requests: a few at a time, so that the loop sees to the batch in flight in between.

In: requests that were judged, once their batch is committed. Out: the results of their futures, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import structlog

from controlplane.log.draft import WaitingRequest
from controlplane.log.event import LogError, VersionConflict

_log = structlog.get_logger(__name__)

AT_ONCE = 64
"""So many callers are told before the loop sees to anything else."""


class AppendAnswers:
    """Requests, each with the number of its events that are new, or None where a stream has moved on."""

    def __init__(self) -> None:
        self._answers: deque[tuple[WaitingRequest, int | None]] = deque()

    def __len__(self) -> int:
        return len(self._answers)

    def add(self, waiting: WaitingRequest, new: int | None) -> None:
        """Take an answer; `give_soon` is to be called after the last."""
        self._answers.append((waiting, new))

    def give_soon(self) -> None:
        """Give all answers, after whatever the caller does until it waits for something."""
        asyncio.get_running_loop().call_soon(self.give)

    def give(self, most: int = AT_ONCE) -> None:
        """Give so many answers now, and the others soon."""
        for _ in range(min(most, len(self._answers))):
            waiting, new = self._answers.popleft()
            if waiting.future.done():
                continue
            if new is None:
                streams = ", ".join(waiting.request.expected)
                waiting.future.set_exception(VersionConflict(f"{streams}: moved on since the decision was taken"))
            else:
                waiting.future.set_result(new)
        if self._answers:
            self.give_soon()


def fail(group: Sequence[WaitingRequest], error: Exception) -> None:
    """Tell callers now that nothing of their requests was written, and why."""
    for waiting in group:
        if not waiting.future.done():
            waiting.future.set_exception(error)


def refused(streams: Sequence[str], error: Exception) -> LogError:
    """Return what the caller of a request is told whose content the database, or its driver, did not take."""
    _log.error("append refused", error=str(error), streams=streams)
    return LogError(f"the database refused an append: {error}")
