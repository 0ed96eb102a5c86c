"""Random Workloads, with quota and waiting for it, as Kubernetes objects: what a random fleet is filled with."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.kube.kinds import Json

NOW = datetime(2026, 1, 10, tzinfo=UTC)
GPU = "nvidia.com/gpu"
AMOUNTS = {
    "cpu": ("500m", "1", "2", "3", "1500m", "4"),
    "memory": ("1Gi", "2Gi", "512Mi", "1G", "3Gi"),
    GPU: ("1", "2", "1"),
}
QUOTAS = {"cpu": 1, "memory": 2**30, GPU: 1, "pods": 1}
API = "kueue.x-k8s.io/v1beta2"


def at(seconds: float) -> str:
    """Return a moment, seconds from the start of a question."""
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str, reason: str, seconds: float) -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": reason, "lastTransitionTime": at(seconds)}


class DrawnWorkloads:
    """Draws the Workloads of a fleet. `has` says what else the fleet has."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.objects: list[Json] = []
        self.moments = self.chance.sample(range(-200_000, -1000), 200)
        # Few fleets have everything: what is rare would hide what is common.
        self.has = {
            name: self.chance.random() < share
            for name, share in {
                "fair": 0.35,
                "afs": 0.12,
                "limits": 0.5,
                "constraints": 0.3,
                "partial": 0.35,
                "oddities": 0.15,
                "weights": 0.5,
                "checks": 0.1,
                "pods": 0.15,
                "cohort quotas": 0.3,
                "huge": 0.02,
                "steps": 0.45,
                "cycle": 0.02,
                "crowded": 0.45,
            }.items()
        }

    def some(self, share: float) -> bool:
        return self.chance.random() < share

    def moment(self) -> int:
        return self.moments.pop() if self.some(0.97) else -5000

    def _add(self, kind: str, name: str, spec: Json, namespace: str = "", **more: Any) -> Json:
        metadata: Json = {"name": name, "uid": f"uid-{name}"}
        if namespace:
            metadata["namespace"] = namespace
        made = {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec, **more}
        self.objects.append(made)
        return made

    def _workloads(self, queues: list[Json]) -> list[str]:
        pending = []
        count = 0
        for n, queue in enumerate(queues):
            # Kueue's cache does not survive usage in Cohorts that are their own ancestors.
            for _ in range(0 if self.has["cycle"] else self.chance.choice((0, 1, 2, 3, 5))):
                self._workload(f"w{count}", n, queue, admitted=True)
                count += 1
            for _ in range(self.chance.choice((0, 1, 1, 2, 3, 4))):
                pending.append(self._workload(f"w{count}", n, queue, admitted=False))
                count += 1
        return pending

    def _workload(self, name: str, n: int, queue: Json, *, admitted: bool) -> str:
        pod_sets = [self._pod_set(m) for m in range(self.chance.choice((1, 1, 1, 2)))]
        spec: Json = {
            "podSets": pod_sets,
            "queueName": f"lq-{n}-{self.chance.randrange(2)}",
            "priority": self.chance.choice((-1, 0, 0, 0, 1, 2, 5) if admitted or self.some(0.6) else (2, 3, 5, 7)),
        }
        namespace = "ns"
        if self.has["oddities"] and self.some(0.2):
            namespace, spec["queueName"] = "other", f"lq-{n}-0"
        made = self._add("Workload", name, spec, namespace)
        made["metadata"] |= {
            "creationTimestamp": at(self.moment()),
            "generation": 1,
            "uid": f"u{self.chance.randrange(10**6)}",
        }
        if self.some(0.3):
            made["metadata"]["labels"] = {"kueue.x-k8s.io/job-uid": f"job-{name}"}
        if admitted:
            made["status"] = self._admitted(made, queue)
        else:
            self._odd(made)
        return f"{namespace}/{name}"

    def _odd(self, workload: Json) -> None:
        """Add what is rare to a workload that waits."""
        if not self.has["oddities"]:
            return
        status: Json = {}
        roll = self.chance.random()
        if roll < 0.06:
            status["conditions"] = [
                condition(
                    "Evicted", "True", self.chance.choice(("PodsReadyTimeout", "AdmissionCheck", "Preempted")), -900
                )
            ]
        elif roll < 0.1:
            status["requeueState"] = {
                "count": 1,
                "requeueAt": self.chance.choice(("2025-01-01T00:00:00Z", "2099-01-01T00:00:00Z")),
            }
        elif roll < 0.13:
            status["conditions"] = [condition("Requeued", self.chance.choice(("True", "False")), "x", -800)]
        elif roll < 0.16:
            state = self.chance.choice(("Retry", "Rejected", "Ready", "Pending"))
            status["admissionChecks"] = [
                {"name": "check-a", "state": state, "lastTransitionTime": at(-5), "message": ""}
            ]
        elif roll < 0.2:
            workload["spec"]["active"] = False
        elif roll < 0.23:
            workload["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "x"}
        elif roll < 0.26:
            container = workload["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
            container["resources"]["limits"] = {"cpu": "100m"}
        elif roll < 0.3:
            status["reclaimablePods"] = [{"name": workload["spec"]["podSets"][0]["name"], "count": 1}]
        if status:
            workload["status"] = status

    def _pod_set(self, m: int) -> Json:
        count = self.chance.choice((1, 1, 2) if self.has["crowded"] else (1, 1, 1, 2, 3, 5))
        requests = {
            r: self.chance.choice(AMOUNTS[r])
            for r in self.resources
            if r != "pods" and (self.some(0.8) or r == self.resources[0])
        }
        if self.has["oddities"] and self.some(0.06):
            requests["example.com/odd"] = self.chance.choice(("0", "1"))
        container: Json = {"name": "c", "resources": {"requests": requests}}
        pod: Json = {"containers": [container]}
        if self.has["oddities"]:
            if self.some(0.1):
                container["resources"] = {"limits": requests}
            if self.some(0.1):
                pod["overhead"] = {"cpu": "100m"}
            if self.some(0.1):
                pod["initContainers"] = [{"name": "i", "resources": {"requests": {"cpu": "2500m"}}}]
        if self.has["constraints"]:
            self._constrain(pod)
        made: Json = {"name": f"ps{m}", "count": count, "template": {"spec": pod}}
        if self.has["partial"] and count > 1 and self.some(0.6):
            made["minCount"] = self.chance.randint(1, count)
        return made

    def _constrain(self, pod: Json) -> None:
        if self.some(0.3):
            pod["nodeSelector"] = {self.chance.choice(("type", "zone", "else")): self.chance.choice("a1")}
        if self.some(0.35):
            choices: list[Json] = [
                {"key": "spot", "operator": "Exists"},
                {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
                {"operator": "Exists", "effect": "NoExecute"},
                {"key": "spot", "operator": "Gt", "value": "3"},
            ]
            pod["tolerations"] = [self.chance.choice(choices)]
        if self.some(0.25):
            terms = [
                {"matchExpressions": [self._expression() for _ in range(self.chance.choice((1, 1, 2)))]}
                for _ in range(self.chance.choice((1, 1, 2)))
            ]
            required = {"nodeSelectorTerms": terms}
            pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    def _expression(self) -> Json:
        operator = self.chance.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        made: Json = {"key": self.chance.choice(("type", "zone", "size", "else")), "operator": operator}
        if operator in ("In", "NotIn"):
            made["values"] = self.chance.sample(["a", "1", "3"], self.chance.choice((1, 2)))
        elif operator in ("Gt", "Lt"):
            made["values"] = ["2"]
        return made

    def _admitted(self, workload: Json, queue: Json) -> Json:
        """Return the status of a workload that has quota: of one flavor for each resource group."""
        chosen: dict[str, str] = {}
        for group in queue["spec"]["resourceGroups"]:
            flavor = self.chance.choice(group["flavors"])["name"]
            chosen |= dict.fromkeys(group["coveredResources"], flavor)
        assignments = []
        for pod_set in workload["spec"]["podSets"]:
            container = pod_set["template"]["spec"]["containers"][0]
            asked = container["resources"].get("requests") or container["resources"].get("limits") or {}
            count = self.chance.randint(pod_set.get("minCount", pod_set["count"]), pod_set["count"])
            usage = {r: multiplied(q, count) for r, q in asked.items() if r in chosen}
            if "pods" in chosen:
                usage["pods"] = str(count)
            flavors = {r: chosen[r] for r in usage}
            assignments.append({"name": pod_set["name"], "flavors": flavors, "resourceUsage": usage, "count": count})
        since = self.moment() // 10
        conditions = [
            condition("QuotaReserved", "True", "QuotaReserved", since),
            condition("Admitted", "True", "Admitted", since),
        ]
        if self.some(0.05):
            conditions.append(condition("Evicted", "True", "Preempted", -100))
        status: Json = {
            "admission": {"clusterQueue": queue["metadata"]["name"], "podSetAssignments": assignments},
            "conditions": conditions,
        }
        if self.has["oddities"] and self.some(0.15):
            status["reclaimablePods"] = [{"name": "ps0", "count": self.chance.choice((1, 1, 7))}]
        return status


def multiplied(quantity: str, count: int) -> str:
    """Return a small quantity times a count."""
    number = quantity.rstrip("miGMK")
    return f"{int(number) * count}{quantity[len(number) :]}"
