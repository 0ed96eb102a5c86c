"""Candidates, end to end: a source that is played by hand writes Candidates and permits, the scheduler reserves, waits,
binds, reports.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATES, FINALIZER, SOURCE_LABEL, stamp
from controlplane.kube.kinds import NODES, PODS, PRIORITY_CLASSES, Json
from controlplane.kube.pod_groups import GROUP_NAME
from controlplane.settings.scheduler import SchedulerSettings
from tests.scheduling.stage import PROFILE, Cluster, Stage, staged, until
from tests.scheduling.test_replicas import bindings, of_binding, recorded

HOME = "on-premises"


class Source:
    """A source cluster's part, by hand."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.store = cluster, cluster.store

    def invited(self, **spec: Any) -> None:
        body = {
            "metadata": {"name": HOME, "namespace": "default"},
            "spec": {"cluster": HOME, "podSecurity": "baseline", **spec},
        }
        self.store.create(CANDIDATE_SOURCES, body)

    def asks(self, name: str = "c", *, cpu: str = "1", group: str = "", **spec: Any) -> Json:
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
        notes = {"annotations": {GROUP_NAME: group}} if group else {}
        template = {"metadata": {"labels": {"app": name}, **notes}, "spec": {"containers": [container], **spec}}
        source = {"cluster": HOME, "namespace": "default", "name": name, "uid": f"uid-{name}", "epoch": 1}
        metadata = {
            "name": name,
            "namespace": "default",
            "labels": {SOURCE_LABEL: HOME},
            "finalizers": [FINALIZER],
        }
        return self.store.create(CANDIDATES, {"metadata": metadata, "spec": {"source": source, "template": template}})

    def permits(
        self, name: str = "c", number: int = 1, reservation: int = 1, kind: str = "Bind", seconds: float = 20.0
    ) -> None:
        until = stamp(datetime.now(UTC) + timedelta(seconds=seconds))
        permit = {"number": number, "kind": kind, "reservation": reservation, "until": until}
        self.store.patch(CANDIDATES, "default", name, {"spec": {"permit": permit}})

    def withdraws(self, name: str = "c", number: int = 1) -> None:
        self.store.patch(CANDIDATES, "default", name, {"spec": {"withdrawn": number}})

    def status(self, name: str = "c") -> Json:
        return self.store.get(CANDIDATES, "default", name).get("status") or {}

    def phase(self, name: str = "c") -> str:
        return str(self.status(name).get("phase", ""))


async def reserved(stage: Stage) -> Source:
    """A candidate that holds the one CPU of the one node."""
    source = Source(stage.cluster)
    stage.cluster.node("n", cpu="1")
    source.invited()
    await stage.replica()
    source.asks()
    await until(lambda: source.phase() == "Reserved")
    return source


