"""What a hop is, by the events of the log alone; and which traces are told of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.multikueue.events import CloneDecided
from controlplane.controllers.multikueue.observations import WorkloadGone
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.log.event import Recorded
from controlplane.runtime.controller import OpenWrite
from controlplane.runtime.measure import ProcessMeasure
from controlplane.runtime.spans import Span, Spans, trace_id
from controlplane.telemetry import Metrics
from controlplane.web.ops import _encoder

START = datetime(2026, 1, 1, tzinfo=UTC)
TRACE = "00000000deadbeef"
SEEN = WorkloadGone(uid="u", resource_version="1", namespace="team-a", name="run")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def recorded(position: int, when: float, event: Any = SEEN, **fields: Any) -> Recorded:
    given = {"cluster": "east", "trace": TRACE} | fields
    return Recorded(
        position=position, stream="workload/team-a/run", version=position, event=event, recorded_at=at(when), **given
    )


def told(*steps: Any, share: float = 1.0) -> list[Span]:
    found: list[Span] = []
    spans = Spans(found.append, "main", share)
    for step in steps:
        if isinstance(step, Recorded):
            spans.folded(step)
        else:
            spans.request(*step)
    return found


WRITE = OpenWrite(position=2, stream="workload/team-a/run", cluster="east", target="t", action="CloneDecided")
DECIDED = CloneDecided(cluster="east", attempt=1, template="", reason=WorkloadReason.NOMINATED)


def test_each_hop_begins_where_the_one_before_ended() -> None:
    line, decision, request, settled = told(
        recorded(1, 1.0, observed_at=at(0.5)),
        recorded(2, 1.2, DECIDED, caused_by=1),
        (WRITE, TRACE, "create", at(1.3), at(1.4), ""),
        recorded(3, 1.9, observed_at=at(1.6)),
    )
    assert (line.name, line.start, line.end, line.parent) == ("observe WorkloadGone", at(0.5), at(1.0), "")
    assert (decision.name, decision.start, decision.end) == ("decide CloneDecided", at(1.0), at(1.2))
    assert (decision.parent, request.parent, settled.parent) == (line.id, decision.id, request.id)
    assert (request.name, request.start, request.end) == ("create CloneDecided", at(1.3), at(1.4))
    assert (settled.name, settled.start, settled.end) == ("settle WorkloadGone", at(1.6), at(1.9))
    assert {one.trace for one in (line, decision, request, settled)} == {trace_id(TRACE)}
    assert decision.attributes["controlplane.reason"] == "Nominated"


def test_a_request_that_failed_says_so_and_settles_nothing() -> None:
    request, seen = told(
        (WRITE, TRACE, "create", at(1), at(2), "409 AlreadyExists"), recorded(3, 3, observed_at=at(2.5))
    )
    assert request.failed == "409 AlreadyExists"
    assert (seen.name, seen.parent) == ("observe WorkloadGone", "")


def test_an_event_without_a_trace_makes_no_span() -> None:
    assert told(recorded(1, 1, trace="")) == []
    assert told((WRITE, "", "create", at(1), at(2), "")) == []


@given(st.lists(st.integers(0, 2**64 - 1).map(lambda number: f"{number:016x}"), unique=True), st.floats(0, 1))
def test_a_share_is_of_whole_traces(traces: list[str], share: float) -> None:
    def kept(part: float) -> set[str]:
        return {
            span.trace for span in told(*(recorded(n, 1, trace=one) for n, one in enumerate(traces, 1)), share=part)
        }

    assert kept(share) == kept(share) <= kept(1.0) == {trace_id(one) for one in traces}
    assert kept(0.0) == set()


def test_a_histogram_leads_to_a_trace_where_openmetrics_is_asked_for() -> None:
    metrics = Metrics()
    ProcessMeasure(metrics).folded(
        [recorded(1, 1.0, observed_at=at(0.99)), recorded(2, 2, observed_at=at(1), trace="")], True
    )
    encode, kind = _encoder("application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert f'# {{trace_id="{trace_id(TRACE)}"}} 0.01 ' in encode(metrics.registry).decode()
    encode, _ = _encoder("text/plain")
    assert "trace_id" not in encode(metrics.registry).decode()
