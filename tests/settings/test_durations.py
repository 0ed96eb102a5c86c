"""Durations are read as Go reads them, and what is shown is read back."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kube import durations
from tests.support.rows import each


@each(
    ("text", "expected"),
    [
        ("0", timedelta(0)),
        ("-0", timedelta(0)),
        ("15m", timedelta(minutes=15)),
        ("1h30m", timedelta(minutes=90)),
        ("500ms", timedelta(milliseconds=500)),
        ("1.5h", timedelta(minutes=90)),
        (".5s", timedelta(milliseconds=500)),
        ("1.s", timedelta(seconds=1)),
        ("-1m", timedelta(minutes=-1)),
        ("+3s", timedelta(seconds=3)),
        ("2µs", timedelta(microseconds=2)),
        ("2μs", timedelta(microseconds=2)),
        ("2500ns", timedelta(microseconds=2)),
        ("30m1h", timedelta(minutes=90)),
        ("15m0s", timedelta(minutes=15)),
    ],
)
def test_what_go_reads(text: str, expected: timedelta) -> None:
    assert durations.parse(text) == expected


@each(
    ("text", "reason"),
    [
        ("", "must be a duration"),
        ("-", "must be a duration"),
        ("m", "must be a duration"),
        ("15", "has no unit: write 15s, 15m or 15h"),
        ("1h30", "has no unit"),
        ("1d", 'unknown unit "d"'),
        ("1 h", "has no unit"),
        ("1h ", "must be a duration"),
        ("1M", "has no unit"),
        ("1..5s", "has no unit"),
        ("--1s", "must be a duration"),
        ("١s", "must be a duration"),
        ("3000000h", "292 years"),
    ],
)
def test_what_go_refuses(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        durations.parse(text)


@each(
    ("duration", "text"),
    [
        (timedelta(0), "0"),
        (timedelta(minutes=15), "15m"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(seconds=3601, milliseconds=5), "1h1s5ms"),
        (timedelta(minutes=-1), "-1m"),
        (timedelta(days=2), "48h"),
    ],
)
def test_the_shortest_spelling(duration: timedelta, text: str) -> None:
    assert durations.show(duration) == text


@given(st.timedeltas(min_value=-durations.LONGEST, max_value=durations.LONGEST))
def test_what_is_shown_is_read_back(duration: timedelta) -> None:
    assert durations.parse(durations.show(duration)) == duration


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(durations.parse(text), timedelta)
