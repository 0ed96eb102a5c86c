"""Nodes fail under jobs that were placed by topology, with the whole service on a cluster where no Kueue is; the
process is killed on the way."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, EVENTS, NODES, PODS, WORKLOADS, Json, meta
from controlplane.kube.topologies import domains_of
from controlplane.kube.well_known import HOSTNAME
from tests.outages.stage import NS, Stage
from tests.outages.test_jobframework import end, waits, without_kueue
from tests.outages.test_topologies import (
    INDEX,
    Make,
    make_node,
    make_pod,
    places,
    queue_with_topology,
    started,
    submit,
)
from tests.support.deep import deep_after

NO_SCHEDULE = [{"key": "broken", "effect": "NoSchedule"}]


def ready(on: Stage, name: str, *, yes: bool) -> None:
    conditions = [{"type": "Ready", "status": "True" if yes else "Unknown"}]
    on.manager.store.patch(NODES, "", name, {"status": {"conditions": conditions}}, subresource="status")


def bind(on: Stage, *names: str) -> None:
    """What scheduler and kubelet do: pods run on the nodes that they are to be on."""
    store = on.manager.store
    for name in names:
        pod = store.get(PODS, NS, name)
        store.patch(PODS, NS, name, {"spec": {"nodeName": pod["spec"]["nodeSelector"][HOSTNAME]}})
        store.patch(PODS, NS, name, {"status": {"phase": "Running"}}, subresource="status")


def pods(on: Stage) -> dict[str, Json]:
    return {meta(one)["name"]: one for one in on.manager.store.list(PODS)[0]}


def workload(on: Stage, name: str = "train") -> Json:
    found = on.workload(name=name)
    assert found is not None
    return dict(found)


def named(on: Stage) -> list[str]:
    return [one["name"] for one in workload(on)["status"].get("unhealthyNodes") or ()]


def placed(on: Stage) -> dict[str, int]:
    admission = workload(on)["status"].get("admission") or {"podSetAssignments": [{}]}
    assignment = admission["podSetAssignments"][0].get("topologyAssignment")
    return {values[-1]: count for values, count in domains_of(assignment)} if assignment else {}


def evicted(on: Stage) -> tuple[str, str]:
    found = condition(workload(on), "Evicted") or {}
    return (found["reason"], found["message"]) if found.get("status") == "True" else ("", "")


def told(on: Stage, kind: str) -> list[str]:
    return [one["reason"] for one in on.manager.store.list(EVENTS)[0] if one["regarding"]["kind"] == kind]


async def runs(on: Stage, count: int, *nodes: str, cpu: str = "2", bound: bool = True) -> None:
    """A job whose pods are where they are to be."""
    queue_with_topology(on, *nodes, cpu=cpu)
    submit(on, "train", count)
    await on.until(lambda: started(on, "train"), "it is admitted")
    for index in range(count):
        make_pod(on, "train", index)
    await on.until(lambda: all(places(on).values()), "all have their domain")
    if bound:
        bind(on, *pods(on))


@pytest.mark.deep
async def test_a_process_that_is_killed_again_and_again_replaces_a_node_once(stage: Make) -> None:
    on = await without_kueue(stage)
    await runs(on, 4, "n1", "n2", "n3")
    assert placed(on) == {"n1": 2, "n2": 2}
    ready(on, "n1", yes=False)
    await on.kill()
    await on.up()
    assert named(on) == [], "pods run there still"
    for index in (0, 1):
        on.manager.store.delete(PODS, NS, f"train-{index}")
        await on.kill()
        await on.up()
    await on.until(lambda: placed(on) == {"n2": 2, "n3": 2}, "its pods are to be elsewhere")
    await on.kill()
    await on.up()
    await on.until(lambda: named(on) == [], "no node is to be replaced any more")
    for index in (0, 1):
        make_pod(on, "train", index)
        await on.kill()
        await on.up()
    await on.until(lambda: all(places(on).values()), "all have their domain")
    assert places(on) == {"train-0": "n3", "train-1": "n3", "train-2": "n2", "train-3": "n2"}
    assert started(on, "train")
    assert evicted(on) == ("", "")
    assert len(on.said("TopologyAssignmentDecided")) == 1
    assert len([one for one in on.said("WorkloadStatusDecided") if one["reason"] == "NodeFailed"]) == 1


async def test_a_node_that_goes_while_nobody_looks_is_replaced(stage: Make) -> None:
    on = await without_kueue(stage)
    await runs(on, 2, "n1", "n2")
    (before,) = placed(on)
    (other,) = {"n1", "n2"} - {before}
    await on.kill()
    on.manager.store.delete(NODES, "", before)
    await on.up()
    await on.until(lambda: placed(on) == {other: 2}, "its pods are to be on the other one")
    assert evicted(on) == ("", "")


@pytest.mark.deep
async def test_pods_that_wait_for_a_tainted_node_fail_and_others_take_their_place(stage: Make) -> None:
    on = await without_kueue(stage)
    await runs(on, 2, "n1", "n2", bound=False)
    (before,) = placed(on)
    (other,) = {"n1", "n2"} - {before}
    on.manager.store.patch(NODES, "", before, {"spec": {"taints": NO_SCHEDULE}})
    await on.until(lambda: on.said("PodFailureDecided"), "pods are to fail")
    await on.kill()
    await on.up()
    await on.until(lambda: {one["status"]["phase"] for one in pods(on).values()} == {"Failed"}, "they have failed")
    for one in pods(on).values():
        said = condition(one, "TerminatedByKueue")
        assert said is not None
        assert (said["status"], said["reason"]) == ("True", "UnschedulableOnAssignedNode")
    await on.until(lambda: placed(on) == {other: 2}, "the Workload is placed elsewhere")
    for index in (0, 1):
        on.manager.store.delete(PODS, NS, f"train-{index}")
        make_pod(on, "train", index)
    await on.until(lambda: set(places(on).values()) == {other}, "the new ones run there")
    assert len(on.said("PodFailureDecided")) == 2
    assert all(one["status"].get("phase") != "Failed" for one in pods(on).values())


@pytest.mark.deep
async def test_where_no_other_node_is_the_job_waits_until_one_is_there(stage: Make) -> None:
    on = await without_kueue(stage)
    queue_with_topology(on, "n1", cpu="2")
    submit(on, "train", 2)
    await on.until(lambda: started(on, "train"), "it is admitted")
    ready(on, "n1", yes=False)
    await on.until(lambda: evicted(on)[0], "there is no other node")
    said = "Workload was evicted as there was no replacement for unhealthy node(s): n1"
    assert evicted(on) == ("NodeFailures", said)
    # An Event is told once, and is no decision: who dies before that never tells it.
    await on.until(lambda: "EvictedDueToNodeFailures" in told(on, "Workload"), "that is told")
    await on.kill()
    await on.up()
    await on.until(lambda: not started(on, "train"), "the job is stopped")
    await on.until(lambda: not is_true(workload(on), "QuotaReserved"), "its quota is free")
    assert named(on) == []
    ready(on, "n1", yes=True)
    await on.until(lambda: started(on, "train"), "it starts again, since it is queued again at once")


@pytest.mark.deep
async def test_a_job_that_has_waited_and_was_replaced_gives_all_of_its_admission_back(stage: Make) -> None:
    """Whichever way its admission was written, nothing of it is left: another one could not take its place."""
    on = await without_kueue(stage)
    queue_with_topology(on, "n1", cpu="2")
    submit(on, "first", 2)
    await on.until(lambda: started(on, "first"), "one runs")
    submit(on, "train", 2)
    await on.until(lambda: waits(on, "train"), "the other waits")
    end(on, "first")
    await on.until(lambda: started(on, "train"), "it has its turn")
    make_node(on, "n2", "2")
    ready(on, "n1", yes=False)
    await on.until(lambda: placed(on) == {"n2": 2}, "it is placed anew")
    ready(on, "n2", yes=False)
    await on.until(lambda: not is_true(workload(on), "QuotaReserved"), "there is no other node")
    assert "admission" not in workload(on)["status"]
    ready(on, "n1", yes=True)
    await on.until(lambda: placed(on) == {"n1": 2} and started(on, "train"), "it starts again")


@pytest.mark.deep
async def test_with_two_nodes_that_fail_at_once_the_job_starts_anew_elsewhere(stage: Make) -> None:
    on = await without_kueue(stage)
    await runs(on, 4, "n1", "n2", "n3", "n4")
    assert placed(on) == {"n1": 2, "n2": 2}
    for name in ("n1", "n2"):
        on.manager.store.delete(NODES, "", name)
    await on.until(lambda: on.said("WorkloadStatusDecided", evicted="NodeFailures"), "it is to be evicted")
    await on.kill()
    for name in list(pods(on)):
        on.manager.store.delete(PODS, NS, name)
    await on.up()
    await on.until(lambda: placed(on) == {"n3": 2, "n4": 2} and started(on, "train"), "it runs elsewhere")
    said = "Workload eviction triggered due to multiple TAS assigned node failures, including: n1, n2"
    assert [one["message"] for one in on.said("WorkloadStatusDecided", evicted="NodeFailures")] == [said]


async def test_a_node_that_flaps_while_its_pods_run_changes_nothing(stage: Make) -> None:
    on = await without_kueue(stage)
    await runs(on, 2, "n1", "n2")
    (before,) = placed(on)
    await on.quiet()  # what follows from its pods' start has been written then
    version = meta(workload(on))["resourceVersion"]
    for _ in range(3):
        for yes in (False, True):
            ready(on, before, yes=yes)
            await on.until(lambda yes=yes: _seen(on, before) is yes, "it is seen")
    await on.kill()
    await on.up()
    ready(on, before, yes=False)
    await on.until(lambda: _seen(on, before) is False, "it is seen")
    assert meta(workload(on))["resourceVersion"] == version
    ready(on, before, yes=True)


def _seen(on: Stage, name: str) -> bool:
    return bool(on.said("AdmissionNodeObserved", name=name)[-1].get("ready"))


@pytest.mark.deep
async def test_users_are_told_by_an_event_that_the_second_pass_fails(stage: Make) -> None:
    on = await without_kueue(stage)
    queue_with_topology(on, "n1", cpu="1")
    store = on.manager.store
    store.create(
        ADMISSION_CHECKS,
        {"metadata": {"name": "later"}, "spec": {"controllerName": "kueue.x-k8s.io/provisioning-request"}},
    )
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    store.patch(ADMISSION_CHECKS, "", "later", {"status": {"conditions": [active]}}, subresource="status")
    strategy = {"admissionChecks": [{"name": "later"}]}
    store.patch(CLUSTER_QUEUES, "", "own", {"spec": {"admissionChecksStrategy": strategy}})
    submit(on, "train", 2)
    await on.until(lambda: _check(on) is not None, "its check is asked for")
    check = {**(_check(on) or {}), "state": "Ready", "message": "there are nodes"}
    name = meta(workload(on))["name"]
    store.patch(WORKLOADS, NS, name, {"status": {"admissionChecks": [check]}}, subresource="status")
    await on.until(lambda: "SecondPassFailed" in told(on, "Workload"), "users are told")
    await on.until(lambda: len(on.said("TopologyAssignmentFailed")) > 1, "it is tried again")
    await on.kill()
    await on.up()
    assert told(on, "Workload").count("SecondPassFailed") == 1
    store.patch(NODES, "", "n1", {"status": {"allocatable": {"cpu": "2", "pods": "10"}}}, subresource="status")
    await on.until(lambda: started(on, "train"), "there is room now")


def _check(on: Stage) -> Json | None:
    found = on.workload(name="train")
    listed = found["status"].get("admissionChecks") if found is not None and "status" in found else None
    return dict(listed[0]) if listed and is_true(found, "QuotaReserved") else None


class Cluster:
    """What the Job controller, the scheduler, kubelets and the taint manager do: one round of each."""

    def __init__(self, on: Stage, pods: int) -> None:
        self.on, self.count, self.made = on, pods, 0

    def round(self) -> None:
        store, runs = self.on.manager.store, started(self.on, "train")
        for name, pod in pods(self.on).items():
            if pod["status"].get("phase") == "Failed" or not runs or self._is_lost(pod):
                store.delete(PODS, NS, name)
        there = {meta(one)["labels"][INDEX] for one in pods(self.on).values()}
        for index in (one for one in range(self.count) if runs and str(one) not in there):
            self.made += 1
            make_pod(self.on, "train", index, f"train-{index}-{self.made}")
        for name, pod in pods(self.on).items():
            spec = pod["spec"]
            if not spec.get("nodeName") and not spec.get("schedulingGates") and self._takes(spec["nodeSelector"]):
                bind(self.on, name)

    def _node(self, name: str) -> Json | None:
        return next((one for one in self.on.manager.store.list(NODES)[0] if meta(one)["name"] == name), None)

    def _takes(self, selector: Json) -> bool:
        found = self._node(selector[HOSTNAME])
        return found is not None and is_true(found, "Ready") and not found.get("spec", {}).get("taints")

    def _is_lost(self, pod: Json) -> bool:
        """Whether a pod runs on a node that is gone, or has not been ready for long."""
        found = self._node(pod["spec"].get("nodeName") or pod["spec"].get("nodeSelector", {}).get(HOSTNAME, ""))
        bound = bool(pod["spec"].get("nodeName"))
        gone = found is None and not pod["spec"].get("schedulingGates")
        return gone or (bound and found is not None and not is_true(found, "Ready"))

    def settled(self) -> bool:
        self.round()
        running = Counter(one["spec"].get("nodeName", "") for one in pods(self.on).values())
        return started(self.on, "train") and running == placed(self.on) and not named(self.on)


@pytest.mark.deep
@pytest.mark.parametrize("seed", deep_after(1, range(20)))
async def test_whatever_nodes_and_processes_do_the_job_runs_where_its_workload_says(stage: Make, seed: int) -> None:
    on, rng = await without_kueue(stage), random.Random(seed)
    nodes = ("n1", "n2", "n3", "n4")
    queue_with_topology(on, *nodes, cpu="2")
    submit(on, "train", 4)
    cluster = Cluster(on, 4)
    await on.until(cluster.settled, "it runs")
    for _ in range(10):
        broken = rng.sample(nodes, rng.choice((1, 1, 2)))
        for name in broken:
            _break(on, name, rng.choice(("down", "taint", "gone", "down")))
        cluster.round()
        if rng.random() < 0.5:
            await on.kill()
            cluster.round()
            await on.up()
        at, lasts = on.position + rng.randrange(4), rng.random() < 0.6
        await on.until(lambda at=at, lasts=lasts: cluster.settled() or (not lasts and on.position >= at), "it follows")
        for name in broken:
            _mend(on, name)
        cluster.round()
    await on.until(cluster.settled, "it runs again, and no node is to be replaced")
    failed = [one["uid"] for one in on.said("PodFailureDecided")]
    assert len(set(failed)) == len(failed), "each pod fails once"


def _break(on: Stage, name: str, how: str) -> None:
    match how:
        case "gone":
            on.manager.store.delete(NODES, "", name)
        case "taint":
            on.manager.store.patch(NODES, "", name, {"spec": {"taints": NO_SCHEDULE}})
        case "down":
            ready(on, name, yes=False)


def _mend(on: Stage, name: str) -> None:
    if all(meta(one)["name"] != name for one in on.manager.store.list(NODES)[0]):
        make_node(on, name, "2")
    on.manager.store.patch(NODES, "", name, {"spec": {"taints": None}})
    ready(on, name, yes=True)
