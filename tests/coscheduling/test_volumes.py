"""Where existing volumes are: a run whose claims no node reaches is refused before anything is made for it."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, KindOff, cluster_stream
from controlplane.controllers.coscheduling import events, observations
from controlplane.controllers.coscheduling.controller import NEEDED
from controlplane.controllers.coscheduling.objects import CONFIG_MAPS
from controlplane.controllers.coscheduling.placement.volumes import ZONE, apart, bound_volume
from controlplane.kube.kinds import PERSISTENT_VOLUMES
from controlplane.log.event import NewEvent
from tests.coscheduling.samples import NS, Json, claim, planned, run, task
from tests.coscheduling.scene import Scene
from tests.coscheduling.started import RUN, SINGLE

TWO = (claim("a", "data"), claim("b", "cache"))


def volume(name: str, of: str, *zones: str, key: str = ZONE, labelled: bool = False, phase: str = "Bound") -> Json:
    spec: Json = {"claimRef": {"namespace": NS, "name": of}}
    metadata: Json = {"name": name}
    if labelled:
        metadata["labels"] = {key: "__".join(zones)}
    elif zones:
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]} for zone in zones]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {"kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def begun(mode: str = "pipelineruns", *volumes: Json) -> Scene:
    scene = Scene(mode)
    for one in volumes:
        scene.put(one)
    scene.put(run(*TWO, tasks=[task("t", "a"), task("u", "b")]))
    scene.settle()
    return scene


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("mode", ["pipelineruns", "isolate-pipelinerun"])
def test_claims_in_two_zones_are_refused_before_anything_is_made(mode: str, labelled: bool) -> None:
    scene = begun(mode, volume("p1", "data", "z1", labelled=labelled), volume("p2", "cache", "z2", labelled=labelled))
    assert scene.names("StatefulSet") == []
    (condition,) = scene.objects["PipelineRun", NS, RUN]["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Coscheduled", "False")
    assert condition["message"] == (
        f'PipelineRun {NS}/{RUN}: spec.workspaces: claim "data" (PersistentVolume p1) is bound in {ZONE} z1, '
        f'claim "cache" (PersistentVolume p2) is bound in {ZONE} z2: no node reaches them all; '
        'use claims of one place, or the mode "workspaces", in which each claim has a node of its own'
    )
    (told,) = scene.events(events.RunRefused)
    assert told.reason == "VolumesApart"


def test_it_begins_when_a_volume_is_where_the_other_is() -> None:
    scene = begun("pipelineruns", volume("p1", "data", "z1"), volume("p2", "cache", "z2"))
    scene.drop("PersistentVolume", "", "p2")
    assert [type(one).__name__ for one in scene.events(observations.VolumeGone)] == ["VolumeGone"]
    scene.put(volume("p3", "cache", "z1"))
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE]


@pytest.mark.parametrize(
    "volumes",
    [
        (volume("p1", "data", "z1"), volume("p2", "cache", "z2", "z1")),
        (volume("p1", "data", "z1"), volume("p2", "cache")),
        (volume("p1", "data", "z1"), volume("p2", "cache", "z2", phase="Released")),
        (volume("p1", "data", "z1"), volume("p2", "other", "z2")),
        (volume("p1", "data", "z1"), volume("p2", "cache", "r2", key="region")),
    ],
)
def test_what_one_node_may_reach_is_not_refused(volumes: tuple[Json, ...]) -> None:
    assert begun("pipelineruns", *volumes).names("StatefulSet") == [SINGLE]


def test_each_claim_by_itself_may_be_anywhere() -> None:
    scene = begun("workspaces", volume("p1", "data", "z1"), volume("p2", "cache", "z2"))
    assert len(scene.names("StatefulSet")) == 2


def test_a_run_that_has_begun_is_left_alone() -> None:
    scene = begun("pipelineruns", volume("p1", "data", "z1"))
    scene.put(volume("p2", "cache", "z2"))
    scene.settle()
    assert scene.events(events.RunRefused) == []


def connected(scene: Scene, *kinds: str) -> None:
    scene.append(
        NewEvent(stream=cluster_stream(MANAGEMENT), event=ClusterConnected(kinds=[*NEEDED, CONFIG_MAPS.name, *kinds]))
    )


def test_volumes_that_are_not_listed_yet_are_waited_for() -> None:
    scene = Scene()
    connected(scene)
    scene.put(run(*TWO))
    scene.settle()
    assert scene.names("StatefulSet") == []
    connected(scene, PERSISTENT_VOLUMES.name)
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE]


def test_volumes_that_may_not_be_seen_refuse_nothing() -> None:
    scene = Scene()
    connected(scene)
    event = KindOff(kind=PERSISTENT_VOLUMES.name, reason="Forbidden", message="no")
    scene.append(NewEvent(stream=cluster_stream(MANAGEMENT), event=event))
    scene.put(run(*TWO))
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE]


def test_three_that_only_together_are_apart() -> None:
    found = [
        bound_volume(volume("p1", "a", "z1", "z2")),
        bound_volume(volume("p2", "b", "z2", "z3")),
        bound_volume(volume("p3", "c", "z3", "z1")),
    ]
    assert apart([one for one in found if one is not None]).count("PersistentVolume") == 3


def test_a_plan_says_it_from_files() -> None:
    obj = run(*TWO, tasks=[task("t", "a")])
    around: list[Any] = [volume("p1", "data", "z1"), volume("p2", "cache", "z2")]
    found = planned(obj, "pipelineruns", *around)
    assert "no node reaches them all" in found.error
    assert found.stateful_sets == []
    assert planned(obj, "workspaces", *around).error == ""
