"""Workloads that are not simulated: they take the room that they had, are counted, and nothing is told of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.whatif.history import SLOTS, History
from controlplane.whatif.past import FINISHED_BEFORE, MADE_AGAIN, PLACED_BEFORE, THEIRS
from tests.audit.script import Life, Script
from tests.audit.test_made_for_others import beside, theirs, theirs_gone
from tests.whatif.fleets import NOT_SIMULATED
from tests.whatif.logs import PlayedLog
from tests.whatif.past import Past, past
from tests.whatif.test_lost_runs import measured

MINUTES_10 = timedelta(minutes=10)
DONE = ("Succeeded", "Job finished successfully")


def read(script: Script) -> Past:
    """Return the past of a script, an hour after its last event."""
    script.now += timedelta(hours=1)
    script.workload("last-0a1b2").job().seen()
    events = PlayedLog(script.recorded)
    events.requests = {}
    return Past(events)


def runs(script: Script, name: str, where: str) -> Life:
    """Let a Workload come, run for ten minutes, and finish."""
    found = script.workload(f"{name}-0a1b2").runs(where)
    script.now += MINUTES_10
    found.finishes(where)
    script.now += MINUTES_10
    return found


def test_what_had_finished_when_it_was_first_seen_does_not_run_again() -> None:
    script = Script("a")
    for number in range(3):
        old = script.workload(f"old-{number}-0a1b2").job(status="22", finished=True, suspended=False)
        old.seen({"QuotaReserved": True, "Admitted": True, "Finished": DONE}, check="Ready", cluster_name="a")
    runs(script, "train", "a")
    log = read(script)
    found, was = log.play(), log.recorded()
    assert found.placements == {"workload/default/train-0a1b2": ["a"]}
    assert log.agrees(found).share == 1.0
    assert found.beyond == {FINISHED_BEFORE: 3}
    assert (was.arrived, was.finished, was.queues["cq"].given) == (2, 1, 1)
    assert (found.figures.arrived, found.figures.finished) == (2, 1)


def test_what_was_placed_when_it_was_first_seen_stays_there_and_takes_its_room() -> None:
    script = Script("a")
    old = script.workload("old-0a1b2").job(status="11", suspended=False, inactive=False)
    old.seen({"QuotaReserved": True, "Admitted": True}, check="Ready", cluster_name="a")
    old.clone("a", {"QuotaReserved": True, "Admitted": True}).remote_job("a", status="11", inactive=False).decide()
    runs(script, "train", "a")
    old.finishes("a")
    log = read(script)
    found = log.play()
    assert found.placements == {"workload/default/train-0a1b2": ["a"]}
    assert log.agrees(found).share == 1.0
    assert found.beyond == {PLACED_BEFORE: 1}
    assert log.capacities.of["a"][SLOTS] == 2
    one = log.play(capacities={"a": {SLOTS: 1.0}})
    assert one.figures.wait_max > found.figures.wait_max + 500  # until the other one has finished


def made_again() -> tuple[Script, int]:
    """Return a log in which a Workload of ten minutes was made again as one of two hours, with a position amid that."""
    script = Script("a", "b")
    runs(script, "train", "a").job_gone().gone()
    second = script.workload("train-0a1b2")
    second.uid, second.job_uid = "second", "second-job"
    second.runs("b")
    middle = len(script.recorded)
    script.now += timedelta(hours=2)
    runs(script, "other", "a")
    second.finishes("b")
    return script, middle


def test_one_that_was_made_again_before_the_time_begins_has_nothing_of_the_one_before() -> None:
    script, middle = made_again()
    log = read(script)
    found = log.play(middle)
    assert found.beyond == {MADE_AGAIN: 1}
    assert found.figures.finished == 1
    assert found.figures.run_hours < 0.5  # of the other one


def test_only_what_was_there_in_the_time_is_counted() -> None:
    log = past(NOT_SIMULATED["elastic"])
    whole = sum(log.play().beyond.values())
    assert whole == sum(bool(one.why_not) for one in log.history.workloads.values())
    ended = max(one.finished for one in log.history.workloads.values() if one.why_not and one.finished)
    after = sum(one.recorded_at <= ended for one in log.events)
    assert log.play(after).beyond == {}


def test_what_was_made_for_another_management_cluster_is_none_of_its_runs_and_is_not_simulated() -> None:
    """Which of two copies of a name is whose, the simulated clusters do not know."""
    script, life = beside()
    history = History()
    for recorded in script.recorded:
        history.take(recorded)
    assert history.workloads[life.stream].why_not == THEIRS
    assert list(history.workloads[life.stream].copies) == ["a", "b"]
    found = measured(script)
    assert found.run_hours == pytest.approx(2, abs=0.01)
    assert (found.lost_hours, list(found.clusters)) == (0, ["b"])


@pytest.mark.parametrize("gone", [False, True])
def test_one_that_comes_where_such_a_copy_is_is_not_simulated(gone: bool) -> None:
    script = Script("a")
    life = theirs(script.workload("w-0a1b2"), "a")
    if gone:
        theirs_gone(life, "a")
    life.job().seen({"QuotaReserved": ("Pending", "the queue is full")})
    history = History()
    for recorded in script.recorded:
        history.take(recorded)
    assert history.workloads[life.stream].why_not == ("" if gone else THEIRS)
