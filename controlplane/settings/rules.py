"""What a value may be: one small rule per sort of setting.

In: a raw value, either text of an environment variable or whatever the YAML file held. Out: the typed value, or a
`ValueError` whose message completes the sentence "<setting> …". A rule never repeats a secret in its message. The same
rules describe themselves for the reference table, so that the page cannot say something else than the code."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from controlplane.kube import durations
from controlplane.settings.secret import DatabaseUrl

DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_NAME = rf"{DNS_LABEL}(\.{DNS_LABEL})*"


class ValueRule(Protocol):
    """How one setting is read, shown and described."""

    def read(self, raw: object) -> Any:
        """Return the typed value; `ValueError` with the reason otherwise."""

    def show(self, value: Any) -> Any:
        """Return the value as a settings file would hold it (text, number or list), with secrets masked."""

    def describe(self) -> str:
        """Return the allowed values in a few words."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is said about one setting beside its type: its rule, its line in the reference, and its default in words if
    computed.
    """

    rule: ValueRule
    doc: str
    default: str = ""


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"must be text: write it in quotes, not as the {type(raw).__name__} {raw!r}")
    return raw


def _texts(raw: object, what: str) -> list[str]:
    """Return the texts of a list; in a variable they are separated by commas."""
    if isinstance(raw, str):
        return [part.strip() for part in raw.split(",") if part.strip()]
    if not isinstance(raw, list) or not all(isinstance(item, str) for item in raw):
        raise ValueError(f'must be a list of {what}, not "{raw}"')
    return raw


def _different(texts: list[str]) -> tuple[str, ...]:
    if len(set(texts)) != len(texts):
        raise ValueError("names one twice")
    return tuple(texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text that matches a pattern; `what` names the shape for people."""

    what: str
    pattern: str = ".*"
    longest: int = 253
    empty: bool = False

    def read(self, raw: object) -> str:
        """Return the text as it is."""
        text = _text(raw)
        if not text:
            if self.empty:
                return text
            raise ValueError("must not be empty")
        if len(text) > self.longest:
            raise ValueError(f"must have at most {self.longest} characters, not {len(text)}")
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(f'must be {self.what}, not "{text}"')
        return text

    def show(self, value: str) -> str:
        """Return the text as it is."""
        return value

    def describe(self) -> str:
        """Say the shape and whether nothing is allowed too."""
        return f"{self.what}, or empty" if self.empty else self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """A duration in Go's spelling. `zero` allows 0, with its meaning; negative ones are always refused, and those above
    `most`.
    """

    zero: str = ""
    most: timedelta | None = None
    refusal: str = "must be greater than 0"

    def read(self, raw: object) -> timedelta:
        """Return the duration. A bare YAML `0` needs no unit, any other bare number is refused."""
        text = str(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else _text(raw)
        value = durations.parse(text.strip())
        if value < timedelta(0) and self.zero:
            raise ValueError(f'must not be negative, not "{text}" (0 means {self.zero})')
        if value <= timedelta(0) and not self.zero:
            raise ValueError(f'{self.refusal}, not "{text}"')
        if self.most is not None and value > self.most:
            raise ValueError(f'must be at most {durations.show(self.most)}, not "{text}"')
        return value

    def show(self, value: timedelta) -> str:
        """Return the shortest spelling."""
        return durations.show(value)

    def describe(self) -> str:
        """Say the range."""
        range_ = f"duration, 0 = {self.zero}" if self.zero else "duration > 0"
        return range_ if self.most is None else f"{range_}, at most {durations.show(self.most)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer:
    """A whole number within bounds, both included."""

    least: int
    most: int

    def read(self, raw: object) -> int:
        """Return the number; digits in text count, `8080.5`, `true` and `0x10` do not."""
        if isinstance(raw, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", raw.strip()):
            raw = int(raw)
        if isinstance(raw, bool) or not isinstance(raw, int):
            raise ValueError(f'must be a whole number {self.describe()}, not "{raw}"')
        if not self.least <= raw <= self.most:
            raise ValueError(f"must be {self.describe()}, not {raw}")
        return raw

    def show(self, value: int) -> int:
        """Return the number."""
        return value

    def describe(self) -> str:
        """Say the range."""
        return f"{self.least}…{self.most}"


_SPELLED = {True: ("true", "yes", "on"), False: ("false", "no", "off")}  # YAML reads the words of each as a boolean


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words. `removed`: words of earlier builds, and what to do instead. Where `yes` or `off` is a word,
    so is the boolean that YAML makes of it, and every other spelling of that."""

    words: Sequence[str]
    removed: Mapping[str, str] = field(default_factory=dict)

    def read(self, raw: object) -> str:
        """Return the word; capitals do not matter."""
        word = (str(raw) if isinstance(raw, bool) and raw in self.booleans else _text(raw)).lower()
        if word in self.removed:
            raise ValueError(f'"{raw}" was removed: {self.removed[word]}')
        known = {each.lower(): each for each in self.words}
        known |= {spelling: each for value, each in self.booleans.items() for spelling in _SPELLED[value]}
        if word not in known:
            raise ValueError(f'must be {self.describe()}, not "{raw}"')
        return known[word]

    @property
    def booleans(self) -> Mapping[bool, str]:
        """The words that are spellings of a boolean, by its value."""
        return {value: word for value, spelled in _SPELLED.items() for word in self.words if word in spelled}

    def show(self, value: str) -> str:
        """Return the word."""
        return value

    def describe(self) -> str:
        """Name the words."""
        return " or ".join(filter(None, (", ".join(self.words[:-1]), self.words[-1])))


@dataclass(frozen=True, slots=True)
class Names:
    """A list of different names, all from a closed set, and not `empty` unless that is said; in a variable they are
    separated by commas."""

    known: Sequence[str]
    empty: bool = False

    def read(self, raw: object) -> tuple[str, ...]:
        """Return the names in the order given."""
        names = _texts(raw, "names")
        if not names and not self.empty:
            raise ValueError("must name at least one")
        for name in names:
            if name not in self.known:
                raise ValueError(f'does not know "{name}": known are {", ".join(self.known)}')
        return _different(names)

    def show(self, value: tuple[str, ...]) -> list[str]:
        """Return the names as a list."""
        return list(value)

    def describe(self) -> str:
        """Name the set."""
        return "list out of " + ", ".join(f"`{name}`" for name in self.known)


@dataclass(frozen=True, slots=True)
class Items:
    """A list, empty or not, of different texts that each match a pattern; in a variable they are separated by
    commas.
    """

    what: str
    pattern: str
    longest: int

    def read(self, raw: object) -> tuple[str, ...]:
        """Return the items in the order given."""
        items = _texts(raw, self.what)
        for item in items:
            if len(item) > self.longest or re.fullmatch(self.pattern, item) is None:
                raise ValueError(f'must be a list of {self.what}: "{item}" is none')
        return _different(items)

    def show(self, value: tuple[str, ...]) -> list[str]:
        """Return the items as a list."""
        return list(value)

    def describe(self) -> str:
        """Say the shape."""
        return f"list of {self.what}, or empty"


@dataclass(frozen=True, slots=True)
class Checked:
    """Text for which a function has the say: `check` returns the text or raises `ValueError`."""

    what: str
    check: Callable[[str], str]

    def read(self, raw: object) -> str:
        """Return what the function made of the text."""
        return self.check(_text(raw))

    def show(self, value: str) -> str:
        """Return the text."""
        return value

    def describe(self) -> str:
        """Say the shape."""
        return self.what


@dataclass(frozen=True, slots=True)
class Url:
    """The database's URL, which may hold a password."""

    def read(self, raw: object) -> DatabaseUrl:
        """Return the URL; messages never repeat it."""
        if not isinstance(raw, str):
            raise ValueError("must be text such as postgresql://USER:PASSWORD@HOST:5432/NAME")
        return DatabaseUrl.parse(raw)

    def show(self, value: DatabaseUrl) -> str:
        """Return the URL with its password masked."""
        return str(value)

    def describe(self) -> str:
        """Say the shape."""
        return "`postgresql://USER:PASSWORD@HOST:PORT/NAME`"


def ip_address(text: str) -> str:
    """Return the text if it is an IPv4 or IPv6 address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f'must be an IP address such as 0.0.0.0 or 127.0.0.1, not "{text}"') from None


def folder_prefix(text: str) -> str:
    """Return the text if it is an absolute folder with its final slash, without which `/a/b` would also allow
    `/a/b-other`.
    """
    if not text.startswith("/") or not text.endswith("/") or ".." in text.split("/"):
        raise ValueError(f'must be an absolute folder that ends in "/" and has no "..", not "{text}"')
    return text
