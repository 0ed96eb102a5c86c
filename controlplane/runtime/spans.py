"""The hops of a trace as spans: from a watch line to its commit, from there to a decision, to the request, and to what
settled it.

In: events as they are folded, and requests as they end. Out: a `Span` of each, to whoever exports them. Nothing is
carried along for it: an event has its trace and its cause, so the span of an event is named by its position. Nothing
here loads a library of tracing."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple, TypeVar

from controlplane.log.event import Recorded, Unknown
from controlplane.runtime.controller import OpenWrite

_MOST = 1 << 16  # events and requests that are remembered
_OURS = 1 << 63  # set in the id of a request's span: no position has it

Key = TypeVar("Key")
Found = TypeVar("Found")


class Span(NamedTuple):
    """A hop. `trace`, `id` and `parent` are hexadecimal, of 32 and twice 16 digits; `parent` is "" at the beginning of
    a trace. `failed` says what went wrong, "" if nothing did."""

    trace: str
    id: str
    parent: str
    name: str
    start: datetime
    end: datetime
    attributes: Mapping[str, str | int]
    failed: str = ""


def trace_id(trace: str) -> str:
    """Return the trace of an event as tracing has it: 128 bits, of which the first are zero."""
    return f"{trace:0>32}"


class Spans:
    """Makes spans of what happens while this process leads a log. `share` of the traces are told of, the same ones by
    every process."""

    def __init__(self, export: Callable[[Span], None], log: str, share: float = 1.0) -> None:
        self._export, self._log = export, log
        self._below = int(share * (1 << 64))
        self._at: OrderedDict[int, datetime] = OrderedDict()
        self._requests: OrderedDict[tuple[str, str], str] = OrderedDict()

    def _told(self, trace: str) -> bool:
        return bool(trace) and int(trace[-16:], 16) < self._below

    def folded(self, recorded: Recorded) -> None:
        """Tell of an event: what was seen lasts from the line to the commit, what was decided from the commit of its
        cause."""
        if not self._told(recorded.trace):
            return
        _remember(self._at, recorded.position, recorded.recorded_at)
        seen, parent, start = recorded.observed_at, "", recorded.recorded_at
        if recorded.caused_by:
            what, parent = "decide", _of_event(recorded.caused_by)
            start = self._at.get(recorded.caused_by, start)
        elif seen is not None:
            request = self._requests.pop((recorded.trace, recorded.cluster), "")
            what, parent, start = ("settle", request, seen) if request else ("observe", "", seen)
        else:
            what = "record"
        event = recorded.event
        name = event.type if isinstance(event, Unknown) else type(event).__name__
        attributes: dict[str, str | int] = {
            "controlplane.log": self._log,
            "controlplane.position": recorded.position,
            "controlplane.stream": recorded.stream,
            "controlplane.cluster": recorded.cluster,
            "controlplane.reason": str(getattr(event, "reason", "") or ""),
        }
        self._tell(
            recorded.trace,
            _of_event(recorded.position),
            parent,
            f"{what} {name}",
            start,
            recorded.recorded_at,
            attributes,
        )

    def request(self, write: OpenWrite, trace: str, verb: str, start: datetime, end: datetime, failed: str) -> None:
        """Tell of a request that ended; `failed` says what was answered in the place of success."""
        if not self._told(trace):
            return
        mine = f"{_OURS | secrets.randbits(63):016x}"
        attributes: dict[str, str | int] = {
            "controlplane.log": self._log,
            "controlplane.position": write.position,
            "controlplane.stream": write.stream,
            "controlplane.cluster": write.cluster,
            "controlplane.action": write.action,
        }
        self._tell(trace, mine, _of_event(write.position), f"{verb} {write.action}", start, end, attributes, failed)
        if not failed:
            _remember(self._requests, (trace, write.cluster), mine)

    def _tell(
        self, trace: str, mine: str, parent: str, name: str, start: datetime, end: datetime,
        attributes: Mapping[str, str | int], failed: str = "",
    ) -> None:  # fmt: skip
        known = {key: value for key, value in attributes.items() if value != ""}
        # The clocks of this process and of the database may differ a little.
        self._export(Span(trace_id(trace), mine, parent, name, min(start, end), end, known, failed))


def _of_event(position: int) -> str:
    return f"{position:016x}"


def _remember(known: OrderedDict[Key, Found], key: Key, value: Found) -> None:
    known[key] = value
    if len(known) > _MOST:
        known.popitem(last=False)
