"""What copies are made of: the live object, known by its hash, for every kind; never what the log has left of it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from controlplane.controllers.candidates.source import observe as source_pods
from controlplane.controllers.candidates.target import observe
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.coscheduling import observe as runs
from controlplane.controllers.multikueue.observe import WorkloadObserver
from controlplane.job_kinds import adapters_for
from controlplane.kube.kinds import JOBS, JOBSETS, PIPELINE_RUNS, PODS, WORKLOADS, Json, Kind
from controlplane.log.event import Append, Body, NewEvent, body_of
from controlplane.log.memory import MemoryStore
from controlplane.log.redaction import Redaction
from controlplane.runtime.bodies import Bodies, BodyOwner
from controlplane.runtime.controller import ObjectChange
from tests.runtime.bench import Bench, BenchLog, ManualClock
from tests.runtime.errands import PAUSE, Began, Refused, asked

PRIVATE = "hunter2"
NOW = ManualClock().now()


def private_pod() -> Json:
    env = [{"name": "TOKEN", "value": PRIVATE}]
    return {"containers": [{"name": "c", "image": "i", "env": env, "args": [PRIVATE], "command": [PRIVATE]}]}


def obj(kind: Kind, spec: Json, **more: Any) -> Json:
    metadata = {"name": "train", "namespace": "team", "uid": "u-1", "resourceVersion": "7"}
    annotations = {"example.com/note": PRIVATE, "kueue.x-k8s.io/prebuilt-workload-name": "wl"}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    head = {**metadata, "labels": labels, "annotations": annotations}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": head, "spec": spec, **more}


STEP = {
    "taskSpec": {"steps": [{"image": "i", "script": PRIVATE, "env": [{"name": "A", "value": PRIVATE}]}]},
    "name": "t",
}
PIPELINE = {"tasks": [STEP]}
JOB = obj(JOBS, {"managedBy": "kueue.x-k8s.io/multikueue", "template": {"spec": private_pod()}})
JOB_SET = obj(
    JOBSETS,
    {
        "managedBy": "kueue.x-k8s.io/multikueue",
        "replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": private_pod()}}}}],
    },
)
RUN = obj(
    PIPELINE_RUNS,
    {"pipelineSpec": PIPELINE, "params": [{"name": "p", "value": PRIVATE}], "managedBy": "kueue.x-k8s.io/multikueue"},
    status={"pipelineSpec": PIPELINE, "conditions": []},
)
WORKLOAD = obj(WORKLOADS, {"podSets": [{"name": "main", "count": 1, "template": {"spec": private_pod()}}]})
POD = obj(PODS, {**private_pod(), "schedulerName": source_pods.objects.SCHEDULER_NAME})
CANDIDATE = obj(
    observe.CANDIDATES,
    {
        "source": {"cluster": "c", "namespace": "team", "name": "train", "uid": "u", "epoch": 1},
        "template": {"metadata": {"annotations": {"example.com/note": PRIVATE}}, "spec": private_pod()},
    },
)


def multikueue(cluster: str, kind: Kind, found: Json) -> NewEvent | None:
    kinds = ["batch/job", "jobset.x-k8s.io/jobset", "tekton.dev/pipelinerun"]
    observer = WorkloadObserver(adapters_for(kinds), "kueue.x-k8s.io/multikueue", lambda *_: "")
    return observer.observe(ObjectChange(cluster, "life", kind, found, "7", False), NOW)


def recorded(built: tuple[str, Any, tuple[Body, ...]]) -> NewEvent:
    stream, event, bodies = built
    return NewEvent(stream=stream, event=event, bodies=bodies)


def broken(found: Json, **spec: Any) -> Json:
    return {**copy.deepcopy(found), "status": 7, **spec}


SEEN: dict[str, NewEvent | None] = {
    "Job": multikueue(MANAGEMENT, JOBS, JOB),
    "JobSet": multikueue(MANAGEMENT, JOBSETS, JOB_SET),
    "PipelineRun": multikueue(MANAGEMENT, PIPELINE_RUNS, RUN),
    "Workload": multikueue(MANAGEMENT, WORKLOADS, WORKLOAD),
    "PipelineRun on a worker": multikueue("a", PIPELINE_RUNS, RUN),
    "refused Job": multikueue(MANAGEMENT, JOBS, broken(JOB)),
    "source pod": recorded(source_pods.source_pod(POD)),
    "Candidate": observe.observe(ObjectChange(MANAGEMENT, "l", observe.CANDIDATES, CANDIDATE, "7", False), NOW),
    "refused Candidate": observe.observe(
        ObjectChange(MANAGEMENT, "l", observe.CANDIDATES, broken(CANDIDATE), "7", False), NOW
    ),
    "run beside its worker": runs.observe(ObjectChange(MANAGEMENT, "l", PIPELINE_RUNS, RUN, "7", False), NOW, "tekton"),
}


class Log(BenchLog):
    """A log of any event: what is asked of it here is its bodies."""

    async def store(self, bodies: Sequence[Body]) -> None:
        await self.append(Append([asked(body.ref, body=body) for body in bodies]))


@pytest.fixture
async def log() -> Log:
    made = Log(MemoryStore(), ManualClock())
    await made.take_epoch("bench")
    return made


@pytest.mark.parametrize("what", SEEN)
async def test_of_every_kind_the_log_keeps_nothing_private_and_copies_have_all(log: Log, what: str) -> None:
    new = SEEN[what]
    assert new is not None
    assert PRIVATE in "".join(body.text for body in new.bodies), "there is something to leave out"
    stored = Redaction().stored(new)
    assert PRIVATE not in "".join(body.text for body in stored.bodies)
    kept = stored.event.kept  # type: ignore[attr-defined]
    assert kept, "the event names what was stored"
    assert set(kept.values()) <= {body.ref for body in stored.bodies}
    await log.store(stored.bodies)
    refs = [body.ref for body in new.bodies]
    whole = {body.ref: body.text.encode() for body in new.bodies}
    after_restart = Bodies(log)
    found = await after_restart.get(refs)
    assert all(found[ref] == whole[ref] for ref in found), "what the log gives is what was seen, byte for byte"
    assert not any(PRIVATE.encode() in text for text in found.values())
    assert len(found) < len(refs)
    after_restart.saw(ObjectChange(MANAGEMENT, "l", JOBS, JOB, "7", False), new.bodies)
    assert await after_restart.get(refs) == whole


async def test_what_the_memory_let_go_is_looked_at_where_it_was_seen(log: Log) -> None:
    one, other = body_of({"a": 1}), body_of({"b": 2})
    bodies, looked = Bodies(log, limit=1), []

    async def look(place: BodyOwner) -> Sequence[Body]:
        looked.append(place)
        return [one]

    bodies.look = look
    sighting = ObjectChange("east", "l", JOBS, JOB, "7", False)
    bodies.saw(sighting, [one])
    bodies.keep([other])
    assert await bodies.get([one.ref]) == {one.ref: one.text.encode()}
    assert looked == [BodyOwner("east", JOBS, "team", "train")]
    bodies.saw(sighting, [other])
    bodies.keep([body_of({"c": 3})])
    assert await bodies.get([one.ref]) == {}, "the object has changed: there is no such content any more"
    bodies.saw(ObjectChange("east", "l", JOBS, JOB, "9", True), [])
    assert await bodies.get([other.ref]) == {}
    assert len(looked) == 1


async def test_what_is_found_there_counts_only_if_it_is_what_was_asked_for(log: Log) -> None:
    one, now = body_of({"a": 1}), body_of({"a": 2})
    bodies = Bodies(log, limit=1)

    async def look(place: BodyOwner) -> Sequence[Body]:
        return [now]

    bodies.look = look
    bodies.saw(ObjectChange("east", "l", JOBS, JOB, "7", False), [one])
    bodies.keep([body_of({"b": 2})])
    assert await bodies.get([one.ref]) == {}


async def test_a_write_waits_without_a_word_until_everything_is_listed(running: Bench) -> None:
    listed = [False]
    running.bodies.complete = lambda: listed[0]
    whole = body_of({"a": PRIVATE})
    await running.tell(asked_without(whole))
    await running.pass_(30.0)
    assert not running.east.requests
    assert running.events(Refused) == []
    running.bodies.keep([whole])
    listed[0] = True
    await running.pass_(5.0)
    assert running.capability.given == {"a": {whole.ref: whole.text.encode()}}


async def test_a_decision_on_what_is_there_no_more_is_taken_anew(running: Bench) -> None:
    await running.tell(asked_without(body_of({"a": PRIVATE})))
    await running.pass_(5.0)
    (refused,) = running.events(Refused)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.error) == (409, "Conflict")
    await running.pass_(PAUSE + 60.0)
    assert len(running.events(Refused)) == 1, "what names the same again waits without a word"
    assert len(running.events(Began)) == 2
    assert not running.east.requests
    await running.pass_(600.0)
    assert 2 <= len(running.events(Refused)) <= 4, "and is asked about again now and then"


async def test_what_waits_is_carried_out_once_it_is_at_hand(running: Bench) -> None:
    whole = body_of({"a": PRIVATE})
    await running.tell(asked_without(whole))
    await running.pass_(60.0)
    assert not running.east.requests
    running.bodies.keep([whole])
    await running.pass_(20.0)
    assert running.capability.given == {"a": {whole.ref: whole.text.encode()}}


def asked_without(body: Body) -> NewEvent:
    """A wish whose body is not in the log."""
    new = asked("a", body=body)
    return NewEvent(stream=new.stream, event=new.event)
