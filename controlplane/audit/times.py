"""The times that people type: a moment, a date, or how long ago.

In: `2026-01-01T13:00:00Z`, `2026-01-01 13:00`, `2026-01-01`, `90m`, `7d`, `now`. Out: a time with a zone. What names no
zone is UTC, as everything that is shown. What cannot be read is a `ValueError`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from controlplane.kube.durations import parse

EXPECTED = "write 2026-01-31T13:00:00Z, 2026-01-31 13:00 (UTC), 2026-01-31, or how long ago, such as 90m, 6h or 7d"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?")
_DAYS = re.compile(r"(\d{1,5})d")
_DAY = timedelta(days=1)


def moment(text: str, now: datetime) -> datetime:
    """Return the time that was typed; `now` is what durations are counted back from. `ValueError` with the sentence
    that says what is expected."""
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
    raise ValueError(f'"{text}" is not a time: {EXPECTED}')
