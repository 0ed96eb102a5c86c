"""The HTTP client: what goes over the wire, what comes of every sort of answer, and that the token shows nowhere."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import logging
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controlplane.clusters.kubeconfig import ClientConfig, KubeconfigError, parse_kubeconfig
from controlplane.clusters.protocol import ApiError, Unreachable
from controlplane.clusters.streams import ApiServer, ListQuery, WatchQuery
from controlplane.clusters.tls import tls_context
from controlplane.clusters.transport import Timeouts, Transport
from controlplane.kube.kinds import APPLY_PATCH, JOBS, MERGE_PATCH, WORKLOADS, ObjectRef, Request
from tests.clusters import pki
from tests.clusters.miniapi import CUT, END, TOKEN, MiniApi, bookmark, config, line, obj, serving, status, until


@pytest.fixture
async def transport(api: MiniApi) -> AsyncIterator[Transport]:
    found = Transport("worker", config(api), identity="leader-1", timeouts=Timeouts(connect=2, request=2, list_page=2))
    as_protocol: ApiServer = found
    yield found
    await as_protocol.close()


async def watched(transport: Transport, idle: float = 5.0) -> list[bytes]:
    lines: list[bytes] = []
    async with aclosing(transport.watch(WatchQuery(WORKLOADS, "7", timeout_seconds=9, idle_timeout=idle))) as stream:
        async for found in stream:
            lines += found
    return lines


async def test_verbs_on_the_wire(api: MiniApi, transport: Transport) -> None:
    api.next_answers = [web.json_response({"ok": n}) for n in range(5)]
    assert await transport.get(JOBS, "ns", "a") == {"ok": 0}
    await transport.create(JOBS, "ns", {"x": 1}, field_manager="m")
    await transport.write(Request("patch", ObjectRef(JOBS, "ns", "a"), {"x": 2}, subresource="status"))
    await transport.write(
        Request("patch", ObjectRef(JOBS, "ns", "a"), {"x": 3}, content_type=APPLY_PATCH, field_manager="m")
    )
    await transport.write(
        Request("delete", ObjectRef(JOBS, "ns", "a"), uid="u", resource_version="5", propagation="Foreground")
    )
    get, create, patch, apply, delete = api.requests
    assert (get.method, get.path) == ("GET", "/apis/batch/v1/namespaces/ns/jobs/a")
    assert (create.method, create.path, create.query) == (
        "POST",
        "/apis/batch/v1/namespaces/ns/jobs",
        {"fieldManager": "m"},
    )
    assert (patch.path, patch.query) == ("/apis/batch/v1/namespaces/ns/jobs/a/status", {})
    assert apply.query == {"fieldManager": "m", "force": "true"}
    types = [seen.headers.get("Content-Type") for seen in api.requests]
    assert types == [None, "application/json", MERGE_PATCH, APPLY_PATCH, "application/json"]
    assert delete.body["preconditions"] == {"uid": "u", "resourceVersion": "5"}
    assert delete.body["propagationPolicy"] == "Foreground"
    assert create.headers["User-Agent"].startswith("controlplane/")
    assert create.headers["User-Agent"].endswith(" (leader-1)")
    assert create.headers["Authorization"] == f"Bearer {TOKEN}"


NO_NAMES = ["../secrets/token", "a/b", "..", ".", "%2e%2e", "a%2fb", "a\nb", "x" * 254]


@pytest.mark.parametrize("name", NO_NAMES)
async def test_what_cannot_be_a_name_leads_nowhere_else(api: MiniApi, transport: Transport, name: str) -> None:
    """Tenants write names into owner references and into what their runs refer to: an object of such a name is not
    there."""
    for place in (("ns", name), (name, "a")):
        with pytest.raises(ApiError) as refused:
            await transport.get(JOBS, *place)
        assert (refused.value.status, refused.value.reason, refused.value.name) == (404, "NotFound", place[1])
        for verb in ("patch", "delete"):
            with pytest.raises(ApiError) as refused:
                await transport.write(Request(verb, ObjectRef(JOBS, *place), {}, uid="u"))
            assert refused.value.status == 404
    for version in (f"apps/{name}", f"{name}/v1", "a/b/v1"):
        with pytest.raises(ApiError) as refused:
            await transport.resources(version)
        assert refused.value.status == 404
    assert api.requests == []


@pytest.mark.parametrize("name", ["a?watch=true", "a#b", "a b", "system:a@b", "ü"])
async def test_a_name_stays_a_name(api: MiniApi, transport: Transport, name: str) -> None:
    api.next_answers = [web.json_response({})]
    await transport.get(JOBS, "ns", name)
    (seen,) = api.requests
    assert (seen.path, seen.query) == (f"/apis/batch/v1/namespaces/ns/jobs/{name}", {})


async def test_list_pages(api: MiniApi, transport: Transport) -> None:
    api.objects["jobs"] = [obj(name, 3) for name in "abc"]
    page = await transport.list(ListQuery(JOBS, label_selector="a=b", field_selector="c=d", limit=2))
    assert (len(page.items), page.resource_version, page.continue_token) == (2, "10", "2")
    rest = await transport.list(ListQuery(JOBS, limit=2, continue_token=page.continue_token))
    assert (len(rest.items), rest.continue_token) == (1, "")
    assert api.requests[0].query == {"labelSelector": "a=b", "fieldSelector": "c=d", "limit": "2"}


async def test_watch_query_and_ordinary_end(api: MiniApi, transport: Transport) -> None:
    for piece in (line("ADDED", obj("a", 8)) + bookmark(9)[:5], bookmark(9)[5:], END):
        api.stream().put_nowait(piece)
    assert [json.loads(found)["type"] for found in await watched(transport)] == ["ADDED", "BOOKMARK"]
    query = api.watches()[0].query
    assert query == {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "9", "resourceVersion": "7"}


async def test_a_line_of_five_megabytes(api: MiniApi, transport: Transport) -> None:
    big = line("ADDED", obj("a", 8, annotations={"a": "x" * 5_000_000}))
    for piece in (big + line("MODIFIED", obj("a", 9)), END):
        api.stream().put_nowait(piece)
    lines = await watched(transport)
    assert [len(found) for found in lines] == [len(big) - 1, len(line("MODIFIED", obj("a", 9))) - 1]


async def test_watch_that_is_cut_or_silent_is_unreachable(api: MiniApi, transport: Transport) -> None:
    api.stream().put_nowait(CUT)
    with pytest.raises(Unreachable):
        await watched(transport)
    with pytest.raises(Unreachable):
        await watched(transport, idle=0.2)
    await until(lambda: api.open_watches == 0)


async def test_watch_refused(api: MiniApi, transport: Transport) -> None:
    api.refuse["watch", "workloads"] = lambda: status(410, "Expired", "too old")
    with pytest.raises(ApiError) as caught:
        await watched(transport)
    assert (caught.value.status, caught.value.reason, caught.value.message) == (410, "Expired", "too old")
    api.refuse["watch", "workloads"] = lambda: web.Response(text="<html>", content_type="text/html")
    with pytest.raises(Unreachable, match="text/html"):
        await watched(transport)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda: status(409, "Conflict", "changed"), (409, "Conflict", "changed", None)),
        (lambda: status(429, "TooManyRequests", "slow", retry=7), (429, "TooManyRequests", "slow", 7.0)),
        (lambda: web.Response(status=502, text="bad\n gateway"), (502, "", "bad gateway", None)),
        (lambda: web.Response(status=302, headers={"Location": "/elsewhere"}), (302, "", "302: Found", None)),
        (
            lambda: web.Response(status=503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
            (503, "", "HTTP 503", None),
        ),
        (
            lambda: web.json_response(
                {"kind": "Status", "reason": "x", "details": {"retryAfterSeconds": 3}}, status=500
            ),
            (500, "x", "", 3.0),
        ),
    ],
)
async def test_answers_that_say_no(api: MiniApi, transport: Transport, answer: Any, expected: Any) -> None:
    api.next_answers = [answer()]
    with pytest.raises(ApiError) as caught:
        await transport.get(JOBS, "ns", "a")
    error = caught.value
    message = error.message or ""
    assert (error.status, error.reason, error.retry_after) == (expected[0], expected[1], expected[3])
    assert message in (expected[2], "HTTP 302")
    assert len(api.requests) == 1


async def test_answers_that_are_none(api: MiniApi, transport: Transport) -> None:
    api.next_answers = [web.Response(text="<html>"), web.json_response([1]), web.json_response({"items": 7})]
    for _ in range(2):
        with pytest.raises(Unreachable, match="not a JSON object"):
            await transport.get(JOBS, "ns", "a")
    with pytest.raises(Unreachable, match="not a list"):
        await transport.list(ListQuery(JOBS))


async def test_time_out_and_refused_connection(api: MiniApi, transport: Transport) -> None:
    api.hang = True
    with pytest.raises(Unreachable, match="Timeout"):
        await transport.version(0.2)
    closed = Transport("worker", ClientConfig(server="http://127.0.0.1:1"))
    with pytest.raises(Unreachable, match="Cannot connect"):
        await closed.version(1.0)
    await closed.close()


async def test_after_close_and_during_close_there_is_no_answer(api: MiniApi, transport: Transport) -> None:
    task = asyncio.create_task(watched(transport, idle=60))
    await until(lambda: api.open_watches == 1)
    await transport.close()
    with pytest.raises(Unreachable):
        await task
    with pytest.raises(Unreachable, match="closed"):
        await transport.version(1.0)


async def test_credentials_do_not_go_to_another_machine_in_the_clear(api: MiniApi) -> None:
    found = Transport("worker", ClientConfig(server="http://192.0.2.1:80", token=TOKEN))
    with pytest.raises(Unreachable, match="plain http"):
        await found.version(1.0)
    await found.close()


async def test_the_token_shows_nowhere(api: MiniApi, transport: Transport, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts = [repr(transport), repr(config(api)), str(config(api))]

    async def failing(found: Transport) -> None:
        with pytest.raises((ApiError, Unreachable)) as caught:
            await found.get(JOBS, "ns", "a")
        error: BaseException | None = caught.value
        while error is not None:
            texts.extend((str(error), repr(error)))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

    for answer in (status(401, "Unauthorized"), status(500), web.Response(text="x")):
        api.next_answers = [answer]
        await failing(transport)
    bad = Transport("worker", ClientConfig(server=api.url, token=TOKEN + "\r\nX: y"))
    await failing(bad)
    proxied = Transport("worker", ClientConfig(server=api.url, token=TOKEN, proxy_url=f"http://me:{TOKEN}@127.0.0.1:1"))
    await failing(proxied)
    odd = Transport("worker", ClientConfig(server=f"ftp://{TOKEN}", token=""))
    for found in (bad, proxied, odd):
        await found.close()
    assert not any(TOKEN in text for text in [*texts, caplog.text])


async def test_tls_with_client_certificate_and_server_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pki.make(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    async with serving(MiniApi(), made.server_context) as api:
        good = ClientConfig(
            server=api.url,
            token=TOKEN,
            ca_data=made.ca,
            client_certificate_data=made.client_certificate,
            client_key_data=made.client_key,
            tls_server_name="worker.example",
        )
        for found, error in [
            (good, ""),
            (dataclasses.replace(good, ca_data=f"# Türkçe\n{made.ca.decode()}".encode()), ""),
            (dataclasses.replace(good, ca_data=b"# T\xfcrk\xe7e\n" + made.ca), ""),
            (dataclasses.replace(good, tls_server_name=""), r"is not trusted \(IP address mismatch"),
            (dataclasses.replace(good, ca_data=b""), r"is not trusted \(.*certificate.*certificate-authority-data"),
            (dataclasses.replace(good, client_certificate_data=b"", client_key_data=b""), "worker: "),
        ]:
            transport = Transport("worker", found)
            if error:
                with pytest.raises(Unreachable, match=error):
                    await transport.version(5.0)
            else:
                assert await transport.version(5.0) == {"gitVersion": "v1.34.2"}
            await transport.close()
    assert list(temporary.iterdir()) == []


def test_tls_without_memory_files_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pki.make(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.delattr("os.memfd_create")
    tls_context(
        ClientConfig("https://x", client_certificate_data=made.client_certificate, client_key_data=made.client_key)
    )
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("fields", "err"),
    [
        ({"ca_data": b"no pem"}, "certificate-authority-data holds no usable PEM certificate"),
        ({"ca_data": b"\xff\xfe"}, "certificate-authority-data holds no usable PEM certificate"),
        ({"client_certificate_data": b"x"}, "client-certificate-data and client-key-data must be given together"),
        (
            {"client_certificate_data": b"x", "client_key_data": b"y"},
            "client-certificate-data and client-key-data are no usable PEM pair",
        ),
    ],
)
def test_unusable_certificates_are_a_bad_kubeconfig(fields: dict[str, bytes], err: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        Transport("worker", ClientConfig("https://x", **fields))  # type: ignore[arg-type]
    assert (caught.value.reason, caught.value.message) == ("BadKubeConfig", f"load client config failed: {err}")


def test_an_encrypted_key_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    made = pki.make(tmp_path)
    pki._openssl(tmp_path, "ec", "-in", "client.key", "-aes256", "-passout", "pass:x", "-out", "locked.key")
    locked = (tmp_path / "locked.key").read_bytes()
    with pytest.raises(KubeconfigError, match="no usable PEM pair"):
        tls_context(ClientConfig("https://x", client_certificate_data=made.client_certificate, client_key_data=locked))


async def test_a_whole_kubeconfig(tmp_path: Path) -> None:
    made = pki.make(tmp_path)

    def b64(data: bytes) -> str:
        return base64.b64encode(data).decode()

    async with serving(MiniApi(), made.server_context) as api:
        cluster = {"server": api.url, "certificate-authority-data": b64(made.ca), "tls-server-name": "worker.example"}
        keys = {"client-certificate-data": b64(made.client_certificate), "client-key-data": b64(made.client_key)}
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": cluster}],
            "users": [{"name": "x", "user": {"token": TOKEN} | keys}],
        }
        transport = Transport("worker", parse_kubeconfig(json.dumps(document).encode()))
        assert (await transport.version(5.0))["gitVersion"] == "v1.34.2"
        await transport.close()


async def test_a_silent_connection_is_probed(api: MiniApi, transport: Transport) -> None:
    """Without a probe nobody learns that the other end of a watch is gone: a firewall dropped it, or it is off."""
    async with aclosing(transport.watch(WatchQuery(WORKLOADS, "7", timeout_seconds=9, idle_timeout=5.0))) as stream:
        api.stream().put_nowait(bookmark(8))
        await anext(stream)
        (response,) = transport._open
        assert response.connection is not None
        assert response.connection.transport is not None
        used = response.connection.transport.get_extra_info("socket")
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert [used.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [30, 5, 3]
