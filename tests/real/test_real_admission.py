"""Quota is reserved and Workloads are admitted on a real kube-apiserver with Kueue's CRDs and no Kueue: what is written
passes its schemas, CEL rules and validation.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd and `CONTROLPLANE_TEST_CRDS` a folder with Kueue's CRDs.
Who keeps jobs is played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import yaml

from controlplane.app.ports import ports_of
from controlplane.app.service import Service
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.streams import ListQuery
from controlplane.clusters.transport import Transport
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind, ObjectRef, Request
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.real.pair import NEEDED, install, kubeconfig_of, until, why_not
from tests.simulation.contract import realserver

FILES = (*NEEDED, "cohorts", "resourceflavors", "workloadpriorityclasses")
WHY = why_not(FILES)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Json]:
    from tests.real.pair import CRDS, Path

    folder = tmp_path_factory.mktemp("admission")
    with realserver.running(folder) as server:
        found = kubeconfig_of(server, folder)
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(found))
        install(path, [next(Path(CRDS).glob(f"*_{file}.yaml")) for file in FILES])
        yield found


@pytest.fixture
async def api(kubeconfig: Json) -> AsyncIterator[Transport]:
    found = Transport("management", parse_kubeconfig(yaml.safe_dump(kubeconfig).encode()))
    yield found
    await found.close()


@asynccontextmanager
async def serving(kubeconfig: Json, url: str) -> AsyncIterator[Health]:
    config = parse_kubeconfig(yaml.safe_dump(kubeconfig).encode())

    async def open_management() -> Transport:
        return Transport("@management", config)

    settings = Settings()
    settings = msgspec.structs.replace(
        settings,
        quota=msgspec.structs.replace(settings.quota, mode="builtin"),
        leader=msgspec.structs.replace(settings.leader, identity="real"),
    )
    health, stop = Health(), asyncio.Event()
    database = Database(url, "controlplane_service")
    service = Service(settings, ports_of(database), open_management, metrics=Metrics(), health=health)
    task = asyncio.create_task(service.run(stop))
    try:
        yield health
    finally:
        stop.set()
        await task


class Cluster:
    """What a user and whoever keeps jobs do on the management cluster."""

    def __init__(self, api: Transport) -> None:
        self.api = api

    async def create(self, kind: Kind, name: str, spec: Json, namespace: str = "", **more: Any) -> Json:
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, **({"namespace": namespace} if namespace else {}), **more},
            "spec": spec,
        }
        found: Json = await self.api.create(kind, namespace, body)
        return found

    async def queue(self, name: str, cpu: str, **more: Any) -> None:
        quota = [{"name": "cpu", "nominalQuota": cpu}]
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": quota}]}]
        await self.create(kinds.CLUSTER_QUEUES, name, {"resourceGroups": groups, "namespaceSelector": {}, **more})
        await self.create(kinds.LOCAL_QUEUES, name, {"clusterQueue": name}, "default")

    async def workload(self, name: str, queue: str, cpu: str, priority: int = 0) -> Json:
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        pod_sets = [{"name": "main", "count": 1, "template": template}]
        spec = {"queueName": queue, "priority": priority, "podSets": pod_sets}
        return await self.create(kinds.WORKLOADS, name, spec, "default")

    async def status(self, name: str, **changed: Any) -> None:
        ref = ObjectRef(kinds.WORKLOADS, "default", name)
        await self.api.write(Request("patch", ref, {"status": changed}, subresource="status"))

    async def conditions(self, name: str, *made: Json) -> None:
        seen = await self.api.get(kinds.WORKLOADS, "default", name)
        types = {one["type"] for one in made}
        kept = [one for one in seen["status"].get("conditions", ()) if one["type"] not in types]
        await self.status(name, conditions=[*kept, *made])

    async def seen(self, kind: Kind, name: str, test: Callable[[Json], Any], namespace: str = "default") -> Json:
        async def probe() -> Json | None:
            found = await self.api.get(kind, namespace, name)
            return found if test(found) else None

        last: Json = {}
        try:
            found: Json = await until(f"{kind.kind} {name}", probe)
        except AssertionError as error:
            last = await self.api.get(kind, namespace, name)
            raise AssertionError(f"{error}: {last.get('status')} {last.get('metadata')}") from None
        return found

    async def admitted(self, name: str) -> Json:
        return await self.seen(kinds.WORKLOADS, name, lambda obj: said(obj, "Admitted") == "True")

    async def told(self, name: str, *reasons: str) -> None:
        """Wait for Events of an object, which are sent after what they tell of."""

        async def probe() -> bool:
            listing = await self.api.list(ListQuery(kinds.EVENTS))
            return {*reasons} <= {one["reason"] for one in listing.items if one["regarding"]["name"] == name}

        await until(f"Events {reasons} of {name}", probe)


def said(obj: Json, type_: str) -> str:
    conditions = obj.get("status", {}).get("conditions", ())
    return next((one["status"] for one in conditions if one["type"] == type_), "")


def condition(type_: str, status: str = "True", reason: str = "ByHand") -> Json:
    at = "2026-01-01T00:00:00Z"
    return {"type": type_, "status": status, "reason": reason, "message": "by hand", "lastTransitionTime": at}


async def test_quota_is_reserved_waited_for_and_released(kubeconfig: Json, api: Transport, database_url: str) -> None:
    cluster = Cluster(api)
    await cluster.create(kinds.RESOURCE_FLAVORS, "default", {})
    async with serving(kubeconfig, database_url):
        await cluster.queue("team", "5")
        active = await cluster.seen(kinds.CLUSTER_QUEUES, "team", lambda obj: said(obj, "Active") == "True", "")
        assert active["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
        await cluster.workload("first", "team", "3")
        first = await cluster.admitted("first")
        assert first["status"]["admission"] == {
            "clusterQueue": "team",
            "podSetAssignments": [
                {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "3"}, "count": 1}
            ],
        }
        await cluster.workload("second", "team", "4")
        second = await cluster.seen(kinds.WORKLOADS, "second", lambda obj: said(obj, "QuotaReserved") == "False")
        reserved = next(one for one in second["status"]["conditions"] if one["type"] == "QuotaReserved")
        assert reserved["reason"] == "WaitingForQuota"
        assert reserved["message"] == (
            "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more "
            "needed"
        )
        counts = {"pendingWorkloads": 1, "reservingWorkloads": 1, "admittedWorkloads": 1}

        def counted(obj: Json) -> bool:
            return counts.items() <= (obj.get("status") or {}).items()

        queue = await cluster.seen(kinds.CLUSTER_QUEUES, "team", counted, "")
        # Doctor tells another manager by this name.
        wrote = {one["manager"] for one in queue["metadata"]["managedFields"] if one.get("subresource") == "status"}
        assert wrote == {"controlplane"}
        usage = [{"name": "default", "resources": [{"name": "cpu", "total": "3", "borrowed": "0"}]}]
        assert queue["status"]["flavorsReservation"] == queue["status"]["flavorsUsage"] == usage
        local = await cluster.seen(kinds.LOCAL_QUEUES, "team", counted)
        assert said(local, "Active") == "True"

        await cluster.conditions("first", condition("Finished"))
        await cluster.admitted("second")
        await cluster.told("first", "QuotaReserved", "Admitted")
        await cluster.told("second", "WaitingForQuota", "QuotaReserved", "Admitted")


async def test_what_is_beyond_the_limits_of_an_api_server_is_written_all_the_same(
    kubeconfig: Json, api: Transport, database_url: str
) -> None:
    """Amounts beyond 64 bits, more flavors than a status has room for, a reason that is longer than what counts it."""
    cluster = Cluster(api)
    names = [f"many-{number}" for number in range(80)]
    for name in names:
        await cluster.create(kinds.RESOURCE_FLAVORS, name, {})
    groups = [
        {
            "coveredResources": [resource],
            "flavors": [{"name": name, "resources": [{"name": resource, "nominalQuota": "1E"}]} for name in of],
        }
        for resource, of in (("cpu", names[:40]), ("memory", names[40:]))
    ]
    async with serving(kubeconfig, database_url):
        await cluster.queue("many", "1", resourceGroups=groups)
        await cluster.workload("huge", "many", "1E")
        await cluster.admitted("huge")
        used = {"name": "cpu", "total": "9223372036854775807m", "borrowed": "0"}

        def counted(obj: Json) -> bool:
            told = (obj.get("status") or {}).get("flavorsUsage") or ()
            return len(told) == 64 and told[0]["resources"] == [used]

        active = await cluster.seen(kinds.CLUSTER_QUEUES, "many", counted, "")
        assert said(active, "Active") == "True"
        await cluster.conditions("huge", condition("DeactivationTarget", reason="R" * 1020))
        evicted = await cluster.seen(kinds.WORKLOADS, "huge", lambda obj: said(obj, "Evicted") == "True")
        assert evicted["status"]["schedulingStats"]["evictions"][0]["underlyingCause"] == "R" * 316
