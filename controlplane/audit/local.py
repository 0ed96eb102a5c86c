"""The stories of one's own cluster: a pod and its PodGroup, a PodGroup, a PipelineRun and what was made for it; and
those that the log of a scheduler has (`controlplane.audit.object_history`).

In: a reader and what people type (`pod/NS/NAME`, `podgroup/NS/NAME`, `candidate/NS/NAME`, `pipelinerun/NS/NAME`). Out:
the events, why it is where it is, and the moments. The sentences are made of the folds by which the service decides.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Hashable

from controlplane.audit import object_history
from controlplane.audit.reads import LogReader
from controlplane.audit.timeline import TimelineEntry, entry_of
from controlplane.audit.words import reason_of, vocabulary, what
from controlplane.controllers.candidates.target.events import (
    BindStarted,
    NotSchedulable,
    Reserved,
    StatusReported,
    TargetDecision,
    Unreserved,
)
from controlplane.controllers.manifests import EVERY
from controlplane.controllers.scheduling.events import (
    BindingDecided,
    NodeReserved,
    PendingPodObserved,
    PodStatusDecided,
    ReservationDropped,
    SchedulingFailed,
)
from controlplane.controllers.scheduling.phrases import IN_A_LINE
from controlplane.controllers.scheduling.refusals import refusing_nodes
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.runtime.explanation import Explanation
from controlplane.runtime.stories import ObjectHistory
from controlplane.runtime.writes import WriteFailed, WriteUnneeded

STORIES = (*(one.stories.load() for one in EVERY if one.stories is not None), object_history.STORIES)
"""What each controller tells, in the order in which they are asked; at last what the log of a scheduler has."""
PREFIXES = {word: kind for one in STORIES for word, kind in one.words.items()}
"""What may stand before NAMESPACE/NAME, as kubectl has it."""
ABSENT = {kind: said for one in STORIES for kind, said in one.absent.items()}
"""When the objects of a kind are recorded."""
_EXPLAIN = {kind: explain for one in STORIES for kind, explain in one.explain.items()}
_CHAIN = {kind: chain for one in STORIES for kind, chain in one.chain.items()}
_DECISIONS: tuple[type[Event], ...] = (*(one.decision for one in EVERY if one.decision is not None), TargetDecision)

_SAYS = StatusReported | PodStatusDecided
"""What is said of a pod to others, and repeats what the event before it said."""
_FINDINGS = NodeReserved | ReservationDropped | SchedulingFailed | Reserved | Unreserved | NotSchedulable
"""What a cycle found or what became of that: the same words twice are news if other ones stand between."""
_NEAREST, _COMPARED, _ALIKE = (
    3,
    5000,
    0.7,
)  # how many names are told, among how many they are looked for, how like they are
_LOGS = 20  # logs of one database in which a name is looked for
_BINDINGS = (BindingDecided.__name__, BindStarted.__name__)


def history_of(reader: LogReader, kind: str, namespace: str, name: str) -> ObjectHistory | None:
    """Return the history of an object; None if the log has none of it."""
    found = (one.history(reader, kind, namespace, name) for one in STORIES)
    return next((one for one in found if one is not None), None)


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
    own = found.stream.partition("/")[2]
    failures, chain_of = _failures(found), _CHAIN.get(found.kind, _chain)
    for recorded in heapq.merge(found.events, found.others, key=lambda recorded: recorded.position):
        event, about = recorded.event, recorded.stream.partition("/")[2]
        said, chain = (what(event), reason_of(recorded)), (recorded.stream, chain_of(recorded))
        new = last.get(chain) != said and not isinstance(event, WriteUnneeded | _SAYS) and not _lost_race(event)
        new = new and not (found.kind == "candidate" and _said_by_candidate(recorded, found.stream))
        last[chain] = said
        which = _nodes(failures.get(event.message)) if isinstance(event, NotSchedulable) else ""
        told = f"{said[0]}{which}" if about == own else f"{about}: {said[0]}"
        entries.append(entry_of(recorded, told, _why(event), said[1], noteworthy=new))
    return entries


def _failures(found: ObjectHistory) -> dict[str, SchedulingFailed]:
    """Return the cycles that found no node, by what they said."""
    every = (recorded.event for recorded in (*found.events, *found.others))
    return {event.message: event for event in every if isinstance(event, SchedulingFailed)}


def _nodes(failed: SchedulingFailed | None) -> str:
    """Return the nodes that refused a candidate, by reason, in brackets: the cycle of its pod has them."""
    if failed is None:
        return ""
    which = refusing_nodes(failed.message, failed.nodes, IN_A_LINE)
    return f" ({which})" if which else ""


def _said_by_candidate(recorded: Recorded, stream: str) -> bool:
    """Whether an event of a candidate's Pod says what the candidate's own stream says as well."""
    event = recorded.event
    if recorded.stream == stream or isinstance(event, Unknown):
        return False
    return isinstance(event, SchedulingFailed) or (isinstance(event, PendingPodObserved) and not event.gates)


def _lost_race(event: Event | Unknown) -> bool:
    """Whether a write was refused because its object had moved on; of a binding that says more."""
    return isinstance(event, WriteFailed) and event.code == 409 and event.action not in _BINDINGS


def _why(event: Event | Unknown) -> str:
    return event.message if isinstance(event, WriteFailed) else vocabulary.because(event)


def _chain(recorded: Recorded) -> Hashable:
    """Return the object within whose events one may repeat the one before: what was seen of it, or what was decided for
    it.
    """
    event = recorded.event
    if isinstance(event, _FINDINGS):
        return ("found",)
    decided = isinstance(event, _DECISIONS)
    kind = type(event).__name__ if decided or isinstance(event, WriteFailed) else ""
    return decided, kind, getattr(event, "uid", ""), getattr(event, "name", "")
