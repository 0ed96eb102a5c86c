"""A scheduler and kubelets, as far as pods that belong together need them: where a pod may go, that it runs, and that
it ends.

In: pods, nodes, claims and PodGroups. Out: pods on nodes, ready, and over after a while if their annotation says so. A
pod goes to the first node, by name, that is not cordoned, has enough cpu, and on which its required (anti-)affinity by
host name holds. Pods of the scheduler `volcano` wait until their PodGroup is admitted."""

from __future__ import annotations

from controlplane.clock import Clock
from controlplane.kube import durations
from controlplane.kube.kinds import NODES, PODS, Json, Kind, meta
from controlplane.kube.pod_groups import GROUP_NAME
from controlplane.kube.pod_requests import effective
from controlplane.kube.well_known import ENDED_PHASES, REQUIRED_AFFINITY
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View
from controlplane.simulation.controllers.claims import claims_of
from controlplane.simulation.controllers.jobs import DURATION
from controlplane.simulation.kinds.own_cluster import CLAIMS, POD_GROUPS

_LOOK_AGAIN = 0.05  # seconds; a toy looks again instead of knowing what made room
_ADMITTED = ("Inqueue", "Running")


class Nodes(Behaviour):
    """Places and runs the pods of one cluster. `obeyed` are schedulers whose pods wait for their group."""

    def __init__(self, name: str, view: View, clock: Clock, obeyed: tuple[str, ...] = ("volcano",)) -> None:
        super().__init__(name, clock)
        self._view, self._store, self._obeyed = view, view.store, obeyed
        self._began: dict[str, float] = {}
        view.listen(self._on_change)

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        if new is not None and kind == PODS:
            self.enqueue(("pod", meta(new)["namespace"], meta(new)["name"]))

    def reconcile(self, key: Key) -> float | None:
        """Take a pod one step on."""
        pod = self._view.get(PODS, key[1], key[2])
        if pod is None or "deletionTimestamp" in meta(pod) or (pod.get("status") or {}).get("phase") in ENDED_PHASES:
            return None
        if not pod["spec"].get("nodeName"):
            return None if self._place(pod) else _LOOK_AGAIN
        return self._run(pod)

    # placing

    def _place(self, pod: Json) -> bool:
        if not self._may_start(pod):
            return False
        for (_, name), node in sorted(self._view.all(NODES).items()):
            if not (node.get("spec") or {}).get("unschedulable") and self._fits(pod, name, node):
                body = {"metadata": {"uid": meta(pod)["uid"]}, "spec": {"nodeName": name}}
                self._store.patch(PODS, meta(pod)["namespace"], meta(pod)["name"], body)
                return True
        return False

    def _may_start(self, pod: Json) -> bool:
        namespace, spec = meta(pod)["namespace"], pod["spec"]
        if spec.get("schedulingGates"):
            return False
        if any(self._view.get(CLAIMS, namespace, claim) is None for claim in claims_of(pod)):
            return False
        if spec.get("schedulerName") not in self._obeyed:
            return True
        group = self._view.get(POD_GROUPS, namespace, str((meta(pod).get("annotations") or {}).get(GROUP_NAME, "")))
        return group is not None and (group.get("status") or {}).get("phase") in _ADMITTED

    def _fits(self, pod: Json, name: str, node: Json) -> bool:
        here = [one for one in self._view.all(PODS).values() if one["spec"].get("nodeName") == name and _lives(one)]
        free = effective_of(node) - sum(effective(one["spec"]).get("cpu", 0) for one in here)
        if effective(pod["spec"]).get("cpu", 0) > free:
            return False
        near, apart = (_required(pod, here, kind) for kind in ("podAffinity", "podAntiAffinity"))
        return all(near) and not any(apart)

    # running

    def _run(self, pod: Json) -> float | None:
        place = meta(pod)["namespace"], meta(pod)["name"]
        began = self._began.setdefault(meta(pod)["uid"], self.clock.monotonic())
        if (pod.get("status") or {}).get("phase") != "Running":
            conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
            self._store.patch(
                PODS, *place, {"status": {"phase": "Running", "conditions": conditions}}, subresource="status"
            )
        wanted = (meta(pod).get("annotations") or {}).get(DURATION)
        if wanted is None:
            return None
        left = began + durations.parse(wanted).total_seconds() - self.clock.monotonic()
        if left > 0:
            return left
        conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
        self._store.patch(
            PODS, *place, {"status": {"phase": "Succeeded", "conditions": conditions}}, subresource="status"
        )
        return None


def effective_of(node: Json) -> int:
    """Return a node's allocatable cpu, in billionths; without any, it has no bounds."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    if "cpu" not in allocatable:
        return 10**18
    amount = effective({"containers": [{"name": "all", "resources": {"requests": {"cpu": allocatable["cpu"]}}}]})
    return amount["cpu"]


def _lives(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ENDED_PHASES


def _any(here: list[Json], pod: Json, term: Json) -> bool:
    wanted = (term.get("labelSelector") or {}).get("matchLabels") or {}
    namespace = meta(pod)["namespace"]
    return any(
        meta(one)["namespace"] == namespace and wanted.items() <= (meta(one).get("labels") or {}).items()
        for one in here
    )


def _required(pod: Json, here: list[Json], kind: str) -> list[bool]:
    """Whether pods on a node match, for each term that a pod requires of its affinity of a kind."""
    terms = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED_AFFINITY) or ()
    return [_any(here, pod, term) for term in terms]
