"""The templates of `-o jsonpath=…`, in the dialect of kubectl: text, and paths in braces.

In: `{.items[*].name}`, and the value that a verb would print as JSON. Out: text. What kubectl has and this has not is
named in the message: there is nothing that is silently taken for something else.

A library would be the better choice if one had this dialect; those for Python have that of RFC 9535 or older ones,
which know neither `{range}` nor text between paths."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_TOKEN = re.compile(
    r"""
    (?P<deep>\.\.)(?P<below>[A-Za-z0-9_-]+|\*)
  | \.(?P<field>(?:[A-Za-z0-9_/-]|\\.)+|\*)
  | \[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]
  | \[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
  | \[\s*(?P<all>\*)\s*\]
  | \[\?\((?P<filter>(?:[^()"']|"[^"]*"|'[^']*')*)\)\]
  | \[\s*(?P<slice>-?\d*\s*:\s*-?\d*(?:\s*:\s*-?\d*)?)\s*\]
  | \[\s*(?P<index>-?\d+(?:\s*,\s*-?\d+)*)\s*\]
    """,
    re.VERBOSE,
)
_COMPARED = re.compile(r"\s*(?P<left>@[^=!<>]*?)\s*(?:(?P<how>==|!=|<=|>=|<|>)\s*(?P<right>.+?))?\s*")
_ORDER = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class JsonPathError(ValueError):
    """A template that cannot be read, or that asks for a place which a list does not have. The message is one
    sentence.
    """


class PathStep(NamedTuple):
    """One step of a path: `how` is a group of `_TOKEN`, `what` its text."""

    how: str
    what: str


class PathPart(NamedTuple):
    """A piece of a template: `text` is printed, or the values of `path`; of a `{range}` once for each value `inner`."""

    text: str = ""
    path: tuple[PathStep, ...] | None = None
    inner: tuple[PathPart, ...] | None = None


@functools.cache
def parse(template: str) -> tuple[PathPart, ...]:
    """Return the parts of a template. A path may stand without braces. Raises `JsonPathError`."""
    if not template:
        raise JsonPathError("the template is empty: write jsonpath='{.items[*].name}'")
    if "{" not in template:
        template = "{" + (template if template.startswith((".", "[", "$", "@")) else f".{template}") + "}"
    stack: list[tuple[tuple[PathStep, ...], list[PathPart]]] = [((), [])]
    for piece, inside in _pieces(template):
        if not inside:
            stack[-1][1].append(PathPart(text=piece))
        elif piece == "end":
            if len(stack) == 1:
                raise JsonPathError("{end} has no {range} before it")
            path, inner = stack.pop()
            stack[-1][1].append(PathPart(path=path, inner=tuple(inner)))
        elif piece.split(" ", 1)[0] == "range":
            stack.append((_path(piece.removeprefix("range").strip()), []))
        elif piece[:1] in ("'", '"'):
            stack[-1][1].append(PathPart(text=_literal(piece)))
        else:
            stack[-1][1].append(PathPart(path=_path(piece)))
    if len(stack) > 1:
        raise JsonPathError("a {range} has no {end}")
    return tuple(stack[0][1])


def render(template: str, value: Any) -> str:
    """Return what a template says of a value: nothing of a field that it does not have. Raises `JsonPathError` for a
    place that a list does not have, and for one in what is no list.
    """
    return "".join(_said(parse(template), value, value))


def _said(parts: Sequence[PathPart], here: Any, root: Any) -> Iterator[str]:
    for part in parts:
        if part.path is None:
            yield part.text
        elif part.inner is None:
            yield " ".join(_shown(one) for one in _walk(part.path, here, root))
        else:
            for one in _walk(part.path, here, root):
                yield from _said(part.inner, one, root)


def _pieces(template: str) -> Iterator[tuple[str, bool]]:
    """Yield the template's text, and what stands in braces (with True)."""
    at = 0
    while at < len(template):
        begin = template.find("{", at)
        if begin < 0:
            yield template[at:], False
            return
        if begin > at:
            yield template[at:begin], False
        end = _closing(template, begin)
        inside = template[begin + 1 : end].strip()
        if not inside:
            raise JsonPathError("{} is empty: write a path such as {.items[*].name}")
        yield inside, True
        at = end + 1


def _closing(template: str, begin: int) -> int:
    quote, at = "", begin + 1
    while at < len(template):
        char = template[at]
        if char == "\\" and quote:
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "}":
            return at
        at += 1
    raise JsonPathError(f'"{template[begin:]}" has no closing brace')


def _literal(text: str) -> str:
    if len(text) < 2 or text[-1] != text[0]:
        raise JsonPathError(f"{text} has no closing quote")
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text[1:-1])


@functools.cache
def _path(text: str) -> tuple[PathStep, ...]:
    """Return the steps of a path. `$` and `@` may begin it, and so may a field without its dot."""
    steps: list[PathStep] = []
    if text.startswith("$"):
        steps.append(PathStep("root", ""))
    rest = text[1:] if text[:1] in ("$", "@") else text
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    if rest == ".":
        rest = ""
    at = 0
    while at < len(rest):
        found = _TOKEN.match(rest, at)
        if found is None:
            raise JsonPathError(
                f'"{text}" is not understood from "{rest[at:]}" on: there are .field, [\'field\'], [0], [-1], [0,2],'
                ' [1:3], [*], .*, ..field and [?(@.field=="value")]'
            )
        steps.append(_read(found, text))
        at = found.end()
    return tuple(steps)


def _read(found: re.Match[str], text: str) -> PathStep:
    """Return the step that a token says; `text` is the whole path."""
    if found["deep"]:
        return PathStep("below", found["below"])
    how = str(found.lastgroup)
    what = found[how]
    if how == "filter":
        _comparison(what)
        return PathStep("filter", what)
    if how == "slice" and re.search(r":\s*-?0+\s*$", what) and what.count(":") == 2:
        raise JsonPathError(f'"{text}": the step of a slice cannot be 0')
    return PathStep("field" if how in ("single", "double") else how, re.sub(r"\\(.)", r"\1", what))


@functools.cache
def _comparison(text: str) -> tuple[tuple[PathStep, ...], str, Any]:
    """Return path, operator and value of a filter; the operator is "" where only presence is asked for."""
    found = _COMPARED.fullmatch(text)
    if found is None or any(word in text for word in ("&&", "||", "=~")):
        raise JsonPathError(
            f'the filter "{text}" is not understood: write [?(@.field=="value")], with ==, !=, <, <=, > or >='
        )
    right = found["right"]
    if right is None:
        return _path(found["left"]), "", None
    if right[0] in "'\"":
        return _path(found["left"]), found["how"], _literal(right)
    try:
        return _path(found["left"]), found["how"], json.loads(right)
    except ValueError:
        raise JsonPathError(f'the filter "{text}" compares with {right}: write a text in quotes, or a number') from None


def _walk(path: Sequence[PathStep], here: Any, root: Any) -> list[Any]:
    found = [here]
    for step in path:
        there = [value for value in found if value is not None]
        found = [root] if step.how == "root" else [one for value in there for one in _step(step, value)]
    return found


def _step(step: PathStep, value: Any) -> list[Any]:
    how, what = step
    if how == "field" and what != "*":
        return _field(value, what)
    if how in ("all", "field"):
        return _all(value)
    if how == "below":
        return list(_below(value, what))
    if not isinstance(value, list):
        raise JsonPathError(f"[{what}] is asked of something that is no list")
    if how == "filter":
        return [one for one in value if _fits(what, one)]
    if how == "slice":
        ends = [int(one) if one.strip() else None for one in what.split(":")]
        return value[slice(*ends)]
    return [_at(value, int(one)) for one in what.split(",")]


def _all(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _at(value: list[Any], index: int) -> Any:
    if not -len(value) <= index < len(value):
        raise JsonPathError(f"[{index}] is asked of a list of {len(value)}")
    return value[index]


def _field(value: Any, name: str) -> list[Any]:
    """Return a field's value; nothing where it is not, as kubectl has it (`--allow-missing-template-keys` is on there
    by default).
    """
    return [value[name]] if isinstance(value, dict) and name in value else []


def _below(value: Any, name: str) -> Iterator[Any]:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if name == "*":
        yield from inner
    elif isinstance(value, dict) and name in value:
        yield value[name]
    for one in inner:
        yield from _below(one, name)


def _fits(text: str, one: Any) -> bool:
    path, how, wanted = _comparison(text)
    try:
        found = _walk(path, one, one)
    except JsonPathError:
        return False  # as in kubectl: what has not the place does not fit
    if not how:
        return bool(found)
    try:
        return any(_ORDER[how](value, wanted) for value in found)
    except TypeError:
        return False


def _shown(value: Any) -> str:
    """Return a value as kubectl prints it: texts as they are, nothing for null, the rest as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
