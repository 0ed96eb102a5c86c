"""Our process in the model: what it sees, folds, decides and asks for, computed once for each distinct question."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT, cluster_stream
from controlplane.controllers.connectivity.state import Connection, restarted
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.controllers.multikueue import decide as deciding
from controlplane.controllers.multikueue import render
from controlplane.controllers.multikueue.context import Route, WorkloadContext
from controlplane.controllers.multikueue.events import EffectFailed, JobCreationDecided
from controlplane.controllers.multikueue.job_changes import fold_job
from controlplane.controllers.multikueue.observations import JobGone, JobObserved
from controlplane.controllers.multikueue.observe import WorkloadObserver
from controlplane.controllers.multikueue.state import WorkloadState, fold, fold_listed, fold_return
from controlplane.controllers.multikueue.unobserved_jobs import rests_on
from controlplane.kube.kinds import JOBS, WORKLOADS, meta
from controlplane.kube.requests import Obsolete
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange
from tests.multikueue.model.api import Api
from tests.multikueue.model.knowledge import MOST_FAILURES, STREAM, Knowledge, Log, kept, plain
from tests.multikueue.model.values import later
from tests.multikueue.model.world import (
    CHECK,
    KINDS_WATCHED,
    START,
    Config,
    Store,
    Violation,
    at,
)

_MOST_PASSES = 12
_replace = msgspec.structs.replace


class Sent(NamedTuple):
    """A write that can be sent: its target, where it goes (-1: management), the number of the request."""

    target: str
    place: int
    request: int


class Process(Knowledge):
    """The steps of our process."""

    def __init__(self, config: Config, api: Api) -> None:
        super().__init__(config, api)
        self._bodies: dict[str, bytes] = {}
        self._observer = WorkloadObserver(
            self.policy.adapters, self.policy.controller_name, lambda cluster, uid: STREAM
        )

    def first(self) -> int:
        """Return the log when all workers are connected and nothing was seen yet."""
        up = connectivity.ClusterConnected(kinds=list(KINDS_WATCHED), incarnation="one")
        connections = tuple(fold_connection(Connection(name=name), _recorded(up, name)) for name in self.config.names)
        routed = (1 << self.config.clusters) - 1
        return self._put(Log(WorkloadState.initial(STREAM), None, connections, routed))

    # --- what is seen ------------------------------------------------------------------------------------------------

    def look(self, log: int, place: int, slot: str, store: Store, number: int) -> int:
        """See one object of a cluster as it is, and decide; the same log if nothing is new."""
        seen = self._sight(slot, store, number)
        if seen == self._knows(log)[place + 1, slot] or (seen is not None and place >= 0 and not seen[2]):
            return log
        key = (log, place, slot, number)
        found: int | None = self._memo.get(key)
        if found is None:
            before = self.logs[log]
            after = self._seen(before, place, slot, store, number)
            found = self._memo[key] = log if after is before else self._settled(after)
        return found

    def _sight(self, slot: str, store: Store, number: int) -> tuple[str, str, bool] | None:
        """Return what tells whether an object is news: its UID and resourceVersion; and whether it is a copy of ours."""
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
                for slot in ("workload", "job"):
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
            cluster, kind = self._cluster(place), WORKLOADS if slot == "workload" else JOBS
            self._memo[key] = self._observed(ObjectChange(cluster, "", kind, shown, sight[1], gone=False))
        return self._folded(log, place, self._memo[key])

    def _gone(self, log: Log, place: int, slot: str) -> Log:
        """Fold that an object is gone."""
        known, kind = self._known(log, place, slot), WORKLOADS if slot == "workload" else JOBS
        if known is None:
            return log
        gone = {"metadata": {"namespace": known.namespace, "name": known.name, "uid": known.uid, "labels": {}}}
        change = ObjectChange(self._cluster(place), "", kind, gone, "", gone=True)
        return self._folded(log, place, self._observed(change))

    def _cluster(self, place: int) -> str:
        return self.config.names[place] if place >= 0 else MANAGEMENT

    def _known(self, log: Log, place: int, slot: str) -> Any:
        if place < 0:
            return log.state.local if slot == "workload" else log.job
        remote = log.state.remote(self.config.names[place])
        return remote.clone if slot == "workload" else remote.job

    def _observed(self, change: ObjectChange) -> Event:
        new = self._observer.observe(change, START)
        if new is None:
            raise Violation("observed", f"nothing is recorded of {change}")
        self._bodies.update({body.ref: body.text.encode() for body in new.bodies})
        if new.stream != STREAM and not isinstance(new.event, (JobObserved, JobGone)):
            raise Violation("stream", f"{type(new.event).__name__} was recorded on {new.stream}")
        return new.event

    def _folded(self, log: Log, place: int, event: Event) -> Log:
        if isinstance(event, (JobObserved, JobGone)):
            after = event if isinstance(event, JobObserved) else None
            return log._replace(job=after, state=kept(fold_job(log.state, log.job, after)))
        return log._replace(state=self._fold(log.state, event, self._cluster(place)))

    def _fold(self, state: WorkloadState, event: Event, cluster: str) -> WorkloadState:
        newest = 1 + max((remote.admitted_at for remote in state.remotes.values()), default=0)
        return kept(fold(state, _recorded(event, cluster, newest)))

    # --- connections -------------------------------------------------------------------------------------------------

    def lose(self, log: int, place: int) -> int:
        """A worker is found to be away."""
        if self.in_view(log, place):
            return self._connection(log, place, connectivity.ClusterLost(reason="Unreachable", message="no answer"))
        event = connectivity.ClusterConnectFailed(reason="Unreachable", message="no answer", attempt=1)
        return self._connection(log, place, event)

    def connected(self, log: int, place: int, store: Store, number: int) -> int:
        """A worker answers again: everything of ours there is listed, then it is in view."""
        key = ("connected", log, place, number)
        if key not in self._memo:
            found = self.logs[log]
            for slot in ("workload", "job"):
                found = self._seen(found, place, slot, store, number)
            up = connectivity.ClusterConnected(kinds=list(KINDS_WATCHED), incarnation="one")
            self._memo[key] = self._settled(self._with_connection(found, place, up))
        return int(self._memo[key])

    def put_back(self, log: int, place: int, store: Store, number: int) -> int:
        """A worker was put back to a backup: nothing is in view until all is listed anew."""
        found = self.logs[log]
        back = connectivity.ClusterRestored(life=1, message="")
        found = self._with_connection(found, place, back)
        found = self._anew(found, place, store, number)
        for kind in KINDS_WATCHED:
            found = self._with_connection(
                found, place, connectivity.KindSynced(kind=kind, count=1, resource_version="1")
            )
        return self._settled(found)

    def adopted(self, log: int, place: int, store: Store, number: int) -> int:
        """Another cluster answers under a name, and is used."""
        found = self.logs[log]
        up = connectivity.ClusterConnected(kinds=list(KINDS_WATCHED), incarnation="one")
        return self._settled(self._with_connection(self._anew(found, place, store, number), place, up))

    def _anew(self, log: Log, place: int, store: Store, number: int) -> Log:
        """See what there is in another incarnation of a cluster: what was there is gone, and what is there is news."""
        for slot in ("job", "workload"):
            log = self._gone(log, place, slot)
        for slot in ("workload", "job"):
            log = self._seen(log, place, slot, store, number)
        return log

    def restart(self, log: int) -> int:
        """Another process takes the log over: no worker is in view."""
        found = self.logs[log]
        started = _recorded(connectivity.ServiceStarted(epoch=2, holder="next", version="1"), MANAGEMENT)
        return self._put(found._replace(connections=tuple(plain(restarted(one, started)) for one in found.connections)))

    def forget(self) -> int:
        """Another process begins with an empty log."""
        connections = tuple(Connection(name=name) for name in self.config.names)
        return self._put(Log(WorkloadState.initial(STREAM), None, connections, (1 << self.config.clusters) - 1))

    def in_view(self, log: int, place: int) -> bool:
        """Whether our process sees what happens on a worker."""
        return bool(self.seen_now(log) >> place & 1)

    def seen_now(self, log: int) -> int:
        """Return the workers, as bits, of which our process sees what happens."""
        key = ("view", log)
        found: int | None = self._memo.get(key)
        if found is None:
            views = (one.connected and one.in_view(WORKLOADS.name) for one in self.logs[log].connections)
            found = self._memo[key] = sum(1 << place for place, seen in enumerate(views) if seen)
        return found

    def untried(self, log: int, place: int) -> bool:
        """Whether our process has not tried a worker since it began."""
        return self.logs[log].connections[place].phase == "Unknown"

    def rests_on(self, log: int, place: int) -> bool:
        """Whether the Workload waits for what may run on the cluster that a name led to."""
        found = self.logs[log]
        return rests_on(found.state, self._context(found), self.config.names[place], START)

    def _connection(self, log: int, place: int, event: Event) -> int:
        return self._settled(self._with_connection(self.logs[log], place, event))

    def _with_connection(self, log: Log, place: int, event: Event) -> Log:
        """Fold an event of a connection, as the index does."""
        name, before = self.config.names[place], log.connections[place]
        after = plain(fold_connection(before, _recorded(event, name)))
        state = log.state
        if isinstance(event, connectivity.ClusterConnected) and before.lost_since is not None:
            state = fold_return(state, name, START)
        if isinstance(event, (connectivity.ClusterConnected, connectivity.KindSynced)):
            listed = event.kinds if isinstance(event, connectivity.ClusterConnected) else [event.kind]
            state = fold_listed(state, name, listed)
        connections = (*log.connections[:place], after, *log.connections[place + 1 :])
        return log._replace(state=kept(state), connections=connections)

    # --- what is decided ---------------------------------------------------------------------------------------------

    def without(self, log: int, place: int) -> int:
        """A worker is taken out of the configuration."""
        found = self.logs[log]
        return self._settled(found._replace(routed=found.routed & ~(1 << place)))

    def pass_time(self, log: int, seconds: int) -> int:
        """Time passes, and what is due is decided."""
        key = ("time", log, seconds)
        if key not in self._memo:
            found = self.logs[log]
            state, connections = later(found.state, seconds), later(found.connections, seconds)
            self._memo[key] = self._settled(found._replace(state=state, connections=connections))
        return int(self._memo[key])

    def _settled(self, log: Log) -> int:
        """Decide until nothing follows any more, as the loop does after each fold."""
        for _ in range(_MOST_PASSES):
            plan = deciding.decide(log.state, self._context(log), START)
            if not plan.decisions:
                number = self._put(log)
                self._memo["wake", number] = _seconds(plan.wake)
                return number
            state = log.state
            for decision in plan.decisions:
                state = self._fold(state, decision, getattr(decision, "cluster", "") or MANAGEMENT)
            log = log._replace(state=state)
        raise Violation("quiet", f"it goes on deciding: {[type(one).__name__ for one in plan.decisions]}")

    def sends_job_to(self, log: int) -> str:
        """Return the worker on which the job is to be created now, "" if it is not."""
        key = ("sends", log)
        if key not in self._memo:
            effects = self.logs[log].state.effects.values()
            creations = (e.decision.cluster for e in effects if isinstance(e.decision, JobCreationDecided))
            self._memo[key] = next(creations, "")
        return str(self._memo[key])

    def gave_up(self, log: int, place: int) -> bool:
        """Whether a worker is away and its grace is over: that is asked of the log, and not of the code that decides."""
        connection = self.logs[log].connections[place]
        since = connection.lost_clock
        return not self.in_view(log, place) and since is not None and since + self.policy.worker_lost_timeout <= START

    def wake(self, log: int) -> int | None:
        """Return in how many seconds our process wants to look again."""
        key = ("wake", log)
        if key not in self._memo:
            found = self.logs[log]
            self._memo[key] = _seconds(deciding.decide(found.state, self._context(found), START).wake)
        found_wake: int | None = self._memo[key]
        return found_wake

    def _context(self, log: Log) -> WorkloadContext:
        clusters = tuple(name for place, name in enumerate(self.config.names) if log.routed >> place & 1)
        owner = log.state.owner
        return WorkloadContext(
            policy=self.policy,
            ready=True,
            route=Route(CHECK, clusters) if log.state.local is not None and log.state.local.checks else None,
            adapter=self.policy.adapters.get(owner.gvk) if owner is not None else None,
            job=log.job,
            connections={one.name: one for one in log.connections},
        )

    # --- what is asked for -------------------------------------------------------------------------------------------

    def writes(self, log: int, place: int) -> list[Sent]:
        """Return the open writes to a cluster, without those that are obsolete."""
        key = ("writes", log)
        if key not in self._memo:
            self._memo[key] = by_place = [[] for _ in range(self.config.clusters + 1)]
            found = self.logs[log]
            for target, effect in sorted(found.state.effects.items()):
                try:
                    request = render.render(found.state, found.job, effect.decision, self._bodies, self.policy, START)
                except Obsolete:
                    continue
                cluster = effect.decision.cluster
                where = -1 if cluster == MANAGEMENT else self.config.names.index(cluster)
                by_place[where].append(Sent(target, where, self.requests.put(request, repr(request))))
        sent: list[Sent] = self._memo[key][place]
        return sent

    def failed(self, log: int, target: str, code: int, error: str) -> int:
        """An API server said no to a write."""
        key = ("failed", log, target, code, error)
        if key not in self._memo:
            self._memo[key] = self._settled(self._failed(self.logs[log], target, code, error))
        return int(self._memo[key])

    def _failed(self, log: Log, target: str, code: int, error: str) -> Log:
        effect, before = log.state.effects[target], log.state.trouble.get(target)
        action = type(effect.decision).__name__
        failures = before.failures + 1 if before is not None and before.action == action else 1
        event = EffectFailed(
            target=target,
            action=action,
            code=code,
            error=error,
            message=error,
            failures=failures,
            retry_at=at(2 ** min(failures, MOST_FAILURES)),
        )
        return log._replace(state=self._fold(log.state, event, effect.decision.cluster))


def _recorded(event: Event, cluster: str, position: int = 0) -> Recorded:
    stream = STREAM if not isinstance(event, connectivity.EVENTS) else cluster_stream(cluster)
    return Recorded(position=position, stream=stream, version=0, event=event, cluster=cluster, recorded_at=START)


def _seconds(wake: datetime | None) -> int | None:
    return None if wake is None else int((wake - START).total_seconds())
