"""The stage of the outages: a service over HTTP between simulated clusters, which can be killed, and started again on
the same log.

In: what clusters there are, and settings that wait briefly. Out: `Stage`, on which clusters are cut, lost, rebuilt and
restored, services killed and started, and of which API objects, requests and the log are looked at. Killing here ends
every task of the service at once, with its database connections cut first: it writes nothing more, releases nothing,
and says goodbye to nobody."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import random
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import Any
from weakref import WeakSet

import msgspec
import psycopg
import yaml

from controlplane.app.ports import ports_of
from controlplane.app.service import Service
from controlplane.clock import Clock
from controlplane.clusters.management_access import from_kubeconfig
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import (
    JOBS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    SECRETS,
    WORKLOADS,
    Json,
    meta,
)
from controlplane.local.witness import Witness
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.simulation.apiserver.persistence import load, snapshot
from controlplane.simulation.world import KUEUE_NAMESPACE, SimulatedCluster, secret_name
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.multikueue.kep693.live import Live, quick_settings
from tests.multikueue.kep693.rig import NS, check_of, condition

__all__ = ["NS", "RETRY", "Replica", "Stage", "check_of", "condition", "settings"]

RETRY = 'Admitting remote lost, Previously: "Ready"'
ROLE = "controlplane_service"
LIFE = timedelta(hours=1)

_owner: ContextVar[Replica | None] = ContextVar("owner", default=None)


def settings(*, lost: float = 1.0, **multikueue: Any) -> Settings:
    """Settings in which a cluster is lost for good after `lost` seconds, and everything else waits briefly."""
    more = {"worker_lost_timeout": timedelta(seconds=lost), "readmission_grace": timedelta(seconds=2), **multikueue}
    found = quick_settings(**more)
    clusters = msgspec.structs.replace(
        found.clusters, probe_timeout=timedelta(milliseconds=500), suspect_grace=timedelta(milliseconds=300)
    )
    # Whoever starts does so from what another one had folded: whatever an outage is, it must not show.
    log = msgspec.structs.replace(found.log, snapshot_every=20, read_models_after=timedelta(seconds=0.2))
    return msgspec.structs.replace(found, clusters=clusters, log=log)


class Mortal(Database, frozen=True):
    """A way to the database that ends with the process that uses it."""

    opened: list[Any] = []
    dead: list[bool] = []

    async def connect(self, application: str) -> psycopg.AsyncConnection[Any]:
        if self.dead:
            raise psycopg.OperationalError("this process is dead")
        connection = await Database.connect(self, application)
        self.opened.append(connection)
        return connection


def keep_tasks_apart() -> None:
    """Note of each task of the running loop which replica it belongs to: whoever made it passes it on."""

    def make(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **more)
        if (owner := _owner.get()) is not None:
            owner.tasks.add(task)
        return task

    asyncio.get_running_loop().set_task_factory(make)


class Replica:
    """One process of the service, as good as: started, asked to stop, or killed."""

    def __init__(
        self, url: str, kubeconfig: Path, wanted: Settings, name: str, clock: Clock | None = None, **ports: Any
    ) -> None:
        self.name = name
        self.database = Mortal(url, ROLE, 2, 2.0)
        self.health, self.metrics = Health(), Metrics()
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        identity = msgspec.structs.replace(wanted.leader, identity=name)
        spans = ports.pop("spans", None)
        self.service = Service(
            msgspec.structs.replace(wanted, leader=identity),
            dataclasses.replace(ports_of(self.database), **ports),
            lambda: from_kubeconfig(MANAGEMENT, str(kubeconfig)),
            metrics=self.metrics,
            health=self.health,
            clock=clock,
            spans=spans,
        )
        self.stopping = asyncio.Event()
        before = _owner.set(self)
        self.task = asyncio.create_task(self.service.run(self.stopping), name=name)
        _owner.reset(before)

    @property
    def leads(self) -> bool:
        check = self.health.checks.get("leader")
        return check is not None and check.detail.startswith("leads")

    async def stop(self) -> None:
        self.stopping.set()
        await self.task

    async def kill(self) -> None:
        self.database.dead.append(True)
        for connection in self.database.opened:
            if not connection.closed:
                # The server sees a connection that broke; what it was told before, it does.
                with_socket = connection.pgconn.socket
                asyncio.get_running_loop().remove_reader(with_socket)
                connection.pgconn.finish()
        while alive := [task for task in self.tasks if not task.done()]:
            for task in alive:
                task.cancel()
            await asyncio.wait(alive, timeout=0.05)


class Stage(Live):
    """A world, a log, and the service between them."""

    def __init__(
        self, url: str, folder: Path, *workers: str, reach: str = "", clock: Clock | None = None, **more: Any
    ) -> None:
        more.setdefault("settings", settings())
        self._ports: dict[str, Any] = more.pop("ports", {})
        super().__init__(url, folder, *workers, **more)
        self.url, self.reach = url, reach or url
        self.witness = Witness(self.world)
        self.replicas: list[Replica] = []
        self._clock = clock

    # processes

    async def start(self) -> None:
        keep_tasks_apart()
        await self.world.start()
        await self.up()
        await self.until(self._all_active, "active clusters")
        self.forget_counts()

    async def up(self, *, ready: bool = True, wanted: Settings | None = None, clock: Clock | None = None) -> Replica:
        """Start one more process."""
        kubeconfig = self._folder / "management.kubeconfig"
        name = f"replica-{len(self.replicas) + 1}"
        replica = Replica(self.reach, kubeconfig, wanted or self._settings, name, clock or self._clock, **self._ports)
        self.replicas.append(replica)
        self._task = replica.task
        if ready:
            await self.until(lambda: replica.leads and replica.health.ready, f"{name} ready")
        return replica

    @property
    def replica(self) -> Replica:
        """The process that was started last."""
        return self.replicas[-1]

    async def kill(self) -> None:
        """Kill the process, and let the lease of a dead leader run out."""
        self._task = None
        await self.replica.kill()
        self.execute("UPDATE controlplane.log_head SET renewed_at = '-infinity'")

    async def stop(self) -> None:
        for cluster in self.world.clusters.values():
            cluster.faults.clear()
        for replica in self.replicas:
            if not replica.task.done():
                await replica.stop()
        await self.world.stop()
        self.check_log()

    # the log

    def execute(self, statement: Any, *parameters: Any) -> None:
        """Do something to the database as its owner."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement, parameters)

    def age(self, seconds: float) -> None:
        """Let so much time go by while nobody serves: the log is so much older."""
        assert all(replica.database.dead for replica in self.replicas)
        for table, column in (("events", "recorded_at"), ("events", "observed_at")):
            self.execute(f"UPDATE controlplane.{table} SET {column} = {column} - make_interval(secs => %s)", seconds)

    def query(self, statement: Any, *parameters: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement, parameters).fetchall()

    def said(self, kind: str, cluster: str = "", **fields: Any) -> list[Json]:
        """The events of a type, of one cluster if it is named, with these values."""
        rows = self.query(
            "SELECT data FROM controlplane.events WHERE type = %s AND (%s = '' OR cluster = %s) ORDER BY position",
            kind,
            cluster,
            cluster,
        )
        return [data for (data,) in rows if all(data.get(key) == value for key, value in fields.items())]

    @property
    def position(self) -> int:
        return int(self.query("SELECT coalesce(max(position), 0) FROM controlplane.events")[0][0])

    def check_log(self) -> None:
        """Positions have no holes, and nothing that was seen is in the log twice."""
        rows = self.query("SELECT count(*), max(position), min(position) FROM controlplane.events GROUP BY log")
        assert all((first, count) == (1, last) for count, last, first in rows)
        doubled = self.query(
            "SELECT e.log, e.cluster, e.type, data ->> 'uid', data ->> 'resource_version', count(*) FROM "
            "controlplane.events e WHERE data ->> 'resource_version' <> '' AND e.type LIKE '%%Observed' AND NOT "
            "EXISTS (SELECT FROM controlplane.events r WHERE r.log = e.log AND (r.type = 'ClusterRestored' AND "
            "r.cluster = e.cluster OR r.type = 'LogRebound')) GROUP BY 1, 2, 3, 4, 5 HAVING count(*) > 1"
        )
        assert doubled == []

    # clusters

    @property
    def identity(self) -> str:
        """Who the management cluster is."""
        return str(meta(self.manager.store.get(NAMESPACES, "", "kube-system"))["uid"])

    def lost(self, cluster: str) -> bool:
        """Whether the MultiKueueCluster says that the cluster is not active."""
        return not condition(self.multikueue_cluster(cluster), "Active")

    def active(self, cluster: str) -> bool:
        return not self.lost(cluster)

    def multikueue_cluster(self, name: str) -> Json:
        return self.manager.store.get(MULTIKUEUE_CLUSTERS, "", name)

    def why(self, cluster: str) -> tuple[str, str]:
        """Reason and message of a MultiKueueCluster's condition."""
        (entry,) = self.multikueue_cluster(cluster)["status"]["conditions"]
        return entry["reason"], entry["message"]

    def cut(self, *names: str) -> None:
        for name in names:
            self.worker(name).faults.cut()

    def heal(self, *names: str) -> None:
        for name in names:
            self.worker(name).faults.clear()

    def route(self, *names: str) -> None:
        """Let the MultiKueueConfig name these clusters."""
        self.manager.store.patch(MULTIKUEUE_CONFIGS, "", "multikueue", {"spec": {"clusters": list(names)}})

    def give_kubeconfig(self, cluster: str, **token: str) -> None:
        """Put the present kubeconfig of a worker into its Secret, or one with another token."""
        config = self.worker(cluster).server.kubeconfig()
        if token:
            config["users"][0]["user"] = token
        data = {"kubeconfig": base64.b64encode(yaml.safe_dump(config).encode()).decode()}
        self.manager.store.patch(SECRETS, KUEUE_NAMESPACE, secret_name(cluster), {"data": data})

    async def rebuild(self, name: str, backup: Path | None = None) -> SimulatedCluster:
        """Put another cluster in a worker's place, reached in the same way: an empty one, or one with the store of a
        backup.
        """
        old = self.world.clusters[name]
        if self._task is not None:
            old.faults.cut()
            await self.until(lambda: self.lost(name), "lost")
        new = SimulatedCluster(name, old.spec, self.world.clock, random.Random(7), manages=False)
        await old.server.stop()
        for behaviour in old.behaviours:
            for task in self.world._tasks:
                if task.get_name() == behaviour.name:
                    task.cancel()
        old.view.stop()
        if backup is not None:
            assert load(new.store, backup)
            new.vary_uids()
        new.remember(old.token, old.port)
        self.world.clusters[name] = new
        new.store.subscribe(self.witness._listener(name))
        new.view.start()
        new.seed()
        await new.serve()
        for behaviour in new.behaviours:
            self.world._spawn(behaviour.run(), behaviour.name)
        return new

    def backup(self, name: str) -> Path:
        """Back up a worker's store."""
        path = self._folder / f"{name}.backup"
        snapshot(self.world.clusters[name].store).write(path)
        return path

    # work

    def submit_for(self, name: str, duration: str = "", **annotations: str) -> None:
        """Submit a job that ends by itself after a while."""
        said = {"simulation.controlplane/duration": duration} if duration else {}
        self.submit(name, **said, **annotations)

    async def running(self, cluster: str = "", name: str = "train") -> str:
        """Wait until a job runs, and return where."""

        def there() -> str:
            found = self.running_on(name=name)
            return found if found and cluster in ("", found) else ""

        return str(await self.until(there, f"{name} running on {cluster or 'any'}"))

    def remote_job(self, cluster: str, name: str = "train") -> Json:
        found = self.job(self.worker(cluster), name)
        assert found is not None
        return found

    def uid(self, cluster: str, name: str = "train") -> str:
        return str(meta(self.remote_job(cluster, name))["uid"])

    def writes(self) -> int:
        """How many requests have asked for a change, anywhere, since the counts were forgotten."""
        return sum(self.written().values())

    def written(self) -> dict[str, int]:
        """How often each change was asked for, anywhere, since the counts were forgotten."""
        return {
            f"{name}: {verb} {resource} {subresource}".rstrip(): number
            for name, cluster in self.world.clusters.items()
            for (verb, resource, subresource), number in cluster.server.counts.items()
            if verb not in ("get", "list", "watch")
        }

    def left(self) -> list[str]:
        """What is left on the workers."""
        return [
            f"{name}: {kind.kind} {record.name}"
            for name, cluster in self.world.workers.items()
            for kind in (WORKLOADS, JOBS)
            for record in cluster.store.records(kind)
        ]

    async def done(self, name: str = "train") -> None:
        """Wait until a job has finished here and nothing of it is left on the workers."""
        await self.until(lambda: self.finished(name=name), f"{name} finished")
        await self.until(lambda: not self.clones(name=name) and not self.jobs(name=name), f"nothing left of {name}")

    async def quiet(self, seconds: float = 0.5) -> None:
        """Let the service be for a while."""
        await asyncio.sleep(seconds)
        assert self._task is None or not self._task.done()


Make = Callable[..., Any]


async def back(on: Stage, restart: str) -> None:
    """The cluster a can be reached again; the service may be another one by then."""
    if restart:
        await on.kill()
        on.heal("a")
        await on.up()
    else:
        on.heal("a")


async def running_on_a(stage: Callable[..., Awaitable[Stage]], **more: Any) -> Stage:
    """Two workers, of which a has room, and a job that runs there."""
    on = await stage("a", "b", roomy=("a",), **more)
    on.submit()
    await on.running("a")
    return on
