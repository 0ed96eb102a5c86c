"""A source with virtual Nodes, over HTTP: what the Nodes show, when a pod is bound to one, and how a bound pod ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS, PODS, TARGET_LABEL
from controlplane.kube.kinds import LEASES, NAMESPACES, NODES, Json, meta
from controlplane.settings.candidates import VirtualNodeSettings
from tests.candidates.e2e.stage import NS, Stage

Make = Callable[..., Awaitable[Stage]]
ON: dict[str, Any] = {"virtual_nodes": VirtualNodeSettings(enabled="yes")}
RUNNING: Json = {
    "startTime": "2026-01-01T00:00:00Z",
    "podIP": "10.0.0.7",
    "podIPs": [{"ip": "10.0.0.7"}],
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
    "containerStatuses": [
        {"name": "c", "image": "i", "imageID": "i", "ready": True, "restartCount": 0, "state": {"running": {}}}
    ],
}
TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def node(it: Stage, target: str) -> Json:
    try:
        found: Json = it.store.get(NODES, "", f"candidates-{target}")
    except ApiError:
        return {}
    return found


def ready(it: Stage, target: str) -> Json:
    conditions = (node(it, target).get("status") or {}).get("conditions") or []
    return next((dict(one) for one in conditions if one["type"] == "Ready"), {})


def add_node(it: Stage, target: str, name: str, cpu: str, **spec: Any) -> None:
    store, room = it.world.clusters[target].store, {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    store.create(NODES, {"metadata": {"name": name}, "spec": spec})
    store.patch(NODES, "", name, {"status": {"allocatable": room, "capacity": room}}, subresource="status")


async def bound(it: Stage, target: str, name: str = "web") -> Json:
    """Have a source pod placed, its delegate running, and wait until the source pod is bound and says so."""
    await it.placed(name, target)
    it.targets[target].show("Running", **RUNNING)

    def there() -> Json | None:
        pod = it.pod(name) or {}
        on = (pod.get("spec") or {}).get("nodeName") == f"candidates-{target}"
        return pod if on and pod["status"]["phase"] == "Running" else None

    found: Json = await it.until(there, f"{name} runs on the virtual node of {target}")
    return found


async def runs(it: Stage) -> None:
    """Have a pod whose delegate runs, and shows it."""
    it.submit()
    await it.placed()
    it.targets["east"].show("Running", **RUNNING)
    await it.until(lambda: (it.pod() or {})["status"]["phase"] == "Running", "the delegate's status")


async def test_each_target_is_a_node_with_what_its_nodes_have_together(stage: Make) -> None:
    it = await stage("east", "west", **ON)
    it.store.create(NAMESPACES, {"metadata": {"name": "kube-node-lease"}})
    add_node(it, "east", "n1", "4")
    add_node(it, "east", "n2", "3500m")
    add_node(it, "east", "n3", "8", unschedulable=True)
    await it.until(lambda: (node(it, "east").get("status") or {}).get("capacity", {}).get("cpu") == "7500m", "the sum")
    found = node(it, "east")
    assert found["status"]["capacity"] == {"cpu": "7500m", "memory": "128Gi", "pods": "220"}
    assert found["status"]["allocatable"] == found["status"]["capacity"]
    assert (ready(it, "east")["status"], ready(it, "east")["reason"]) == ("True", "TargetReady")
    assert found["spec"]["taints"] == [
        {"key": "candidates.controlplane.dev/virtual-node", "value": "east", "effect": "NoSchedule"}
    ]
    labels = meta(found)["labels"]
    assert (labels["kubernetes.io/hostname"], labels[TARGET_LABEL]) == ("candidates-east", "east")
    assert "node.kubernetes.io/exclude-from-external-load-balancers" in labels
    await it.until(lambda: node(it, "west"), "the other node")
    await it.until(
        lambda: len([one for one in it.store.records(LEASES) if one.namespace == "kube-node-lease"]) == 2, "the leases"
    )
    lease = it.store.get(LEASES, "kube-node-lease", "candidates-east")
    assert lease["spec"]["leaseDurationSeconds"] == 40
    assert meta(lease)["ownerReferences"][0]["uid"] == meta(found)["uid"]
    it.world.clusters["east"].store.delete(NODES, "", "n1")
    await it.until(lambda: node(it, "east")["status"]["capacity"]["cpu"] == "3500m", "one went")
    await it.quiet()
    assert len(it.said("VirtualNodeMade", name="candidates-east")) == 1


async def test_it_writes_nothing_when_nothing_happens(stage: Make) -> None:
    it = await stage("east", **ON)
    it.submit()
    await bound(it, "east")
    await it.until(lambda: ready(it, "east").get("status") == "True", "the node is ready")
    await it.quiet(0.5)
    counts = [len(it.said(event)) for event in ("VirtualNodeShown", "StatusShown", "SourceBound", "DelegateHinted")]
    await it.quiet(1.0)
    assert counts == [len(it.said(e)) for e in ("VirtualNodeShown", "StatusShown", "SourceBound", "DelegateHinted")]


async def test_a_pod_is_bound_once_its_kubelet_has_accepted_it(stage: Make) -> None:
    it = await stage("east", pod_ips="show", **ON)
    it.submit()
    await it.placed()
    await it.quiet()
    assert not it.pod()["spec"].get("nodeName")  # type: ignore[index]
    pod = await bound(it, "east")
    assert (pod["status"]["podIP"], pod["status"]["podIPs"]) == ("10.0.0.7", [{"ip": "10.0.0.7"}])
    assert it.condition(kind="Ready")["status"] == "True"
    assert it.condition(kind="PodScheduled")["status"] == "True"
    unlimited = {one["key"] for one in pod["spec"]["tolerations"] if "tolerationSeconds" not in one}
    assert unlimited == set(TOLERATED)
    assert len(it.said("SourceBound")) == 1
    # The delegate keeps the tolerations that the pod came with.
    await it.quiet()
    assert not it.said("CandidateAmended")
    assert [p["spec"].get("tolerations") or [] for p in it.targets["east"].bound] == [[]]


async def test_what_a_user_adds_to_the_tolerations_of_a_bound_pod_follows(stage: Make) -> None:
    it = await stage("east", **ON)
    first = {"key": TOLERATED[0], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}
    it.submit(tolerations=[first])
    pod = await bound(it, "east")
    more = {"key": "spot", "operator": "Exists"}

    it.store.patch(PODS, NS, "web", {"spec": {"tolerations": [*pod["spec"]["tolerations"], more]}})
    await it.until(lambda: it.targets["east"].bound[0]["spec"]["tolerations"] == [first, more], "it followed")


async def test_a_target_that_cannot_be_reached_makes_its_node_not_ready_and_keeps_its_pods(stage: Make) -> None:
    it = await stage("east", execution_policy="never-twice", **ON)
    it.submit()
    await bound(it, "east")
    it.cut("east")
    await it.until(lambda: ready(it, "east").get("status") == "False", "not ready")
    assert ready(it, "east")["reason"] == "TargetUnreachable"
    await it.quiet(1.5)
    pod = it.pod()
    assert pod is not None
    assert pod["status"]["phase"] == "Running"
    # A node controller takes the readiness of the Node's pods away; it is given back with the target.
    conditions = [{**one, "status": "False"} if one["type"] == "Ready" else one for one in pod["status"]["conditions"]]

    it.store.patch(PODS, NS, "web", {"status": {"conditions": conditions}}, subresource="status")
    it.heal("east")
    await it.until(lambda: ready(it, "east").get("status") == "True", "ready")
    await it.until(lambda: it.condition(kind="Ready")["status"] == "True", "the pod is ready again")


async def test_a_deleted_pod_stays_until_its_delegate_has_stopped(stage: Make) -> None:
    it = await stage("east", **ON)
    it.submit()
    await bound(it, "east")
    it.cut("east")
    await it.until(lambda: ready(it, "east").get("status") == "False", "not ready")
    it.store.graceful = True
    it.delete()
    await it.quiet(1.5)  # longer than candidates.lostAfter of this stage
    assert meta(it.pod() or {}).get("deletionTimestamp")
    it.heal("east")
    await it.until(lambda: it.pod() is None, "it is gone")
    assert not it.left()
    last = it.said("StatusShown")[-1]
    assert (last["phase"], last["reason"]) == ("Failed", "DelegateStopped")
    assert len(it.said("SourceRemoved")) == 1


@pytest.mark.deep
async def test_a_deleted_pod_waits_for_no_target_that_was_given_up(stage: Make) -> None:
    it = await stage("east", execution_policy="never-twice", **ON)
    it.submit()
    await bound(it, "east")
    it.cut("east")
    await it.until(lambda: ready(it, "east").get("status") == "False", "not ready")
    it.store.graceful = True
    it.delete()
    await it.quiet(0.5)
    assert it.pod() is not None
    forget = ["--database-url", it.url, "clusters", "forget", "east", "--i-know"]
    done = await asyncio.to_thread(CliRunner().invoke, cli, forget)
    assert done.exit_code == 0, done.output
    await it.until(lambda: it.pod() is None, "it is gone")


async def test_a_bound_pod_whose_delegate_is_lost_fails_and_goes_nowhere_else(stage: Make) -> None:
    it = await stage("east", "west", **ON)
    it.targets["west"].room = 0
    it.submit()
    await bound(it, "east")
    it.targets["west"].room = 5
    it.targets["east"].evict()
    await it.until(lambda: (it.pod() or {})["status"]["phase"] == "Failed", "it failed")
    assert it.condition(kind="DisruptionTarget")["status"] == "True"
    await it.quiet()
    assert it.bound_in() == []
    assert len(it.said("Elected")) == 1


async def test_a_delegate_that_its_kubelet_rejects_is_placed_anew_since_nothing_is_bound_yet(stage: Make) -> None:
    it = await stage("east", **ON)
    it.submit()
    await it.placed()
    it.targets["east"].show(
        "Failed", reason="OutOfcpu", message="Pod was rejected: Node didn't have enough resource: cpu"
    )
    await it.until(lambda: len(it.said("PermitGranted")) == 2, "another permit")
    await it.until(lambda: [p["status"]["phase"] for p in it.targets["east"].bound] == ["Pending"], "another delegate")
    await bound(it, "east")
    assert len(it.said("SourceBound")) == 1


async def test_a_process_that_dies_between_the_two_bindings_is_followed_by_one_that_binds(stage: Make) -> None:
    it = await stage("east", lost_after=timedelta(minutes=5), **ON)
    it.submit()
    await it.placed()
    home = it.world.management.faults
    home.cut()  # decided, and never carried out
    it.targets["east"].show("Running", **RUNNING)
    await it.quiet()
    await it.kill()
    home.clear()
    await it.up()
    await bound(it, "east")
    await it.quiet()
    assert len(it.said("PermitGranted")) == 1
    assert it.bound_in() == ["east"]


async def test_a_node_goes_with_its_target_once_no_pod_is_bound_to_it(stage: Make) -> None:
    it = await stage("east", targets=(), **ON)
    it.allow("east")
    it.submit()
    await bound(it, "east")
    it.store.delete(CANDIDATE_TARGETS, NS, "to-east")
    await it.quiet()
    assert node(it, "east")
    it.store.graceful = True
    it.delete()
    await it.until(lambda: not node(it, "east"), "the node is gone")
    assert len(it.said("VirtualNodeRemoved")) == 1


async def test_a_node_that_somebody_deletes_is_made_again(stage: Make) -> None:
    it = await stage("east", **ON)
    await it.until(lambda: node(it, "east"), "the node")
    before = meta(node(it, "east"))["uid"]
    it.store.delete(NODES, "", "candidates-east")
    await it.until(lambda: node(it, "east") and meta(node(it, "east"))["uid"] != before, "another one")


async def test_a_node_of_that_name_that_is_not_ours_is_left_alone_and_nothing_is_bound(stage: Make) -> None:
    it = await stage("east", targets=(), **ON)
    it.store.create(NODES, {"metadata": {"name": "candidates-east"}, "spec": {}})
    it.allow("east")
    await runs(it)
    assert not it.pod()["spec"].get("nodeName")  # type: ignore[index]
    assert TARGET_LABEL not in (meta(node(it, "east")).get("labels") or {})


async def test_without_the_option_nothing_is_bound_and_there_is_no_node(stage: Make) -> None:
    it = await stage("east")
    await runs(it)
    await it.quiet()
    pod = it.pod()
    assert pod is not None
    assert not pod["spec"].get("nodeName")
    assert not pod["spec"].get("tolerations")
    assert not node(it, "east")
    assert "podIP" not in pod["status"]


async def test_the_stories_say_what_was_decided(stage: Make) -> None:
    it = await stage("east", **ON)
    it.submit()
    await bound(it, "east")
    told = {}
    for words in (["timeline", f"pod/{NS}/web"], ["why", f"pod/{NS}/web"], ["events", "--stream", "virtualnode/east"]):
        done = await asyncio.to_thread(CliRunner().invoke, cli, ["--database-url", it.url, *words])
        told[words[0]] = done.output
    assert "pod is to be bound to Node candidates-east" in told["timeline"], told["timeline"]
    assert "the delegate's kubelet has accepted it" in told["timeline"] + told["why"], told
    assert "Node candidates-east is to be created" in told["events"], told["events"]


@pytest.mark.deep
async def test_pods_that_run_already_are_bound_when_the_option_is_turned_on(stage: Make) -> None:
    it = await stage("east")
    await runs(it)
    await it.kill()
    candidates = msgspec.structs.replace(it.settings.candidates, **ON)
    await it.up(msgspec.structs.replace(it.settings, candidates=candidates))
    await bound(it, "east")
    assert len(it.said("Elected")) == len(it.said("PermitGranted")) == 1
