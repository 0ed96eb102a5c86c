"""Plain pods and groups of them under Kueue, and a node that runs them: the integration `pod`
(kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_controller.go, pod_webhook.go, ff69552e).

In: pods with a queue name. Out: a pod is created with Kueue's gate; the pods of a group, once all are there, get one
Workload that they own together; they lose the gate when it is admitted, and are deleted when it is evicted. On a worker
pods may name a Workload that was made beforehand. A pod without any gate runs, and ends after a while; what holds
another gate stays where it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from controlplane.job_kinds.pod import MANAGED, Pod
from controlplane.kube import durations
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import PODS, WORKLOADS, Json, Kind, meta
from controlplane.kube.kueue_names import ADMISSION_GATE, ORIGIN_LABEL, QUEUE_LABEL, RESOURCE_IN_USE
from controlplane.kube.topologies import TOPOLOGY_GATE
from controlplane.log.event import canonical
from controlplane.simulation.apiserver.store import Operation
from controlplane.simulation.controllers.behaviour import Behaviour, Key, place_of
from controlplane.simulation.controllers.jobs import DURATION, OUTCOME, JobPace
from controlplane.simulation.kueue.cluster import Kueue
from controlplane.simulation.kueue.common import owner_reference, prebuilt_name, timestamp, workload_name
from controlplane.simulation.kueue.jobs import give_back
from controlplane.simulation.kueue.manager import KueueManager

TOTAL = "kueue.x-k8s.io/pod-group-total-count"
_SERVING, _RETRIABLE = "kueue.x-k8s.io/pod-group-serving", "kueue.x-k8s.io/retriable-in-group"
_POD = Pod()


class PodFramework(Behaviour):
    """The integration and the node of one cluster, beside its Kueue, whose view it shares; the node alone where no
    Kueue `manages` pods.
    """

    def __init__(self, name: str, kueue: Kueue, pace: JobPace, *, manages: bool = True) -> None:
        super().__init__(name, kueue.clock)
        self._manages = manages
        self._kueue, self._core, self._pace = kueue, kueue.core, pace
        self._since: dict[str, float] = {}
        kueue.view.listen(self._on_change)
        if manages:
            kueue.view.store.admission.append(self._admit)

    def reconcile(self, key: Key) -> float | None:
        """Take the pods of a Workload, or one pod that runs, a step on."""
        what, namespace, name = key
        if what == "run":
            return self._run(namespace, name)
        if self._manages:
            self._follow(namespace, name)
        return None

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        if kind == WORKLOADS:
            self.enqueue(("workload", *place_of(new or old or {})))
        elif kind == PODS:
            for pod in (one for one in (old, new) if one is not None and _queue(one)):
                self.enqueue(("workload", meta(pod)["namespace"], self._workload_of(pod)))
            if new is not None:
                self.enqueue(("run", *place_of(new)))

    def _admit(self, operation: Operation, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
        """Gate a pod with a queue name at its creation, mark it as Kueue's, and keep it until Kueue has seen its
        end.
        """
        if operation == "create" and new is not None and kind == PODS and _queue(new):
            new["spec"] |= _POD.stopped(new)
            metadata = new["metadata"]
            metadata.setdefault("labels", {})[MANAGED] = "true"
            if MANAGED not in (metadata.get("finalizers") or ()):
                metadata["finalizers"] = [*(metadata.get("finalizers") or ()), MANAGED]

    def _workload_of(self, pod: Json) -> str:
        """Return the name of the Workload that a pod has, or is to have."""
        metadata = meta(pod)
        bound = prebuilt_name(pod, self._core.gates) or _POD.group(pod)
        return bound or workload_name(PODS, metadata["name"], metadata["uid"], short=self._core.gates.short_names)

    def _members(self, namespace: str, workload: str) -> list[Json]:
        return [
            pod
            for (space, _), pod in sorted(self._kueue.view.all(PODS).items())
            if space == namespace and _queue(pod) and self._workload_of(pod) == workload
        ]

    # Kueue's part.

    def _follow(self, namespace: str, name: str) -> None:
        """Make the Workload of pods, or let them follow it."""
        pods, workload = self._members(namespace, name), self._core.workload(namespace, name)
        if pods and not _POD.group(pods[0]):
            self._finalize([pod for pod in pods if _deleting(pod)])
        if workload is None:
            self._without_workload(namespace, name, pods)
        elif not pods:
            self._ownerless(workload)
        elif is_true(workload, "Finished"):
            self._finalize(pods)
            self._core.remove_finalizer(workload)
        elif meta(workload).get("deletionTimestamp"):
            self._stop(pods, all_of_them=True)
            self._finalize(pods)
            self._core.remove_finalizer(workload)
        elif not self._owned(workload, pods):
            self._step(workload, pods)

    def _without_workload(self, namespace: str, name: str, pods: list[Json]) -> None:
        """Make the Workload of pods that name none, once all are there; those that never run are let go."""
        if not pods or prebuilt_name(pods[0], self._core.gates):
            return
        active = [pod for pod in pods if _counts(pod)]
        self._finalize([pod for pod in pods if not _counts(pod)])
        if active and len(active) >= _total(active[0]) and not any(_over(pod) for pod in active):
            self._create(namespace, name, active)

    def _step(self, workload: Json, pods: Sequence[Json]) -> None:
        evicted = condition(workload, "Evicted")
        active, total = sum(_counts(pod) for pod in pods), _total(pods[0])
        if not prebuilt_name(pods[0], self._core.gates):
            # What others have taken the place of.
            inactive = [pod for pod in pods if not _counts(pod)]
            self._finalize(inactive[: max(0, len(pods) - total)])
            self._remove(_excess(workload, pods))
        elif _POD.group(pods[0]) and active > total:
            self._core.finish(workload, "OutOfSync", "The prebuilt workload is out of sync with its user job")
            return
        if ending := _ending(pods):
            self._core.finish(workload, *ending)
        elif evicted is not None and evicted["status"] == "True":
            self._stop(pods)
            self._give_back(workload, pods, evicted)
        elif is_true(workload, "Admitted") and not self._stays(pods[0]):
            for pod in pods:
                self._ungate(pod)

    def _give_back(self, workload: Json, pods: Sequence[Json], evicted: Json) -> None:
        """Give the quota of an evicted group back once none of its pods runs."""
        running = any(_POD.active(pod.get("status") or {}) and not _deleting(pod) for pod in pods)
        if not running and is_true(workload, "QuotaReserved"):
            give_back(self._core, workload, evicted)

    def _ownerless(self, workload: Json) -> None:
        """The pods of a Workload are gone: it gives its quota back, and goes with them."""
        references = meta(workload).get("ownerReferences") or ()
        if not any(one.get("kind") == PODS.kind for one in references):
            return
        evicted = condition(workload, "Evicted")
        if evicted is not None and evicted["status"] == "True" and is_true(workload, "QuotaReserved"):
            give_back(self._core, workload, evicted)
        elif not is_true(workload, "Evicted") or meta(workload).get("deletionTimestamp"):
            self._core.orphaned(workload, may_finish=True)

    def _create(self, namespace: str, name: str, pods: Sequence[Json]) -> None:
        roles: dict[str, list[Json]] = {}
        for pod in pods:
            roles.setdefault(_role(pod), []).append(pod)
        sets = [
            {**_POD.pod_sets(same[0])[0], "name": role if len(roles) > 1 else "main", "count": len(same)}
            for role, same in sorted(roles.items())
        ]
        head: Json = {
            "name": name,
            "namespace": namespace,
            "finalizers": [RESOURCE_IN_USE],
            "ownerReferences": [self._reference(pod) for pod in pods],
        }
        spec = {"podSets": sets, "queueName": _queue(pods[0]), "active": True, "priority": 0}
        body = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": head, "spec": spec}
        self._core.store.create(WORKLOADS, body, field_manager="kueue")

    def _owned(self, workload: Json, pods: Sequence[Json]) -> bool:
        """Have a Workload owned by all its pods; return whether that was written now."""
        references = meta(workload).get("ownerReferences") or []
        known = {one["uid"] for one in references}
        missing = [self._reference(pod) for pod in pods if meta(pod)["uid"] not in known]
        if missing:
            self._core.patch(workload, {"metadata": {"ownerReferences": [*references, *missing]}})
        return bool(missing)

    def _reference(self, pod: Json) -> Json:
        found = owner_reference(PODS, pod)
        return {**found, "controller": False} if _POD.group(pod) else found

    def _stays(self, pod: Json) -> bool:
        """Whether Kueue leaves a pod gated because it is dispatched to another cluster (gate MultiKueue)."""
        return (
            isinstance(self._kueue, KueueManager)
            and self._core.gates.multikueue
            and ORIGIN_LABEL not in (meta(pod).get("labels") or {})
            and self._kueue.leads_to_multikueue(meta(pod)["namespace"], _queue(pod))
        )

    def _ungate(self, pod: Json) -> None:
        gates = pod["spec"].get("schedulingGates") or []
        kept = [
            gate for gate in gates if gate["name"] not in (ADMISSION_GATE, TOPOLOGY_GATE)
        ]  # it places nothing by topology
        if len(kept) < len(gates):
            self._core.store.patch(
                PODS, *place_of(pod), {"spec": {"schedulingGates": kept or None}}, field_manager="kueue"
            )

    def _stop(self, pods: Sequence[Json], *, all_of_them: bool = False) -> None:
        """Delete the pods that were let go: they cannot be gated again. With their Workload `all_of_them` go."""
        for pod in pods:
            if not _deleting(pod) and (all_of_them or not (_gated(pod) or _over(pod))):
                self._core.store.delete(PODS, *place_of(pod), uid=meta(pod)["uid"])

    def _remove(self, pods: Sequence[Json]) -> None:
        """Delete pods that are more than their group has (`removeExcessPods`)."""
        self._finalize(pods)
        for pod in pods:
            self._core.store.delete(PODS, *place_of(pod), uid=meta(pod)["uid"])

    def _finalize(self, pods: Sequence[Json]) -> None:
        """Take Kueue's finalizer off pods, which go by that if they are deleted."""
        for pod in pods:
            metadata = meta(pod)
            if MANAGED in (metadata.get("finalizers") or ()):
                left = [one for one in metadata["finalizers"] if one != MANAGED]
                body = {"metadata": {"uid": metadata["uid"], "finalizers": left or None}}
                self._core.store.patch(PODS, *place_of(pod), body, field_manager="kueue")

    # The node's part.

    def _run(self, namespace: str, name: str) -> float | None:
        """Take a pod without gates a step on; return after how many seconds the next is due."""
        pod = self._kueue.view.get(PODS, namespace, name)
        if pod is None or pod["spec"].get("schedulingGates") or _over(pod):
            return None
        if _deleting(pod):
            self._end(pod)
            return None
        uid, at = meta(pod)["uid"], timestamp(self.clock.now())
        if not _POD.active(pod.get("status") or {}):
            self._since[uid] = self.clock.monotonic()
            placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
            self._show(pod, {"phase": "Running", "startTime": at, "conditions": [placed, {**placed, "type": "Ready"}]})
            return self._duration(pod).total_seconds()
        left = self._since.setdefault(uid, self.clock.monotonic()) + self._duration(pod).total_seconds()
        if left > self.clock.monotonic():
            return left - self.clock.monotonic()
        failed = ((meta(pod).get("annotations") or {}).get(OUTCOME) or self._pace.outcome) == "fail"
        self._show(pod, {"phase": "Failed" if failed else "Succeeded"})
        return None

    def _end(self, pod: Json) -> None:
        """Stop a pod that is deleted, and only its finalizers keep; one that never ran stays as it is."""
        if _POD.active(pod.get("status") or {}):
            self._show(pod, {"phase": "Failed"})

    def _duration(self, pod: Json) -> timedelta:
        said = (meta(pod).get("annotations") or {}).get(DURATION)
        return durations.parse(said) if said else self._pace.duration

    def _show(self, pod: Json, status: Json) -> None:
        body = {"metadata": {"uid": meta(pod)["uid"]}, "status": status}
        self._core.store.patch(PODS, *place_of(pod), body, subresource="status", field_manager="kubelet")


