"""All that the engine knows: the snapshot, the queues, the past usage of LocalQueues, and the number of cycles.

In: objects as they come, change and go, and decisions once they are recorded. Out: the heads of the queues. What may
make room wakes the inadmissible workloads of its Cohort tree, and of no other; each such change has a number. Where
quota was released, they are woken when somebody asks or a queue is touched next. The state that is seen then depends on
the changes alone, and not on how often somebody asked: who folds them later comes to the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial

from controlplane.controllers.quota.engine.amounts import FlavorResource
from controlplane.controllers.quota.engine.decisions import Admit, Decision, Evict, Inadmissible, Preempt
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.kept import Kept, kept, restore
from controlplane.controllers.quota.engine.model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Workload,
)
from controlplane.controllers.quota.engine.node_changes import NodeChanges
from controlplane.controllers.quota.engine.past_usage import PastUsage
from controlplane.controllers.quota.engine.pending import NoFit, PendingQueue
from controlplane.controllers.quota.engine.queues import PendingQueues
from controlplane.controllers.quota.engine.reasons import WAITING_FOR_PODS_READY
from controlplane.controllers.quota.engine.second_pass import SecondPass, Try
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.snapshot import QueueNode, QuotaSnapshot
from controlplane.controllers.quota.engine.tree import QuotaNode
from controlplane.controllers.quota.engine.usage_history import UsageHistory

_USAGE, _SECOND_PASS = "usage", "second pass"
_Released = tuple[int, float, frozenset[FlavorResource] | None]
"""The number of the last release in a tree, when it was, and of what quota was given back; None: of any."""


class State(NodeChanges, PastUsage):
    """The engine's state. Every method is a change that has happened, or asks; none decides."""

    def __init__(self, settings: EngineSettings | None = None) -> None:
        self.settings = settings or EngineSettings()
        self.snapshot = QuotaSnapshot(self.settings.placement)
        self.queues = PendingQueues()
        self.cycle = 0
        self._changes = 0
        self._released_in: dict[QuotaNode, _Released] = {}
        self.history = UsageHistory(self.settings.admission_fair_sharing)
        self.waits_for_pods = ""
        self.second_pass = SecondPass()

    # What is kept.

    def kept(self) -> Kept:
        """Return all of it but the settings, to make another one of it."""
        released = {next(root.subtree_queues()).name: found for root, found in self._released_in.items()}
        return {
            ("", ""): (self.cycle, self._changes, self.waits_for_pods, released),
            **{(_SECOND_PASS, key): one for key, one in self.second_pass.tries.items()},
            **kept(self.snapshot, self.queues),
            **{(_USAGE, queue): one for queue, one in self.history.kept().items()},
        }

    def give(self, given: Kept) -> None:
        """Become the state of which this was kept."""
        rest = dict(given)
        self.cycle, self._changes, self.waits_for_pods, released = rest.pop(("", ""))
        self.history.give({queue: rest.pop((what, queue)) for what, queue in list(rest) if what == _USAGE})
        tries = {key: rest.pop((what, key)) for what, key in list(rest) if what == _SECOND_PASS}
        self.second_pass = SecondPass(tries)
        self.snapshot, self.queues = QuotaSnapshot(self.settings.placement), PendingQueues()
        restore(rest, self.snapshot, self.queues)
        self.measure_by(None)
        self._released_in = {self.snapshot.queues[name].root(): one for name, one in released.items()}

    # What is asked.

    def heads(self) -> list[tuple[PendingQueue, Info]]:
        """Return who is tried next in each active ClusterQueue: its head, or who waited for the pods of others."""
        self.wake_released()
        found = []
        for name, pending in self.queues.pending.items():
            queue = self.snapshot.queues[name]
            if not pending.active or not queue.active:
                continue
            info = pending.active.get(self.waits_for_pods) or pending.head(
                self.usage_of if self.by_usage(queue.spec) else None
            )
            if info is not None:
                found.append((pending, info))
        return found

    def second_heads(self, now: float) -> list[tuple[QueueNode, Info, int]]:
        """Return who has quota and is to be considered once more, in which ClusterQueue, and the how manieth time."""
        return [(queue, info, one.number) for queue, info, one in self._second() if one.due <= now]

    def _second(self) -> Iterator[tuple[QueueNode, Info, Try]]:
        """Yield who needs a second pass, without those whose pods a worker of MultiKueue places."""
        for key, one in sorted(self.second_pass.tries.items()):
            info = self.snapshot.workloads[key]
            queue = self.snapshot.queues.get(info.cluster_queue)
            if queue is None or not queue.active:
                continue
            if info.workload.on_unhealthy_node or not self.snapshot.has_multikueue(queue.spec):
                yield queue, info, one

    @property
    def blocked(self) -> bool:
        """Whether nobody is to be admitted now, since pods of a Workload with quota are not ready. `waits_for_pods` is
        who was to be admitted last when that was so: it is considered before all others afterwards, once."""
        if not self.settings.block_admission:
            return False
        return any(not info.workload.pods_ready for info in self.snapshot.workloads.values())

    # What happens to quota.

    def put_cluster_queue(self, spec: ClusterQueue, now: float) -> None:
        """Note a ClusterQueue, new or changed."""
        self.wake_released()
        self.snapshot.put_cluster_queue(spec)
        self.measure_by(None)
        self.queues.put_cluster_queue(spec)
        self.wake((spec.name,), now)

    def drop_cluster_queue(self, name: str, now: float) -> None:
        """Note that a ClusterQueue is gone."""
        self.wake_released()
        queue = self.snapshot.queues.get(name)
        if queue is None:
            return
        root = queue.root()
        self.snapshot.drop_cluster_queue(name)
        self.measure_by(None)
        self.queues.drop_cluster_queue(name)
        self.wake([other.name for other in root.subtree_queues()], now)

    def put_cohort(self, spec: Cohort, now: float) -> None:
        """Note a Cohort, new or changed."""
        self.wake_released()
        self.snapshot.put_cohort(spec)
        self.measure_by(None)
        self._wake_below(spec.name, now)

    def drop_cohort(self, name: str, now: float) -> None:
        """Note that a Cohort's object is gone."""
        self.wake_released()
        self.snapshot.drop_cohort(name)
        self.measure_by(None)
        self._wake_below(name, now)

    def put_flavor(self, flavor: ResourceFlavor, now: float) -> None:
        """Note a ResourceFlavor, new or changed."""
        self.wake(self.snapshot.put_flavor(flavor), now)

    def drop_flavor(self, name: str, now: float) -> None:
        """Note that a ResourceFlavor is gone."""
        self.wake(self.snapshot.drop_flavor(name), now)

    def put_check(self, check: AdmissionCheck, now: float) -> None:
        """Note an AdmissionCheck, new or changed."""
        self.wake(self.snapshot.put_check(check), now)

    def drop_check(self, name: str, now: float) -> None:
        """Note that an AdmissionCheck is gone."""
        self.wake(self.snapshot.drop_check(name), now)

    def put_namespace(self, name: str, labels: Mapping[str, str], now: float) -> None:
        """Note a namespace with its labels."""
        if self.snapshot.namespaces.get(name) == labels:
            return
        self.wake_released()
        self.snapshot.namespaces[name] = dict(labels)
        matching = [
            queue.name for queue in self.snapshot.queues.values() if queue.spec.namespace_selector.matches(labels)
        ]
        self.wake(matching, now)

    def drop_namespace(self, name: str) -> None:
        """Note that a namespace is gone."""
        self.wake_released()
        self.snapshot.namespaces.pop(name, None)

    def put_local_queue(self, queue: LocalQueue) -> None:
        """Note a LocalQueue, new or changed."""
        self.wake_released()
        self.queues.put_local_queue(queue)

    def drop_local_queue(self, key: str) -> None:
        """Note that a LocalQueue is gone; its past usage is forgotten."""
        self.wake_released()
        self.queues.drop_local_queue(key)
        self.history.forget(key)

    # What happens to workloads.

    def put_workload(self, workload: Workload, now: float) -> None:
        """Note a workload, new or changed: it has quota, waits for it, or does neither."""
        key = workload.key
        before = self.snapshot.workloads.get(key)
        self._keep_penalty(workload)
        if workload.reserves:
            self.queues.drop(key)
            self.snapshot.put_workload(workload)
            after = self.snapshot.workloads[key]
            if workload.needs_second_pass:
                self.second_pass.need(key, now)
            else:
                self.second_pass.drop(key)
            if before is not None and (before.usage != after.usage or before.workload.priority != workload.priority):
                self._released(before, now)  # others may fit now, or may preempt it
            return
        self.second_pass.drop(key)
        if before is not None:
            self.snapshot.drop_workload(key)
        if workload.admissible:
            self._wake_released_for(self.queues.of(workload))
            self.queues.put(workload, now)
        else:
            self.queues.drop(key)
        if before is not None:
            self._released(before, now)

    def drop_workload(self, key: str, now: float) -> None:
        """Note that a workload is gone."""
        before = self.snapshot.workloads.get(key)
        self.queues.drop(key)
        self.history.leave(key)
        self.second_pass.drop(key)
        if before is not None:
            self.snapshot.drop_workload(key)
            self._released(before, now)

    def due(self, now: float) -> int:
        """Let workloads be tried again that waited for a moment which has come; return how many."""
        self.wake_released()
        found = self.queues.delayed(now)
        for workload in found:
            changed = replace(workload, requeue_at=0.0, eviction=f"{workload.eviction} due")
            self.queues.put(changed, now)
        return len(found)

    # What was decided.

    def apply(self, decisions: Collection[Decision], now: float) -> None:
        """Take decisions into account, once they are recorded: those of one cycle."""
        if decisions:
            self.cycle += 1
        for decision in decisions:
            self.take(decision, now)

    def take(self, decision: Decision, now: float) -> None:
        """Take one decision of a cycle into account; one about a workload that changed, or is gone, has no effect."""
        self.wake_released()
        if self._takes_of_second_pass(decision, now):
            return
        assert not isinstance(decision, Evict)
        pending = self.queues.pending.get(decision.cluster_queue)
        info = pending.find(decision.workload) if pending is not None else None
        if pending is None or info is None:
            return
        waits = self._wait_for_pods(decision, info)
        if isinstance(decision, Admit):
            self._admit(info, decision, now)
        elif not waits:
            tried = info.having(progress=decision.progress)
            no_fit = NoFit(decision.reason, decision.short_of)
            pending.requeue(tried, decision.requeue, now, decision.wakes, no_fit)
        if isinstance(decision, Preempt):
            for victim in decision.victims:
                self.evicting(victim.workload)

    def _wait_for_pods(self, decision: Decision, info: Info) -> bool:
        """Note whether a workload waits for the pods of others, and return it: such a one stays the head of its
        queue."""
        waits = isinstance(decision, Inadmissible) and decision.reason == WAITING_FOR_PODS_READY
        if waits:
            self.waits_for_pods = info.key
        elif info.key == self.waits_for_pods:
            self.waits_for_pods = ""
        return waits

    def _takes_of_second_pass(self, decision: Decision, now: float) -> bool:
        """Take a decision about a workload that has quota into account; return whether it was one."""
        second = isinstance(decision, Evict) or bool(decision.second_pass)
        info = self.snapshot.workloads.get(decision.workload) if second else None
        if info is None or not info.workload.needs_second_pass:
            return second
        if isinstance(decision, Admit):
            placed = replace(info.workload, admission=decision.admission, unhealthy_nodes=())
            self.put_workload(placed, now)
        elif isinstance(decision, Evict):
            self.evicting(info.key)
        else:
            self.second_pass.failed(info.key, now)
            for victim in decision.victims if isinstance(decision, Preempt) else ():
                self.evicting(victim.workload)
        return second

    def wake(self, cluster_queues: Collection[str], now: float) -> None:
        """Let all be tried again that are inadmissible in ClusterQueues, and in others of their Cohort trees."""
        self.wake_released()
        self._changes += 1
        for root in {queue.root() for name in cluster_queues if (queue := self.snapshot.queues.get(name))}:
            self._wake_tree(root, self._changes, now)

    def wake_all(self, now: float) -> None:
        """Let all be tried again: what decided about them is not what it was."""
        self.wake(self.snapshot.queues, now)

    def _wake_tree(
        self, root: QuotaNode, change: int, now: float, released: Collection[FlavorResource] | None = None
    ) -> None:
        for queue in root.subtree_queues():
            pending = self.queues.pending.get(queue.name)
            if pending is not None:
                self._wake_queue(queue, pending, change, now, released)

    def _wake_queue(
        self,
        queue: QueueNode,
        pending: PendingQueue,
        change: int,
        now: float,
        released: Collection[FlavorResource] | None,
    ) -> None:
        if pending.wakes < change and not self.snapshot.has_cycle(queue):
            pending.wake(now, partial(self._selected, queue), change, released)

    def _selected(self, queue: QueueNode, namespace: str) -> bool:
        labels = self.snapshot.namespaces.get(namespace)
        return labels is not None and queue.spec.namespace_selector.matches(labels)

    def _admit(self, info: Info, decision: Admit, now: float) -> None:
        workload = replace(info.workload, admission=decision.admission, reserved_at=now, evicted=False)
        self.queues.drop(info.key)
        self.snapshot.put_workload(workload)
        self.history.enter(workload.local_queue, workload.key, decision.penalty, now)

    def evicting(self, key: str) -> None:
        """Note that a workload is being evicted: it has its quota until its pods are gone."""
        info = self.snapshot.workloads.get(key)
        if info is not None and not info.workload.evicted:
            queue = self.snapshot.queues.get(info.cluster_queue)
            marked = info.having(workload=replace(info.workload, evicted=True))
            self.snapshot.workloads[info.key] = marked
            self.second_pass.drop(info.key)
            if queue is not None:
                queue.workloads[info.key] = marked

    def _keep_penalty(self, workload: Workload) -> None:
        """Drop the penalty of a workload that cannot be admitted with it any more. One that is evicted before it was
        admitted keeps it, as with Kueue, until it is admitted."""
        reserved = workload.reserved_at is not None and workload.admission is not None
        if workload.finished or not (workload.active or reserved):
            self.history.leave(workload.key)
        else:
            self.history.stay(workload.key, workload.local_queue)

    def _released(self, info: Info, now: float) -> None:
        """Note that quota is free again. Whom that may help is woken later: a thousand workloads that leave at once
        wake their tree once.
        """
        self._changes += 1
        queue = self.snapshot.queues.get(info.cluster_queue)
        if queue is not None:
            before = self._released_in.get(queue.root(), (0, 0.0, frozenset()))[2] or frozenset()
            places = None if self.settings.tries_all else before | info.reserved.keys()
            self._released_in[queue.root()] = self._changes, now, places

    def wake_released(self) -> None:
        """Wake whom the releases so far may help."""
        released, self._released_in = self._released_in, {}
        for root, (change, now, places) in released.items():
            self._wake_tree(root, change, now, places)

    def _wake_released_for(self, pending: PendingQueue | None) -> None:
        """Do so for one queue only, into which a workload comes."""
        queue = self.snapshot.queues.get(pending.name) if pending is not None and self._released_in else None
        if pending is not None and queue is not None and (found := self._released_in.get(queue.root())):
            self._wake_queue(queue, pending, *found)

    def _wake_below(self, cohort: str, now: float) -> None:
        for node in self.snapshot.cohorts():
            if node.name == cohort:
                self.wake([queue.name for queue in node.root().subtree_queues()], now)
