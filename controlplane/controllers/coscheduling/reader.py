"""Reads fields of an object and says precisely what does not fit.

In: an object as YAML or an API server gives it. Out: its parts with the type that the API promises, or `InputRefused`.
Absent and null are the same, as they are for the API."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.coscheduling.problems import InputProblem, InputRefused
from controlplane.kube.kinds import Json

_NAMES = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number"}


class ObjectReader:
    """Reads one object; `object` is how sentences call it."""

    def __init__(self, obj: str) -> None:
        self.object = obj

    def problem(self, field: str, what: str, todo: str) -> InputProblem:
        """Return a problem of this object."""
        return InputProblem(self.object, field, what, todo)

    def section(self, obj: Json, field: str, path: str = "") -> Json:
        """Return a sub-object, empty where it is absent."""
        found = self._get(obj, field, path, dict)
        return {} if found is None else found

    def optional(self, obj: Json, field: str, path: str = "") -> Json | None:
        """Return a sub-object, None where it is absent: an empty one says something."""
        found: Json | None = self._get(obj, field, path, dict)
        return found

    def text(self, obj: Json, field: str, path: str = "") -> str:
        """Return a text, "" where it is absent."""
        found = self._get(obj, field, path, str)
        return "" if found is None else str(found)

    def items(self, obj: Json, field: str, path: str = "") -> list[Json]:
        """Return a list of objects, empty where it is absent."""
        found: list[Any] = self._get(obj, field, path, list) or []
        for number, item in enumerate(found):
            if not isinstance(item, dict):
                self._misfit(f"{_join(path, field)}[{number}]", item, dict)
        return found

    def texts(self, obj: Json, field: str, path: str = "") -> dict[str, str]:
        """Return a map of texts, such as labels."""
        found = self.section(obj, field, path)
        for key, value in found.items():
            if not isinstance(value, str):
                self._misfit(f"{_join(path, field)}[{key}]", value, str)
        return found

    def _get(self, obj: Json, field: str, path: str, kind: type) -> Any:
        found = obj.get(field)
        if found is None or isinstance(found, kind):
            return found
        return self._misfit(_join(path, field), found, kind)

    def _misfit(self, field: str, found: object, kind: type) -> None:
        wanted = _NAMES[kind]
        what = f"expected {wanted}, found {_NAMES.get(type(found), type(found).__name__)}"
        raise InputRefused(self.problem(field, what, f"give {wanted}"))


def _join(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field
