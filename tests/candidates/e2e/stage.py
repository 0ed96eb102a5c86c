"""The stage: one source process over HTTP, simulated clusters, and in each target the real pure target side behind a
double.

In: which targets there are. Out: pods submitted, processes killed and started, clusters cut; pods, candidates and the
log to look at."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import (
    ACCOUNTS,
    CANDIDATE_SOURCES,
    CANDIDATE_TARGETS,
    PODS,
    SCHEDULER_NAME,
)
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.kube.kinds import JOBS, LEASES, PERSISTENT_VOLUME_CLAIMS, POD_GROUPS, SERVICES, Json, meta
from controlplane.settings import Settings
from controlplane.settings.candidates import Candidates
from controlplane.simulation.kinds.base import DEFAULT_KINDS, ServedKind
from controlplane.simulation.kinds.candidates import CANDIDATE_KINDS
from controlplane.simulation.world import ClusterSpec, World
from tests.candidates.e2e.double import TargetDouble
from tests.multikueue.kep693.rig import until
from tests.outages.stage import Replica, keep_tasks_apart
from tests.outages.stage import settings as quick
from tests.support.local import looked

NS, HOME = "default", "home"
SKEW = timedelta(milliseconds=300)
KINDS = (
    *DEFAULT_KINDS,
    *CANDIDATE_KINDS,
    ServedKind(ACCOUNTS, status_subresource=False),
    ServedKind(PERSISTENT_VOLUME_CLAIMS),
    ServedKind(LEASES, status_subresource=False),
    ServedKind(SERVICES, strategic_keys={"spec.ports": ("port",)}),
    ServedKind(POD_GROUPS, status_subresource=False),
)


def settings(*, controllers: tuple[str, ...] = ("multikueue", "candidates"), **more: Any) -> Settings:
    """Settings of a source that waits briefly."""
    chosen = Candidates(
        **{
            "cluster": HOME,
            "namespaces": (NS,),
            "lease": timedelta(seconds=3),
            "clock_skew": SKEW,
            "lost_after": timedelta(seconds=1),
            "max_wait": timedelta(seconds=1),
            **more,
        }
    )
    found = quick()
    return msgspec.structs.replace(
        found, run=msgspec.structs.replace(found.run, controllers=controllers), candidates=chosen
    )


def source_pod(name: str = "web", *, uid_of: str = "", annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    metadata: Json = {"name": name, "namespace": NS, "labels": {"app": name}, "annotations": annotations or {}}
    if uid_of:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "rs", "uid": uid_of, "controller": True}
        metadata["ownerReferences"] = [owner]
    container = {"name": "c", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": SCHEDULER_NAME, "restartPolicy": "Always", "containers": [container], **spec},
    }


class Stage:
    """See the module."""

    def __init__(self, url: str, folder: Path, *targets: str, invited: bool = True, **candidates: Any) -> None:
        spec = ClusterSpec(kinds=KINDS)
        self.world = World(spec, dict.fromkeys(targets, spec), folder=folder)
        self.url, self.folder = url, folder
        self.settings = settings(**{"targets": targets, **candidates})
        self.targets: dict[str, TargetDouble] = {}
        self.replicas: list[Replica] = []
        self._invited = invited

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        keep_tasks_apart()
        await self.world.start()
        for name, cluster in self.world.workers.items():
            self.targets[name] = TargetDouble(cluster.store, TargetPolicy(skew=SKEW))
            if self._invited:
                self.invite(name)
            self.targets[name].start()
        await self.up()

    async def up(self, wanted: Settings | None = None) -> Replica:
        """Start a process, and wait until it leads and sees its clusters."""
        name = f"replica-{len(self.replicas) + 1}"
        kubeconfig = self.folder / "management.kubeconfig"
        replica = Replica(self.url, kubeconfig, wanted or self.settings, name)
        self.replicas.append(replica)
        await self.until(lambda: replica.leads and replica.health.ready, f"{name} ready")
        return replica

    async def kill(self) -> None:
        """Kill the process that was started last, and let its lease run out."""
        await self.replicas[-1].kill()
        self.execute("UPDATE controlplane.log_head SET renewed_at = '-infinity'")

    async def stop(self) -> None:
        for cluster in self.world.clusters.values():
            cluster.faults.clear()
        for target in self.targets.values():
            await target.crash()
        for replica in self.replicas:
            if not replica.task.done():
                await replica.stop()
        await self.world.stop()

    async def until(self, wanted: Callable[[], Any], what: str) -> Any:
        return await until(partial(looked, self.replicas, wanted), what)

    # --- clusters ----------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Any:
        return self.world.management.store

    def invite(self, target: str, **spec: Any) -> None:
        """Let the target take candidates of ours."""
        head = {"name": "home", "namespace": NS}
        body = {"apiVersion": CANDIDATE_SOURCES.api_version, "kind": "CandidateSource", "metadata": head}
        self.world.clusters[target].store.create(
            CANDIDATE_SOURCES, {**body, "spec": {"cluster": HOME, "podSecurity": "baseline", **spec}}
        )

    def allow(self, target: str, tier: int = 0, namespace: str = NS) -> None:
        """Let a namespace of ours use a target."""
        head = {"name": f"to-{target}", "namespace": namespace}
        body = {"apiVersion": CANDIDATE_TARGETS.api_version, "kind": "CandidateTarget", "metadata": head}
        self.store.create(CANDIDATE_TARGETS, {**body, "spec": {"cluster": target, "tier": tier}})

    def cut(self, target: str) -> None:
        self.world.clusters[target].faults.cut()

    def heal(self, target: str) -> None:
        self.world.clusters[target].faults.clear()

    # --- pods --------------------------------------------------------------------------------------------------------

    def submit(self, name: str = "web", **more: Any) -> Json:
        made: Json = self.store.create(PODS, source_pod(name, **more))
        return made

    def owner(self) -> str:
        """Make something that may own pods, so that the garbage collector lets them be; return its UID."""
        container = {"name": "c", "image": "i"}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        head = {"name": "rs", "namespace": NS}
        spec = {"suspend": True, "template": template}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": head, "spec": spec}
        return str(meta(self.store.create(JOBS, job))["uid"])

    def pod(self, name: str = "web") -> Json | None:
        with contextlib.suppress(ApiError):
            found: Json = self.store.get(PODS, NS, name)
            return found
        return None

    def condition(self, name: str = "web", kind: str = "PodScheduled") -> Json:
        entries = ((self.pod(name) or {}).get("status") or {}).get("conditions") or []
        return next((dict(entry) for entry in entries if entry["type"] == kind), {})

    def delete(self, name: str = "web") -> None:
        self.store.delete(PODS, NS, name)

    def bound_in(self, name: str = "web") -> list[str]:
        """The targets in which a pod of this name is on a node."""
        return [
            t for t, double in self.targets.items() for pod in double.bound if meta(pod)["labels"].get("app") == name
        ]

    async def placed(self, name: str = "web", where: str = "") -> str:
        """Wait until a source pod shows its delegate, and return where it is."""

        def there() -> str:
            hint = (meta(self.pod(name) or {}).get("annotations") or {}).get("candidates.controlplane.dev/cluster", "")
            shown = self.condition(name).get("status") == "True" and self.bound_in(name) == [hint]
            return hint if shown and where in ("", hint) else ""

        return str(await self.until(there, f"{name} placed on {where or 'any'}"))

    def left(self) -> list[str]:
        """What is left on the targets."""
        return [
            f"{name}: {obj['kind']} {meta(obj)['name']}"
            for name, double in self.targets.items()
            for obj in [*double.candidates, *double.pods]
        ]

    # --- the log -----------------------------------------------------------------------------------------------------

    def execute(self, statement: Any) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def said(self, event: str, **fields: Any) -> list[Json]:
        """The events of a type with these values, in order."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT data FROM controlplane.events WHERE type = %s ORDER BY position", (event,)
            ).fetchall()
        return [data for (data,) in rows if all(data.get(key) == value for key, value in fields.items())]

    async def quiet(self, seconds: float = 0.3) -> None:
        await asyncio.sleep(seconds)
