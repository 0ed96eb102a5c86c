"""What an append sends arrives as it is, whatever the values; what no column can hold is refused before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.log import arrays
from controlplane.log.schema import libpq_url
from tests.support.deep import examples

EARLY, LATE = datetime(1970, 1, 1), datetime(2200, 1, 1)  # noqa: DTZ001 - a zone is drawn for each
TEXTS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=-7)), timezone(timedelta(hours=5, minutes=45))])
COLUMNS: list[tuple[str, Callable[[Any], arrays.Array], st.SearchStrategy[list[Any]]]] = [
    ("text", arrays.texts, TEXTS),
    ("int", arrays.ints, st.lists(st.integers(-(2**31), 2**31 - 1))),
    ("bigint", arrays.bigints, st.lists(st.integers(-(2**63), 2**63 - 1))),
    ("timestamptz", arrays.timestamps, st.lists(st.none() | st.datetimes(EARLY, LATE, timezones=ZONES))),
    ("bytea", arrays.blobs, st.lists(st.binary())),
]


@pytest.mark.parametrize(("kind", "encoded", "columns"), COLUMNS, ids=[kind for kind, *_ in COLUMNS])
def test_the_database_has_what_was_sent(
    database_url: str,
    kind: str,
    encoded: Callable[[Sequence[Any]], arrays.Array],
    columns: st.SearchStrategy[list[Any]],
) -> None:
    with psycopg.connect(libpq_url(database_url), autocommit=True) as connection:
        arrays.register(connection.adapters)
        query = psycopg.sql.SQL("SELECT %b::{}[], cardinality(%b)").format(psycopg.sql.SQL(kind))  # type: ignore[arg-type]

        @settings(max_examples=examples(20, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(columns)
        def arrives(column: list[Any]) -> None:
            row = connection.execute(query, (encoded(column), encoded(column)), binary=True).fetchone()
            assert row == (column, len(column))

        arrives()


@pytest.mark.parametrize(
    ("encoded", "column"),
    [
        (arrays.texts, ["fine", "\ud800"]),
        (arrays.ints, [2**31]),
        (arrays.bigints, [-(2**63) - 1]),
        (arrays.bigints, [1.5]),
        (arrays.timestamps, [datetime(2026, 1, 1)]),  # noqa: DTZ001 - that is what is refused
    ],
)
def test_what_no_column_can_hold_is_refused(encoded: Callable[[Any], arrays.Array], column: list[Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        encoded(column)


def test_texts_that_come_again_and_again_are_sent_as_others_are() -> None:
    """However many there are, and however long: what is kept of them is bounded, and so is the table of lengths."""
    for values in ([], ["", "ü", "a", "a"], ["a" * 4095, "b" * 4096, "c" * 70_000], [str(n) for n in range(9000)] * 2):
        assert arrays.few_texts(values) == arrays.texts(values)
    assert len(arrays._frequent) <= arrays._FREQUENT
    with pytest.raises(UnicodeEncodeError):
        arrays.few_texts(["\ud800"])
    assert arrays.texts(["x" * 5000]).endswith((5000).to_bytes(4) + b"x" * 5000)
