"""An aggregated API server over real TLS: nothing is answered without the front proxy's certificate, and nothing to who
may not have it."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import msgspec
import pytest

from controlplane.app.candidates.kubelet import trusting
from controlplane.kube.api_requests import RequestAttributes
from controlplane.kube.front_proxy import UserInfo, front_proxy
from controlplane.kube.kinds import Json
from controlplane.web import Certificate, webhook
from controlplane.web.aggregated import AggregatedApi, AggregatedServer, Unavailable
from controlplane.web.client_authority import ClientAuthority
from tests.support.waiting import PATIENCE
from tests.web.front_proxy import Client, config_map, make

THING = "/apis/g.example/v1/things/one"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Server:
    """What the test serves, and what was asked."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[tuple[UserInfo, RequestAttributes]] = []
        self.allowed, self.unsure, self.missing = True, False, ""
        certificate = Certificate(str(folder / "served" / "server.crt"), str(folder / "served" / "server.key"))
        documents: dict[str, Json] = {"/apis": {"kind": "APIGroupList"}, "/apis/g.example": {"kind": "APIGroup"}}
        api = AggregatedApi(documents, {"kind": "APIGroupDiscoveryList"}, self.answer, lambda: self.missing)
        self.running = AggregatedServer(api, ClientAuthority(certificate), self.may)

    async def may(self, user: UserInfo, asked: RequestAttributes) -> bool:
        self.asked.append((user, asked))
        if self.unsure:
            raise Unavailable("nobody says it")
        return self.allowed

    async def answer(self, asked: RequestAttributes, query: Mapping[str, str]) -> tuple[int, Json]:
        if self.missing:
            raise Unavailable(self.missing, again=1)
        return 200, {"thing": asked.name, **query}


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("front-proxy")
    make(folder)
    return folder


@pytest.fixture
def folder(authorities: Path, tmp_path: Path) -> Path:
    shutil.copytree(authorities, tmp_path, dirs_exist_ok=True)
    shutil.copytree(tmp_path / "server", tmp_path / "served")
    return tmp_path


@pytest.fixture
async def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.setattr(webhook, "LOOK_AGAIN", 0.05)
    found = Server(folder)
    found.running.trust(front_proxy(config_map(folder / "front" / "ca.crt")))
    await found.running.listen("127.0.0.1", 0, "quota.visibility")
    yield found
    await found.running.stop()


@pytest.fixture
def client(served: Server, folder: Path) -> Client:
    return Client(folder, served.running.port)


async def refused(client: Client, shows: str, path: str = THING) -> int:
    """Return the code with which a request is refused, 0 where there is not even a connection."""
    try:
        return (await client.ask(path, shows)).status
    except aiohttp.ClientError:
        return 0


async def test_what_the_front_proxy_asks_for_somebody_is_answered(served: Server, client: Client) -> None:
    answer = await client.ask(f"{THING}?limit=2", groups=("a", "b"), **{"X-Remote-Extra-Scopes%2fx": "s"})
    assert (answer.status, msgspec.json.decode(answer.body)) == (200, {"thing": "one", "limit": "2"})
    [(user, asked)] = served.asked
    assert user == UserInfo(name="jane", groups=("a", "b", "system:authenticated"), extra=(("scopes/x", ("s",)),))
    assert (asked.verb, asked.group, asked.resource, asked.name) == ("get", "g.example", "things", "one")


@pytest.mark.parametrize("path", [THING, "/apis", "/apis/g.example", "/nothing", "/metrics", "/version"])
async def test_nothing_is_told_without_a_certificate(served: Server, client: Client, path: str) -> None:
    answer = await client.ask(path, shows="")
    assert (answer.status, msgspec.json.decode(answer.body)["message"]) == (401, "Unauthorized")
    assert not served.asked


async def test_a_certificate_of_another_authority_is_refused(served: Server, client: Client) -> None:
    assert await refused(client, "other") == 0
    assert await refused(client, "server") == 0
    assert not served.asked


async def test_a_certificate_with_another_name_is_refused(served: Server, client: Client, folder: Path) -> None:
    served.running.trust(front_proxy(config_map(folder / "front" / "ca.crt", '["front-proxy-client"]')))
    assert await refused(client, "front") == 401
    served.running.trust(front_proxy(config_map(folder / "front" / "ca.crt", "[]")))
    assert await refused(client, "front") == 200, "where no names are given any will do"


async def test_no_session_can_be_resumed(client: Client) -> None:
    context = client.context("front")
    _, writer = await asyncio.open_connection("127.0.0.1", client.port, ssl=context)
    shown = writer.get_extra_info("ssl_object")
    assert (shown.version(), shown.session_reused) == ("TLSv1.3", False)
    writer.close()
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # in which a server keeps sessions by itself
    with pytest.raises((OSError, EOFError)):
        await asyncio.open_connection("127.0.0.1", client.port, ssl=context)


async def test_a_user_may_be_in_many_groups(served: Server, client: Client) -> None:
    groups = tuple(f"oidc:/organisation/department/team-{number}" for number in range(500))
    assert (await client.ask(THING, groups=groups)).status == 200
    assert served.asked[0][0].groups == (*groups, "system:authenticated")


async def test_who_is_not_named_is_refused(served: Server, client: Client) -> None:
    assert (await client.ask(THING, user="")).status == 401
    request = f"GET {THING} HTTP/1.1\r\nHost: x\r\nX-Remote-User: ".encode() + b"j\xe4ne\r\n\r\n"
    assert b" 401 " in await client.raw(request), "a name that is no UTF-8 is not guessed"
    assert not served.asked


