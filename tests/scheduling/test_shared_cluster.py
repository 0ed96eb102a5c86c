"""One cluster and the schedulers of two logs: each has profiles of its own, or one of them waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.app.candidates.binding import Targets
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.candidates.target.events import TARGET_EVENTS, BindStarted
from controlplane.kube.kinds import LEASES, PODS, PRIORITY_CLASSES, Json
from controlplane.simulation.apiserver.faults import MatchedRequest
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.seeding import ensure
from tests.candidates.test_target_causes import Told
from tests.candidates.told import Process
from tests.scheduling.stage import PROFILE, Cluster, Replica, Stage, staged, until
from tests.scheduling.test_candidates import Source
from tests.scheduling.test_replicas import bindings, of_binding

BRIEF = {"claim": 6.0}  # seconds: a renewal has two, also where the machine is busy
LEASE = "controlplane.scheduler.controlplane"
OF_CANDIDATES = "controlplane.candidate-target"


def profile(folder: Path, pool: str, name: str = PROFILE) -> Path:
    """A configuration by which pods go to the nodes of one pool."""
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    plugin = {"name": "NodeAffinity", "args": {"addedAffinity": added}}
    found = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name, "pluginConfig": [plugin]}],
    }
    path = folder / f"{name}-{pool}.yaml"
    path.write_text(yaml.safe_dump(found))
    return path


def waits(replica: Replica) -> str:
    check = replica.health.checks.get("leader")
    return check.detail if check is not None and check.detail.startswith("waits: ") else ""


async def second(stage: Stage, **differs: Any) -> Replica:
    """The scheduler of another log, once it leads or says why it does not."""
    found = await stage.replica(leads=False, **{"log": "second", **differs})
    await until(lambda: found.ready or waits(found), "it leads or waits")
    return found


def lease(cluster: Cluster, name: str = LEASE) -> Json:
    found: Json = cluster.store.get(LEASES, "kube-system", name)["spec"]
    return found


def evicted(cluster: Cluster) -> set[str]:
    """The pods that are marked to go for another one, from now on."""
    found: set[str] = set()

    def hear(commit: Commit) -> None:
        conditions = commit.record.obj.get("status", {}).get("conditions") or []
        if commit.record.kind == PODS and any(one["type"] == "DisruptionTarget" for one in conditions):
            found.add(commit.record.name)

    cluster.store.listen(hear)
    return found


def changes(cluster: Cluster) -> Counter[str]:
    """How often the conditions of each pod are written with another content, from now on."""
    counts: Counter[str] = Counter()

    def hear(commit: Commit) -> None:
        before = commit.previous.obj["status"].get("conditions") if commit.previous is not None else None
        if commit.record.kind == PODS and commit.record.obj["status"].get("conditions") != before:
            counts[commit.record.name] += 1

    cluster.store.listen(hear)
    return counts


async def test_a_node_is_not_filled_by_both(database_url: str) -> None:
    """Each chose nodes without what the other one had chosen: one binding that was late, and a node had two pods."""
    async with staged(database_url) as stage:
        cluster, pods = stage.cluster, [f"p{number}" for number in range(12)]
        for number in range(len(pods)):
            cluster.node(f"n{number}", cpu="1")
        await stage.replica()
        await second(stage)

        def late(asked: MatchedRequest) -> bool:
            return of_binding(asked) and asked.name in pods[:6]

        cluster.server.faults.storm(500, when=late, times=6)
        for name in pods:
            cluster.pod(name)
        await until(lambda: all(cluster.on(name) for name in pods), "all are bound")
        assert cluster.overcommitted() == []


async def test_two_do_not_evict_for_one_pod(database_url: str, tmp_path: Path) -> None:
    """While a scheduler moves to another database, with other profiles under the same name."""
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.store.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        for pool in ("old", "new"):
            cluster.node(pool, cpu="1", labels={"pool": pool})
            cluster.pod(pool, scheduler="somebody", nodeName=pool)
        await stage.replica(config=profile(tmp_path, "old"))
        await second(stage, config=profile(tmp_path, "new"))
        gone = evicted(cluster)
        cluster.pod("high", priorityClassName="high")
        await until(lambda: cluster.on("high"), "it is bound")
        assert gone == {"old"}


async def test_why_a_pod_waits_is_not_said_in_turns(database_url: str, tmp_path: Path) -> None:
    """Each wrote its own reason over the other's, some fifty times a second for each pod that waits."""
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="1", labels={"pool": "old"})
        await stage.replica(config=profile(tmp_path, "old"))
        await second(stage, config=profile(tmp_path, "new"))
        said = changes(cluster)
        cluster.pod("p", cpu="4")
        await until(lambda: cluster.condition("p").get("reason") == "Unschedulable")
        await asyncio.sleep(2)  # nothing is waited for: it is to stay so
        assert said == {"p": 1}


