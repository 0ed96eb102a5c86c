"""`candidates invite` against two API servers: what it makes, in which order, what it says, and to whom it gives a
token."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result

from controlplane.cli import cli
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.controllers.candidates.invitation import ROLE, Invitation
from controlplane.kube.kinds import Json
from tests.clusters import pki

TARGET_MADE = ["CandidateSource", "RoleBinding", "ServiceAccount"]
SOURCE_MADE = ["CandidateTarget", "MultiKueueCluster", "Secret"]
_ROLE = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ROLE}"


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
    return web.json_response(body, status=code)


class ApiServerDouble:
    """Objects by path. `refuses`: paths that are forbidden; `token`: what a TokenRequest is answered with."""

    def __init__(self, *there: str) -> None:
        self.objects: dict[str, Json] = {path: {"metadata": {"name": path.rpartition("/")[2]}} for path in there}
        self.refuses: set[str] = set()
        self.token: Json = {"status": {"token": "the-token"}}
        self.asked: list[tuple[str, str]] = []
        self.seconds: list[int] = []

    @property
    def kinds(self) -> list[str]:
        return sorted(one["kind"] for one in self.objects.values() if "kind" in one)

    async def answer(self, request: web.Request) -> web.Response:
        method, path = request.method, request.path
        self.asked.append((method, path))
        body: Json = json.loads(await request.text() or "{}")
        path = f"{path}/{body['metadata']['name']}" if method == "POST" and not path.endswith("/token") else path
        if path in self.refuses:
            return _status(403, "Forbidden", "you may not")
        if path.endswith("/token"):
            self.seconds.append(body["spec"]["expirationSeconds"])
            return web.json_response(self.token, status=201)
        if method == "POST":
            self.objects[path] = body
            return web.json_response(body, status=201)
        if path not in self.objects:
            return _status(404, "NotFound", "not found")
        if method == "PATCH":
            self.objects[path] |= body
        return web.json_response(self.objects[path])


class Clusters:
    """A source `campus` and a target `cloud`, and the command for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.target = ApiServerDouble("/api/v1/namespaces/physics"), ApiServerDouble(_ROLE)
        self.kubeconfig = folder / "kubeconfig"
        self._urls: dict[str, str] = {}
        self._runners: list[web.AppRunner] = []

    async def start(self) -> None:
        pki.make(self.folder, "IP:127.0.0.1")
        serves = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serves.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        for name, server in (("campus", self.source), ("cloud", self.target)):
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", server.answer)
            runner = web.AppRunner(app)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serves).start()
            self._runners.append(runner)
            self._urls[name] = f"https://127.0.0.1:{runner.addresses[0][1]}"
        self.write()

    def write(self, *, authority: bool = True, **urls: str) -> None:
        """Write the kubeconfig."""
        named = {**self._urls, **urls}
        trusted = base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()
        ca = {"certificate-authority-data": trusted} if authority else {}
        config = {
            "clusters": [{"name": name, "cluster": {"server": url, **ca}} for name, url in named.items()],
            "users": [{"name": "me", "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in named],
        }
        self.kubeconfig.write_text(yaml.safe_dump(config))

    async def invite(self, *words: str) -> Result:
        """Run the command as a process would, beside the servers."""
        given = ["candidates", "invite", "--source", "campus", "--target", "cloud", "-n", "physics"]
        given += ["--kubeconfig", str(self.kubeconfig), *words]
        return await asyncio.to_thread(lambda: CliRunner().invoke(cli, given, standalone_mode=False))

    async def stop(self) -> None:
        for runner in self._runners:
            await runner.cleanup()


@pytest.fixture
async def clusters(tmp_path: Path) -> AsyncIterator[Clusters]:
    made = Clusters(tmp_path)
    await made.start()
    yield made
    await made.stop()


def written(server: ApiServerDouble) -> list[str]:
    return [path for method, path in server.asked if method != "GET"]


def failed(done: Result) -> tuple[str, Any]:
    assert done.exception is not None, done.output
    error = str(done.exception)
    assert "\n" not in error
    return error, getattr(done.exception, "code", None)


async def test_it_makes_both_sides_and_says_what_became_of_each(clusters: Clusters) -> None:
    done = await clusters.invite("--duration", "48h")
    assert done.exception is None, done.output
    assert [kind for kind in clusters.target.kinds if kind != "Namespace"] == TARGET_MADE
    assert clusters.source.kinds == SOURCE_MADE
    assert clusters.target.seconds == [48 * 3600]
    lines = [line.split() for line in done.output.splitlines()]
    assert lines[0] == ["CLUSTER", "KIND", "NAMESPACE", "NAME", "RESULT"]
    assert {line[0] for line in lines[1:-1]} == {"cloud", "campus"}
    assert ["campus", "Namespace", "physics", "unchanged"] in lines
    assert done.output.splitlines()[-1] == (
        "Name physics in candidates.namespaces of the service of campus, and restart it."
    )
    (secret,) = [one for one in clusters.source.objects.values() if one.get("kind") == "Secret"]
    config = parse_kubeconfig(base64.b64decode(secret["data"]["kubeconfig"]))
    assert config.token == "the-token"
    assert "the-token" not in done.output


async def test_what_it_says_can_be_read_by_programs(clusters: Clusters) -> None:
    done = await clusters.invite("-o", "json")
    rows = json.loads(done.output)
    assert {row["kind"] for row in rows} >= {*TARGET_MADE, *SOURCE_MADE}
    assert {row["result"] for row in rows} <= {"created", "unchanged"}


async def test_no_token_is_asked_of_an_account_that_somebody_else_made(clusters: Clusters) -> None:
    """It may have other rights than a source is to have, and its token would give them away."""
    assert (await clusters.invite()).exception is None
    (account,) = [path for path in clusters.target.objects if "/serviceaccounts/" in path]
    clusters.target.objects[account]["metadata"]["labels"] = {}
    clusters.target.objects[account]["automountServiceAccountToken"] = True
    others = [
        path for path, one in clusters.target.objects.items() if one.get("kind") in ("RoleBinding", "CandidateSource")
    ]
    for path in others:
        clusters.target.objects[path]["metadata"]["labels"] = {}
    for path in others:
        clusters.target.objects[path] |= {"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "spec": {}}
    clusters.target.asked.clear()
    clusters.source.asked.clear()
    done = await clusters.invite()
    said, code = failed(done)
    assert (said.startswith("an object of that name was there before and says something else"), code) == (True, 1)
    assert "left as it is: it was not made by an invitation" in done.output
    assert not [path for path in written(clusters.target) if path.endswith("/token")]
    assert written(clusters.source) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("role", f"cloud refuses ClusterRole {ROLE}: 403 Forbidden: you may not"),
        ("missing", f"cloud has no ClusterRole {ROLE}: kubectl --context cloud apply -k deploy/crds"),
        ("token", "cloud refuses a token of ServiceAccount campus: 403 Forbidden: you may not"),
        ("nothing", "cloud answered a request for a token without one"),
    ],
)
async def test_what_a_target_does_not_let_us_do_is_one_sentence(clusters: Clusters, wrong: str, said: str) -> None:
    accounts = Invitation(source="campus", target="cloud", namespace="physics").accounts
    match wrong:
        case "role":
            clusters.target.refuses.add(_ROLE)
        case "missing":
            del clusters.target.objects[_ROLE]
        case "token":
            clusters.target.refuses.add(f"/api/v1/namespaces/{accounts}/serviceaccounts/campus/token")
        case _:
            clusters.target.token = {"status": {}}
    error, code = failed(await clusters.invite())
    assert (error.startswith(said), code) == (True, 6), error
    assert written(clusters.source) == [], "the source gets nothing of it"
    if wrong in ("role", "missing"):
        assert written(clusters.target) == [], "nothing is made before"


async def test_a_target_without_a_certificate_authority_is_refused_before_anything_is_made(clusters: Clusters) -> None:
    clusters.write(authority=False)
    said, code = failed(await clusters.invite())
    assert said.startswith("the context cloud names no certificate authority, and a MultiKueueCluster needs one")
    assert code == 3
    assert clusters.target.asked == clusters.source.asked == []


async def test_a_cluster_that_is_away_is_one_sentence(clusters: Clusters) -> None:
    clusters.write(cloud="https://127.0.0.1:1")
    said, _ = failed(await clusters.invite())
    assert "127.0.0.1" in said or "cloud" in said
