"""What a worker's own controllers make of a copy carries the copy's labels and annotations, and is no copy: KubeRay
gives a RayJob's to its RayCluster, Tekton a PipelineRun's to its TaskRuns and their pods."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import RemovalDecided
from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.kinds import JOBS, PODS, Json, Kind
from tests.multikueue.dispatched import GONE, only, retry, settled
from tests.multikueue.observed import PREBUILT, metadata, sighting
from tests.multikueue.rendered import ORIGIN
from tests.multikueue.scene import NS, START, STREAM, WL, Scene
from tests.support.rows import each

RAY_CLUSTER = JOB_KINDS["ray.io/raycluster"].kind
RAY_SPEC: Json = {"headGroupSpec": {"template": {"spec": {"containers": []}}}}
POD_SPEC: Json = {"containers": []}


def owner(api_version: str, kind: str, *, controls: bool = True) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": "its-maker", "uid": "maker", "controller": controls}


def copy(kind: Kind, spec: Json, *owners: Json, **status: Any) -> Json:
    labels, notes = {ORIGIN: "multikueue", "kueue.x-k8s.io/queue-name": "q"}, {PREBUILT: WL}
    found = metadata("made", labels=labels, annotations=notes, ownerReferences=list(owners))
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": found, "spec": spec, "status": status}


@each(
    ("kind", "spec", "made_by"),
    [
        (RAY_CLUSTER, RAY_SPEC, owner("ray.io/v1", "RayJob")),
        (RAY_CLUSTER, RAY_SPEC, owner("ray.io/v1", "RayService")),
        (PODS, POD_SPEC, owner("tekton.dev/v1", "TaskRun")),
        (JOBS, {"template": {"spec": {}}}, owner("batch/v1", "CronJob")),
    ],
)
def test_what_is_made_of_a_copy_is_not_recorded(kind: Kind, spec: Json, made_by: Json) -> None:
    scene = Scene("a")
    made = copy(kind, spec, made_by)
    assert scene.fleet.observe(sighting("a", kind, made), START) is None
    assert scene.fleet.observe(sighting("a", kind, made, gone=True), START) is None


@each(
    ("kind", "spec", "owned_by"),
    [
        (RAY_CLUSTER, RAY_SPEC, owner("ray.io/v1", "RayJob", controls=False)),
        # These take over pods that nobody controls and that their selector fits.
        (PODS, POD_SPEC, owner("apps/v1", "ReplicaSet")),
        (PODS, POD_SPEC, owner("batch/v1", "Job")),
        (PODS, POD_SPEC, owner("v1", "ReplicationController")),
    ],
)
def test_a_copy_that_only_belongs_to_something_is_recorded(kind: Kind, spec: Json, owned_by: Json) -> None:
    found = Scene("a").fleet.observe(sighting("a", kind, copy(kind, spec, owned_by)), START)
    assert found is not None
    assert found.stream == STREAM
    assert isinstance(found.event, observations.RemoteJobObserved)


def test_the_end_of_what_an_older_version_recorded_is_recorded_too() -> None:
    scene = Scene("a").cloned("a")
    event = observations.RemoteJobObserved(
        namespace=NS, name="made", uid="uid-made", kind=RAY_CLUSTER.name, resource_version="1", prebuilt=WL, status="0"
    )
    scene.fold(STREAM, event, "a")
    made = copy(RAY_CLUSTER, RAY_SPEC, owner("ray.io/v1", "RayJob"))
    ended = scene.fleet.observe(sighting("a", RAY_CLUSTER, made, gone=True), START)
    assert ended is not None
    assert isinstance(ended.event, observations.RemoteJobGone)


# --- what people make of a copy ---------------------------------------------------------------------------------------


def by_hand(scene: Scene, **changes: Any) -> Scene:
    """Somebody made a job of another name of the copy on `a`, with all of its labels and annotations."""
    fields = {"status": "dd" * 32, "suspended": True, "prebuilt": WL, **changes}
    event = observations.RemoteJobObserved(
        namespace=NS, name="train-again", uid="by-hand", kind=JOBS.name, resource_version="9", **fields
    )
    scene.fold(STREAM, event, "a")
    return scene


def test_a_job_of_another_name_is_neither_relayed_nor_removed() -> None:
    scene = by_hand(settled()).tick(seconds=5)
    assert scene.names() == []
    removal = only(scene.workload({"Finished": ("Succeeded", "")}).decide(), RemovalDecided)
    assert (removal.of, removal.uid) == ("Job", "rjob-a")


def test_its_end_is_not_that_of_the_users_job() -> None:
    scene = settled()
    gone = observations.RemoteJobGone(namespace=NS, name="train-again", uid="by-hand", kind=JOBS.name)
    by_hand(scene, finished=True).fold(STREAM, gone, "a")
    assert scene.names() == []
    assert retry(scene.remote_job_gone("a").decide()).message == GONE


def test_one_that_was_seen_before_the_workload_is_dropped() -> None:
    """Nobody knows the name of the user's job until its Workload is seen."""
    scene = by_hand(Scene("a"), finished=True).job()
    scene.workload({"QuotaReserved": True})
    assert not scene.state.remotes
    assert scene.names() == ["Nomination", "Clone a"]


def test_nor_does_one_of_a_clone_stay() -> None:
    scene = by_hand(Scene("a").clone("a"), finished=True).job()
    scene.workload({"QuotaReserved": True})
    assert (scene.state.remote("a").job, scene.state.ended) == (None, {})
