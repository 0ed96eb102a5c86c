"""Pods for `generated`: what they ask for, where they want to be, and beside whom."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from controlplane.kube.kinds import Json
from tests.scheduler.objects import HOST, ZONE

KEYS = (HOST, ZONE, "rack", "disk")
NAMESPACES = ("default", "other", "third")
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
_VALUES = {"app": ("a", "a", "a", "b", "c"), "tier": ("x", "y"), "team": ("t", "u"), "env": ("e",)}
_REQUESTS: dict[str, list[Any]] = {
    "cpu": ["100m", "500m", "1", "0", "0.1", "1e0", "250m", "1.5", "0.0001", "2", 1, 0.25, ".5", "1.", "+1", "500000u"],
    "memory": [
        "1Gi",
        "512Mi",
        "200M",
        "1e8",
        "0",
        "1500M",
        "128974848",
        "0.5Gi",
        "1000m",
        "100k",
        1048576,
        "1E6",
        "1024Ki",
        "0.001Ti",
    ],
    "ephemeral-storage": ["1Gi", "500M", "0"],
    "example.com/gpu": ["1", "2", "0"],
    "hugepages-2Mi": ["2Mi", "64Mi"],
    "attachable-volumes-x": ["1"],
    "plain": ["1"],
    "requests.example.com/gpu": ["1"],
    "kubernetes.io/own": ["1"],
}


def labels(rng: random.Random, keys: Sequence[str] = ("app", "tier")) -> dict[str, str]:
    """Draw labels."""
    return {key: rng.choice(_VALUES[key]) for key in keys if rng.random() < 0.7}


def selector(rng: random.Random, keys: Sequence[str] = ("app", "tier"), negative: bool = True) -> Json | None:
    """Draw a label selector, now and then an empty one or none."""
    dice = rng.random()
    if dice < 0.05:
        return None
    if dice < 0.1:
        return {}
    if dice < 0.65:
        return {"matchLabels": {keys[0]: _VALUES[keys[0]][0]}}
    operators = ["In", "Exists", "NotIn", "DoesNotExist"] if negative else ["In", "Exists"]
    expressions = []
    for _ in range(rng.randint(1, 2)):
        key, operator = rng.choice(keys), rng.choice(operators)
        one: Json = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            one["values"] = rng.sample([*sorted(set(_VALUES[key])), "z"], rng.randint(1, 2))
        expressions.append(one)
    return {"matchExpressions": expressions} | ({"matchLabels": labels(rng, keys)} if rng.random() < 0.2 else {})


def spread_constraint(rng: random.Random) -> Json:
    """Draw a topology spread constraint."""
    found: Json = {
        "maxSkew": rng.choice([1, 1, 1, 2, 3, 5]),
        "topologyKey": rng.choice([HOST, ZONE, HOST, ZONE, "rack", "disk"]),
        "whenUnsatisfiable": rng.choice([HARD, SOFT]),
    }
    if (chosen := selector(rng)) is not None:
        found["labelSelector"] = chosen
    if rng.random() < 0.2 and found["whenUnsatisfiable"] == HARD:
        found["minDomains"] = rng.choice([1, 2, 3, 5])
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if rng.random() < 0.35:
            found[policy] = rng.choice(["Honor", "Ignore"])
    if rng.random() < 0.2:
        found["matchLabelKeys"] = rng.choice([["tier"], ["absent"], ["tier", "absent"]])
    return found


def node_term(rng: random.Random) -> Json:
    """Draw a node selector term; some are empty and some do not parse."""
    found: Json = {}
    if rng.random() < 0.9:
        found["matchExpressions"] = [_node_expression(rng) for _ in range(rng.choice([1, 1, 1, 2]))]
    if rng.random() < 0.2:
        found["matchFields"] = [_field(rng) for _ in range(rng.choice([1, 1, 2]))]
    return found


def _field(rng: random.Random) -> Json:
    values = rng.sample(["n0", "n1", "n2", "n9"], 2 if rng.random() < 0.05 else 1)
    key = "metadata.name" if rng.random() < 0.95 else "metadata.namespace"
    return {"key": key, "operator": rng.choice(["In", "In", "NotIn"]), "values": values}


def _node_expression(rng: random.Random) -> Json:
    operator = rng.choice(["In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    key = "rack" if operator in ("Gt", "Lt") else rng.choice(KEYS)
    found: Json = {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        found["values"] = [rng.choice(["1", "5", "-10", "y" if rng.random() < 0.2 else "2", "+1", "007"])]
    elif operator in ("In", "NotIn"):
        values = {
            HOST: ["n0", "n1", "shared"],
            ZONE: ["z1", "z2", "z3"],
            "rack": ["1", "2", "30"],
            "disk": ["ssd", "hdd"],
        }
        found["values"] = rng.sample(values[key], rng.randint(0 if rng.random() < 0.05 else 1, 2))
    return found


class PodDraw:
    """One scenario's dice, and what it leans to: so that what refuses everything does not hide the rest."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.odd = rng.choice([0.02, 0.05, 0.15, 0.4])
        self.zoned = rng.choice([1.0, 1.0, 0.8])
        self.tainted = rng.random() < 0.4
        self.crowded = rng.random() < 0.35
        self.owned = rng.random() < 0.35
        self.social = rng.choice([0.05, 0.1, 0.3, 0.7])
        self.timeless = rng.random() < 0.1

    def requests(self) -> Json:
        rng = self.rng
        found = {}
        for at, (name, values) in enumerate(_REQUESTS.items()):
            if rng.random() < (0.6 if at < 2 else 0.2 * self.odd):
                found[name] = rng.choice(values if at > 1 or rng.random() < self.odd else values[:3])
        if rng.random() < 0.1 * self.odd:
            found["hugepages-1Gi"] = "1Gi"
        if self.crowded and rng.random() < 0.7:
            found["cpu"] = rng.choice(["1", "2", "1500m", "3"])
        return found

    def container(self, name: str) -> Json:
        rng = self.rng
        images = ["app", "big:1", "registry:5000/tool", "small:2", "none:1"]
        found: Json = {"name": name, "image": rng.choice(images)}
        if rng.random() < 0.1 * self.odd:
            found["image"] = rng.choice(["big:1@sha256:1", "app@sha256:1", "registry:5000/tool:latest", ""])
        if asked := self.requests():
            found["resources"] = {"requests": asked}
        if rng.random() < 0.15:
            found.setdefault("resources", {})["limits"] = self.requests()
        if rng.random() < 0.12:
            port: Json = {"containerPort": 80, "hostPort": rng.choice([80, 80, 81, 0])}
            if rng.random() < 0.4:
                port["hostIP"] = rng.choice(["0.0.0.0", "10.0.0.1", "10.0.0.2"])
            if rng.random() < 0.3:
                port["protocol"] = rng.choice(["TCP", "UDP"])
            found["ports"] = [port]
            if rng.random() < 0.2:
                found["ports"].append({"containerPort": 81, "hostPort": 81, "protocol": rng.choice(["SCTP", "UDP"])})
        return found

    def spec(self) -> Json:
        """Draw what any pod may ask for."""
        rng = self.rng
        found: Json = {"containers": [self.container(f"c{at}") for at in range(rng.choice([1, 1, 1, 2, 3]))]}
        if rng.random() < 0.2:
            init = [self.container(f"i{at}") for at in range(rng.randint(1, 3))]
            for one in init:
                if rng.random() < 0.5:
                    one["restartPolicy"] = "Always"
            found["initContainers"] = init
        if rng.random() < 0.08:
            found["overhead"] = {"cpu": rng.choice(["50m", "0.25"]), "memory": "64Mi"}
        if rng.random() < 0.08:
            whole = {"cpu": rng.choice(["2", "750m"]), "memory": rng.choice(["2Gi", "3e9"]), "hugepages-2Mi": "2Mi"}
            kept = {name: amount for name, amount in whole.items() if rng.random() < 0.6}
            found["resources"] = {"requests": kept} if kept or rng.random() < 0.5 else {"limits": {"cpu": "2"}}
        found["affinity"] = self.affinity()
        if rng.random() < 0.6:
            found["priority"] = rng.choice([-10, 0, 0, 1, 5])
        return found

    def affinity(self) -> Json:
        rng = self.rng
        found: Json = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            if rng.random() < self.social:
                found[kind] = {}
                if rng.random() < 0.35:
                    count = rng.choice([1, 1, 2])
                    found[kind]["requiredDuringSchedulingIgnoredDuringExecution"] = [self.term() for _ in range(count)]
                if rng.random() < 0.7:
                    found[kind]["preferredDuringSchedulingIgnoredDuringExecution"] = [
                        {"weight": rng.choice([1, 7, 50, 100]), "podAffinityTerm": self.term()}
                        for _ in range(rng.choice([1, 1, 2]))
                    ]
        return found

    def term(self) -> Json:
        rng = self.rng
        found: Json = {"topologyKey": rng.choice([HOST, ZONE, ZONE, "rack", "disk"])}
        if (chosen := selector(rng)) is not None:
            found["labelSelector"] = chosen
        if rng.random() < 0.15:
            found["namespaces"] = rng.sample([*NAMESPACES, "unknown"], rng.randint(0, 2))
        if rng.random() < 0.2 and (spaces := selector(rng, ("team", "env"), negative=False)) is not None:
            found["namespaceSelector"] = spaces
        for keys in ("matchLabelKeys", "mismatchLabelKeys"):
            if rng.random() < 0.05:  # merged by the API server alone
                found[keys] = ["app"]
        return found

    def toleration(self) -> Json:
        rng = self.rng
        found: Json = {"operator": rng.choice(["Exists", "Equal", ""])}
        if rng.random() < 0.05:
            found["operator"] = rng.choice(["Lt", "Gt", "In", "exists"])
        found["key"] = rng.choice(["k", "k", "l", "m", "", "node.kubernetes.io/unschedulable"])
        if found["operator"] != "Exists":
            found["value"] = rng.choice(["v", "w", ""])
        if rng.random() < 0.5:
            found["effect"] = rng.choice(["NoSchedule", "NoExecute", "PreferNoSchedule", ""])
        return found

    def placed(self, name: str, nodes: Sequence[str]) -> Json:
        """Draw a pod that has a node, now and then one that is not there."""
        rng = self.rng
        meta: Json = {"name": name, "namespace": rng.choice(["default", "default", "default", *NAMESPACES])}
        meta |= {"uid": f"uid-{name}", "labels": labels(rng)}
        status: Json = {}
        if not self.timeless and rng.random() < 0.97:
            status["startTime"] = f"2026-01-0{rng.randint(1, 4)}T00:00:0{rng.randint(0, 2)}Z"
        if rng.random() < 0.1:
            meta["deletionTimestamp"] = "2026-01-05T00:00:00Z"
            if rng.random() < 0.5:
                preempted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
                status["conditions"] = [preempted]
        if rng.random() < 0.05:
            status["phase"] = rng.choice(["Succeeded", "Failed"])
        spec = self.spec() | {"nodeName": rng.choice(nodes) if rng.random() < 0.97 else "gone"}
        if rng.random() < (0.4 if "resources" in spec else 0.06):
            self._resized(spec, status)
        return {"metadata": meta, "spec": spec, "status": status}

    def _resized(self, spec: Json, status: Json) -> None:
        seen = []
        for container in spec["containers"]:
            one: Json = {"name": container["name"], "resources": {"requests": self.requests()}}
            if self.rng.random() < 0.7:
                one["allocatedResources"] = self.requests()
            seen.append(one)
        status["containerStatuses"] = seen
        if "resources" in spec and self.rng.random() < 0.7:
            status["resources"] = {"requests": {"cpu": self.rng.choice(["3", "100m"]), "memory": "1Gi"}}
            if self.rng.random() < 0.6:
                status["allocatedResources"] = {"cpu": self.rng.choice(["2500m", "1"])}
        if self.rng.random() < 0.3:
            infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
            status["conditions"] = [*status.get("conditions", []), infeasible]

    def nominated(self, name: str, nodes: Sequence[str]) -> Json:
        """Draw a pod that waits for its victims to leave a node."""
        found = self.placed(name, nodes)
        found["status"] = {"nominatedNodeName": found["spec"].pop("nodeName")}
        found["metadata"].pop("deletionTimestamp", None)
        found["spec"]["priority"] = self.rng.choice([0, 5, 10])
        return found

    def incoming(self, nodes: Sequence[str]) -> Json:
        """Draw the pod that is to be scheduled."""
        rng = self.rng
        meta: Json = {"name": "new", "uid": "uid-new", "labels": labels(rng)}
        meta["namespace"] = rng.choice(["default", "default", "default", *NAMESPACES])
        if self.owned and rng.random() < 0.7:
            kind = rng.choice([("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController")])
            api_version, name = kind if rng.random() < 0.9 else ("batch/v1", "Job")
            owner = {
                "apiVersion": api_version,
                "kind": name,
                "name": rng.choice(["owner", "owner", "gone"]),
                "uid": "o",
            }
            meta["ownerReferences"] = [owner | ({"controller": True} if rng.random() < 0.9 else {})]
        spec = self.spec()
        if rng.random() < (0.15 if self.owned else 0.55):
            spec["topologySpreadConstraints"] = self._constraints()
        if rng.random() < 0.2:
            spec["nodeSelector"] = rng.choice([{}, {"disk": "ssd"}, {ZONE: "z1"}])
        if rng.random() < 0.3:
            spec["affinity"]["nodeAffinity"] = self._node_affinity()
        if rng.random() < (0.7 if self.tainted else 0.2):
            spec["tolerations"] = [self.toleration() for _ in range(rng.randint(1, 3))]
        if rng.random() < (0.9 if self.crowded else 0.5):
            spec["priority"] = rng.choice([5, 10, 10, 100] if self.crowded else [0, 5, 10, 100, 2_000_001_000])
        if rng.random() < 0.05:
            spec["volumes"] = [{"name": "i", "image": {"reference": rng.choice(["big:1", "app", "none"])}}]
        if rng.random() < 0.05:
            spec["preemptionPolicy"] = rng.choice(["Never", "PreemptLowerPriority"])
        if rng.random() < 0.03:
            spec["nodeName"] = rng.choice(nodes)
        found: Json = {"metadata": meta, "spec": spec}
        if rng.random() < 0.02:
            self._resized(spec, found.setdefault("status", {}))
        if rng.random() < 0.08:
            found.setdefault("status", {})["nominatedNodeName"] = rng.choice([*nodes, "gone"])
        return found

    def _constraints(self) -> list[Json]:
        found: list[Json] = []
        seen: set[Any] = set()
        for _ in range(self.rng.choice([1, 1, 2, 3, 4])):
            one = spread_constraint(self.rng)
            if (pair := (one["topologyKey"], one["whenUnsatisfiable"])) not in seen:
                seen.add(pair)
                found.append(one)
        if self.rng.random() < 0.02:
            found[0]["labelSelector"] = {"matchExpressions": [{"key": "app", "operator": "In"}]}
        return found

    def _node_affinity(self) -> Json:
        rng = self.rng
        found: Json = {}
        if rng.random() < 0.6:
            terms = [node_term(rng) for _ in range(rng.choice([1, 1, 2, 3]))] if rng.random() < 0.95 else []
            if rng.random() < 0.15:
                terms = [{"matchFields": [_field(rng)]} for _ in range(rng.randint(1, 2))]
            found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if rng.random() < 0.7:
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.choice([1, 10, 33, 100]), "preference": node_term(rng)} for _ in range(rng.randint(1, 3))
            ]
        return found
