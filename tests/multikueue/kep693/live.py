"""The service of KEP-693's list before simulated API servers.

In: what clusters there are and what they can hold. Out: `Live`, a service on PostgreSQL over HTTP, of which only API
objects and requests are looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from controlplane.app.ports import ports_of
from controlplane.app.service import Service
from controlplane.clusters.management_access import from_kubeconfig
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    WORKLOADS,
    Json,
    Kind,
    meta,
)
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.simulation.controllers.jobs import JobPace
from controlplane.simulation.kinds.base import DEFAULT_KINDS, ServedKind
from controlplane.simulation.world import ClusterSpec, SimulatedCluster, World
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.multikueue.kep693.rig import JOB, NS, STATUS_INTERVAL, condition, until, user_job


def quick_settings(**multikueue: Any) -> Settings:
    """Settings in which everything that waits waits briefly, except where a test says otherwise."""
    settings = Settings()
    changes = {"status_interval": STATUS_INTERVAL, "gc_interval": timedelta(seconds=1), **multikueue}
    clusters = {
        "probe_interval": timedelta(milliseconds=200),
        "probe_timeout": timedelta(milliseconds=300),
        "suspect_grace": timedelta(milliseconds=100),
    }
    return msgspec.structs.replace(
        settings,
        multikueue=msgspec.structs.replace(settings.multikueue, **changes),
        clusters=msgspec.structs.replace(settings.clusters, **clusters),
    )


class Live:
    """A world of simulated clusters and one service between them. `roomy` workers have quota from the start."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *workers: str,
        roomy: tuple[str, ...] | None = None,
        namespaces: dict[str, tuple[str, ...]] | None = None,
        settings: Settings | None = None,
        kinds: tuple[ServedKind, ...] = DEFAULT_KINDS,
        pods: bool = False,
        workers_are: dict[str, Any] | None = None,
        manager_is: dict[str, Any] | None = None,
    ) -> None:
        pace = JobPace(duration=timedelta(hours=1))
        plenty, nothing = {"cpu": "100"}, {"cpu": "0"}
        everywhere = (namespaces or {}).get("", (NS,))
        self.world = World(
            ClusterSpec(quota=plenty, pace=pace, namespaces=everywhere, kinds=kinds, pods=pods, **(manager_is or {})),
            {
                name: ClusterSpec(
                    **{
                        "quota": plenty if roomy is None or name in roomy else nothing,
                        "pace": pace,
                        "namespaces": (namespaces or {}).get(name, everywhere),
                        "kinds": kinds,
                        "pods": pods,
                        **(workers_are or {}),
                    }
                )
                for name in workers
            },
            folder=folder,
        )
        self._url, self._folder, self._settings = url, folder, settings or quick_settings()
        self._health = Health()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.service: Service | None = None

    async def start(self) -> None:
        await self.world.start()
        self.service = Service(
            self._settings,
            ports_of(Database(self._url, "controlplane_service")),
            lambda: from_kubeconfig(MANAGEMENT, str(self._folder / "management.kubeconfig")),
            metrics=Metrics(),
            health=self._health,
        )
        self._task = asyncio.create_task(self.service.run(self._stop))
        await self.until(lambda: self._health.ready, "readiness")
        await self.until(self._all_active, "active clusters")
        self.forget_counts()

    async def stop(self) -> None:
        self._stop.set()
        for cluster in self.world.clusters.values():
            cluster.faults.clear()
        if self._task is not None:
            await self._task
        await self.world.stop()

    def _all_active(self) -> bool:
        """Whether every cluster is active, and the check, which is so with the first of them, knows of all."""
        clusters, _ = self.manager.store.list(MULTIKUEUE_CLUSTERS)
        checks = [condition(obj, "Active") for obj in self.manager.store.list(ADMISSION_CHECKS)[0]]
        known = all(check is not None and check["reason"] == "Active" for check in checks)
        return known and all(condition(obj, "Active") for obj in clusters)

    async def until(self, wanted: Callable[[], Any], what: str = "the condition") -> Any:
        """As `until`, but a service that has died is its own reason to fail."""

        def look() -> Any:
            if self._task is not None and self._task.done():
                self._task.result()
                raise AssertionError("the service has ended")
            return wanted()

        return await until(look, what)

    # what there is

    @property
    def manager(self) -> SimulatedCluster:
        return self.world.management

    def worker(self, name: str) -> SimulatedCluster:
        return self.world.workers[name]

    def submit(self, name: str = JOB, namespace: str = NS, **annotations: str) -> None:
        self.manager.store.create(JOBS, user_job(name, namespace, **annotations))

    def job(self, cluster: SimulatedCluster | None = None, name: str = JOB, namespace: str = NS) -> Json | None:
        """The job of this name on a cluster, the manager's if none is named."""
        return _only(cluster or self.manager, JOBS, namespace, lambda obj: meta(obj)["name"] == name)

    def workload(self, cluster: SimulatedCluster | None = None, name: str = JOB, namespace: str = NS) -> Json | None:
        """The Workload of a job, or its clone."""
        prefix = f"job-{name}-"
        return _only(cluster or self.manager, WORKLOADS, namespace, lambda obj: meta(obj)["name"].startswith(prefix))

    def clones(self, **where: Any) -> set[str]:
        return {name for name, cluster in self.world.workers.items() if self.workload(cluster, **where)}

    def jobs(self, **where: Any) -> set[str]:
        return {name for name, cluster in self.world.workers.items() if self.job(cluster, **where)}

    def running_on(self, **where: Any) -> str:
        """The cluster that the manager says it runs on, once it does run there."""
        name = str(((self.workload(**where) or {}).get("status") or {}).get("clusterName") or "")
        job = self.job(self.worker(name), **where) if name else None
        return (
            name
            if job and (job.get("status") or {}).get("active") and condition(self.workload(**where), "Admitted")
            else ""
        )

    def finished(self, **where: Any) -> Json | None:
        return condition(self.workload(**where), "Finished")

    # what happens

    def make_room(self, cluster: str, cpu: str = "100") -> None:
        """Give a worker's ClusterQueue quota."""
        store = self.worker(cluster).store
        queue = store.get(CLUSTER_QUEUES, "", "cluster-queue")
        queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpu
        store.update(CLUSTER_QUEUES, queue)

    def say(self, cluster: str, status: Json, name: str = JOB) -> None:
        """Let a worker's job controller write a status."""
        self.worker(cluster).store.patch(JOBS, NS, name, {"status": status}, subresource="status")

    def end(self, cluster: str, *, success: bool = True, name: str = JOB) -> None:
        """Let the job on a worker end."""
        at = "2026-01-01T00:00:00Z"
        job = self.job(self.worker(cluster), name)
        assert job is not None
        kinds = ("SuccessCriteriaMet", "Complete") if success else ("FailureTarget", "Failed")
        reason, message = (
            ("CompletionsReached", "Reached expected number of succeeded pods")
            if success
            else ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        )
        ends = [
            {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at}
            for kind in kinds
        ]
        outcome: Json = {"succeeded": 1, "completionTime": job["status"]["startTime"]} if success else {"failed": 1}
        kept = list(job["status"].get("conditions") or [])
        self.say(cluster, {"active": None, "ready": 0, **outcome, "conditions": [*kept, *ends]}, name)

    # what was asked

    def forget_counts(self) -> None:
        for cluster in self.world.clusters.values():
            cluster.server.counts.clear()

    def count(self, cluster: str, verb: str, kind: Kind | None = None, subresource: str | None = None) -> int:
        """How many requests of a sort a cluster's API server has answered; the manager is `management`."""
        return sum(
            number
            for (asked, resource, part), number in self.world.clusters[cluster].server.counts.items()
            if asked == verb and (kind is None or resource == kind.name) and subresource in (None, part)
        )

    def total(self) -> int:
        return sum(sum(cluster.server.counts.values()) for cluster in self.world.clusters.values())

    def gets(self) -> int:
        return sum(self.count(name, "get") for name in self.world.clusters)

    def events(self) -> list[str]:
        """The notes of the Kubernetes Events about Workloads."""
        from controlplane.kube.kinds import EVENTS

        return [
            str(event.get("note"))
            for event in self.manager.store.list(EVENTS)[0]
            if event.get("reason") == "MultiKueue"
        ]


@contextmanager
def trouble(live: Live, cluster: str, kind: str) -> Iterator[None]:
    """A cluster that is cut off, or accepts and never answers."""
    faults = live.worker(cluster).faults
    fault = faults.cut() if kind == "cut" else faults.half_open()
    try:
        yield
    finally:
        faults.remove(fault)


def _only(cluster: SimulatedCluster, kind: Kind, namespace: str, fits: Callable[[Json], bool]) -> Json | None:
    found = [o for o in cluster.store.list(kind)[0] if meta(o)["namespace"] == namespace and fits(o)]
    assert len(found) <= 1
    return found[0] if found else None


def without_queues(live: Live, *, local: str, cluster: str) -> None:
    """Take the LocalQueue away from one worker and the ClusterQueue from another."""
    live.worker(local).store.delete(LOCAL_QUEUES, NS, "user-queue")
    live.worker(cluster).store.delete(CLUSTER_QUEUES, "", "cluster-queue")
