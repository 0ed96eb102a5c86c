"""What a change of the cluster's room costs where many groups wait: as much as there are, and not their square."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controlplane.controllers.podgroups import phases
from controlplane.controllers.podgroups.events import GroupStatusDecided
from controlplane.controllers.podgroups.objects import POD_GROUPS, PODS
from controlplane.controllers.podgroups.phases import GroupClaim
from controlplane.kube.kinds import meta
from controlplane.kube.quantities import NANO
from tests.podgroups.scenes import pod_manifest
from tests.podgroups.stage import Stage
from tests.podgroups.test_fleet import stage


def many(count: int, fit: int, overcommit: float = 1.0) -> Stage:
    """Some pods that nobody controls, each in a group of its own, of which `fit` find room."""
    scene = stage(overcommit=overcommit)
    for number in range(count):
        scene.put(pod_manifest(name=f"p{number:04}", cpu="1"))
    scene.settle()
    scene.room(cpu=fit * NANO).settle()
    return scene.later(minutes=1)


def phases_of(scene: Stage) -> dict[str, int]:
    return Counter(group["status"]["phase"] for group in scene.all(POD_GROUPS))


@pytest.mark.parametrize("count", [20, 80])
def test_what_is_kept_free_is_summed_up_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    of_group = phases.reserved_by

    def counted(claim: GroupClaim) -> dict[str, int]:
        nonlocal calls
        calls += 1
        return of_group(claim)

    scene = many(count, fit=count // 2)
    assert phases_of(scene) == {"Pending": count // 2, "Inqueue": count // 2}
    monkeypatch.setattr(phases, "reserved_by", counted)
    for more in range(1, 6):
        scene.room(cpu=count // 2 * NANO, memory=more)
        scene.settle()
    assert calls <= 2 * count


def test_it_is_what_the_groups_keep_at_every_moment() -> None:
    """Groups are admitted until the room is taken, and again as soon as one of them ends, is deleted or asks for
    less."""
    scene = many(8, fit=3)
    assert phases_of(scene) == {"Pending": 5, "Inqueue": 3}
    ended = scene.get(PODS, "p0000")
    scene.put(ended | {"status": {"phase": "Succeeded"}})
    again(scene)
    assert phases_of(scene)["Inqueue"] == 3
    waiting = next(one for one in scene.all(POD_GROUPS) if one["status"]["phase"] == "Inqueue")
    scene.remove(next(pod for pod in scene.all(PODS) if meta(waiting)["name"] in meta(pod)["annotations"].values()))
    again(scene)
    assert phases_of(scene)["Inqueue"] == 3
    asks = next(one for one in scene.all(POD_GROUPS) if one["status"]["phase"] == "Inqueue")
    scene.put(asks | {"spec": {**asks["spec"], "minResources": {"cpu": "0"}}})
    again(scene)
    assert phases_of(scene)["Inqueue"] == 4


def again(scene: Stage) -> None:
    scene.later(seconds=2)
    scene.room(cpu=3 * NANO).settle()
    scene.later(seconds=2)


def test_a_process_that_takes_over_counts_the_same() -> None:
    scene = many(6, fit=3)
    before = len(scene.recorded(GroupStatusDecided))
    other = stage(overcommit=1.0).fleet
    for recorded in scene.log:
        other.fold(recorded)
    decided: list[Any] = []
    for stream in other.take_dirty():
        decided += [one.event for one in other.decide(stream, scene.now).events]
    assert decided == []
    assert len(scene.recorded(GroupStatusDecided)) == before
