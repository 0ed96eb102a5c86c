"""The two servers under contract: ours, and a real kube-apiserver where one is installed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import aiohttp
import pytest

from controlplane.kube.kinds import Json
from controlplane.simulation.apiserver.pod_subresources import priority
from controlplane.simulation.apiserver.server import SimulatedApiServer
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import ServedKind
from controlplane.simulation.kinds.nodes import NODE_KINDS
from tests.simulation.contract import realserver
from tests.simulation.contract.client import MACHINES, WIDGETS, Api, Kind
from tests.support.waiting import PATIENCE

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMED: Json = {
    "type": "array",
    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    | {"x-kubernetes-preserve-unknown-fields": True},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CONDITIONS = {
    "type": "array",
    "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}
    | {"x-kubernetes-preserve-unknown-fields": True},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}
SERVED = (
    *NODE_KINDS,
    ServedKind(
        WIDGETS,
        short_names=("wd",),
        list_map_keys={
            "status.conditions": ("type",),
            "status.admissionChecks": ("name",),
            "status.admission.podSetAssignments": ("name",),
        },
    ),
    ServedKind(MACHINES, status_subresource=False),
)


def definition(kind: Kind, *, status: bool) -> Json:
    """Return a CustomResourceDefinition for a kind whose spec and status are open."""
    admission = {**OPEN, "properties": {"podSetAssignments": NAMED}}
    lists = {"conditions": CONDITIONS, "admissionChecks": NAMED, "admission": admission}
    properties = {"spec": OPEN, "status": {**OPEN, "properties": lists}}
    version: Json = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    if status:
        version["subresources"] = {"status": {}}
    names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind, "listKind": f"{kind.kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[realserver.RealServer]:
    with realserver.running(tmp_path_factory.mktemp("real")) as server:
        yield server


async def install(api: Api, kind: Kind, *, status: bool) -> None:
    """Install a kind, and wait until it is served and can be watched."""
    answer = await api.call("POST", CRDS, definition(kind, status=status))
    assert answer.status in (201, 409), answer.body
    async with asyncio.timeout(PATIENCE):
        while (await api.call("GET", kind.path("default"))).status != 200:
            await asyncio.sleep(0.05)


SERVERS = ["simulated"] if realserver.missing() else ["simulated", "real"]


@pytest.fixture(params=SERVERS)
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """A server with a namespace of the test's own; kinds WIDGETS (status subresource) and MACHINES (none) are
    installed.
    """
    if request.param == "simulated":
        numbers = itertools.count(1)
        store = Store(
            "contract",
            kinds=SERVED,
            now=lambda: datetime.now(UTC),
            new_uid=lambda: f"00000000-0000-4000-8000-{next(numbers):012d}",
        )
        store.admission.append(priority(store))
        store.graceful = True
        server = SimulatedApiServer(store, token="sesame", bookmark_period=0.2)
        async with aiohttp.ClientSession() as session:
            api = Api(session, await server.start(), "sesame", simulated=True)
            api.forget = store.compact
            api.namespace = await api.new_namespace()
            yield api
        await server.stop()
        return
    real: realserver.RealServer = request.getfixturevalue("real_server")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        api = Api(session, real.url, real.token, simulated=False)
        await install(api, WIDGETS, status=True)
        await install(api, MACHINES, status=False)
        api.namespace = await api.new_namespace()
        yield api
