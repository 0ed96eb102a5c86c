"""ClusterQueues and LocalQueues of one simulated Kueue: who is active, who waits, who gets quota.

In: ClusterQueues, LocalQueues, flavors, checks and Workloads, as changes of the view. Out: reservations
(`status.admission`, QuotaReserved=True), the reason for those that do not fit, and the queues' own statuses. The
scheduler serves the highest priority first, then the longest waiting; with BestEffortFIFO, Kueue's default, one that
does not fit does not hold up the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.clusters.protocol import ApiError
from controlplane.kube.conditions import condition, is_true, set_condition
from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, Json, Kind, meta
from controlplane.simulation.controllers.behaviour import place_of
from controlplane.simulation.kueue import slices
from controlplane.simulation.kueue.common import admissible, holds_quota, priority_of, reindex
from controlplane.simulation.kueue.core import Core
from controlplane.simulation.kueue.preemption import make_room
from controlplane.simulation.kueue.quota import ClusterQueueState, Shape, Usage, WorkloadKey, shape_of, usage_of
from controlplane.simulation.kueue.status import draft, reserve, sync_admitted, unreserve

STATUS_PERIOD: Final = 1.0
"""Seconds between two writes of a queue's counters: they are for people, and must cost less than what they count."""

REFUSED_PAUSE: Final = 1.0
"""Seconds until a reservation that the API server refused is tried again."""


