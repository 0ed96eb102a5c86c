"""A story is told from the events alone, and tells what changed."""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.audit.timeline import TimelineEntry, moments
from controlplane.controllers.multikueue.events import (
    EffectFailed,
    EffectUnneeded,
    NamesClearDecided,
    NominationDecided,
    RemovalDecided,
    StatusRelayDecided,
)
from controlplane.controllers.multikueue.observations import (
    CloneGone,
    CloneObserved,
    JobObserved,
    RemoteJobObserved,
    WorkloadGone,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.log.event import Event, Recorded, Unknown
from tests.audit.samples import sample
from tests.audit.script import Script
from tests.audit.stories import TRAIN, everything, happy, lost
from tests.support.rows import each

HAPPY = """\
job is suspended
Workload waits for quota
Workload has quota in cq
offered to a, b, c (attempt 1)
a copy is to be created (attempt 1)
b copy is to be created (attempt 1)
c copy is to be created (attempt 1)
a copy waits for quota
b copy waits for quota
c copy waits for quota
b copy is admitted
a copy is admitted
b chosen (attempt 1)
a copy is to be removed
c copy is to be removed
b job's copy is to be created (attempt 1)
a copy is gone
c copy is gone
b job's copy is suspended
admission check is to be Ready
Workload is admitted
job may start
b job's copy runs
job's status is to be copied
job runs
b job's copy finished
job's last status is to be copied
job finished
b copy finished (Succeeded)
Workload is to finish (Succeeded)
Workload finished (Succeeded)
b job's copy is to be removed
b job's copy is gone
b copy is to be removed
b copy is gone"""


def told(*events: Event | Unknown, cluster: str = "a") -> list[TimelineEntry]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return moments(
        Recorded(position=number, stream="s", version=number, event=event, cluster=cluster, recorded_at=at)
        for number, event in enumerate(events, start=1)
    )


def story(script: Script, name: str) -> list[TimelineEntry]:
    job = name.removesuffix("-0a1b2")
    return moments(e for e in script.recorded if e.stream.endswith((f"/{name}", f"jobs.batch/default/{job}")))


def lines(told: list[TimelineEntry]) -> list[str]:
    return [f"{moment.cluster} {moment.what}".removeprefix("@management ") for moment in told if moment.noteworthy]


def test_the_story_of_a_job_that_runs_through() -> None:
    script = Script("a", "b", "c")
    happy(script)
    assert "\n".join(lines(story(script, TRAIN))) == HAPPY


def job(*, suspended: bool = False, inactive: bool = True, finished: bool = False) -> JobObserved:
    return sample(JobObserved, uid="j", suspended=suspended, inactive=inactive, finished=finished, deleting=False)


RUN = [job(suspended=True), job(), job(inactive=False)]
"""A job of the management cluster until it runs."""


@each(
    ("seen", "said"),
    [
        ([*RUN, job(), job(finished=True)], ["nothing of the job runs any more", "job finished"]),
        ([*RUN, job(finished=True)], ["job finished"]),
        # a pod failed and another one is tried
        ([*RUN, job(), job(), job(inactive=False)], ["nothing of the job runs any more", "job runs"]),
        # it was suspended meanwhile
        ([*RUN, job(suspended=True), job()], ["job is suspended", "job may start"]),
    ],
)
def test_a_job_whose_pods_have_ended_may_not_start(seen: list[Event], said: list[str]) -> None:
    assert lines(told(*seen, cluster="@management")) == ["job is suspended", "job may start", "job runs", *said]


def test_a_copy_whose_pods_have_ended_may_not_start_either() -> None:
    states = [{"suspended": True}, {}, {"inactive": False}, {}, {"finished": True}]
    seen = [
        sample(
            RemoteJobObserved,
            uid="c",
            deleting=False,
            made_for="",
            **{"suspended": False, "inactive": True, "finished": False, **one},
        )
        for one in states
    ]
    assert lines(told(*seen)) == [
        "a job's copy is suspended",
        "a job's copy may start",
        "a job's copy runs",
        "a nothing of the job's copy runs any more",
        "a job's copy finished",
    ]


def test_the_status_of_a_dispatched_job_is_told_as_it_was() -> None:
    found = lines(told(sample(NominationDecided, attempt=1, clusters=["a"]), *RUN, job(), cluster="@management"))
    assert found[-2:] == ["job runs", "job may start"]


def test_progress_is_no_news() -> None:
    script = Script("a", "b", "c")
    happy(script)
    relays = [moment for moment in story(script, TRAIN) if moment.type == "StatusRelayDecided"]
    assert len(relays) > 3
    assert [moment.what for moment in relays if moment.noteworthy] == [
        "job's status is to be copied",
        "job's last status is to be copied",
    ]


def test_why_names_the_cluster_that_was_lost() -> None:
    script = Script("a", "b", "c")
    life = lost(script)
    retry = next(m for m in story(script, life.name) if m.reason == "RemoteLost")
    assert retry.why == "c could not be reached until its grace (multikueue.workerLostTimeout) was over"


def test_why_of_an_observation_is_what_its_condition_says() -> None:
    script = everything()
    evicted = next(m for m in story(script, "etl-0a1b2") if m.what == "copy is evicted (Preempted)")
    assert (evicted.cluster, evicted.why) == ("a", "for a Workload of higher priority")


@each(
    ("events", "noteworthy"),
    [
        ([sample(CloneObserved, uid="1"), sample(CloneObserved, uid="1")], [True, False]),
        ([sample(CloneObserved, uid="1"), sample(CloneObserved, uid="2")], [True, True]),
        (
            [sample(CloneObserved, uid="1"), sample(CloneGone, uid="1"), sample(CloneObserved, uid="1")],
            [True, True, True],
        ),
        ([sample(NamesClearDecided), sample(EffectUnneeded)], [False, False]),
        (
            [sample(EffectFailed, code=409), sample(EffectFailed, code=422), sample(EffectFailed, code=422)],
            [False, True, False],
        ),
        ([Unknown("New", 1, "{}"), Unknown("New", 1, "{}")], [True, True]),
        # the same decision for another reason is another decision
        (
            [
                sample(RemovalDecided, reason=reason)
                for reason in (WorkloadReason.DRAINING, WorkloadReason.DRAINING, WorkloadReason.FINISHED)
            ],
            [True, False, True],
        ),
        # and so it is in another attempt, or another life of the Workload
        (
            [
                sample(NominationDecided, attempt=1),
                sample(StatusRelayDecided),
                sample(NominationDecided, attempt=2),
                sample(StatusRelayDecided),
                sample(StatusRelayDecided),
            ],
            [True, True, True, True, False],
        ),
        (
            [
                sample(NominationDecided, attempt=1),
                sample(WorkloadGone),
                sample(WorkloadObserved),
                sample(NominationDecided, attempt=1),
            ],
            [True, True, True, True],
        ),
    ],
)
def test_what_repeats_itself_is_marked(events: list[Event | Unknown], noteworthy: list[bool]) -> None:
    assert [moment.noteworthy for moment in told(*events)] == noteworthy


def test_an_unknown_event_is_part_of_the_story() -> None:
    (moment,) = told(Unknown("QuotaLent", 1, '{"reason":"Cohort"}'))
    assert (moment.type, moment.what, moment.reason, moment.noteworthy) == ("QuotaLent", "QuotaLent", "Cohort", True)
