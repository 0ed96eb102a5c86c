"""What really happened on the workers, written down by the clusters themselves and not by the service that is judged.

In: every commit of every worker's store. Out: which job started where and how often, and what runs now. A start is the
moment at which a job's status says when it started and did not say so before; a job that is suspended and resumed
therefore starts twice."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.kube.kinds import JOBS, WORKLOADS, Json, meta
from controlplane.simulation.apiserver.store import StoreEvent
from controlplane.simulation.world import World


class Witness:
    """Looks at the workers of a world from now on. `starts` holds the workers on which each job (by name) started, in
    order.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.starts: dict[str, list[str]] = {}
        self._running: dict[str, str] = {}
        self._ended: set[str] = set()
        for name, cluster in world.workers.items():
            cluster.store.subscribe(self._listener(name))

    @property
    def running(self) -> dict[str, str]:
        """The jobs that now run, with the worker of each."""
        return {name: cluster for name, cluster in self._running.items() if name not in self._ended}

    def left(self) -> list[str]:
        """Return what is left on the workers: `worker-1: Job default/train-01`."""
        found = []
        for name, cluster in self._world.workers.items():
            for kind in (WORKLOADS, JOBS):
                found += [f"{name}: {kind.kind} {r.namespace}/{r.name}" for r in cluster.store.records(kind)]
        return found

    def _listener(self, cluster: str) -> Callable[[StoreEvent], None]:
        seen: set[str] = set()  # the uids of the jobs that have a start time now

        def hear(event: StoreEvent) -> None:
            if event.kind != JOBS:
                return
            name, uid = str(meta(event.object)["name"]), str(meta(event.object)["uid"])
            started = event.type != "DELETED" and bool((event.object.get("status") or {}).get("startTime"))
            if started and uid not in seen:
                seen.add(uid)
                self.starts.setdefault(name, []).append(cluster)
                self._running[name] = cluster
                self._ended.discard(name)
            elif not started:
                seen.discard(uid)
                self._ended.add(name)
            if ending(event.object):
                self._ended.add(name)

        return hear


def ending(job: Json) -> str:
    """Return how a job ended, `Complete` or `Failed`; "" while it has not."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((c["type"] for c in conditions if c["type"] in ("Complete", "Failed") and c["status"] == "True"), "")
