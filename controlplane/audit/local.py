"""The stories of one's own cluster: a pod and its PodGroup, a PodGroup, a PipelineRun and what was made for it.

In: a reader and what people type (`pod/NS/NAME`, `podgroup/NS/NAME`, `pipelinerun/NS/NAME`). Out: the events, why it is where it is in one
sentence, and the moments. The sentences are made of the folds by which the service decides.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from controlplane.audit.explain import Explanation
from controlplane.audit.group_words import group_because
from controlplane.audit.groups import explain_group, explain_member
from controlplane.audit.reads import Filter, Reader
from controlplane.audit.run_words import run_because
from controlplane.audit.runs import explain_run
from controlplane.audit.timeline import Moment
from controlplane.audit.words import reason_of, type_of, what
from controlplane.coscheduling.events import CoschedulingFailed, CoschedulingUnneeded
from controlplane.coscheduling.events import Decision as RunDecision
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.podgroups.events import (
    ROOM_STREAM,
    GroupWriteFailed,
    GroupWriteUnneeded,
    MemberObserved,
    OwnerResolved,
    group_stream,
    member_stream,
    owner_stream,
)
from controlplane.podgroups.events import Decision as GroupDecision

PREFIXES = {
    "pod": "pod", "pods": "pod", "po": "pod",
    "podgroup": "podgroup", "podgroups": "podgroup", "pg": "podgroup",
    "pipelinerun": "pipelinerun", "pipelineruns": "pipelinerun", "pr": "pipelinerun",
}  # fmt: skip
"""What may stand before NAMESPACE/NAME, as kubectl has it."""


class Story(msgspec.Struct, frozen=True):
    """The events of one object, and those around it that its sentence may rest on."""

    kind: str
    stream: str
    events: Sequence[Recorded]
    around: Sequence[Recorded] = ()


def story(reader: Reader, kind: str, namespace: str, name: str) -> Story | None:
    """Return the story of an object; None if the log has none of it."""
    if kind == "pod":
        return _pod(reader, namespace, name)
    stream = group_stream(namespace, name) if kind == "podgroup" else f"pipelinerun/{namespace}/{name}"
    events = list(reader.events(Filter(streams=[stream])))
    if not events:
        return None
    room = reader.events(Filter(streams=[ROOM_STREAM]), limit=1, newest=True) if kind == "podgroup" else ()
    return Story(kind, stream, events, list(room))


def _pod(reader: Reader, namespace: str, name: str) -> Story | None:
    stream = member_stream(namespace, name)
    events = list(reader.events(Filter(streams=[stream])))
    if not events:
        return None
    streams: set[str] = set()
    for recorded in events:
        if isinstance(recorded.event, OwnerResolved):
            streams.add(group_stream(namespace, recorded.event.group))
            streams |= {owner_stream(namespace, one) for one in recorded.event.resolution.chain[1:]}
        elif isinstance(recorded.event, MemberObserved):
            facts = recorded.event.facts
            if facts.group_name:
                streams.add(group_stream(namespace, facts.group_name))
            if facts.controller is not None:
                streams.add(owner_stream(namespace, facts.controller))
    around = list(reader.events(Filter(streams=sorted(streams)))) if streams else []
    return Story("pod", stream, events, around)


def explain_story(found: Story) -> Explanation:
    """Return why the object of a story is where it is."""
    if found.kind == "pod":
        return explain_member(found.events, found.around)
    if found.kind == "podgroup":
        return explain_group(found.events, found.around)
    return explain_run(found.stream, found.events)


def story_moments(found: Story) -> list[Moment]:
    """Return the moment of each event of an object; what repeats itself is there, and not noteworthy."""
    told: list[Moment] = []
    last: dict[Hashable, tuple[str, str]] = {}
    for recorded in found.events:
        event = recorded.event
        said, chain = (what(event), reason_of(recorded)), _chain(event)
        idle = isinstance(event, GroupWriteUnneeded | CoschedulingUnneeded)
        lost_race = isinstance(event, GroupWriteFailed | CoschedulingFailed) and event.code == 409
        new = last.get(chain) != said and not idle and not lost_race
        last[chain] = said
        told.append(
            Moment(
                position=recorded.position,
                at=recorded.recorded_at,
                cluster=recorded.cluster,
                what=said[0],
                why=_why(event),
                reason=said[1],
                type=type_of(recorded),
                noteworthy=new,
            )
        )
    return told


def _why(event: Event | Unknown) -> str:
    match event:
        case GroupDecision():
            return group_because(event)
        case RunDecision():
            return run_because(event)
        case GroupWriteFailed() | CoschedulingFailed():
            return event.message
        case _:
            return ""


def _chain(event: Event | Unknown) -> Hashable:
    """Return the object within whose events one may repeat the one before: what was seen of it, or what was decided for it."""
    decided = isinstance(event, GroupDecision | RunDecision)
    return decided, type(event).__name__ if decided else "", getattr(event, "uid", ""), getattr(event, "name", "")
