"""Templates of `-o jsonpath`: what kubectl prints for them, and what is said of those that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.cli.jsonpath import JsonPathError, render
from tests.support.rows import each

FLEET: dict[str, Any] = {
    "items": [
        {
            "name": "etl",
            "cluster": "a",
            "attempt": 1,
            "labels": {"kueue.x-k8s.io/queue-name": "lq"},
            "copies": ["a", "b"],
        },
        {"name": "sim", "cluster": "", "attempt": 3, "labels": {}, "copies": [], "since": None},
        {"name": "odd", "cluster": "b", "attempt": 2, "labels": {"x": 'say "}"'}, "copies": ["b"]},
    ]
}


@each(
    ("template", "said"),
    [
        ("{.items[*].name}", "etl sim odd"),
        ("{.items..name}", "etl sim odd"),
        ("{..name}", "etl sim odd"),
        (".items[0].name", "etl"),
        ("items[0].name", "etl"),
        ("{$.items[0].name}", "etl"),
        ("{.items[-1].name}", "odd"),
        ("{.items[0,2].name}", "etl odd"),
        ("{.items[0:2].name}", "etl sim"),
        ("{.items[::2].name}", "etl odd"),
        ("{.items[1:].name}", "sim odd"),
        ("{.items[*]['name']}", "etl sim odd"),
        ('{.items[0].labels["kueue.x-k8s.io/queue-name"]}', "lq"),
        (r"{.items[0].labels.kueue\.x-k8s\.io/queue-name}", "lq"),
        ("{.items[0].copies}", '["a","b"]'),
        ("{.items[1].since}", ""),
        ('{.items[?(@.cluster=="b")].name}', "odd"),
        ("{.items[?(@.cluster!='b')].name}", "etl sim"),
        ("{.items[?(@.attempt>=2)].name}", "sim odd"),
        ("{.items[?(@.since)].name}", "sim"),
        ("{.items[?(@.name > 3)].name}", ""),
        ('n={.items[0].attempt}{"\\n"}', "n=1\n"),
        ('{range .items[*]}{.name}{"\\t"}{.attempt}{"\\n"}{end}', "etl\t1\nsim\t3\nodd\t2\n"),
        ("{range .items[*]}{range .copies[*]}<{@}>{end};{end}", "<a><b>;;<b>;"),
        ('{.items[2].labels.x}{"}"}', 'say "}"}'),
        ("{.items[*].labels.*}", 'lq say "}"'),
        ("{.items[*].nam}", ""),
        ("{.items.name}", ""),
        ("{.items[0].name.first}", ""),
        ("{.nosuch[0].name}x{.nosuch[*].name}", "x"),
        ("{range .nosuch[*]}a{end}b", "b"),
        ("{.items[*].labels.x}", 'say "}"'),
        ("{.items[1].since.at}{.items[1].since[0]}{.items[1].since[?(@.at)]}", ""),
        ("{.items[?(@.nosuch!='x')].name}", ""),
    ],
)
def test_what_is_printed(template: str, said: str) -> None:
    assert render(template, FLEET) == said


@each(
    ("template", "said"),
    [
        ("", "is empty"),
        ("{}", "{} is empty"),
        ("{.items", "no closing brace"),
        ("{range .items[*]}{.name}", "no {end}"),
        ("{.name}{end}", "no {range}"),
        ("{.items[7].name}", "[7] is asked of a list of 3"),
        ("{.items[0].name[0]}", "no list"),
        ("{.items[::0]}", "cannot be 0"),
        ('{.items[?(@.a=="b" && @.c)]}', "is not understood"),
        ("{.items[?(@.a==b)]}", "in quotes"),
        ("{.items[length]}", "is not understood from"),
        ('{"open}', "no closing brace"),
    ],
)
def test_what_cannot_be_used(template: str, said: str) -> None:
    with pytest.raises(JsonPathError) as caught:
        render(template, FLEET)
    assert said in str(caught.value)
