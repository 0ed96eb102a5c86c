"""An API server that says what cannot be read: it concerns that object, that kind or that cluster, and nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from controlplane.clusters import response_body
from controlplane.clusters.connection_reports import Connected, ConnectFailed, Reached
from controlplane.clusters.lease import ClusterLease, LeaseHolder
from controlplane.clusters.protocol import ApiError, Change, ClusterError, Off, UnreadableResponse
from controlplane.clusters.sources import SecretSource
from controlplane.clusters.transport import Transport
from controlplane.controllers.connectivity.state import Connection
from controlplane.kube.kinds import JOBS, LEASES, WORKLOADS, ObjectRef
from controlplane.runtime.bound import check_cluster
from tests.clusters.clocks import ManualClock
from tests.clusters.fleet import Fleet, fleet
from tests.clusters.miniapi import MiniApi, config, kubeconfig, line, obj, serving, status, until

DEEP = b'{"a":' * 2000 + b"{}" + b"}" * 2000
MANY = "9" * 5000


def answer(body: bytes, **headers: str) -> Callable[[], web.Response]:
    return lambda: web.Response(body=body, content_type="application/json", headers=headers)


def page(version: Any = "10", items: Any = (), **metadata: Any) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": version, **metadata}, "items": items}).encode()


@asynccontextmanager
async def good_and_bad(bad: MiniApi) -> AsyncIterator[tuple[Fleet, MiniApi]]:
    """Two clusters, of which one is good; at the end the good one still shows what changes, and nothing has failed."""
    good = MiniApi(incarnation="inc-good")
    async with serving(good), serving(bad), fleet() as found:
        found.secrets = {"good": kubeconfig(good.url), "bad": kubeconfig(bad.url)}
        running = asyncio.create_task(found.connections.run())
        for name in ("good", "bad"):
            found.connections.set(name, SecretSource(name))
        await until(lambda: ("good", "Connected") in [(name, type(fact).__name__) for name, fact in found.log.facts])
        yield found, bad
        good.stream().put_nowait(line("ADDED", obj("later", 50)))
        await until(lambda: "added later@50" in found.log.seen())
        assert not running.done(), running
        running.cancel()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>login</html>", id="no json"),
        pytest.param(b'{"metadata":{"resourceVersion":"1"},"items":[' + DEEP + b"]}", id="nested 2000 deep"),
        pytest.param(page(MANY), id="a version of 5000 digits"),
        pytest.param(page(7), id="a version that is a number"),
        pytest.param(page("10", {"a": 1}), id="items that are no list"),
        pytest.param(page("10", **{"continue": {"a": 1}}), id="a token that is no text"),
        pytest.param(b"[]", id="a list of nothing"),
    ],
)
async def test_a_list_that_cannot_be_read_is_that_kinds_trouble(body: bytes) -> None:
    bad = MiniApi()
    bad.refuse["list", "jobs"] = answer(body)
    async with good_and_bad(bad) as (found, _):
        await until(lambda: found.log.of(Off))
        (off, *_) = found.log.of(Off)
        assert (off.kind, off.reason) == (JOBS, "Unreadable")
        assert off.message
        await until(lambda: len(found.log.of(Connected)) == 2)
        del bad.refuse["list", "jobs"]
        await until(lambda: found.log.seen().count("synced") == 4)


@pytest.mark.parametrize(
    ("change", "recorded"),
    [
        pytest.param({"resourceVersion": MANY}, "unreadable", id="a version of 5000 digits"),
        pytest.param({"resourceVersion": "²"}, "read", id="a version that is a digit and no number"),
        pytest.param({"resourceVersion": "12345678901234567890123"}, "read", id="a version beyond 64 bits"),
        pytest.param({"namespace": ["ns"]}, "poison", id="a namespace that is a list"),
        pytest.param({"name": "a/../b"}, "poison", id="a name that is a path"),
        pytest.param({"uid": {"a": 1}}, "poison", id="a uid that is an object"),
        pytest.param({"labels": [1]}, "read", id="labels that are a list"),
        pytest.param({"annotations": {"a": "\0"}}, "unreadable", id="a text with U+0000"),
    ],
)
async def test_an_object_that_cannot_be_read_is_its_own_trouble(change: dict[str, Any], recorded: str) -> None:
    async with good_and_bad(MiniApi()) as (found, bad):
        await until(lambda: bad.open_watches == 2)
        spoiled = obj("odd", 30)
        spoiled["metadata"] |= change
        for item in (spoiled, obj("next", 31)):
            bad.stream().put_nowait(line("ADDED", item))
        await until(lambda: "added next@31" in found.log.seen())
        odd = [delta for delta in found.log.of(Change) if delta.object["metadata"]["name"] == "odd"]
        assert [bool(delta.unreadable) for delta in odd] == {"poison": [], "read": [False], "unreadable": [True]}[
            recorded
        ]


async def test_a_status_of_a_thousand_levels_is_its_own_trouble() -> None:
    """As it comes by in a watch, and as it is listed where only its kind's own limit is exceeded."""
    async with good_and_bad(MiniApi()) as (found, bad):
        await until(lambda: bad.open_watches == 2)
        head = b'{"type":"ADDED","object":{"metadata":{"name":"odd","uid":"o","resourceVersion":"30"},"status":'
        for depth in (1005, 300, 120):
            bad.stream().put_nowait(head + b'{"a":' * depth + b"{}" + b"}" * depth + b"}}\n")
        bad.stream().put_nowait(line("ADDED", obj("next", 31)))
        await until(lambda: "added next@31" in found.log.seen())
        odd = [delta for delta in found.log.of(Change) if delta.object["metadata"]["name"] == "odd"]
        assert [("deep" in delta.unreadable, "status" in delta.object) for delta in odd] == [(True, False)] * len(odd)
        assert len(odd) >= 2


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"gitVersion": {"a": [1]}}, id="a version that is an object"),
        pytest.param({"gitVersion": "v" * 100_000}, id="a version without end"),
    ],
)
async def test_a_version_that_is_none_is_no_version(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def version(self: Transport, timeout: float) -> Any:
        return said

    monkeypatch.setattr(Transport, "version", version)
    async with good_and_bad(MiniApi()) as (found, _):
        await until(lambda: len(found.log.of(Connected)) == 2)
        assert {fact.server_version for fact in found.log.of(Connected)} == {""}


async def test_a_heartbeat_that_cannot_be_read_is_none() -> None:
    bad = MiniApi(next_answers=[web.Response(body=DEEP, content_type="application/json") for _ in range(3)])
    async with good_and_bad(bad) as (found, _):
        await until(lambda: [fact for fact in found.log.of(ConnectFailed) if "nested too deep" in fact.message])
        await until(lambda: len(found.log.of(Connected)) == 2)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(lambda: web.json_response({"maintenance": True}), id="json of a gateway"),
        pytest.param(lambda: web.json_response({"metadata": {"uid": 7}}), id="an identity that is no text"),
        pytest.param(lambda: web.Response(status=404, text="404 page not found"), id="no such path"),
        pytest.param(lambda: web.Response(status=403, text="<html>blocked</html>"), id="blocked"),
    ],
)
async def test_what_a_gateway_answers_is_no_identity(api: MiniApi, said: Callable[[], web.Response]) -> None:
    """Nothing else may be concluded from it: the cluster was built anew, or the log belongs to another one."""
    known = Connection(name="management", incarnation="inc-1")

    async def management() -> Transport:
        return Transport("management", config(api))

    api.next_answers = [said()]
    assert await check_cluster(management, known)
    assert await check_cluster(management, known) == ""
    async with fleet() as found:
        found.secrets = {"w": kubeconfig(api.url)}
        api.next_answers = [answer(b'{"gitVersion":"v1"}')(), said()]
        found.connections.set("w", SecretSource("w"))
        await until(lambda: found.log.of(Connected))
        assert {fact.incarnation for fact in found.log.of(Reached)} == {"inc-1"}


