"""Who may see what waits, as the management cluster says it, and by which certificates its front proxy is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import msgspec
import pytest

from controlplane.app import visibility as app
from controlplane.app.service import Service
from controlplane.app.visibility import AccessReviews, FrontProxyReader, serving
from controlplane.clusters.protocol import ApiError, Unreachable
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.quota.admission.pending_workloads import PendingLine
from controlplane.kube import visibility
from controlplane.kube.access import SUBJECT_ACCESS_REVIEWS
from controlplane.kube.api_requests import attributes
from controlplane.kube.front_proxy import FrontProxy, UserInfo, access_review, front_proxy
from controlplane.kube.kinds import Json, Kind
from controlplane.kube.visibility_openapi import openapi_documents
from controlplane.settings.quota import VisibilitySettings
from controlplane.web import Certificate
from controlplane.web.aggregated import Unavailable
from tests.support.rows import each
from tests.support.waiting import PATIENCE
from tests.web.front_proxy import HEADERS, Client, config_map, make

BATCH = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/batch/pendingworkloads"
JANE = UserInfo(name="jane", uid="7", groups=("team",), extra=(("scopes", ("a", "b")),))


class Cluster:
    """A management cluster that answers reviews as `says` does, and has the front proxy's ConfigMap."""

    def __init__(self, says: Callable[[Json], Any], found: Json | Exception | None = None) -> None:
        self.says, self.found, self.reviews = says, found, list[Json]()

    async def create(self, kind: Kind, namespace: str, body: Json, *, field_manager: str = "") -> Json:
        assert (kind, namespace) == (SUBJECT_ACCESS_REVIEWS, "")
        self.reviews.append(body)
        answer = self.says(body["spec"])
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
        return {"status": answer}

    async def get(self, kind: Kind, namespace: str, name: str, timeout: float | None = None) -> Json:
        assert (kind.name, namespace, name) == ("configmaps", "kube-system", "extension-apiserver-authentication")
        if isinstance(self.found, Exception):
            raise self.found
        assert self.found is not None
        return self.found

    async def close(self) -> None:
        pass

    @property
    def port(self) -> ApiServer:
        return cast("ApiServer", self)


async def test_a_review_has_all_that_is_known_of_the_user_and_of_what_is_asked() -> None:
    cluster = Cluster(lambda spec: {"allowed": True})
    asks = AccessReviews(cluster.port)
    assert await asks(JANE, attributes("GET", BATCH.replace("clusterqueues", "namespaces/n/localqueues")))
    resource = {
        "namespace": "n",
        "verb": "get",
        "group": "visibility.kueue.x-k8s.io",
        "version": "v1beta2",
        "resource": "localqueues",
        "subresource": "pendingworkloads",
        "name": "batch",
    }
    user = {"user": "jane", "uid": "7", "groups": ["team"], "extra": {"scopes": ["a", "b"]}}
    assert cluster.reviews[0]["spec"] == {**user, "resourceAttributes": resource}
    assert await asks(JANE, attributes("GET", "/apis"))
    assert cluster.reviews[1]["spec"] == {**user, "nonResourceAttributes": {"path": "/apis", "verb": "get"}}


@pytest.mark.parametrize("answer", [{"allowed": False}, {"allowed": False, "denied": True, "reason": "no"}])
async def test_who_is_not_allowed_may_not(answer: Json) -> None:
    assert not await AccessReviews(Cluster(lambda spec: answer).port)(JANE, attributes("GET", BATCH))


