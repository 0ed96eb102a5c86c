"""ClusterQueues and LocalQueues of one simulated Kueue: who is active, who waits, who gets quota, who is preempted.

In: queues, flavors, checks and Workloads, as changes of the view. Out: reservations (`status.admission`,
QuotaReserved=True), the reason for those that do not fit, preemptions, and the queues' own statuses. What is decided is
decided by `controllers.quota.engine`, in Kueue's scheduling cycles; here it is written, and by `kueue.quota` it is fed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.quota.engine import parse_workloads, reasons
from controlplane.controllers.quota.engine.cycle import checks_for, checks_for_all, decide
from controlplane.controllers.quota.engine.decisions import Admit, Decision, Evict, Inadmissible, Preempt
from controlplane.controllers.quota.engine.info import Info, total_usage
from controlplane.controllers.quota.engine.rendering import (
    admission_of,
    cluster_queue_usage,
    local_queue_usage,
    readiness,
)
from controlplane.kube.conditions import is_true, set_condition
from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, Json, Kind, meta
from controlplane.kube.slices import SLICE_REPLACED
from controlplane.simulation.controllers.behaviour import Place, place_of
from controlplane.simulation.kueue.common import reindex
from controlplane.simulation.kueue.core import Core
from controlplane.simulation.kueue.quota import Quota
from controlplane.simulation.kueue.status import draft, preempt, reserve, sync_admitted, unreserve

STATUS_PERIOD: Final = 1.0
"""Seconds between two writes of a queue's counters: they are for people, and must cost less than what they count."""

REFUSED_PAUSE: Final = 1.0
"""Seconds until a reservation that the API server refused is tried again."""

_SCHEDULE: Final = ("schedule",)
_GATED: Final = "Workload requires preemption, but it's gated"
_STATUS: Final = "status"


