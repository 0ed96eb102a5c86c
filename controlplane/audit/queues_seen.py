"""A ClusterQueue as admission saw it last, where this service decides on quota: whether it is Active, and its quota.

In: a reader and a name. Out: the observation, and out of it plain values. What `status` says was written by
admission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from controlplane.audit.past import GROUPS
from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.quota.admission.events import (
    AdmissionClusterQueueObserved,
    AdmissionInputRefused,
)
from controlplane.controllers.quota.admission.observe import refusals_of, stream_of
from controlplane.kube import kinds


def cluster_queue_at(reader: LogReader, name: str) -> AdmissionClusterQueueObserved | None:
    """Return a ClusterQueue as it was seen last; None if admission never saw it, or it is gone."""
    streams = [stream_of(kinds.CLUSTER_QUEUES, "", name)]
    newest = Filter(streams=streams, types=["AdmissionClusterQueueObserved"])
    seen = next(iter(reader.events(newest, limit=1, newest=True)), None)
    if seen is None or not isinstance(seen.event, AdmissionClusterQueueObserved):
        return None
    # A list shows another one of the name before it says that the one before is gone.
    ends = Filter(streams=streams, types=["AdmissionClusterQueueGone"], after=seen.position)
    gone = any(getattr(one.event, "uid", "") == seen.event.uid for one in reader.events(ends))
    return None if gone else seen.event


def active_of(seen: AdmissionClusterQueueObserved | None) -> str:
    """Return what the condition Active says, "" if nothing."""
    conditions = seen.status.get("conditions") or () if seen is not None else ()
    found = next((one for one in conditions if one.get("type") == "Active"), None)
    if found is None:
        return ""
    return f"{found.get('status')} ({found.get('reason')}: {str(found.get('message') or '').rstrip('.')})"


def _absent(reader: LogReader, name: str) -> str:
    """Return why admission knows no ClusterQueue of a name, "" where it knows none at all: it does not decide there."""
    streams = [refusals_of(kinds.CLUSTER_QUEUES, "", name), stream_of(kinds.CLUSTER_QUEUES, "", name)]
    newest = next(iter(reader.events(Filter(streams=streams), limit=1, newest=True)), None)
    if newest is not None and isinstance(newest.event, AdmissionInputRefused):
        return f"cannot be read: {newest.event.error}"
    decides = next(iter(reader.events(Filter(types=["AdmissionClusterQueueObserved"]), limit=1)), None)
    return "does not exist" if decides is not None else ""


def quota_of(seen: AdmissionClusterQueueObserved | None) -> list[dict[str, Any]]:
    """Return for each flavor and resource the nominal quota, and how much is reserved, used by those admitted, and
    borrowed, as quantities."""
    if seen is None:
        return []
    reserved, used = _amounts(seen.status.get("flavorsReservation")), _amounts(seen.status.get("flavorsUsage"))
    found = []
    for group in seen.spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for one in flavor.get("resources") or ():
                place = str(flavor.get("name")), str(one.get("name"))
                holds = reserved.get(place, {})
                found.append(
                    {
                        "flavor": place[0],
                        "resource": place[1],
                        "nominal": str(one.get("nominalQuota")),
                        "reserved": str(holds.get("total", "0")),
                        "used": str(used.get(place, {}).get("total", "0")),
                        "borrowed": str(holds.get("borrowed", "0")),
                    }
                )
    return found


def _amounts(flavors: Any) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {
        (str(flavor.get("name")), str(one.get("name"))): one
        for flavor in flavors or ()
        for one in flavor.get("resources") or ()
    }


def cluster_queues_of(reader: LogReader, local: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the ClusterQueues that the log knows, by name: with the counts of the LocalQueues that lead to each, as
    `past.queues_at` has them, and where this service decides on quota what admission saw of it last."""
    named = {one["cluster_queue"] for one in local if one["cluster_queue"]}
    there = {str(row["name"]) for row in reader.rows(_THERE)}
    listed = []
    for name in sorted(named | there):
        seen = cluster_queue_at(reader, name)
        row = _listed(name, seen, [one for one in local if one["cluster_queue"] == name])
        listed.append(row if seen is not None else {**row, "active": _absent(reader, name)})
    return listed


# Of a name the newest of what MultiKueue and admission saw, each in a stream of its own.
_THERE: LiteralString = """
SELECT DISTINCT s.name FROM audit.streams s
CROSS JOIN LATERAL (
    SELECT e.position, e.data ->> 'uid' AS uid FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.type IN ('ClusterQueueObserved', 'AdmissionClusterQueueObserved')
    ORDER BY e.version DESC LIMIT 1
) e
WHERE s.log = %(log)s
  AND (s.kind = 'clusterqueue' OR s.stream >= 'admission/clusterqueue/' AND s.stream < 'admission/clusterqueue0')
  AND NOT EXISTS (
      SELECT FROM audit.events g
      WHERE g.log = s.log AND g.stream = s.stream AND g.position > e.position
        AND g.type IN ('ClusterQueueGone', 'AdmissionClusterQueueGone') AND g.data ->> 'uid' = e.uid)"""


def shape_seen(seen: AdmissionClusterQueueObserved | None) -> dict[str, str]:
    """Return Cohort, strategy and stop policy of a ClusterQueue, "" where nothing is known or set."""
    spec = seen.spec if seen is not None else {}
    stop = str(spec.get("stopPolicy") or "")
    return {
        "cohort": str(spec.get("cohortName") or ""),
        "strategy": str(spec.get("queueingStrategy") or ("BestEffortFIFO" if spec else "")),
        "stop_policy": "" if stop == "None" else stop,
    }


def _listed(
    name: str, seen: AdmissionClusterQueueObserved | None, leads: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    shape = shape_seen(seen)
    return {
        "queue": name,
        "cohort": shape["cohort"],
        "active": active_of(seen),
        **{group: sum(one[group] for one in leads) for group in GROUPS},
        "strategy": shape["strategy"],
        "stop_policy": shape["stop_policy"],
        "local_queues": [f"{one['namespace']}/{one['queue']}" for one in leads],
        "quota": quota_of(seen),
    }
