"""Keeps what LocalQueues of worker clusters use, as their statuses say.

In: events of LocalQueues on workers. Out: for a LocalQueue of the management cluster, what those of the same namespace
and name use on each worker. A worker out of reach keeps what it said last: what runs there runs on. One that is
removed, or that an operator gave up, has nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.controllers.connectivity.events import ClusterConnected, ClusterDisconnected, ClusterForgotten
from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.engine.amounts import Requests, add, requested
from controlplane.kube import fields
from controlplane.kube.fields import items, section, text
from controlplane.kube.kinds import LOCAL_QUEUES, Json, meta
from controlplane.kube.pod_requests import amounts
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange

_WORD = "worker"


def stream_of(cluster: str, namespace: str, name: str) -> str:
    """Return the stream of a worker's LocalQueue."""
    return f"admission/{_WORD}/{cluster}/{namespace}/{name}"


def seen(change: ObjectChange) -> tuple[str, Event] | None:
    """Return stream and event of a worker's LocalQueue; None for another kind. `Misfit` or ValueError names the field
    that does not fit."""
    if change.kind != LOCAL_QUEUES:
        return None
    metadata = meta(change.object)
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    stream = stream_of(change.cluster, namespace, name)
    if change.gone:
        return stream, events.WorkerUsageGone(namespace=namespace, name=name, uid=change.uid)
    obj = change.whole()
    return stream, events.WorkerUsageObserved(**fields.identity(obj), used=_used(section(obj, "status")))


def _used(status: Json) -> Requests:
    total: Requests = {}
    for flavor in items(status, "flavorsUsage", "status"):
        for at, resource in enumerate(items(flavor, "resources", "status.flavorsUsage[]")):
            where = f"status.flavorsUsage[].resources[{at}]"
            name = text(resource, "name", where)
            used = amounts({name: resource.get("total") or "0"}, where)[name]
            total[name] = add(total.get(name, 0), requested(name, used))
    return {name: amount for name, amount in sorted(total.items()) if amount}


class WorkerUsage:
    """See the module. A cluster that is gone for good has nothing until it is connected again: then it shows what is
    there."""

    def __init__(self) -> None:
        self._used: dict[str, dict[str, tuple[str, Requests]]] = {}
        self._given_up: set[str] = set()

    def of(self, local_queue: str) -> Mapping[str, Requests]:
        """Return what the LocalQueues of a namespace and name use, by cluster."""
        found = self._used.get(local_queue, {})
        return {cluster: used for cluster, (_, used) in found.items() if cluster not in self._given_up}

    def fold(self, recorded: Recorded) -> list[str]:
        """Take one more event; return the LocalQueues of which something changed, by namespace and name."""
        event: Any = recorded.event
        cluster, key = recorded.cluster, f"{getattr(event, 'namespace', '')}/{getattr(event, 'name', '')}"
        match event:
            case events.WorkerUsageObserved():
                self._used.setdefault(key, {})[cluster] = (event.uid, event.used)
                return [key]
            case events.WorkerUsageGone():
                if self._used.get(key, {}).get(cluster, ("", {}))[0] != event.uid:
                    return []
                del self._used[key][cluster]
                if not self._used[key]:
                    del self._used[key]
                return [key]
            case ClusterForgotten() | ClusterDisconnected(reason="Removed"):
                self._given_up.add(cluster)
            case ClusterConnected() if cluster in self._given_up:
                self._given_up.discard(cluster)
            case _:
                return []
        return [one for one, found in self._used.items() if cluster in found]
