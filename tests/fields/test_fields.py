"""Fields of objects: absent and null are empty; what is of another type is named with its path, what was expected and
what was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controlplane.kube import fields
from controlplane.kube.fields import Misfit
from controlplane.kube.kinds import JOBS
from tests.support.rows import each

READERS: list[tuple[Callable[..., Any], Any, Any, str]] = [
    (fields.section, {}, {"a": 1}, "an object"),
    (fields.items, [], [{"a": 1}, {}], "a list of objects"),
    (fields.text, "", "x", "a string"),
    (fields.number, 0, -7, "an integer"),
    (fields.flag, False, True, "a boolean"),
    (fields.strings, [], ["x", ""], "a list of strings"),
]
OTHERS: list[Any] = [{"a": 1}, [{"a": 1}, {}], "x", -7, True, ["x", ""], [1], [{}, "x"], 1.5]


@each(("read", "empty", "value", "expected"), READERS, ids=[row[3] for row in READERS])
def test_a_field_is_read_or_refused_by_its_path(
    read: Callable[..., Any], empty: Any, value: Any, expected: str
) -> None:
    assert read({}, "f", "spec.x") == read({"f": None}, "f", "spec.x") == empty
    assert read({"f": value}, "f", "spec.x") == value
    for other in (one for one in OTHERS if one != value or type(one) is not type(value)):
        with pytest.raises(Misfit, match=rf"spec\.x\.f: expected {expected}, found {type(other).__name__}") as caught:
            read({"f": other}, "f", "spec.x")
        assert caught.value.field == "spec.x.f"


def test_a_section_at_the_top_has_no_path_before_it() -> None:
    with pytest.raises(Misfit, match=r"^spec: expected an object, found list"):
        fields.section({"spec": []}, "spec")


@pytest.mark.parametrize(("missing", "field"), [("name", "metadata.name"), ("uid", "metadata.uid")])
def test_an_object_without_a_name_or_a_uid_is_none(missing: str, field: str) -> None:
    whole = {"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "7", "deletionTimestamp": "soon"}
    known = {"namespace": "ns", "name": "a", "uid": "u", "resource_version": "7", "deleting": True}
    assert fields.identity({"metadata": whole}) == known
    with pytest.raises(Misfit) as caught:
        fields.identity({"metadata": {key: value for key, value in whole.items() if key != missing}})
    assert caught.value.field == field


def test_a_refusal_names_the_object_even_if_its_metadata_do_not_fit() -> None:
    error = Misfit("spec.x", 3, "a string")
    said = fields.refusal(JOBS, {"metadata": {"name": 3, "uid": "u"}}, error)
    assert said == {
        "kind": "jobs.batch",
        "namespace": "",
        "name": "3",
        "uid": "u",
        "resource_version": "",
        "field": "spec.x",
        "error": "spec.x: expected a string, found int",
    }
    assert fields.refusal(JOBS, {"metadata": []}, TypeError("no"))["field"] == ""
