"""A scene of pods: one, or a group whose Workload all of them own; and how it comes to run on a worker."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.multikueue import observations
from controlplane.kube.kinds import PODS, WORKLOADS, Json
from tests.multikueue.observed import metadata
from tests.multikueue.scene import NS, Scene

KUEUE: dict[str, Any] = {"pod_gate": "kueue"}
RUNS = {"QuotaReserved": True, "Admitted": True}
ONE, TWO = "11" * 32, "22" * 32


class Pods(Scene):
    """A group of pods `p-0`, `p-1`, …, whose Workload is owned by all of them; or one pod that is in no group."""

    def __init__(self, *workers: str, names: tuple[str, ...] = ("p-0", "p-1"), **more: Any) -> None:
        super().__init__(*workers, connected=False, policy=KUEUE | more)
        for name in workers:
            self.connect(name)
        self.pods: dict[str, dict[str, Any]] = {}
        self.names_ = names
        for name in names:
            self.pod(name)
        self.workload({"QuotaReserved": True}, **self.owned(*names))

    def owned(self, *names: str) -> dict[str, Any]:
        owner = observations.Owner(api_version="v1", kind="Pod", name=names[0], uid=f"uid-{names[0]}")
        return {"owner": owner, "owners": [f"uid-{name}" for name in names] if len(names) > 1 else []}

    def connect(self, name: str, kinds: tuple[Any, ...] = (WORKLOADS, PODS)) -> Scene:
        return super().connect(name, kinds)

    def pod(self, name: str, **changes: Any) -> Pods:
        group = "" if len(self.names_) == 1 else "gang"
        known = self.pods.setdefault(
            name, {"suspended": True, "group": group, "template": "aa" * 32, "status": "00" * 32}
        )
        known.update(changes)
        seen = observations.JobObserved(
            namespace=NS, name=name, uid=f"uid-{name}", kind=PODS.name, resource_version=self._rv(), **known
        )
        self.fold(f"job/{PODS.name}/{NS}/{name}", seen)
        return self

    def pod_gone(self, name: str) -> Pods:
        self.pods.pop(name)
        gone = observations.JobGone(namespace=NS, name=name, uid=f"uid-{name}", kind=PODS.name)
        self.fold(f"job/{PODS.name}/{NS}/{name}", gone)
        return self

    def copy(self, cluster: str, name: str, **changes: Any) -> Pods:
        fields: dict[str, Any] = {"suspended": False, "status": "00" * 32, "prebuilt": self.wl, **changes}
        seen = observations.RemoteJobObserved(
            namespace=NS, name=name, uid=f"{cluster}-{name}", kind=PODS.name, resource_version=self._rv(), **fields
        )
        self.fold(self.stream, seen, cluster)
        return self

    def copy_gone(self, cluster: str, name: str) -> Pods:
        gone = observations.RemoteJobGone(namespace=NS, name=name, uid=f"{cluster}-{name}", kind=PODS.name)
        self.fold(self.stream, gone, cluster)
        return self

    def admitted(self, *clusters: str) -> Pods:
        self.decide()
        self.workload(nominated=list(clusters))
        self.decide()
        for name in clusters:
            self.clone(name)
        self.clone(clusters[0], RUNS)
        return self

    def running(self, winner: str = "a", *clusters: str) -> Pods:
        """Every pod of the group is on the winner, and runs there."""
        self.admitted(*(clusters or (winner,)))
        self.decide()
        for name in self.names_:
            self.copy(winner, name)
        self.decide()
        self.workload({"Admitted": True}, check="Ready", cluster_name=winner, nominated=[])
        self.decide()
        for name in self.names_:
            self.copy(winner, name, status=ONE, inactive=False)
        self.tick(seconds=1).decide()
        for name in self.names_:
            self.pod(name, status=ONE, inactive=False)
        assert self.names() == []
        return self

    def writes(self) -> list[tuple[str, str]]:
        """One pass; its decisions and which pod each is about."""
        return [
            (type(event).__name__.removesuffix("Decided"), str(getattr(event, "member", ""))) for event in self.decide()
        ]


def pod(**spec: Any) -> Json:
    labels = {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/pod-group-name": "gang"}
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata("p-0", labels=labels),
        "spec": {"containers": [], "schedulingGates": gates, **spec},
        "status": {"phase": "Pending"},
    }