def _queue(pod: Mapping[str, Any]) -> str:
    return str((meta(pod).get("labels") or {}).get(QUEUE_LABEL) or "")


def _deleting(pod: Mapping[str, Any]) -> bool:
    return bool(meta(pod).get("deletionTimestamp"))


def _counts(pod: Mapping[str, Any]) -> bool:
    """Whether a pod runs, may still run, or has succeeded (`isPodRunnableOrSucceeded`). There are no nodes."""
    return not _deleting(pod) and (pod.get("status") or {}).get("phase") != "Failed"


def _over(pod: Mapping[str, Any]) -> bool:
    return _POD.outcome(pod.get("status") or {}) is not None


def _excess(workload: Json, pods: Sequence[Json]) -> list[Json]:
    """Return the pods of a group that are more than its Workload's pod sets have: of each role those that were let go
    first are kept, and then the oldest (`sortActivePods`)."""
    sets, found = workload["spec"]["podSets"], []
    for one in sets:
        active = [pod for pod in pods if _counts(pod) and (len(sets) == 1 or _role(pod) == one["name"])]
        active.sort(key=lambda pod: (_gated(pod), str(meta(pod)["creationTimestamp"]), meta(pod)["name"]))
        found += active[one["count"] :]
    return found


def _gated(pod: Mapping[str, Any]) -> bool:
    return any(gate["name"] == ADMISSION_GATE for gate in pod["spec"].get("schedulingGates") or ())


