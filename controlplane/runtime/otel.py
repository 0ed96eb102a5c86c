"""Sends spans to a collector: OpenTelemetry's own exporter, OTLP over HTTP.

In: spans, and the collector's address. Out: batches, sent by a thread of its own; what the collector does not take is
let go of, and nothing waits for it. The libraries are an extra (`controlplane[otel]`), which is loaded here and nowhere
else."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from importlib import metadata
from importlib.util import find_spec

from controlplane.runtime.spans import Span, Spans

_QUEUE = 16_384  # spans that wait; one more is let go
_BATCH = 1024
_EVERY = 1000  # milliseconds
_LAST = 5.0  # seconds for what is left at the end
_LIBRARIES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def missing_library() -> str:
    """Return the first of the libraries that is not installed; "" if all are."""
    return next((name for name in _LIBRARIES if not _there(name)), "")


def _there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False


@contextlib.asynccontextmanager
async def exporting(endpoint: str, log: str, share: float) -> AsyncIterator[Spans]:
    """Have spans of a log sent to a collector while the block runs; what is left is sent in the end."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    version = metadata.version("controlplane")
    resource = Resource.create({"service.name": "controlplane", "service.version": version})
    scope, flags = InstrumentationScope("controlplane", version), TraceFlags(TraceFlags.SAMPLED)
    exporter = OTLPSpanExporter(endpoint=endpoint)
    processor = BatchSpanProcessor(
        exporter, max_queue_size=_QUEUE, max_export_batch_size=_BATCH, schedule_delay_millis=_EVERY
    )  # fmt: skip

    def context(trace: str, span: str) -> SpanContext:
        return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=flags)

    def export(span: Span) -> None:
        made = ReadableSpan(
            name=span.name,
            context=context(span.trace, span.id),
            parent=context(span.trace, span.parent) if span.parent else None,
            resource=resource,
            attributes=span.attributes,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.failed) if span.failed else Status(StatusCode.UNSET),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
            instrumentation_scope=scope,
        )
        processor.on_end(made)

    try:
        yield Spans(export, log, share)
    finally:
        if not await _ended(processor.shutdown, _LAST):
            exporter.shutdown()  # type: ignore[no-untyped-call] # what is left is let go of


async def _ended(work: Callable[[], None], seconds: float) -> bool:
    """Whether blocking work was done in time. What is not is left behind in a thread that keeps no process from
    ending: the libraries wait for a collector that does not answer once for each batch."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        work()
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="last spans", daemon=True).start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await done.wait()
    return done.is_set()


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
