"""Is this process ready? Named checks, each set by whoever knows.

In: `health.set("schema", ok, detail)` from anywhere on the event loop. Out: one answer with its reasons, which /readyz
shows. A check that was announced and has not been heard from yet is not ok, so a process is never ready by being too
young to know better."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

import msgspec


class Check(msgspec.Struct, frozen=True):
    """One named condition: whether it holds, why not (or a remark), and since when it has been so (RFC 3339, UTC)."""

    ok: bool
    detail: str
    since: datetime


class Health:
    """The checks of one process. Not thread-safe: it belongs to the event loop."""

    def __init__(self, expected: Iterable[str] = ()) -> None:
        self._checks: dict[str, Check] = {}
        for name in expected:
            self.set(name, False, "not known yet")

    def set(self, name: str, ok: bool, detail: str = "") -> None:
        """Record what a check found; `since` changes only when that does."""
        before = self._checks.get(name)
        since = before.since if before and before.ok == ok else datetime.now(UTC)
        self._checks[name] = Check(ok, detail, since)

    @property
    def ready(self) -> bool:
        """Whether every check holds, and there is one."""
        return self.ready_without(())

    def ready_without(self, excluded: Collection[str]) -> bool:
        """Whether every check but those excluded holds, and there is one, of whatever name."""
        return bool(self._checks) and all(one.ok for name, one in self._checks.items() if name not in excluded)

    @property
    def checks(self) -> dict[str, Check]:
        """The checks by name, as they now are."""
        return dict(self._checks)
