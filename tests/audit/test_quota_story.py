"""What admission and the job framework recorded is told of a Workload, once, and to whom it concerns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from controlplane.audit.find import Found, events_of, find, nearest
from controlplane.audit.inspect import inspect
from controlplane.audit.no_workload import without_workload
from controlplane.audit.quota_story import OF_JOB, OF_WORKLOAD, about, explain_admission
from controlplane.audit.reads import READ, LogReader
from controlplane.audit.states import own_replay
from controlplane.audit.timeline import TimelineEntry, moments
from controlplane.cli import cli
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.jobframework import events as jobs
from controlplane.controllers.multikueue.observations import JobObserved, Owner, WorkloadGone, WorkloadObserved
from controlplane.controllers.quota.admission import events as admission
from controlplane.log.event import Event, NewEvent, Recorded
from tests.audit.database import keep
from tests.audit.samples import sample
from tests.audit.script import POLICY, write
from tests.jobframework import scene as of_jobs
from tests.quota.admission.scene import NS, START, Scene
from tests.support.rows import each

NEEDED = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, {} more needed"


@pytest.fixture(scope="module")
def scene() -> Scene:
    """One is admitted, one waits, and a third one preempts the first one and finishes."""
    found = Scene()
    found.queue("q", "10", preemption={"withinClusterQueue": "LowerPriority"})
    for name, cpu, priority in (("low", "8", 0), ("wait", "9", 0), ("high", "6", 5)):
        found.workload(name, "q", cpu, priority=priority)
        found.settle()
        found.pass_time(60)
    found.release("low")
    found.settle()
    found.pass_time(60)
    found.finish("high")
    found.settle()
    return found


@pytest.fixture(scope="module")
def job_scene() -> of_jobs.Scene:
    """A job gets a Workload, is started when that is admitted, and stopped when it is evicted."""
    found = of_jobs.Scene()
    found.flavor()
    found.create(of_jobs.job())
    found.settle()
    found.admit()
    found.settle()
    found.evict()
    found.settle()
    return found


def of(scene: Scene, name: str) -> list[Recorded]:
    return [one for one in scene.log if one.stream == f"{OF_WORKLOAD}{NS}/{name}"]


def lines(told: Sequence[TimelineEntry]) -> list[str]:
    return [moment.what for moment in told if moment.noteworthy]


def log(*events: tuple[str, Event]) -> list[Recorded]:
    return [
        Recorded(position=number, stream=stream, version=number, event=event, cluster=MANAGEMENT, recorded_at=START)
        for number, (stream, event) in enumerate(events, start=1)
    ]


def test_a_reservation_a_preemption_and_the_wait_after_it(scene: Scene) -> None:
    told = moments(of(scene, "low"))
    assert lines(told) == [
        "Workload is in LocalQueue q",
        "quota is to be reserved and the Workload admitted in q: default: cpu 8",
        f"Workload is to be preempted for {NS}/high (InClusterQueue)",
        "quota of q changes by default: cpu -8",
        "Workload's status is to say: Admitted False (NoReservation), QuotaReserved False (PendingEvaluation)",
        f"Workload has to wait in q (WaitingForQuota): {NEEDED.format(4)}",
        "quota is to be reserved and the Workload admitted in q: default: cpu 8",
    ]
    why = {moment.type: moment.why for moment in told}
    assert "due to prioritization in the ClusterQueue" in why["WorkloadPreemptionDecided"]
    assert why["QuotaPosted"] == "the Workload has no reservation any more"


def test_whoever_preempts_says_whom_and_a_wait_is_told_once(scene: Scene) -> None:
    told = moments(of(scene, "high"))
    waits = [moment for moment in told if moment.type == "WorkloadInadmissible"]
    assert [moment.noteworthy for moment in waits] == [True] + [False] * (len(waits) - 1)
    assert len(waits) > 1
    assert waits[0].what.endswith(f"Pending the preemption of 1 workload(s); preempted for it: {NS}/low")


def test_a_wait_with_another_message_is_told(scene: Scene) -> None:
    waits = [one for one in lines(moments(of(scene, "wait"))) if "has to wait" in one]
    assert waits == [f"Workload has to wait in q (WaitingForQuota): {NEEDED.format(amount)}" for amount in (7, 5, 7)]


def test_the_way_of_a_job(job_scene: of_jobs.Scene) -> None:
    told = moments(one for one in job_scene.log if one.stream.startswith("jobframework/job/"))
    name = job_scene.workload()["metadata"]["name"]
    assert lines(told) == [
        "job is suspended, in queue user-queue",
        f"Workload {name} is to be created for 2 of main",
        f"Workload {name} waits",
        f"Workload {name} is admitted",
        "job is to start, admitted by cq: 2 of main",
        "job runs, in queue user-queue",
        f"Workload {name} is evicted",
        "job is to be suspended",
        "job is suspended, in queue user-queue",
        "pod templates of the job are to be what they were",
        f"quota of Workload {name} is to be free",
    ]
    by_type = {moment.type: moment.why for moment in told}
    assert by_type["JobStartDecided"] == "its Workload is admitted"
    assert by_type["JobWorkloadObserved"] == "Preempted to accommodate a workload"


SEEN_BY_ALL = (
    ("job/jobs.batch/team/a", sample(JobObserved, namespace="team", name="a")),
    ("jobframework/job/jobs.batch/team/a", sample(jobs.QueuedJobObserved, namespace="team", name="a")),
    ("workload/team/w", sample(WorkloadObserved, namespace="team", name="w")),
    ("admission/workload/team/w", sample(admission.AdmissionWorkloadObserved, namespace="team", name="w")),
    ("jobframework/job/jobs.batch/team/a", sample(jobs.JobWorkloadObserved, namespace="team", name="w")),
)


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        ((0, 1, 2, 3, 4), ["JobObserved", "WorkloadObserved"]),
        ((1, 3, 4), ["QueuedJobObserved", "JobWorkloadObserved"]),
        ((1, 2, 3, 4), ["QueuedJobObserved", "WorkloadObserved"]),
        ((3,), ["AdmissionWorkloadObserved"]),
    ],
)
def test_what_several_saw_is_told_once(recorded: tuple[int, ...], told: list[str]) -> None:
    found = moments(log(*(SEEN_BY_ALL[number] for number in recorded)))
    assert len(found) == len(recorded)
    assert [moment.type for moment in found if moment.noteworthy] == told


def test_the_same_message_is_told_again_after_a_reservation() -> None:
    wait = sample(admission.WorkloadInadmissible, message="no quota", why="WaitingForQuota")
    stream = "admission/workload/team/w"
    events = [wait, wait, sample(admission.QuotaReservationDecided), wait, wait]
    told = moments(log(*((stream, event) for event in events)))
    assert [moment.noteworthy for moment in told] == [True, False, True, True, False]


def test_what_did_not_happen_is_not_told() -> None:
    refused = sample(admission.AdmissionWriteFailed, code=409)
    events = [sample(admission.AdmissionWriteUnneeded), sample(jobs.JobWriteUnneeded), refused]
    events.append(msgspec.structs.replace(refused, code=403, message="no right"))
    told = moments(log(*(("admission/workload/team/w", event) for event in events)))
    assert [(moment.noteworthy, moment.why) for moment in told][-1] == (True, "no right")
    assert not any(moment.noteworthy for moment in told[:-1])


def test_another_workload_of_the_job_and_another_job_are_left_out() -> None:
    stream = "jobframework/job/jobs.batch/team/a"
    owner = jobs.QueuedOwner(api_version="batch/v1", kind="Job", name="a", uid="now")
    events = log(
        (stream, sample(jobs.QueuedJobObserved, uid="before")),
        (stream, sample(jobs.JobWorkloadCreationDecided, name="old")),
        (stream, sample(jobs.JobStartDecided, workload="old", uid="before")),
        (stream, sample(jobs.QueuedJobObserved, uid="now")),
        (stream, sample(jobs.JobWorkloadCreationDecided, name="w")),
        (stream, sample(jobs.JobWorkloadObserved, name="w", owner=owner)),
        (stream, sample(jobs.JobStopDecided, uid="now")),
        (stream, sample(jobs.JobWriteFailed, target="Workload/old")),
        ("workload/team/w", sample(WorkloadGone)),
    )
    assert [one.position for one in about(events, "w")] == [4, 5, 6, 7, 9]
    assert about(events, "") == events


CONDITIONS: Sequence[tuple[dict[str, Any], str, str]] = [
    ({}, "Pending", "It waits for quota."),
    ({"QuotaReserved": ("False", "no room")}, "Pending", "It waits for quota: no room."),
    ({"QuotaReserved": ("True", "")}, "Reserved", "It has quota in q and waits for admission check mk."),
    ({"QuotaReserved": ("True", ""), "Admitted": ("True", "")}, "Admitted", "It is admitted by ClusterQueue q."),
    ({"QuotaReserved": ("True", ""), "Evicted": ("True", "for another")}, "Evicted", "It is evicted: for another."),
    ({"Finished": ("True", "done.")}, "Finished", "It has finished: done."),
]


def test_one_that_a_check_rejected_is_not_tried_for_quota() -> None:
    status = {
        "conditions": [
            {"type": "QuotaReserved", "status": "False", "message": "The workload has failed admission checks"}
        ],
        "admissionChecks": [{"name": "mk", "state": "Rejected"}],
    }
    seen = sample(admission.AdmissionWorkloadObserved, status=status, active=True, deleting=False, queue="q2")
    found = explain_admission(log(("admission/workload/team/w", seen)))
    assert found is not None
    reset = "its admission check mk, which is Rejected, to be reset"
    assert (found.standing.word, found.standing.waits_for) == ("Pending", reset)
    assert found.sentence.startswith(
        f"It has no quota, and is not tried for any: it waits for {reset}: The workload has"
    )


@each(("conditions", "word", "sentence"), CONDITIONS)
def test_how_far_it_is_by_admission_alone(conditions: dict[str, Any], word: str, sentence: str) -> None:
    said = [{"type": kind, "status": value, "message": text} for kind, (value, text) in conditions.items()]
    status = {
        "conditions": said,
        "admission": {"clusterQueue": "q"},
        "admissionChecks": [{"name": "mk", "state": "Pending"}],
    }
    seen = sample(admission.AdmissionWorkloadObserved, status=status, active=True, deleting=False)
    found = explain_admission(log(("admission/workload/team/w", seen)))
    assert found is not None
    assert (found.standing.word, found.sentence) == (word, sentence)
    last = ("admission/workload/team/w", sample(admission.AdmissionWorkloadGone))
    gone = explain_admission(log(("admission/workload/team/w", seen), last))
    assert gone is not None
    assert gone.standing.word == "Deleted"
    assert explain_admission(log(("workload/team/w", sample(WorkloadGone)))) is None


def test_one_that_was_made_again_is_not_told_of_the_one_before() -> None:
    """A list shows it before it says that the one before is gone."""
    stream = "admission/workload/team/w"
    first = sample(admission.AdmissionWorkloadObserved, active=True, deleting=False)
    second = msgspec.structs.replace(first, uid="second", status={})
    events = log(
        *((stream, one) for one in (first, sample(admission.WorkloadInadmissible), second)),
        (stream, sample(admission.AdmissionWorkloadGone, uid=first.uid)),
    )
    found = explain_admission(events)
    assert found is not None
    assert (found.standing.word, found.sentence) == ("Pending", "It waits for quota.")
    assert [one.position for one in found.events] == [3]


def test_a_job_that_was_made_again_is_there() -> None:
    seen = sample(jobs.QueuedJobObserved)
    first, second = (sample(jobs.QueuedJobGone, uid=uid) for uid in (seen.uid, "second"))
    events: list[Event] = [seen, msgspec.structs.replace(seen, uid="second"), first, second]
    told = log(*((f"{OF_JOB}Job/team/j", one) for one in events))
    assert without_workload(told[:3]).standing.word == "Pending"
    assert without_workload(told).standing.word == "Deleted"


# --- from a log -------------------------------------------------------------------------------------------------------


async def test_found_in_the_stream_of_admission_alone(database_url: str, scene: Scene) -> None:
    await keep(database_url, scene.log, types=READ)
    with LogReader.connect(database_url) as reader:
        found = find(reader, NS, "low")
        assert found == Found("", [], quota=[f"{OF_WORKLOAD}{NS}/low"])
        assert (found.key, found.stream) == (f"{NS}/low", f"{OF_WORKLOAD}{NS}/low")
        assert events_of(reader, found) == of(scene, "low")
        assert find(reader, NS, "q") is None  # a LocalQueue is no Workload
        assert nearest(reader, NS, "hihg") == [f"{NS}/high"]


async def test_found_by_the_job_and_by_the_workload(database_url: str, job_scene: of_jobs.Scene) -> None:
    name = job_scene.workload()["metadata"]["name"]
    stream, admitted = "jobframework/job/jobs.batch/default/a", f"{OF_WORKLOAD}default/{name}"
    seen = sample(admission.AdmissionWorkloadObserved, namespace="default", name=name)
    await keep(database_url, job_scene.log, types=READ)
    with LogReader.connect(database_url) as reader:
        assert find(reader, "default", "a") == Found("", [], quota=[stream])
    await write(database_url, [NewEvent(stream=admitted, event=seen, cluster=MANAGEMENT)], types=READ)
    with LogReader.connect(database_url) as reader:
        wanted = Found("", [], quota=[admitted, stream])
        assert find(reader, "default", "a") == wanted
        assert find(reader, "default", name) == wanted
        assert wanted.job_names == ["jobs.batch/default/a"]
    owner = Owner(api_version="batch/v1", kind="Job", name="a", uid="u")
    ours = sample(WorkloadObserved, namespace="default", name=name, owner=owner)
    await write(database_url, [NewEvent(stream=f"workload/default/{name}", event=ours, cluster=MANAGEMENT)], types=READ)
    with LogReader.connect(database_url) as reader:
        wanted = Found(f"workload/default/{name}", [], quota=[admitted, stream])
        assert find(reader, "default", name) == wanted
        assert find(reader, "default", "a") == wanted


def invoke(url: str, *words: str) -> str:
    result = CliRunner().invoke(cli, ["--database-url", url, *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


async def test_a_job_of_which_multikueue_has_a_stream_too_says_why_it_has_no_workload(database_url: str) -> None:
    scene = of_jobs.Scene()
    scene.create(of_jobs.job(labels={"kueue.x-k8s.io/priority-class": "absent"}))
    scene.settle()
    seen = sample(JobObserved, namespace="default", name="a")
    await keep(database_url, scene.log, types=READ)
    await write(database_url, [NewEvent(stream="job/jobs.batch/default/a", event=seen, cluster=MANAGEMENT)], types=READ)
    assert 'WorkloadPriorityClass "absent" not found' in invoke(database_url, "why", "default/a")


async def test_the_verbs_tell_it(database_url: str, scene: Scene) -> None:
    await keep(database_url, scene.log, types=READ)
    preempted = next(one for one in of(scene, "low") if isinstance(one.event, admission.WorkloadPreemptionDecided))

    told = json.loads(invoke(database_url, "timeline", f"{NS}/low", "-o", "json"))
    assert told["workload"] == f"{OF_WORKLOAD}{NS}/low"
    assert [one["what"] for one in told["moments"]] == lines(moments(of(scene, "low")))
    assert f"preempted for {NS}/high" in invoke(database_url, "timeline", f"{NS}/low")
    assert invoke(database_url, "timeline", f"{NS}/low", "-o", "svg").startswith("<svg")

    why = json.loads(invoke(database_url, "why", f"{NS}/wait", "-o", "json"))
    assert (why["state"], why["quota"]["cluster_queue"]) == ("Pending", "q")
    assert why["sentence"].startswith("It waits for quota: couldn't assign flavors")
    assert invoke(database_url, "why", f"{NS}/low").startswith("Admitted: It is admitted by ClusterQueue q.")
    assert "Pending" in invoke(database_url, "describe", "workload", f"{NS}/wait")

    (event,) = json.loads(invoke(database_url, "events", "--type", "WorkloadPreemptionDecided", "-o", "json"))
    assert (event["position"], event["reason"]) == (preempted.position, "PreemptedForAnother")
    assert event["caused_by"] == preempted.caused_by > 0

    found = json.loads(invoke(database_url, "inspect", str(preempted.position), "-o", "json"))
    assert found["causes"][0]["position"] == preempted.caused_by
    assert found["left_alone"] == ""
    assert found["before"]["observed"]["name"] == "low"
    assert next(iter(found["after"]["effects"].values()))["position"] == preempted.position
    assert [(one["action"], one["outcome"]) for one in found["requests"]][:1] == [("WorkloadPreemptionDecided", "done")]


async def test_how_each_write_of_admission_ended(database_url: str, scene: Scene) -> None:
    """By the state that its controller has: what came between a write and its outcome ends it not."""
    await keep(database_url, scene.log, types=READ)
    open_until: dict[int, int] = {}
    for name in ("low", "wait", "high"):
        replay = own_replay(f"{OF_WORKLOAD}{NS}/{name}")
        for one in of(scene, name):
            replay.fold(one)
            for position in [effect.position for effect in replay.state().effects.values()]:
                open_until[position] = one.position
    assert open_until
    with LogReader.connect(database_url) as reader:
        for position, until in open_until.items():
            found = inspect(reader, POLICY, position)
            assert found is not None
            (request,) = [one for one in found.requests if one.position == position]
            assert request.settled_by is not None
            assert request.settled_by > until


async def test_how_each_write_of_the_job_framework_ended(database_url: str, job_scene: of_jobs.Scene) -> None:
    await keep(database_url, job_scene.log, types=READ)
    writes = [one.position for one in job_scene.log if isinstance(one.event, jobs.JobWrite)]
    with LogReader.connect(database_url) as reader:
        found = [inspect(reader, POLICY, position) for position in writes]
    outcomes = {one.action: one.outcome for story in found if story is not None for one in story.requests}
    assert outcomes["JobWorkloadCreationDecided"] == outcomes["JobStartDecided"] == outcomes["JobStopDecided"] == "done"
