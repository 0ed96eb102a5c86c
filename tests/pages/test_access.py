"""Who sees what: a table of viewers and addresses, asked of the whole application, against an API server that answers
reviews over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import msgspec
import pytest

from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.streams import ApiServer
from controlplane.clusters.transport import Transport
from controlplane.pages import server
from controlplane.pages.access import Access
from controlplane.pages.app import create_app
from controlplane.pages.beside import listen
from controlplane.pages.follower import Follower
from controlplane.pages.readers import Readers, connector
from controlplane.pages.routes import API, PAGES, path_parameters
from controlplane.settings import Settings
from controlplane.settings.web import WebSettings
from tests.pages.reviews import SCOPED, Reviews, reviewing
from tests.pages.serving import until_ready
from tests.support.deep import deep_after

OWN, FOREIGN = "/workloads/team-a/live", "/workloads/team-b/sim"
# What each of these sees of an address: 200 what it is, 404 as if it were not there, 401 who are you.
TABLE = [
    ("/workloads", 200, 200, 200, 401),
    (OWN, 200, 200, 404, 401),
    (FOREIGN, 200, 404, 404, 401),
    ("/workloads/team-b/not-there", 404, 404, 404, 401),
    ("/workloads?namespace=team-b", 200, 404, 404, 401),
    (f"{FOREIGN}/evidence.jsonl", 200, 404, 404, 401),
    (f"{OWN}/evidence.jsonl", 200, 404, 404, 401),
    ("/", 200, 404, 404, 401),
    ("/clusters/north", 200, 404, 404, 401),
    ("/clusters/not-there", 404, 404, 404, 401),
    ("/outages", 200, 404, 404, 401),
    ("/outages/north/202", 200, 404, 404, 401),
    ("/events/202", 200, 404, 404, 401),
    ("/queues", 200, 200, 200, 401),
    ("/queues/team-a/team-a-queue", 200, 200, 404, 401),
    ("/queues/team-b/team-b-queue", 200, 404, 404, 401),
    ("/queues/team-b/not-there", 404, 404, 404, 401),
    ("/clusterqueues/cq", 200, 404, 404, 401),
    ("/clusterqueues/not-there", 404, 404, 404, 401),
    ("/usage", 200, 200, 404, 401),
    ("/usage?namespace=team-b", 200, 404, 404, 401),
    ("/pods", 200, 200, 200, 401),
    ("/whatif", 200, 404, 404, 401),
    ("/whatif/not-there", 404, 404, 404, 401),
    ("/stream?after=1", None, None, None, 401),
]
VIEWERS = ("auditor", "ada", "nobody", "")


class World:
    """The pages with one way of knowing who asks."""

    def __init__(self, follower: Follower, readers: Readers, reviews: Reviews, cluster: Any) -> None:
        self.follower, self.readers, self.reviews, self.cluster = follower, readers, reviews, cluster

    def client(self, host: str = "10.0.0.7", **web: Any) -> httpx2.AsyncClient:
        settings = msgspec.structs.replace(Settings(), web=msgspec.structs.replace(WebSettings(), **web))
        app = create_app(settings, self.readers, self.follower, Access(settings.web, self.cluster))
        transport = httpx2.ASGITransport(app, client=(host, 1), raise_app_exceptions=False)
        return httpx2.AsyncClient(transport=transport, base_url="http://pages.example")


@pytest.fixture(scope="module")
def followed(fleet_url: str) -> Iterator[tuple[Follower, Readers]]:
    settings = Settings()
    connect = connector(settings, fleet_url)
    follower, readers = Follower(connect, settings), Readers(connect)
    follower.start()
    until_ready(follower)
    yield follower, readers
    follower.stop()
    readers.close()


@pytest.fixture
async def world(followed: tuple[Follower, Readers]) -> AsyncIterator[World]:
    async with reviewing() as (reviews, cluster):
        yield World(*followed, reviews, cluster)


def token(user: str) -> dict[str, str]:
    return {"Authorization": f"Bearer t-{user}"} if user else {}


def proxied(user: str) -> dict[str, str]:
    groups = {"auditor": "auditors", "ada": "other, team-a"}.get(user, "")
    return {"X-Forwarded-User": user, "X-Forwarded-Groups": groups} if user else {}


@pytest.mark.parametrize("way", deep_after(1, ["token", "proxy"]))
async def test_the_table(world: World, way: str) -> None:
    headers, web = (token, {}) if way == "token" else (proxied, {"trusted_proxies": ("10.0.0.0/24",)})
    async with world.client(authentication=way, **web) as client:
        for number, viewer in enumerate(VIEWERS):
            for path, *statuses in TABLE:
                if statuses[number] is None:
                    continue
                for address in (path, f"{API}{path}"):
                    if ("stream" in address and address.startswith(API)) or (
                        "evidence" in address and address.startswith(API)
                    ):
                        continue
                    address = address.replace(f"{API}/?", f"{API}/clusters?")
                    address = f"{API}/clusters" if address == f"{API}/" else address
                    answer = await client.get(address, headers=headers(viewer))
                    assert answer.status_code == statuses[number], (viewer, address, answer.text)


async def test_every_page_is_in_the_table() -> None:
    asked = {path.partition("?")[0].strip("/").partition("/")[0] for path, *_ in TABLE}
    assert {page.path.strip("/").partition("/")[0] for page in PAGES} <= asked
    assert all(
        path_parameters(page.path) or (page.path, 200) in [(path, row[0]) for path, *row in TABLE] for page in PAGES
    )


async def test_what_may_not_be_seen_is_as_what_is_not_there(world: World) -> None:
    async with world.client(authentication="token") as client:
        hidden = await client.get(FOREIGN, headers=token("ada"))
        missing = await client.get("/workloads/team-b/sin", headers=token("ada"))
        assert hidden.text.replace("sim", "sin") == missing.text
        assert "Did you mean" not in missing.text
        event = await client.get("/events/202", headers=token("ada"))
        assert event.text.replace("202", "999999") == (await client.get("/events/999999", headers=token("ada"))).text


async def test_lists_have_only_what_may_be_seen(world: World) -> None:
    async with world.client(authentication="token") as client:

        async def names(path: str, user: str) -> set[str]:
            answer = await client.get(f"{API}{path}", headers=token(user))
            assert answer.status_code == 200, answer.text
            value = answer.json()
            rows = value.get("items") or value.get("answers") or value.get("rows") or []
            return {row.get("namespace") or row["by"]["namespace"] for row in rows}

        for path in (
            "/workloads",
            "/queues",
            "/usage?days=3660",
            "/workloads?at=2026-01-01%2013:00",
        ):
            assert await names(path, "ada") <= {"team-a"}
            assert await names(path, "nobody") == set() if "usage" not in path else True
        assert await names("/workloads", "ada") == {"team-a"}
        assert await names("/queues", "auditor") == {"team-a", "team-b"}
        listed = (await client.get(f"{API}/workloads", headers=token("ada"))).json()
        assert listed["namespaces"] == ["team-a"]
        assert listed["total"] == len(listed["items"])
        for user, told in (("auditor", True), ("ada", False)):
            usage = (await client.get(f"{API}/usage", headers=token(user))).json()
            assert bool(usage["workloads"]) is told
        page = (await client.get("/workloads", headers=token("ada"))).text
        assert "team-b" not in page
        assert 'href="/outages"' not in page


async def test_of_an_event_only_what_may_be_seen_around_it(world: World) -> None:
    async with world.client(authentication="token") as client:
        story = (await client.get(f"{API}{OWN}", headers=token("ada"))).json()
        for one in story["events"][:10]:
            event = (await client.get(f"{API}/events/{one['position']}", headers=token("ada"))).json()
            around = [*event["causes"], *event["followed"]]
            assert all("/team-a/" in each["stream"] for each in around)


async def test_headers_of_anybody_else_than_the_proxy_say_nothing(world: World) -> None:
    web = {"authentication": "proxy", "trusted_proxies": ("10.0.0.7", "fd00::/8")}
    mapped = [("::ffff:10.0.0.7", 200), ("::ffff:10.0.0.8", 401)]  # where the pages listen on ::
    other = [("10.0.0.7", 200), ("10.0.0.8", 401), ("fd00::1", 200), ("::1", 401), ("127.0.0.1", 401)]
    for host, status in (*mapped, *other):
        async with world.client(host, **web) as client:
            answer = await client.get("/", headers=proxied("auditor"))
            assert answer.status_code == status, (host, answer.text)
    async with world.client(**web) as client:
        twice = [("X-Forwarded-User", "nobody"), ("X-Forwarded-User", "auditor")]
        assert (await client.get("/", headers=twice)).status_code == 401


async def test_whom_the_proxy_names_is_in_the_group_of_all_who_are_authenticated(world: World) -> None:
    """As everybody is to whom the API server itself answers: roles may be bound to that group."""
    world.reviews.allows = lambda spec: "system:authenticated" in spec["groups"]
    async with world.client(authentication="proxy", trusted_proxies=("10.0.0.0/24",)) as client:
        assert (await client.get("/workloads", headers=proxied("ada"))).status_code == 200
        for name in ("nobody", "ada"):
            assert (await client.get(FOREIGN, headers=proxied(name))).status_code == 200, name
        assert (await client.get(FOREIGN, headers=proxied("system:anonymous"))).status_code == 404


async def test_answers_are_kept_for_a_minute_and_no_longer(world: World) -> None:
    now, settings = [0.0], msgspec.structs.replace(WebSettings(), authentication="token")
    access = Access(settings, world.cluster, clock=lambda: now[0])
    request = type("R", (), {"headers": {"authorization": "Bearer t-ada"}})()
    for seconds, asked in ((0.0, 1), (59.0, 1), (61.0, 2)):
        now[0] = seconds
        assert (await access.viewer(request)).user.name == "ada"
        assert len(world.reviews.asked) == asked


async def test_a_token_that_may_do_less_than_its_user_sees_less(world: World) -> None:
    """Such as one with OpenShift's scopes: the authorizer knows it by what the token is, beside whose it is."""
    async with world.client(authentication="token") as client:
        assert (await client.get(f"{API}/workloads", headers=token("auditor"))).json()["total"] > 0
        assert (await client.get(f"{API}/workloads", headers=token("scoped"))).json()["total"] == 0
        assert (await client.get("/outages", headers=token("auditor"))).status_code == 200
        assert (await client.get("/outages", headers=token("scoped"))).status_code == 404
    assert next(spec["extra"] for _, spec in world.reviews.asked if spec.get("extra")) == SCOPED


