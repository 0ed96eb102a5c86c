"""The documents of a file: cut, read as Kubernetes reads them, and each that cannot be used told by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.kube.documents import Document, documents, parts
from tests.support.deep import examples
from tests.support.rows import each


def only(text: str) -> Any:
    (found,) = documents("f", text)
    assert found.wrong == ""
    return found.content


def wrong(text: str) -> str:
    (found,) = documents("f", text)
    assert found.content is None
    return found.wrong


def test_a_stream() -> None:
    text = "# first\n---\na: 1\n---\n---\nb: [\n---\nc: 3\n...\n"
    one, two, three = documents("f", text)
    assert (one, three) == (Document("f, document 1", {"a": 1}), Document("f, document 3", {"c": 3}))
    assert two.place == "f, document 2"
    assert two.wrong.startswith("is not YAML: ")
    assert len(parts(text)) == 3


@each("text", ["", "\n", "---\n---\n", "# a\n...\n", "%YAML 1.1\n---\n", "null"])
def test_nothing(text: str) -> None:
    assert list(documents("f", text)) == []


def test_keys_are_texts_and_so_are_times() -> None:
    assert only("{2: a, true: b, ~: c, 1.5: d, 2026-01-01: 2026-01-01T00:00:00Z}") == {
        "2": "a",
        "true": "b",
        "null": "c",
        "1.5": "d",
        "2026-01-01": "2026-01-01T00:00:00Z",
    }


def test_aliases_and_merged_keys() -> None:
    assert only("a: &x {k: 2}\nb: *x\nc: {<<: *x, d: 3}") == {"a": {"k": 2}, "b": {"k": 2}, "c": {"k": 2, "d": 3}}


@each(
    ("text", "field"),
    [
        ("a: 1\nb: {c: [1, {d: 1, e: 2, d: 3}]}", "b.c[1].d"),
        ("a: 1\n'a': 2", "a"),
        ('{"a": {"b": 1, "b": 2}}', "b"),
        ("{a: 1, a: 2}", "a"),
        ("x: &x [1, *x]\nx: 2", "x"),
        ("a: &x {k: 2}\nb: {<<: *x, k: 3}\nc: *x", ""),
        ("a: &x {k: 2}\nb: &y {<<: *x, k: 3}\nc: {<<: *y, k: 4}", ""),
        ('{"a": 1} {"a": 2}', ""),
    ],
)
def test_a_repeated_key_is_refused_where_that_is_asked_for(text: str, field: str) -> None:
    """What a merge key brings along, and an alias, is no second time."""
    first = next(iter(documents("f", text, unique=True)))
    assert first.wrong == (f"has the field {field} twice; keep one of them" if field else "")
    assert next(iter(documents("f", text))).wrong == ""


MERGES = "a0: &a0 {k: 1}\n" + "".join(
    f"a{at}: &a{at} {{<<: [{', '.join([f'*a{at - 1}'] * 10)}]}}\n" for at in range(1, 12)
)
"""A mapping that is merged ten times into the next, and so on: 10¹¹ entries, written out."""


@pytest.mark.timeout(20)
def test_merged_keys_are_bounded_as_aliases_are() -> None:
    assert wrong(MERGES).startswith("is not YAML: it is too large once its merge keys (<<) are written out")


@each(
    ("text", "told"),
    [
        ("a: [", "is not YAML"),
        ("\ta: 1", "is not YAML"),
        ("!!int", "is not YAML"),
        ("!!python/object:os.system {}", "is not YAML"),
        ("&a [*a]", "contains itself"),
        ("a: &a {b: *a}", "contains itself"),
        ("a: .nan", "holds nan, which JSON cannot hold"),
        ("a: !!binary aGk=", "holds b'hi', which JSON cannot hold"),
        ("a: !!set {b}", "which JSON cannot hold"),
        ("? [a]\n: b", "is not YAML"),
        ("a: " + "[" * 300 + "]" * 300, "is nested too deep"),
        ("[" * 30_000, "is nested too deep"),
        ("[" * 300 + "]" * 300, "is nested too deep"),
        ('{"a": ' * 300 + "1" + "}" * 300, "is nested too deep"),
        (
            "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
            "is too large once its aliases are written out",
        ),
    ],
)
def test_what_cannot_be_used(text: str, told: str) -> None:
    assert told in wrong(text)
    assert "; " in wrong(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(10, 60), deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), min_size=1, max_size=3))
def test_json_is_read_as_it_is(values: list[Any]) -> None:
    text = "\n".join(json.dumps(value) for value in values)
    assert [found.content for found in documents("f", text)] == values


@settings(max_examples=examples(10, 120), deadline=None)
@given(st.text(alphabet="abk:-? \n[]{}&*!|>'\"#,%~<.1\t", max_size=40))
def test_whatever_is_written_nothing_is_raised(text: str) -> None:
    for found in documents("f", text):
        assert found.wrong or found.content is not None
        json.dumps(found.content)
