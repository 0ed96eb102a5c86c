"""`why podgroup/…`: what a group waits for that is not admitted, by the pods that joined it."""

from __future__ import annotations

from controlplane.controllers.podgroups.events import GroupStatusDecided, group_stream, member_stream
from controlplane.controllers.podgroups.explain import STORIES
from controlplane.controllers.podgroups.objects import PODS
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Explanation
from tests.podgroups.scenes import NS, manifest, pod_manifest, ref
from tests.podgroups.stage import Stage
from tests.podgroups.test_fleet import GROUP, RS, stage, web
from tests.support.rows import each

ROOM = "for what they ask for together (cpu 1)"


class ReadLog:
    """The log of a stage, for reading."""

    def __init__(self, log: list[Recorded]) -> None:
        self.log = log

    def of(self, *streams: str, after: int = 0, kind: str = "", newest: bool = False) -> list[Recorded]:
        found = [
            one
            for one in self.log
            if one.position > after and (type(one.event).__name__ == kind if kind else one.stream in streams)
        ]
        return found[-1:] if newest else found


def why(scene: Stage, name: str = GROUP) -> Explanation:
    found = STORIES.history(ReadLog(scene.log), "podgroup", NS, name)
    assert found is not None
    return STORIES.explain["podgroup"](found)


def full(members: str, *pods: str) -> Stage:
    """A Deployment's pods in a group, in a cluster whose nodes are full."""
    return web(stage().room(cpu=1), *pods, members=members).later(seconds=5)


@each(
    ("pods", "said", "waits_for"),
    [
        (("p1", "p2"), f"its 2 members are there, and it waits for room {ROOM}", "room"),
        (("p1", "p2", "p3"), f"its 3 members are there, and it waits for room {ROOM}", "room"),
        (("p1",), f"1 of its 2 members is there; it waits for the others, and for room {ROOM}", "members and room"),
    ],
)
def test_members_are_counted(pods: tuple[str, ...], said: str, waits_for: str) -> None:
    told = why(full("2", *pods))
    assert told.sentence.startswith(f"It is Pending: {said}; ")
    assert (told.standing.word, told.standing.waits_for) == ("Pending", waits_for)


def test_one_that_went_is_not_counted() -> None:
    scene = full("2", "p1", "p2")
    scene.remove(scene.get(PODS, "p1"))
    assert "1 of its 2 members is there;" in why(scene.settle()).sentence


def test_one_member() -> None:
    assert ": its 1 member is there, and it waits for room" in why(full("1", "p1")).sentence


def test_of_a_group_that_others_made_its_members_are_not_known() -> None:
    scene = stage().room(cpu=1)
    made = {**manifest(ref("Widget", "mine")), "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    scene.put(made | {"spec": {"minMember": 2, "minResources": {"cpu": "1"}}})
    scene.put(pod_manifest(RS, "p1", notes={"scheduling.k8s.io/group-name": "mine"}))
    scene.later(seconds=5)
    assert [one.stream for one in scene.log if isinstance(one.event, GroupStatusDecided)] == [group_stream(NS, "mine")]
    told = why(scene, "mine")
    assert f"It is Pending: it waits for its 2 members, or for room {ROOM}" in told.sentence
    assert told.standing.waits_for == "members or room"
    assert member_stream(NS, "p1") in {one.stream for one in scene.log}
