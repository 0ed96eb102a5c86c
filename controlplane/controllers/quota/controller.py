"""Keeps the quotas of workers and the ClusterQueues that they sum up to, in memory as the log says it: the controller
of quota automation.

In: events in the log's order. Out: which ClusterQueues to decide about, and their quotas and conditions where they are
not what they should be. A worker that is out of view gives what was seen of it last, until it is given up: it was
removed, or away for as long as a Workload would wait for it, or an operator gave it up. Nothing is decided about a
queue while a worker of it is connected and its queues are not listed yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import FLEET_STREAM, MANAGEMENT, ServiceStarted
from controlplane.controllers.connectivity.objects import Deduplicator, ObjectPlaces
from controlplane.controllers.connectivity.outage import Outage, fold_outage, outage_resumed
from controlplane.controllers.connectivity.state import Connection, restarted
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.controllers.connectivity.watched import Watched
from controlplane.controllers.quota import events
from controlplane.controllers.quota.aggregate import CONDITION as AUTOMATION
from controlplane.controllers.quota.aggregate import (
    Amounts,
    Automation,
    Place,
    automation,
    is_set,
    refusal,
    spelled,
    total,
)
from controlplane.controllers.quota.observe import automated, queue_stream, seen
from controlplane.controllers.quota.reasons import QuotaReason
from controlplane.controllers.quota.render import request
from controlplane.controllers.quota.workers import KINDS, SeenQuota, Worker
from controlplane.kube import kinds
from controlplane.kube.kinds import Request
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.writes import OpenWrites, WriteFailure, WritingController, dropped, is_late, opened, refused
from controlplane.values import Value

_replace = msgspec.structs.replace
_SEEN: dict[type[Event], str] = {
    events.QuotaQueueObserved: kinds.CLUSTER_QUEUES.name,
    events.QuotaCheckObserved: kinds.ADMISSION_CHECKS.name,
    events.QuotaConfigObserved: kinds.MULTIKUEUE_CONFIGS.name,
    events.QuotaLocalQueueObserved: kinds.LOCAL_QUEUES.name,
    events.WorkerQuotaObserved: kinds.CLUSTER_QUEUES.name,
}
_GONE: dict[type[Event], str] = {
    events.QuotaQueueGone: kinds.CLUSTER_QUEUES.name,
    events.QuotaCheckGone: kinds.ADMISSION_CHECKS.name,
    events.QuotaConfigGone: kinds.MULTIKUEUE_CONFIGS.name,
    events.QuotaLocalQueueGone: kinds.LOCAL_QUEUES.name,
    events.WorkerQuotaGone: kinds.CLUSTER_QUEUES.name,
}
_NEEDED = (*{*_SEEN.values()}, kinds.MULTIKUEUE_CLUSTERS.name)


class QuotaPolicy(Value):
    """The settings."""

    controller_name: str = "kueue.x-k8s.io/multikueue"
    worker_lost_timeout: timedelta = timedelta(minutes=15)


class QueueState(OpenWrites[events.QuotaWrite, WriteFailure]):
    """A ClusterQueue of the management cluster: as it was seen, at which position, and its writes."""

    version: int = 0
    position: int = 0
    observed: events.QuotaQueueObserved | None = None


class _Shares(msgspec.Struct, frozen=True):
    """What the workers of a config give. `waits`: for one that is not listed yet; `until`: when one is given up."""

    of: dict[str, Amounts]
    kept: list[str]
    position: int
    waits: bool
    until: datetime | None


class QuotaController(WritingController[events.QuotaWrite]):
    """See the module."""

    types: Sequence[type[Event]] = (*connectivity.EVENTS, *events.EVENTS)
    FAILED, UNNEEDED = events.QuotaWriteFailed, events.QuotaWriteUnneeded

    GIVEN = ("policy",)

    def __init__(self, policy: QuotaPolicy) -> None:
        self.policy = policy
        self.queues: dict[str, QueueState] = {}
        self.checks: dict[str, SeenQuota[events.QuotaCheckObserved]] = {}
        self.configs: dict[str, SeenQuota[events.QuotaConfigObserved]] = {}
        self.clusters: dict[str, Worker] = {}
        self.places = ObjectPlaces(_SEEN, _GONE)
        self._repeats = Deduplicator()
        self._watched, self._outage = Watched(), Outage()
        self._dirty: dict[str, None] = {}

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen; None if no quota rests on it, or if it says nothing new.

        Of a ClusterQueue that may be written every version is recorded: a write holds for one version alone."""
        found = seen(change, self.policy.controller_name)
        if found is None:
            return None
        stream, event, bodies = found
        if change.gone or (isinstance(event, events.QuotaQueueObserved) and automated(event)):
            self._repeats.forget(change.source)
        elif (
            change.source
            and not isinstance(event, events.QuotaInputRefused)
            and self._repeats.says_nothing_new(change.source, event, listed=change.listed)
        ):
            return None
        return change.observed(stream, event, now, bodies)

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.places.fold(recorded)
        self._watched.fold(recorded)
        first, _, rest = recorded.stream.partition("/")
        if first == "cluster":
            before = self._cluster(rest).connection
            self._cluster(rest).connected(fold_connection(before, recorded), recorded.position)
            if before.facts == self._cluster(rest).connection.facts:
                return
        elif recorded.stream == FLEET_STREAM:
            self._outage = fold_outage(self._outage, recorded)
        elif isinstance(recorded.event, ServiceStarted):
            self._outage = outage_resumed(self._outage, recorded)
            for worker in self.clusters.values():
                worker.connected(restarted(worker.connection, recorded), recorded.position)
        elif first == "quota":
            self._fold_object(recorded)
        self._dirty.update(dict.fromkeys(map(queue_stream, self.queues)))

    def _fold_object(self, recorded: Recorded) -> None:
        event: Any = recorded.event
        word = recorded.stream.split("/")[1]
        if word == "queue":
            self._fold_queue(recorded, recorded.stream.split("/")[2])
        elif word in ("check", "config"):
            table: dict[str, SeenQuota[Any]] = self.checks if word == "check" else self.configs
            if isinstance(event, events.QuotaCheckObserved | events.QuotaConfigObserved):
                table[event.name] = SeenQuota(event, recorded.position)
            elif event.name in table and table[event.name].object.uid == event.uid:
                table.pop(event.name)
        elif word in ("localqueue", "worker"):
            self._cluster(recorded.cluster).fold(recorded)

    def _fold_queue(self, recorded: Recorded, name: str) -> None:
        event: Any = recorded.event
        state = _replace(self.queues.get(name, QueueState()), version=recorded.version)
        if state.observed is None and not isinstance(event, events.QuotaQueueObserved):
            return  # the outcome of a write may come after the end of what was written
        match event:
            case events.QuotaQueueObserved():
                if state.observed is not None and state.observed.uid != event.uid:
                    state = QueueState(version=recorded.version)
                trouble = {at: one for at, one in state.trouble.items() if one.error != "Conflict"}
                state = _replace(state, observed=event, position=recorded.position, effects={}, trouble=trouble)
            case events.QuotaQueueGone():
                if state.observed is not None and state.observed.uid == event.uid:
                    self.queues.pop(name, None)
                    return
            case events.QuotaWrite():
                state = opened(state, event, recorded)
            case events.QuotaWriteFailed() | events.QuotaWriteUnneeded() if is_late(state, event.target, recorded):
                pass
            case events.QuotaWriteFailed():
                state = refused(state, event)
            case events.QuotaWriteUnneeded():
                state = dropped(state, event.target)
        self.queues[name] = state

    def _cluster(self, name: str) -> Worker:
        return self.clusters.setdefault(name, Worker(name))

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        dirty, self._dirty = list(self._dirty), {}
        return dirty

    # --- what follows ------------------------------------------------------------------------------------------------

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what is to be written to a ClusterQueue: its quotas first, then the condition."""
        state = self.queues.get(stream.removeprefix("quota/queue/"))
        if state is None or state.observed is None or state.observed.deleting or not self._ready():
            return Decided()
        until = max((trouble.until for trouble in state.trouble.values()), default=now)
        if state.effects or until > now:
            return Decided((), state.version, until if until > now else None)
        decision, position, wake = self._decided(state.observed, now)
        if decision is None:
            return Decided((), state.version, wake)
        caused_by = max(position, state.position)
        event = NewEvent(stream=stream, event=decision, cluster=MANAGEMENT, caused_by=caused_by)
        return Decided([event], state.version, wake)

    def _ready(self) -> bool:
        home = self._cluster(MANAGEMENT).connection
        return all(home.in_view(kind) for kind in _NEEDED)

    def _decided(
        self, queue: events.QuotaQueueObserved, now: datetime
    ) -> tuple[events.QuotaWrite | None, int, datetime | None]:
        """Return the write, the position of what it rests on, and when to look again."""
        check = next((self.checks[name] for name in sorted(queue.checks) if name in self.checks), None)
        if check is None:
            return _without(queue), 0, None
        config = self.configs.get(check.object.config)
        position = max(check.position, config.position if config is not None else 0)
        wanted = refusal(queue, config.object if config is not None else None)
        wake = None
        if wanted is None and config is not None:
            shares = self._shares(queue.name, config.object.clusters, now)
            position, wake = max(position, shares.position), shares.until
            if shares.waits:
                return None, 0, wake
            wanted = automation(queue, total(shares.of.values()))
            if wanted.status == "True" and not is_set(queue, wanted.resources):
                return _quota(queue, wanted, shares), position, wake
        assert wanted is not None
        return _condition(queue, wanted), position, wake

    def _shares(self, queue: str, clusters: Sequence[str], now: datetime) -> _Shares:
        """Return what the clusters of a config give for a ClusterQueue, each once, by the name under which it is used.

        Where that name is gone and another stands by, the other is waited for."""
        home = self._cluster(MANAGEMENT)
        places = {place for place, one in home.local_queues.items() if one.object.cluster_queue == queue}
        found = _Shares({}, [], max((home.local_queues[place].position for place in places), default=0), False, None)
        behind = {name: one.connection.behind for name, one in self.clusters.items() if one.connection.behind}
        taken_over = {behind[name] for name in clusters if name in behind}
        for name in dict.fromkeys(behind.get(name, name) for name in clusters):
            if (worker := self.clusters.get(name)) is not None:
                found = self._with_worker(found, name, worker, places, now, taken_over=name in taken_over)
        return found

    def _with_worker(
        self, found: _Shares, name: str, worker: Worker, places: Collection[Place], now: datetime, *, taken_over: bool
    ) -> _Shares:
        """Return shares with that of one more worker, or that it is waited for."""
        connection = worker.connection
        if connection.phase == "Unknown" and not connection.connected_once:
            return _replace(found, waits=True)
        given_up = self._given_up_at(connection)
        position = max(found.position, worker.position)
        if connection.removed:
            return _replace(found, position=position, waits=found.waits or taken_over)
        if connection.phase == "Failed" or (given_up is not None and given_up <= now):
            return _replace(found, position=position)
        listed = all(connection.in_view(kind) for kind in KINDS)
        ends = [at for at in (found.until, given_up) if at is not None]
        return _Shares(
            of={**found.of, name: worker.share(places)},
            kept=found.kept if listed else [*found.kept, name],
            position=position,
            waits=found.waits or (connection.connected and not connection.settled(KINDS)),
            until=min(ends, default=None),
        )

    def _given_up_at(self, connection: Connection) -> datetime | None:
        """Return when a worker counts as given up; None: it is connected, or not by itself."""
        if connection.connected or connection.lost_since is None:
            return None
        if connection.forgotten:
            return connection.lost_since
        if self._outage.holds:
            return None
        ours = (connection.lost_clock, self._outage.ended, self._watched.since, connection.untried_since)
        since = max((at for at in ours if at is not None), default=connection.lost_since)
        return since + self.policy.worker_lost_timeout

    # --- what is open ------------------------------------------------------------------------------------------------

    def _writes(self, stream: str) -> OpenWrites[events.QuotaWrite, Any] | None:
        return self.queues.get(stream.removeprefix("quota/queue/"))

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return nothing: what is written is in the decision."""
        return ()

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out, or None if what it was decided on is gone."""
        decision = self._decision(write)
        state = self.queues.get(write.stream.removeprefix("quota/queue/"))
        if decision is None or state is None or state.observed is None:
            return None
        return request(state.observed, decision, now)

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return nothing: the condition says it."""
        return None


