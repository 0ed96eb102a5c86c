"""What the metrics say of clusters, outages and the lead: told from a scripted log, as the service folds it."""

from __future__ import annotations

import math
from datetime import timedelta

import msgspec

from controlplane.app.measure import Measure
from controlplane.controllers.connectivity.events import (
    FLEET_STREAM,
    ClusterDisconnected,
    ClusterSuspected,
    MassOutageAccepted,
    MassOutageBegan,
)
from controlplane.controllers.multikueue.observations import MultiKueueClusterGone
from controlplane.log.event import NewEvent
from controlplane.telemetry import Metrics
from tests.audit.script import POLICY, Script, at


class Meter:
    """A `Measure` over a script's fleet; `read` is what Prometheus would scrape."""

    def __init__(self, script: Script) -> None:
        self.script, self.metrics = script, Metrics()
        self.measure = Measure(self.metrics, script.fleet)

    def read(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"controlplane_{name}", labels)

    def report(self) -> Meter:
        self.measure.connections(self.script.now)
        self.measure.guards(self.script.now)
        self.measure.backlog(self.script.now)
        return self

    def fold_live(self, since: int = 0) -> Meter:
        self.measure.folded(self.script.recorded[since:], live=True)
        return self


def test_a_cluster_is_in_one_phase() -> None:
    meter = Meter(Script("a", "b")).report()
    assert meter.read("cluster_phase", cluster="a", phase="Connected") == 1
    assert meter.read("cluster_phase", cluster="a", phase="Lost") == 0
    meter.script.lose("a")
    meter.script.now += timedelta(minutes=2)
    meter.report()
    assert meter.read("cluster_phase", cluster="a", phase="Connected") == 0
    assert meter.read("cluster_phase", cluster="a", phase="Lost") == 1
    assert meter.read("cluster_connected", cluster="a") == 0
    assert meter.read("cluster_lost_seconds", cluster="a") == 121
    assert meter.read("cluster_lost_seconds", cluster="b") == 0


def test_a_clock_behind_the_databases_makes_no_negative_time() -> None:
    meter = Meter(Script("a"))
    meter.script.lose("a")
    meter.measure.connections(meter.script.now - timedelta(seconds=30))
    assert meter.read("cluster_lost_seconds", cluster="a") == 0


def test_a_cluster_that_was_removed_is_not_reported() -> None:
    meter = Meter(Script("a", "b")).report()
    gone = MultiKueueClusterGone(namespace="", name="a", uid="c-a")
    meter.script.put(NewEvent(stream="cluster/a", event=gone, cluster="@management"))
    meter.script.put(at("a", ClusterDisconnected(reason="Removed")))
    meter.report()
    assert meter.read("cluster_phase", cluster="a", phase="Connected") is None
    assert meter.read("removals_owed", cluster="a") is None
    assert meter.read("cluster_connected", cluster="b") == 1


def test_writes_to_a_cluster_that_was_removed_are_reported_while_there_are_some() -> None:
    meter = Meter(Script("a", "b")).report()
    meter.measure.effects({"a": 2, "b": 0})
    gone = MultiKueueClusterGone(namespace="", name="a", uid="c-a")
    meter.script.put(NewEvent(stream="cluster/a", event=gone, cluster="@management"))
    meter.script.put(at("a", ClusterDisconnected(reason="Removed")))
    meter.report().measure.effects({"a": 2, "b": 0})
    assert [meter.read("effects_open", cluster=name) for name in "ab"] == [2, 0]
    meter.report().measure.effects({"a": 0, "b": 0})
    assert [meter.read("effects_open", cluster=name) for name in "ab"] == [None, 0]


def test_doubts_are_counted() -> None:
    script = Script("a")
    since = len(script.recorded)
    script.put(at("a", ClusterSuspected(message="late"))).put(at("a", ClusterSuspected(message="late")))
    assert Meter(script).fold_live(since).read("cluster_suspected_total", cluster="a") == 2


def test_what_is_taken_from_a_lost_cluster_is_counted_and_owed() -> None:
    script = Script("a", "b")
    life = script.workload("w-0a1b2").runs("a", "a", "b")
    script.lose("a").now += timedelta(minutes=20)
    since = len(script.recorded)
    life.decide()
    meter = Meter(script).fold_live(since).report()
    assert meter.read("requeues_from_lost_clusters_total", cluster="a") == 1
    assert meter.read("requeue_budget_left") == POLICY.requeues_per_minute - 1
    assert meter.read("removals_owed", cluster="a") == 0
    life.seen(check="Retry").drained()
    assert meter.report().read("removals_owed", cluster="a") == 1
    script.now += timedelta(minutes=2)
    assert meter.report().read("requeue_budget_left") == POLICY.requeues_per_minute


def test_copies_of_which_nobody_knows_whose_they_are_are_counted() -> None:
    script = Script("a", "b")
    script.workload("w-0a1b2").runs("a", "a", "b")
    meter = Meter(script).report()
    assert [meter.read("unknown_copies", cluster=name) for name in "ab"] == [0, 0]
    theirs = script.workload("theirs").clone("a", unmarked=True)
    script.workload("ours").clone("b")
    meter.report()
    assert [meter.read("unknown_copies", cluster=name) for name in "ab"] == [1, 0]
    theirs.clone_gone("a")
    assert meter.report().read("unknown_copies", cluster="a") == 0


def test_without_a_limit_the_budget_is_endless() -> None:
    script = Script("a")
    script.fleet.policy = msgspec.structs.replace(POLICY, requeues_per_minute=0)
    assert Meter(script).report().read("requeue_budget_left") == math.inf


def test_a_mass_outage_shows_while_it_holds() -> None:
    meter = Meter(Script("a", "b", "c")).report()
    assert meter.read("mass_outage") == 0
    meter.script.put(NewEvent(stream=FLEET_STREAM, event=MassOutageBegan(away=["a", "b"], of=3)))
    assert meter.report().read("mass_outage") == 1
    meter.script.put(NewEvent(stream=FLEET_STREAM, event=MassOutageAccepted(by="jane")))
    assert meter.report().read("mass_outage") == 0


def test_the_oldest_effect_ages_until_it_is_settled() -> None:
    script = Script("a", "b")
    life = script.workload("w-0a1b2").job().seen({"QuotaReserved": True}).decide()
    life.seen(nominated=["a", "b"]).decide()
    script.now += timedelta(minutes=5)
    meter = Meter(script).report()
    oldest = meter.read("effects_oldest_seconds", cluster="a")
    assert oldest is not None
    assert oldest > 300
    life.clone("a")
    assert meter.report().read("effects_oldest_seconds", cluster="a") == 0
    assert meter.read("effects_oldest_seconds", cluster="b") is not None


def test_who_leads_and_who_has_led() -> None:
    meter = Meter(Script("a")).report()
    meter.measure.leads(7)
    meter.measure.sure(True)
    meter.measure.log_answers(True)
    assert [meter.read(name) for name in ("leader", "leader_sure", "leader_epoch", "log_reachable")] == [1, 1, 7, 1]
    meter.measure.sure(False)
    assert meter.read("leader_sure") == 0
    meter.measure.follows()
    assert [meter.read(name) for name in ("leader", "leader_sure", "log_reachable")] == [0, 0, 1]
    assert meter.read("cluster_connected", cluster="a") is None
