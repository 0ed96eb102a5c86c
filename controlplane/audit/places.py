"""The stories of what is no object of its own stream alone: a cluster, a queue, a node.

In: a reader and a name. Out: a `Story`: moments and lanes, of the stream of the thing itself and of what happened there
to Workloads and pods. What of Workloads is told is what `audit.runs` and `audit.workload_phases` say. They read the
log of the whole fleet; the stream alone is quick."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, LiteralString

import msgspec

from controlplane.audit.lanes import Lane, Lanes, lanes_of
from controlplane.audit.reads import Filter, LogReader
from controlplane.audit.timeline import TimelineEntry
from controlplane.audit.words import reason_of, type_of, what
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT, cluster_stream
from controlplane.controllers.multikueue.events import ConditionDecided
from controlplane.controllers.multikueue.observations import MultiKueueClusterObserved
from controlplane.log.event import Recorded
from controlplane.runtime.stories import LostNode
from controlplane.values import Value

_RUNS: LiteralString = (
    "SELECT namespace, name, since, until, outcome, reason, position, last_position FROM audit.runs"
    " WHERE log = %(log)s AND cluster = %(cluster)s ORDER BY position"
)
_PHASES: LiteralString = (
    "SELECT namespace, name, phase, cluster, since, until, reason, message, position FROM audit.workload_phases"
    " WHERE log = %(log)s AND namespace = %(namespace)s AND queue = %(queue)s ORDER BY position"
)
_LED_TO: LiteralString = (
    "SELECT DISTINCT namespace, data ->> 'queue_name' AS queue FROM audit.events"
    " WHERE log = %(log)s AND type = 'WorkloadObserved' AND data ->> 'cluster_queue' = %(queue)s ORDER BY 1, 2"
)
_ON_NODE: LiteralString = (
    "SELECT DISTINCT stream FROM audit.events WHERE log = %(log)s AND data ->> 'node' = %(node)s ORDER BY stream"
)
_NODES: LiteralString = (
    "SELECT DISTINCT data ->> 'node' AS node FROM audit.events WHERE log = %(log)s AND data ->> 'node' <> ''"
)
_PHASE_WORDS = {
    "Pending": "pending", "Inactive": "pending", "Reserved": "reserved", "Nominated": "offered", "Chosen": "chosen",
    "Admitted": "admitted", "Running": "running", "Finished": "finished", "Deleted": "",
}  # fmt: skip
_CONNECTION_WORDS: dict[type, str] = {
    connectivity.ClusterConnected: "connected",
    connectivity.ClusterRecovered: "connected",
    connectivity.ClusterSuspected: "other",
    connectivity.ClusterLost: "lost",
    connectivity.ClusterConnectFailed: "lost",
    connectivity.ClusterDisconnected: "lost",
    connectivity.ClusterStandby: "other",
}
_REPEATING = (connectivity.ClusterConnectFailed, ConditionDecided, MultiKueueClusterObserved)
_LEAVES = (
    "ReservationDropped", "Unreserved", "CandidateUnreserved", "PendingPodGone", "VictimGone", "CandidateVanished",
    "CandidateGone", "DelegateMissing", "SourceDeleted", "PlaceholderGone",
)  # fmt: skip
"""The types of events with which a pod, or what was held for it, leaves a node."""
_NODE_SEEN, _NODE_GONE = ("NodeObserved", "AdmissionNodeObserved"), ("NodeGone", "AdmissionNodeGone")
_LOGS = 20  # logs of one database in which a node is looked for


class Story(Value):
    """What happened to a thing: `stream` is its own, or what it is called where it has none."""

    stream: str
    entries: Sequence[TimelineEntry]
    lanes: Sequence[Lane]


def cluster_story(reader: LogReader, name: str) -> Story | None:
    """Return the story of a cluster: its connection, and what ran there; None if the log has none of that name."""
    stream = cluster_stream(name)
    if not reader.streams("cluster", name=name):
        return None
    lanes, own = Lanes(), list(reader.events(Filter(streams=[stream])))
    entries = moments_of(own)
    for recorded in own:
        if (word := _CONNECTION_WORDS.get(type(recorded.event))) is not None:
            lanes.show("connection", word, recorded.recorded_at, what(recorded.event), recorded.position)
    for run in reader.rows(_RUNS, cluster=name):
        who = f"{run['namespace']}/{run['name']}"
        entries.append(_entry(run["position"], run["since"], name, f"{who} runs", "", "Runs"))
        lanes.show(who, "running", run["since"], f"{who} runs", run["position"])
        if run["until"] is not None:
            # A run that is out of view was ended by no event of its own, but by the cluster's.
            lost = (recorded.position for recorded in own if recorded.recorded_at >= run["until"])
            ended = run["last_position"] or next(lost, run["position"])
            said = f"{who} ends ({run['outcome']})"
            entries.append(_entry(ended, run["until"], name, said, run["reason"] or "", "Ends"))
            lanes.show(who, "", run["until"], said, ended)
    return Story(stream=stream, entries=_in_order(entries), lanes=lanes.made())


def queue_story(reader: LogReader, name: str) -> Story | None:
    """Return the story of a LocalQueue (NAMESPACE/NAME) or a ClusterQueue: what changed of it, and how far its
    Workloads were; None if the log has neither it nor a Workload of it.
    """
    local = "/" in name
    streams = [f"localqueue/{name}"] if local else [f"clusterqueue/{name}", f"quota/queue/{name}"]
    entries, lanes = moments_of(reader.events(Filter(streams=streams))), Lanes()
    led = {"namespace": name.partition("/")[0], "queue": name.partition("/")[2]}
    leads = [led] if local else leading_to(reader, name)
    rows = [row for lead in leads for row in reader.rows(_PHASES, **lead)]
    for row in rows:
        who, where = f"{row['namespace']}/{row['name']}", row["cluster"] or MANAGEMENT
        on = f" on {where}" if where != MANAGEMENT else ""
        why = ": ".join(filter(None, [row["reason"], row["message"]]))
        said = f"{who} is {row['phase']}{on}"
        entries.append(_entry(row["position"], row["since"], where, said, why, row["phase"]))
        word = _PHASE_WORDS.get(row["phase"], "other")
        lanes.show(who, word, row["since"], ": ".join(filter(None, [said, why])), row["position"])
    # The phase of what is gone has an end, and none comes after it.
    for who, row in {f"{row['namespace']}/{row['name']}": row for row in rows}.items():
        if row["until"] is not None:
            lanes.show(who, "", row["until"], "", row["position"])
    if not entries:
        return None
    return Story(stream=streams[0], entries=_in_order(entries), lanes=lanes.made())


def node_story(reader: LogReader, name: str) -> Story | None:
    """Return the story of a node: what of it was seen, and which pods were held, bound or evicted there; None if no
    event names it.
    """
    own = f"node/{name}"
    streams = [row["stream"] for row in reader.rows(_ON_NODE, node=name)]
    entries, named = moments_of(reader.events(Filter(streams=[own]))), list[tuple[str, TimelineEntry]]()
    here: set[tuple[str, str]] = set()
    for recorded in reader.events(Filter(streams=streams)) if streams else ():
        place, node = (recorded.stream, recorded.cluster), str(getattr(recorded.event, "node", "") or "")
        if node == name:
            here.add(place)
        elif place in here and (node or type_of(recorded) in _LEAVES):
            here.discard(place)
        else:
            continue
        who = recorded.stream.partition("/")[2]
        (entry,) = moments_of([recorded], f"{who}: ")
        entries.append(entry)
        named.append((who, entry))
    return Story(stream=own, entries=_in_order(entries), lanes=lanes_of(named)) if entries else None


def known(reader: LogReader, kind: str) -> list[str]:
    """Return the names of clusters, queues or nodes that there are, for one that is not."""
    if kind == "node":
        return sorted(row["node"] for row in reader.rows(_NODES))
    if kind == "cluster":
        return [stream.partition("/")[2] for stream in reader.streams("cluster")]
    found = reader.streams("clusterqueue", "localqueue")
    led = "SELECT DISTINCT namespace, queue FROM audit.workload_phases WHERE log = %(log)s AND queue <> ''"
    queues = {f"{row['namespace']}/{row['queue']}" for row in reader.rows(led)}
    return sorted({*queues, *(stream.partition("/")[2] for stream in found)})


def leading_to(reader: LogReader, queue: str) -> list[dict[str, Any]]:
    """Return `namespace` and `queue` of the LocalQueues whose Workloads were in a ClusterQueue."""
    return reader.rows(_LED_TO, queue=queue)


def own_entries(reader: LogReader, *streams: str) -> list[TimelineEntry]:
    """Return the moments of some streams alone: quick also in a long log."""
    return moments_of(reader.events(Filter(streams=list(streams))))


def moments_of(events: Iterable[Recorded], about: str = "") -> list[TimelineEntry]:
    """Return the moments of some events; one that says the same as the one before of its stream is not noteworthy, nor
    is what an absence repeats: one more attempt to connect that failed as the one before, and the condition as it
    was."""
    entries, last = list[TimelineEntry](), dict[str, tuple[str, str]]()
    repeated = dict[tuple[str, str], str]()
    for recorded in events:
        event, said, kind = recorded.event, what(recorded.event), type_of(recorded)
        quiet = isinstance(event, connectivity.KindSynced) or last.get(recorded.stream) == (kind, said)
        last[recorded.stream] = kind, said
        if isinstance(event, connectivity.ClusterConnected | connectivity.ClusterRecovered):
            repeated.pop((recorded.stream, connectivity.ClusterConnectFailed.__name__), None)
        if isinstance(event, _REPEATING):
            same = event.message if isinstance(event, connectivity.ClusterConnectFailed) else said
            quiet = quiet or repeated.get((recorded.stream, kind)) == same
            repeated[recorded.stream, kind] = same
        entry = _entry(recorded.position, recorded.recorded_at, recorded.cluster, f"{about}{said}", "", kind)
        entries.append(msgspec.structs.replace(entry, reason=reason_of(recorded), noteworthy=not quiet))
    return entries


def _entry(position: int, at: Any, cluster: str, said: str, why: str, kind: str) -> TimelineEntry:
    return TimelineEntry(position=position, at=at, cluster=cluster, what=said, why=why, reason="", type=kind)


def _in_order(entries: Iterable[TimelineEntry]) -> list[TimelineEntry]:
    return sorted(entries, key=lambda entry: entry.position)


def lost_node(reader: LogReader, node: str, since: datetime) -> LostNode | None:
    """Return since when a node is gone that a pod was on; None if no log saw it go after that, or it came back.

    A scheduler records no nodes. Another log counts if it is of the same cluster, by the UID of its kube-system
    namespace."""
    streams = [f"node/{node}", f"admission/node/{node}"]
    names = [name for name in reader.logs(*streams)[:_LOGS] if name == reader.log or _incarnation(reader)]
    for name in sorted(names, key=lambda name: name != reader.log):
        other = reader if name == reader.log else _beside(reader, name)
        if other is None:
            continue
        gone, seen = _newest(other, streams, _NODE_GONE), _newest(other, streams, _NODE_SEEN)
        if all(one is None or one.recorded_at < since for one in (gone, seen)):
            continue
        if gone is None or _came_back(gone, seen):
            return None
        return LostNode(node=node, since=gone.recorded_at, log=name, position=gone.position)
    return None


def _came_back(gone: Recorded, seen: Recorded | None) -> bool:
    """Whether there is a node of the name after the end of one: a list shows another one before it says that the one
    before is gone."""
    return seen is not None and (seen.position > gone.position or _uid(seen) != _uid(gone))


def _newest(reader: LogReader, streams: Sequence[str], types: Sequence[str]) -> Recorded | None:
    return next(iter(reader.events(Filter(streams=streams, types=types), limit=1, newest=True)), None)


def _uid(recorded: Recorded) -> str:
    return str(getattr(recorded.event, "uid", ""))


def _beside(reader: LogReader, name: str) -> LogReader | None:
    """Return a reader of another log, at the same time, if that is of the same cluster."""
    other = LogReader(reader.connection, name)
    if reader.at is not None:
        other.read_at(reader.at)
    return other if _incarnation(other) == _incarnation(reader) else None


def _incarnation(reader: LogReader) -> str:
    wanted = Filter(streams=[cluster_stream(MANAGEMENT)], types=[connectivity.ClusterConnected.__name__])
    newest = next(iter(reader.events(wanted, limit=1, newest=True)), None)
    return (
        newest.event.incarnation
        if newest is not None and isinstance(newest.event, connectivity.ClusterConnected)
        else ""
    )
