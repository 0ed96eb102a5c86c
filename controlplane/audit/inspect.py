"""One event of the log with what was before, after and because of it: a debugger over what has happened.

In: a reader and a position. Out: the event, what it rests on, the state of its stream before and after it, the events
that name it as their cause, and of those that mean a write what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from controlplane.audit import states
from controlplane.audit.fleet import judgements, surroundings
from controlplane.audit.reads import Filter, LogReader
from controlplane.audit.words import type_of
from controlplane.controllers.manifests import EVERY
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.events import WorkloadWrite
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.log.event import Recorded
from controlplane.log.folding import Folding
from controlplane.runtime.writes import WriteFailed, WriteUnneeded
from controlplane.values import Value

MOST = 1000
"""How many events that followed are told."""
_EFFECTS: LiteralString = (
    "SELECT position, cluster, action, target, outcome, last_position AS settled_by, error FROM audit.effects"
    " WHERE log = %(log)s AND name = %(name)s AND position = ANY(%(positions)s) AND namespace = %(namespace)s"
)
_EFFECTS_OF_CLUSTERS: LiteralString = (
    "SELECT position, cluster, action, target, outcome, last_position AS settled_by, error FROM audit.effects"
    " WHERE log = %(log)s AND name = %(name)s AND position = ANY(%(positions)s) AND namespace IS NULL"
)
_WRITES = tuple(manifest.write for manifest in EVERY if manifest.write is not None)


class WriteOutcome(Value):
    """What became of a decision that means a write: the words are those of `audit.effects`."""

    position: int
    cluster: str
    action: str
    target: str
    outcome: str
    settled_by: int | None = None
    error: str = ""


class Inspection(Value):
    """An event: `causes` are those it rests on, the nearest first; `left_alone` says why its stream could not be folded
    up to it, "" if it could.
    """

    recorded: Recorded
    causes: list[Recorded]
    before: dict[str, Any]
    after: dict[str, Any]
    left_alone: str
    followed: list[Recorded]
    requests: list[WriteOutcome]


def inspect(reader: LogReader, policy: MultiKueuePolicy, position: int, *, within: int = 2**62) -> Inspection | None:
    """Return what was before, after and because of an event; None if the log has no such position. `policy` is the one
    in force then; what followed is looked for `within` so many events after it, which takes as long as they are many.
    """
    recorded = _event(reader, position)
    if recorded is None:
        return None
    before, after, left_alone = _states(reader, policy, recorded)
    until = position + within if reader.until is None else min(position + within, reader.until)
    followed = _followed(reader, position, until)
    return Inspection(
        recorded=recorded,
        causes=_causes(reader, recorded),
        before=before,
        after=after,
        left_alone=left_alone,
        followed=followed,
        requests=_requests(reader, [recorded, *followed]),
    )


def _event(reader: LogReader, position: int) -> Recorded | None:
    return next(iter(reader.events(Filter(after=position - 1, until=position))), None)


def _causes(reader: LogReader, recorded: Recorded) -> list[Recorded]:
    found: list[Recorded] = []
    last = recorded
    while 0 < last.caused_by < last.position and (cause := _event(reader, last.caused_by)) is not None:
        found.append(cause)
        last = cause
    return found


def _states(
    reader: LogReader, policy: MultiKueuePolicy, recorded: Recorded
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return the state of the event's stream before and after it, and why that could not be folded."""
    replay = states.replay_of(recorded.stream, policy)
    folding = Folding(replay.fold)
    before = states.plain(replay.state())
    for one in reader.events(Filter(streams=_needed(reader, recorded), until=recorded.position)):
        if one.position == recorded.position:
            before = states.plain(replay.state())
        folding(one)
    return before, states.plain(replay.state()), folding.left_alone.get(recorded.stream, "")


