"""Quantities are exact, and are spelled as Kubernetes spells them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kube.quantities import MOST, milli, nanos, spell, to_units
from tests.support.rows import each


@each(
    ("text", "millis"),
    [
        ("1", 1000),
        (2, 2000),
        (0.5, 500),
        ("500m", 500),
        ("1.5", 1500),
        (".5", 500),
        ("3.", 3000),
        ("1Ki", 1024_000),
        ("1.5Gi", 1_610_612_736_000),
        ("2k", 2_000_000),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("1e-3", 1),
        ("1E", 10**21),
        ("100u", 1),
        ("1n", 1),
        ("0", 0),
        ("-1", -1000),
        ("-1500u", -1),
    ],
)
def test_thousandths(text: str | float, millis: int) -> None:
    assert milli(text) == millis


@each(("text", "value"), [("1", 1), ("1m", 1), ("1001m", 2), ("0.1Ki", 103), ("200Mi", 209_715_200), ("1e-30", 1)])
def test_whole_units_are_rounded_up(text: str, value: int) -> None:
    assert to_units(nanos(text)) == value


@pytest.mark.parametrize("text", ["8Ei", "1e30", "1e9999", "100E"])
def test_what_is_too_large_is_capped(text: str) -> None:
    assert to_units(nanos(text)) == MOST


@each(
    "text", ["", "many", "1.2.3", "Gi", "5X", " 1", "1 ", "1_000", "0x10", "inf", "nan", "1ki", "--1", "٣", True, None]
)
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        milli(text)


@each(
    ("resource", "millis", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 4000, "4"),
        ("nvidia.com/gpu", 3_000_000, "3k"),
        ("memory", 1024_000, "1Ki"),
        ("memory", 3 * 1024**3 * 1000, "3Gi"),
        ("memory", 1_000_000, "1000"),
        ("cpu", 0, "0"),
    ],
)
def test_spell(resource: str, millis: int, text: str) -> None:
    assert spell(resource, millis) == text


@given(st.integers(0, 10**18), st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi"]))
def test_what_is_spelled_is_read_back(millis: int, resource: str) -> None:
    assert milli(spell(resource, millis)) == millis


@given(
    st.decimals(0, 10**6, places=6), st.sampled_from([("", 1), ("m", Fraction(1, 1000)), ("Mi", 2**20), ("k", 1000)])
)
def test_no_digit_is_lost(number: object, suffix: tuple[str, Fraction]) -> None:
    exact = Fraction(str(number)) * suffix[1] * 10**9
    assert nanos(f"{number}{suffix[0]}") == -((-exact.numerator) // exact.denominator)
