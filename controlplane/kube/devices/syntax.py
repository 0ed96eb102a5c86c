"""Parses the part of the Common Expression Language (CEL) in which devices are selected.

In: the text of an expression. Out: a tree of `Expression`s, or `UnknownExpression` that says what is not in the part:
doubles, unsigned numbers, bytes, null, raw and triple-quoted strings, maps and messages in braces, optional fields,
arithmetic. The grammar is that of google/cel-spec doc/langdef.md; docs/decisions/0045 says why a part of it stands
here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST = 10 * 1024
"""The longest expression that the API admits (`CELSelectorExpressionMaxLength`)."""
_DEEPEST, _HIGHEST = 50, 100
"""How deep parentheses, calls and conditions are nested at most, and how many parts stand on one another: whoever reads
and evaluates them needs ten and three frames of the interpreter for each, and it has a thousand. CEL has 250 of both.
"""
_INTS = range(-(2**63), 2**63)


class UnknownExpression(ValueError):  # noqa: N818 - it names what is not known
    """An expression has something that is not evaluated here; nothing is guessed about it."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A part of an expression: `kind` is literal, name, list, select, index, call, has, not, or an operator."""

    kind: str
    value: Any = None
    parts: tuple[Expression, ...] = ()
    height: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        height = 1 + max((part.height for part in self.parts), default=0)
        if height > _HIGHEST:
            raise UnknownExpression("it is nested too deeply")
        object.__setattr__(self, "height", height)


_TOKEN = re.compile(
    r"""(?P<space>[ \t\n\r\f]+|//[^\n]*)
    |(?P<string>"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')
    |(?P<number>\d+(?![\w.])|\d+(?=\.[A-Za-z_]))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|[<>!?:.,()\[\]-])""",
    re.VERBOSE,
)
_ESCAPES = {"\\": "\\", '"': '"', "'": "'", "`": "`", "?": "?", "n": "\n", "r": "\r", "t": "\t"}
_RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "in")
_RESERVED = frozenset(
    {"null", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"}
) | {
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
}


def parse(text: str) -> Expression:
    """Return the tree of an expression; `UnknownExpression` names what is not read."""
    if len(text) > LONGEST:
        raise UnknownExpression(f"it has more than {LONGEST} characters")
    reader = _Reader(_tokens(text))
    found = reader.ternary()
    if reader.at < len(reader.tokens):
        raise UnknownExpression(f"{reader.tokens[reader.at][1]!r} is not expected after a whole expression")
    return found


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UnknownExpression(f"{text[at : at + 12]!r} is not read")
        at = match.end()
        if match.lastgroup != "space":
            found.append((str(match.lastgroup), match.group()))
        if match.lastgroup == "name" and text[at : at + 1] in ("'", '"'):
            raise UnknownExpression("raw strings and bytes are not read")
        if match.lastgroup == "string" and len(match.group()) == 2 and text[at : at + 1] == match.group()[0]:
            raise UnknownExpression("strings in three quotes are not read")
    return found


class _Reader:
    """Reads tokens from left to right, the weakest operator first."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens, self.at, self._depth = tokens, 0, 0

    def ternary(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnknownExpression("it is nested too deeply")
        found = self._either()
        if self._takes("?"):
            if self._next() == ".":
                raise UnknownExpression("optional fields are not read")
            first = self._either()
            self._need(":")
            found = Expression("?", None, (found, first, self.ternary()))
        self._depth -= 1
        return found

    def _either(self) -> Expression:
        return self._chain("||", self._both)

    def _both(self) -> Expression:
        return self._chain("&&", self._relation)

    def _chain(self, sign: str, read: Callable[[], Expression]) -> Expression:
        found = [read()]
        while self._takes(sign):
            found.append(read())
        return _balanced(sign, found)

    def _relation(self) -> Expression:
        found = self._unary()
        while (sign := self._next()) in _RELATIONS and self.tokens[self.at][0] != "string":
            self.at += 1
            found = Expression(sign, None, (found, self._unary()))
        return found

    def _unary(self) -> Expression:
        negated = None
        while self._takes("!"):  # two of them are as good as none, whatever stands behind
            negated = not negated
        if negated is not None:
            found = self._member(self._primary())
            return Expression("not", None, (found,)) if negated else found
        if self._takes("-"):
            kind, text = self._take()
            if kind != "number":
                raise UnknownExpression("a minus stands before a number only")
            return self._member(_number(f"-{text}"))
        return self._member(self._primary())

    def _primary(self) -> Expression:
        kind, text = self._take()
        if kind == "string":
            return Expression("literal", _unquoted(text))
        if kind == "number":
            return _number(text)
        if kind == "name":
            return self._named(text)
        if text == "(":
            found = self.ternary()
            self._need(")")
            return found
        if text == "[":
            return Expression("list", None, self._arguments("]"))
        raise UnknownExpression(f"{text!r} is not read here")

    def _named(self, text: str) -> Expression:
        if text in ("true", "false"):
            return Expression("literal", text == "true")
        if text in _RESERVED or text == "in":
            raise UnknownExpression(f"{text!r} is not read")
        if not self._takes("("):
            return Expression("name", text)
        arguments = self._arguments(")")
        if text != "has":
            return Expression("call", text, arguments)
        if len(arguments) != 1 or arguments[0].kind != "select":
            raise UnknownExpression("has() asks for one field")
        return Expression("has", arguments[0].value, arguments[0].parts)

    def _member(self, found: Expression) -> Expression:
        while True:
            if self._takes("."):
                kind, name = self._take()
                if kind != "name" or name in ("in", "true", "false", "null"):
                    raise UnknownExpression(f"{name!r} is no field")
                found = (
                    Expression("call", name, (found, *self._arguments(")")))
                    if self._takes("(")
                    else Expression("select", name, (found,))
                )
            elif self._takes("["):
                if self._next() == "?":
                    raise UnknownExpression("optional fields are not read")
                found = Expression("index", None, (found, self.ternary()))
                self._need("]")
            else:
                return found

    def _arguments(self, end: str) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while not self._takes(end):
            if found:
                self._need(",")
                if end == "]" and self._takes(end):
                    break
            found.append(self.ternary())
        return tuple(found)

    def _next(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _takes(self, sign: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == ("sign", sign):
            self.at += 1
            return True
        return False

    def _take(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise UnknownExpression("it ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def _need(self, sign: str) -> None:
        if not self._takes(sign):
            raise UnknownExpression(f"{sign!r} is expected where {self._next() or 'the end'!r} is")


def _balanced(sign: str, parts: Sequence[Expression]) -> Expression:
    """Return parts joined by an operator that may be grouped at will: as flat as can be, since many is not deep."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return Expression(sign, None, (_balanced(sign, parts[:half]), _balanced(sign, parts[half:])))


def _number(text: str) -> Expression:
    value = int(text)
    if value not in _INTS:
        raise UnknownExpression(f"{text} has more than 64 bits")
    return Expression("literal", value)


def _unquoted(text: str) -> str:
    found, inside, at = [], text[1:-1], 0
    while at < len(inside):
        if inside[at] != "\\":
            found.append(inside[at])
            at += 1
            continue
        if inside[at + 1] not in _ESCAPES:
            raise UnknownExpression(f"the escape {inside[at : at + 2]!r} is not read")
        found.append(_ESCAPES[inside[at + 1]])
        at += 2
    return "".join(found)
