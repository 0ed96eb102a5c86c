"""A LeaderWorkerSet over HTTP: its replicas go to one cluster, with one copy, also when the service dies in between and
when one replica is evicted. No Kueue here knows the kind: the test makes the Workloads of its replicas, as Kueue does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from controlplane.job_kinds.base import MADE_FOR
from controlplane.job_kinds.gated import HELD
from controlplane.job_kinds.leaderworkerset import LeaderWorkerSet, workload_name
from controlplane.kube.kinds import WORKLOADS, Json, meta
from controlplane.kube.kueue_names import ORIGIN_UID, QUEUE_LABEL, RESOURCE_IN_USE
from controlplane.simulation.kinds.base import DEFAULT_KINDS, served
from tests.job_kinds.rows import TEMPLATE
from tests.multikueue.kep693.rig import NS
from tests.outages.stage import Stage, condition, settings

KIND, NAME = LeaderWorkerSet.kind, "serve"
ADAPTER = LeaderWorkerSet()


class Sets:
    """A LeaderWorkerSet of two replicas on a stage whose clusters have the kind."""

    def __init__(self, on: Stage) -> None:
        self.on = on
        self.uid = ""

    def submit(self) -> None:
        gated = {"spec": {**TEMPLATE["spec"], "schedulingGates": [{"name": HELD}]}}
        body = {
            "apiVersion": KIND.api_version,
            "kind": KIND.kind,
            "metadata": {"name": NAME, "namespace": NS, "labels": {QUEUE_LABEL: "user-queue"}},
            "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": gated}},
        }
        made = self.on.manager.store.create(KIND, body)
        self.uid = str(meta(made)["uid"])
        for index in range(2):
            self.on.manager.store.create(WORKLOADS, self._workload(made, index))

    def _workload(self, owner: Json, index: int) -> Json:
        reference = {"apiVersion": KIND.api_version, "kind": KIND.kind, "name": NAME, "uid": self.uid}
        marks = {
            "kueue.x-k8s.io/job-owner-gvk": KIND.gvk,
            "kueue.x-k8s.io/job-owner-name": NAME,
            "kueue.x-k8s.io/component-workload-index": str(index),
        }
        return {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "metadata": {
                "name": self.name(index),
                "namespace": NS,
                "annotations": marks,
                "finalizers": [RESOURCE_IN_USE],
                "ownerReferences": [reference],
            },
            "spec": {"queueName": "user-queue", "active": True, "priority": 0, "podSets": ADAPTER.pod_sets(owner)},
        }

    def name(self, index: int) -> str:
        return workload_name(KIND, NAME, self.uid, index)

    def at(self, index: int) -> str:
        found = self.on.manager.store.get(WORKLOADS, NS, self.name(index))
        admitted = condition(found, "Admitted")
        return str(found["status"].get("clusterName") or "") if admitted else ""

    def copies(self) -> dict[str, Json]:
        found = {name: one.store.list(KIND)[0] for name, one in self.on.world.workers.items()}
        return {name: objs[0] for name, objs in found.items() if objs}

    def clones(self) -> dict[str, int]:
        found = {name: len(one.store.list(WORKLOADS)[0]) for name, one in self.on.world.workers.items()}
        return {name: count for name, count in found.items() if count}


async def test_all_replicas_go_to_one_cluster_with_one_copy_that_goes_with_the_last(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    wanted = settings(kinds=("batch/job", ADAPTER.integration))
    on = await stage("a", "b", settings=wanted, kinds=(*DEFAULT_KINDS, served(ADAPTER)))
    sets = Sets(on)
    sets.submit()
    await on.until(lambda: sets.at(0) and sets.at(0) == sets.at(1), "both replicas on one cluster")
    where = sets.at(0)
    await on.until(lambda: sets.clones() == {where: 2}, "no copy elsewhere")
    assert set(sets.copies()) == {where}
    copy = sets.copies()[where]
    assert meta(copy)["annotations"] == {ORIGIN_UID: sets.uid, MADE_FOR: on.identity}
    assert len(on.said("JobCreationDecided")) == 1

    # Another process finds all as it is, and says nothing new.
    await on.kill()
    await on.up()
    position = on.said("JobCreationDecided")
    assert sets.at(0) == sets.at(1) == where
    assert on.said("JobCreationDecided") == position

    # One replica is evicted: the copy stays for the other, and it comes back there.
    on.manager.kueue.evict(NS, sets.name(1), "Preempted", "for the test")
    await on.until(lambda: condition(on.manager.store.get(WORKLOADS, NS, sets.name(1)), "Evicted"), "its eviction")
    assert meta(sets.copies()[where])["uid"] == meta(copy)["uid"]

    for index in range(2):
        store = on.manager.store
        store.patch(WORKLOADS, NS, sets.name(index), {"metadata": {"finalizers": None}})
        store.delete(WORKLOADS, NS, sets.name(index))
    on.manager.store.delete(KIND, NS, NAME)
    await on.until(lambda: not sets.copies() and not sets.clones(), "nothing left")
    removed = [one for one in on.said("RemovalDecided", where) if one.get("kind") == KIND.name]
    assert {one["uid"] for one in removed} == {meta(copy)["uid"]}
