"""What hangs on a cluster that is away, as its list, its metrics and an operator see it."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.audit.absence import Absence, absences, owed
from controlplane.controllers.connectivity.events import ClusterForgotten
from controlplane.controllers.connectivity.local_connection import service_started
from tests.audit.script import POLICY, Life, Script, at

GRACE = POLICY.worker_lost_timeout


def fleet(*policies: str) -> tuple[Script, list[Life]]:
    """Workloads that run on a, one for each execution policy."""
    script = Script("a", "b")
    lives = []
    for number, policy in enumerate(policies):
        life = script.workload(f"w{number}-0a1b2")
        life.job(execution_policy=policy)
        lives.append(life.runs("a", "a", "b"))
    return script, lives


def away(script: Script) -> dict[str, Absence]:
    return absences(script.fleet.index, script.now)


def lost(script: Script) -> Absence:
    script.lose("a")
    return away(script)["a"]


def end(script: Script) -> datetime:
    since = script.fleet.index.connections["a"].lost_since
    assert since is not None
    return since + GRACE


def test_nothing_hangs_on_a_cluster_that_is_there() -> None:
    script, _ = fleet("")
    assert away(script) == {}
    assert owed(script.fleet.index) == {}


def test_who_stays_and_until_when() -> None:
    script, _ = fleet("", "never-twice", "at-least-once")
    absence = lost(script)
    assert (absence.stays, absence.never, absence.owed) == (3, 1, 0)
    assert absence.ends == end(script)


def test_where_all_wait_for_ever_nothing_ends() -> None:
    script, _ = fleet("never-twice")
    assert lost(script) == Absence(stays=1, never=1)


def test_a_cluster_that_was_given_up_keeps_nobody() -> None:
    script, _ = fleet("never-twice")
    lost(script)
    script.put(at("a", ClusterForgotten(by="jane")))
    absence = away(script)["a"]
    assert (absence.stays, absence.never) == (1, 0)
    assert absence.ends is not None
    assert absence.ends <= script.now


def test_a_cluster_with_nothing_on_it_shows_the_default() -> None:
    script, _ = fleet()
    absence = lost(script)
    assert absence == Absence(ends=end(script))


def test_what_was_taken_back_is_owed() -> None:
    script, lives = fleet("", "never-twice")
    lost(script)
    script.now += GRACE + timedelta(minutes=1)
    lives[0].decide().seen(check="Retry").drained()
    absence = away(script)["a"]
    assert (absence.stays, absence.never, absence.owed) == (1, 1, 1)
    assert owed(script.fleet.index) == {"a": 1}


def test_what_finished_or_was_deleted_is_owed() -> None:
    script, lives = fleet("", "")
    lost(script)
    lives[0].seen({"Finished": ("Succeeded", "")})
    lives[1].gone()
    assert away(script)["a"].owed == 2


def test_nothing_is_said_of_clusters_that_were_not_tried_since_a_start() -> None:
    script, _ = fleet("")
    script.put(service_started(2, "other", "1"))
    assert away(script) == {}