def _without(queue: events.QuotaQueueObserved) -> events.QuotaWrite | None:
    """Return the removal of the condition from a queue that MultiKueue has nothing to do with."""
    if not any(one.type == AUTOMATION for one in queue.conditions):
        return None
    return events.QuotaConditionDecided(resource_version=queue.resource_version, reason=QuotaReason.NOT_OF_MULTIKUEUE)


def _condition(queue: events.QuotaQueueObserved, wanted: Automation) -> events.QuotaWrite | None:
    found = next((one for one in queue.conditions if one.type == AUTOMATION), None)
    is_now = (found.status, found.reason, found.message) if found is not None else None
    if is_now == (wanted.status, wanted.reason, wanted.message):
        return None
    return events.QuotaConditionDecided(
        resource_version=queue.resource_version,
        status=wanted.status,
        condition_reason=wanted.reason,
        message=wanted.message,
        generation=queue.generation,
        reason=QuotaReason.CONDITION_CHANGED,
    )


def _quota(queue: events.QuotaQueueObserved, wanted: Automation, shares: _Shares) -> events.QuotaWrite:
    flavor = queue.groups[0].flavors[0]
    return events.QuotaDecided(
        resource_version=queue.resource_version,
        flavor=flavor.name,
        resources=wanted.resources,
        before={one.name: one.nominal for one in flavor.resources},
        shares={
            name: {resource: spelled(resource, amount) for resource, amount in sorted(share.items())}
            for name, share in shares.of.items()
        },
        kept=shares.kept,
        reason=QuotaReason.WORKERS_CHANGED,
    )
