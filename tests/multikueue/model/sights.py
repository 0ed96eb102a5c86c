"""What our process sees: what is recorded of an object of a cluster, by the product's own observer, and folded.

In: a log, and a cluster's objects. Out: the log after a look at one of them. What an event shows to several Workloads
of a job is folded as in `controlplane.controllers.multikueue.index`."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT, cluster_stream
from controlplane.controllers.multikueue.job_changes import fold_job, fold_moved
from controlplane.controllers.multikueue.observations import JobGone, JobObserved, RemoteJobObserved
from controlplane.controllers.multikueue.observe import WorkloadObserver, workload_stream
from controlplane.controllers.multikueue.state import fold
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kinds import JOBS, WORKLOADS, meta
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange
from tests.multikueue.model.api import Api
from tests.multikueue.model.knowledge import Knowledge, Log, kept
from tests.multikueue.model.world import NAMESPACE, START, Config, Store, Violation


class Sights(Knowledge):
    """What is seen of clusters."""

    def __init__(self, config: Config, api: Api) -> None:
        super().__init__(config, api)
        self._bodies: dict[str, bytes] = {}
        self._observer = WorkloadObserver(
            self.policy.adapters, self.policy.controller_name, lambda cluster, uid: self._streams[0]
        )
        self._streams = [workload_stream(NAMESPACE, name) for name in config.workloads]

    def _sight(self, slot: str, store: Store, number: int) -> tuple[str, str, bool] | None:
        """Return what tells whether an object is news: its UID and resourceVersion; and whether it is a copy of
        ours."""
        key = slot, number
        if key not in self._memo:
            obj = store[slot]
            ours = obj is not None and self.policy.origin in (meta(obj).get("labels") or {}).values()
            self._memo[key] = (str(meta(obj)["uid"]), self.api.version(obj), ours) if obj is not None else None
        found: tuple[str, str, bool] | None = self._memo[key]
        return found

    def _knows(self, log: int) -> dict[tuple[int, str], tuple[str, str, bool] | None]:
        """Return what the log knows of each object, as `_sight` has it."""
        key = ("knows", log)
        found: dict[tuple[int, str], tuple[str, str, bool] | None] | None = self._memo.get(key)
        if found is None:
            found = self._memo[key] = {}
            for place in range(-1, self.config.clusters):
                for slot in self.config.slots:
                    known = self._known(self.logs[log], place, slot)
                    # The user's own objects are no copies, and what is seen of a worker are copies only.
                    mine = place >= 0
                    found[place + 1, slot] = (known.uid, known.resource_version, mine) if known is not None else None
        return found

    def _seen(self, log: Log, place: int, slot: str, store: Store, number: int) -> Log:
        """Fold what a watch shows of one object, if it is news."""
        known, sight = self._known(log, place, slot), self._sight(slot, store, number)
        if known is not None and (sight is None or sight[0] != known.uid):
            log, known = self._gone(log, place, slot), None
        if sight is None or (known is not None and known.resource_version == sight[1]):
            return log
        if place >= 0 and not sight[2]:
            return log  # the watch asks for our origin label
        key = ("event", place < 0, slot, number)
        if key not in self._memo:
            shown = self.api.shown(store[slot])
            cluster, kind = self._cluster(place), JOBS if slot == "job" else WORKLOADS
            self._memo[key] = self._observed(ObjectChange(cluster, "", kind, shown, sight[1], gone=False))
        return self._folded(log, place, *self._memo[key])

    def _gone(self, log: Log, place: int, slot: str) -> Log:
        """Fold that an object is gone."""
        known, kind = self._known(log, place, slot), JOBS if slot == "job" else WORKLOADS
        if known is None:
            return log
        gone = {"metadata": {"namespace": known.namespace, "name": known.name, "uid": known.uid, "labels": {}}}
        change = ObjectChange(self._cluster(place), "", kind, gone, "", gone=True)
        of, event = self._observed(change)
        return self._folded(log, place, self._holder(log, place) if slot == "job" else of, event)

    def _cluster(self, place: int) -> str:
        return self.config.names[place] if place >= 0 else MANAGEMENT

    def _known(self, log: Log, place: int, slot: str) -> Any:
        if place < 0 and slot == "job":
            return log.job
        of = self._holder(log, place) if slot == "job" else int(slot == "next")
        if place < 0:
            return log.states[of].local
        remote = log.states[of].remote(self.config.names[place])
        return remote.job if slot == "job" else remote.clone

    def _holder(self, log: Log, place: int) -> int:
        """Return the Workload on whose stream the job on a worker was recorded."""
        if place < 0 or len(log.states) == 1:
            return 0
        return next(
            (of for of, one in enumerate(log.states) if one.remote(self.config.names[place]).job is not None), 0
        )

    def _observed(self, change: ObjectChange) -> tuple[int, Event]:
        """Return the event of what is seen, and of which Workload it is."""
        new = self._observer.observe(change, START)
        if new is None:
            raise Violation("observed", f"nothing is recorded of {change}")
        self._bodies.update({body.ref: body.text.encode() for body in new.bodies})
        if isinstance(new.event, (JobObserved, JobGone)):
            return 0, new.event
        if new.stream not in self._streams:
            raise Violation("stream", f"{type(new.event).__name__} was recorded on {new.stream}")
        return self._streams.index(new.stream), new.event

    def _folded(self, log: Log, place: int, of: int, event: Event) -> Log:
        """Fold an event, as the index does: the user's job is that of all its Workloads, and its copy that of one."""
        if isinstance(event, (JobObserved, JobGone)):
            after = event if isinstance(event, JobObserved) else None
            return log._replace(job=after, states=tuple(kept(fold_job(one, log.job, after)) for one in log.states))
        cluster = self._cluster(place)
        log = log.with_state(of, self._fold(log.states[of], event, cluster))
        if isinstance(event, RemoteJobObserved):
            for other in range(len(log.states)):
                if other != of:
                    log = log.with_state(other, kept(fold_moved(log.states[other], cluster, event.uid)))
        return log

    def _fold(self, state: WorkloadState, event: Event, cluster: str) -> WorkloadState:
        newest = 1 + max((remote.admitted_at for remote in state.remotes.values()), default=0)
        return kept(fold(state, recorded(event, cluster, newest)))


def recorded(event: Event, cluster: str, position: int = 0) -> Recorded:
    """Return an event as the log has it."""
    stream = cluster_stream(cluster) if isinstance(event, connectivity.EVENTS) else ""
    return Recorded(position=position, stream=stream, version=0, event=event, cluster=cluster, recorded_at=START)