async def test_before_the_authority_is_known_nobody_is_believed(folder: Path) -> None:
    served = Server(folder)
    await served.running.listen("127.0.0.1", 0, "quota.visibility")
    try:
        client = Client(folder, served.running.port)
        assert await refused(client, "front") == 0
        assert (await client.ask(THING, shows="")).status == 401
    finally:
        await served.running.stop()


async def test_who_may_not_is_told_so_and_nothing_else(served: Server, client: Client) -> None:
    served.allowed = False
    answer = await client.ask(THING)
    found = msgspec.json.decode(answer.body)
    assert (answer.status, found["reason"]) == (403, "Forbidden")
    assert found["message"] == (
        'things.g.example "one" is forbidden: User "jane" cannot get resource "things" in API group "g.example" at the'
        " cluster scope"
    )
    answer = await client.ask("/apis")
    assert msgspec.json.decode(answer.body)["message"] == 'forbidden: User "jane" cannot get path "/apis"'


async def test_where_it_cannot_be_told_who_may_nothing_is_shown(served: Server, client: Client) -> None:
    served.unsure = True
    for path in (THING, "/apis"):
        answer = await client.ask(path)
        assert (answer.status, msgspec.json.decode(answer.body)["reason"]) == (503, "ServiceUnavailable")


async def test_who_has_to_wait_is_told_why_and_when_to_come_again(served: Server, client: Client) -> None:
    served.missing = "the log is not read"
    answer = await client.ask(THING)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert msgspec.json.decode(answer.body)["message"] == "the log is not read"
    assert (await client.ask("/apis")).status == 200, "the API is there all the same"


async def test_health_is_told_to_everybody(served: Server, client: Client) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await client.ask(path, shows="")
        assert (answer.status, answer.body) == (200, b"ok")
    served.missing = "the log is not read"
    assert (await client.ask("/readyz", shows="")).status == 503
    assert not served.asked


async def test_another_authority_counts_at_once_and_the_one_before_no_more(
    served: Server, client: Client, folder: Path
) -> None:
    async with client.session("front") as kept:
        assert (await client.ask(THING, session=kept)).status == 200
        served.running.trust(front_proxy(config_map(folder / "other" / "ca.crt")))
        with pytest.raises(aiohttp.ClientError):  # its connection is closed, and a new one is refused
            await client.ask(THING, session=kept)
    assert await refused(client, "other") == 200
    assert await refused(client, "front") == 0


async def test_both_authorities_count_while_both_are_named(served: Server, client: Client, folder: Path) -> None:
    both = folder / "both.crt"
    both.write_bytes((folder / "front" / "ca.crt").read_bytes() + (folder / "other" / "ca.crt").read_bytes())
    served.running.trust(front_proxy(config_map(both)))
    assert await refused(client, "front") == await refused(client, "other") == 200


async def test_what_is_written_beside_an_authority_may_be_in_any_language(
    served: Server, client: Client, folder: Path
) -> None:
    """A bundle has comments, and API servers do not mind them."""
    written = folder / "written.crt"
    written.write_text(f"# Türkçe\n{(folder / 'other' / 'ca.crt').read_text()}# é\n", encoding="utf-8")
    served.running.trust(front_proxy(config_map(written)))
    assert await refused(client, "other") == 200
    written.write_bytes(b"# T\xfcrk\xe7e\n" + (folder / "front" / "ca.crt").read_bytes())
    certificate = Certificate(str(folder / "served" / "server.crt"), str(folder / "served" / "server.key"))
    assert trusting(certificate, str(written)).common_name(None) is None


async def test_what_is_no_authority_leaves_the_one_before_in_force(
    served: Server, client: Client, folder: Path
) -> None:
    (folder / "none.crt").write_text("no certificate")
    with pytest.raises((ValueError, OSError)):
        served.running.trust(front_proxy(config_map(folder / "none.crt")))
    assert await refused(client, "front") == 200


async def test_a_renewed_certificate_is_served_and_clients_are_known_as_before(
    served: Server, client: Client, folder: Path
) -> None:
    for name in ("server.crt", "server.key"):
        shutil.copy(folder / "other" / name, folder / "served" / name)
    async with asyncio.timeout(PATIENCE):
        while await refused(client, "front") == 200:  # until the client no longer knows who serves
            await asyncio.sleep(0.05)
    shutil.copy(folder / "other" / "ca.crt", folder / "server" / "ca.crt")
    assert await refused(client, "front") == 200
    assert await refused(client, "") == 401
    assert await refused(client, "other") == 0


@pytest.mark.parametrize(
    ("method", "path", "accept", "code"),
    [
        ("GET", "/apis/", "", 200),
        ("POST", "/apis", "", 405),
        ("GET", "/nothing", "", 404),
        ("GET", "/api/v1/pods", "", 404),
        ("GET", THING, "application/json, */*", 200),
        ("GET", THING, "application/vnd.kubernetes.protobuf,application/json", 200),
        ("GET", THING, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 200),
        ("GET", THING, "application/json;as=Table;v=v1;g=meta.k8s.io", 406),
        ("GET", THING, "application/yaml", 406),
        ("GET", "/apis/g.example", DISCOVERY, 406),
        ("GET", "/apis", DISCOVERY.replace("v=v2", "v=v2beta1"), 406),
        ("GET", "/apis", DISCOVERY, 200),
    ],
)
async def test_media_types_and_methods(client: Client, method: str, path: str, accept: str, code: int) -> None:
    answer = await client.ask(path, method=method, **({"Accept": accept} if accept else {}))
    assert answer.status == code
    if accept == DISCOVERY and code == 200:
        assert answer.headers["Content-Type"] == DISCOVERY
        again = await client.ask(path, **{"Accept": accept, "If-None-Match": answer.headers["ETag"]})
        assert (again.status, again.body) == (304, b"")