async def test_reserve_report_wait_bind(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster, source = stage.cluster, await reserved(stage)
        said = source.status()
        assert said["reservation"]["number"] == 1
        assert said["reservation"]["node"] == "n"
        assert said["reservation"]["score"] > 0
        cluster.pod("plain")
        await until(lambda: cluster.condition("plain").get("reason") == "Unschedulable")
        assert cluster.on("c") == ""
        source.permits()
        await until(lambda: cluster.on("c") == "n")
        await until(lambda: source.phase() == "Bound")
        assert source.status()["boundBy"] == 1
        await until(lambda: ("Scheduled", "Successfully assigned default/c to n") in cluster.told("c"))
        await until(lambda: (source.status().get("podStatus") or {}).get("phase") == "Running")


async def test_who_is_not_invited_is_refused(database_url: str) -> None:
    async with staged(database_url) as stage:
        source = Source(stage.cluster)
        stage.cluster.node("n")
        await stage.replica()
        source.asks()
        await until(lambda: source.phase() == "Refused")
        assert source.status()["reason"] == "NotInvited"
        assert "c" not in stage.cluster.pods()


async def test_a_reservation_without_a_permit_lapses_and_another_is_made(database_url: str) -> None:
    async with staged(database_url, scheduler=SchedulerSettings(reservation_ttl=timedelta(seconds=1))) as stage:
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("n", cpu="1")
        source.invited()
        await stage.replica()
        source.asks()
        await until(lambda: source.phase() == "Reserved")
        cluster.pod("plain")
        await until(lambda: cluster.on("plain") == "n")  # the node is free between two reservations
        await until(lambda: source.phase() in ("Unschedulable", "Unreserved"))
        source.permits(reservation=1)  # for what is not held any more: void
        await asyncio.sleep(1.5)
        assert cluster.on("c") == ""
        cluster.store.delete(PODS, "default", "plain")
        await until(lambda: source.status()["reservation"]["number"] >= 2 and source.phase() == "Reserved")
        source.permits(number=2, reservation=source.status()["reservation"]["number"])
        await until(lambda: cluster.on("c") == "n")
        assert cluster.overcommitted() == []


async def test_a_withdrawal_is_acknowledged_and_binds_no_more(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("n")
        source.invited()
        await stage.replica()
        slow = cluster.server.faults.half_open(when=of_binding)
        source.asks()
        await until(lambda: source.phase() == "Reserved")
        source.permits()
        await until(lambda: recorded(database_url, "BindStarted") == 1)
        source.withdraws()
        await until(lambda: source.status().get("acknowledged") == 1)
        cluster.server.faults.remove(slow)
        await asyncio.sleep(0.5)
        assert cluster.on("c") == ""
        await until(lambda: source.phase() == "Reserved" and source.status()["reservation"]["number"] == 2)


async def test_the_node_of_a_reservation_goes(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("first")
        source.invited()
        await stage.replica()
        source.asks()
        await until(lambda: source.phase() == "Reserved")
        cluster.node("second")
        cluster.store.delete(NODES, "", "first")
        await until(lambda: source.status()["reservation"].get("node") == "second")
        assert source.status()["reservation"]["number"] == 2
        source.permits(reservation=2)
        await until(lambda: cluster.on("c") == "second")


async def test_room_is_made_only_under_a_permit_that_says_so(database_url: str, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(yaml.safe_dump({**head, "podMaxBackoffSeconds": 1, "profiles": [{"schedulerName": PROFILE}]}))
    async with staged(database_url, config=config) as stage:
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("n", cpu="1")
        cluster.store.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        source.invited()
        await stage.replica()
        cluster.pod("low")
        await until(lambda: cluster.get("low")["status"]["phase"] == "Running")
        source.asks(priorityClassName="high")
        await until(lambda: source.phase() == "Unschedulable")
        assert source.status()["preemptable"] is True
        assert cluster.condition("c")["reason"] == "Unschedulable"  # for the target's autoscaler
        await asyncio.sleep(0.5)
        assert cluster.on("low") == "n"
        source.permits(kind="Preempt", number=1, reservation=0)
        await until(lambda: "low" not in cluster.pods())
        await until(lambda: source.phase() == "Reserved")
        assert source.status()["tried"] == 1
        source.permits(number=2, reservation=1)
        await until(lambda: cluster.on("c") == "n")


async def test_killed_while_a_candidate_is_held(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("n", cpu="1")
        source.invited()
        first = await stage.replica()
        second = await stage.replica(leads=False)
        counts = bindings(cluster)
        source.asks()
        await until(lambda: source.phase() == "Reserved")
        await first.kill()
        cluster.pod("greedy")
        await until(lambda: second.ready)
        await until(lambda: cluster.condition("greedy").get("reason") == "Unschedulable")
        source.permits()
        await until(lambda: cluster.on("c") == "n")
        assert counts == {"c": 1}
        assert cluster.overcommitted() == []


async def test_a_deleted_candidate_takes_its_pod_along(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        await reserved(stage)
        cluster.store.delete(CANDIDATES, "default", "c")
        await until(lambda: not cluster.pods() and not cluster.store.list(CANDIDATES)[0])
        cluster.pod("next")
        await until(lambda: cluster.on("next") == "n")


async def test_a_forged_mark_and_a_bad_template_are_refused_by_field(database_url: str) -> None:
    async with staged(database_url) as stage:
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("n")
        source.invited()
        await stage.replica()
        source.asks("chosen", nodeName="n")
        source.asks("unknown", priorityClassName="nobody-knows-it")
        source.asks("fine")
        await until(lambda: source.phase("chosen") == "Refused" and source.phase("unknown") == "Refused")
        assert "spec.template.spec.nodeName" in source.status("chosen")["message"]
        assert source.status("unknown")["reason"] == "UnknownPriorityClass"
        await until(lambda: source.phase("fine") == "Reserved")
