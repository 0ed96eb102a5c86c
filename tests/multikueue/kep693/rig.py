"""The stage of KEP-693's list, twice: the real loop before mocked worker clients, and the whole service before simulated API servers.

In: what clusters there are and what they can hold. Out: `Mocked`, whose clusters answer what a test told them to and show what a test
lets them show; and `Live`, a service on PostgreSQL over HTTP, of which only API objects and requests are looked at.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from controlplane.app.facts import lift
from controlplane.app.service import Service
from controlplane.clusters.management import from_kubeconfig
from controlplane.clusters.port import Change
from controlplane.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterConnectFailed,
    ClusterLost,
)
from controlplane.connectivity.here import connectivity_event
from controlplane.kube import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    JOBSETS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
    Json,
    Kind,
    Request,
    meta,
)
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Event
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.multikueue.adapters import adapters_for
from controlplane.multikueue.context import Policy
from controlplane.multikueue.fleet import Fleet
from controlplane.reconcile.bodies import Bodies
from controlplane.reconcile.effects import Effects
from controlplane.reconcile.gate import Gate
from controlplane.reconcile.recorder import Recorder
from controlplane.reconcile.runner import Runner
from controlplane.settings import Settings
from controlplane.simulation.jobs import Pace
from controlplane.simulation.world import ClusterSpec, SimulatedCluster, World
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

NS, JOB, WL = "default", "train", "job-train-12345"
CHECK = "multikueue"
ORIGIN = "kueue.x-k8s.io/multikueue-origin"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
HOME_KINDS = (ADMISSION_CHECKS, MULTIKUEUE_CONFIGS, MULTIKUEUE_CLUSTERS, CLUSTER_QUEUES, WORKLOADS, JOBS, JOBSETS)
WORKER_KINDS = (WORKLOADS, JOBS, JOBSETS)
STATUS_INTERVAL = timedelta(milliseconds=300)
DEADLINE = 15.0  # seconds; only turns a hang into a failure


async def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Poll until something holds, and return it."""
    deadline = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true"
        await asyncio.sleep(0.01)
    return found


def user_job(name: str = JOB, namespace: str = NS, **annotations: str) -> Json:
    """A Job as a user submits it to a MultiKueue queue."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"kueue.x-k8s.io/queue-name": "user-queue"},
            "annotations": annotations,
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                }
            },
        },
    }


def condition(obj: Json | None, kind: str) -> Json | None:
    """A condition of an object, if it is True."""
    for found in ((obj or {}).get("status") or {}).get("conditions") or ():
        if found["type"] == kind and found["status"] == "True":
            return dict(found)
    return None


def check_of(workload: Json) -> Json:
    """The state of our admission check on a Workload."""
    (entry,) = workload["status"]["admissionChecks"]
    return dict(entry)


# --- the loop before mocked clients ----------------------------------------------------------------------------------------


class SteppedClock:
    """Time that moves only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.seconds + seconds, future))
        await future

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        due = [future for at, future in self._sleepers if at <= self.seconds]
        self._sleepers = [(at, future) for at, future in self._sleepers if at > self.seconds]
        for future in due:
            if not future.done():
                future.set_result(None)


Answer = Json | BaseException | Callable[[Request], Any] | None


