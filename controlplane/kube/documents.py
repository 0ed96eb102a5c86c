"""The documents of a file that a person gives: YAML or JSON, a stream of any number, read as Kubernetes reads them.

In: a text and how its file is called. Out: each document with its place, or what is wrong with it: a document that
cannot be parsed costs only itself, for a stream is cut at its `---` lines first. Times stay texts, and a repeated key
keeps its last value, or is refused where that is asked for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import yaml

_CUT = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
# What may open a level: brackets, and dashes, question marks and colons that may follow one another on a line.
_OPENING = re.compile(r"[\[{]|[-?:]\s")
_MERGE = "tag:yaml.org,2002:merge"
_MERGES = "it is too large once its merge keys (<<) are written out"
_DEEPEST = 200
_TWICE = "has the field {} twice; keep one of them"
_DEEP = "is nested too deep to be read; write it flatter"
_LARGEST = 1_000_000  # values of a document with its aliases written out, if that is mostly what aliases repeat
#: What a YAML loader raises: beside its own errors those of a tag whose text it does not check (`!!int` with nothing
#: after it), or of one that is nested too deep for it.
UNREADABLE = (
    RecursionError,
    yaml.YAMLError,
    ValueError,
    IndexError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
)
_Fast: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BoundedMerges:
    """Has a loader write out merge keys (`<<`) only as far as aliases may be: they double what is merged, and again."""

    _merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Write the merge keys of a mapping out; `ConstructorError` where that is too much."""
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            for one in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(one, yaml.MappingNode):
                    self.flatten_mapping(one)
                    self._merged += len(one.value)
            if self._merged > _LARGEST:
                raise yaml.constructor.ConstructorError(problem=_MERGES, problem_mark=node.start_mark)
        super().flatten_mapping(node)  # type: ignore[misc]


class _Loader(BoundedMerges, _Fast):  # type: ignore[misc]
    """A SafeLoader, in C where it is there, to which a time is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class Document(NamedTuple):
    """One document: where it was found, what it holds (None: nothing), and why it cannot be read ("" if it can)."""

    place: str
    content: Any
    wrong: str = ""


def documents(source: str, text: str, *, unique: bool = False) -> Iterator[Document]:
    """Yield the documents of a text, without the empty ones. `wrong` says what to mend; where keys are to be `unique`,
    a repeated one too."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            values = _json(text, unique=unique)
        except _UnfitError as error:
            yield Document(source, None, str(error))
            return
        if values is not None:  # otherwise it may be YAML, whose flow style looks alike
            for number, content in enumerate(values, 1):
                yield _looked(f"{source}, document {number}" if len(values) > 1 else source, content)
            return
    cut = parts(text)
    for number, part in enumerate(cut, 1):
        found = _parsed(f"{source}, document {number}" if len(cut) > 1 else source, part, unique=unique)
        if found.wrong or found.content is not None:
            yield found


def parts(text: str) -> list[str]:
    """Return the texts of a stream's documents, without the empty ones."""
    return [part for part in _CUT.split(text) if not _empty(part)]


def repeated(node: yaml.MappingNode) -> yaml.ScalarNode | None:
    """Return the first key that a mapping has a second time, None if it has none."""
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in seen:
                return key
            seen.add(key.value)
    return None


def _repeated_field(node: yaml.Node | None) -> str:
    """Return the first field of a document that is there a second time, as a path; "" if none is."""
    left: list[tuple[str, yaml.Node | None]] = [("", node)]
    seen: set[int] = set()
    while left:
        path, one = left.pop()
        if id(one) in seen:
            continue  # an alias
        seen.add(id(one))
        if isinstance(one, yaml.SequenceNode):
            left += [(f"{path}[{at}]", inner) for at, inner in reversed([*enumerate(one.value)])]
        elif isinstance(one, yaml.MappingNode):
            if (key := repeated(one)) is not None:
                return f"{path}.{key.value}".lstrip(".")
            named = [(key.value if isinstance(key, yaml.ScalarNode) else "?", inner) for key, inner in one.value]
            left += [(f"{path}.{key}".lstrip("."), inner) for key, inner in reversed(named)]
    return ""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _UnfitError(_TWICE.format(next(name for name in names if names.count(name) > 1)))
    return found


