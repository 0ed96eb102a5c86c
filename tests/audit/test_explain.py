"""For every place where a Workload may be: the sentence, and the events that prove it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

from controlplane.audit.explain import ANSWERS
from controlplane.audit.no_workload import without_workload
from controlplane.audit.words import type_of
from controlplane.controllers.multikueue.observations import CheckState
from controlplane.runtime.explanation import WORDS
from tests.audit.explained import CASES
from tests.audit.ordeals import WORKERS, after, ask, fresh, lose_for
from tests.audit.script import Life, Script
from tests.audit.stories import retried
from tests.jobframework.scene import Scene, job
from tests.support.rows import each


@each(("word", "story", "sentence", "evidence"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)])
def test_why(word: str, story: Callable[[], Life], sentence: str, evidence: list[str]) -> None:
    told = ask(story())
    assert re.sub(r"2026-01-01 \d\d:\d\d:\d\d UTC", "TIME", told.sentence) == sentence
    assert told.standing.word == word
    assert [type_of(recorded) for recorded in told.events] == evidence


def test_a_job_that_runs_where_it_was_submitted() -> None:
    life = fresh(Script(*WORKERS)).job().seen({"QuotaReserved": True, "Admitted": True}, checks=[])
    told = ask(life.job(suspended=False, inactive=False))
    assert told.sentence.endswith("so it is not dispatched, and its job runs there.")
    assert [type_of(recorded) for recorded in told.events] == ["WorkloadObserved", "JobObserved"]


def test_somebody_took_the_name_of_its_cluster_away() -> None:
    life = fresh(Script(*WORKERS)).runs("b", *WORKERS).remote_job("b", suspended=True).seen(cluster_name="")
    told = ask(life)
    assert told.sentence.startswith("It is admitted on b because b was the only one")
    assert told.standing.cluster == "b"
    assert told.standing.waits_for == "b to start its job"


def test_the_end_of_the_grace_is_told() -> None:
    life = after(fresh, lose_for(3))()
    since = next(e for e in life.script.recorded if type_of(e) == "ClusterLost").recorded_at
    assert f"is taken back at {since + timedelta(minutes=15):%Y-%m-%d %H:%M:%S UTC}." in ask(life).sentence


def test_a_last_status_that_cannot_be_written_is_told_of_what_has_finished() -> None:
    life = fresh(Script(*WORKERS)).runs("b", *WORKERS)
    life.remote_job("b", status="22", finished=True).clone("b", {"Finished": ("Succeeded", "done")})
    for failures in (1, 2, 3):
        life.decide().refused("@management/Job", "StatusRelayDecided", 403, "jobs.batch is forbidden", failures)
    life.decide().seen({"Finished": ("Succeeded", "done")}).decide()
    told = ask(life)
    assert told.sentence == (
        "It finished on b (Succeeded: done). Its job does not say so: the last status was refused (jobs.batch is "
        "forbidden), and is tried again; the copy stays on b until then."
    )
    assert "EffectFailed" in [type_of(recorded) for recorded in told.events]
    life.remote_job_gone("b").clone_gone("b")
    assert ask(life).sentence.endswith("(jobs.batch is forbidden), and is tried again.")
    life.job(status="22", finished=True, inactive=True)
    assert ask(life).sentence == "It finished on b (Succeeded: done)."


def test_no_place_is_left_out() -> None:
    assert {case[0] for case in CASES} == set(WORDS) == set(ANSWERS)


def test_the_evidence_is_in_the_order_of_the_log_and_each_event_once() -> None:
    positions = [recorded.position for recorded in ask(retried(Script(*WORKERS))).events]
    assert positions == sorted(set(positions))


def test_a_job_without_a_workload() -> None:
    life = fresh(Script(*WORKERS)).job()
    told = without_workload([life.script.recorded[-1]])
    assert told.sentence.startswith("The job has no Workload")
    assert told.standing.waits_for == "its Workload to be made"
    life.job_gone()
    assert (
        without_workload([life.script.recorded[-1]]).sentence == "The job is gone, and no Workload of it was ever seen."
    )


def test_one_that_was_rejected_and_lost_its_quota_says_by_which_check() -> None:
    """Kueue takes the quota of a Workload with a Rejected check, and leaves `spec.active` as it is where nothing evicts
    it."""
    life = fresh(Script(*WORKERS))
    told = CheckState(
        name="mk", state="Rejected", message="Expecting spec.managedBy to be another", last_transition_time=""
    )
    life.seen({"QuotaReserved": ("Pending", "The workload has failed admission checks")}, checks=[told])
    asked = ask(life)
    said = asked.sentence
    assert said.startswith(
        "It has no quota on the management cluster and is not tried for any (Pending: The workload has failed "
        "admission checks)."
    )
    assert (asked.standing.word, asked.standing.waits_for) == (
        "Pending",
        "its admission check mk, which is Rejected, to be reset",
    )
    assert said.endswith("Its admission check mk is Rejected: Expecting spec.managedBy to be another.")


def test_a_job_of_which_this_service_could_make_no_workload() -> None:
    scene = Scene()
    scene.create(job(labels={"kueue.x-k8s.io/priority-class": "absent"}))
    scene.settle()
    told = without_workload([one for one in scene.log if "/job/" in one.stream])
    assert told.standing.word == "Pending"
    assert told.sentence.startswith("The job has no Workload: ")
    assert "absent" in told.sentence
    assert [type(one.event).__name__ for one in told.events] == ["QueuedJobObserved", "JobNoticeDecided"]
    seen = [one for one in scene.log if type(one.event).__name__ == "QueuedJobObserved"]
    assert "this service makes one" in without_workload(seen).sentence
