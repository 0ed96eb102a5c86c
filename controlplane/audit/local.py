"""The stories of one's own cluster: a pod and its PodGroup, a PodGroup, a PipelineRun and what was made for it; and
those that the log of a scheduler has (`controlplane.audit.object_history`).

In: a reader and what people type (`pod/NS/NAME`, `podgroup/NS/NAME`, `candidate/NS/NAME`, `pipelinerun/NS/NAME`). Out:
the events, why it is where it is, and the moments. The sentences are made of the folds by which the service decides.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Hashable

import msgspec

from controlplane.audit import object_history
from controlplane.audit.places import lost_node
from controlplane.audit.reads import LogReader
from controlplane.audit.timeline import TimelineEntry, entry_of
from controlplane.audit.words import reason_of, vocabulary, what
from controlplane.controllers.manifests import EVERY
from controlplane.log.event import Event, Unknown
from controlplane.runtime.explanation import Explanation
from controlplane.runtime.stories import ObjectHistory, chain_of
from controlplane.runtime.writes import WriteFailed, WriteUnneeded

STORIES = (*(one.stories.load() for one in EVERY if one.stories is not None), object_history.STORIES)
"""What each controller tells, in the order in which they are asked; at last what the log of a scheduler has."""
PREFIXES = {word: kind for one in STORIES for word, kind in one.words.items()}
"""What may stand before NAMESPACE/NAME, as kubectl has it."""
ABSENT = {kind: said for one in STORIES for kind, said in one.absent.items()}
"""When the objects of a kind are recorded."""
_EXPLAIN = {kind: explain for one in STORIES for kind, explain in one.explain.items()}
_CHAIN = {kind: chain for one in STORIES for kind, chain in one.chain.items()}
_REPEATS = {kind: repeats for one in STORIES for kind, repeats in one.repeats.items()}
_DETAIL = {kind: detail for one in STORIES for kind, detail in one.detail.items()}
_DECISIONS = tuple(one.decision for one in EVERY if one.decision is not None)
_NEAREST, _COMPARED, _ALIKE = (
    3,
    5000,
    0.7,
)  # how many names are told, among how many they are looked for, how like they are
_LOGS = 20  # logs of one database in which a name is looked for


def history_of(reader: LogReader, kind: str, namespace: str, name: str) -> ObjectHistory | None:
    """Return the history of an object; None if the log has none of it."""
    histories = (one.history(reader, kind, namespace, name) for one in STORIES)
    found = next((one for one in histories if one is not None), None)
    where = object_history.node_of(found) if found is not None else None
    if found is None or where is None:
        return found
    return msgspec.structs.replace(found, lost=lost_node(reader, where.node, where.since))


def places(kind: str, namespace: str, name: str) -> list[str]:
    """Return the streams by which the history of an object is found in a log."""
    return [stream for one in STORIES for stream in one.streams(kind, namespace, name)]


def near(reader: LogReader, kind: str, namespace: str, name: str) -> list[str]:
    """Return up to three objects of a kind that somebody may have meant, as KIND/NAMESPACE/NAME: near names, then other
    namespaces.
    """
    kinds = {place.partition("/")[0] for place in places(kind, namespace, name)}
    here = {stream.rpartition("/")[2] for stream in reader.streams(*kinds, namespace=namespace)}
    close = difflib.get_close_matches(name, sorted(here)[:_COMPARED], n=_NEAREST, cutoff=_ALIKE)
    others = {stream.split("/")[1] for stream in reader.streams(*kinds, name=name)}
    return [*(f"{kind}/{namespace}/{one}" for one in close), *(f"{kind}/{one}/{name}" for one in sorted(others))][
        :_NEAREST
    ]


def near_elsewhere(reader: LogReader, kind: str, namespace: str, name: str) -> dict[str, list[str]]:
    """Return the same by the other logs of the database, those that have any."""
    others = (LogReader(reader.connection, log) for log in reader.logs()[:_LOGS] if log != reader.log)
    return {other.log: found for other in others if (found := near(other, kind, namespace, name))}


def explain_history(found: ObjectHistory) -> Explanation:
    """Return why the object of a history is where it is."""
    return _EXPLAIN[found.kind](found)


def history_moments(found: ObjectHistory) -> list[TimelineEntry]:
    """Return the moment of each event of an object; what repeats itself is there, and not noteworthy."""
    entries: list[TimelineEntry] = []
    last: dict[Hashable, tuple[str, str]] = {}
    own, detail = found.stream.partition("/")[2], _DETAIL[found.kind](found) if found.kind in _DETAIL else None
    chained, repeats = _CHAIN.get(found.kind), _REPEATS.get(found.kind)
    for recorded in heapq.merge(found.events, found.others, key=lambda recorded: recorded.position):
        event, about = recorded.event, recorded.stream.partition("/")[2]
        said = what(event), reason_of(recorded)
        within = chained(recorded) if chained else chain_of(event, decided=isinstance(event, _DECISIONS))
        new = last.get((recorded.stream, within)) != said and not isinstance(event, WriteUnneeded)
        new = new and not _lost_race(event) and not (repeats is not None and repeats(found, recorded))
        last[recorded.stream, within] = said
        told = f"{said[0]}{detail(event) if detail else ''}" if about == own else f"{about}: {said[0]}"
        entries.append(entry_of(recorded, told, _why(event), said[1], noteworthy=new))
    return entries


def _lost_race(event: Event | Unknown) -> bool:
    """Whether a write was refused because its object had moved on; of a binding that says more."""
    return isinstance(event, WriteFailed) and event.code == 409 and event.action not in object_history.BINDINGS


def _why(event: Event | Unknown) -> str:
    return event.message if isinstance(event, WriteFailed) else vocabulary.because(event)
