"""StatefulSets and LeaderWorkerSets under Kueue, with the controllers that run them (kubernetes-sigs/kueue
pkg/controller/jobs/statefulset/statefulset_reconciler.go,
pkg/controller/jobs/leaderworkerset/leaderworkerset_reconciler.go, ff69552e).

In: sets with a queue name, and copies of them. Out: their pods are gated from the beginning; a StatefulSet has one
Workload, a LeaderWorkerSet one for each replica, named after the set, or after the UID of the one that it is a copy of;
and a status with as many replicas ready as Workloads let run. Pods are not made: nothing here looks at those of a
set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.leaderworkerset import LeaderWorkerSet
from controlplane.job_kinds.leaderworkerset import workload_name as component_name
from controlplane.job_kinds.statefulset import StatefulSet
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import WORKLOADS, Json, Kind, meta
from controlplane.kube.kueue_names import COMPONENT_INDEX, ORIGIN_LABEL, ORIGIN_UID, QUEUE_LABEL, RESOURCE_IN_USE
from controlplane.simulation.apiserver.store import Operation
from controlplane.simulation.controllers.behaviour import Behaviour, Key, Place, place_of
from controlplane.simulation.kueue.cluster import Kueue
from controlplane.simulation.kueue.common import owner_reference, workload_name
from controlplane.simulation.kueue.jobs import give_back

SETS: Sequence[JobKind] = (StatefulSet(), LeaderWorkerSet())
_OWNER_GVK, _OWNER_NAME = "kueue.x-k8s.io/job-owner-gvk", "kueue.x-k8s.io/job-owner-name"


class SetFramework(Behaviour):
    """The integrations and the controllers of one cluster, beside its Kueue, whose view it shares; the controllers
    alone where no Kueue `manages` sets.
    """

    def __init__(self, name: str, kueue: Kueue, *, manages: bool = True) -> None:
        super().__init__(name, kueue.clock)
        self._manages = manages
        self._kueue, self._core = kueue, kueue.core
        self._adapters = {one.kind.name: one for one in SETS}
        self._of: dict[Place, Key] = {}
        kueue.view.listen(self._on_change)
        if manages:
            kueue.view.store.admission.append(self._admit)

    def reconcile(self, key: Key) -> float | None:
        """Take a set, or what is left of one, a step on."""
        kind, namespace, name = key
        adapter = self._adapters[kind]
        found = self._kueue.view.get(adapter.kind, namespace, name)
        if self._manages:
            self._release(adapter, namespace, name, found)
        if found is None or not _queue(found) or meta(found).get("deletionTimestamp"):
            return None
        if self._manages:
            self._follow(adapter, found)
        else:
            known = [self._core.workload(namespace, one) for one in names_of(adapter, found)]
            self._show_replicas(adapter, found, [one for one in known if one and _lets_run(one)])
        return None

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        shown = new or old or {}
        if kind == WORKLOADS:
            for owner in meta(shown).get("ownerReferences") or ():
                adapter = next((one for one in SETS if one.kind.kind == owner.get("kind")), None)
                if adapter is not None:
                    self.enqueue((adapter.kind.name, meta(shown)["namespace"], owner["name"]))
            if (key := self._of.get(place_of(shown))) is not None:
                self.enqueue(key)
        elif kind.name in self._adapters:
            key = (kind.name, *place_of(shown))
            if new is not None:
                self._of.update({(key[1], name): key for name in names_of(self._adapters[kind.name], new)})
            self.enqueue(key)

    def _admit(self, operation: Operation, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
        """Gate the pods of a set with a queue name when it is created."""
        if operation == "create" and new is not None and kind.name in self._adapters and _queue(new):
            _gate(new["spec"], self._adapters[kind.name].stopped(new))

    def _release(self, adapter: JobKind, namespace: str, name: str, found: Json | None) -> None:
        """Let the Workloads go of a set that is not there any more."""
        alive = meta(found)["uid"] if found is not None and not meta(found).get("deletionTimestamp") else ""
        for workload in list(self._kueue.view.all(WORKLOADS).values()):
            owners = [one for one in meta(workload).get("ownerReferences") or () if one["kind"] == adapter.kind.kind]
            if (
                owners
                and meta(workload)["namespace"] == namespace
                and owners[0]["name"] == name
                and owners[0]["uid"] != alive
            ):
                self._core.orphaned(workload, may_finish=True)

    def _follow(self, adapter: JobKind, found: Json) -> None:
        """Make the Workloads of a set, show how much of it runs, and give back the quota of what was stopped."""
        workloads = [
            one
            for index, name in enumerate(names_of(adapter, found))
            if (one := self._workload(adapter, found, index, name))
        ]
        self._show_replicas(adapter, found, [one for one in workloads if _lets_run(one)])
        self._release_beyond(adapter, found)
        for workload in workloads:
            evicted = condition(workload, "Evicted")
            if is_true(workload, "Finished"):
                self._core.remove_finalizer(workload)
            elif evicted is not None and evicted["status"] == "True" and is_true(workload, "QuotaReserved"):
                give_back(self._core, workload, evicted)

    def _show_replicas(self, adapter: JobKind, found: Json, let_run: Sequence[Json]) -> None:
        """Write the counts of a set's replicas where they differ: those whose Workloads let them run are ready."""
        copy = ORIGIN_LABEL in (meta(found).get("labels") or {})
        here = copy or not (adapter.held(found) or self._kueue.gates.multikueue)
        wanted = adapter.components(found) or sum(one.pods for one in adapter.pods(found))
        ready = (len(let_run) if adapter.composed else wanted * bool(let_run)) if here else 0
        status = found.get("status") or {}
        if (status.get("replicas"), status.get("readyReplicas")) != (wanted, ready or None):
            body = {"replicas": wanted, "readyReplicas": ready or None}
            self._core.store.patch(
                adapter.kind, *place_of(found), {"status": body}, subresource="status", field_manager="controller"
            )

    def _release_beyond(self, adapter: JobKind, found: Json) -> None:
        """Delete the Workloads of replicas that a set has no more (`filterWorkloads` in leaderworkerset_reconciler.go).
        Kueue puts that of a StatefulSet without replicas on hold; here it goes as well, and is made anew.
        """
        if ORIGIN_LABEL in (meta(found).get("labels") or {}):
            return
        wanted = set(names_of(adapter, found))
        for workload in list(self._kueue.view.all(WORKLOADS).values()):
            owned = any(one["uid"] == meta(found)["uid"] for one in meta(workload).get("ownerReferences") or ())
            if not owned or meta(workload)["name"] in wanted:
                continue
            if not meta(workload).get("deletionTimestamp"):
                self._core.store.delete(WORKLOADS, meta(workload)["namespace"], meta(workload)["name"])
            else:
                self._core.remove_finalizer(workload)

    def _workload(self, adapter: JobKind, found: Json, index: int, name: str) -> Json | None:
        """Return a Workload of a set, which owns it; it is made where the set is no copy."""
        workload = self._core.workload(meta(found)["namespace"], name)
        if workload is None:
            if ORIGIN_LABEL not in (meta(found).get("labels") or {}):
                self._create(adapter, found, index, name)
            return None
        if meta(workload).get("deletionTimestamp"):
            self._core.remove_finalizer(workload)
            return None
        references = meta(workload).get("ownerReferences") or []
        if all(one["uid"] != meta(found)["uid"] for one in references):
            owners = [*references, owner_reference(adapter.kind, found)]
            self._core.patch(workload, {"metadata": {"ownerReferences": owners}})
            return self._core.workload(meta(found)["namespace"], name)
        return workload

    def _create(self, adapter: JobKind, found: Json, index: int, name: str) -> None:
        head: Json = {
            "name": name,
            "namespace": meta(found)["namespace"],
            "finalizers": [RESOURCE_IN_USE],
            "ownerReferences": [owner_reference(adapter.kind, found)],
        }
        if adapter.composed:
            head["annotations"] = {
                _OWNER_GVK: adapter.kind.gvk,
                _OWNER_NAME: meta(found)["name"],
                COMPONENT_INDEX: str(index),
            }
        spec = {"podSets": adapter.pod_sets(found), "queueName": _queue(found), "active": True, "priority": 0}
        body = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": head, "spec": spec}
        self._core.store.create(WORKLOADS, body, field_manager="kueue")


def names_of(adapter: JobKind, found: Json) -> list[str]:
    """Return the names of the Workloads of a set, or of the one that it is a copy of."""
    metadata = meta(found)
    origin = str((metadata.get("annotations") or {}).get(ORIGIN_UID) or metadata["uid"])
    if not adapter.composed:
        if not sum(one.pods for one in adapter.pods(found)):
            return []
        return [workload_name(adapter.kind, metadata["name"], origin)]
    count = adapter.components(found)
    return [component_name(adapter.kind, metadata["name"], origin, index) for index in range(count)]


def _lets_run(workload: Json) -> bool:
    stopped = is_true(workload, "Evicted") or is_true(workload, "Finished")
    return is_true(workload, "Admitted") and not stopped


def _gate(spec: Json, gates: Json) -> None:
    """Put gates into the pod templates of a spec."""
    for name, value in gates.items():
        if isinstance(value, dict):
            _gate(spec.setdefault(name, {}), value)
        else:
            spec[name] = value


def _queue(found: Any) -> str:
    return str((meta(found).get("labels") or {}).get(QUEUE_LABEL) or "")
