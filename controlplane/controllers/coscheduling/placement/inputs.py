"""Turns the text of files into objects: YAML or JSON, streams, Lists, and ConfigMaps as they are stored or as a plain
mapping.

In: bytes and the name of their file. Out: objects, or `InputRefused` that names the file and the document. Times stay
texts, as they are for Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from controlplane.controllers.coscheduling.placement.objects_by_kind import objects_of
from controlplane.controllers.coscheduling.problems import InputProblem, InputRefused, label
from controlplane.kube.documents import documents
from controlplane.kube.kinds import PIPELINE_RUNS, Json, meta

_NOP_FLAG = "-nop-image"


def read_objects(data: bytes, where: str) -> list[Json]:
    """Return the objects of a YAML stream; `InputRefused` names the document that is none."""
    return [obj for place, document in _documents(data, where) for obj in objects_of(document, place)]


def read_settings(data: bytes, where: str, name: str) -> tuple[str, Mapping[str, object]]:
    """Return how sentences call a ConfigMap, and its data: the one of that name, the only one there, or a plain
    mapping.
    """
    found = [document for _, document in _documents(data, where)]
    maps = [obj for document in found for obj in _maps(document)]
    named = [obj for obj in maps if meta(obj).get("name") == name] or maps
    if len(named) == 1:
        return config_data(named[0], name)
    if not named and len(found) <= 1:
        document = found[0] if found else {}
        if isinstance(document, dict) and "kind" not in document:
            return where, document
    what = f"expected one ConfigMap {name}, found {len(named)}"
    raise InputRefused(InputProblem(where, "the document", what, f"give the ConfigMap {name} of the cluster"))


def config_data(obj: Json, name: str) -> tuple[str, Mapping[str, object]]:
    """Return how sentences call a ConfigMap, and its data."""
    where = label("ConfigMap", str(meta(obj).get("namespace") or ""), str(meta(obj).get("name") or name))
    data = obj.get("data")
    if data is None:
        return where, {}
    if not isinstance(data, dict):
        raise InputRefused(InputProblem(where, "data", "expected an object", "give texts by key"))
    return where, data


def config_among(objects: Iterable[Json], name: str) -> tuple[str, Mapping[str, object]] | None:
    """Return a ConfigMap's name in sentences and its data, if it is among objects."""
    for obj in objects:
        if obj.get("kind") == "ConfigMap" and meta(obj).get("name") == name:
            return config_data(obj, name)
    return None


def chosen_run(objects: Sequence[Json], name: str | None) -> Json:
    """Return the PipelineRun of a name, or the first one."""
    runs = [
        obj for obj in objects if obj.get("kind") == PIPELINE_RUNS.kind and _group(obj) in ("", PIPELINE_RUNS.group)
    ]
    found = [obj for obj in runs if name is None or meta(obj).get("name") == name]
    if found:
        return found[0]
    names = ", ".join(str(meta(obj).get("name")) for obj in runs)
    what = f'there is none called "{name}", only {names}' if runs else "there is none among the files"
    raise InputRefused(InputProblem("PipelineRun", "metadata.name" if runs else "kind", what, "give its file with -f"))


def _group(obj: Json) -> str:
    return str(obj.get("apiVersion") or "").rpartition("/")[0]


def nop_image_of(objects: Iterable[Json]) -> str:
    """Return the image that a Deployment of Tekton's controller says in its flag `-nop-image`, "" if none is there."""
    for obj in objects:
        if obj.get("kind") != "Deployment":
            continue
        spec = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
        for container in spec.get("containers") or ():
            arguments = [str(argument) for argument in (container.get("args") or ())]
            if _NOP_FLAG in arguments[:-1]:
                return arguments[arguments.index(_NOP_FLAG) + 1]
    return ""


def _documents(data: bytes, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the documents of a file with their places; `InputRefused` names the one that cannot be read."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputRefused(
            InputProblem(where, "the document", f"it is not UTF-8 at byte {error.start}", "save it as UTF-8")
        ) from None
    for document in documents(where, text):
        if document.wrong:
            what, _, todo = f"it {document.wrong}".rpartition("; ")
            raise InputRefused(InputProblem(document.place, "the document", what, todo))
        yield document.place, document.content


def _maps(document: Any) -> list[Json]:
    if not isinstance(document, dict):
        return []
    items = document.get("items")
    if isinstance(items, list):
        return [obj for item in items for obj in _maps(item)]
    return [document] if document.get("kind") == "ConfigMap" else []