async def test_candidates_are_left_to_the_one_that_has_them_and_the_rest_is_scheduled(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Candidates name no scheduler, so profiles of its own do not keep a scheduler from those of the other one. It
    waited with all of its pods for who had them."""
    async with staged(database_url) as stage:
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("n", labels={"pool": "new"})
        source.invited()
        first = await stage.replica()
        other = await second(stage, config=profile(tmp_path, "new", "other"))
        assert other.ready
        cluster.pod("q", scheduler="other")
        await until(lambda: cluster.on("q"), "its own pods are scheduled")
        source.asks()
        await until(lambda: source.phase() == "Reserved")
        source.permits()
        await until(lambda: source.phase() == "Bound")
        assert cluster.get("c")["spec"]["schedulerName"] == PROFILE
        streams = {log: stage.recorded(log, "candidate/%") for log in ("scheduler", "second")}
        assert streams["scheduler"]
        assert not streams["second"]
        assert first.leads
        assert other.leads
        said = [line for line in capsys.readouterr().out.splitlines() if "Candidates are left to another log" in line]
        assert len(said) == 1
        assert f"Lease kube-system/{OF_CANDIDATES} is held by the log scheduler/" in said[0]


async def test_who_left_candidates_takes_them_up_once_nobody_has_them(database_url: str, tmp_path: Path) -> None:
    """Also one whose Pod the other scheduler has made, for a profile that is not here."""
    async with staged(database_url) as stage:
        stage.ports = BRIEF
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("n", cpu="4", labels={"pool": "new"})
        source.invited()
        first = await stage.replica()
        other = await second(stage, config=profile(tmp_path, "new", "other"))
        source.asks("large", cpu="64")
        await until(lambda: source.phase("large") == "Unschedulable")
        await first.end()
        cluster.pod("q", scheduler="other")
        await until(lambda: cluster.on("q"), "its own pods are scheduled meanwhile")
        source.asks()
        cluster.node("huge", cpu="128", labels={"pool": "new"})
        await until(lambda: source.phase() == "Reserved" and source.phase("large") == "Reserved")
        assert lease(cluster, OF_CANDIDATES)["holderIdentity"].startswith("second/")
        assert other.leads
        back = await stage.replica()
        cluster.pod("p")
        await until(lambda: cluster.on("p"), "who comes back schedules its own")
        for name in ("c", "large"):
            source.permits(name, reservation=source.status(name)["reservation"]["number"])
        await until(lambda: source.phase() == "Bound" and source.phase("large") == "Bound")
        assert back.leads
        assert lease(cluster, OF_CANDIDATES)["holderIdentity"].startswith("second/")


async def test_whose_candidates_another_log_took_goes_on_with_its_profiles_and_does_nothing_more_about_them(
    database_url: str,
) -> None:
    async with staged(database_url) as stage:
        stage.ports = BRIEF
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("n")
        source.invited()
        replica = await stage.replica()
        source.asks()
        await until(lambda: source.phase() == "Reserved")
        taken = {"holderIdentity": "other/log", "leaseDurationSeconds": 600, "renewTime": None}
        cluster.store.patch(LEASES, "kube-system", OF_CANDIDATES, {"spec": taken})
        await until(lambda: "is held by the log other/log" in replica.health.checks["leader"].detail)
        before = stage.recorded("scheduler", "candidate/%")
        source.permits()
        cluster.pod("p")
        await until(lambda: cluster.on("p"))
        await asyncio.sleep(2)  # nothing is waited for: it is to stay so
        assert not cluster.on("c")
        assert stage.recorded("scheduler", "candidate/%") == before


def test_what_was_begun_for_candidates_that_are_another_log_s_by_now_is_not_sent() -> None:
    told = Told()
    targets = told.targets = Targets(TargetPolicy())
    targets.ready, targets.priority_classes = True, frozenset()
    told.process = Process(targets, TARGET_EVENTS)
    told.binding()
    (stream,) = targets.candidates
    begun = [one for one in targets.open_writes(stream) if one.action == BindStarted.__name__]
    assert [targets.is_open(one) for one in begun] == [True]
    targets.takes = False
    assert targets.open_writes(stream) == ()
    assert not targets.is_open(begun[0])


async def test_two_with_profiles_of_their_own_run_beside_each_other(database_url: str, tmp_path: Path) -> None:
    async with staged(database_url) as stage:
        cluster, source = stage.cluster, Source(stage.cluster)
        cluster.node("n", labels={"pool": "new"})
        source.invited()
        first = await stage.replica()
        other = await second(stage, config=profile(tmp_path, "new", "other"), take_candidates="no")
        assert other.ready
        cluster.pod("p")
        cluster.pod("q", scheduler="other")
        source.asks()
        await until(lambda: cluster.on("p") and cluster.on("q") and source.phase() == "Reserved")
        assert not stage.recorded("second", "candidate/%")
        assert not stage.recorded("second", "pod/default/p")
        await first.end()
        cluster.pod("r", scheduler="other")
        await until(lambda: cluster.on("r"))
        assert not stage.recorded("second", "candidate/%"), "they wait for whom they are"


async def test_one_with_another_log_waits_and_says_for_whom_and_takes_over_when_that_one_goes(
    database_url: str,
) -> None:
    async with staged(database_url) as stage:
        cluster = stage.cluster
        cluster.node("n")
        first = await stage.replica()
        other = await second(stage)
        told = waits(other)
        assert f"Lease kube-system/{LEASE} is held by the log scheduler/" in told
        assert "(process replica-0)" in told
        assert "give this one profiles with schedulerNames of its own" in told
        assert other.health.ready, "who waits does not keep the one before from being stopped"
        cluster.pod("p")
        await until(lambda: cluster.on("p"))
        assert (first.leads, other.leads, stage.recorded("second", "%")) == (True, False, 0)
        await first.end()
        assert {lease(cluster, name).get("holderIdentity") for name in (LEASE, OF_CANDIDATES)} == {None}
        await until(lambda: other.ready)
        cluster.pod("q")
        await until(lambda: cluster.on("q"))
        assert lease(cluster)["holderIdentity"].startswith("second/")


async def test_one_that_was_killed_is_waited_for_as_long_as_its_lease_lasts(database_url: str) -> None:
    async with staged(database_url) as stage:
        stage.ports = BRIEF
        cluster = stage.cluster
        cluster.node("n")
        first = await stage.replica()
        cluster.pod("p")
        await until(lambda: cluster.on("p"))
        await first.kill()
        gone = {**lease(cluster), "holderIdentity": "scheduler/killed", "leaseDurationSeconds": 2}
        for name in (LEASE, OF_CANDIDATES):
            ensure(cluster.store, LEASES, name, "kube-system", keep=False, spec=gone)
        other = await second(stage)
        assert waits(other)
        await until(lambda: other.ready)
        cluster.pod("q")
        await until(lambda: cluster.on("q"))


async def test_a_replica_of_the_same_log_waits_for_no_lease(database_url: str) -> None:
    async with staged(database_url) as stage:
        stage.ports = {"claim": 600.0}
        cluster = stage.cluster
        cluster.node("n")
        first = await stage.replica()
        replica = await stage.replica(leads=False)
        await until(lambda: lease(cluster)["holderIdentity"].startswith("scheduler/"))
        counts = bindings(cluster)
        await first.kill()
        cluster.pod("p")
        await until(lambda: cluster.on("p"))
        assert replica.leads
        assert not waits(replica)
        assert counts == {"p": 1}


async def test_whose_lease_another_log_took_schedules_no_more(database_url: str) -> None:
    async with staged(database_url) as stage:
        stage.ports = BRIEF
        cluster = stage.cluster
        cluster.node("n")
        replica = await stage.replica()
        await until(lambda: lease(cluster)["holderIdentity"].startswith("scheduler/"))
        taken = {"holderIdentity": "other/log", "leaseDurationSeconds": 600, "renewTime": None}
        cluster.store.patch(LEASES, "kube-system", LEASE, {"spec": taken})
        await until(lambda: waits(replica))
        assert not replica.leads
        cluster.pod("p")
        cluster.store.patch(LEASES, "kube-system", LEASE, {"spec": {"holderIdentity": None}})
        await until(lambda: cluster.on("p"))
        assert replica.leads


async def test_where_leases_may_not_be_written_it_goes_on_without(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with staged(database_url) as stage:
        stage.cluster.server.faults.storm(403, resources=["leases.coordination.k8s.io"])
        stage.cluster.node("n")
        await stage.replica()
        stage.cluster.pod("p")
        await until(lambda: stage.cluster.on("p"))
        said = capsys.readouterr().out
        assert "another one is not kept out" in said
        assert "deploy/scheduler/leases.yaml" in said
