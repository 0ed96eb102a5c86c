"""The identity of an observation: by it the log tells what is new of an object, so it never changes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.kube.kinds import JOBS
from controlplane.log.event import Event, NewEvent, body_of
from controlplane.runtime.controller import ObjectChange

NOW = datetime(2026, 11, 21, 18, 0, tzinfo=UTC)


class Rang(Event):
    bell: str


def sighting(version: str = "42", uid: str | None = "u-1", *, gone: bool = False) -> ObjectChange:
    metadata = {"name": "a"} if uid is None else {"name": "a", "uid": uid}
    return ObjectChange("west", "life-2", JOBS, {"metadata": metadata}, version, gone)


@pytest.mark.parametrize("gone", [False, True])
def test_what_is_observed_has_the_place_and_the_version_at_which_it_was_seen(gone: bool) -> None:
    event, body = Rang(bell="b"), body_of({"spec": {}})
    assert sighting(gone=gone).observed("bell/b", event, NOW, (body,)) == NewEvent(
        stream="bell/b",
        event=event,
        source="west/life-2/jobs.batch/u-1",
        mark=42,
        cluster="west",
        observed_at=NOW,
        bodies=(body,),
    )


@pytest.mark.parametrize(
    ("version", "uid", "mark"), [("", "u-1", 0), ("0", "u-1", 0), ("-7", "u-1", 0), ("x9", "u-1", 0), ("42", None, 42)]
)
def test_without_a_version_or_a_uid_it_cannot_be_told_from_others(version: str, uid: str | None, mark: int) -> None:
    seen = sighting(version, uid)
    assert (seen.source, seen.mark) == ("", mark)
    assert seen.observed("bell/b", Rang(bell="b"), NOW).source == ""
