"""A group that comes back under its old name: its stream goes on where it was, whatever was forgotten of it meanwhile.

Found by the simulation: the version of a stream went with the last state of its group, so what was decided on it later
was refused by the log for ever, and its pods waited for ever."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from controlplane.controllers.podgroups import index as rooms
from controlplane.controllers.podgroups.events import GroupUpdateDecided
from controlplane.controllers.podgroups.objects import DEPLOYMENTS, MIN_MEMBER, POD_GROUPS, PODS
from controlplane.kube.kinds import Json, Request, meta
from controlplane.runtime.controller import WriteRefusal
from tests.podgroups.scenes import manifest, pod_manifest, ref
from tests.podgroups.stage import Stage
from tests.podgroups.test_causes import Story
from tests.podgroups.test_fleet import DEPLOYMENT, GROUP, RS, group_of, sized, stage, web


def test_pods_that_come_after_the_group_went_get_it_anew() -> None:
    scene = web(stage(), "p1")
    scene.remove(scene.get(PODS, "p1"))
    scene.settle()
    scene.remove(scene.get(POD_GROUPS, GROUP))
    scene.settle().later(minutes=1)
    scene.put(pod_manifest(RS, "p2"))
    scene.settle().later(minutes=1)  # the stage asserts that each decision is on the version that its stream has
    assert group_of(scene, "p2") == GROUP


def test_somebody_elses_group_of_the_name_came_and_went_before_the_first_pod() -> None:
    scene = stage()
    scene.put(manifest(DEPLOYMENT))
    scene.put(manifest(RS, DEPLOYMENT))
    squat = {**manifest(ref("Widget", GROUP, "g")), "apiVersion": POD_GROUPS.api_version, "kind": "PodGroup"}
    scene.remove(scene.put(squat | {"spec": {"minMember": 1}}))
    scene.put(pod_manifest(RS, "p1"))
    scene.settle().later(minutes=1)
    assert group_of(scene, "p1") == GROUP


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "_REMEMBERED", 2)
    scene = stage()
    for number in range(5):
        squat = {**manifest(ref("Widget", f"g-{number}", "g")), "apiVersion": POD_GROUPS.api_version}
        scene.remove(scene.put({**squat, "kind": "PodGroup", "spec": {"minMember": 1}}))
    scene.settle()
    assert [name.rpartition("/")[2] for name in scene.fleet.index.left] == ["g-3", "g-4"]


def deployment(scene: Stage, cpu: str, members: str) -> None:
    scene.put(manifest(DEPLOYMENT, spec=sized(cpu), notes={MIN_MEMBER: members}))
    scene.put(manifest(RS, DEPLOYMENT, spec=sized(cpu)))


def answers_are_lost(scene: Stage, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Every write of a group is done and answered 500, and only then seen: by what is returned."""
    done = scene._write

    def write(request: Request) -> WriteRefusal | None:
        if request.ref.kind != POD_GROUPS:
            return done(request)
        show = scene._show
        shown: list[Json] = []
        with monkeypatch.context() as patch:
            patch.setattr(scene, "_show", lambda obj, *, gone: shown.append(obj))
            failure = done(request) or WriteRefusal(500, "InternalError", "the answer was lost")
        late.extend(partial(show, obj, gone=False) for obj in shown)
        return failure

    late: list[Callable[[], None]] = []
    monkeypatch.setattr(scene, "_write", write)
    return late


def test_a_write_that_was_done_and_whose_answer_was_lost_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the simulation, at seed 224: the same write every five minutes, and what the owner asked for next waited
    for it.
    """
    scene = web(stage(), "p1", members="1").later(seconds=5)
    late = answers_are_lost(scene, monkeypatch)
    deployment(scene, "1", "1")
    scene.settle()
    for show in late:
        show()
    monkeypatch.undo()
    before = len(scene.log)
    scene.later(seconds=10).later(minutes=10).later(minutes=10)
    assert scene.get(POD_GROUPS, GROUP)["spec"] == {"minMember": 1, "minResources": {"cpu": "1"}}
    assert not [one for one in scene.log[before:] if isinstance(one.event, GroupUpdateDecided)]
    deployment(scene, "1", "2")
    scene.later(seconds=2)
    assert scene.get(POD_GROUPS, GROUP)["spec"]["minMember"] == 2


def test_what_a_group_shows_already_counts_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says that nothing was changed, because it was so already, is not asked again."""
    scene = web(stage(), "p1", members="1").later(seconds=5)
    group = scene.get(POD_GROUPS, GROUP)
    scene.put(
        {**group, "spec": {"minMember": 2, "minResources": {"cpu": "1"}}}
    )  # by hand, and as the owner will want it
    scene.settle()
    scene.deaf = "PodGroup"
    deployment(scene, "500m", "2")
    scene.settle()
    scene.deaf = ""
    before = len(scene.log)
    scene.later(minutes=10).later(minutes=10)
    assert not [one for one in scene.log[before:] if isinstance(one.event, GroupUpdateDecided)]


def orphaned(*, joined: bool) -> Stage:
    """A pod whose Deployment is deleted and leaves its ReplicaSet: before the pod has joined its group, or after."""
    scene = stage()
    scene.put(manifest(DEPLOYMENT))
    scene.put(manifest(RS, DEPLOYMENT))
    squat = {**manifest(ref("Widget", GROUP, "g")), "apiVersion": POD_GROUPS.api_version, "kind": "PodGroup"}
    taken = squat | {"spec": {"minMember": 1}}
    if not joined:
        scene.put(taken)
    scene.put(pod_manifest(RS, "p1"))
    scene.settle()
    scene.put(manifest(RS))
    scene.remove(scene.get(DEPLOYMENTS, DEPLOYMENT.name))
    scene.remove(scene.get(POD_GROUPS, GROUP))
    return scene.settle().later(minutes=10)


def test_a_pod_whose_owner_went_before_it_had_a_group_gets_that_of_who_is_left() -> None:
    scene = orphaned(joined=False)
    assert [meta(one)["name"] for one in scene.all(POD_GROUPS)] == [f"podgroup-{RS.uid}"]
    assert group_of(scene, "p1") == f"podgroup-{RS.uid}"


def test_a_group_whose_owner_is_gone_is_not_made_again() -> None:
    """The garbage collector would take it each time."""
    scene = orphaned(joined=True)
    assert scene.all(POD_GROUPS) == []
    assert group_of(scene, "p1") == GROUP


def test_an_admission_that_was_refused_and_overtaken_reserves_nothing() -> None:
    """Its members ran again before it could be written, so that the group showed what it was to show: what was decided
    stayed, and kept room for all of it a second time."""
    story = Story().web(**{MIN_MEMBER: "2"}).member("p1", "Running").member("p2", "Running").settled(minutes=1)
    story.room(cpu=10**12)
    story.remove(story.get(PODS, "p2"))
    story.refused["write PodGroup"] = WriteRefusal(409, "Conflict", "not now")
    story.member("p3").settled(minutes=1)
    (state,) = story.fleet.index.groups.values()
    assert state.phase == "Inqueue"
    story.member("p3", "Running")
    del story.refused["write PodGroup"]
    story.settled(minutes=1)
    (state,) = story.fleet.index.groups.values()
    assert (state.phase, story.group()["status"]["phase"]) == ("Running", "Running")
