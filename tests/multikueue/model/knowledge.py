"""What our process knows, as a value: the log, folded. What nothing is decided on is left out or made equal, so that
what cannot be told apart is one state: positions, versions, marks, the numbers of attempts, and times that are over.
Which of two copies was seen to be admitted first is kept, and no more of it."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.observations import JobObserved
from controlplane.controllers.multikueue.observe import workload_stream
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kinds import Request
from tests.candidates.model.intern import Interner
from tests.multikueue.model.api import Api
from tests.multikueue.model.values import Exchange, Order, exchanged_json
from tests.multikueue.model.world import NAMESPACE, START, Config

MOST_FAILURES = 3
_replace = msgspec.structs.replace


class Log(NamedTuple):
    """What our process knows. `states`: of each Workload of the job; `routed`: the workers of the configuration, as
    bits."""

    states: tuple[WorkloadState, ...]
    job: JobObserved | None
    connections: tuple[Connection, ...]
    routed: int

    def with_state(self, of: int, state: WorkloadState) -> Log:
        """Return the log with another state of one of the Workloads."""
        return self._replace(states=(*self.states[:of], state, *self.states[of + 1 :]))


class Knowledge:
    """Logs and requests by their numbers, and what is asked of them without deciding anything."""

    def __init__(self, config: Config, api: Api) -> None:
        self.config, self.api, self.policy = config, api, config.policy
        self.logs: Interner[Log] = Interner()
        self.requests: Interner[Request] = Interner()
        self.exchange = Exchange(self._version)
        self._memo: dict[Any, Any] = {}

    def _put(self, log: Log) -> int:
        return self.logs.put(log, self._key(log))

    @staticmethod
    def _key(log: Log) -> bytes:
        """Return what is equal for equal logs; their text itself would take most of the memory."""
        sorts = "|".join(_sorts(state) for state in log.states)
        return blake2b(msgspec.json.encode((sorts, log), order="sorted"), digest_size=16).digest()

    def uids(self, log: int, place: int) -> frozenset[str]:
        """Return the UIDs that the log knows of a worker's objects."""
        key = ("uids", log, place)
        if key not in self._memo:
            name, found = self.config.names[place], set[str]()
            for state in self.logs[log].states:
                remote = state.remote(name)
                written = [effect.decision for effect in state.effects.values() if effect.decision.cluster == name]
                found.update(one.uid for one in (remote.clone, remote.job) if one is not None)
                found.update(getattr(one, "uid", "") for one in written)
            self._memo[key] = frozenset(found)
        uids: frozenset[str] = self._memo[key]
        return uids

    def knows_end(self, log: int, place: int) -> bool:
        """Return whether the log knows that the job ended on a worker."""
        return self.config.names[place] in self._ends(log)

    def ended_on(self, log: int) -> int:
        """Return on how many workers the log knows of an end."""
        return len(self._ends(log))

    def _ends(self, log: int) -> frozenset[str]:
        key = ("ended", log)
        if key not in self._memo:
            named = {
                name
                for state in self.logs[log].states
                for name, remote in state.remotes.items()
                if remote.finished is not None or (remote.job is not None and remote.job.finished)
            }
            self._memo[key] = frozenset(named.union(*(state.ended for state in self.logs[log].states)))
        found: frozenset[str] = self._memo[key]
        return found

    def exchanged(self, log: int, order: Order) -> int:
        """Return the log with its workers exchanged."""
        key = ("exchanged", log, order)
        if key not in self._memo:
            found, of = self.logs[log], self.exchange.of
            connections, routed = list(found.connections), 0
            for place, to in enumerate(order):
                connections[to] = of(found.connections[place], order)
                routed |= (found.routed >> place & 1) << to
            self._memo[key] = self._put(Log(of(found.states, order), of(found.job, order), tuple(connections), routed))
        return int(self._memo[key])

    def exchanged_request(self, request: int, order: Order) -> int:
        """Return a request to the management cluster with the workers exchanged that it names."""
        found = self.requests[request]
        version = self._version(found.resource_version, order)
        after = replace(found, body=exchanged_json(found.body, order), resource_version=version)
        return self.requests.put(after, repr(after))

    def _version(self, version: str, order: Order) -> str:
        if not version:
            return version
        key = ("version", version, order)
        if key not in self._memo:
            content = self.api.content(version)
            after = version
            if b"worker-" in content:
                after = self.api.version(exchanged_json(msgspec.json.decode(content), order))
            self._memo[key] = after
        return str(self._memo[key])


def initial(name: str) -> WorkloadState:
    """Return what is known of a Workload of which nothing was seen."""
    return WorkloadState.initial(workload_stream(NAMESPACE, name))


def _sorts(state: WorkloadState) -> str:
    return "".join(type(one.decision).__name__ for _, one in sorted(state.effects.items()))


def kept(state: WorkloadState) -> WorkloadState:
    """Return a state without what nothing is decided on; one that is settled is forgotten, as the index does."""
    if state.settled:
        return initial(state.name)
    trouble = {key: _replace(one, failures=min(one.failures, MOST_FAILURES)) for key, one in state.trouble.items()}
    ranks = sorted({remote.admitted_at for remote in state.remotes.values()} | {0})
    return _replace(
        state,
        version=0,
        position=0,
        positions={},
        trouble=trouble,
        attempt=min(state.attempt, 1),
        refused={name: _replace(one, attempt=1) for name, one in state.refused.items()},
        effects={target: _bare(effect) for target, effect in state.effects.items()},
        remotes={
            name: remote if remote.admitted_at < 2 else _replace(remote, admitted_at=ranks.index(remote.admitted_at))
            for name, remote in state.remotes.items()
        },
    )


def _bare(effect: Any) -> Any:
    """Return an open write without why it was decided, in which attempt, by what worker's status, and since when it
    is open where nobody waits for it: copies that are to go are waited for (`loser_patience`)."""
    decision = effect.decision
    changed = {"reason": WorkloadReason.NOMINATED, "attempt": 1} if hasattr(decision, "attempt") else {}
    changed = changed or {"reason": WorkloadReason.NOMINATED}
    if getattr(decision, "source", ""):
        changed["source"] = "somewhere"  # what is asked for depends on whether it comes from a worker, not on which
    since = effect.decided_at if decision.cluster != MANAGEMENT else START
    bare = getattr(decision, "source", "") in ("", "somewhere") and decision.reason == WorkloadReason.NOMINATED
    if effect.position == 0 and effect.decided_at == since and bare:
        return effect
    return _replace(effect, decision=_replace(decision, **changed), position=0, decided_at=since)


def plain(connection: Connection) -> Connection:
    """Return a connection without what nothing is decided on."""
    return _replace(connection, version=0, since=START, restores=0)