async def test_a_cluster_that_does_not_say_shows_nothing(world: World) -> None:
    world.reviews.forbidden = True
    async with world.client(authentication="token") as client:
        answer = await client.get("/workloads", headers=token("auditor"))
        assert answer.status_code == 503
        assert "system:auth-delegator" in answer.text
    await world.cluster.close()
    async with world.client(authentication="proxy", trusted_proxies=("10.0.0.7",)) as client:
        answer = await client.get(f"{API}/workloads", headers=proxied("auditor"))
        assert answer.status_code == 503
        assert "does not answer" in answer.json()["error"]


async def test_the_pages_own_credentials_may_be_written_anew_while_they_are_served(fleet_url: str) -> None:
    async with reviewing() as (reviews, reached):
        reviews.credentials = own = "first"

        async def open_management() -> ApiServer:
            return Transport("management", ClientConfig(server=reached.config.server, token=own))

        settings = msgspec.structs.replace(
            Settings(), web=msgspec.structs.replace(WebSettings(), authentication="token")
        )
        stop, up = asyncio.Event(), asyncio.Event()
        with listen("127.0.0.1", 0) as listening:
            serving = asyncio.create_task(server.serve(settings, fleet_url, stop, open_management, listening, up.set))
            await up.wait()
            base = f"http://127.0.0.1:{listening.getsockname()[1]}"
            async with httpx2.AsyncClient(base_url=base) as pages:
                assert (await pages.get("/events/202", headers=token("auditor"))).status_code == 200
                reviews.credentials = own = "second"
                assert (await pages.get("/events/202", headers=token("grace"))).status_code == 404
            stop.set()
            await serving
        kinds = [spec["token"] for kind, spec in reviews.asked if kind == "TokenReview"]
        assert kinds == ["t-auditor", "t-grace"]