class Queues:
    """The queues of one cluster and their scheduler."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.cluster_queues: dict[str, ClusterQueueState] = {}
        self._counted_in: dict[WorkloadKey, str] = {}
        self._waits_in: dict[WorkloadKey, str] = {}
        self._by_local_queue: dict[tuple[str, str], dict[WorkloadKey, None]] = {}
        self._arrivals: dict[str, int] = {}
        self._shapes: dict[str, tuple[int, Shape]] = {}
        self._counter = 0

    def state(self, name: str) -> ClusterQueueState:
        """Return the state of a ClusterQueue, made on first mention: Workloads may be known before their queue."""
        found = self.cluster_queues.get(name)
        if found is None:
            found = self.cluster_queues[name] = ClusterQueueState(name)
        return found

    # What the view tells.

    def on_cluster_queue(self, old: Json | None, new: Json | None) -> None:
        """Take over a spec; a queue that is gone is inactive."""
        name = meta(new or old or {})["name"]
        state = self.state(name)
        if new is None:
            state.read({})
            state.active = False
        elif old is None or old.get("spec") != new.get("spec"):
            state.read(new.get("spec") or {})
        elif _without_status(old) == _without_status(new):
            return
        self._core.mark(("clusterqueue", name))

    def on_dependency(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        """A flavor or a check has changed: judge the ClusterQueues that name it again."""
        name = meta(new or old or {})["name"]
        for state in self.cluster_queues.values():
            if name in (state.flavors() if kind == RESOURCE_FLAVORS else state.checks):
                self._core.mark(("clusterqueue", state.name))

    def on_local_queue(self, old: Json | None, new: Json | None) -> None:
        """A LocalQueue came, went or changed its target: look again at the Workloads that name it."""
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            return
        namespace, name = place_of(new or old or {})
        self._core.mark(("localqueue", namespace, name))
        for key in self._by_local_queue.get((namespace, name), {}):
            self._core.mark(("workload", *key))

    def on_workload(self, old: Json | None, new: Json | None) -> None:
        """Account for a Workload: what it takes, gives back, and which LocalQueue it names."""
        obj = new or old or {}
        key, uid = place_of(obj), meta(obj)["uid"]
        reindex(self._by_local_queue, key, _local_queue_of(old), _local_queue_of(new))
        if new is None:
            self._arrivals.pop(uid, None)
            self._shapes.pop(uid, None)
            self.dequeue(key)
        elif uid not in self._arrivals:
            self._counter += 1
            self._arrivals[uid] = self._counter
        if key in self._waits_in and _gates_of(old) != _gates_of(new):
            self._core.mark(("schedule", self._waits_in[key]))
        self._account(key, old, new)

    def _account(self, key: WorkloadKey, old: Json | None, new: Json | None) -> None:
        admission = _admission_of(new) if new is not None and holds_quota(new) else None
        if new is None or admission is None:
            self.give_back(key)
        else:
            same = key in self._counted_in and old is not None and _admission_of(old) == admission
            self._count(key, admission["clusterQueue"], None if same else usage_of(admission), is_true(new, "Admitted"))

    def _count(self, key: WorkloadKey, cluster_queue: str, usage: Usage | None, admitted: bool) -> None:
        known = self._counted_in.get(key)
        if known is not None and known != cluster_queue:
            self.give_back(key)
        state = self.state(cluster_queue)
        self._counted_in[key] = cluster_queue
        if usage is not None:
            state.take(key, usage)
            self._publish_later(cluster_queue)
        if admitted != (key in state.admitted):
            (state.admitted.add if admitted else state.admitted.discard)(key)
            self._publish_later(cluster_queue)

    def give_back(self, key: WorkloadKey) -> None:
        """Release what a Workload takes, and let the scheduler look at who waits for it."""
        cluster_queue = self._counted_in.pop(key, None)
        if cluster_queue is not None and self.state(cluster_queue).release(key):
            self._core.mark(("schedule", cluster_queue))
            self._publish_later(cluster_queue)

    # Standing in line.

    def blocker(self, workload: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return why no queue can take a Workload, as (granular reason, message) in Kueue's words; None if one can."""
        namespace, queue = meta(workload)["namespace"], workload["spec"].get("queueName") or ""
        local = self._core.view.get(LOCAL_QUEUES, namespace, queue)
        if local is None:
            return "Misconfigured", f"LocalQueue {queue} doesn't exist"
        if _stopped(local):
            return "Suspended", f"LocalQueue {queue} is inactive"
        target = local["spec"].get("clusterQueue") or ""
        if self._core.view.get(CLUSTER_QUEUES, "", target) is None:
            return "Misconfigured", f"ClusterQueue {target} doesn't exist"
        if not self.state(target).active:
            return "Suspended", f"ClusterQueue {target} is inactive"
        return None

    def cluster_queue_for(self, workload: Mapping[str, Any]) -> ClusterQueueState | None:
        """Return the ClusterQueue that a Workload's LocalQueue leads to, if both exist."""
        local = self._core.view.get(LOCAL_QUEUES, meta(workload)["namespace"], workload["spec"].get("queueName") or "")
        name = (local or {}).get("spec", {}).get("clusterQueue") or ""
        return self.state(name) if self._core.view.get(CLUSTER_QUEUES, "", name) is not None else None

    def enqueue(self, workload: Mapping[str, Any]) -> None:
        """Let a Workload stand in its line if it may, and in none if it may not."""
        key = place_of(workload)
        local = self._core.view.get(LOCAL_QUEUES, key[0], workload["spec"].get("queueName") or "")
        if local is None or _stopped(local) or meta(workload).get("deletionTimestamp") or not admissible(workload):
            self.dequeue(key)
            return
        name = local["spec"].get("clusterQueue") or ""
        if self._waits_in.get(key, name) != name:
            self.dequeue(key)
        self._waits_in[key] = name
        state = self.state(name)
        if state.waiting.put(key, self._order(workload), self._shape(workload)):
            self._publish_later(name)
            if state.active:
                self._core.mark(("schedule", name))

    def dequeue(self, key: WorkloadKey) -> None:
        """Let a Workload stand in no line."""
        name = self._waits_in.pop(key, None)
        if name is not None:
            self.state(name).waiting.discard(key)
            self._publish_later(name)

    def _order(self, workload: Mapping[str, Any]) -> tuple[int, str, int]:
        evicted = condition(workload, "Evicted")
        by_check = evicted is not None and evicted["status"] == "True" and evicted["reason"] == "AdmissionCheck"
        since = (
            evicted["lastTransitionTime"] if evicted is not None and by_check else meta(workload)["creationTimestamp"]
        )
        return -priority_of(workload), since, self._arrivals.get(meta(workload)["uid"], 0)

    def _shape(self, workload: Mapping[str, Any]) -> Shape:
        metadata = meta(workload)
        known = self._shapes.get(metadata["uid"])
        if known is None or known[0] != metadata.get("generation", 0):
            known = self._shapes[metadata["uid"]] = (metadata.get("generation", 0), shape_of(workload))
        return known[1]

    # Reconciling.

    def reconcile_cluster_queue(self, name: str) -> None:
        """Judge whether a ClusterQueue is active, say so, and look again at everybody who waits there."""
        state = self.state(name)
        if self._core.view.get(CLUSTER_QUEUES, "", name) is not None:
            flavors = {flavor for _, flavor in self._core.view.all(RESOURCE_FLAVORS)}
            checks = {check: obj for (_, check), obj in self._core.view.all(ADMISSION_CHECKS).items()}
            state.judge(flavors, checks)
            self.publish(name)
        for place, local in self._core.view.all(LOCAL_QUEUES).items():
            if local["spec"].get("clusterQueue") == name:
                self._core.mark(("localqueue", *place))
                for key in self._by_local_queue.get(place, {}):
                    self._core.mark(("workload", *key))
        self._core.mark(("schedule", name))

    def schedule(self, name: str) -> None:
        """Give quota to those who wait, in order, until nobody else fits; tell newcomers why they have to wait."""
        state = self.state(name)
        failed: dict[Shape, str] = {}
        while state.active and (head := state.waiting.best(failed)) is not None:
            key, shape = head
            replaced = self._replaced(key, state)
            found = _assigned(state, shape, replaced)
            if isinstance(found, str):
                failed[shape] = found
                make_room(self._core, key, state, shape)
                if state.strict:
                    break
                continue
            self.dequeue(key)
            if replaced is not None:
                self._replace(replaced)
            self._reserve(key, state, found, replaced)
        for shape, why in failed.items():
            for key in state.waiting.take_fresh(shape):
                self._say_pending(key, why)

    def _replaced(self, key: WorkloadKey, state: ClusterQueueState) -> WorkloadKey | None:
        """Return the slice of an elastic job whose quota a Workload takes over, if it has any here."""
        workload = self._core.workload(*key)
        replaced = slices.replaces(workload) if workload is not None else None
        return replaced if replaced is not None and replaced in state.reserving else None

    def _replace(self, key: WorkloadKey) -> None:
        workload = self._core.workload(*key)
        if workload is not None:
            self._core.finish(workload, slices.REPLACED, "Replaced to accommodate a workload")
        self.give_back(key)

    def _reserve(
        self, key: WorkloadKey, state: ClusterQueueState, assignments: list[Json], replaced: WorkloadKey | None = None
    ) -> None:
        workload = self._core.workload(*key)
        if workload is None:
            return
        admission = {"clusterQueue": state.name, "podSetAssignments": assignments}
        self._count(key, state.name, usage_of(admission), False)
        status = draft(workload)
        reserve(workload, status, admission, self._core.stamp())
        before = self._core.workload(*replaced) if replaced is not None else None
        if before is not None and (cluster := (before.get("status") or {}).get("clusterName")):
            status["clusterName"] = cluster
        present = {check["name"] for check in status.get("admissionChecks") or ()}
        if present.issuperset(state.checks_for(admission)):
            sync_admitted(workload, status, self._core.now(), self._core.gates)
        try:
            self._core.writer.write(workload, status)
        except ApiError as error:
            self.give_back(key)
            if error.status == 409:
                self._core.mark(("workload", *key))
            else:
                self._core.mark_after(("workload", *key), REFUSED_PAUSE)

    def _say_pending(self, key: WorkloadKey, why: str) -> None:
        workload = self._core.workload(*key)
        if workload is None:
            return
        status, gates = draft(workload), self._core.gates
        unreserve(workload, status, gates.reason("WaitingForQuota", "Pending"), why, self._core.now(), gates)
        try:
            self._core.writer.write(workload, status)
        except ApiError:
            self._core.mark(("workload", *key))

    # The queues' own statuses.

    def _publish_later(self, name: str) -> None:
        self._core.mark_after(("clusterqueue-status", name), STATUS_PERIOD)

    def publish(self, name: str) -> None:
        """Write a ClusterQueue's status, and have those of its LocalQueues written, if anything in it has changed."""
        obj, state = self._core.view.get(CLUSTER_QUEUES, "", name), self.state(name)
        if obj is None:
            return
        status: Json = {
            **_conditions(obj, state.active, state.reason, state.message, self._core.stamp()),
            **_counts(state, None),
        }
        self._write(CLUSTER_QUEUES, obj, status)
        for place, local in self._core.view.all(LOCAL_QUEUES).items():
            if local["spec"].get("clusterQueue") == name:
                self._core.mark(("localqueue", *place))

    def publish_local(self, namespace: str, name: str) -> None:
        """Write a LocalQueue's status if anything in it has changed."""
        obj = self._core.view.get(LOCAL_QUEUES, namespace, name)
        if obj is None:
            return
        state = self.state(obj["spec"].get("clusterQueue") or "")
        if _stopped(obj):
            verdict = (False, "Stopped", "LocalQueue is stopped")
        elif state.active:
            verdict = (True, "Ready", "Can submit new workloads to localQueue")
        else:
            verdict = (False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
        members = self._by_local_queue.get((namespace, name), {})
        self._write(LOCAL_QUEUES, obj, {**_conditions(obj, *verdict, self._core.stamp()), **_counts(state, members)})

    def _write(self, kind: Kind, obj: Json, status: Json) -> None:
        old, (namespace, name) = obj.get("status") or {}, place_of(obj)
        changed = {field: value for field, value in status.items() if old.get(field) != value}
        if changed:
            patch = {"status": changed}
            self._core.store.patch(kind, namespace, name, patch, subresource="status", field_manager="kueue")


def _assigned(state: ClusterQueueState, shape: Shape, replaced: WorkloadKey | None) -> list[Json] | str:
    """Return the assignments for a shape, or why it does not fit; the quota of what it takes the place of counts as free."""
    if replaced is None:
        return state.assign(shape)
    freed = state.reserving[replaced]
    state.release(replaced)
    found = state.assign(shape)
    state.take(replaced, freed)
    return found


def _local_queue_of(workload: Json | None) -> tuple[str, str] | None:
    if workload is None:
        return None
    return meta(workload)["namespace"], workload["spec"].get("queueName") or ""


def _stopped(local_queue: Mapping[str, Any]) -> bool:
    return (local_queue["spec"].get("stopPolicy") or "None") != "None"


def _without_status(obj: Json) -> tuple[Any, ...]:
    return obj.get("spec"), meta(obj).get("uid"), meta(obj).get("deletionTimestamp")


def _conditions(obj: Json, active: bool, reason: str, message: str, at: str) -> Json:
    status = {"conditions": list((obj.get("status") or {}).get("conditions") or ())}
    set_condition(status, "Active", active, reason, message, at=at, generation=meta(obj).get("generation", 0))
    return status


def _counts(state: ClusterQueueState, members: Mapping[WorkloadKey, None] | None) -> Json:
    """The counters of a ClusterQueue, or those of the part of it that came through one LocalQueue."""
    if members is None:
        waiting, reserving, admitted = len(state.waiting), list(state.reserving), state.admitted
    else:
        waiting = sum(1 for key in members if key in state.waiting)
        reserving = [key for key in members if key in state.reserving]
        admitted = {key for key in reserving if key in state.admitted}
    return {
        "pendingWorkloads": waiting,
        "reservingWorkloads": len(reserving),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": state.amounts(None if members is None else reserving),
        "flavorsUsage": state.amounts(list(admitted)),
    }


def _gates_of(workload: Json | None) -> Any:
    return ((workload or {}).get("status") or {}).get("preemptionGates")


def _admission_of(workload: Json) -> Json | None:
    return (workload.get("status") or {}).get("admission")