@pytest.mark.parametrize(
    "answer",
    [
        ApiError(403, "Forbidden", "no"),
        ApiError(500, "InternalError", "broken"),
        Unreachable("gone"),
        {},
        {"allowed": "true"},
        None,
    ],
)
async def test_where_nobody_says_it_nobody_may_and_it_is_asked_again(
    answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_PATIENCE", 0.05)
    cluster = Cluster(lambda spec: answer)
    asks = AccessReviews(cluster.port)
    for _ in range(2):
        with pytest.raises(Unavailable, match="does not say whether you may see that"):
            await asks(JANE, attributes("GET", BATCH))
    assert len(cluster.reviews) == 2, "no answer is kept"


async def test_an_answer_holds_for_a_while_for_that_user_and_that_alone() -> None:
    now, allowed = [0.0], [True]
    cluster = Cluster(lambda spec: {"allowed": allowed[0]})
    asks = AccessReviews(cluster.port, lambda: now[0])
    asked = attributes("GET", BATCH)
    assert await asks(JANE, asked)
    allowed[0] = False
    assert await asks(JANE, asked)
    others = (
        msgspec.structs.replace(JANE, groups=()),
        msgspec.structs.replace(JANE, extra=()),
        msgspec.structs.replace(JANE, uid="8"),
        msgspec.structs.replace(JANE, name="joe"),
    )
    for other in others:
        assert not await asks(other, asked)
    assert not await asks(JANE, attributes("GET", BATCH.replace("batch", "other")))
    now[0] = 11.0
    assert not await asks(JANE, asked)


async def test_who_may_do_everything_is_not_asked_about() -> None:
    cluster = Cluster(lambda spec: {"allowed": False})
    user = msgspec.structs.replace(JANE, groups=("system:masters",))
    assert await AccessReviews(cluster.port)(user, attributes("GET", BATCH))
    assert not cluster.reviews


# --- the front proxy
# ---------------------------------------------------------------------------------------------------

DATA = {**HEADERS, "requestheader-client-ca-file": "PEM", "requestheader-allowed-names": '["front", "other"]'}


def test_the_front_proxy_is_as_the_config_map_says() -> None:
    found = front_proxy({"data": DATA})
    assert found.authority == "PEM"
    assert found.admits("front")
    assert not found.admits("")
    assert not found.admits("client")
    assert front_proxy({"data": {**DATA, "requestheader-allowed-names": ""}}).admits("anybody")


@each(
    "data",
    [
        {},
        None,
        {**DATA, "requestheader-client-ca-file": " "},
        {**DATA, "requestheader-allowed-names": "front"},
        {**DATA, "requestheader-allowed-names": '{"a": 1}'},
        {**DATA, "requestheader-username-headers": "[]"},
    ],
)
def test_a_config_map_that_cannot_be_used_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="requestheader-"):
        front_proxy({"data": data})


@each(
    ("headers", "user"),
    [
        ([], None),
        ([("X-Remote-User", "")], None),
        ([("X-Other-User", "jane")], None),
        ([("x-remote-user", "jane")], UserInfo(name="jane", groups=("system:authenticated",))),
        (
            [("X-Remote-User", "jane"), ("X-Remote-Group", "b"), ("X-Remote-Group", ""), ("X-Remote-Group", "a")],
            UserInfo(name="jane", groups=("b", "a", "system:authenticated")),
        ),
        (
            [("X-Remote-User", "system:anonymous"), ("X-Remote-Group", "system:unauthenticated")],
            UserInfo(name="system:anonymous", groups=("system:unauthenticated",)),
        ),
        ([("X-Remote-User", "system:anonymous")], UserInfo(name="system:anonymous")),
        (
            [("X-Remote-User", "j"), ("X-Remote-Uid", "7"), ("X-Remote-Extra-Acme.com%2Fproject", "p")],
            UserInfo(name="j", uid="7", groups=("system:authenticated",), extra=(("acme.com/project", ("p",)),)),
        ),
    ],
)
def test_who_asks_is_as_the_headers_say(headers: list[tuple[str, str]], user: UserInfo | None) -> None:
    assert front_proxy({"data": DATA}).user(headers) == user


def test_a_review_leaves_out_what_is_not_known() -> None:
    review = access_review(UserInfo(name="jane"), {"resourceAttributes": {}})
    assert review["spec"] == {"user": "jane", "groups": [], "resourceAttributes": {}}


async def test_the_config_map_is_read_again_and_what_is_none_leaves_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "READ_AGAIN", 0.01)
    heard: list[FrontProxy] = []
    cluster = Cluster(lambda spec: None, Unreachable("not yet"))
    reading = asyncio.create_task(FrontProxyReader(cluster.port, heard.append).run())
    async with asyncio.timeout(PATIENCE):
        for found, authority in (({"data": DATA}, "PEM"), ({"data": {}}, "PEM"), (Unreachable("x"), "PEM")):
            cluster.found = found
            await asyncio.sleep(0.1)
            assert heard[-1].authority == authority
        cluster.found = {"data": {**DATA, "requestheader-client-ca-file": "ANOTHER"}}
        while heard[-1].authority != "ANOTHER":
            await asyncio.sleep(0.01)
    reading.cancel()


