"""Our process in the model: what it sees, folds, decides and asks for, computed once for each distinct question."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection, restarted
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.controllers.multikueue import decide as deciding
from controlplane.controllers.multikueue import render
from controlplane.controllers.multikueue.context import Route, WorkloadContext
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    DeactivationDecided,
    EffectFailed,
    EffectUnneeded,
    FinalizerAdditionDecided,
    FinalizerRemovalDecided,
    JobCreationDecided,
    RemovalDecided,
    WorkloadDecision,
)
from controlplane.controllers.multikueue.existing import is_slice
from controlplane.controllers.multikueue.job_changes import fold_listed
from controlplane.controllers.multikueue.state import fold_return
from controlplane.controllers.multikueue.unobserved_jobs import rests_on
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kinds import WORKLOADS
from controlplane.kube.requests import Obsolete
from controlplane.log.event import Event
from controlplane.runtime.decision_pass import PassResult
from tests.multikueue.model.knowledge import MOST_FAILURES, Log, initial, kept, plain
from tests.multikueue.model.sights import Sights, recorded
from tests.multikueue.model.values import later
from tests.multikueue.model.world import (
    CHECK,
    KINDS_WATCHED,
    START,
    Store,
    Violation,
    at,
)

_MOST_PASSES = 12
_ENDINGS = (RemovalDecided, FinalizerRemovalDecided, FinalizerAdditionDecided, DeactivationDecided)
_replace = msgspec.structs.replace


class Sent(NamedTuple):
    """A write that can be sent: of which Workload it is, its target, where it goes (-1: management), the number of the
    request.
    """

    of: int
    target: str
    place: int
    request: int


class Process(Sights):
    """The steps of our process."""

    def first(self) -> int:
        """Return the log when all workers are connected and nothing was seen yet."""
        up = connectivity.ClusterConnected(kinds=list(KINDS_WATCHED), incarnation="one")
        connections = tuple(fold_connection(Connection(name=name), recorded(up, name)) for name in self.config.names)
        routed = (1 << self.config.clusters) - 1
        return self._put(Log(self._nothing(), None, connections, routed))

    def _nothing(self) -> tuple[WorkloadState, ...]:
        return tuple(initial(name) for name in self.config.workloads)

    # --- what is seen ------------------------------------------------------------------------------------------------

    def look(self, log: int, place: int, slot: str, store: Store, number: int) -> int:
        """See one object of a cluster as it is, and decide; the same log if nothing is new."""
        seen = self._sight(slot, store, number)
        if seen == self._knows(log)[place + 1, slot] or (seen is not None and place >= 0 and not seen[2]):
            return log
        key = ("look", log, place, slot, seen)  # many states of a cluster have the same object
        found: int | None = self._memo.get(key)
        if found is None:
            before = self.logs[log]
            after = self._seen(before, place, slot, store, number)
            found = self._memo[key] = log if after is before else self._settled(after)
        return found

    def knows_home(self, log: int) -> bool:
        """Whether anything of the management cluster was seen."""
        return any(self._knows(log)[0, slot] is not None for slot in self.config.slots)

    def list_home(self, log: int, store: Store, number: int) -> int:
        """See all of the management cluster, and decide then: before its kinds are listed nothing is decided."""
        key = ("home", log, number)
        if key not in self._memo:
            found = self.logs[log]
            for slot in self.config.slots:
                found = self._seen(found, -1, slot, store, number)
            self._memo[key] = self._settled(found)
        return int(self._memo[key])

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
            for slot in self.config.slots:
                found = self._seen(found, place, slot, store, number)
            up = connectivity.ClusterConnected(kinds=list(KINDS_WATCHED), incarnation="one")
            self._memo[key] = self._settled(self._with_connection(found, place, up))
        return int(self._memo[key])

    def put_back(self, log: int, place: int, store: Store, number: int) -> int:
        """A worker was put back to a backup: nothing is in view until all is listed anew."""
        found = self.logs[log]
        back = connectivity.ClusterRestored(restores=1, message="")
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
        for slot in reversed(self.config.slots):
            log = self._gone(log, place, slot)
        for slot in self.config.slots:
            log = self._seen(log, place, slot, store, number)
        return log

    def restart(self, log: int) -> int:
        """Another process takes the log over: no worker is in view."""
        found = self.logs[log]
        started = recorded(connectivity.ServiceStarted(epoch=2, holder="next", version="1"), MANAGEMENT)
        return self._put(found._replace(connections=tuple(plain(restarted(one, started)) for one in found.connections)))

    def forget(self) -> int:
        """Another process begins with an empty log."""
        connections = tuple(Connection(name=name) for name in self.config.names)
        return self._put(Log(self._nothing(), None, connections, (1 << self.config.clusters) - 1))

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
        found, name = self.logs[log], self.config.names[place]
        return any(rests_on(one, self._context(found, of), name, START) for of, one in enumerate(found.states))

    def _connection(self, log: int, place: int, event: Event) -> int:
        return self._settled(self._with_connection(self.logs[log], place, event))

    def _with_connection(self, log: Log, place: int, event: Event) -> Log:
        """Fold an event of a connection, as the index does."""
        name, before = self.config.names[place], log.connections[place]
        after = plain(fold_connection(before, recorded(event, name)))
        states = log.states
        if isinstance(event, connectivity.ClusterConnected) and before.lost_since is not None:
            states = tuple(fold_return(one, name, START) for one in states)
        if isinstance(event, (connectivity.ClusterConnected, connectivity.KindSynced)):
            listed = event.kinds if isinstance(event, connectivity.ClusterConnected) else [event.kind]
            states = tuple(fold_listed(one, name, listed) for one in states)
        connections = (*log.connections[:place], after, *log.connections[place + 1 :])
        return log._replace(states=tuple(kept(one) for one in states), connections=connections)

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
            states, connections = later(found.states, seconds), later(found.connections, seconds)
            if not self.config.gates:  # only the opening of gates is decided by since when a worker is away
                connections = tuple(plain(one) for one in connections)
            self._memo[key] = self._settled(found._replace(states=states, connections=connections))
        return int(self._memo[key])

    def _settled(self, log: Log) -> int:
        """Decide until nothing follows any more, as the loop does after each fold."""
        key = ("settled", self._key(log))
        found: int | None = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._decided(log)
        return found

    def _decided(self, log: Log) -> int:
        """Decide about all Workloads on what is folded, fold what was decided, and so on."""
        for _ in range(_MOST_PASSES):
            plans = [self._plan(log, of) for of in range(len(log.states))]
            if not any(plan.decisions for plan in plans):
                number = self._put(log)
                self._memo["wake", number] = _seconds(min((one.wake for one in plans if one.wake), default=None))
                return number
            for of, plan in enumerate(plans):
                state = log.states[of]
                for decision in plan.decisions:
                    state = self._fold(state, decision, getattr(decision, "cluster", "") or MANAGEMENT)
                log = log.with_state(of, state)
        decided = [type(one).__name__ for plan in plans for one in plan.decisions]
        raise Violation("quiet", f"it goes on deciding: {decided}")

    def _plan(self, log: Log, of: int) -> PassResult[WorkloadDecision]:
        """Return what is decided about one of the Workloads."""
        return deciding.decide(log.states[of], self._context(log, of), START)

    def sends_job_to(self, log: int) -> str:
        """Return the worker on which the job is to be created now, "" if it is not."""
        key = ("sends", log)
        if key not in self._memo:
            effects = [effect for one in self.logs[log].states for effect in one.effects.values()]
            creations = (e.decision.cluster for e in effects if isinstance(e.decision, JobCreationDecided))
            self._memo[key] = next(creations, "")
        return str(self._memo[key])

    def begins_on(self, log: int) -> frozenset[tuple[int, str]]:
        """Return which Workload is to begin on which worker by the open writes: its job is to be created there, or said
        to be there."""
        return self._written(log)[0]

    def ends_on(self, log: int) -> frozenset[tuple[int, str]]:
        """Return of which Workload an open write removes or stops something, on which worker."""
        return self._written(log)[1]

    def _written(self, log: int) -> tuple[frozenset[tuple[int, str]], frozenset[tuple[int, str]]]:
        key = ("written", log)
        if key not in self._memo:
            states = enumerate(self.logs[log].states)
            decisions = [(of, effect.decision) for of, state in states for effect in state.effects.values()]
            begun = {(of, one.cluster) for of, one in decisions if isinstance(one, JobCreationDecided)}
            told = ((of, one) for of, one in decisions if isinstance(one, CheckStateDecided))
            begun |= {(of, one.winner) for of, one in told if one.state == "Ready"}
            ending = {(of, one.cluster) for of, one in decisions if isinstance(one, _ENDINGS)}
            self._memo[key] = frozenset(begun), frozenset(ending)
        found: tuple[frozenset[tuple[int, str]], frozenset[tuple[int, str]]] = self._memo[key]
        return found

    def gave_up(self, log: int, place: int) -> bool:
        """Whether a worker is away and its grace is over: that is asked of the log, and not of the code that
        decides."""
        connection = self.logs[log].connections[place]
        since = connection.lost_clock
        return not self.in_view(log, place) and since is not None and since + self.policy.worker_lost_timeout <= START

    def wake(self, log: int) -> int | None:
        """Return in how many seconds our process wants to look again."""
        key = ("wake", log)
        if key not in self._memo:
            found = self.logs[log]
            plans = [self._plan(found, of) for of in range(len(found.states))]
            self._memo[key] = _seconds(min((one.wake for one in plans if one.wake), default=None))
        found_wake: int | None = self._memo[key]
        return found_wake

    def _context(self, log: Log, of: int) -> WorkloadContext:
        clusters = tuple(name for place, name in enumerate(self.config.names) if log.routed >> place & 1)
        state = log.states[of]
        owner = state.owner
        return WorkloadContext(
            policy=self.policy,
            ready=True,
            route=Route(CHECK, clusters) if state.local is not None and state.local.checks else None,
            adapter=self.policy.adapters.get(owner.gvk) if owner is not None else None,
            job=log.job,
            connections={one.name: one for one in log.connections},
            slices=_slices(log, of) if is_slice(state) else (),
        )

    # --- what is asked for -------------------------------------------------------------------------------------------

    def writes(self, log: int, place: int) -> list[Sent]:
        """Return the open writes to a cluster, without those that are obsolete."""
        key = ("writes", log)
        if key not in self._memo:
            self._memo[key] = by_place = [[] for _ in range(self.config.clusters + 1)]
            found = self.logs[log]
            for of, state in enumerate(found.states):
                for target, effect in sorted(state.effects.items()):
                    try:
                        request = render.render(state, found.job, effect.decision, self._bodies, self.policy, START)
                    except Obsolete:
                        continue
                    cluster = effect.decision.cluster
                    where = -1 if cluster == MANAGEMENT else self.config.names.index(cluster)
                    by_place[where].append(Sent(of, target, where, self.requests.put(request, repr(request))))
        sent: list[Sent] = self._memo[key][place]
        return sent

    def failed(self, log: int, sent: Sent, code: int, error: str) -> int:
        """An API server said no to a write."""
        key = ("failed", log, sent, code, error)
        if key not in self._memo:
            self._memo[key] = self._settled(self._failed(self.logs[log], sent.of, sent.target, code, error))
        return int(self._memo[key])

    def unneeded(self, log: int, sent: Sent) -> int:
        """A write changed nothing."""
        key = ("unneeded", log, sent)
        if key not in self._memo:
            found = self.logs[log]
            decision = found.states[sent.of].effects[sent.target].decision
            event = EffectUnneeded(target=sent.target, action=type(decision).__name__, resource_version="1")
            after = self._fold(found.states[sent.of], event, decision.cluster)
            self._memo[key] = self._settled(found.with_state(sent.of, after))
        return int(self._memo[key])

    def _failed(self, log: Log, of: int, target: str, code: int, error: str) -> Log:
        state = log.states[of]
        effect, before = state.effects[target], state.trouble.get(target)
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
        return log.with_state(of, self._fold(state, event, effect.decision.cluster))


def _slices(log: Log, of: int) -> tuple[WorkloadState, ...]:
    """Return the other Workloads of an elastic job, as the index does."""
    owner, others = log.states[of].owner, (*log.states[:of], *log.states[of + 1 :])
    if owner is None or not owner.uid:
        return ()
    return tuple(one for one in others if one.owner is not None and one.owner.uid == owner.uid)


def _seconds(wake: datetime | None) -> int | None:
    return None if wake is None else int((wake - START).total_seconds())
