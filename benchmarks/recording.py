"""A history to measure with: what the service really recorded while it dispatched some Jobs.

In: a database and a number of workloads. Out: the events as they are in the log, and as they once went in, as often
over as is wanted, each copy on streams and of objects of its own."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import msgspec

from benchmarks.dispatch import WORKERS
from benchmarks.fleet import ROLE, dispatch, fleet
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import WorkloadDecision
from controlplane.job_kinds import adapters_for
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, Body, NewEvent, Recorded, Unknown
from controlplane.log.postgres import PostgresLog
from controlplane.settings import Settings


def new_fleet() -> MultiKueueController:
    """Return MultiKueue's states, empty."""
    return MultiKueueController(MultiKueuePolicy(adapters=adapters_for(Settings().multikueue.kinds)), "benchmark")


def codec() -> Codec:
    """Return the codec of the service."""
    return Codec(MultiKueueController.types)


async def record(url: str, args: argparse.Namespace) -> list[Recorded]:
    """Let the service dispatch Jobs over simulated clusters, and return what it recorded."""
    async with fleet(WORKERS) as clusters:
        await dispatch(url, clusters, args.recorded, args.qps)
    async with PostgresLog(Database(url, ROLE), codec()) as log:
        events: list[Recorded] = []
        while found := await log.read(len(events), 5000):
            events += found
    print(f"recorded: {len(events):,} events of {args.recorded:,} workloads on {len(WORKERS)} workers", flush=True)
    return events


async def bodies_of(url: str, events: Sequence[Recorded]) -> dict[str, Body]:
    """Return the bodies that events name, by ref."""
    refs = {ref for recorded in events for ref in _refs(recorded)}
    async with PostgresLog(Database(url, ROLE), codec()) as log:
        found = await log.bodies(refs)
    return {ref: Body(bytes.fromhex(ref), text.decode()) for ref, text in found.items()}


def requests(events: Sequence[Recorded], bodies: dict[str, Body], count: int) -> list[Append]:
    """Return at least `count` events as requests: an observation each, and the decisions of one pass together."""
    groups = list(_groups(events))
    found: list[Append] = []
    copies = -(-count // len(events))
    for group in groups:
        found.extend(_request(group, bodies, f"-{copy}") for copy in range(copies))
    return found


def _groups(events: Sequence[Recorded]) -> Iterator[list[Recorded]]:
    group: list[Recorded] = []
    for recorded in events:
        together = group and recorded.stream == group[-1].stream and _is_decision(recorded) and _is_decision(group[-1])
        if group and not together:
            yield group
            group = []
        group.append(recorded)
    yield group


def _request(group: Sequence[Recorded], bodies: dict[str, Body], copy: str) -> Append:
    stream = group[0].stream + copy
    new = [_new(recorded, bodies, copy) for recorded in group]
    return Append(new, {stream: group[0].version - 1} if _is_decision(group[0]) else None)


def _new(recorded: Recorded, bodies: dict[str, Body], copy: str) -> NewEvent:
    """Return a recorded event as it was before; a source is made of what the event says of its object."""
    event = recorded.event
    assert not isinstance(event, Unknown)
    uid, version = getattr(event, "uid", ""), getattr(event, "resource_version", "")
    observed = bool(uid and version) and not _is_decision(recorded)
    return NewEvent(
        stream=recorded.stream + copy,
        event=event,
        source=f"{recorded.cluster}//{type(event).__name__}/{uid}{copy}" if observed else "",
        mark=int(version) if observed else 0,
        cluster=recorded.cluster,
        caused_by=recorded.caused_by,
        trace=recorded.trace,
        observed_at=recorded.observed_at,
        bodies=tuple(bodies[ref] for ref in _refs(recorded) if ref in bodies),
    )


def _is_decision(recorded: Recorded) -> bool:
    return isinstance(recorded.event, WorkloadDecision)


def _refs(recorded: Recorded) -> list[str]:
    """Return what looks like the hash of a body among the fields of an observation."""
    if isinstance(recorded.event, Unknown) or _is_decision(recorded):
        return []
    values = msgspec.structs.asdict(recorded.event).values()
    return [value for value in values if isinstance(value, str) and len(value) == 64 and value.isalnum()]
