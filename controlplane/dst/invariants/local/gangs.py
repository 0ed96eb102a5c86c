"""A gang is all or nothing when it is bound, as the scheduler's log has it.

In: the decisions of the scheduler as they reach the log, the cluster, and the state that the log gives. Out: a
violation when a binding is decided for a pod whose group has neither a quorum of members with a place nor another
member that has started, or that has no group yet. What the scheduler could not have heard of so soon counts for a while
as it was."""

from __future__ import annotations

from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.controllers.scheduling.events import BindingDecided, NodeReserved, ReservationDropped
from controlplane.controllers.scheduling.state import pod_stream
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.local.environment import OwnClusterEnvironment
from controlplane.dst.scenes.local.hosted import group_of
from controlplane.dst.scenes.local.manifests import GANGS
from controlplane.kube.kinds import PODS
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.kinds.own_cluster import POD_GROUPS

RULE = "a gang starts as a whole"
_AFTER = 5.0  # seconds in which the others follow those who were let go together, whatever the API server said to those
_NEWS = 60.0  # seconds for which what is gone may still be believed in


class GangRules:
    """Which pods are, or were a moment ago, in which group, and what each group asked for a moment ago."""

    def __init__(self, trace: Trace, environment: OwnClusterEnvironment, placed: SchedulerControllers) -> None:
        self._trace, self._environment, self._placed = trace, environment, placed
        self._pods: dict[str, Record] = {}
        self._gone: dict[str, float] = {}
        self._asked: dict[str, list[tuple[float, int]]] = {}
        self._let_go: dict[str, float] = {}
        self._held: set[str] = set()

    def on_commit(self, commit: Commit) -> None:
        """Take note of a pod or a group."""
        record, now = commit.record, self._environment.loop.time()
        if record.kind == PODS:
            self._pods[record.uid] = record
            if commit.type == "DELETED":
                self._gone[record.uid] = now
                for uid in [uid for uid, at in self._gone.items() if now - at > 10 * _NEWS]:
                    del self._gone[uid], self._pods[uid]
                    self._held.discard(uid)
        elif record.kind == POD_GROUPS and commit.type != "DELETED":
            asked = int(record.obj["spec"].get("minMember", 1))
            kept = self._asked.setdefault(record.name, [])
            if not kept or kept[-1][1] != asked:
                kept.append((now, asked))

    def before_fold(self, recorded: Recorded) -> None:
        """Look at a decision to bind; take note of who has a place, which is no more in the state once the log has
        heard of its end.
        """
        event = recorded.event
        if isinstance(event, NodeReserved):
            self._held.add(event.uid)
        elif isinstance(event, ReservationDropped):
            state = self._placed.placements.states.get(recorded.stream)
            if state is not None and state.held is not None:
                self._held.discard(state.held.uid)
        if not isinstance(event, BindingDecided):
            return
        pod = self._pods.get(event.uid)
        if pod is None:
            return
        obj = pod.copy()
        group = group_of(obj)
        if not group:
            if obj["spec"].get("schedulerName") == GANGS:
                self._trace.violate(RULE, f"pod {pod.name} goes to {event.node} and is in no group yet")
            return
        placed = self._placed_of(group)
        wanted = self._least(group)
        now = self._environment.loop.time()
        if len(placed | {event.uid}) >= wanted:
            self._let_go[group] = now
        elif now - self._let_go.get(group, -_AFTER) >= _AFTER and not self._started(group, event.uid):
            many = f"{len(placed | {event.uid})} of {wanted} pods of {group} have a place"
            self._trace.violate(RULE, f"pod {pod.name} goes to {event.node} while {many}")

    def _least(self, group: str) -> int:
        """Return the smallest quorum that the scheduler may believe in."""
        kept, now = self._asked.get(group, []), self._environment.loop.time()
        if not kept:
            return 1
        before = [asked for at, asked in kept if now - at > _NEWS][-1:]
        return min([*before, *(asked for at, asked in kept if now - at <= _NEWS)] or [1])

    def _members(self, group: str) -> dict[str, Record]:
        now = self._environment.loop.time()
        return {
            uid: record
            for uid, record in self._pods.items()
            if group_of(record.copy()) == group and now - self._gone.get(uid, now) <= _NEWS
        }

    def _placed_of(self, group: str) -> set[str]:
        """Return the members that are on a node, or have one taken for them in the log."""
        return {
            uid
            for uid, record in self._members(group).items()
            if record.copy()["spec"].get("nodeName") or self._taken(record)
        }

    def _started(self, group: str, besides: str) -> bool:
        """Whether another member runs, or is on its way to its node."""
        for uid, record in self._members(group).items():
            state = self._placed.placements.states.get(pod_stream(record.namespace, record.name))
            bound = record.copy()["spec"].get("nodeName")
            if uid != besides and (bound or (state is not None and state.binding is not None)):
                return True
        return False

    def _taken(self, record: Record) -> bool:
        if record.uid in self._gone and record.uid in self._held:
            return True  # it went between the release of its gang and the bindings, of which each is a write of its own
        state = self._placed.placements.states.get(pod_stream(record.namespace, record.name))
        return state is not None and state.pod is not None and state.pod.uid == record.uid and bool(state.node)
