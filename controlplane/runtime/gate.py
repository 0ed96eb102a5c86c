"""Whether effects may act at all: only while this process leads the log and the log answers.

In: what the log and the leader say. Out: a gate that executors pass one by one. A closed gate loses nothing; they wait
before it."""

from __future__ import annotations

import asyncio


class Gate:
    """Open while there is no reason to be closed."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._open = asyncio.Event()
        self._open.set()

    def set(self, reason: str, ok: bool, detail: str = "") -> None:
        """State one reason: `ok` or not, and why not."""
        if ok:
            self._reasons.pop(reason, None)
        else:
            self._reasons[reason] = detail
        if self._reasons:
            self._open.clear()
        else:
            self._open.set()

    @property
    def is_open(self) -> bool:
        """Whether effects may act."""
        return not self._reasons

    def against(self, reason: str) -> str | None:
        """Return what one reason says against acting; None if it says nothing."""
        return self._reasons.get(reason)

    async def passed(self) -> None:
        """Return when the gate is open."""
        await self._open.wait()
