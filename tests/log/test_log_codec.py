"""The codec: strict both ways, with the path of what does not fit, and patient with what it does not know."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.log.codec import Codec
from controlplane.log.event import Event, Unknown, body_of, canonical
from tests.support.rows import each


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    count: int = 0


class Seen(Event):
    parts: list[Part] = []
    at: datetime | None = None
    labels: dict[str, str] = {}


class Third(Event):
    SCHEMA = 3
    name: str
    size: int


CODEC = Codec([Seen])


@given(
    parts=st.lists(st.builds(Part, name=st.text(), count=st.integers(-(2**63), 2**64 - 1))),
    labels=st.dictionaries(st.text(), st.text()),
    at=st.none() | st.datetimes(timezones=st.just(UTC)),
)
def test_what_goes_in_comes_out(parts: list[Part], labels: dict[str, str], at: datetime | None) -> None:
    event = Seen(parts=parts, labels=labels, at=at)
    name, schema, data = CODEC.encode(event)
    assert (name, schema) == ("Seen", 1)
    assert b"\x00" not in data  # PostgreSQL's json takes the escape, not the character
    assert CODEC.decode(name, schema, data) == event == CODEC.decode(name, schema, data.decode())


def test_defaults_are_left_out() -> None:
    assert CODEC.encode(Seen()) == ("Seen", 1, b"{}")


@each(
    ("data", "says"),
    [
        ('{"parts":[{"name":"a"},{"name":7}]}', "$.parts[1].name"),
        ('{"parts":[{"name":"a","count":"7"}]}', "$.parts[0].count"),
        ('{"parts":[{"name":"a","colour":"red"}]}', "unknown field `colour` - at `$.parts[0]`"),
        ('{"colour":"red"}', "unknown field `colour`"),
        ('{"parts":[{"count":1}]}', "missing required field `name` - at `$.parts[0]`"),
        ('{"labels":{"a":null}}', "$.labels[...]"),
        ('{"at":"yesterday"}', "$.at"),
        ("[]", "Expected `object`"),
        ('{"parts":', "truncated"),
        ("", "truncated"),
    ],
)
def test_what_does_not_fit_is_unknown_and_says_where(data: str, says: str) -> None:
    found = CODEC.decode("Seen", 1, data)
    assert isinstance(found, Unknown)
    assert (found.type, found.schema, found.data) == ("Seen", 1, data)
    assert says in found.error


def test_an_undeclared_type_is_not_written() -> None:
    with pytest.raises(TypeError, match="Third is not registered"):
        CODEC.encode(Third(name="a", size=1))
    impostor: Any = type("Seen", (Event,), {"__module__": __name__})
    with pytest.raises(TypeError, match="Seen is not registered"):
        CODEC.encode(impostor())


def test_two_types_of_one_name_are_refused() -> None:
    impostor: Any = type("Seen", (Event,), {"__module__": __name__})
    with pytest.raises(ValueError, match="two event types are called Seen"):
        Codec([Seen, impostor])


def test_upcasters_are_chained() -> None:
    codec = Codec(
        [Third],
        {
            ("Third", 1): lambda old: {"name": old["title"]},
            ("Third", 2): lambda old: {**old, "size": len(old["name"])},
        },
    )
    assert codec.decode("Third", 1, '{"title":"abc"}') == Third(name="abc", size=3)
    assert codec.decode("Third", 2, '{"name":"ab"}') == Third(name="ab", size=2)
    assert codec.decode("Third", 3, '{"name":"a","size":9}') == Third(name="a", size=9)


@pytest.mark.parametrize(
    ("schema", "data", "says"),
    [
        (1, '{"title":"abc"}', "no upcaster for Third schema 1"),
        (2, "[]", "Expected `object`"),
        (2, '{"nome":"abc"}', "upcaster"),
        (2, '{"name":null}', "upcaster"),
        (4, "{}", "schema 4 is newer than 3"),
    ],
)
def test_what_cannot_be_brought_up_is_unknown(schema: int, data: str, says: str) -> None:
    codec = Codec([Third], {("Third", 2): lambda old: {**old, "size": len(old["name"])}})
    found = codec.decode("Third", schema, data)
    assert isinstance(found, Unknown)
    assert says in found.error


def test_a_hash_is_of_the_one_spelling() -> None:
    assert canonical({"b": 1, "a": {"d": [1.5, None], "c": "ü"}}) == '{"a":{"c":"ü","d":[1.5,null]},"b":1}'.encode()
    assert body_of({"a": 1, "b": 2}) == body_of({"b": 2, "a": 1})
    assert body_of({"a": 1}) != body_of({"a": True})
