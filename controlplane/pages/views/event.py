"""One event: what it rests on, what followed from it, and the state before and after it, as `controlplane inspect`
says.

In: an `Asked` with a position. Out: an `EventStory`; of other namespaces' events only what whoever asks may see."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from controlplane.audit.archived import archived_position
from controlplane.audit.inspect import inspect
from controlplane.audit.words import fields_of
from controlplane.controllers.manifests import EVERY
from controlplane.log.event import Recorded
from controlplane.pages.asking import Archived, Asked, BadQuestion, NotFound
from controlplane.pages.concealing import as_shown, plain_as_shown
from controlplane.pages.views.workload import EventItem, event_item
from controlplane.values import Value

_LARGEST = 2**63 - 1
_PATTERNS = [pattern for manifest in EVERY for pattern in manifest.streams if "/" in pattern and ", " not in pattern]


def _beginning(pattern: str) -> str:
    return "".join(itertools.takewhile(lambda letter: not letter.isupper(), pattern))


# How the streams begin whose next to last word is no namespace, by what controllers say of them; and how those do that
# begin alike and have one, with the number of their words.
_IN_NONE = tuple(_beginning(pattern) for pattern in _PATTERNS if pattern.split("/")[-2] != "NS")
_IN_ONE = {
    (_beginning(pattern), pattern.count("/") + 1)
    for pattern in _PATTERNS
    if pattern.split("/")[-2] == "NS" and _beginning(pattern) in _IN_NONE
}
_WITHIN = 50_000  # events after it in which those are looked for that followed from it


class RequestItem(Value):
    """A write that was decided, and what became of it."""

    position: int
    action: str
    target: str
    outcome: str
    error: str


class EventStory(Value):
    """An event with what is around it. `causes`: the nearest first. `followed` is what followed up to the position
    `looked_until`; the log may go on after it."""

    event: EventItem
    data: dict[str, Any]
    causes: list[EventItem]
    followed: list[EventItem]
    looked_until: int
    requests: list[RequestItem]
    before: dict[str, Any]
    after: dict[str, Any]
    left_alone: str = ""


def event(asked: Asked) -> EventStory:
    """Return the event at a position. Raises `NotFound`, also for one that may not be seen, and `Archived`."""
    position = _position(asked.path["position"])
    found = inspect(asked.reader, asked.policy(), position, within=_WITHIN)
    if found is None and asked.allowed is None and (gone := archived_position(asked.reader, position)):
        raise Archived(gone)
    if found is None or not asked.sees(namespace_of(found.recorded.stream)):
        when = " at that time" if asked.at is not None else ""
        raise NotFound(f"there is no event at position {asked.path['position']} in the log {asked.reader.log}{when}")
    recorded = as_shown(found.recorded, asked.sees)
    return EventStory(
        event=event_item(recorded),
        data=plain_as_shown(fields_of(recorded.event), asked.sees),
        causes=_seen(asked, found.causes),
        followed=_seen(asked, found.followed),
        looked_until=min(position + _WITHIN, asked.reader.until or _LARGEST),
        requests=[
            RequestItem(
                position=one.position, action=one.action, target=one.target, outcome=one.outcome, error=one.error
            )
            for one in found.requests
        ],
        before=plain_as_shown(found.before, asked.sees),
        after=plain_as_shown(found.after, asked.sees),
        left_alone=found.left_alone,
    )


def namespace_of(stream: str) -> str | None:
    """Return the namespace that a stream's object is in, None for an object without one."""
    parts = stream.split("/")
    in_none = stream.startswith(_IN_NONE) and (f"{parts[0]}/", len(parts)) not in _IN_ONE
    return parts[-2] if len(parts) >= 3 and not in_none else None


def _position(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or not 1 <= int(text) <= _LARGEST:
        raise BadQuestion(f'"{text}" is no position: write a whole number from 1')
    return int(text)


def _seen(asked: Asked, events: Iterable[Recorded]) -> list[EventItem]:
    return [event_item(as_shown(one, asked.sees)) for one in events if asked.sees(namespace_of(one.stream))]