def _ending(pods: Sequence[Json]) -> tuple[str, str] | None:
    """Return how pods ended, None if they have not: those of a group once all have succeeded, or all are over and one
    gives the group up by that (`Finished`)."""
    total, first = _total(pods[0]), pods[0]
    good = sum((pod.get("status") or {}).get("phase") == "Succeeded" for pod in pods)
    over, message = all(_over(pod) for pod in pods), f"Pods succeeded: {good}/{total}."
    if not _POD.group(first):
        return ("Succeeded" if good == len(pods) else "Failed", message) if over else None
    given_up = over and any(_says(pod, _RETRIABLE) == "false" for pod in pods)
    ended = good == total or given_up
    return ("Succeeded", message) if ended and _says(first, _SERVING) != "true" else None


def _says(pod: Json, note: str) -> str:
    return str((meta(pod).get("annotations") or {}).get(note) or "")


def _total(pod: Mapping[str, Any]) -> int:
    """Return how many pods the group of a pod has; 1 for a pod in none."""
    return int((meta(pod).get("annotations") or {}).get(TOTAL) or 1) if _POD.group(pod) else 1


def _role(pod: Mapping[str, Any]) -> str:
    """Return what tells a pod from those of a group that ask for something else."""
    return hashlib.sha256(canonical(_POD.pod_sets(pod)[0]["template"])).hexdigest()[:8]
