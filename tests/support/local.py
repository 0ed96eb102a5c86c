"""The stage of the controllers of one's own cluster: a simulated cluster over HTTP with those who make and run pods, a
log, processes.

In: which controllers run, and how. Out: objects made, nodes cordoned, processes killed and started; objects, requests
and the log to see."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from controlplane.clock import SystemClock
from controlplane.clusters.connection_config import ConnectionTiming
from controlplane.clusters.protocol import ApiError
from controlplane.controllers.podgroups.ownership import OUR_SCHEDULERS
from controlplane.kube.kinds import NAMESPACES, NODES, PODS, Json, Kind, meta
from controlplane.runtime import term
from controlplane.settings import Settings
from controlplane.settings.coscheduling import CoschedulingSettings
from controlplane.settings.podgroups import PodGroupSettings
from controlplane.simulation.kinds.base import CONFIG_MAPS
from controlplane.simulation.kinds.own_cluster import LOCAL_KINDS
from controlplane.simulation.seeding import ensure
from controlplane.simulation.world import ClusterSpec, World
from tests.multikueue.kep693.rig import until
from tests.outages.stage import Replica, keep_tasks_apart
from tests.outages.stage import settings as quick
from tests.support.machinery import Machinery

NS = "default"


def settings(*controllers: str, groups: Json | None = None, runs: Json | None = None) -> Settings:
    found = quick()
    return msgspec.structs.replace(
        found,
        run=msgspec.structs.replace(found.run, controllers=controllers),
        podgroups=PodGroupSettings(**{"status_for": OUR_SCHEDULERS, **(groups or {})}),
        coscheduling=CoschedulingSettings(**{"image": "example.com/nop:1", **(runs or {})}),
    )


def looked(replicas: Iterable[Any], wanted: Callable[[], Any]) -> Any:
    """Return what is wanted, and raise what a replica that was not killed ended with."""
    for replica in replicas:
        if replica.task.done() and not replica.database.dead and not replica.task.cancelled():
            replica.task.result()
    return wanted()


class Stage:
    """See the module."""

    def __init__(self, url: str, folder: Path, *controllers: str, kinds: Any = LOCAL_KINDS, **more: Any) -> None:
        self.world = World(ClusterSpec(kinds=kinds), {}, folder=folder)
        self.url, self.folder = url, folder
        self.settings = settings(*controllers, **more)
        self.replicas: list[Replica] = []
        self._stack = contextlib.AsyncExitStack()
        self._machines = kinds is LOCAL_KINDS

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self, nodes: int = 3, flag: str = "pipelineruns") -> None:
        keep_tasks_apart()
        await self.world.start()
        for namespace in ("volcano-system", "tekton-pipelines"):
            ensure(self.store, NAMESPACES, namespace)
        for number in range(nodes):
            self.node(f"n{number + 1}")
        self.make(CONFIG_MAPS, "feature-flags", "tekton-pipelines", data={"coschedule": flag})
        if self._machines:
            await self._stack.enter_async_context(Machinery("home", self.store, SystemClock()).running())

    async def up(self, wanted: Settings | None = None, *, ready: bool = True) -> Replica:
        name = f"replica-{len(self.replicas) + 1}"
        replica = Replica(self.url, self.folder / "management.kubeconfig", wanted or self.settings, name)
        self.replicas.append(replica)
        await self.until(lambda: replica.leads and (replica.health.ready or not ready), f"{name} ready")
        return replica

    async def kill(self) -> None:
        """Kill the process that was started last, and let its lease run out."""
        await self.replicas[-1].kill()
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("UPDATE controlplane.log_head SET renewed_at = '-infinity'")

    async def stop(self) -> None:
        self.cluster.faults.clear()
        for replica in self.replicas:
            if not replica.task.done():
                await replica.stop()
        await self._stack.aclose()
        await self.world.stop()

    async def until(self, wanted: Callable[[], Any], what: str) -> Any:
        return await until(partial(looked, self.replicas, wanted), what)

    async def quiet(self, seconds: float = 1.5) -> None:
        """See that neither the log nor any object moves for a while, once what was under way has come to its end."""
        for _ in range(4):
            before = self.position(), self.store.version
            await asyncio.sleep(seconds)
            if (self.position(), self.store.version) == before:
                return
        raise AssertionError(f"still moving after {before}")

    # --- the cluster -------------------------------------------------------------------------------------------------

    @property
    def cluster(self) -> Any:
        return self.world.management

    @property
    def store(self) -> Any:
        return self.world.management.store

    def make(self, kind: Kind, name: str, namespace: str = NS, **more: Any) -> Json:
        metadata = {"name": name, **({"namespace": namespace} if kind.namespaced else {}), **more.pop("metadata", {})}
        made: Json = self.store.create(
            kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **more}
        )
        return made

    def node(self, name: str, cpu: str = "64") -> None:
        self.make(NODES, name, metadata={"labels": {"kubernetes.io/hostname": name}}, spec={})
        conditions = [{"type": "Ready", "status": "True"}]
        status = {"conditions": conditions, "allocatable": {"cpu": cpu, "memory": "256Gi", "pods": "110"}}
        self.store.patch(NODES, "", name, {"status": status}, subresource="status")

    def cordon(self, name: str, *, back: bool = False) -> None:
        self.store.patch(NODES, "", name, {"spec": {"unschedulable": None if back else True}})

    def patch(self, kind: Kind, name: str, body: Json, namespace: str = NS, subresource: str = "") -> Json:
        found: Json = self.store.patch(kind, namespace, name, body, subresource=subresource)
        return found

    def get(self, kind: Kind, name: str, namespace: str = NS) -> Json | None:
        with contextlib.suppress(ApiError):
            found: Json = self.store.get(kind, namespace, name)
            return found
        return None

    def all(self, kind: Kind, **labels: str) -> list[Json]:
        objects = [record.obj for record in self.store.records(kind)]
        return [one for one in objects if labels.items() <= (meta(one).get("labels") or {}).items()]

    def pods(self, **labels: str) -> list[Json]:
        return self.all(PODS, **labels)

    def requests(self, verb: str, resource: str) -> int:
        """How many requests of a verb the API server had for a resource."""
        return sum(n for (did, name, _), n in self.cluster.server.counts.items() if (did, name) == (verb, resource))

    # --- the log -----------------------------------------------------------------------------------------------------

    def position(self) -> int:
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute("SELECT max(position) FROM controlplane.events").fetchone()
        return int((row or [0])[0] or 0)

    def said(self, event: str, **fields: Any) -> list[Json]:
        """The events of a type with these values, in order."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT data FROM controlplane.events WHERE type = %s ORDER BY position", (event,)
            ).fetchall()
        return [data for (data,) in rows if all(data.get(key) == value for key, value in fields.items())]


Make = Callable[..., Awaitable[Stage]]


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what no setting shortens: the back-off of connecting, and how often a suspected cluster is asked."""
    brief = functools.partial(
        ConnectionTiming, backoff_base=0.1, backoff_cap=0.3, suspect_heartbeat=0.1, away_probe=0.3
    )
    monkeypatch.setattr(term, "ConnectionTiming", brief)


@contextlib.asynccontextmanager
async def stages(room: str, url: str, folder: Path) -> AsyncIterator[Make]:
    """Make stages with a room's controller, or those that are named: `await make()`."""
    made: list[Stage] = []

    async def make(
        *controllers: str, start: bool = True, nodes: int = 3, flag: str = "pipelineruns", **more: Any
    ) -> Stage:
        made.append(Stage(url, folder, *(controllers or (room,)), **more))
        await made[-1].start(nodes, flag)
        if start:
            await made[-1].up()
        return made[-1]

    yield make
    for one in made:
        await one.stop()