def _needed(reader: LogReader, recorded: Recorded) -> list[str]:
    """Return the streams that make the state of the event's: of a Workload also its job's, and what is around it."""
    if recorded.stream.partition("/")[0] not in states.INDEXED:
        return [recorded.stream]
    around = {recorded.stream, *surroundings(reader)}
    if not recorded.stream.startswith("workload/"):
        return sorted(around)
    own = Filter(streams=[recorded.stream], types=[WorkloadObserved.__name__], until=recorded.position)
    seen = (one.event for one in reader.events(own))
    owners = {(one.namespace, one.owner.name) for one in seen if isinstance(one, WorkloadObserved) and one.owner}
    jobs = [job for namespace, name in owners for job in reader.streams("job", namespace=namespace, name=name)]
    return sorted({*around, *jobs, *judgements(jobs)})


def _followed(reader: LogReader, position: int, until: int) -> list[Recorded]:
    """Return the events up to a position that name one as their cause."""
    query: LiteralString = (
        "SELECT position FROM audit.events WHERE log = %(log)s AND position > %(of)s AND position <= %(until)s"
        " AND caused_by = %(of)s ORDER BY position LIMIT %(most)s"
    )
    found = (_event(reader, row["position"]) for row in reader.rows(query, of=position, until=until, most=MOST))
    return [recorded for recorded in found if recorded is not None]


def _requests(reader: LogReader, events: Sequence[Recorded]) -> list[WriteOutcome]:
    """Return what became of those events that are decisions to write, by position."""
    writes = [one for one in events if isinstance(one.event, _WRITES)]
    ours = [one for one in writes if isinstance(one.event, WorkloadWrite)]
    found = [request for stream in sorted({one.stream for one in ours}) for request in _effects(reader, stream, ours)]
    found += [_settled(reader, one) for one in writes if not isinstance(one.event, WorkloadWrite)]
    return sorted(found, key=lambda request: request.position)


def _effects(reader: LogReader, stream: str, writes: Sequence[Recorded]) -> list[WriteOutcome]:
    """Return how the writes of a stream of MultiKueue ended, by `audit.effects`."""
    head, _, name = stream.rpartition("/")
    _, slash, namespace = head.partition("/")
    positions = [one.position for one in writes if one.stream == stream]
    query = _EFFECTS if slash else _EFFECTS_OF_CLUSTERS
    rows = reader.rows(query, positions=positions, namespace=namespace, name=name)
    return [WriteOutcome(**_as_known(reader, {**row, "error": row["error"] or ""})) for row in rows]


def _as_known(reader: LogReader, row: dict[str, Any]) -> dict[str, Any]:
    """Return what became of a write without what is after the end of what is read."""
    settled = row["settled_by"]
    if reader.until is None or settled is None or settled <= reader.until:
        return row
    return {**row, "outcome": "open", "settled_by": None, "error": ""}


def _settled(reader: LogReader, write: Recorded) -> WriteOutcome:
    """Return how a write of another controller ended: by the first event after it with which its state has it open no
    more.
    """
    target = str(getattr(write.event, "target", ""))
    request = WriteOutcome(
        position=write.position, cluster=write.cluster, action=type_of(write), target=target, outcome="open"
    )
    replay = states.own_replay(write.stream)
    folding = Folding(replay.fold)
    for one in reader.events(Filter(streams=[write.stream])):
        folding(one)
        if one.position <= write.position or write.position in _open(replay.state()):
            continue
        outcome, error = _outcome(one, target)
        return WriteOutcome(
            position=write.position, cluster=write.cluster, action=type_of(write), target=target, outcome=outcome,
            settled_by=one.position, error=error,
        )  # fmt: skip
    return request


def _open(state: Any) -> set[int]:
    """Return the positions of the writes that a state has open."""
    slot = getattr(state, "slot", None)
    effects = [slot.effect] if slot is not None else list(getattr(state, "effects", {}).values())
    return {effect.position for effect in effects if effect is not None}


def _outcome(settles: Recorded, target: str) -> tuple[str, str]:
    """Return in which way an event ends the write to a target, and what the API server said if it refused it."""
    event = settles.event
    if isinstance(event, WriteFailed) and event.target == target:
        return "refused", event.message
    if isinstance(event, WriteUnneeded) and event.target == target:
        return "unneeded", ""
    if isinstance(event, _WRITES) and getattr(event, "target", "") == target:
        return "replaced", ""
    decided = any(manifest.decision is not None and isinstance(event, manifest.decision) for manifest in EVERY)
    return ("withdrawn" if decided else "done"), ""
