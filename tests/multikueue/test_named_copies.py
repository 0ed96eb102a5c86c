"""A copy that `clusterName` names and that no watch shows: the cluster is asked before anything follows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.multikueue.copy_reads import CopyReads
from controlplane.controllers.multikueue.events import CheckStateDecided
from controlplane.controllers.multikueue.observations import CloneAbsent, ObservationRefused
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.kinds import WORKLOADS, Json
from controlplane.runtime.controller import OpenRead, ReadAnswer, WriteRefusal
from tests.multikueue.scene import NS, WL, Scene

RESERVED = {"QuotaReserved": True}
RUNS = {"QuotaReserved": True, "Admitted": True}
NOT_FOUND = WriteRefusal(404, "NotFound", f'workloads.kueue.x-k8s.io "{WL}" not found')
GONE = ReadAnswer(failure=NOT_FOUND, absent=True)


def named(check: str = "Ready", **conditions: Any) -> Scene:
    """A Workload that names a cluster, in a log that knows nothing else of it."""
    return Scene("a", "b").job().workload(conditions or RUNS, check=check, cluster_name="a")


def reads(scene: Scene) -> CopyReads:
    return scene.fleet.copies


def asked(scene: Scene) -> list[str]:
    return [read.cluster for read in reads(scene).open_reads(scene.stream, scene.now)]


def answer(scene: Scene, said: ReadAnswer) -> None:
    (read,) = reads(scene).open_reads(scene.stream, scene.now)
    assert reads(scene).is_wanted(read)
    new = reads(scene).answered(read, said, scene.now)
    scene.fold(new.stream, new.event, new.cluster)


def copy_of(origin: str | None) -> Json:
    labels = {} if origin is None else {"kueue.x-k8s.io/multikueue-origin": origin}
    return {"metadata": {"namespace": NS, "name": WL, "uid": "theirs", "resourceVersion": "7", "labels": labels}}


def refusal(scene: Scene) -> str:
    (found,) = scene.fleet.index.unread_of(scene.state).values()
    return found.error


@pytest.mark.parametrize(
    "scene",
    [
        named(),
        named("Pending", **RESERVED),
        named("Retry", **RUNS, Evicted="AdmissionCheck"),
        named("Pending", QuotaReserved=False),
    ],
    ids=["runs", "waits", "is evicted", "has lost its quota"],
)
def test_nothing_is_decided_before_the_cluster_has_answered(scene: Scene) -> None:
    assert scene.names() == []
    assert asked(scene) == ["a"]


@pytest.mark.parametrize(
    "scene",
    [
        Scene("a", "b").job().workload(RUNS, check="Ready"),
        Scene("a", "b").job().workload({**RUNS, "Finished": "Succeeded"}, check="Ready", cluster_name="a"),
        Scene("a", "b").job().workload(RUNS, check="Ready", cluster_name="a", deleting=True),
        Scene("a", "b").job().workload(RUNS, check="Ready", cluster_name="a").clone("a", RUNS),
        Scene("a", "b").running("a").remote_job_gone("a").clone_gone("a"),
        named().disconnect("a"),
        Scene("a", "b").job().workload(RUNS, check="Ready", cluster_name="a", elastic=True),
    ],
    ids=[
        "names none",
        "has finished",
        "is being deleted",
        "its copy is seen",
        "was dispatched here",
        "away",
        "a slice",
    ],
)
def test_who_needs_no_answer_is_not_asked(scene: Scene) -> None:
    assert asked(scene) == []


def test_what_is_not_there_is_queued_again() -> None:
    scene = named()
    answer(scene, GONE)
    (new,) = scene.fleet.decide(scene.stream, scene.now).events
    assert isinstance(new.event, CheckStateDecided)
    assert (new.event.state, new.event.reason) == ("Retry", WorkloadReason.REMOTE_GONE)
    assert new.caused_by == scene.position
    assert asked(scene) == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (ReadAnswer(object=copy_of("theirs")), 'it is "theirs", and multikueue.origin is "multikueue"'),
        (ReadAnswer(object=copy_of(None)), "it is not there, and multikueue.origin"),
        (ReadAnswer(failure=WriteRefusal(403, "Forbidden", "no rights")), "403 no rights"),
        (ReadAnswer(failure=WriteRefusal(500, "InternalError", "etcd")), "500 etcd"),
        (ReadAnswer(failure=WriteRefusal(404, "NotFound", "no such path")), "404 no such path"),
        (ReadAnswer(not_served=True), "no kueue.x-k8s.io/v1beta2 is served"),
    ],
)
def test_what_is_there_or_is_not_known_holds_everything(said: ReadAnswer, text: str) -> None:
    scene = named()
    answer(scene, said)
    assert text in refusal(scene)
    assert scene.names() == []
    scene.workload({"QuotaReserved": True, "Evicted": "Preempted"}, check="Ready")
    assert scene.names() == []
    scene.workload({"QuotaReserved": False, "Evicted": "Preempted"}, check="Pending", cluster_name="")
    assert scene.names() == []
    scene.workload({"QuotaReserved": True, "Evicted": False}, check="Pending", cluster_name="")
    assert scene.names() == []
    assert scene.tick(days=7).names() == []


def test_it_is_asked_again_each_time_after_twice_the_time() -> None:
    scene = named()
    answer(scene, ReadAnswer(object=copy_of("theirs")))
    pauses = []
    for _ in range(9):
        wake = scene.fleet.decide(scene.stream, scene.now).wake
        assert wake is not None
        assert asked(scene) == []
        pauses.append(wake - scene.now)
        scene.now = wake
        answer(scene, ReadAnswer(object=copy_of("theirs")))
    assert pauses == [min(timedelta(seconds=30) * 2**n, timedelta(hours=1)) for n in range(9)]
    scene.tick(hours=1)
    answer(scene, GONE)
    assert scene.names() == ["CheckState"]


def test_who_gives_it_our_origin_has_it_taken_over() -> None:
    scene = named()
    answer(scene, ReadAnswer(object=copy_of("theirs")))
    scene.clone("a", RUNS).remote_job("a")
    assert scene.fleet.index.unread_of(scene.state) == {}
    assert asked(scene) == []


def test_an_answer_says_what_it_was_made_of() -> None:
    scene = named()
    (read,) = reads(scene).open_reads(scene.stream, scene.now)
    assert read == OpenRead(
        f"refused/a/{WORKLOADS.name}/{NS}/{scene.wl}", "a", WORKLOADS.api_version, "Workload", NS, scene.wl
    )
    found = reads(scene).answered(read, ReadAnswer(object=copy_of("theirs")), scene.now)
    assert isinstance(found.event, ObservationRefused)
    assert (found.event.uid, found.event.resource_version) == ("theirs", "7")
    assert [body.ref for body in found.bodies] == [found.event.object]
    gone = reads(scene).answered(read, GONE, scene.now)
    assert gone.event == CloneAbsent(namespace=NS, name=scene.wl, message=NOT_FOUND.message)
