"""Why a Workload waits for quota, from the log of a service that decides on it."""

from __future__ import annotations

import json
import random
from datetime import timedelta

import pytest
from click.testing import CliRunner

from controlplane.audit.past import queues_at
from controlplane.audit.queues_seen import cluster_queues_of
from controlplane.audit.quota_load import load
from controlplane.audit.quota_wait import answer, plain, sentences, waits
from controlplane.audit.reads import READ, LogReader
from controlplane.cli import cli
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.observations import Condition, WorkloadObserved
from controlplane.controllers.quota.admission.repeated_preemption import tried_from
from controlplane.controllers.quota.engine.explain import explain
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.kube.slices import REPLACEMENT_FOR
from controlplane.log.event import NewEvent
from tests.audit.database import keep
from tests.audit.script import write
from tests.quota.admission.placed import pod, submit, with_topology
from tests.quota.admission.scene import NS, Scene, quota
from tests.quota.admission.test_admission_fair_sharing import SHARING, scene_of
from tests.quota.admission.test_repeated_preemption import circle, run
from tests.support.deep import deep_after


@pytest.fixture
def scene() -> Scene:
    found = Scene()
    found.queue("q", "10")
    for name, cpu in (("first", "6"), ("second", "3"), ("done", "1")):
        found.workload(name, "q", cpu)
        found.settle()
        found.pass_time(60)
    found.finish("done")
    found.settle()
    for name, cpu, priority in (("big", "4", 5), ("bigger", "5", 0), ("never", "11", 0)):
        found.workload(name, "q", cpu, priority=priority)
        found.settle()
        found.pass_time(60)
    return found


def now_of(scene: Scene) -> dict[str, object]:
    return {
        name: explain(scene.controller.index.engine, f"{NS}/{name}", scene.now.timestamp())
        for name in ("big", "bigger", "never", "first", "done", "nobody")
    }


async def test_it_is_what_the_controller_would_say(database_url: str, scene: Scene) -> None:
    await keep(database_url, scene.log, types=READ)
    said = now_of(scene)
    with LogReader.connect(database_url) as reader:
        for name, wait in said.items():
            assert waits(reader, EngineSettings(), NS, name, scene.now) == wait
    assert [name for name, wait in said.items() if wait is None] == ["first", "done", "nobody"]


REPLACED = [
    (kinds.CLUSTER_QUEUES, "q", ""),
    (kinds.LOCAL_QUEUES, "q", NS),
    (kinds.RESOURCE_FLAVORS, "default", ""),
    (kinds.NAMESPACES, NS, ""),
    (kinds.WORKLOADS, "big", NS),
]


@pytest.mark.parametrize("place", REPLACED, ids=[kind.kind for kind, _, _ in REPLACED])
async def test_so_it_is_where_a_list_shows_another_object_of_the_name(
    database_url: str, scene: Scene, place: tuple[kinds.Kind, str, str]
) -> None:
    """It shows it before it says that the one before is gone."""
    kind, name, namespace = place
    old = scene.objects.pop((kind, namespace, name))
    scene.put(kind, name, namespace, spec=old.get("spec", {}), metadata={"labels": old["metadata"].get("labels", {})})
    scene.show(kind, old, gone=True)
    await keep(database_url, scene.log, types=READ)
    said = now_of(scene)
    assert said["bigger"] is not None
    with LogReader.connect(database_url) as reader:
        for workload, wait in said.items():
            assert waits(reader, EngineSettings(), NS, workload, scene.now) == wait
        local = queues_at(reader, reader.clock())
        assert [(one["queue"], one["cluster_queue"]) for one in local] == [("q", "q")]
        (of_cluster,) = cluster_queues_of(reader, local)
        assert of_cluster["quota"][0]["nominal"] == "10"


@pytest.mark.parametrize("seed", deep_after(1, range(4)))
async def test_so_it_is_of_any_history(database_url: str, seed: int) -> None:
    """Whoever preempts whom, in whichever of two trees, and whatever had been decided before: what is read is
    enough."""
    chance = random.Random(seed)
    scene = Scene()
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    for name, cohort in (("a", "c"), ("b", "c"), ("other", "")):
        strategy = chance.choice(["StrictFIFO", "BestEffortFIFO"])
        scene.queue(name, "5", cohortName=cohort, preemption=preemption, queueingStrategy=strategy)
    for number in range(24):
        queue, cpu, priority = chance.choice("ab" * 2 + "o"), str(chance.randint(1, 4)), chance.randint(0, 2)
        scene.workload(f"w{number}", "other" if queue == "o" else queue, cpu, priority=priority)
        scene.settle()
        scene.pass_time(chance.choice([0, 1, 60]))
        for name in [key.rpartition("/")[2] for key in scene.controller.index.engine.snapshot.workloads]:
            if scene.is_true(name, "Evicted"):
                scene.release(name)
            elif chance.random() < 0.15:
                scene.finish(name)
            scene.settle()
    await keep(database_url, scene.log, types=READ)
    engine, waiting = scene.controller.index.engine, 0
    with LogReader.connect(database_url) as reader:
        for number in range(24):
            wait = explain(engine, f"{NS}/w{number}", scene.now.timestamp())
            assert waits(reader, EngineSettings(), NS, f"w{number}", scene.now) == wait
            waiting += wait is not None
    assert waiting > 3


