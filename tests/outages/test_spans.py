"""The way of a Job as spans: what a collector receives over HTTP, from the service between simulated clusters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import psycopg
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from controlplane.controllers.connectivity.events import ClusterRecovered
from controlplane.log.event import Recorded
from controlplane.runtime.otel import exporting
from tests.outages.stage import Stage
from tests.support.deep import deep_after
from tests.support.waiting import PATIENCE


class Collector:
    """A collector that keeps what it gets; `refuses`: it takes nothing."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.refuses = False

    async def take(self, request: web.Request) -> web.Response:
        if self.refuses:
            return web.Response(status=400)
        assert request.headers["Content-Type"] == "application/x-protobuf"
        self.requests.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response()

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Collector, str]]:
    collector, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield collector, f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    finally:
        await runner.cleanup()


def attributes(span: Span) -> dict[str, str | int]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@pytest.mark.parametrize("refuses", deep_after(1, [False, True]))
async def test_a_collector_gets_the_way_from_a_watch_line_to_what_settled_the_request(
    stage: Callable[..., Awaitable[Stage]], refuses: bool
) -> None:
    async with collecting() as (collector, endpoint):
        collector.refuses = refuses
        async with exporting(endpoint, "main", 1.0) as spans:
            on = await stage("a", ports={"spans": spans})
            on.submit_for("train-0", "1h")
            await on.running(name="train-0")
            await on.replica.stop()
        if refuses:
            assert collector.spans == []  # and nothing else was different
            return
        known = {(span.trace_id, span.span_id): span for span in collector.spans}
        assert len(known) == len(collector.spans)
        # A line of the watch may come before the answer: then it begins a trace of its own.
        ways = [way(known, span) for span in collector.spans if span.name.startswith("settle ")]
        hops = {tuple(name.partition(" ")[0] for name in each) for each in ways}
        assert hops & {("observe", "decide", "create", "settle"), ("observe", "decide", "patch", "settle")}
        made = [way(known, span) for span in collector.spans if span.name == "create CloneDecided"]
        assert made == [["observe WorkloadObserved", "decide CloneDecided", "create CloneDecided"]]
        with psycopg.connect(on.url) as connection:
            rows = connection.execute("SELECT position, trace FROM controlplane.events").fetchall()
        traces = dict(rows)
        for span in collector.spans:
            assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
            position = attributes(span)["controlplane.position"]
            assert span.trace_id.hex() == f"{traces[position]:0>32}"
            assert attributes(span)["controlplane.log"] == "main"
        (resource,) = {
            one.value.string_value
            for request in collector.requests
            for each in request.resource_spans
            for one in each.resource.attributes
            if one.key == "service.name"
        }
        assert resource == "controlplane"


async def test_a_collector_that_does_not_answer_keeps_no_process_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries wait ten seconds for each batch, and there may be sixteen."""
    monkeypatch.setattr("controlplane.runtime.otel._LAST", 0.2)
    connected = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with (
        listening,
        asyncio.timeout(PATIENCE),
        exporting(f"http://127.0.0.1:{port}/v1/traces", "main", 1.0) as spans,
    ):
        now = datetime.now(UTC)
        for position in range(1, 16_000):
            event = ClusterRecovered()
            spans.folded(
                Recorded(
                    position=position, stream="cluster/a", version=position, event=event, recorded_at=now, trace="a"
                )
            )
        await connected.wait()


def way(known: dict[tuple[bytes, bytes], Span], span: Span) -> list[str]:
    """Return the names from the beginning of a trace to a span."""
    names = [span.name]
    while span.parent_span_id:
        span = known[span.trace_id, span.parent_span_id]
        names.insert(0, span.name)
    return names
