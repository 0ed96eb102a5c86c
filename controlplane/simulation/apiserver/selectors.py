"""Label and field selectors, as a list or a watch carries them in its query.

In: the query's text. Out: a predicate. Text that does not parse is a 400, worded as kube-apiserver words it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from controlplane.kube.kinds import Json
from controlplane.simulation.apiserver.errors import bad_request

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]

_COMMA = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([A-Za-z0-9]([A-Za-z0-9_./\-]*[A-Za-z0-9])?)\s*$")


def _requirement(text: str) -> LabelTest:
    if found := _SET.match(text):
        key, operator, listed = found.groups()
        values = frozenset(value.strip() for value in listed.split(","))
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: key not in labels or labels[key] not in values
    if found := _EQUAL.match(text):
        key, operator, value = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(text):
        absent, key = found.group(1), found.group(2)
        return (lambda labels: key not in labels) if absent else (lambda labels: key in labels)
    raise bad_request(f"unable to parse requirement: {text.strip()!r} is not a label requirement")


@lru_cache(maxsize=1024)
def label_test(selector: str) -> LabelTest | None:
    """Return the predicate of a label selector (`a=b,c in (d,e),!f`), None if it selects everything; 400 if it does not
    parse.
    """
    if not selector.strip():
        return None
    tests = [_requirement(part) for part in _COMMA.split(selector)]
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def field_test(selector: str, allowed: Sequence[str]) -> Callable[[Json], bool] | None:
    """Return the predicate of a field selector over metadata.name, metadata.namespace and the `allowed` dotted paths;
    400 for others.
    """
    if not selector.strip():
        return None
    terms: list[tuple[list[str], bool, str]] = []
    for part in selector.split(","):
        found = re.match(r"^\s*([^=!\s]+)\s*(==|=|!=)\s*(.*?)\s*$", part)
        if found is None:
            raise bad_request(f"invalid selector: '{selector}'; can't understand '{part}'")
        path, operator, value = found.groups()
        if path not in ("metadata.name", "metadata.namespace") and path not in allowed:
            raise bad_request(f"field label not supported: {path}")
        terms.append((path.split("."), operator != "!=", value))
    return lambda obj: all((_text(obj, path) == value) is wanted for path, wanted, value in terms)


def _text(obj: object, path: Sequence[str]) -> str:
    for name in path:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    if obj is None:
        return ""
    return str(obj).lower() if isinstance(obj, bool) else str(obj)