async def test_it_is_served_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "READ_AGAIN", 0.01)
    make(tmp_path)
    cluster = Cluster(lambda spec: {"allowed": spec["user"] == "jane"}, Unreachable("not yet"))
    service = cast("Service", SimpleNamespace(admission=None, current=False))
    certificate = Certificate(str(tmp_path / "server" / "server.crt"), str(tmp_path / "server" / "server.key"))

    async def open_server() -> ApiServer:
        return cluster.port

    chosen = VisibilitySettings(address="127.0.0.1", port=0)
    async with serving(chosen, certificate, service, open_server) as served:
        client = Client(tmp_path, served.port)
        assert (await client.ask("/readyz", shows="")).body == b"this replica has not read the log to its end"
        cluster.found = config_map(tmp_path / "front" / "ca.crt")
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    answer = await client.ask(BATCH)
                    break
                except (OSError, aiohttp.ClientError):  # the front proxy is not known yet
                    await asyncio.sleep(0.05)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert (await client.ask(BATCH, user="joe")).status == 403
        for path in (*visibility.documents(), *openapi_documents()):
            assert (await client.ask(path)).status == 200
            assert (await client.ask(path, user="joe")).status == 403


async def test_credentials_that_were_written_anew_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "READ_AGAIN", 0.01)
    make(tmp_path)
    before = Cluster(lambda spec: ApiError(401, "Unauthorized", "no"), ApiError(401, "Unauthorized", "no"))
    after = Cluster(lambda spec: {"allowed": True}, config_map(tmp_path / "front" / "ca.crt"))
    opened = iter([before, after])
    service = cast("Service", SimpleNamespace(admission=None, current=False))
    certificate = Certificate(str(tmp_path / "server" / "server.crt"), str(tmp_path / "server" / "server.key"))

    async def open_server() -> ApiServer:
        return next(opened).port

    chosen = VisibilitySettings(address="127.0.0.1", port=0)
    async with serving(chosen, certificate, service, open_server) as served, asyncio.timeout(PATIENCE):
        client = Client(tmp_path, served.port)
        while True:
            try:
                answer = await client.ask("/apis")
                break
            except (OSError, aiohttp.ClientError):  # the front proxy is not known yet
                await asyncio.sleep(0.05)
        assert answer.status == 200


# --- what it says of itself
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63 - 1000])
def test_behind_the_last_position_there_is_nobody(offset: int) -> None:
    line = PendingLine([], lambda info: (0.0, True, (0, 0, 0, "")), {})
    asked = visibility.limits({"offset": str(offset), "limit": "1000"})
    assert line.of_cluster_queue(*asked) == line.of_local_queue("ns/queue", *asked) == []


def test_discovery_is_kueues() -> None:
    served = visibility.documents()
    assert list(served) == ["/apis", *(f"/apis/visibility.kueue.x-k8s.io{end}" for end in ("", "/v1beta2", "/v1beta1"))]
    group = served["/apis/visibility.kueue.x-k8s.io"]
    assert group["preferredVersion"] == {"groupVersion": "visibility.kueue.x-k8s.io/v1beta2", "version": "v1beta2"}
    assert served["/apis/visibility.kueue.x-k8s.io/v1beta1"]["resources"] == [
        {
            "name": name,
            "singularName": singular,
            "namespaced": spaced,
            "kind": "PendingWorkloadsSummary",
            "verbs": verbs,
        }
        for name, singular, spaced, verbs in (
            ("clusterqueues", "clusterqueue", False, []),
            ("clusterqueues/pendingworkloads", "", False, ["get"]),
            ("localqueues", "localqueue", True, []),
            ("localqueues/pendingworkloads", "", True, ["get"]),
        )
    ]
    versions = visibility.aggregated_discovery()["items"][0]["versions"]
    assert [one["version"] for one in versions] == ["v1beta2", "v1beta1"]
    assert [one["scope"] for one in versions[0]["resources"]] == ["Cluster", "Namespaced"]


def test_openapi_references_lead_somewhere() -> None:
    documents = openapi_documents()
    for path, document in documents.items():
        known = document.get("definitions") or document.get("components", {}).get("schemas") or {}
        text = msgspec.json.encode(document).decode()
        for piece in text.split('"$ref":"')[1:]:
            assert piece.partition('"')[0].rpartition("/")[2] in known, path
    for place in documents["/openapi/v3"]["paths"].values():
        assert place["serverRelativeURL"].partition("?")[0] in documents