async def test_so_it_is_where_past_usage_counts(database_url: str) -> None:
    """All samples are read: each says whose entry penalty is in it."""
    scene = scene_of("a", "b")
    for name, queue in (("hog", "a"), ("small", "b"), ("a1", "a"), ("b1", "b"), ("a2", "a")):
        scene.workload(name, queue, "1" if name == "small" else "3")
        scene.settle()
        scene.pass_time(200)
    await keep(database_url, scene.log, types=READ)
    settings, waiting = EngineSettings(admission_fair_sharing=SHARING), ("a1", "b1", "a2")
    with LogReader.connect(database_url) as reader:
        for name in waiting:
            wait = explain(scene.controller.index.engine, f"{NS}/{name}", scene.now.timestamp())
            assert wait is not None
            assert wait.used
            assert waits(reader, settings, NS, name, scene.now) == wait


async def test_in_sentences(database_url: str, scene: Scene) -> None:
    await keep(database_url, scene.log, types=READ)
    with LogReader.connect(database_url) as reader:
        found = {name: waits(reader, EngineSettings(), NS, name, scene.now) for name in ("big", "bigger", "never")}
    told = {name: list(sentences(plain(wait))) for name, wait in found.items() if wait is not None}
    assert told == {
        "big": [
            "It is number 1 of 3 that wait in ClusterQueue q.",
            (
                f"In flavor default it wants 4 of cpu, 1 is free, and 3 is missing. {NS}/first (6), {NS}/second (3) have "
                "it."
            ),
            f"It would fit if {NS}/second ended.",
        ],
        "bigger": [
            f"It is number 2 of 3 that wait in ClusterQueue q, behind {NS}/big.",
            (
                f"In flavor default it wants 5 of cpu, 1 is free, and 4 is missing. {NS}/first (6), {NS}/second (3) have "
                "it."
            ),
            f"It would fit if {NS}/first ended.",
        ],
        "never": [
            f"It is number 3 of 3 that wait in ClusterQueue q, behind {NS}/big, {NS}/bigger.",
            "In flavor default it can never fit: it wants 11 of cpu, and there are 10.",
        ],
    }


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"stopPolicy": "Hold"}, "is stopped"),
        (
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "absent"}]}},
            "references missing AdmissionCheck(s): absent",
        ),
    ],
)
async def test_a_cluster_queue_that_admits_nobody_says_why(database_url: str, spec: Json, why: str) -> None:
    scene = Scene()
    scene.queue("q", "10", **spec)
    scene.workload("w", "q", "1")
    scene.settle()
    await keep(database_url, scene.log, types=READ)
    with LogReader.connect(database_url) as reader:
        told = answer(reader, EngineSettings(), NS, "w", scene.now)
    assert told is not None
    assert told["inactive"] == why
    said = list(sentences(told))
    assert said[1:] == [
        f"ClusterQueue q is not Active ({why}).",
        "In flavor default it fits now.",
        "No estimate of when: it waits for something else than quota.",
    ]


async def test_a_slice_wants_what_the_one_before_has_not(database_url: str) -> None:
    found = Scene()
    found.queue("q", "10")
    for name, cpu, of in (
        ("train-1", "5", ""),
        ("other", "3", ""),
        ("train-2", "8", "train-1"),
        ("train-3", "11", "train-1"),
    ):
        found.workload(name, "q", cpu, annotations={REPLACEMENT_FOR: f"{NS}/{of}"} if of else None)
        found.settle()
        found.pass_time(60)
    await keep(database_url, found.log, types=READ)
    told = {}
    with LogReader.connect(database_url) as reader:
        for name in ("train-2", "train-3"):
            wait = waits(reader, EngineSettings(), NS, name, found.now)
            assert wait == explain(found.controller.index.engine, f"{NS}/{name}", found.now.timestamp())
            assert wait is not None
            told[name] = list(sentences(plain(wait)))
    place = f"It takes the place of workload slice {NS}/train-1: it keeps that one's quota, and wants more beyond it."
    assert told == {
        "train-2": [
            "It is number 1 of 2 that wait in ClusterQueue q.",
            place,
            f"In flavor default it wants 3 of cpu, 2 is free, and 1 is missing. {NS}/other (3) has it.",
            f"It would fit if {NS}/other ended.",
        ],
        "train-3": [
            f"It is number 2 of 2 that wait in ClusterQueue q, behind {NS}/train-2.",
            place,
            "In flavor default it can never fit: it wants 6 of cpu beyond 5 that the slice has, and there are 10.",
        ],
    }


