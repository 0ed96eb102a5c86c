"""What is read to say why a Workload waits: as little as says it, and all that it depends on."""

from __future__ import annotations

import random
from collections import Counter

from controlplane.audit import quota_load
from controlplane.audit.reads import LogReader
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.engine.explain import explain
from controlplane.controllers.quota.engine.settings import EngineSettings
from tests.audit.database import keep
from tests.quota.admission.scene import Scene

WRITTEN = ["AdmissionWorkloadObserved", "WorkloadInadmissible", "AdmissionWorkloadObserved"]


def busy(seed: int) -> Scene:
    """Two queues of a Cohort in which some run, end and preempt, and others wait."""
    choose, scene = random.Random(seed), Scene()
    for name in ("q", "r"):
        scene.queue(name, "4", cohortName="all", preemption={"reclaimWithinCohort": "Any"})
    for number in range(30):
        scene.pass_time(choose.randrange(1, 60))
        scene.workload(f"w{number}", choose.choice("qr"), str(choose.randrange(1, 4)), priority=choose.randrange(3))
        scene.settle()
        has = [key.partition("/")[2] for key in scene.controller.index.engine.snapshot.workloads]
        if has and choose.random() < 0.3:
            scene.finish(choose.choice(has))
            scene.settle()
        for name in has:
            if scene.is_true(name, "Evicted") and scene.is_true(name, "QuotaReserved"):
                scene.release(name)
                scene.settle()
    return scene


async def test_what_is_left_out_changes_no_answer(database_url: str) -> None:
    """By the fold of everything that was recorded, for everybody who waits."""
    scene = busy(7)
    await keep(database_url, scene.log, types=AdmissionController.types)
    live, now = scene.controller.index.engine, scene.now.timestamp()
    assert len(waiting(scene)) > 5
    with LogReader.connect(database_url) as reader:
        for key in waiting(scene):
            index = quota_load.load(reader, EngineSettings(), *key.split("/"))
            assert index is not None
            assert explain(index.engine, key, now) == explain(live, key, now)
            for name, queue in live.queues.pending.items():
                found = index.engine.queues.pending[name]
                assert (set(found.active), set(found.inadmissible)) == (set(queue.active), set(queue.inadmissible))


async def test_of_others_that_wait_two_events_are_read(database_url: str) -> None:
    """What was decided, and the newest observation: of those before and after the decision one is enough."""
    scene = Scene()
    scene.queue("q", "10")
    for number, cpu in enumerate(("8", "3", "4", "5", "6")):
        scene.workload(f"w{number}", "q", cpu)
        scene.settle()
    await keep(database_url, scene.log, types=AdmissionController.types)
    of = {one.position: one.stream for one in scene.log}
    told = [stream for stream in dict.fromkeys(of.values()) if types_of(scene, stream)[-3:] == WRITTEN]
    asked, *others = [stream for stream in told if stream.removeprefix("admission/workload/") in waiting(scene)]
    assert len(others) > 2
    with LogReader.connect(database_url) as reader:
        queues = list(scene.controller.index.engine.queues.local)
        rows = reader.rows(quota_load._WORKLOADS, until=reader.head(), queues=queues, asked=asked)
    counts = Counter(of[row["position"]] for row in rows)
    assert counts[asked] == 3
    assert {counts[one] for one in others} == {2}


def types_of(scene: Scene, stream: str) -> list[str]:
    return [type(one.event).__name__ for one in scene.log if one.stream == stream]


def waiting(scene: Scene) -> list[str]:
    queues = scene.controller.index.engine.queues.pending.values()
    return [key for queue in queues for key in (*queue.active, *queue.inadmissible)]
