"""The HTTP side that only the simulated server has: counters, compaction under open watches, its kubeconfig, its
life.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from controlplane.kube.kinds import JOBS, WORKLOADS
from controlplane.simulation.apiserver.server import SimulatedApiServer
from controlplane.simulation.apiserver.store import Store
from tests.simulation.contract.client import Api, Lines
from tests.simulation.store_kit import GADGETS, gadget, new_store
from tests.support.waiting import PATIENCE


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
def store() -> Store:
    return new_store(history=50)


@pytest.fixture
async def server(store: Store) -> AsyncIterator[SimulatedApiServer]:
    server = SimulatedApiServer(store, token="sesame", bookmark_period=0.05)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def api(server: SimulatedApiServer) -> AsyncIterator[Api]:
    async with aiohttp.ClientSession() as session:
        api = Api(session, server.url, server.token, simulated=True)
        api.namespace = "default"
        yield api


class TestCounting:
    async def test_counts_requests_but_not_watches(self, server: SimulatedApiServer, api: Api) -> None:
        (await api.create(GADGETS, gadget("a"))).ok(201)
        await api.get(GADGETS, "a")
        await api.get(GADGETS, "none")
        await api.patch(GADGETS, "a", {"status": {"x": 1}}, "status")
        await api.call("GET", "/version")
        async with api.watch(GADGETS) as watch:
            await watch.next()
        assert server.counts == {
            ("create", "gadgets.kit.example.com", ""): 1,
            ("get", "gadgets.kit.example.com", ""): 2,
            ("patch", "gadgets.kit.example.com", "status"): 1,
        }
        assert server.watches == {"gadgets.kit.example.com": 1}
        assert server.user_agent == "contract/1.0"

    async def test_knows_how_many_watches_are_open(self, server: SimulatedApiServer, api: Api) -> None:
        async with api.watch(GADGETS):
            await until(lambda: server.open_watches == 1)
        await until(lambda: server.open_watches == 0)


class TestAccess:
    async def test_a_wrong_token_is_refused_with_a_status(self, server: SimulatedApiServer, api: Api) -> None:
        api.token = "wrong"
        (await api.get(GADGETS, "a")).refused(401, "Unauthorized", "Unauthorized")
        (await api.call("GET", "/api")).refused(401, "Unauthorized")
        assert (await api.call("GET", "/readyz")).body == "ok"
        assert not server.counts

    async def test_the_token_may_stand_in_the_path(self, server: SimulatedApiServer, api: Api) -> None:
        api.token = "wrong"
        api.url = server.kubeconfig(for_kubectl=True)["clusters"][0]["cluster"]["server"]
        (await api.list(GADGETS)).ok()

    async def test_a_kubeconfig_names_url_and_token(self, server: SimulatedApiServer) -> None:
        config = server.kubeconfig()
        assert config["clusters"][0]["cluster"] == {"server": server.url}
        assert config["users"][0]["user"] == {"token": "sesame"}
        assert config["current-context"] == config["contexts"][0]["name"] == "kit"

    async def test_without_a_token_everybody_is_let_in(self, store: Store) -> None:
        server = SimulatedApiServer(store)
        async with aiohttp.ClientSession() as session, session.get(await server.start() + "/api") as response:
            assert response.status == 200
        await server.stop()


class TestProtocol:
    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/nothing", 404),
            ("GET", "/apis/kit.example.com/v1/nothing", 404),
            ("GET", "/apis/kit.example.com/v1/namespaces/default/gadgets/a/scale", 404),
            ("GET", "/apis/kit.example.com/v1/gadgets/a", 405),
            ("POST", "/apis/kit.example.com/v1/gadgets", 405),
            ("PUT", "/apis/kit.example.com/v1/namespaces/default/gadgets", 405),
            ("GET", "/api/v1/namespaces/default/namespaces", 404),
        ],
    )
    async def test_paths_that_lead_nowhere(self, api: Api, method: str, path: str, status: int) -> None:
        assert (await api.call(method, path)).status == status

    async def test_numbers_that_are_none(self, api: Api) -> None:
        for query in ({"limit": "x"}, {"resourceVersion": "-1"}, {"watch": "1", "timeoutSeconds": "1.5"}):
            (await api.list(GADGETS, **query)).refused(400, "BadRequest", "must be a non-negative integer")

    async def test_bodies_that_are_none(self, server: SimulatedApiServer, api: Api) -> None:
        path = server.url + GADGETS.path("default")
        for body in (b"{", b"[]", b'"x"', b'{"metadata": 1}'):
            async with api.session.post(
                path, data=body, headers=api.headers(**{"Content-Type": "application/json"})
            ) as response:
                assert response.status == 400, body
        headers = api.headers(**{"Content-Type": "application/vnd.kubernetes.protobuf"})
        async with api.session.post(path, data=b"k8s\x00", headers=headers) as response:
            assert response.status == 415

    async def test_yaml_is_taken(self, server: SimulatedApiServer, api: Api) -> None:
        body = b"metadata: {name: a}\nspec: {x: 1}\n"
        headers = api.headers(**{"Content-Type": "application/yaml"})
        async with api.session.post(server.url + GADGETS.path("default"), data=body, headers=headers) as response:
            assert (await response.json())["spec"] == {"x": 1}

    async def test_categories(self, api: Api) -> None:
        groups = {"/api/v1": {"pods"}, "/apis/batch/v1": {"jobs"}, "/apis/kueue.x-k8s.io/v1beta2": set()}
        for path, wanted in groups.items():
            document = (await api.call("GET", path)).ok()
            assert {one["name"] for one in document["resources"] if "all" in one.get("categories", ())} == wanted

    async def test_aggregated_discovery(self, api: Api) -> None:
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
        (await api.call("GET", "/api", accept=accept)).ok()
        groups = (await api.call("GET", "/apis", accept=accept)).ok()["items"]
        kueue = next(group for group in groups if group["metadata"]["name"] == "kueue.x-k8s.io")
        workload = next(r for r in kueue["versions"][0]["resources"] if r["resource"] == "workloads")
        assert (workload["shortNames"][0], workload["scope"]) == ("kwl", "Namespaced")
        assert workload["subresources"][0]["subresource"] == "status"

    async def test_patches_say_that_they_take_field_validation(self, api: Api) -> None:
        index = (await api.call("GET", "/openapi/v3")).ok()["paths"]["apis/batch/v1"]["serverRelativeURL"]
        document = (await api.call("GET", index)).ok()
        patch = document["paths"][JOBS.path("{namespace}", "{name}")]["patch"]
        assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
        assert patch["x-kubernetes-group-version-kind"] == {"group": "batch", "version": "v1", "kind": "Job"}

    async def test_a_workload_in_a_table(self, store: Store, api: Api) -> None:
        store.create(WORKLOADS, {"metadata": {"name": "w", "namespace": "default"}, "spec": {"queueName": "q"}})
        conditions = [{"type": "Admitted", "status": "True"}]
        status = {"conditions": conditions, "admission": {"clusterQueue": "cq"}}
        store.patch(WORKLOADS, "default", "w", {"status": status}, subresource="status")
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        table = (await api.call("GET", WORKLOADS.path("default"), accept=accept, includeObject="Object")).ok()
        assert [column["name"] for column in table["columnDefinitions"]] == [
            "Name", "Queue", "Reserved in", "Admitted", "Finished", "Age",
        ]  # fmt: skip
        (row,) = table["rows"]
        assert row["cells"] == ["w", "q", "cq", "True", None, "0s"]
        assert row["object"] == store.get(WORKLOADS, "default", "w")


class TestWatching:
    async def test_compaction_under_a_watch_that_keeps_up_is_not_felt(self, store: Store, api: Api) -> None:
        async with api.watch(GADGETS, resourceVersion=str(store.version)) as watch:
            store.create(GADGETS, gadget("a"))
            assert await watch.named() == ("ADDED", "a")
            store.compact()
            store.create(GADGETS, gadget("b"))
            assert await watch.named() == ("ADDED", "b")

    async def test_a_watch_that_falls_behind_is_told_and_sent_away(self, store: Store, api: Api) -> None:
        async with api.watch(GADGETS, resourceVersion=str(store.version)) as watch:
            await asyncio.sleep(0)
            for number in range(60):
                store.create(GADGETS, gadget(f"g{number}"))
            type_, status = await watch.next()
            assert await watch.ended()
        assert (type_, status["code"], status["reason"]) == ("ERROR", 410, "Expired")

    async def test_compaction_makes_older_versions_expire(self, store: Store, api: Api) -> None:
        start = str(store.version)
        store.create(GADGETS, gadget("a"))
        store.compact()
        async with api.watch(GADGETS, resourceVersion=start) as watch:
            assert (await watch.next())[1]["code"] == 410
        now = str(store.version)
        async with api.watch(GADGETS, resourceVersion=now) as watch:
            store.create(GADGETS, gadget("b"))
            assert await watch.named() == ("ADDED", "b")
        first = (await api.list(GADGETS, limit="1")).ok()
        store.create(GADGETS, gadget("c"))
        store.compact()
        rest = await api.list(GADGETS, **{"continue": first["metadata"]["continue"]})
        rest.refused(410, "Expired")

    async def test_bookmarks_come_while_nothing_happens(self, store: Store, api: Api) -> None:
        query = {"resourceVersion": str(store.version), "allowWatchBookmarks": "true"}
        async with api.watch(GADGETS, **query) as watch:
            store.create(JOBS, {"metadata": {"name": "j", "namespace": "default"}})
            type_, obj = await watch.next()
            assert type_ == "BOOKMARK"
            while obj["metadata"]["resourceVersion"] != str(store.version):
                type_, obj = await watch.next()
                assert type_ == "BOOKMARK"

    async def test_without_asking_there_are_none(self, store: Store, api: Api) -> None:
        async with api.watch(GADGETS, resourceVersion=str(store.version), timeoutSeconds="1") as watch:
            assert await watch.ended()

    async def test_a_burst_arrives_whole_and_in_order(self, store: Store, api: Api) -> None:
        async with api.watch(GADGETS, resourceVersion=str(store.version)) as watch:
            expected = []
            for number in range(200):
                store.create(GADGETS, gadget(f"g{number}"))
                expected.append(("ADDED", f"g{number}"))
                if number % 20 == 0:
                    await asyncio.sleep(0.001)
            assert [await watch.named() for _ in range(200)] == expected

    async def test_watches_of_other_kinds_are_left_alone(self, store: Store, api: Api) -> None:
        async with api.watch(JOBS, resourceVersion=str(store.version)) as jobs, api.watch(GADGETS) as gadgets:
            store.create(GADGETS, gadget("a"))
            assert await gadgets.named() == ("ADDED", "a")
            store.create(JOBS, {"metadata": {"name": "j", "namespace": "default"}})
            assert await jobs.named() == ("ADDED", "j")


class TestLife:
    async def test_stops_under_open_watches_and_starts_again(self, store: Store) -> None:
        server = SimulatedApiServer(store)
        url = await server.start()
        port = int(url.rpartition(":")[2])
        async with aiohttp.ClientSession() as session:
            async with session.get(url + GADGETS.path("default"), params={"watch": "1"}) as response:
                await server.stop()
                with pytest.raises(aiohttp.ClientError):
                    await Lines(response).next()
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(url + "/api")
            assert await server.start(port) == url
            async with session.get(url + "/api") as response:
                assert response.status == 200
        await server.stop()
        await server.stop()
        assert server.open_watches == 0
