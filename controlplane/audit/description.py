"""What `describe` says of one thing: its fields as people read them, as plain values for programs, and what happened.

In: a reader, the policy, a name that the log has. Out: a `Description`. The values are those of the lists
(`workloads_now`, `clusters_now`, `past`), the sentences those of `why`, the moments those of the timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.audit import answer
from controlplane.audit.absence import absences
from controlplane.audit.clusters_now import describe as clusters_now
from controlplane.audit.clusters_now import grace_cell, identity_cell
from controlplane.audit.find import Found
from controlplane.audit.fleet import folded, load
from controlplane.audit.past import GROUPS, queues_at
from controlplane.audit.places import leading_to, own_entries
from controlplane.audit.queues_seen import active_of, cluster_queue_at, quota_of, shape_seen
from controlplane.audit.reads import LogReader
from controlplane.audit.shown import place
from controlplane.audit.timeline import TimelineEntry
from controlplane.audit.workloads_now import one_of
from controlplane.controllers.connectivity.events import cluster_stream
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.runtime.explanation import Explanation, Statement
from controlplane.values import Value

Shown = Sequence[tuple[str, Any]]
"""Labels and what stands behind them: a text, a number, a time, or a list of texts."""


class Rows(Value):
    """A table below a label, such as the Workloads of a cluster."""

    label: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Description(Value):
    """One thing: `value` is for programs, `fields` and `tables` are for people; `moments` is what happened to it."""

    value: dict[str, Any]
    fields: Shown
    tables: Sequence[Rows]
    moments: Sequence[TimelineEntry]


def workload(reader: LogReader, policy: MultiKueuePolicy, found: Found, now: datetime) -> Description:
    """Describe a Workload by its streams, or a job without one."""
    told = answer.told(reader, policy, found, now)
    one = _as_listed(reader, policy, found, now)
    explanation = told.explanation
    stands, namespace = explanation.standing, one.get("namespace", "")
    fields: list[tuple[str, Any]] = [
        ("Name", one.get("name") or (found.key or found.job_names[0]).rpartition("/")[2]),
        ("Namespace", namespace or (found.key or found.job_names[0]).split("/")[-2]),
        ("Job", "/".join(filter(None, [one.get("kind"), one.get("job")])) or _job(found)),
        ("Queue", one.get("queue")),
        ("State", one.get("result") or stands.word),
        ("Cluster", place(stands.cluster)),
        ("Attempt", one.get("attempt")),
        ("First Seen", one.get("since") or (told.moments[0].at if told.moments else None)),
        ("Waits For", stands.waits_for),
        ("Nominated Clusters", one.get("nominated")),
        ("Copies On", one.get("copies")),
        ("Why", explanation.sentence),
    ]
    value = {**one, **explained(explanation)}
    tables = [_became(explanation.statements)] if explanation.statements else []
    return Description(value=value, fields=fields, tables=tables, moments=told.moments)


def explained(explanation: Explanation) -> dict[str, Any]:
    """Return an answer as plain values."""
    stands = explanation.standing
    proved = [recorded.position for recorded in explanation.events]
    return {
        "state": stands.word,
        "cluster": stands.cluster,
        "waits_for": stands.waits_for,
        "sentence": explanation.sentence,
        "proved_by": proved,
    }


def cluster(reader: LogReader, policy: MultiKueuePolicy, name: str, now: datetime) -> Description | None:
    """Describe a cluster; None if the log has none of that name."""
    index = load(reader, policy)
    away = absences(index, now)
    one = next((one for one in clusters_now(index, away, now) if one["name"] == name), None)
    if one is None:
        return None
    here = [one_of(index, state, now, now) for _, state in sorted(index.workloads.items()) if name in state.remotes]
    observed = index.clusters.get(name)
    fields: list[tuple[str, Any]] = [
        ("Name", place(name)),
        ("Labels", [f"{key}={text}" for key, text in sorted((observed.labels if observed else {}).items())]),
        ("State", one["state"]),
        ("Since", one["since"]),
        ("Reason", one["reason"]),
        ("Message", one["message"]),
        ("Lost Since", one["lost_since"]),
        ("Grace", grace_cell(one, now)),
        *([("Given Up", "until it connects again")] if one["forgotten"] else []),
        ("Server Version", one["server_version"]),
        ("Identity", identity_cell(one["incarnation"], one["restores"])),
        ("Kinds Off", [f"{kind}: {why}" for kind, why in sorted(one["kinds_off"].items())]),
        ("Running", one["running"]),
        ("Copies", one["copies"]),
        *([("Unknown Copies", one["unknown_copies"])] if one["unknown_copies"] else []),
        ("Owed", one["owed"]),
        ("Open Writes", one["open_writes"]),
    ]
    listed = [(f"{who['namespace']}/{who['name']}", who["job"], who["state"], place(who["cluster"])) for who in here]
    workloads = Rows(label="Workloads", columns=("name", "job", "state", "cluster"), rows=listed)
    named = [f"{who['namespace']}/{who['name']}" for who in here]
    moments = own_entries(reader, cluster_stream(name))
    return Description(value={**one, "workloads": named}, fields=fields, tables=[workloads], moments=moments)


def queue(reader: LogReader, name: str) -> Description | None:
    """Describe a LocalQueue (NAMESPACE/NAME) or a ClusterQueue; None if the log knows neither it nor one that leads to
    it.
    """
    namespace, slash, local = name.partition("/")
    now = reader.clock()  # that of the events: this machine's may be another one
    return _local_queue(reader, namespace, local, now) if slash else _cluster_queue(reader, name, now)


def _local_queue(reader: LogReader, namespace: str, name: str, now: datetime) -> Description | None:
    found = [one for one in queues_at(reader, now, namespace) if one["queue"] == name]
    moments = own_entries(reader, f"localqueue/{namespace}/{name}")
    if not found and not moments:
        return None
    head = {"kind": "LocalQueue", "namespace": namespace, "name": name or f"{namespace}/"}
    behind = found[0]["cluster_queue"] if found else ""
    counts = _counts(found)
    value = {**head, "cluster_queue": behind, **counts}
    fields = _queue_fields(head, ("ClusterQueue", behind), counts)
    return Description(value=value, fields=fields, tables=[], moments=moments)


def _cluster_queue(reader: LogReader, name: str, now: datetime) -> Description | None:
    led = leading_to(reader, name)
    leads = _leads(queues_at(reader, now, None), led, name)
    moments = own_entries(reader, f"clusterqueue/{name}", f"quota/queue/{name}")
    seen = cluster_queue_at(reader, name)
    if not leads and not led and not moments and seen is None:
        return None
    head = {"kind": "ClusterQueue", "namespace": "", "name": name}
    counts = _counts(leads)
    active, quota, shape = active_of(seen), quota_of(seen), shape_seen(seen)
    rows = [(one["namespace"], one["queue"], *(one[group] for group in GROUPS)) for one in leads]
    listed = [f"{one['namespace']}/{one['queue']}" for one in leads]
    return Description(
        value={
            **head,
            "cluster_queue": name,
            **counts,
            "local_queues": listed,
            "active": active,
            **shape,
            "quota": quota,
        },
        fields=_queue_fields(head, ("Active", active), counts, shape),
        tables=[
            *(
                [Rows(label="Quota", columns=tuple(quota[0]), rows=[tuple(one.values()) for one in quota])]
                if quota
                else []
            ),
            Rows(label="LocalQueues", columns=("namespace", "name", *GROUPS), rows=rows),
        ],
        moments=moments,
    )


def _leads(known: Sequence[Mapping[str, Any]], led: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """Return the LocalQueues that lead to a ClusterQueue. What a Workload of one had quota of (`led`) tells where it
    leads only as long as nothing else does."""
    places = [(one["namespace"], one["queue"]) for one in led]
    unknown = [one for one in known if not one["cluster_queue"] and (one["namespace"], one["queue"]) in places]
    return [one for one in known if one["cluster_queue"] == name or one in unknown]


def _counts(queues: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {group: sum(one[group] for one in queues) for group in GROUPS}


def _queue_fields(
    head: Mapping[str, str], own: tuple[str, str], counts: Mapping[str, int], shape: Mapping[str, str] | None = None
) -> list[tuple[str, Any]]:
    return [
        ("Name", head["name"]),
        ("Namespace", head["namespace"]),
        ("Kind", head["kind"]),
        *([own] if own[1] or head["namespace"] else []),
        *((name.replace("_", " ").title(), said) for name, said in (shape or {}).items() if said),
        *((f"{group.capitalize()} Workloads", count) for group, count in counts.items()),
    ]


def other(stream: str, explanation: Explanation, moments: Sequence[TimelineEntry]) -> Description:
    """Describe an object of which only `why` and `timeline` tell: a pod, a candidate, a PodGroup, a PipelineRun."""
    kind, _, named = stream.partition("/")
    namespace, _, name = named.rpartition("/")
    stands = explanation.standing
    fields: list[tuple[str, Any]] = [
        ("Name", name),
        ("Namespace", namespace),
        ("State", stands.word),
        ("Cluster", place(stands.cluster)),
        ("Waits For", stands.waits_for),
        ("Why", explanation.sentence),
    ]
    value = {"kind": kind, "namespace": namespace, "name": name, **explained(explanation)}
    tables = [_became(explanation.statements)] if explanation.statements else []
    return Description(value=value, fields=fields, tables=tables, moments=moments)


def _as_listed(reader: LogReader, policy: MultiKueuePolicy, found: Found, now: datetime) -> dict[str, Any]:
    """Return a Workload as the list has it; nothing of one that is gone, or of a job without one."""
    if not found.workload:
        return {}
    index = folded(reader, policy, [found.workload])
    state = index.workloads.get(found.workload)
    if state is None:
        return {}
    return one_of(index, state, reader.first_seen([found.workload]).get(found.workload, now), now)


def _job(found: Found) -> str:
    return "/".join(found.job_names[0].split("/")[::2]) if found.job_names else ""


def _became(statements: Sequence[Statement]) -> Rows:
    rows = [(said.events[0].recorded_at, said.text) for said in statements]
    return Rows(label="What Became Of It", columns=("age", "what"), rows=rows)