class Double:
    """A cluster's client: answers by verb and kind, in the order in which they were laid out, else success; keeps what it was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: list[Request] = []
        self.silent = False
        self._answers: dict[tuple[str, Kind], list[Answer]] = {}
        self._always: dict[tuple[str, Kind], Answer] = {}
        self._versions = itertools.count(5000)

    def answers(self, verb: str, kind: Kind, *answers: Answer, always: bool = False) -> None:
        """Lay out answers; with `always` the one answer is given every time."""
        if always:
            (self._always[verb, kind],) = answers
        else:
            self._answers.setdefault((verb, kind), []).extend(answers)

    async def execute(self, request: Request) -> Json | None:
        self.requests.append(request)
        if self.silent:
            await asyncio.get_running_loop().create_future()
        key = request.verb, request.ref.kind
        laid_out = self._answers.get(key)
        answer: Answer = laid_out.pop(0) if laid_out else self._always.get(key)
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, dict):
            return answer
        if request.verb == "delete":
            return None
        return {**request.body, "metadata": {**meta(request.body), "resourceVersion": str(next(self._versions))}}

    def asked(self, verb: str, kind: Kind, subresource: str = "") -> list[Request]:
        """The requests of one sort, in order."""
        return [r for r in self.requests if (r.verb, r.ref.kind, r.subresource) == (verb, kind, subresource)]


class Mocked:
    """The real loop, recorder and executors over a log in memory; the clusters behind them are doubles and the watches are the test's."""

    def __init__(self, *workers: str, **policy: Any) -> None:
        self.workers = workers
        self.clock = SteppedClock()
        self.ports = {name: Double(name) for name in (MANAGEMENT, *workers)}
        self.fleet = Fleet(Policy(adapters=adapters_for(("batch/job", "jobset.x-k8s.io/jobset")), **policy), "test")
        self.log = MemoryLog(MemoryStore(), Codec(self.fleet.types), self.clock.now)
        gate, bodies = Gate(), Bodies(self.log)
        self.recorder = Recorder(self.log, self.fleet, bodies, self.clock, lift)
        self.effects = Effects(
            self.log, self.fleet, bodies, self.clock, gate, self._port, rng=random.Random(1), settle=15.0
        )
        self.runner = Runner(self.log, self.fleet, self.effects, gate, self.clock, poll=0.01, on_folded=self._folded)
        self._versions = itertools.count(100)
        self._objects: dict[tuple[str, Kind], Json] = {}
        self._task: asyncio.Task[None] | None = None

    def _port(self, cluster: str) -> Double | None:
        connection = self.fleet.index.connections.get(cluster)
        return self.ports[cluster] if connection is not None and connection.connected else None

    def _folded(self, events: Any) -> None:
        for recorded in events:
            if isinstance(recorded.event, ClusterConnected):
                self.effects.cluster_back(recorded.cluster)

    async def start(self) -> None:
        await self.log.take_epoch("test")
        self._task = asyncio.create_task(self.runner.run())
        spec = {"parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "config"}}
        check = {"spec": {**spec, "controllerName": "kueue.x-k8s.io/multikueue"}}
        await self.show(MANAGEMENT, ADMISSION_CHECKS, CHECK, check)
        await self.show(MANAGEMENT, MULTIKUEUE_CONFIGS, "config", {"spec": {"clusters": list(self.workers)}})
        for name in self.workers:
            source = {"spec": {"clusterSource": {"kubeConfig": {"location": name}}}}
            await self.show(MANAGEMENT, MULTIKUEUE_CLUSTERS, name, source)
        await self.connect(MANAGEMENT, HOME_KINDS)
        for name in self.workers:
            await self.connect(name)

    async def stop(self) -> None:
        await self.effects.close(drain=0.0)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # what is shown

    async def connect(self, cluster: str, kinds: tuple[Kind, ...] = WORKER_KINDS) -> None:
        event = ClusterConnected(kinds=[kind.name for kind in kinds], incarnation=f"life-of-{cluster}")
        await self.recorder.record([connectivity_event(cluster, event)])
        await self.idle()

    async def lose(self, cluster: str) -> None:
        lost = ClusterLost(reason="Unreachable", message="no answer")
        failed = ClusterConnectFailed(reason="ClientConnectionFailed", message="no answer", attempt=1)
        await self.recorder.record([connectivity_event(cluster, event) for event in (lost, failed)])
        await self.idle()

    async def show(self, cluster: str, kind: Kind, name: str, changes: Json, namespace: str = "") -> Json:
        """Let a cluster show an object: as it was last, with these parts changed."""
        before = self._objects.get((cluster, kind), {"metadata": {}}) if kind in (WORKLOADS, JOBS) else {"metadata": {}}
        head = {
            "uid": f"{kind.kind}-{cluster}-{name}",
            **before["metadata"],
            **changes.get("metadata", {}),
            "namespace": namespace,
            "name": name,
            "resourceVersion": str(next(self._versions)),
        }
        obj: Json = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {}, **before, **changes}
        obj["metadata"] = head
        self._objects[cluster, kind] = obj
        await self.recorder(cluster, [Change("modified", kind, obj, head["resourceVersion"])])
        await self.idle()
        return obj

    async def gone(self, cluster: str, kind: Kind) -> None:
        """Let a cluster show that its Workload or Job is gone."""
        obj = self._objects.pop((cluster, kind))
        await self.recorder(cluster, [Change("gone", kind, obj, str(next(self._versions)))])
        await self.idle()

    async def submit(self) -> None:
        """The user's Job and its Workload with quota, the check Pending."""
        await self.show(MANAGEMENT, JOBS, JOB, user_job(), NS)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": JOB, "uid": f"Job-{MANAGEMENT}-{JOB}"}
        spec = {"queueName": "user-queue", "podSets": [{"name": "main", "count": 1}]}
        metadata = {"ownerReferences": [{**owner, "controller": True}], "labels": {"kueue.x-k8s.io/job-uid": "u"}}
        await self.workload(metadata=metadata, spec=spec, conditions={"QuotaReserved": True}, check="Pending")

    async def workload(self, **changes: Any) -> Json:
        """The manager's Workload; see `_status`."""
        return await self.show(MANAGEMENT, WORKLOADS, WL, self._status(MANAGEMENT, changes), NS)

    async def clone(self, cluster: str, **changes: Any) -> Json:
        """A worker's clone, of the spec that it was created with."""
        created = self.ports[cluster].asked("create", WORKLOADS)[-1]
        changes.setdefault("spec", created.body["spec"])
        changes.setdefault("metadata", {"labels": created.body["metadata"]["labels"]})
        return await self.show(cluster, WORKLOADS, WL, self._status(cluster, changes), NS)

    async def remote_job(self, cluster: str, status: Json | None = None, *, suspend: bool = True) -> Json:
        """A worker's copy of the job, as it was created."""
        created = self.ports[cluster].asked("create", JOBS)[-1]
        spec = {**created.body["spec"], "suspend": suspend}
        head = {key: created.body["metadata"][key] for key in ("labels", "annotations")}
        return await self.show(cluster, JOBS, JOB, {"metadata": head, "spec": spec, "status": status or {}}, NS)

    def _status(self, cluster: str, changes: dict[str, Any]) -> Json:
        """`conditions` is type → True, False or (reason, message); `check` our check's state; the rest as in the object's status."""
        before = self._objects.get((cluster, WORKLOADS), {}).get("status", {})
        known = {c["type"]: c for c in before.get("conditions", [])}
        at = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        for kind, said in changes.pop("conditions", {}).items():
            reason, message, *when = said if isinstance(said, tuple) else ("Test", "")
            known[kind] = {
                "type": kind,
                "status": "True" if said else "False",
                "reason": reason,
                "message": message,
                "lastTransitionTime": when[0] if when else at,
            }
        status: Json = {**before, "conditions": list(known.values())}
        if (state := changes.pop("check", None)) is not None:
            status["admissionChecks"] = [{"name": CHECK, "state": state, "message": "", "lastTransitionTime": at}]
        parts: Json = {key: changes.pop(key) for key in ("metadata", "spec") if key in changes}
        status.update(changes)
        return {**parts, "status": {key: value for key, value in status.items() if value is not None}}

    # what is waited for

    async def idle(self) -> None:
        """Until everything in the log is folded, decided, and handed to the executors, and those have done what they can."""
        quiet = 0
        while quiet < 3:
            head = (await self.log.head()).position
            done = self.runner.position == head
            quiet = quiet + 1 if done else 0
            await asyncio.sleep(0.002)
            assert self._task is None or not self._task.done(), self._task

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and whatever is due be decided and done."""
        self.clock.advance(seconds)
        await asyncio.sleep(0.03)
        await self.idle()

    async def events(self, kind: type[Event]) -> list[Any]:
        """What the log holds of a type."""
        return [r.event for r in await self.log.read(0, 100_000) if isinstance(r.event, kind)]

    @property
    def manager(self) -> Double:
        return self.ports[MANAGEMENT]

    def statuses(self) -> list[Json]:
        """The bodies that were written to the status of the manager's Workload."""
        return [request.body["status"] for request in self.manager.asked("patch", WORKLOADS, "status")]

    def job_statuses(self) -> list[Json]:
        return [request.body["status"] for request in self.manager.asked("patch", JOBS, "status")]

    async def nominated(self) -> None:
        """The manager stores the nomination that was just written."""
        await until(self.statuses, "a nomination")
        await self.workload(nominatedClusterNames=self.statuses()[-1]["nominatedClusterNames"])

    async def running(self, winner: str) -> None:
        """The whole way to a running copy, every other copy removed."""
        await self.submit()
        await self.nominated()
        for name in self.workers:
            await self.clone(name)
        await self.clone(winner, conditions={"QuotaReserved": True, "Admitted": True})
        for name in self.workers:
            if name != winner:
                await self.gone(name, WORKLOADS)
        await self.remote_job(winner)
        await until(lambda: "clusterName" in self.statuses()[-1], "Ready")
        changes = {"conditions": {"Admitted": True}, "check": "Ready", "nominatedClusterNames": None}
        await self.workload(**changes, clusterName=winner)
        await self.show(MANAGEMENT, JOBS, JOB, {"spec": {**user_job()["spec"], "suspend": False}}, NS)
        await self.remote_job(winner, {"active": 1, "ready": 0, "startTime": "T"}, suspend=False)


# --- the service before simulated API servers -------------------------------------------------------------------------------


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
    ) -> None:
        pace = Pace(duration=timedelta(hours=1))
        plenty, nothing = {"cpu": "100"}, {"cpu": "0"}
        everywhere = (namespaces or {}).get("", (NS,))
        self.world = World(
            ClusterSpec(quota=plenty, pace=pace, namespaces=everywhere),
            {
                name: ClusterSpec(
                    quota=plenty if roomy is None or name in roomy else nothing,
                    pace=pace,
                    namespaces=(namespaces or {}).get(name, everywhere),
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
            Database(self._url, "controlplane_service"),
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
        clusters, _ = self.manager.store.list(MULTIKUEUE_CLUSTERS)
        checks, _ = self.manager.store.list(ADMISSION_CHECKS)
        return all(condition(obj, "Active") for obj in [*clusters, *checks])

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
        from controlplane.kube import EVENTS

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
