"""Pods and a group of them over HTTP: they run on a worker, never on the management cluster, and their end comes back;
a group that is evicted is stopped whole, and a service that dies in between makes no pod twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from controlplane.job_kinds.gated import HELD
from controlplane.job_kinds.pod import GROUP
from controlplane.kube.kinds import PODS, WORKLOADS, Json, meta
from controlplane.kube.kueue_names import QUEUE_LABEL
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.controllers.jobs import DURATION
from controlplane.simulation.kueue.pods import TOTAL
from tests.multikueue.kep693.rig import NS
from tests.outages.stage import Stage, condition, settings

GANG = "gang"


def pod(name: str, *, group: int = 0, duration: str = "1s", held: bool = True) -> Json:
    labels = {QUEUE_LABEL: "user-queue", **({GROUP: GANG} if group else {})}
    annotations = {DURATION: duration, **({TOTAL: str(group)} if group else {})}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec: Json = {"containers": [container], "restartPolicy": "Never"}
    if held:
        spec["schedulingGates"] = [{"name": HELD}]
    metadata = {"name": name, "namespace": NS, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Pods:
    """The pods of a stage: the user's, and the copies; and which copies ever ran where."""

    def __init__(self, on: Stage) -> None:
        self.on = on
        self.ran: set[tuple[str, str, str]] = set()
        """Cluster, name and UID of each copy that has run."""
        self.shown: set[str] = set()
        """The user's pods that have said that they run."""
        on.manager.store.listen(partial(self._hear, ""))
        for name, cluster in on.world.workers.items():
            cluster.store.listen(partial(self._hear, name))

    def _hear(self, cluster: str, commit: Commit) -> None:
        """Take note of every change: on a busy machine a pod may have ended between two looks."""
        if commit.record.kind != PODS or phase(commit.record.obj) != "Running":
            return
        if cluster:
            self.ran.add((cluster, commit.record.name, commit.record.uid))
        else:
            self.shown.add(commit.record.name)

    def make(self, *pods: Json) -> None:
        for one in pods:
            self.on.manager.store.create(PODS, one)

    def local(self) -> dict[str, Json]:
        return {meta(one)["name"]: one for one in self.on.manager.store.list(PODS)[0]}

    def copies(self) -> dict[str, dict[str, Json]]:
        found = {
            name: {meta(one)["name"]: one for one in cluster.store.list(PODS)[0]}
            for name, cluster in self.on.world.workers.items()
        }
        return {cluster: pods for cluster, pods in found.items() if pods}

    def all(self, wanted: str) -> bool:
        return all(phase(one) == wanted for one in self.local().values())

    def workloads(self) -> list[Json]:
        return list(self.on.manager.store.list(WORKLOADS)[0])

    def finished(self) -> bool:
        return all(condition(one, "Finished") for one in self.workloads())


def phase(one: Json) -> str:
    return str((one.get("status") or {}).get("phase") or "")


async def staged(stage: Callable[..., Awaitable[Stage]], *workers: str, **more: Any) -> tuple[Stage, Pods]:
    on = await stage(*(workers or ("a", "b")), settings=settings(kinds=("batch/job", "pod")), pods=True, **more)
    return on, Pods(on)


async def test_a_pod_and_a_group_run_on_a_worker_and_their_end_comes_back(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    on, there = await staged(stage)
    there.make(pod("alone"), *(pod(f"p-{number}", group=3) for number in range(3)))
    await on.until(lambda: len(there.shown) == 4, "all to run")
    assert all({"name": HELD} in one["spec"]["schedulingGates"] for one in there.local().values())
    await on.until(lambda: there.all("Succeeded"), "all to have ended")
    await on.until(lambda: there.finished() and not there.copies() and on.left() == [], "nothing left")
    assert len(there.workloads()) == 2
    gang = {cluster for cluster, name, _ in there.ran if name != "alone"}
    assert len(gang) == 1, "a group is in one place"
    assert len(there.ran) == 4, "each ran once"


async def test_no_pod_of_a_group_is_made_twice_by_a_service_that_died(stage: Callable[..., Awaitable[Stage]]) -> None:
    on, there = await staged(stage)
    there.make(*(pod(f"p-{number}", group=4, duration="1h") for number in range(4)))
    await on.until(lambda: any(there.copies().values()), "the first copy")
    await on.kill()
    await on.up()
    await on.until(lambda: there.all("Running"), "all to run")
    ((_, copies),) = there.copies().items()
    assert set(copies) == {f"p-{number}" for number in range(4)}
    assert len(there.ran) == 4


async def test_a_group_that_is_evicted_stops_on_its_worker_and_goes(stage: Callable[..., Awaitable[Stage]]) -> None:
    on, there = await staged(stage, "a")
    there.make(*(pod(f"p-{number}", group=2, duration="1h") for number in range(2)))
    await on.until(lambda: there.all("Running"), "both to run")
    on.manager.kueue.evict(NS, GANG, "Preempted", "for the test")
    # Kueue deletes the user's pods, which were let go, and keeps them until others are in their place.
    await on.until(lambda: not there.copies() and on.left() == [], "nothing left on the worker")
    assert all(meta(one).get("deletionTimestamp") for one in there.local().values())
    there.make(*(pod(f"q-{number}", group=2, duration="1h") for number in range(2)))
    await on.until(lambda: set(there.local()) == {"q-0", "q-1"} and there.all("Running"), "the others to run")
    assert {name for _, name, _ in there.ran} == {"p-0", "p-1", "q-0", "q-1"}


async def test_a_pod_that_would_run_here_as_well_is_not_dispatched(stage: Callable[..., Awaitable[Stage]]) -> None:
    on, there = await staged(stage, "a")
    there.make(pod("alone", held=False))
    await on.until(lambda: on.said("CheckStateDecided"), "a word about it")
    # Kueue evicts what is rejected and sets its check back to Pending: it is rejected anew.
    assert {one["state"] for one in on.said("CheckStateDecided")} == {"Rejected"}
    assert there.copies() == {}
    assert not there.all("Running")
