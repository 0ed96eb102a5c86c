"""Workloads that go again and again, as the garbage collector takes those of an owner that is gone and out of sight."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta

import pytest

from controlplane.controllers.jobframework.events import JobWorkloadCreationDecided
from controlplane.controllers.jobframework.set_events import SetWorkloadCreationDecided
from controlplane.kube.kinds import JOBS, WORKLOADS, meta
from controlplane.simulation.apiserver.errors import ApiRefusal
from tests.jobframework.scene import NS, Scene, job
from tests.jobframework.set_scene import GROUPS, STATEFUL_SET
from tests.jobframework.set_scene import waiting as waiting_set
from tests.jobframework.test_jobs_more import waiting

CREATED = (JobWorkloadCreationDecided, SetWorkloadCreationDecided)
OWNERS = [waiting, lambda: waiting_set(STATEFUL_SET), lambda: waiting_set(GROUPS)]


def made(scene: Scene) -> int:
    return sum(len(scene.decided(one)) for one in CREATED)


def later(scene: Scene, seconds: float) -> None:
    """The time comes at which everything is looked at again."""
    scene.clock.move(seconds)
    scene.controller.index._enqueue(scene.controller.index.states)


def collected(scene: Scene, seconds: int = 0) -> None:
    """A garbage collector takes each Workload as soon as it is there, as long as anything follows, and for a while."""
    end = scene.clock.now() + timedelta(seconds=seconds)
    while True:
        for _ in range(60):
            for one in scene.workloads():
                with contextlib.suppress(ApiRefusal):
                    scene.store.delete(WORKLOADS, NS, meta(one)["name"])
            found = scene.decide()
            for write in (writes := scene.open_writes()):
                scene.carry_out(write)
            if not found and not writes and not scene.workloads():
                break
        else:
            raise AssertionError("it does not come to rest")
        if scene.wake is None or scene.wake > end:
            return
        later(scene, (scene.wake - scene.clock.now()).total_seconds())


@pytest.mark.parametrize("scene", OWNERS, ids=["Job", "StatefulSet", "LeaderWorkerSet"])
def test_an_owner_that_went_unseen_gets_no_workload_at_full_speed(scene: Callable[[], Scene]) -> None:
    found = scene()
    groups, before = len(found.workloads()), made(found)
    collected(found)
    assert made(found) - before == groups  # one more of each at once, as where a person has deleted it
    collected(found, seconds=600)
    assert made(found) - before <= 16 * groups


def test_a_job_gets_its_next_workload_once_it_has_waited() -> None:
    scene = waiting()
    collected(scene)
    assert scene.workloads() == []
    later(scene, 1)
    scene.settle()
    assert len(scene.workloads()) == 1


def test_a_workload_that_goes_long_after_the_last_one_is_made_anew_at_once() -> None:
    scene = waiting()
    for _ in range(5):
        scene.store.delete(WORKLOADS, NS, meta(scene.workload())["name"])
        scene.settle()
        assert len(scene.workloads()) == 1
        later(scene, 180)


def test_another_job_of_the_name_waits_for_nothing() -> None:
    scene = waiting()
    collected(scene)
    scene.store.delete(JOBS, NS, "a")
    scene.settle()
    scene.create(job())
    scene.settle()
    assert len(scene.workloads()) == 1
