"""The page on ProvisioningRequests says what happens, on simulated workers whose Kueue has the check of the page.

What Kueue's own controller of that check does (a ProvisioningRequest, and an answer) the test does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import yaml

from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, WORKLOADS, Json, meta
from controlplane.simulation.kueue.common import timestamp
from controlplane.simulation.world import SimulatedCluster
from tests.docs.snippets import ROOT, blocks
from tests.outages.stage import Stage, check_of, condition
from tests.outages.test_why_ended import ask

PAGE = ROOT / "docs/howto/provisioning.md"
CHECK = "provisioning"
Make = Callable[..., Awaitable[Stage]]


def shown(kind: str) -> Json:
    """The object of a kind that the page shows."""
    texts = [block.text for block in blocks(PAGE) if block.language == "yaml"]
    (found,) = [one for text in texts for one in yaml.safe_load_all(text) if one.get("kind") == kind]
    return dict(found)


def now(cluster: SimulatedCluster) -> str:
    return timestamp(cluster.kueue.core.now())


def provision(cluster: SimulatedCluster) -> None:
    """Give a cluster the check of the page, which is active, in its ClusterQueue."""
    check, queue = shown("AdmissionCheck"), shown("ClusterQueue")
    cluster.store.create(ADMISSION_CHECKS, {"metadata": check["metadata"], "spec": check["spec"]})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now(cluster)}
    cluster.store.patch(ADMISSION_CHECKS, "", CHECK, {"status": {"conditions": [active]}}, subresource="status")
    strategy = queue["spec"]["admissionChecksStrategy"]
    cluster.store.patch(CLUSTER_QUEUES, "", queue["metadata"]["name"], {"spec": {"admissionChecksStrategy": strategy}})


def answer(on: Stage, name: str, state: str, message: str = "", **more: Any) -> None:
    """Have the check of a worker's copy say something, as Kueue's controller of ProvisioningRequests does."""
    cluster = on.worker(name)
    copy = on.workload(cluster)
    assert copy is not None
    entry = {"name": CHECK, "state": state, "message": message, "lastTransitionTime": now(cluster), **more}
    place = (meta(copy)["namespace"], meta(copy)["name"])
    cluster.store.patch(WORKLOADS, *place, {"status": {"admissionChecks": [entry]}}, subresource="status")


async def waiting(stage: Make, *clusters: str) -> Stage:
    """A job whose copies have quota and wait for their workers' checks."""
    on = await stage(*clusters)
    for name in clusters:
        provision(on.worker(name))
    on.submit()
    for name in clusters:
        await on.until(lambda at=name: condition(on.workload(on.worker(at)), "QuotaReserved"), f"quota on {name}")
    return on


def asked_for(on: Stage) -> set[str]:
    """The kinds that were asked for anywhere."""
    return {resource for cluster in on.world.clusters.values() for _, resource, _ in cluster.server.counts}


async def test_the_first_with_nodes_has_the_job_and_why_says_what_is_waited_for(stage: Make) -> None:
    on = await waiting(stage, "a", "b")
    for name in ("a", "b"):
        answer(on, name, "Pending", "Waiting for resources.")
    text = "has quota, and waits for the check of provisioning (Waiting for resources)"
    assert text in " ".join(PAGE.read_text().split())
    for name in ("a", "b"):
        said = f"{name} says: {text}"
        await on.until(lambda what=said: what in ask(on).sentence, said)
    assert on.jobs() == set(), "there is no job before there are nodes"
    assert on.clones() == {"a", "b"}
    annotated = {"cluster-autoscaler.kubernetes.io/consume-provisioning-request": "x"}
    answer(
        on,
        "b",
        "Ready",
        "Provisioning Request is provisioned",
        podSetUpdates=[{"name": "main", "annotations": annotated}],
    )
    assert await on.running() == "b"
    await on.until(lambda: on.clones() == {"b"}, "the other copy gone")
    here = on.workload()
    assert here is not None
    assert check_of(here)["name"] == "multikueue", "and no other check on the management cluster"
    assert not [kind for kind in asked_for(on) if "provisioning" in kind]


async def test_a_worker_that_gives_up_is_left_out_and_keeps_no_quota(stage: Make) -> None:
    on = await waiting(stage, "a", "b", "c")
    answer(on, "a", "Rejected", "no such nodes")
    answer(on, "b", "Retry", "Retrying after failure")
    for text in ("because the Kueue of a deactivated the copy", "because a check of b put the copy off"):
        await on.until(lambda what=text: what in ask(on).sentence, text)
    await on.until(lambda: on.clones() == {"c"}, "their copies gone")
    assert on.worker("b").kueue.queues.quota.holders("cluster-queue") == {}
    reasons = {one["cluster"]: one["reason"] for one in on.said("ClusterRefused")}
    assert reasons == {"a": "RejectedByWorker", "b": "PutOffByWorker"}
    assert all(f"`{reason}`" in PAGE.read_text() for reason in reasons.values())
    answer(on, "c", "Ready")
    assert await on.running() == "c"


async def test_a_check_on_both_sides_makes_the_queue_of_the_management_cluster_inactive(stage: Make) -> None:
    on = await stage("a")
    check = shown("AdmissionCheck")
    on.manager.store.create(ADMISSION_CHECKS, {"metadata": check["metadata"], "spec": check["spec"]})
    both = [{"name": "multikueue"}, {"name": CHECK}]
    spec = {"spec": {"admissionChecksStrategy": {"admissionChecks": both}}}
    on.manager.store.patch(CLUSTER_QUEUES, "", "cluster-queue", spec)

    def told() -> bool:
        (queue,) = on.manager.store.list(CLUSTER_QUEUES)[0]
        (active,) = [one for one in queue["status"]["conditions"] if one["type"] == "Active"]
        return active["status"] == "False" and "MultiKueue and ProvisioningRequest" in active["message"]

    await on.until(told, "an inactive queue")
