"""An outage is told in the story of the Workloads whose copies it concerned, with what it means for each."""

from __future__ import annotations

from datetime import timedelta

from controlplane.audit.outages import outages
from controlplane.audit.timeline import TimelineEntry
from controlplane.controllers.connectivity import events
from controlplane.log.event import Event, NewEvent
from tests.audit.script import POLICY, Life, Script, at


def told(life: Life, *, noteworthy: bool = True) -> list[TimelineEntry]:
    return [m for m in outages(POLICY, life.script.recorded, life.stream) if m.noteworthy or not noteworthy]


def lines(life: Life) -> list[str]:
    return [f"{m.cluster} {m.what}: {m.why}".removesuffix(": ").strip() for m in told(life)]


def lose(life: Life, cluster: str) -> None:
    life.script.put(at(cluster, events.ClusterLost(reason="Unreachable", message="no route", seen_by="r1", others=2)))


def placed(policy: str = "") -> Life:
    """A Workload that runs on c, of a fleet of three."""
    life = Script("a", "b", "c").workload("train-0a1b2")
    life.job(execution_policy=policy)
    return life.runs("c", "a", "b", "c")


LOST = "is lost: no route; r1 saw it, and reached 0 of 2 others"


def test_a_loss_says_until_when_the_workload_stays() -> None:
    life = placed()
    lose(life, "c")
    end = life.script.now + timedelta(minutes=15)
    assert lines(life) == [
        f"c {LOST}: it is taken back at {end:%Y-%m-%d %H:%M:%S UTC} if the cluster is not back by then"
    ]


def test_under_never_twice_it_stays() -> None:
    life = placed("never-twice")
    lose(life, "c")
    assert lines(life) == [f"c {LOST}: it stays there until word comes, by its execution policy never-twice"]


def test_the_return_says_how_long_it_was_away() -> None:
    life = placed()
    lose(life, "c")
    life.script.now += timedelta(seconds=90.5)
    life.script.connect("c")
    assert lines(life)[1:] == ["c is connected (v1.35.0): it was away for 1m31s"]


def test_what_happens_where_no_copy_is_is_nobodys_story() -> None:
    life = placed()
    life.script.lose("a").connect("a")
    life.script.put(at("b", events.ClusterSuspected(message="late")))
    assert told(life, noteworthy=False) == []


def test_a_copy_that_is_not_wanted_any_more_is_dealt_with_later() -> None:
    life = placed()
    lose(life, "c")
    life.script.now += timedelta(minutes=20)
    life.decide().seen(check="Retry").drained()
    life.script.connect("c")
    lose(life, "c")
    assert lines(life)[-1] == f"c {LOST}: its copy there is dealt with when the cluster is back"


def test_doubts_and_vain_attempts_are_there_and_not_noteworthy() -> None:
    life = placed()
    life.script.put(at("c", events.ClusterSuspected(message="late"))).put(at("c", events.ClusterRecovered()))
    life.script.lose("c")
    whole = told(life, noteworthy=False)
    assert [(m.type, m.noteworthy) for m in whole] == [
        ("ClusterSuspected", False),
        ("ClusterRecovered", False),
        ("ClusterLost", True),
        ("ClusterConnectFailed", False),
    ]


def test_an_operator_who_gives_a_cluster_up_ends_its_grace() -> None:
    life = placed("never-twice")
    lose(life, "c")
    life.script.put(at("c", events.ClusterForgotten(by="jane")))
    assert lines(life)[1:] == ["c was given up by jane: its grace is over"]


def test_a_restored_cluster_is_told_of() -> None:
    life = placed()
    life.script.put(at("c", events.ClusterRestored(message="the history of jobs went back", restores=1)))
    assert lines(life) == [
        "c was restored from a backup: the history of jobs went back: all that was seen of it is listed anew"
    ]


def of_fleet(event: Event) -> NewEvent:
    return NewEvent(stream=events.FLEET_STREAM, event=event)


def test_a_mass_outage_is_told_of_where_it_holds_something_back() -> None:
    life = placed()
    script = life.script
    other = script.workload("other-0a1b2").runs("a", "a")
    lose(life, "b")
    lose(life, "c")
    script.put(of_fleet(events.MassOutageBegan(away=["b", "c"], of=3)))
    script.put(of_fleet(events.MassOutageAccepted(by="jane")))
    script.put(of_fleet(events.MassOutageEnded(away=["c"], of=3)))
    assert lines(life)[1:] == [
        (
            "mass outage: 2 of 3 clusters are away: nothing is taken from a cluster that is away until it is over, or "
            "accepted"
        ),
        "mass outage was accepted by jane: graces that are over count again",
        "mass outage is over: 1 of 3 clusters are away",
    ]
    assert lines(other) == []


def test_the_end_of_a_mass_outage_is_told_after_the_cluster_is_back_too() -> None:
    life = placed()
    lose(life, "b")
    lose(life, "c")
    life.script.put(of_fleet(events.MassOutageBegan(away=["b", "c"], of=3))).connect("c")
    life.script.put(of_fleet(events.MassOutageEnded(away=["b"], of=3)))
    assert lines(life)[-1] == "mass outage is over: 1 of 3 clusters are away"
