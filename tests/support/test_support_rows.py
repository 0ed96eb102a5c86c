"""A table as one test: every row is tried, and each that fails is named."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.rows import each


def said_of(test: Any, *own: Any, **given: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        test(*own, **given)
    return str(raised.value)


def test_every_row_is_tried_whatever_became_of_those_before() -> None:
    tried: list[int] = []

    @each("number", [1, 2, 3, 4])
    def test(number: int) -> None:
        tried.append(number)
        assert number % 2, "even"

    assert [line.split("\n")[0] for line in said_of(test).split("\n[")] == [
        "2 of 4 rows fail:",
        "2] AssertionError: even",
        "4] AssertionError: even",
    ]
    assert tried == [1, 2, 3, 4]


def test_a_row_has_the_name_that_it_is_given() -> None:
    @each(("a", "b"), [(1, len), pytest.param(2, max, id="the other"), (3, min)], ids=["one", "two", "three"])
    def test(a: int, b: Any) -> None:
        raise ValueError(a)

    assert [line.partition("]")[0] for line in said_of(test).split("\n[")[1:]] == ["one", "the other", "three"]

    @each("a, b", [(1, len), (2, max)])
    def unnamed(a: int, b: Any) -> None:
        raise ValueError(a)

    assert said_of(unnamed).split("\n")[1:] == ["[1-len] ValueError: 1", "[2-max] ValueError: 2"]


def test_tables_are_multiplied_and_fixtures_stay() -> None:
    seen: list[Any] = []

    class TestIn:
        @each("b", "xy", ids=str.upper)
        @each("a", [1, 2])
        def test(self, a: int, b: str, fixture: SimpleNamespace) -> None:
            seen.append((a, b))
            if fixture.fails == (a, b):
                pytest.fail("this one")

    assert list(inspect.signature(TestIn.test).parameters) == ["self", "fixture"]
    TestIn().test(fixture=SimpleNamespace(fails=None))  # type: ignore[call-arg]
    assert sorted(seen) == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]
    said = said_of(TestIn().test, fixture=SimpleNamespace(fails=(2, "y")))
    assert said.startswith("1 of 2 rows fail:\n[Y] AssertionError: 1 of 2 rows fail:\n[2] Failed: this one")


def test_a_row_that_is_skipped_hides_no_other() -> None:
    @each("number", [1, 2, 3])
    def test(number: int) -> None:
        if number == 1:
            pytest.skip("not this one")
        assert number != 3

    assert said_of(test).startswith("1 of 3 rows fail:\n[3] ")

    @each("number", [1, 1])
    def nothing(number: int) -> None:
        pytest.skip("not this one")

    with pytest.raises(pytest.skip.Exception, match="not this one"):
        nothing()


def test_what_has_a_mark_is_no_row() -> None:
    with pytest.raises(AssertionError, match="no test of its own"):
        each("a", [pytest.param(1, marks=pytest.mark.deep)])
