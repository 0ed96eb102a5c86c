"""Small objects that the quota engine reads."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.quota.engine import parse_queues
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import PodSet, Workload
from controlplane.controllers.quota.engine.state import State
from controlplane.kube.kinds import Json


def cluster_queue(**spec: Any) -> Json:
    return {"metadata": {"name": "q"}, "spec": spec}


def group(**resource: Any) -> list[Json]:
    named = {"name": "cpu", "nominalQuota": "1", **resource}
    return [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [named]}]}]


def workload(name: str = "w", priority: int = 0, cpu: str = "1", **more: Any) -> Json:
    spec = {
        "queueName": "lq",
        "priority": priority,
        "podSets": [{"name": "main", "count": 1, "template": {"spec": pod(requests={"cpu": cpu})}}],
    }
    metadata = {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": spec, **more}


def pod(**resources: Any) -> Json:
    return {"containers": [{"name": "c", "resources": resources}]}


def info(name: str, priority: int = 0, at: float = 0, **more: Any) -> Info:
    made = Workload("ns", name, name, "lq", priority, (PodSet("main", 1, 1, {"cpu": priority}),), at, **more)
    return Info(made, "q")


def fleet(**spec: Any) -> State:
    state = State()
    state.put_namespace("ns", {}, 0)
    state.put_flavor(parse_queues.resource_flavor({"metadata": {"name": "f"}, "spec": {}}), 0)
    groups = group(nominalQuota="2")
    state.put_cluster_queue(
        parse_queues.cluster_queue(cluster_queue(resourceGroups=groups, namespaceSelector={}, **spec)), 0
    )
    local = {"metadata": {"namespace": "ns", "name": "lq"}, "spec": {"clusterQueue": "q"}}
    state.put_local_queue(parse_queues.local_queue(local))
    return state
