"""Expressions that select devices: what they answer, where they fail, and what is not evaluated."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kube.devices.selectors import Amount, Selected, SelectorError, compiled
from controlplane.kube.devices.syntax import LONGEST, UnknownExpression
from controlplane.kube.devices.versions import Version
from tests.scheduler.generated_selectors import expression
from tests.support.rows import each

DOMAIN = 'device.attributes["gpu.example.com"]'
DEVICE = Selected(
    "gpu.example.com",
    attributes={"gpu.example.com": {"model": "a100", "cores": 8, "ok": True, "version": Version("1.2.3")}},
    capacity={"gpu.example.com": {"memory": Amount(40 * 2**30 * 10**9)}},
)
ANSWERS = [
    ('device.driver == "gpu.example.com"', True),
    ("device.driver == 'nic.example.com'", False),
    (f'{DOMAIN}.model == "a100" && {DOMAIN}.cores >= 4', True),
    (f'{DOMAIN}["cores"] < 8 || {DOMAIN}.ok', True),
    (f"{DOMAIN}.ok", True),
    (f'quantity("1") != {DOMAIN}.cores', True),
    ("!" * 500 + "true", True),
    (f"!!{DOMAIN}.model == {DOMAIN}.ok", False),
    (f'semver("1.0.0") != {DOMAIN}.model', True),
    (f'semver("1.2.3") != {DOMAIN}.version', False),
    (f"{DOMAIN}.model != {DOMAIN}.version", True),
    (f"!{DOMAIN}.ok", False),
    (f'{DOMAIN}.model in ["h100", "a100"]', True),
    (f"has({DOMAIN}.missing)", False),
    (f'"model" in {DOMAIN}', True),
    ('"x" in device.attributes["none.example.com"]', False),
    (f"{DOMAIN}.cores == -8", False),
    (f"{DOMAIN}.model == 8", False),
    (f"{DOMAIN}.missing == 1 || true", True),
    (f"false && {DOMAIN}.missing == 1", False),
    (f"true ? {DOMAIN}.cores == 8 : {DOMAIN}.missing == 1", True),
    (f"cel.bind(own, {DOMAIN}, own.cores == 8 && own.ok)", True),
    (f"cel.bind(own, {DOMAIN}.missing, {DOMAIN}.ok || own == 1)", True),
    ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) == 0', True),
    ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("43G"))', False),
    (f'{DOMAIN}.version.isLessThan(semver("1.10.0"))', True),
    (f'{DOMAIN}.version == semver("1.2.3+build")', True),
    (f"{DOMAIN}.version.minor() == 2", True),
    (f'{DOMAIN}.model.startsWith("a") && {DOMAIN}.model.endsWith("00") && {DOMAIN}.model.contains("10")', True),
    ('device.driver.lowerAscii() == "gpu.example.com" // who drives it', True),
    ('"a\\"b" == "a\\"b"', True),
]
FAILING = [
    f"{DOMAIN}.missing == 1",
    f"{DOMAIN}.model",
    f"{DOMAIN}.model < 1",
    f'{DOMAIN}.cores.startsWith("8")',
    f"{DOMAIN}.model && true",
    f"!{DOMAIN}.cores",
    f'{DOMAIN}.version == "1.2.3"',
    f'{DOMAIN}.cores.isLessThan(quantity("1"))',
    'semver("1.2") == semver("1.2.0")',
    'quantity("much").isLessThan(quantity("1"))',
    f"true && {DOMAIN}.missing == 1",
]
UNKNOWN = [
    "",
    "device.vendor == 1",
    "other == 1",
    "1 == 'a'",
    "device",
    '"text"',
    "1.5 < 2.0",
    "2u == 2u",
    "b'a' == b'a'",
    "r'a' == 'a'",
    "'''a''' == 'a'",
    "null == null",
    "1 + 1 == 2",
    "{'a': 1}",
    "[1, 'a'] == []",
    "[1, 2].exists(x, x == 1)",
    'device.driver.matches("gpu.*")',
    'device.driver.find("gpu")',
    'semver("v1.0", true) == semver("1.0.0")',
    f"{DOMAIN}.?model.hasValue()",
    f"{DOMAIN} == {DOMAIN}",
    'device.capacity["gpu.example.com"].memory > 1',
    "has(device)",
    "(true",
    "true)",
    "true && ",
    "'a",
    '"\\x41" == "A"',
    "9223372036854775808 == 1",
    "!-1 == 1",
    "(" * 500 + "true" + ")" * 500,
    "true" + " == true" * 250,
    "device.driver" + ".lowerAscii()" * 240 + ' == "d"',
    "true in [" * 99 + "true" + "]" * 99,
    "true" + " " * LONGEST,
    "cel.bind(device, 1, device == 1)",
]


@each(("text", "answer"), ANSWERS)
def test_what_an_expression_answers(text: str, answer: bool) -> None:
    assert compiled(text)(DEVICE) is answer


@each("text", FAILING)
def test_where_an_expression_fails(text: str) -> None:
    ask = compiled(text)
    with pytest.raises(SelectorError):
        ask(DEVICE)


@each("text", UNKNOWN)
def test_what_is_not_known_is_said_before_anything_is_asked(text: str) -> None:
    with pytest.raises(UnknownExpression):
        compiled(text)


@given(st.text(alphabet="device.attributes[]\"'&|!=<>()?: \n1a-,", max_size=60))
def test_any_text_is_answered_or_refused(text: str) -> None:
    try:
        assert compiled(text)(DEVICE) in (True, False)
    except (UnknownExpression, SelectorError):
        return


@given(st.integers(0, 10**6))
def test_generated_expressions_are_known(seed: int) -> None:
    compiled(expression(random.Random(seed), wild=True))


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("1.2.3", "1.2.10"),
        ("1.0.0-rc.1", "1.0.0"),
        ("1.0.0-1", "1.0.0-a"),
        ("1.0.0-2", "1.0.0-10"),
        ("1.0.0-a", "1.0.0-a.1"),
    ],
)
def test_versions_are_ordered(less: str, more: str) -> None:
    assert Version(less) < Version(more)
    assert Version(more) > Version(less)


@each("text", ["1.2", "v1.2.3", "01.2.3", "1.2.3-01", "1.2.3-", "", "1.2.3 ", "99999999999999999999.0.0"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Version(text)


@each("sign", ["||", "&&"])
def test_an_expression_of_many_parts_is_evaluated(sign: str) -> None:
    """It is as long as the API admits it, and is not deep."""
    parts = sign.join(['device.driver=="d"'] * 400)
    assert compiled(parts)(Selected("d"))
    assert not compiled(parts)(Selected("other"))


def deeper(frames: int, ask: Callable[[], str]) -> str:
    return ask() if not frames else deeper(frames - 1, ask)


def nested(times: int) -> list[str]:
    bound = "cel.bind(x, quantity(" * times + '"1"' + ') == quantity("1"), "1")' * times
    return [
        "true" + " == true" * 2 * times,
        "device.driver" + ".lowerAscii()" * 2 * times + ' == "d"',
        "true in [" * 2 * times + "true" + "]" * 2 * times,
        "(" * 2 * times + "true" + ")" * 2 * times,
        "!" * 2 * times + "true",
        f'{bound} == "1"',
    ]


@each("text", [*nested(24), *nested(49)])
def test_how_deep_an_expression_may_be_is_not_said_by_who_asks(text: str) -> None:
    """Who asks has called some hundred functions, and the interpreter ends at a thousand."""
    alone = answer_or_refusal(lambda: compiled(text)(Selected("d")))
    compiled.cache_clear()
    assert deeper(350, lambda: answer_or_refusal(lambda: compiled(text)(Selected("d")))) == alone


def answer_or_refusal(ask: Callable[[], bool]) -> str:
    try:
        return str(ask())
    except UnknownExpression as error:
        return str(error)
