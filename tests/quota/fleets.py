"""Random fleets: Cohort trees, ClusterQueues, workloads that have quota and workloads that wait, as Kubernetes objects.

A question is a fleet and steps: cycles, and what happens between them. The same seed gives the same question, so that only
the answers of Kueue have to be recorded."""

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


class Fleet:
    """Draws one question."""

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

    def question(self) -> Json:
        """Return the question."""
        self.resources = self.chance.sample(["cpu", "memory", GPU], self.chance.choice((1, 1, 2, 2, 3)))
        if self.has["pods"]:
            self.resources.append("pods")
        self._namespaces()
        flavors = self._flavors()
        cohorts = self._cohorts(flavors)
        queues = [self._queue(n, flavors, cohorts) for n in range(self.chance.choice((1, 2, 2, 3, 3, 4, 5, 7)))]
        self._checks()
        pending = self._workloads(queues)
        steps, later = self._steps(pending)
        made: Json = {
            "id": str(self.seed),
            "now": at(0),
            "fairSharing": self._fair() if self.has["fair"] else None,
            "admissionFairSharing": None,
            "objects": self.objects,
            "steps": steps,
            "later": later,
        }
        if self.has["afs"]:
            made["admissionFairSharing"] = {
                "usageHalfLifeTime": "1h0m0s",
                "usageSamplingInterval": "5m0s",
                "resourceWeights": {self.resources[0]: 2.0} if self.some(0.5) else None,
            }
            keys = [f"ns/lq-{n}-{m}" for n in range(len(queues)) for m in range(2)]
            used = [key for key in keys if self.some(0.6)]
            made["usage"] = {key: {"cpu": str(self.chance.randint(0, 40) / 4), "memory": "3Gi"} for key in used}
            made["decays"] = [self._decay() for _ in range(3)]
        return made

    def _decay(self) -> Json:
        def amounts() -> Json:
            found = {"cpu": f"{self.chance.randint(0, 10**7)}u", "memory": f"{self.chance.randint(0, 10**6)}Ki"}
            return {name: found[name] for name in found if self.some(0.8)}

        elapsed, half_life = self.chance.randint(0, 10**5) / 10, self.chance.choice((0.0, 60.0, 3600.0, 1e5))
        return {"old": amounts(), "new": amounts(), "elapsed": elapsed, "halfLife": half_life}

    def _fair(self) -> Json:
        final, initial = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
        return {"preemptionStrategies": self.chance.choice((None, [final], [initial], [final, initial]))}

    def _add(self, kind: str, name: str, spec: Json, namespace: str = "", **more: Any) -> Json:
        metadata: Json = {"name": name, "uid": f"uid-{name}"}
        if namespace:
            metadata["namespace"] = namespace
        made = {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec, **more}
        self.objects.append(made)
        return made

    def _namespaces(self) -> None:
        for name, labels in (("ns", {"team": "a"}), ("other", {"team": "b"})):
            self.objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})

    def _flavors(self) -> list[str]:
        names = [f"f{n}" for n in range(self.chance.choice((1, 1, 2, 2, 3, 4)))]
        for name in names:
            spec: Json = {}
            if self.has["constraints"]:
                labels = {
                    "type": self.chance.choice("ab"),
                    "zone": self.chance.choice("12"),
                    "size": self.chance.choice("34"),
                }
                spec["nodeLabels"] = {key: value for key, value in labels.items() if self.some(0.6)}
                if self.some(0.4):
                    effect = self.chance.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
                    spec["nodeTaints"] = [{"key": "spot", "value": self.chance.choice(("yes", "5")), "effect": effect}]
                if self.some(0.15):
                    spec["tolerations"] = [{"key": "spot", "operator": "Exists"}]
            self._add("ResourceFlavor", name, spec)
        return names

    def _cohorts(self, flavors: list[str]) -> list[str]:
        names = [f"c{n}" for n in range(self.chance.choice((0, 1, 1, 1, 2, 3, 4, 5)))]
        for n, name in enumerate(names):
            if n and self.some(0.1):
                continue  # It has no object.
            spec: Json = {}
            if n and self.some(0.8):
                spec["parentName"] = self.chance.choice(names[:n])
            elif self.has["cycle"]:
                spec["parentName"] = names[-1]
            if self.has["cohort quotas"] and self.some(0.5):
                spec["resourceGroups"] = self._groups(flavors)
            self._weigh(spec)
            self._add("Cohort", name, spec)
        return names

    def _weigh(self, spec: Json) -> None:
        if self.has["weights"] and self.some(0.5):
            spec["fairSharing"] = {"weight": self.chance.choice(("0", "500m", "1", "2", "3"))}

    def _groups(self, flavors: list[str]) -> list[Json]:
        resources, names = list(self.resources), list(flavors)
        if self.has["crowded"]:
            return [self._group(resources, names)]
        self.chance.shuffle(names)
        groups = []
        if len(resources) > 1 and len(names) > 1 and self.some(0.4):
            cut, at_flavor = self.chance.randrange(1, len(resources)), self.chance.randrange(1, len(names))
            groups = [(resources[:cut], names[:at_flavor]), (resources[cut:], names[at_flavor:])]
        else:
            if len(resources) > 1 and self.some(0.1):
                resources.pop()
            groups = [(resources, names[: self.chance.randint(1, len(names))])]
        return [self._group(covered, listed) for covered, listed in groups]

    def _group(self, covered: list[str], listed: list[str]) -> Json:
        flavors = [{"name": name, "resources": [self._quota(r) for r in covered]} for name in listed]
        return {"coveredResources": covered, "flavors": flavors}

    def _quota(self, resource: str) -> Json:
        nominal = self.chance.choice((0, 4, 6, 8, 12) if self.has["crowded"] else (0, 1, 2, 4, 4, 6, 10))
        made: Json = {"name": resource, "nominalQuota": self._amount(resource, nominal)}
        if self.has["huge"] and self.some(0.3):
            made["nominalQuota"] = self.chance.choice(("9E", "8000P", "9223372036854775807", "10E"))
        if self.has["limits"]:
            if self.some(0.3):
                made["borrowingLimit"] = self._amount(resource, self.chance.randint(0, 6))
            if self.some(0.3):
                made["lendingLimit"] = self._amount(resource, self.chance.randint(0, max(1, nominal)))
        return made

    def _amount(self, resource: str, count: int) -> str:
        return f"{count}Gi" if resource == "memory" else str(count * (3 if resource == "pods" else 1))

    def _queue(self, n: int, flavors: list[str], cohorts: list[str]) -> Json:
        pick = self.chance.choice
        spec: Json = {"resourceGroups": self._groups(flavors), "namespaceSelector": {}}
        if cohorts and self.some(0.85):
            spec["cohortName"] = pick(cohorts)
        spec["queueingStrategy"] = pick(("StrictFIFO", "BestEffortFIFO", "BestEffortFIFO"))
        if self.some(0.85):
            spec["preemption"] = self._preemption()
        if self.some(0.6):
            spec["flavorFungibility"] = {
                "whenCanBorrow": pick(("MayStopSearch", "TryNextFlavor")),
                "whenCanPreempt": pick(("MayStopSearch", "TryNextFlavor")),
            }
            if self.some(0.4):
                spec["flavorFungibility"]["preference"] = pick(("BorrowingOverPreemption", "PreemptionOverBorrowing"))
        self._weigh(spec)
        if self.has["afs"] and self.some(0.8):
            spec["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        if self.has["checks"] and self.some(0.6):
            rule: Json = {"name": pick(("check-a", "check-b"))}
            if self.some(0.5):
                rule["onFlavors"] = [pick(flavors)]
            spec["admissionChecksStrategy"] = {"admissionChecks": [rule]}
        self._odd_queue(spec)
        made = self._add("ClusterQueue", f"q{n}", spec)
        for m in range(2):
            local: Json = {"clusterQueue": f"q{n}"}
            if self.has["afs"] and self.some(0.3):
                local["fairSharing"] = {"weight": pick(("500m", "2", "0"))}
            self._add("LocalQueue", f"lq-{n}-{m}", local, "ns")
        if self.has["oddities"]:
            self._add("LocalQueue", f"lq-{n}-0", {"clusterQueue": f"q{n}"}, "other")
        return made

    def _preemption(self) -> Json:
        pick = self.chance.choice
        made: Json = {
            "withinClusterQueue": pick(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
            "reclaimWithinCohort": pick(("Never", "LowerPriority", "Any", "Any")),
        }
        if self.some(0.4):
            made["borrowWithinCohort"] = {"policy": pick(("Never", "LowerPriority", "LowerPriority"))}
            if self.some(0.5):
                made["borrowWithinCohort"]["maxPriorityThreshold"] = pick((-1, 0, 1, 2))
        return made

    def _odd_queue(self, spec: Json) -> None:
        """Add what is rare to a ClusterQueue."""
        if not self.has["oddities"]:
            return
        pick = self.chance.choice
        if self.some(0.1):
            spec["stopPolicy"] = pick(("Hold", "None"))
        if self.some(0.1):
            spec["namespaceSelector"] = pick(({"matchLabels": {"team": "a"}}, {"matchLabels": {"team": "b"}}, None))
        if self.some(0.05):
            spec["resourceGroups"][0]["flavors"][0]["name"] = "gone"

    def _checks(self) -> None:
        if not self.has["checks"]:
            return
        for name in ("check-a", "check-b"):
            if self.some(0.95):
                active = condition("Active", "True" if self.some(0.9) else "False", "x", -1)
                self._add("AdmissionCheck", name, {"controllerName": "some/one"}, status={"conditions": [active]})

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

    def _steps(self, pending: list[str]) -> tuple[list[Json], list[str]]:
        if not self.has["steps"]:
            return [{"do": "cycle"}], []
        admitted = [
            f"{one['metadata']['namespace']}/{one['metadata']['name']}"
            for one in self.objects
            if one["kind"] == "Workload" and "admission" in one.get("status", {})
        ]
        later = [key for key in pending if self.some(0.25)]
        steps: list[Json] = []
        left = list(later)
        for _ in range(self.chance.choice((2, 3, 4, 6))):
            steps.append({"do": "cycle"})
            if self.some(0.4):
                steps.append({"do": "settle"})
            if admitted and self.some(0.3):
                steps.append({"do": "finish", "who": [admitted.pop(self.chance.randrange(len(admitted)))]})
            if left and self.some(0.6):
                steps.append({"do": "add", "who": [left.pop()]})
        return steps, later


def multiplied(quantity: str, count: int) -> str:
    """Return a small quantity times a count."""
    number = quantity.rstrip("miGMK")
    return f"{int(number) * count}{quantity[len(number) :]}"


def question(seed: int) -> Json:
    """Return the question of a seed."""
    return Fleet(seed).question()
