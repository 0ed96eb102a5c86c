"""Volcano's scheduler beside the controller: it admits PodGroups and writes their status itself, in each of its
sessions."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.podgroups.events import GroupStatusDecided
from controlplane.controllers.podgroups.explain import explain_group
from controlplane.controllers.podgroups.hosting import host
from controlplane.controllers.podgroups.objects import GROUP_NAME, POD_GROUPS, PODS
from controlplane.controllers.podgroups.phrases import PHRASES
from controlplane.kube.kinds import Json, meta
from controlplane.runtime.controller import WriteRefusal
from tests.podgroups.scenes import pod_manifest
from tests.podgroups.stage import Stage
from tests.podgroups.test_fleet import GROUP, RS, WIDGET, stage, web
from tests.support.local import settings

PATCHED = ("patch", "podgroups.scheduling.volcano.sh")


class VolcanoScheduler:
    """What Volcano's scheduler does to the status of PodGroups in a session (volcano-sh/volcano
    pkg/scheduler/actions/enqueue/enqueue.go, pkg/scheduler/framework/session.go `jobStatus`, ed72c7c81). `room`:
    whether it enqueues. It writes what differs from what is there."""

    def __init__(self, scene: Stage, *, room: bool = True) -> None:
        self.scene, self.room = scene, room

    def sessions(self, count: int) -> None:
        """Hold one session a second."""
        for _ in range(count):
            self.scene.later(seconds=1)
            for group in self.scene.all(POD_GROUPS):
                status = self._status(group)
                if status != (group.get("status") or {}):
                    self.scene.put({**group, "status": status})
            self.scene.settle()

    def _status(self, group: Json) -> Json:
        pods = [
            pod
            for pod in self.scene.all(PODS)
            if (meta(pod).get("annotations") or {}).get(GROUP_NAME) == meta(group)["name"]
        ]
        counts = {phase: sum(_phase(pod) == phase for pod in pods) for phase in ("Running", "Succeeded", "Failed")}
        before = dict(group.get("status") or {})
        shown = before.get("phase") or "Pending"
        if shown == "Pending" and self.room:
            shown = "Inqueue"
        ended = counts["Succeeded"] + counts["Failed"]
        if counts["Running"] + ended >= group["spec"]["minMember"]:
            shown = "Completed" if not counts["Running"] else "Running"
        elif shown != "Inqueue":
            shown = "Pending"
        numbers = {name.lower(): counts[name] for name in counts if counts[name] or name.lower() in before}
        return before | {"phase": shown} | numbers


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _runs(scene: Stage, name: str, phase: str = "Running") -> None:
    found = scene.get(PODS, name)
    scene.put({**found, "spec": {**found["spec"], "nodeName": "n1"}, "status": {"phase": phase}})
    scene.settle()


def _decided(scene: Stage) -> list[Any]:
    return scene.recorded(GroupStatusDecided)


def _said(scene: Stage) -> str:
    return explain_group([one for one in scene.log if one.stream == f"podgroup/team-a/{GROUP}"], ()).sentence


def test_the_status_is_the_schedulers_that_writes_it() -> None:
    """Its groups stayed Pending or Inqueue in turns, one write a second by each, and none of their pods was placed in
    between; what was complete was Pending and Completed in turns."""
    scene = web(stage(status_for=("controlplane",)), "p1", "p2", members="2")
    assert "admitted by its scheduler, or by this service where podgroups.statusFor" in _said(scene)
    volcano = VolcanoScheduler(scene)
    volcano.sessions(5)
    assert scene.get(POD_GROUPS, GROUP)["status"]["phase"] == "Inqueue"
    _runs(scene, "p1")
    _runs(scene, "p2")
    volcano.sessions(5)
    assert scene.get(POD_GROUPS, GROUP)["status"] == {"phase": "Running", "running": 2}
    for name in ("p1", "p2"):
        scene.remove(scene.get(PODS, name))
    volcano.sessions(700)
    assert scene.get(POD_GROUPS, GROUP)["status"]["phase"] == "Inqueue"
    assert scene.requests[PATCHED] == 0
    assert _decided(scene) == []
    assert "It is Inqueue, as its scheduler says" in _said(scene)


def test_the_condition_about_the_owner_is_written_all_the_same() -> None:
    scene = stage(status_for=("controlplane",))
    scene.refused["Widget"] = WriteRefusal(403, "Forbidden", "no")
    scene.put(pod_manifest(WIDGET, "p"))
    scene.settle()
    volcano = VolcanoScheduler(scene)
    volcano.sessions(5)
    (group,) = scene.all(POD_GROUPS)
    (condition,) = group["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("OwnerResolved", "False")
    assert group["status"]["phase"] == "Inqueue"
    (decided,) = _decided(scene)
    assert PHRASES[GroupStatusDecided](decided) == "PodGroup is to say who owns it"
    before = scene.requests[PATCHED]
    volcano.sessions(60)
    assert scene.requests[PATCHED] == before == 1


def test_two_that_write_the_status_do_so_less_and_less_often_and_it_is_told() -> None:
    scene = web(stage(), "p1", "p2", members="2")
    VolcanoScheduler(scene).sessions(600)
    assert scene.requests[PATCHED] <= 12
    said = _said(scene)
    assert "Somebody else writes its status as well" in said
    assert "podgroups.statusFor" in said


def test_a_group_of_two_schedulers_is_ours() -> None:
    scene = web(stage(status_for=("controlplane",)), "p1")
    scene.put(pod_manifest(RS, "p2", spec={"schedulerName": "controlplane"}))
    scene.settle().later(seconds=2)
    _runs(scene, "p2")
    scene.later(seconds=2)
    assert scene.get(POD_GROUPS, GROUP)["status"]["phase"] == "Running"


def test_whose_status_becomes_the_schedulers_shows_what_that_writes() -> None:
    """The settings are changed while a group is there."""
    scene = web(stage(), "p1", "p2", members="2").room(cpu=10**12, pods=10**12).later(seconds=2)
    assert scene.get(POD_GROUPS, GROUP)["status"]["phase"] == "Inqueue"
    other = stage(status_for=("controlplane",))
    other.objects, other.rv, other.now = scene.objects, scene.rv, scene.now
    other.log.clear()
    other.versions.clear()
    for one in scene.log:
        other.append(one.stream, one.event, one.caused_by)
    for name in ("p1", "p2"):
        _runs(other, name)
    VolcanoScheduler(other).sessions(5)
    assert other.fleet.index.groups[f"podgroup/team-a/{GROUP}"].phase == "Running"
    assert other.requests[PATCHED] == 1


def test_nodes_are_watched_where_groups_are_admitted() -> None:
    def watched(**groups: Any) -> set[str]:
        return {spec.kind.name for one in host(settings("podgroups", groups=groups)) for spec in one.home}

    assert "nodes" in watched()
    ours = ("controlplane",)
    for groups in ({"scheduler_names": ("volcano",), "status_for": ours}, {"status_for": ()}):
        assert "nodes" not in watched(**groups)
        assert {"pods", "podgroups.scheduling.volcano.sh"} <= watched(**groups)
