"""Of a Workload that has ended: where it ran and why there, what was taken from it, how long it waited and ran; each
with its proof.
"""

from __future__ import annotations

import re
from datetime import timedelta

from controlplane.audit.words import type_of
from controlplane.controllers.connectivity.events import KindSynced
from controlplane.controllers.multikueue.observations import WorkloadGone, WorkloadObserved
from controlplane.kube.kinds import JOBS
from controlplane.runtime.explanation import Statement
from tests.audit.ordeals import WORKERS, ask, fresh
from tests.audit.script import Life, Script, at
from tests.audit.stories import happy, retried, short_lost


def told(life: Life) -> list[Statement]:
    return ask(life).statements


def texts(life: Life) -> list[str]:
    return [re.sub(r"2026-01-01 \d\d:\d\d:\d\d UTC", "TIME", statement.text) for statement in told(life)]


def test_what_is_live_has_no_statements() -> None:
    assert told(retried(Script(*WORKERS))) == []


def test_one_that_ran_once() -> None:
    assert texts(happy(Script(*WORKERS))) == [
        "attempt 1: it was offered to a, b and c because of its configuration, a, b and c can take it now",
        (
            "attempt 1: b was chosen because b was the first of 2 to admit it (a at 2026-01-01T00:00:22Z, b at "
            "2026-01-01T00:00:21Z)"
        ),
        "its job ran on b from TIME for 18s, and ended; it is the run that counted",
        "in all it was queued for 22s and ran for 18s",
        "it was never on two clusters at once",
    ]


def test_one_that_never_ran_is_not_said_to_have_run() -> None:
    life = Script(*WORKERS).workload("w-0a1b2").job().offered(*WORKERS).gone()
    assert texts(life)[1:] == ["in all it was queued for 10s", "it never ran"]


def test_one_that_was_admitted_without_being_dispatched_is_not_said_to_have_waited_all_the_time() -> None:
    """Its ClusterQueue has no MultiKueue check: what runs, runs on the management cluster."""
    script = Script(*WORKERS)
    life = script.workload("w-0a1b2").job()
    script.now += timedelta(seconds=20)
    admitted = {"QuotaReserved": True, "Admitted": True}
    life.seen(admitted, check="")
    script.now += timedelta(minutes=2)
    life.seen({"Evicted": ("Preempted", "for another"), "QuotaReserved": True, "Admitted": True}, check="")
    life.seen({"Evicted": ("Preempted", "for another"), "QuotaReserved": False, "Admitted": False}, check="")
    script.now += timedelta(seconds=30)
    life.seen({"Evicted": False, **admitted}, check="")
    script.now += timedelta(minutes=3)
    life.seen({"Evicted": False, **admitted, "Finished": ("Succeeded", "done")}, check="")
    assert texts(life) == [
        "it was admitted on the management cluster from TIME for 2m1s",
        "it was evicted on the management cluster (Preempted: for another)",
        "it was admitted on the management cluster from TIME for 3m1s",
        "in all it was queued for 32s and admitted for 5m2s, in which its job could run",
        "it was never offered to a worker",
    ]
    assert [one.cluster for one in told(life) if one.about == "Ran"] == ["@management", "@management"]


def test_each_retry_has_its_reason_and_the_decision_that_proves_it() -> None:
    life = retried(Script(*WORKERS)).finishes("b")
    said = {one.about: one for one in told(life)}
    taken = said["TakenBack"]
    assert taken.text == "attempt 1 ended: it was taken back from a because a evicted its copy"
    assert type_of(taken.events[0]) == "CheckStateDecided"
    assert taken.events[0].event.reason == "RemoteEvicted"
    assert [one.cluster for one in told(life) if one.about == "Placed"] == ["a", "b"]
    ran = [one.text for one in told(life) if one.about == "Ran"]
    assert ["this run was lost" in text for text in ran] == [True, False]
    assert said["AtOnce"].text == "it was never on two clusters at once"


def test_an_outage_is_told_with_its_length_and_a_run_that_nobody_saw_is_no_certainty() -> None:
    life = short_lost(Script(*WORKERS))
    said = texts(life)
    assert "attempt 1 ended: it was taken back from c because c could not be reached until its grace" in " ".join(said)
    away = next(one for one in told(life) if one.about == "Away")
    assert [type_of(e) for e in away.events] == ["ClusterLost", "ClusterConnected"]
    assert away.seconds == (away.events[1].recorded_at - away.events[0].recorded_at).total_seconds() > 1200
    once = next(one for one in told(life) if one.about == "AtOnce")
    assert re.fullmatch(r"it may have run on c and b at once, for .* at most", once.text)
    # From the first sight of the run on b until c showed that its job is gone.
    began, ended = once.events
    assert (type_of(began), began.cluster) == ("RemoteJobObserved", "b")
    assert (type_of(ended), ended.cluster) == ("RemoteJobGone", "c")


def test_two_that_were_both_seen_to_run_ran_at_once() -> None:
    life = short_lost(Script(*WORKERS), still_runs=True)
    once = [one for one in told(life) if one.about == "AtOnce"]
    assert any(re.fullmatch(r"it ran on c and b at once for .*", one.text) for one in once)


def test_the_newest_event_of_the_stream_is_not_the_proof_that_it_ended() -> None:
    life = happy(Script(*WORKERS))
    proof = ask(life).events[-1]
    life.seen({}).seen({})  # what is written to it afterwards proves nothing
    assert ask(life).events[-1] == proof
    life.gone()
    assert ask(life).events[0] == proof


def test_the_proof_of_what_is_live_is_the_event_since_which_it_holds() -> None:
    life = fresh(Script(*WORKERS)).runs("b", *WORKERS)
    before = ask(life).events
    for number in range(3):
        life.remote_job("b", status=f"4{number}", inactive=False).seen({})
    assert ask(life).events == before


def test_of_two_lives_of_a_name_the_last_one_counts() -> None:
    life = happy(Script(*WORKERS)).gone()
    life.script.now += timedelta(hours=2)
    second = _second(life)
    said = told(second)
    assert [one.about for one in said] == ["Times", "AtOnce"]
    assert said[0].seconds is not None
    assert said[0].seconds < 3600


def _second(life: Life) -> Life:
    """The name is used again by a Workload that is deleted before it is offered to anybody."""
    life.put(
        WorkloadObserved(
            namespace=life.namespace,
            name=life.name,
            uid="uid-2",
            resource_version="900",
            template="bb",
            spec_key="spec",
        )
    )
    return life.put(WorkloadGone(namespace=life.namespace, name=life.name, uid="uid-2"))


def test_a_job_that_was_sent_and_never_seen_there_may_have_run() -> None:
    life = fresh(Script(*WORKERS)).offered(*WORKERS)
    life.clone("c", {"QuotaReserved": True, "Admitted": True}).decide().clone_gone("a").clone_gone("b").decide()
    life.script.lose("c").now += timedelta(minutes=30)
    life.decide()
    life.again().seen(nominated=["a", "b"]).decide().clone("a").clone("b")
    life.clone("b", {"QuotaReserved": True, "Admitted": True}).decide().clone_gone("a").decide()
    life.remote_job("b", suspended=True).decide().remote_job("b", status="11", inactive=False)
    life.script.connect("c")
    life.script.put(at("c", KindSynced(kind=JOBS.name, count=0, resource_version="9")))
    life.seen({"Finished": ("Succeeded", "")})
    assert any(one.about == "AtOnce" and "may have run on" in one.text for one in told(life)), texts(life)
