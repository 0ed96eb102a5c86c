"""Objects out of the files that a dry run is given: streams of YAML documents, JSON, and Lists inside either.

In: a file's name and text. Out: each object with its place (`pods.yaml, document 3, items[1]`), and a sentence for each
piece that is none. A piece that cannot be read costs only itself: a stream is cut at its `---` lines first, and each
document is parsed for itself."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from controlplane.controllers.podgroups.objects import OwnerMisfit, spelled
from controlplane.controllers.podgroups.rules import (
    DATA_KEY,
    NAME,
    Complaint,
    Rules,
    RulesInvalid,
    read_config_map,
    read_text,
)
from controlplane.kube.documents import documents
from controlplane.kube.kinds import Json, meta


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


class DocumentProblem(msgspec.Struct, frozen=True):
    """A piece that cannot be used: where it is, and what to do."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def read_stream(source: str, text: str) -> tuple[list[Piece], list[DocumentProblem]]:
    """Return the objects of a file, Lists opened, and what in it is no object."""
    pieces: list[Piece] = []
    problems: list[DocumentProblem] = []
    for place, document in parse(source, text, problems):
        try:
            for found in _opened(place, document):
                (pieces if isinstance(found, Piece) else problems).append(found)  # type: ignore[arg-type]
        except RecursionError:
            problems.append(DocumentProblem(place, "contains itself; write it out"))
    return pieces, problems


def parse(source: str, text: str, problems: list[DocumentProblem]) -> list[tuple[str, object]]:
    """Return the documents of a file with their places; what cannot be parsed goes to the problems, empty documents
    nowhere.
    """
    found: list[tuple[str, object]] = []
    for document in documents(source, text):
        if document.wrong:
            problems.append(DocumentProblem(document.place, document.wrong))
        else:
            found.append((document.place, document.content))
    return found


def _opened(place: str, document: object) -> Iterator[Piece | DocumentProblem]:
    if isinstance(document, list):
        for number, item in enumerate(document):
            yield from _opened(f"{place}, [{number}]", item)
        return
    if not isinstance(document, dict):
        yield DocumentProblem(place, f"is {spelled(document)}; write Kubernetes objects, or Lists of them")
        return
    kind = document.get("kind")
    if not (isinstance(kind, str) and kind.endswith("List") and "items" in document):
        yield Piece(place, document)
        return
    items = document["items"]
    if not isinstance(items, list):
        if items is not None:
            yield DocumentProblem(f"{place}, items", f"is {spelled(items)}; write a list of objects")
        return
    for number, item in enumerate(items):
        if isinstance(item, dict) and kind != "List":  # a typed list leaves out what its items are
            item = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")} | item
        yield from _opened(f"{place}, items[{number}]", item)


def find_rules(text: str) -> Rules:
    """Return the rules of a file: of the ConfigMap in it, also among others, or of the bare document. Raises
    `RulesInvalid`.
    """
    problems: list[DocumentProblem] = []
    sources = [found for place, document in parse("", text, problems) for found in _rule_sources(place, document)]
    if problems:
        return read_text(text)  # which says what is wrong with it
    maps = _maps(sources)
    if len(maps) > 1 or (not maps and len(sources) > 1):
        wrong = f"holds {len(maps) or len(sources)} documents that could be the rules"
        raise RulesInvalid([Complaint(wrong=wrong, remedy=f"keep the ConfigMap {NAME}, or one bare document")])
    if maps:
        return read_config_map(maps[0])
    _refuse_another(sources)
    return read_text(text)


def _refuse_another(sources: list[object]) -> None:
    """Raise `RulesInvalid` for an object of another kind."""
    other = next((one for one in sources if isinstance(one, dict) and "kind" in one and "apiVersion" in one), None)
    if other is not None:
        remedy = f"give the ConfigMap {NAME}, or the text of its key {DATA_KEY}"
        raise RulesInvalid([Complaint(field="kind", wrong=f"is {other['kind']}", remedy=remedy)])


def _maps(sources: list[object]) -> list[Json]:
    """Return the ConfigMaps among documents; of several those of the name that the rules' one has, if there are any."""
    maps = [one for one in sources if isinstance(one, dict) and _is_map(one)]
    named = [one for one in maps if meta(one).get("name") == NAME]
    return named if len(maps) > 1 and named else maps


def _is_map(one: Json) -> bool:
    """Whether an object is a ConfigMap, or all of one but its kind."""
    data = one.get("data")
    return one.get("kind") == "ConfigMap" or ("kind" not in one and isinstance(data, dict) and DATA_KEY in data)


def _rule_sources(place: str, document: object) -> Iterator[object]:
    if isinstance(document, dict) and document.get("kind") in ("List", "ConfigMapList"):
        yield from (piece.object for piece in _opened(place, document) if isinstance(piece, Piece))
    else:
        yield document


def head(obj: Json) -> tuple[str, str]:
    """Return an object's apiVersion and kind; `OwnerMisfit` if it does not say them."""
    found = []
    for field in ("apiVersion", "kind"):
        value = obj.get(field)
        if not isinstance(value, str) or not value:
            wrong = "is missing" if value in (None, "") else f"is {spelled(value)}"
            raise OwnerMisfit(field, wrong, "every object says its apiVersion and kind")
        found.append(value)
    return found[0], found[1]
