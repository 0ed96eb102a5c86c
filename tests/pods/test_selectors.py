"""Label selectors and node selector terms, operator by operator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kube.kinds import Json
from controlplane.kube.selectors import (
    EVERYTHING,
    NOTHING,
    InvalidSelector,
    Requirement,
    label_selector,
    node_terms,
    of_set,
    parse_selector,
)
from tests.support.rows import each

LABELS = {"app": "web", "tier": "front", "size": "5"}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


@each(
    ("asked", "matches"),
    [
        (expression("app", "In", "web", "db"), True),
        (expression("app", "In", "db"), False),
        (expression("none", "In", "db"), False),
        (expression("app", "NotIn", "db"), True),
        (expression("app", "NotIn", "web"), False),
        (expression("none", "NotIn", "db"), True),
        (expression("app", "Exists"), True),
        (expression("none", "Exists"), False),
        (expression("app", "DoesNotExist"), False),
        (expression("none", "DoesNotExist"), True),
    ],
)
def test_operators(asked: Json, matches: bool) -> None:
    assert label_selector({"matchExpressions": [asked]}).matches(LABELS) is matches
    assert node_terms([{"matchExpressions": [asked]}])[0].matches(LABELS, "n") is matches


@each(
    ("asked", "matches"),
    [
        (expression("size", "Gt", "4"), True),
        (expression("size", "Gt", "5"), False),
        (expression("size", "Lt", "6"), True),
        (expression("app", "Gt", "4"), False),
        (expression("none", "Lt", "4"), False),
        (expression("size", "Gt", "four"), False),
        (expression("size", "Gt", "1", "2"), False),
        (expression("size", "Gt", str(2**63)), False),
    ],
)
def test_numbers(asked: Json, matches: bool) -> None:
    assert node_terms([{"matchExpressions": [asked]}])[0].matches(LABELS, "n") is matches


def test_an_absent_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert label_selector(None) is NOTHING
    assert not NOTHING.matches({})
    assert label_selector({}) == EVERYTHING
    assert EVERYTHING.matches({})
    assert EVERYTHING.everything
    assert not NOTHING.everything
    more = [Requirement("a", "In", ("b",))]
    assert NOTHING.plus(more) is NOTHING
    assert not EVERYTHING.plus(more).matches(LABELS)


def test_all_requirements_must_hold() -> None:
    selector = label_selector({"matchLabels": {"app": "web"}, "matchExpressions": [expression("tier", "In", "back")]})
    assert not selector.matches(LABELS)
    assert selector.matches(LABELS | {"tier": "back"})


@each(
    ("selector", "field"),
    [
        ({"matchExpressions": [expression("a", "In")]}, "s.matchExpressions[0].values"),
        ({"matchExpressions": [expression("a", "Exists", "v")]}, "s.matchExpressions[0].values"),
        (
            {"matchExpressions": [expression("a", "Exists"), expression("a", "Like", "v")]},
            "s.matchExpressions[1].operator",
        ),
        ({"matchExpressions": [expression("a", "Gt", "1")]}, "s.matchExpressions[0].operator"),
        ({"matchLabels": {"-a": "v"}}, "s.matchLabels.key"),
        ({"matchLabels": {"UPPER.example/a": "v"}}, "s.matchLabels.key"),
        ({"matchLabels": {"a": "not valid"}}, "s.matchLabels.values"),
        ({"matchLabels": {"a": "x" * 64}}, "s.matchLabels.values"),
        ({"matchLabels": ["a"]}, "s.matchLabels"),
        ({"matchExpressions": "a"}, "s.matchExpressions"),
        ({"matchExpressions": ["a"]}, "s.matchExpressions[0]"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": "xy"}]}, "s.matchExpressions[0].values"),
    ],
)
def test_a_selector_that_the_api_refuses_is_named(selector: Json, field: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        label_selector(selector, "s")
    assert caught.value.field == field


@each(
    ("fields", "name", "matches"),
    [
        ([expression("metadata.name", "In", "n1")], "n1", True),
        ([expression("metadata.name", "In", "n1")], "n2", False),
        ([expression("metadata.name", "NotIn", "n1")], "n2", True),
        ([expression("metadata.name", "In", "n1", "n2")], "n1", False),
        ([expression("metadata.name", "Exists")], "n1", False),
        ([expression("metadata.uid", "In", "n1")], "n1", False),
    ],
)
def test_match_fields(fields: list[Json], name: str, matches: bool) -> None:
    assert node_terms([{"matchFields": fields}])[0].matches({}, name) is matches


def test_a_broken_term_does_not_spoil_the_others() -> None:
    broken, whole = node_terms(
        [{"matchExpressions": [expression("app", "In")]}, {}, {"matchExpressions": [expression("app", "Exists")]}], "t"
    )
    assert broken.error == "t[0].matchExpressions[0].values: In needs at least one value"
    assert not broken.matches(LABELS, "n")
    assert whole.matches(LABELS, "n")


@given(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")),
)
def test_a_map_selects_what_contains_it(wanted: dict[str, str], labels: dict[str, str]) -> None:
    contained: Any = wanted.items() <= labels.items()
    assert of_set(wanted).matches(labels) is contained
    assert label_selector({"matchLabels": wanted}).matches(labels) is contained


@each(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app = web , tier==front", True),
        ("app!=web", False),
        ("none!=web", True),
        ("app in (web, db),size>4", True),
        ("app in(web)", True),
        ("app notin (web)", False),
        ("none notin (web)", True),
        ("size<5", False),
        ("app", True),
        ("!app", False),
        ("! none", True),
        ("none", False),
        ("in", False),
        ("example.com/key in (a)", False),
    ],
)
def test_a_selector_as_text(text: str, matches: bool) -> None:
    assert parse_selector(text).matches(LABELS) is matches


@each(
    "text",
    ["app=web,", ",", "app in web", "app=(web)", "=web", "app>x", "a b", "-x=1", "app in ()x", "!", "app=web tier=x"],
)
def test_a_text_that_is_no_selector_is_named(text: str) -> None:
    with pytest.raises(InvalidSelector, match="some field"):
        parse_selector(text, "some field")
