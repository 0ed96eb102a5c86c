"""What is read out of a log: since when nobody led, when a job was seen and when it ran, and what others deleted."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.whatif.history import History
from controlplane.whatif.past import DELETING
from tests.audit.script import Script
from tests.whatif.fleets import CHURNED
from tests.whatif.logs import played

A_MOMENT = timedelta(milliseconds=1)


def read(script: Script) -> History:
    found = History()
    for one in script.recorded:
        found.take(one)
    return found


def test_nobody_leads_from_the_last_that_was_recorded_on() -> None:
    """A heartbeat is older than what the process recorded after it."""
    script = Script("a")
    script.workload("train-0a1b2").seen()
    last, history = script.recorded[-1], read(script)
    begins = service_started(2, "another", "1.0", last.recorded_at - timedelta(seconds=3))
    at = last.recorded_at + timedelta(seconds=9)
    history.take(msgspec.structs.replace(last, stream="service", event=begins.event, recorded_at=at))
    assert history.absences == [(last.recorded_at + A_MOMENT, at)]


def test_a_job_is_seen_before_it_runs() -> None:
    script = Script("a")
    life = script.workload("train-0a1b2").offered("a").clone("a", {"QuotaReserved": True, "Admitted": True}).decide()
    asked = script.recorded[-1].recorded_at
    script.now += timedelta(seconds=2)
    life.remote_job("a", suspended=True)
    seen = script.recorded[-1].recorded_at
    script.now += timedelta(seconds=3)
    life.remote_job("a", suspended=False, inactive=False)
    past = read(script).workloads[life.stream]
    assert past.made == [(asked, seen)]
    assert past.starts == [(script.recorded[-1].recorded_at - asked).total_seconds()]


def test_what_others_deleted_is_told_from_what_was_removed() -> None:
    history = History()
    for one in played(CHURNED["copies are deleted"]):
        history.take(one)
    deleted = [of for past in history.workloads.values() for _, _, of in past.deletions]
    assert DELETING in deleted
    assert "Job" in deleted
    assert len(deleted) < 20  # of some hundred copies that are gone
