"""The times that people type: a moment, a date, or how long ago.

In: `2026-01-01T13:00:00Z`, `2026-01-01 13:00`, `2026-01-01`, `90m`, `7d`, `now`. Out: a time with a zone. What names no
zone is UTC, as everything that the program prints. What cannot be read is a `CommandFailure` (exit code 2)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.clock import SystemClock
from controlplane.kube.durations import parse

EXPECTED = "write 2026-01-31T13:00:00Z, 2026-01-31 13:00 (UTC), 2026-01-31, or how long ago, such as 90m, 6h or 7d"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?")
_DAYS = re.compile(r"(\d{1,5})d")
_DAY = timedelta(days=1)


def moment(text: str, option: str, now: datetime | None = None) -> datetime:
    """Return the time that was typed for an option; `now` is what durations are counted back from."""
    now = now or SystemClock().now()
    if text == "now":
        return now
    try:
        if _MOMENT.fullmatch(text):
            found = datetime.fromisoformat(text)
            return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
        ago = int(days[1]) * _DAY if (days := _DAYS.fullmatch(text)) else parse(text)
        if ago >= timedelta(0):
            return now - ago
    except (ValueError, OverflowError):
        pass
    raise CommandFailure(f'{option}: "{text}" is not a time: {EXPECTED}', Exit.USAGE)


def interval(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """Return the ends of `--since` and `--until`, None for one that is not given; `CommandFailure` if nothing is
    between them."""
    now = SystemClock().now()
    begin = moment(since, "--since", now) if since is not None else None
    end = moment(until, "--until", now) if until is not None else None
    if begin is not None and end is not None and begin >= end:
        raise CommandFailure(f'nothing is between --since "{since}" and --until "{until}"', Exit.USAGE)
    return begin, end
