"""Who saw what: starts are counted on the workers, and progress is read from the management cluster."""

from __future__ import annotations

import pytest

from controlplane.kube.kinds import JOBS, WORKLOADS, Json
from controlplane.local.progress import Word, rows
from controlplane.local.witness import Witness
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.world import ClusterSpec, World


@pytest.fixture
def world() -> World:
    world = World(ClusterSpec(), {"worker-1": ClusterSpec(), "worker-2": ClusterSpec()})
    world.assemble()
    return world


def job(name: str = "train", **status: object) -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": template}, "status": status}


def report(store: Store, name: str = "train", **status: object) -> None:
    store.patch(JOBS, "default", name, {"status": status}, subresource="status")


STARTED = "2026-01-01T00:00:00Z"


def test_a_start_is_seen_once_however_often_the_status_changes(world: World) -> None:
    witness = Witness(world)
    store = world.workers["worker-1"].store
    store.create(JOBS, job())
    assert witness.starts == {}
    report(store, startTime=STARTED, active=1)
    report(store, startTime=STARTED, active=1, ready=1)
    assert witness.starts == {"train": ["worker-1"]}
    assert witness.running == {"train": "worker-1"}
    report(store, conditions=[{"type": "Complete", "status": "True"}])
    assert witness.running == {}
    assert witness.left() == ["worker-1: Job default/train"]
    store.delete(JOBS, "default", "train")
    assert witness.left() == []
    assert witness.starts == {"train": ["worker-1"]}


def test_a_job_that_is_suspended_and_resumed_starts_twice(world: World) -> None:
    witness = Witness(world)
    store = world.workers["worker-1"].store
    store.create(JOBS, job())
    report(store, startTime=STARTED, active=1)
    store.patch(JOBS, "default", "train", {"spec": {"suspend": True}})
    report(store, startTime=None, active=None)
    assert witness.running == {}
    store.patch(JOBS, "default", "train", {"spec": {"suspend": False}})
    report(store, startTime=STARTED, active=1)
    assert witness.starts == {"train": ["worker-1", "worker-1"]}
    assert witness.running == {"train": "worker-1"}


def test_two_workers_are_two_starts(world: World) -> None:
    witness = Witness(world)
    for name in ("worker-1", "worker-2"):
        world.workers[name].store.create(JOBS, job())
        report(world.workers[name].store, startTime=STARTED, active=1)
    assert witness.starts == {"train": ["worker-1", "worker-2"]}


def test_another_job_of_the_same_name_is_another_start(world: World) -> None:
    witness = Witness(world)
    store = world.workers["worker-1"].store
    for _ in range(2):
        store.create(JOBS, job())
        report(store, startTime=STARTED, active=1)
        store.delete(JOBS, "default", "train")
    assert witness.starts == {"train": ["worker-1", "worker-1"]}


def test_what_happens_on_the_management_cluster_is_no_start(world: World) -> None:
    witness = Witness(world)
    world.management.store.create(JOBS, job())
    report(world.management.store, startTime=STARTED, active=1)
    assert witness.starts == {}


def true(kind: str) -> Json:
    at = {"lastTransitionTime": STARTED, "reason": "Test", "message": ""}
    return {"type": kind, "status": "True", **at}


@pytest.mark.parametrize(
    ("of_workload", "of_job", "word"),
    [
        ({}, {}, "queued"),
        ({"nominatedClusterNames": ["worker-1"]}, {}, "offered"),
        ({"clusterName": "worker-1"}, {}, "admitted"),
        ({"clusterName": "worker-1"}, {"active": 1}, "running"),
        ({"clusterName": "worker-1"}, {"conditions": [true("Complete")]}, "admitted"),
        ({"clusterName": "worker-1", "conditions": [true("Finished")]}, {"conditions": [true("Complete")]}, "finished"),
        ({"clusterName": "worker-1", "conditions": [true("Finished")]}, {"conditions": [true("Failed")]}, "failed"),
    ],
)
def test_progress_in_one_word(world: World, of_workload: Json, of_job: Json, word: Word) -> None:
    store = world.management.store
    created = store.create(JOBS, {**job(), "status": {}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": created["metadata"]["uid"]}
    head = {"name": "job-train", "namespace": "default", "ownerReferences": [owner]}
    spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": job()["spec"]["template"]}]}
    store.admission.clear()
    store.create(WORKLOADS, {"metadata": head, "spec": spec})
    store.patch(WORKLOADS, "default", "job-train", {"status": of_workload}, subresource="status")
    report(store, **of_job)
    (row,) = rows(store)
    assert (row.job, row.workload, row.word) == ("train", "job-train", word)
    assert row.cluster == of_workload.get("clusterName", "")


def test_a_job_without_a_workload_is_queued(world: World) -> None:
    world.management.store.create(JOBS, job())
    (row,) = rows(world.management.store)
    assert (row.workload, row.word, row.cluster) == ("", "queued", "")
