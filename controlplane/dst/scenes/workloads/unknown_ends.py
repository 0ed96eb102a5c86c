"""Ends of jobs that nobody knows any more: the service may not be asked for them.

In: deletions on workers, the service's own writes, and the log when it was put back. Out: the UIDs of the users' jobs
whose last status is nowhere. A last status that is forbidden on the management cluster is on the worker, in the copy,
and in the log. Where somebody other than the service deletes the copy, and the log goes back to before it saw that end,
nothing is left that tells it (docs/explanation/failure-model.md, "The last status of a job is forbidden for long"): the
job keeps the status that was seen last. A copy that the service deleted itself excuses nothing, nor does an end that
the log still has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controlplane.clusters.protocol import ApiError
from controlplane.dst.engine.server import Written
from controlplane.dst.scenes.workloads.actor_protocol import ActorContext
from controlplane.dst.scenes.workloads.kinds import ADAPTERS, served_in
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import WORKLOADS, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL, PREBUILT
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.apiserver.store import Store

_Copy = tuple[str, str]
"""The cluster and the UID of a job on it."""


class UnknownEnds:
    """Which ends somebody has deleted, and `jobs`: those that nobody knows any more, by the UID of the user's job."""

    def __init__(self) -> None:
        self.jobs: set[str] = set()
        self._deleted: dict[str, set[_Copy]] = {}
        self._by_service: set[_Copy] = set()

    def on_written(self, write: Written) -> None:
        """Take note of a copy that the service deletes, or whose Workload it deletes."""
        if write.verb == "delete" and write.before is not None:
            owners = meta(write.before.obj).get("ownerReferences") or () if write.kind == WORKLOADS else ()
            self._by_service |= {(write.cluster, uid) for uid in (write.uid, *(owner["uid"] for owner in owners))}

    def on_commit(self, cluster: str, commit: Commit) -> None:
        """Take note of a copy that is deleted on a worker when it has ended."""
        record = commit.record
        if commit.type == "DELETED" and record.kind in ADAPTERS and ORIGIN_LABEL in record.labels:
            ended = ADAPTERS[record.kind].outcome(record.obj.get("status") or {}) is not None
            bound = str((meta(record.obj).get("annotations") or {}).get(PREBUILT) or "")
            if ended and bound:
                self._deleted.setdefault(bound, set()).add((cluster, record.uid))

    def log_went_back(self, scene: ActorContext, has_end: Callable[[str], bool]) -> None:
        """Look for jobs that have not ended, of a Workload that has, of whose end no worker has anything, nor the log
        that is left, as `has_end(stream)` says."""
        home = scene.environment.management.store
        kept = {bound for place in scene.environment.workers.values() for bound in _ended_in(place.store)}
        for workload in home.records(WORKLOADS):
            deleted = self._deleted.get(workload.name, set())
            known = has_end(f"workload/{workload.namespace}/{workload.name}")
            if not deleted or deleted & self._by_service or workload.name in kept or known:
                continue
            if is_true(workload.obj, "Finished"):
                self.jobs |= {owner["uid"] for owner in meta(workload.obj).get("ownerReferences") or ()}

    def excuses(self, scene: ActorContext, name: str) -> bool:
        """Whether the end of a user's job, which says that it has not ended, is known to nobody."""
        if name in scene.deleted:
            return False
        try:
            job = scene.environment.management.store.record(scene.submitted[name], "default", name)
        except ApiError:
            return False
        return job.uid in self.jobs and ADAPTERS[job.kind].outcome(job.obj.get("status") or {}) is None


def _ended_in(store: Store) -> Iterable[str]:
    """Yield the names of the Workloads whose copies have ended, and are there."""
    for kind in served_in(store):
        for record in store.records(kind):
            if ADAPTERS[kind].outcome(record.obj.get("status") or {}) is not None:
                yield str((meta(record.obj).get("annotations") or {}).get(PREBUILT) or "")