#: What stands in the place of a Lease; the last three are Leases that no API server would store.
NO_LEASES = [
    {"maintenance": True},
    {},
    {"metadata": []},
    {"metadata": {"resourceVersion": 7}, "spec": {}},
    {"metadata": {"resourceVersion": "7"}, "spec": "x"},
    {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": "long"}},
    {"metadata": {"resourceVersion": "7", "annotations": 3}, "spec": {"holderIdentity": "x"}},
    {"metadata": {"resourceVersion": "7"}, "spec": {"leaseTransitions": "many"}},
]


@pytest.mark.parametrize("said", NO_LEASES)
async def test_what_is_answered_in_the_place_of_a_lease_stops_nobody(
    api: MiniApi, transport: Transport, said: Any
) -> None:
    """A gateway says something to every request: no Lease is known to be ours then, and it is asked again."""
    lease = ClusterLease(ObjectRef(LEASES, "ns", "controlplane"), "pod", ManualClock(), 30.0)
    lease.holder = "ours"
    told = json.dumps(said).encode()
    for ask in (lease.other, lease.renew, lease.renew):
        api.next_answers = [answer(told)() for _ in range(3)]
        with contextlib.suppress(ClusterError):
            assert isinstance(await ask(transport), LeaseHolder)
    api.next_answers = [status(404, "NotFound"), answer(told)()]
    with contextlib.suppress(ClusterError):
        await lease.release(transport)


@pytest.fixture
async def transport(api: MiniApi) -> AsyncIterator[Transport]:
    found = Transport("w", config(api))
    yield found
    await found.close()


async def test_a_small_answer_that_unfolds_into_a_large_one_is_read_no_further(
    api: MiniApi, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.clusters.transport.OBJECT", 1 << 20)
    packed = gzip.compress(b'{"a":"' + b"0" * (1 << 26) + b'"}')
    assert len(packed) < 1 << 17
    api.next_answers = [answer(packed, **{"Content-Encoding": "gzip"})()]
    with pytest.raises(UnreadableResponse, match="more than"):
        await transport.get(JOBS, "ns", "a")


async def test_what_is_packed_is_unpacked_and_what_is_not_asked_for_is_refused(
    api: MiniApi, transport: Transport
) -> None:
    good, cut = gzip.compress(b'{"a":1}'), gzip.compress(b'{"a":1}')[:-9]
    api.next_answers = [
        answer(good, **{"Content-Encoding": "gzip"})(),
        answer(cut, **{"Content-Encoding": "gzip"})(),
        answer(b'{"a":1}', **{"Content-Encoding": "gzip"})(),
        answer(b'{"a":1}', **{"Content-Encoding": "br"})(),
    ]
    assert await transport.get(JOBS, "ns", "a") == {"a": 1}
    for words in ("its end is missing", "cannot be unpacked", "packed in something else"):
        with pytest.raises(UnreadableResponse, match=words):
            await transport.get(JOBS, "ns", "a")
    assert api.requests[0].headers["Accept-Encoding"] == "gzip"


async def test_of_a_refusal_only_the_beginning_is_read(
    api: MiniApi, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_body, "REFUSAL", 1000)
    api.next_answers = [
        web.Response(status=500, body=b"x" * 1_000_000),
        web.Response(status=429, headers={"Retry-After": "1e12"}),
    ]
    with pytest.raises(ApiError) as found:
        await transport.get(JOBS, "ns", "a")
    assert (found.value.status, len(found.value.message)) == (500, 512)
    with pytest.raises(ApiError) as found:
        await transport.get(WORKLOADS, "ns", "a")
    assert found.value.retry_after == 300.0
