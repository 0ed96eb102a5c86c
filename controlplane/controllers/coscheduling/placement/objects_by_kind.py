"""A cluster as a pile of objects: what a dry run is given, sorted and looked up.

In: objects of any kind, as YAML or an API server gives them. Out: those that placement looks at, by kind, namespace and
name. Others are left alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.controllers.coscheduling.problems import InputProblem, InputRefused, label
from controlplane.controllers.coscheduling.shapes import misfit
from controlplane.kube.kinds import Json, meta

_CLUSTER_SCOPED = frozenset({"Node", "StorageClass", "PersistentVolume"})


class ObjectsByKind:
    """Objects by kind. The last one of a name wins, as the newest state of it."""

    def __init__(self, objects: Iterable[Json] = ()) -> None:
        self._kinds: dict[str, dict[tuple[str, str], Json]] = {}
        for obj in objects:
            kind = str(obj.get("kind", ""))
            metadata = meta(obj)
            namespace = "" if kind in _CLUSTER_SCOPED else str(metadata.get("namespace") or "default")
            name = str(metadata.get("name") or metadata.get("generateName") or "")
            self._kinds.setdefault(kind, {})[namespace, name] = obj

    def find(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object, None if it is not there."""
        return self._kinds.get(kind, {}).get((namespace, name))

    def all(self, kind: str, namespace: str | None = None) -> list[Json]:
        """Return the objects of a kind in the order given; of one namespace, or of all."""
        listed = self._kinds.get(kind, {}).items()
        return [obj for (where, _), obj in listed if namespace is None or where == namespace]

    def knows(self, *kinds: str) -> bool:
        """Whether there is any object of these kinds: whether it says something that another one is not there."""
        return any(self._kinds.get(kind) for kind in kinds)


def objects_of(document: Any, where: str) -> list[Json]:
    """Return the objects of one YAML document: itself, or the items of a List. `InputRefused` if it is no object."""
    if document is None:
        return []
    if not isinstance(document, dict):
        what = f"expected a Kubernetes object, found a {type(document).__name__}"
        raise InputRefused(InputProblem(where, "the document", what, "give apiVersion, kind and metadata"))
    items = _items_of(document)
    if items is not None:
        return [obj for number, item in enumerate(items) for obj in objects_of(item, f"{where} items[{number}]")]
    problem = _problem_of(document, where)
    if problem is not None:
        raise InputRefused(problem)
    return [document]


def _items_of(document: Json) -> list[Any] | None:
    """Return the items of a List, None for what is no List."""
    kind, items = document.get("kind"), document.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        return None
    # A typed list leaves out what its items are.
    known = {} if kind == "List" else {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    return [known | item if isinstance(item, dict) else item for item in items]


def _problem_of(document: Json, where: str) -> InputProblem | None:
    """Return what is wrong with an object as such, None if nothing is."""
    kind = document.get("kind")
    if not isinstance(kind, str) or not kind:
        return InputProblem(where, "kind", "it is not set", "say what kind of object it is")
    if not isinstance(document.get("metadata", {}), dict):
        return InputProblem(where, "metadata", "expected an object", "give the object's metadata")
    wrong = misfit(document)
    if wrong is None:
        return None
    named = label(kind, str(meta(document).get("namespace") or ""), str(meta(document).get("name") or ""))
    return InputProblem(f"{where} ({named})", *wrong, "give the object as the API server shows it")