def _json(text: str, *, unique: bool) -> list[Any] | None:
    """Return the JSON values of a text, one after the other as kubectl takes them; None if it is something else."""
    if not unique:
        try:
            return [msgspec.json.decode(text)]
        except (msgspec.DecodeError, RecursionError):
            pass
    found: list[Any] = []
    at, decoder = 0, json.JSONDecoder(parse_constant=_no_number, object_pairs_hook=_once if unique else None)
    try:
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            content, at = decoder.raw_decode(text, at)
            found.append(content)
    except (ValueError, RecursionError):
        return None
    return found


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _parsed(place: str, part: str, *, unique: bool) -> Document:
    # A cut document keeps nothing of its directives, which none of these formats uses.
    try:
        if _too_deep(part):
            return Document(place, None, _DEEP)
        if unique and (field := _repeated_field(yaml.compose(part, _Fast))):
            return Document(place, None, _TWICE.format(field))
        return _looked(place, yaml.load(part, _Loader))  # noqa: S506 - a SafeLoader
    except UNREADABLE as error:
        return Document(place, None, f"is not YAML: {' '.join(str(error).split())[:200]}; mend the syntax")


def is_too_large(content: object) -> bool:
    """Whether what was loaded of YAML is too large or too deep to be looked at once its aliases are written out."""
    return bool(_Size().at(content))


def _looked(place: str, content: object) -> Document:
    wrong = _Look().at(content)
    return Document(place, None, wrong) if wrong else Document(place, content)


class _Look:
    """Looks once at everything in a document: keys become texts, as in JSON, and what JSON cannot hold is told."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}  # of what was looked at, written out; 0 while it is being looked at
        self.written = 0
        self.depth = 0

    def at(self, content: object) -> str:
        """Return why a document cannot be used, "" if it can."""
        try:
            size = self._size(content)
        except _UnfitError as error:
            return str(error)
        fits = size <= max(_LARGEST, 10 * self.written)
        return "" if fits else "is too large once its aliases are written out; write it shorter"

    def _scalar(self, value: object) -> int:
        self.written += 1
        if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
            return 1
        raise _UnfitError(f"holds {value!r:.40}, which JSON cannot hold; write a text, a number, true, false or null")

    def _size(self, value: object) -> int:
        if not isinstance(value, dict | list):
            return self._scalar(value)
        known = self.sizes.get(id(value))
        if known is not None:
            if not known:
                raise _UnfitError("contains itself; write it out")
            return known
        self.sizes[id(value)] = 0
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _UnfitError(_DEEP)
        if isinstance(value, dict):
            self._keys(value)
        size = 1 + sum(map(self._size, value.values() if isinstance(value, dict) else value))
        self.depth -= 1
        self.sizes[id(value)] = size
        return size

    def _keys(self, value: dict[Any, Any]) -> None:
        if not all(isinstance(key, str) for key in value):
            named = {_key(key): inner for key, inner in value.items()}
            value.clear()
            value.update(named)


class _Size(_Look):
    """Looks at sizes alone, and leaves everything as it is."""

    def _scalar(self, value: object) -> int:
        self.written += 1
        return 1

    def _keys(self, value: dict[Any, Any]) -> None:
        """Leave the keys."""


class _UnfitError(Exception):
    """What makes a document no object of Kubernetes."""


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        return "null"
    if isinstance(key, str | int | float):
        return str(key)
    raise _UnfitError(f"has the key {key!r:.40}, which is no text; write one")


def _too_deep(part: str) -> bool:
    """Whether a document is nested deeper than any object is: a loader in C does not survive some ten thousand
    levels.
    """
    if len(part) < _DEEPEST or sum(1 for _ in _OPENING.finditer(part)) < _DEEPEST:
        return False
    depth = 0
    for event in yaml.parse(part, _Fast):
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            depth += 1
            if depth > _DEEPEST:
                return True
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            depth -= 1
    return False


def _empty(part: str) -> bool:
    return all(
        not line.strip() or line.lstrip().startswith(("#", "%")) or line.strip() == "..." for line in part.splitlines()
    )
