"""A controller is a slice: what its manifest names is there, and few modules outside its folders name it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from controlplane.controllers.manifests import EVERY, HOSTED, SCHEDULER, SERVICE
from controlplane.runtime.manifest import Deferred, Manifest
from tests.support.rows import each

PACKAGE = Path(__file__).resolve().parents[2] / "controlplane"
NAMED_BY = {
    "coscheduling": 10,
    "podgroups": 14,
    "candidates": 50,
    "scheduling": 66,
    "multikueue": 114,
    "connectivity": 147,
    "quota": 184,
}
"""How many modules outside the folders of its name have the word in them: a number that may fall. The last five are
words of Kubernetes and Kueue as well."""


@cache
def words() -> dict[Path, set[str]]:
    """Return which of the words is in each module, read once for all of them."""
    any_of = re.compile(rf"\b({'|'.join(NAMED_BY)})\b")
    return {path.relative_to(PACKAGE): set(any_of.findall(path.read_text())) for path in sorted(PACKAGE.rglob("*.py"))}


def naming(slice_: str) -> Iterator[str]:
    for path, found in words().items():
        if slice_ in found and slice_ not in path.parts[:-1]:
            yield str(path)


@each("slice_", NAMED_BY)
def test_no_more_modules_name_a_slice(slice_: str) -> None:
    found = list(naming(slice_))
    assert len(found) == NAMED_BY[slice_], f"write the number here if it fell; if it rose, ask the manifests: {found}"


def deferred() -> Iterator[tuple[str, Deferred[Any]]]:
    for manifest in EVERY:
        for field in msgspec.structs.fields(Manifest):
            value = getattr(manifest, field.name)
            if isinstance(value, Deferred):
                yield f"{manifest.title}: {field.name}", value


@each(("where", "part"), list(deferred()), ids=lambda value: value if isinstance(value, str) else "")
def test_what_a_manifest_names_is_there(where: str, part: Deferred[Any]) -> None:
    assert part.load() is not None


def test_every_controller_is_in_a_log_and_each_that_is_hosted_can_be() -> None:
    assert {one.title for one in EVERY} == {one.title for one in (*SERVICE, *SCHEDULER)}
    assert {one.title for one in HOSTED} == {one.title for one in EVERY if one.host is not None}


def test_what_is_deferred_is_in_a_folder_of_controllers() -> None:
    for where, part in deferred():
        folder = part.where.split(".")[2]
        assert (PACKAGE / "controllers" / folder).is_dir(), where
