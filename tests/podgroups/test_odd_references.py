"""Owner references that no object can fulfil: whoever writes them is told, and nothing else is read or made for
them."""

from __future__ import annotations

import pytest

from controlplane.controllers.podgroups.events import MemberRefused, OwnerRead, OwnerResolved
from controlplane.controllers.podgroups.explain import STORIES
from controlplane.controllers.podgroups.objects import POD_GROUPS
from controlplane.kube.kinds import Json
from tests.podgroups.scenes import NS
from tests.podgroups.test_awaited import ReadLog
from tests.podgroups.test_fleet import stage

NO_NAMES = ["../secrets/token", "a/b", "..", "%2e%2e", "a\nb", "x" * 254, "u" * 100_000]
FIELDS = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "uid-w", "controller": True}


def owned(**fields: str) -> Json:
    metadata = {"name": "p", "namespace": NS, "uid": "uid-p", "ownerReferences": [FIELDS | fields]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"schedulerName": "volcano"}}


@pytest.mark.parametrize("field", ["name", "uid", "kind", "apiVersion"])
@pytest.mark.parametrize("text", NO_NAMES, ids=lambda text: text[:20])
def test_a_reference_that_names_no_object_is_refused(field: str, text: str) -> None:
    if field == "apiVersion" and text == "a/b":
        text = "a/b/v1"
    scene = stage()
    scene.put(owned(**{field: text}))
    scene.settle()
    (refused,) = scene.recorded(MemberRefused)
    assert (refused.name, refused.field) == ("p", f"metadata.ownerReferences[0].{field}")
    assert len(refused.error) < 1000
    assert not scene.reads
    assert scene.recorded(OwnerResolved) == scene.all(POD_GROUPS) == []
    assert all(len(one.stream) < 600 for one in scene.log)
    told = STORIES.history(ReadLog(scene.log), "pod", NS, "p")
    assert told is not None
    assert STORIES.explain["pod"](told).sentence.startswith(
        f"It is left alone, because metadata.ownerReferences[0].{field}: is "
    )


def test_an_owner_with_such_a_reference_ends_the_walk() -> None:
    scene = stage()
    above = FIELDS | {"name": "../x"}
    metadata = {"name": "w", "namespace": NS, "uid": "uid-w", "ownerReferences": [above]}
    scene.put({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata})
    scene.put(owned())
    scene.settle()
    (read,) = scene.recorded(OwnerRead)
    assert read.answer.outcome == "Misfit"
    assert [one.resolution.owner.name for one in scene.recorded(OwnerResolved)] == ["w"]


def test_another_object_of_the_owners_name_is_another_object_also_where_it_cannot_be_read() -> None:
    """The garbage collector goes by UIDs: it would take the group at once."""
    scene = stage()
    metadata = {"name": "w", "namespace": NS, "uid": "uid-other", "ownerReferences": [FIELDS | {"name": "../x"}]}
    scene.put({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata})
    scene.put(owned())
    scene.settle()
    (read,) = scene.recorded(OwnerRead)
    assert read.answer.outcome == "Replaced"
    assert scene.all(POD_GROUPS) == []
