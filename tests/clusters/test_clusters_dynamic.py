"""Objects of any kind by a reference's fields: discovery is asked once, anew when it does not know a kind, and scope
decides the place.
"""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.clusters.budget import RateLimits, RequestBudget
from controlplane.clusters.dynamic_reader import Dynamic
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.protocol import ApiError, NotServed
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import CLUSTER_QUEUES, JOBS, Json, Kind
from controlplane.simulation.apiserver.server import SimulatedApiServer
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import DEFAULT_KINDS
from tests.clusters.clocks import ManualClock


class Server:
    """A port that serves some kinds; `gone` are served no more though discovery was asked before."""

    name = "worker"

    def __init__(self) -> None:
        self.kinds: dict[str, list[Json]] = {
            "apps/v1": [
                {"name": "deployments/status", "kind": "Deployment", "namespaced": True},
                {"name": "deployments", "kind": "Deployment", "namespaced": True},
            ],
            "v1": [{"name": "nodes", "kind": "Node", "namespaced": False}],
        }
        self.calls: list[Any] = []
        self.trouble: list[ApiError] = []

    async def resources(self, api_version: str) -> Json:
        self.calls.append(api_version)
        if api_version not in self.kinds:
            raise ApiError(404, "NotFound", "")
        return {"resources": self.kinds[api_version]}

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        self.calls.append(kind.path(namespace, name))
        if self.trouble:
            raise self.trouble.pop(0)
        return {"metadata": {"name": name}}


def dynamic(server: Server, counted: list[tuple[Any, ...]] | None = None) -> Dynamic:
    budget = RequestBudget(RateLimits(), clock=ManualClock())
    return Dynamic(server, budget, lambda *one: counted.append(one) if counted is not None else None)


async def test_discovery_is_asked_once_for_a_version() -> None:
    server, counted = Server(), list[tuple[Any, ...]]()
    looks = dynamic(server, counted)
    assert await looks.look("apps/v1", "Deployment", "ns", "web") == {"metadata": {"name": "web"}}
    await looks.look("apps/v1", "Deployment", "ns", "other")
    assert server.calls == [
        "apps/v1",
        "/apis/apps/v1/namespaces/ns/deployments/web",
        "/apis/apps/v1/namespaces/ns/deployments/other",
    ]
    assert counted[1][:-1] == ("worker", "get", "deployments.apps", "200")
    assert counted[1][-1] >= 0.0, "the seconds that it took"


async def test_a_cluster_scoped_kind_is_read_without_the_namespace() -> None:
    server = Server()
    await dynamic(server).look("v1", "Node", "ns", "n1")
    assert server.calls == ["v1", "/api/v1/nodes/n1"]


@pytest.mark.parametrize(("api_version", "kind"), [("apps/v1", "Widget"), ("example.com/v1", "Widget")])
async def test_a_kind_that_is_not_served(api_version: str, kind: str) -> None:
    server = Server()
    looks = dynamic(server)
    for _ in range(2):
        with pytest.raises(NotServed, match="worker serves no "):
            await looks.look(api_version, kind, "ns", "w")
    assert server.calls == [api_version, api_version]  # looked at anew each time: a CRD may have come


async def test_a_missing_object_is_no_missing_kind() -> None:
    server = Server()
    server.trouble = [ApiError(404, "NotFound", "")]
    with pytest.raises(ApiError):
        await dynamic(server).look("apps/v1", "Deployment", "ns", "web")
    assert server.calls.count("apps/v1") == 1


async def test_a_resource_that_has_gone_refreshes_discovery_once() -> None:
    server = Server()
    looks = dynamic(server)
    await looks.look("apps/v1", "Deployment", "ns", "web")
    server.trouble = [ApiError(404, "", "404 page not found")]
    del server.kinds["apps/v1"]
    with pytest.raises(NotServed):
        await looks.look("apps/v1", "Deployment", "ns", "web")
    assert server.calls.count("apps/v1") == 2


async def test_against_a_server_that_speaks_http() -> None:
    uids = itertools.count()
    store = Store("w", kinds=DEFAULT_KINDS, now=lambda: datetime.now(UTC), new_uid=lambda: f"uid-{next(uids)}")
    server = SimulatedApiServer(store, token="t0ken")
    await server.start()
    transport = Transport("w", parse_kubeconfig(json.dumps(server.kubeconfig()).encode()))
    try:
        await transport.create(JOBS, "default", {"metadata": {"name": "a"}, "spec": {"template": {"spec": {}}}})
        await transport.create(CLUSTER_QUEUES, "", {"metadata": {"name": "q"}, "spec": {}})
        looks = Dynamic(transport, RequestBudget(RateLimits()))
        assert (await looks.look("batch/v1", "Job", "default", "a"))["metadata"]["uid"]
        assert (await looks.look(CLUSTER_QUEUES.api_version, "ClusterQueue", "default", "q"))["metadata"]["name"] == "q"
        with pytest.raises(ApiError) as missing:
            await looks.look("batch/v1", "Job", "default", "b")
        assert missing.value.status == 404
        for kind in (("batch/v1", "Widget"), ("example.com/v1", "Widget"), ("v9", "Pod")):
            with pytest.raises(NotServed):
                await looks.look(*kind, "default", "w")
    finally:
        await transport.close()
        await server.stop()


@pytest.mark.parametrize("status", [403, 429, 500])
async def test_a_no_goes_back_to_whoever_asked(status: int) -> None:
    server = Server()
    server.trouble = [ApiError(status, "No", "", 1.0)]
    with pytest.raises(ApiError):
        await dynamic(server).look("apps/v1", "Deployment", "ns", "web")