async def test_as_it_was_at_a_time(database_url: str, scene: Scene) -> None:
    await keep(database_url, scene.log, types=READ)
    before = next(one for one in scene.log if one.stream == f"admission/workload/{NS}/bigger")
    with LogReader.connect(database_url) as reader:
        reader.until = before.position - 1
        wait = waits(reader, EngineSettings(), NS, "big", before.recorded_at)
        assert wait is not None
        assert wait.pending == 1
        assert waits(reader, EngineSettings(), NS, "bigger", before.recorded_at) is None


async def test_why_says_it(database_url: str, scene: Scene) -> None:
    seen = WorkloadObserved(
        namespace=NS, name="big", uid="u", resource_version="1", template="", spec_key="", queue_name="q",
        cluster_queue="", conditions=[Condition(type="QuotaReserved", status="False", reason="Pending", message="")],
    )  # fmt: skip
    await keep(database_url, scene.log, types=READ)
    await write(database_url, [NewEvent(stream=f"workload/{NS}/big", event=seen, cluster=MANAGEMENT)], types=READ)
    asked = ["--database-url", database_url, "why", f"{NS}/big"]
    said = CliRunner().invoke(cli, asked, catch_exceptions=False).stdout
    assert "It would fit if" in said
    found = json.loads(CliRunner().invoke(cli, [*asked, "-o", "json"], catch_exceptions=False).stdout)
    assert found["quota"]["position"] == 1
    assert found["quota"]["flavors"][0]["would_end"] == [f"{NS}/second"]


async def test_what_nodes_have_and_what_pods_take_of_them_is_read_too(database_url: str) -> None:
    scene = with_topology(("n1", "r1", "4"), ("n2", "r2", "1"))
    for name in ("stays", "ends"):
        pod(scene, name)
    scene.drop((kinds.PODS_OF_TOPOLOGIES, NS, "ends"))
    submit(scene, "placed", count=1)
    scene.settle()
    submit(scene, "waits", count=4)
    scene.settle()
    await keep(database_url, scene.log, types=READ)
    with LogReader.connect(database_url) as reader:
        found = load(reader, EngineSettings(), NS, "waits")
        assert found is not None
        here, there = found.engine.snapshot.topology, scene.controller.index.engine.snapshot.topology
        assert (here.nodes, here.used_by_pods, here.usage) == (there.nodes, there.used_by_pods, there.usage)
        expected = explain(scene.controller.index.engine, f"{NS}/waits", scene.now.timestamp())
        assert expected is not None
        assert waits(reader, EngineSettings(), NS, "waits", scene.now) == expected


async def test_what_it_waits_for_cannot_be_read(database_url: str) -> None:
    """A ClusterQueue that was never read does not exist for its Workloads; who asks learns what is wrong with it."""
    scene = Scene()
    scene.queue("q", "10", resourceGroups=[quota("10"), {**quota("10"), "coveredResources": ["memory"]}])
    scene.workload("w", "q", "1")
    scene.settle()
    await keep(database_url, scene.log, types=READ)
    with LogReader.connect(database_url) as reader:
        told = answer(reader, EngineSettings(), NS, "w", scene.now)
    assert told is not None
    (said,) = sentences(told)
    assert said.startswith("It is not considered: ClusterQueue q cannot be read: spec.resourceGroups[1]")
    scene.queue("q", "10")
    scene.settle()
    await keep(database_url, scene.log, "mended", READ)
    with LogReader.connect(database_url, log="mended") as reader:
        assert answer(reader, EngineSettings(), NS, "w", scene.now) is None


async def test_one_that_was_preempted_too_often_is_tried_again_later(database_url: str) -> None:
    scene = circle()
    run(scene, 60)
    paused = ""
    while not paused:
        run(scene, 1)
        waiting = [name for name in ("low", "mid", "high") if not scene.is_true(name, "QuotaReserved")]
        states = {name: scene.controller.index.workload(f"{NS}/{name}") for name in waiting}
        until = {name: tried_from(state.preempted) for name, state in states.items() if state.paused}
        paused = next((name for name, at in until.items() if at is not None and at > scene.now), "")
    await keep(database_url, scene.log, types=READ)
    with LogReader.connect(database_url) as reader:
        told = answer(reader, EngineSettings(), NS, paused, scene.now)
        assert told is not None
        (said,) = [one for one in sentences(told) if "not considered" in one]
        assert said.startswith("It is not considered: it was preempted ")
        assert " times within ten minutes, and is tried again from 2026-01-01 00:0" in said
        later = answer(reader, EngineSettings(), NS, paused, scene.now + timedelta(minutes=1))
    assert later is None or not later["inadmissible"]
    old = scene.objects[kinds.WORKLOADS, NS, paused]
    scene.drop((kinds.WORKLOADS, NS, paused))
    scene.put(kinds.WORKLOADS, paused, NS, spec=old["spec"])
    await keep(database_url, scene.log, "again", READ)
    with LogReader.connect(database_url, log="again") as reader:
        again = answer(reader, EngineSettings(), NS, paused, scene.now)
    assert again is not None
    assert not again["inadmissible"]