class Queues:
    """The queues of one cluster and their scheduler."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.quota = Quota()
        self._by_local_queue: dict[Place, dict[Place, None]] = {}

    # What the view tells.

    def on_object(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        """Take over anything but a Workload, and look again at what depends on it."""
        if old is not None and new is not None and kind != ADMISSION_CHECKS and _but_status(old) == _but_status(new):
            return
        self.quota.note(kind, old, new, self._now())
        namespace, name = place_of(new or old or {})
        if kind == LOCAL_QUEUES:
            self._core.enqueue(("localqueue", namespace, name))
            for place in self._by_local_queue.get((namespace, name), {}):
                self._core.enqueue(("workload", *place))
        elif kind == CLUSTER_QUEUES:
            self._core.enqueue(("clusterqueue", name))
        else:
            for queue in self._naming(kind, name):
                self._core.enqueue(("clusterqueue", queue))
        self._core.enqueue(_SCHEDULE)

    def _naming(self, kind: Kind, name: str) -> Iterable[str]:
        for found in self.quota.state.snapshot.queues.values():
            flavors = {flavor for group in found.spec.groups for flavor in group.flavors}
            named = dict(found.spec.admission_checks) if kind == ADMISSION_CHECKS else flavors
            if name in named:
                yield found.name

    def on_workload(self, old: Json | None, new: Json | None) -> None:
        """Take over a Workload: what it takes, gives back, and which LocalQueue it names."""
        place = place_of(new or old or {})
        reindex(self._by_local_queue, place, _local_queue_of(old), _local_queue_of(new))
        held = self.quota.state.snapshot.workloads.get("/".join(place))
        gates = old is not None and new is not None and _gates_of(old) != _gates_of(new)
        if gates and new is not None and held is None:
            self.quota.try_again(place, new, self._now())
        else:
            self.quota.note_workload(place, new, self._now())
        if held is not None:
            self._publish_later(held.cluster_queue)
        for obj in (old, new):
            local = self._core.view.get(LOCAL_QUEUES, *(_local_queue_of(obj) or ("", "")))
            if local is not None:
                self._publish_later(_target_of(local))
        self._core.enqueue(_SCHEDULE)

    # What the workload controller asks.

    def blocker(self, workload: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return why no queue can take a Workload, as (granular reason, message) in Kueue's words; None if one can."""
        queue = workload["spec"].get("queueName") or ""
        local = self._local_queue(workload)
        if local is None:
            return "Misconfigured", f"LocalQueue {queue} doesn't exist"
        if _stopped(local):
            return "Suspended", f"LocalQueue {queue} is inactive"
        target = _target_of(local)
        if self._core.view.get(CLUSTER_QUEUES, "", target) is None:
            return "Misconfigured", f"ClusterQueue {target} doesn't exist"
        if not self.quota.admits(target):
            return "Suspended", f"ClusterQueue {target} is inactive"
        return None

    def checks_for(self, workload: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the checks that apply to a Workload: with an admission those of its flavors, without one those of all
        flavors. None while its queues are not known."""
        local = self._local_queue(workload)
        queue = self.quota.queue(_target_of(local)) if local is not None else None
        if queue is None:
            return None
        admission = parse_workloads.admission(workload.get(_STATUS) or {})
        found = checks_for_all(queue.spec) if admission is None else checks_for(queue.spec, admission.pod_sets)
        return tuple(sorted(found))

    def checks_of(self, local_queue: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the checks of the ClusterQueue that a LocalQueue leads to."""
        queue = self.quota.queue(_target_of(local_queue))
        return tuple(name for name, _ in queue.spec.admission_checks) if queue is not None else ()

    def _local_queue(self, workload: Mapping[str, Any]) -> Json | None:
        return self._core.view.get(LOCAL_QUEUES, meta(workload)["namespace"], workload["spec"].get("queueName") or "")

    # Scheduling.

    def reconcile_cluster_queue(self, name: str) -> None:
        """Say whether a ClusterQueue is active, and look again at everybody who waits there."""
        self.publish(name)
        for place, local in self._core.view.all(LOCAL_QUEUES).items():
            if _target_of(local) == name:
                self._core.enqueue(("localqueue", *place))
                for workload in self._by_local_queue.get(place, {}):
                    self._core.enqueue(("workload", *workload))

    def schedule(self) -> None:
        """Decide in cycles until one says nothing new."""
        now, said = self._now(), set[tuple[str, str]]()
        self.quota.state.due(now)
        while True:
            decisions = [self._gated(one) for one in decide(self.quota.state, now)]
            fresh = [one for one in decisions if _says(one) not in said]
            if not fresh:
                return
            # A reservation is taken into account by the event of its write, so that a refused one changes nothing.
            self.quota.state.apply([one for one in decisions if not isinstance(one, Admit)], now)
            said |= {_says(one) for one in fresh if not self._write(one)}

    def _gated(self, decision: Decision) -> Decision:
        """Return a decision, of a preemption that waits for a gate only that."""
        if not isinstance(decision, Preempt) or not self._core.gates.orchestrated_preemption:
            return decision
        workload = self._core.workload(*_place(decision.workload))
        if workload is None or not gate_closed(workload):
            return decision
        told = "AdmissionGated", _GATED, reasons.GENERIC
        return Inadmissible(decision.workload, decision.cluster_queue, *told, decision.progress, decision.wakes)

    def _write(self, decision: Decision) -> bool:
        """Write what was decided; return whether somebody has quota now."""
        workload = self._core.workload(*_place(decision.workload))
        if workload is None or isinstance(decision, Evict):
            return False
        if isinstance(decision, Admit):
            return self._reserve(workload, decision)
        self._say_pending(workload, decision)
        for victim in decision.victims if isinstance(decision, Preempt) else ():
            target = self._core.workload(*_place(victim.workload))
            if target is not None and not is_true(target, "Evicted"):
                status = draft(target)
                preempt(target, status, victim.reason, victim.message, self._core.stamp())
                self._try_to_write(target, status)
        return False

    def _reserve(self, workload: Json, decision: Admit) -> bool:
        status, old = draft(workload), self._core.workload(*_place(decision.replaces))
        if old is not None:
            self._core.finish(old, SLICE_REPLACED, "Replaced to accommodate a workload")
            if cluster := (old.get(_STATUS) or {}).get("clusterName"):
                status["clusterName"] = cluster
        reserve(workload, status, admission_of(decision.admission), self._core.stamp())
        present = {check["name"] for check in status.get("admissionChecks") or ()}
        if present.issuperset(decision.checks):
            sync_admitted(workload, status, self._core.now(), self._core.gates)
        self._publish_later(decision.cluster_queue)
        try:
            self._core.writer.write(workload, status)
        except ApiError as error:
            if error.status == 409:
                self._core.enqueue(("workload", *place_of(workload)))
                self._core.enqueue(_SCHEDULE)
            else:
                self._core.enqueue_after(_SCHEDULE, REFUSED_PAUSE)
            return False
        return True

    def _say_pending(self, workload: Json, decision: Inadmissible) -> None:
        status, gates, generation = draft(workload), self._core.gates, meta(workload).get("generation", 0)
        unreserve(workload, status, gates.reason(decision.reason, "Pending"), decision.message, self._core.now(), gates)
        if decision.message == _GATED:
            name, reason = "BlockedOnPreemptionGates", "PreemptionGated"
            set_condition(status, name, True, reason, _GATED, at=self._core.stamp(), generation=generation)
        self._try_to_write(workload, status)

    def _try_to_write(self, workload: Json, status: Json) -> None:
        try:
            self._core.writer.write(workload, status)
        except ApiError:
            self._core.enqueue(("workload", *place_of(workload)))
            self._core.enqueue(_SCHEDULE)

    def _now(self) -> float:
        return self._core.now().timestamp()

    # The queues' own statuses.

    def _publish_later(self, name: str) -> None:
        self._core.enqueue_after(("clusterqueue-status", name), STATUS_PERIOD)

    def publish(self, name: str) -> None:
        """Write a ClusterQueue's status, and have those of its LocalQueues written, if anything in it has changed."""
        obj, queue = self._core.view.get(CLUSTER_QUEUES, "", name), self.quota.queue(name)
        if obj is None or queue is None:
            return
        waiting = self.quota.waiting(name)
        status: Json = {
            **_conditions(obj, *readiness(self.quota.state.snapshot, queue), self._core.stamp()),
            **_counts(queue.workloads.values(), len(waiting) if waiting is not None else 0),
        }
        for field, infos in _parts(queue.workloads.values()).items():
            status[field] = cluster_queue_usage(queue, total_usage(infos))
        self._patch(CLUSTER_QUEUES, obj, status)
        for place, local in self._core.view.all(LOCAL_QUEUES).items():
            if _target_of(local) == name:
                self._core.enqueue(("localqueue", *place))

    def publish_local(self, namespace: str, name: str) -> None:
        """Write a LocalQueue's status if anything in it has changed."""
        obj = self._core.view.get(LOCAL_QUEUES, namespace, name)
        if obj is None:
            return
        queue = self.quota.queue(_target_of(obj))
        if _stopped(obj):
            state = (False, "Stopped", "LocalQueue is stopped")
        elif queue is not None and queue.active:
            state = (True, "Ready", "Can submit new workloads to localQueue")
        else:
            state = (False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
        key = f"{namespace}/{name}"
        own = [
            one for one in (queue.workloads.values() if queue is not None else ()) if one.workload.local_queue == key
        ]
        status = {
            **_conditions(obj, *state, self._core.stamp()),
            **_counts(own, self.quota.state.queues.waiting_in(key)),
        }
        if queue is not None:
            for field, infos in _parts(own).items():
                status[field] = local_queue_usage(queue, total_usage(infos))
        self._patch(LOCAL_QUEUES, obj, status)

    def _patch(self, kind: Kind, obj: Json, status: Json) -> None:
        old, (namespace, name) = obj.get(_STATUS) or {}, place_of(obj)
        changed = {field: value for field, value in status.items() if old.get(field) != value}
        if changed:
            patch = {_STATUS: changed}
            self._core.store.patch(kind, namespace, name, patch, subresource=_STATUS, field_manager="kueue")


def gate_closed(workload: Mapping[str, Any]) -> bool:
    """Return whether a Workload has a preemption gate that is not open; one that is in its spec alone is closed."""
    open_ = {gate["name"] for gate in _gates_of(workload) or () if gate.get("position") == "Open"}
    return any(gate["name"] not in open_ for gate in workload["spec"].get("preemptionGates") or ())


def _says(decision: Decision) -> tuple[str, str]:
    return decision.workload, decision.message if isinstance(decision, Inadmissible | Evict) else ""


def _place(key: str) -> Place:
    namespace, _, name = key.partition("/")
    return namespace, name


def _local_queue_of(workload: Json | None) -> Place | None:
    if workload is None:
        return None
    return meta(workload)["namespace"], workload["spec"].get("queueName") or ""


def _target_of(local_queue: Mapping[str, Any]) -> str:
    return str(local_queue["spec"].get("clusterQueue") or "")


def _stopped(local_queue: Mapping[str, Any]) -> bool:
    return (local_queue["spec"].get("stopPolicy") or "None") != "None"


def _but_status(obj: Json) -> tuple[Any, ...]:
    return obj.get("spec"), meta(obj).get("uid"), meta(obj).get("labels"), meta(obj).get("deletionTimestamp")


def _conditions(obj: Json, active: bool, reason: str, message: str, at: str) -> Json:
    status = {"conditions": list((obj.get(_STATUS) or {}).get("conditions") or ())}
    set_condition(status, "Active", active, reason, message, at=at, generation=meta(obj).get("generation", 0))
    return status


def _parts(holders: Iterable[Info]) -> dict[str, list[Info]]:
    found = list(holders)
    return {"flavorsReservation": found, "flavorsUsage": [one for one in found if one.workload.admitted]}


def _counts(holders: Iterable[Info], waiting: int) -> Json:
    parts = _parts(holders)
    return {
        "pendingWorkloads": waiting,
        "reservingWorkloads": len(parts["flavorsReservation"]),
        "admittedWorkloads": len(parts["flavorsUsage"]),
    }


def _gates_of(workload: Mapping[str, Any]) -> Any:
    return (workload.get(_STATUS) or {}).get("preemptionGates")
