"""Objects out of the files that a dry run is given: streams of YAML documents, JSON, and Lists inside either.

In: a file's name and text. Out: each object with its place (`pods.yaml, document 3, items[1]`), and a sentence for each piece that is
none. A piece that cannot be read costs only itself: a stream is cut at its `---` lines first, and each document is parsed for itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from controlplane.kube import Json, meta
from controlplane.podgroups.objects import Misfit, spelled
from controlplane.podgroups.rules import NAME, Complaint, Rules, RulesInvalid, read_config_map, read_text

_CUT = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What may open a level: brackets, and dashes, question marks and colons that may follow one another on a line.
_OPENING = re.compile(r"[\[{]|[-?:]\s")
_DEEPEST = 200


class Piece(msgspec.Struct, frozen=True):
    """An object and where it was found."""

    place: str
    object: Json

    @property
    def title(self) -> str:
        """The place, with kind and name as far as they are known."""
        kind, name = self.object.get("kind"), meta(self.object).get("name")
        called = " ".join(part for part in (kind, name) if isinstance(part, str) and part)
        return f"{self.place} ({called})" if called else self.place


class Problem(msgspec.Struct, frozen=True):
    """A piece that cannot be used: where it is, and what to do."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def read_stream(source: str, text: str) -> tuple[list[Piece], list[Problem]]:
    """Return the objects of a file, Lists opened, and what in it is no object."""
    pieces: list[Piece] = []
    problems: list[Problem] = []
    for place, document in parse(source, text, problems):
        try:
            for found in _opened(place, document):
                (pieces if isinstance(found, Piece) else problems).append(found)  # type: ignore[arg-type]
        except RecursionError:
            problems.append(Problem(place, "contains itself; write it out"))
    return pieces, problems


def parse(source: str, text: str, problems: list[Problem]) -> list[tuple[str, object]]:
    """Return the documents of a file with their places; what cannot be parsed goes to the problems, empty documents nowhere."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [(source, msgspec.json.decode(text))]
        except (msgspec.DecodeError, RecursionError):
            pass  # flow style of YAML looks alike
    parts = [part for part in _CUT.split(text) if not _empty(part)]
    found: list[tuple[str, object]] = []
    for number, part in enumerate(parts, 1):
        place = f"{source}, document {number}" if len(parts) > 1 else source
        try:
            # A cut document keeps nothing of its directives, which none of these formats uses.
            if _too_deep(part):
                problems.append(Problem(place, "is nested too deep to be read; write it flatter"))
                continue
            document = yaml.load(part, _FAST)  # noqa: S506 - a SafeLoader, in C where it is there
        except (yaml.YAMLError, ValueError) as error:
            problems.append(Problem(place, f"is not YAML: {' '.join(str(error).split())[:200]}; mend the syntax"))
        else:
            if document is not None:
                found.append((place, document))
    return found


def _too_deep(part: str) -> bool:
    """Whether a document is nested deeper than any object is: a loader in C does not survive some ten thousand levels."""
    if len(part) < _DEEPEST or sum(1 for _ in _OPENING.finditer(part)) < _DEEPEST:
        return False
    depth = 0
    for event in yaml.parse(part, _FAST):
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


def _opened(place: str, document: object) -> Iterator[Piece | Problem]:
    if isinstance(document, list):
        for number, item in enumerate(document):
            yield from _opened(f"{place}, [{number}]", item)
        return
    if not isinstance(document, dict):
        yield Problem(place, f"is {spelled(document)}; write Kubernetes objects, or Lists of them")
        return
    kind = document.get("kind")
    if not (isinstance(kind, str) and kind.endswith("List") and "items" in document):
        yield Piece(place, document)
        return
    items = document["items"]
    if not isinstance(items, list):
        if items is not None:
            yield Problem(f"{place}, items", f"is {spelled(items)}; write a list of objects")
        return
    for number, item in enumerate(items):
        if isinstance(item, dict) and kind != "List":  # a typed list leaves out what its items are
            item = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")} | item
        yield from _opened(f"{place}, items[{number}]", item)


def find_rules(text: str) -> Rules:
    """Return the rules of a file: of the ConfigMap in it, also among others, or of the bare document. Raises `RulesInvalid`."""
    problems: list[Problem] = []
    documents = [found for place, document in parse("", text, problems) for found in _rule_sources(place, document)]
    if problems:
        return read_text(text)  # which says what is wrong with it
    maps = [one for one in documents if isinstance(one, dict) and one.get("kind") == "ConfigMap"]
    if len(maps) > 1:
        named = [one for one in maps if meta(one).get("name") == NAME]
        maps = named or maps
    if len(maps) > 1 or (not maps and len(documents) > 1):
        wrong = f"holds {len(maps) or len(documents)} documents that could be the rules"
        raise RulesInvalid([Complaint(wrong=wrong, remedy=f"keep the ConfigMap {NAME}, or one bare document")])
    return read_config_map(maps[0]) if maps else read_text(text)


def _rule_sources(place: str, document: object) -> Iterator[object]:
    if isinstance(document, dict) and document.get("kind") in ("List", "ConfigMapList"):
        yield from (piece.object for piece in _opened(place, document) if isinstance(piece, Piece))
    else:
        yield document


def head(obj: Json) -> tuple[str, str]:
    """Return an object's apiVersion and kind; `Misfit` if it does not say them."""
    found = []
    for field in ("apiVersion", "kind"):
        value = obj.get(field)
        if not isinstance(value, str) or not value:
            wrong = "is missing" if value in (None, "") else f"is {spelled(value)}"
            raise Misfit(field, wrong, "every object says its apiVersion and kind")
        found.append(value)
    return found[0], found[1]
