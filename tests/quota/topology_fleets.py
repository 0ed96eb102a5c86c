"""Random fleets with nodes: topologies, nodes and what pods use of them, and workloads that ask to be placed.

A question is a fleet and steps, as in `fleets`; nobody has quota at the beginning. The same seed gives the same
question."""

from __future__ import annotations

import random
from typing import Any

from controlplane.kube.kinds import Json
from tests.quota.fleet_workloads import API, at, condition

BLOCK, RACK, HOST = "cloud.com/block", "cloud.com/rack", "kubernetes.io/hostname"
LEVELS = ([HOST], [RACK, HOST], [BLOCK, RACK, HOST], [BLOCK, RACK, HOST], [BLOCK, RACK], [BLOCK])
STEPS = 0.7


class TopologyFleet:
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
                "fair": 0.25,
                "constraints": 0.3,
                "partial": 0.15,
                "checks": 0.2,
                "groups": 0.3,
                "slices": 0.45,
                "layers": 0.5,
                "pods": 0.15,
                "others": 0.35,
                "overlap": 0.05,
                "failures": 0.3,
                "plain": 0.3,
                "tight": 0.5,
                "two groups": 0.1,
                "odd": 0.08,
            }.items()
        }
        if self.has["fair"]:
            # Kueue loses one of two workloads that a ClusterQueue has in a cycle then, if one is there for the second
            # time.
            self.has["checks"] = self.has["failures"] = False

    def some(self, share: float) -> bool:
        return self.chance.random() < share

    def question(self) -> Json:
        """Return the question."""
        self.levels = self.chance.choice(LEVELS)
        self.resources = self.chance.choice((["cpu"], ["cpu"], ["cpu", "nvidia.com/gpu"]))
        namespace: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": {}}}
        self.objects.append(namespace)
        flavors = self._flavors()
        nodes = self._nodes(flavors)
        self._pods(nodes)
        cohorts = [f"c{n}" for n in range(self.chance.choice((0, 1, 1)))]
        for name in cohorts:
            self._add("Cohort", name, {})
        checks = self._checks()
        queues = [self._queue(n, flavors, cohorts, checks) for n in range(self.chance.choice((1, 1, 2, 2, 3, 4)))]
        count = self.chance.choice((2, 4, 6, 9, 12))
        workloads = [self._workload(n, queues, late=n > count // 3) for n in range(count)]
        steps, later = self._steps(workloads, nodes)
        return {
            "id": str(self.seed),
            "now": at(0),
            "fairSharing": {} if self.has["fair"] else None,
            "admissionFairSharing": None,
            "objects": self.objects,
            "steps": steps,
            "later": later,
        }

    def _add(self, kind: str, name: str, spec: Json, namespace: str = "", api: str = API, **more: Any) -> Json:
        metadata: Json = {"name": name, "uid": f"uid-{name}"}
        if namespace:
            metadata["namespace"] = namespace
        made = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec, **more}
        self.objects.append(made)
        return made

    def _flavors(self) -> list[str]:
        self._add("Topology", "default", {"levels": [{"nodeLabel": key} for key in self.levels]})
        names = [f"f{n}" for n in range(self.chance.choice((1, 1, 1, 2, 2)))]
        for name in names:
            pool = "pool-0" if self.has["overlap"] else f"pool-{name}"
            spec: Json = {"nodeLabels": {"pool": pool}, "topologyName": "default"}
            if self.has["constraints"] and self.some(0.3):
                spec["tolerations"] = [{"key": "spot", "operator": "Exists"}]
            self._add("ResourceFlavor", name, spec)
        if self.has["plain"]:
            self._add("ResourceFlavor", "plain", {})
            names.append("plain")
        return names

    def _nodes(self, flavors: list[str]) -> list[str]:
        names = []
        for flavor in flavors:
            if flavor == "plain" or (self.has["overlap"] and flavor != "f0"):
                continue
            pool = "pool-0" if self.has["overlap"] else f"pool-{flavor}"
            blocks, racks = self.chance.choice((1, 2, 2)), self.chance.choice((1, 2, 3))
            for block in range(blocks):
                for rack in range(racks):
                    for n in range(self.chance.choice((1, 1, 2, 3))):
                        names.append(self._node(f"{flavor}-b{block}-r{rack}-n{n}", pool, f"b{block}", f"r{rack}"))
        return names

    def _node(self, name: str, pool: str, block: str, rack: str) -> str:
        labels = {"pool": pool, BLOCK: block, RACK: rack, HOST: name, "zone": self.chance.choice("12")}
        if self.has["odd"] and self.some(0.1):
            del labels[self.chance.choice((BLOCK, RACK, HOST))]
        made: Json = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {
                "allocatable": {
                    "cpu": self.chance.choice(("1", "2", "3", "4", "3500m")),
                    "nvidia.com/gpu": self.chance.choice(("0", "1", "2", "4")),
                    "pods": self.chance.choice(("10", "10", "110", "2" if self.has["pods"] else "20")),
                },
                "conditions": [{"type": "Ready", "status": "False" if self.some(0.04) else "True"}],
            },
        }
        if self.some(0.03):
            made["spec"]["unschedulable"] = True
        if self.has["constraints"] and self.some(0.25):
            effect = self.chance.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
            made["spec"]["taints"] = [{"key": "spot", "value": self.chance.choice(("yes", "")), "effect": effect}]
        self.objects.append(made)
        return name

    def _pods(self, nodes: list[str]) -> None:
        for n in range(self.chance.choice((1, 2, 4)) if self.has["others"] else 0):
            container = {"name": "c", "resources": {"requests": {"cpu": self.chance.choice(("500m", "1", "2"))}}}
            made: Json = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"namespace": "ns", "name": f"p{n}"},
                "spec": {"nodeName": self.chance.choice(nodes), "containers": [container]},
            }
            self.objects.append(made)

    def _checks(self) -> list[str]:
        if not self.has["checks"]:
            return []
        controllers = ("kueue.x-k8s.io/provisioning-request", "kueue.x-k8s.io/provisioning-request", "some/one")
        controller = "kueue.x-k8s.io/multikueue" if self.some(0.2) else self.chance.choice(controllers)
        active = condition("Active", "True", "x", -1)
        self._add("AdmissionCheck", "check", {"controllerName": controller}, status={"conditions": [active]})
        return ["check"]

    def _queue(self, n: int, flavors: list[str], cohorts: list[str], checks: list[str]) -> str:
        pick = self.chance.choice
        listed = list(flavors) if self.some(0.7) else [pick(flavors)]
        resources = list(self.resources) + (["pods"] if self.has["pods"] else [])
        groups = [self._group(resources, listed)]
        if self.has["two groups"] and len(resources) > 1 and len(listed) > 1:
            groups = [self._group(resources[:1], listed[:1]), self._group(resources[1:], listed[1:])]
        spec: Json = {"resourceGroups": groups, "namespaceSelector": {}}
        if cohorts and self.some(0.85):
            spec["cohortName"] = pick(cohorts)
        spec["queueingStrategy"] = pick(("StrictFIFO", "BestEffortFIFO", "BestEffortFIFO"))
        if self.some(0.8):
            spec["preemption"] = {
                "withinClusterQueue": pick(("Never", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority")),
                "reclaimWithinCohort": pick(("Never", "LowerPriority", "Any", "Any")),
            }
            if self.some(0.3):
                spec["preemption"]["borrowWithinCohort"] = {"policy": pick(("Never", "LowerPriority"))}
        if self.some(0.4):
            spec["flavorFungibility"] = {
                "whenCanBorrow": pick(("MayStopSearch", "TryNextFlavor")),
                "whenCanPreempt": pick(("MayStopSearch", "TryNextFlavor")),
            }
        if checks and self.some(0.7):
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": "check"}]}
        self._add("ClusterQueue", f"q{n}", spec)
        self._add("LocalQueue", f"lq-{n}", {"clusterQueue": f"q{n}"}, "ns")
        return f"q{n}"

    def _group(self, covered: list[str], listed: list[str]) -> Json:
        amounts = (3, 5, 6, 8) if self.has["tight"] else (10, 20, 40)
        flavors = []
        for name in listed:
            quotas = [{"name": r, "nominalQuota": str(self.chance.choice(amounts))} for r in covered]
            flavors.append({"name": name, "resources": quotas})
        return {"coveredResources": covered, "flavors": flavors}

    def _workload(self, n: int, queues: list[str], *, late: bool) -> str:
        name = f"w{n}"
        if self.has["groups"] and self.some(0.4):
            pod_sets = self._leader_and_workers()
        else:
            pod_sets = [self._pod_set(m) for m in range(self.chance.choice((1, 1, 1, 2)))]
        spec: Json = {
            "podSets": pod_sets,
            "queueName": f"lq-{self.chance.randrange(len(queues))}",
            "priority": self.chance.choice((0, 1, 2, 3, 5) if late else (-1, 0, 0, 0, 1)),
        }
        made = self._add("Workload", name, spec, "ns")
        made["metadata"] |= {
            "creationTimestamp": at(self.moments.pop()),
            "generation": 1,
            "uid": f"u{self.chance.randrange(10**6)}",
        }
        return f"ns/{name}"

    def _pod_set(self, m: int) -> Json:
        count = self.chance.choice((1, 1, 2, 2, 3, 4, 6))
        request = self._request(count)
        if request.get("slice"):
            count = request.pop("slice")
        made: Json = {"name": f"ps{m}", "count": count, "template": {"spec": self._pod()}}
        if request:
            made["topologyRequest"] = request
        if self.has["partial"] and count > 1 and "slice" not in str(request).lower() and self.some(0.6):
            made["minCount"] = self.chance.randint(1, count)
        return made

    def _pod(self) -> Json:
        requests = {"cpu": self.chance.choice(("500m", "1", "1", "2"))}
        if "nvidia.com/gpu" in self.resources and self.some(0.6):
            requests["nvidia.com/gpu"] = self.chance.choice(("1", "1", "2"))
        pod: Json = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
        if self.has["constraints"]:
            if self.some(0.2):
                pod["nodeSelector"] = {"zone": self.chance.choice("12")}
            if self.some(0.3):
                pod["tolerations"] = [{"key": "spot", "operator": "Exists"}]
            if self.some(0.2):
                field = self.chance.choice(("matchExpressions", "matchExpressions", "matchFields"))
                term: Json = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]}
                if field == "matchFields":
                    term = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["f0-b0-r0-n0"]}]}
                required = {"nodeSelectorTerms": [term]}
                pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        return pod

    def _level(self) -> str:
        return "cloud.com/other" if self.has["odd"] and self.some(0.1) else self.chance.choice(self.levels)

    def _request(self, count: int) -> Json:
        """Return a topologyRequest; `slice`: the number of pods that goes with its slices."""
        roll = self.chance.random()
        found: Json = {}
        if roll < 0.25:
            found = {"required": self._level()}
        elif roll < 0.5:
            found = {"preferred": self._level()}
        elif roll < 0.7:
            found = {"unconstrained": True}
        elif roll < 0.75:
            found = {"podIndexLabel": "x"}
        elif not self.has["slices"]:
            return {}
        if self.has["slices"] and "unconstrained" not in found and self.some(0.6):
            self._slice(found, count)
        return found

    def _slice(self, found: Json, count: int) -> None:
        above = found.get("required") or found.get("preferred")
        start = self.levels.index(above) if above in self.levels else 0
        below = self.levels[start:]
        if self.has["layers"] and len(below) > 1 and self.some(0.6):
            layers = sorted(self.chance.sample(range(len(below)), self.chance.choice((2, min(3, len(below))))))
            size = self.chance.choice((1, 2))
            constraints: list[Json] = []
            for layer in reversed(layers):
                constraints.insert(0, {"topology": below[layer], "size": size})
                size *= self.chance.choice((1, 2, 2))
            found["podsetSliceRequiredTopologyConstraints"] = constraints
            size = constraints[0]["size"]
        else:
            size = self.chance.choice((1, 2, 2, 3, 4))
            found |= {"podSetSliceRequiredTopology": self.chance.choice(below), "podSetSliceSize": size}
        found["slice"] = size * self.chance.choice((1, 1, 2, 3))

    def _leader_and_workers(self) -> list[Json]:
        request: Json = {self.chance.choice(("required", "preferred")): self._level()}
        count = self.chance.choice((1, 2, 3, 4))
        if self.has["slices"] and self.some(0.4):
            self._slice(request, count)
            count = request.pop("slice")
        request["podSetGroupName"] = "group"
        leader = {"name": "leader", "count": 1, "template": {"spec": self._pod()}, "topologyRequest": dict(request)}
        workers = {"name": "workers", "count": count, "template": {"spec": self._pod()}, "topologyRequest": request}
        if self.some(0.1):
            leader["template"] = {"spec": {"containers": [{"name": "c", "resources": {}}]}}
        return [leader, workers] if self.some(0.8) else [workers, leader]

    def _steps(self, workloads: list[str], nodes: list[str]) -> tuple[list[Json], list[str]]:
        if not self.some(STEPS):
            return [{"do": "cycle"}], []
        later = [key for at, key in enumerate(workloads) if at > len(workloads) // 3 and self.some(0.75)]
        left, steps = list(later), []
        for _ in range(self.chance.choice((2, 3, 5, 7))):
            steps.append({"do": "cycle"})
            steps += self._between(workloads, nodes, left)
        return [*steps, {"do": "cycle"}], later

    def _between(self, workloads: list[str], nodes: list[str], left: list[str]) -> list[Json]:
        steps: list[Json] = []
        if self.some(0.4):
            steps.append({"do": "settle"})
        if self.some(0.15):
            steps.append({"do": "finish", "who": [self.chance.choice(workloads)]})
        while left and self.some(0.6):
            steps.append({"do": "add", "who": [left.pop()]})
        if self.has["checks"] and self.some(0.6):
            steps.append({"do": "checks", "nodeSelector": self.chance.choice((None, None, {"zone": "1"}))})
        if self.has["failures"] and self.some(0.4):
            name = self.chance.choice(nodes)
            if self.some(0.8):
                steps.append({"do": "drop node", "name": name})
            steps.append({"do": "unhealthy", "name": name})
        if self.has["others"] and self.some(0.2):
            steps.append({"do": "drop pod", "name": "p0"})
        return steps


def question(seed: int) -> Json:
    """Return the question of a seed."""
    return TopologyFleet(seed).question()
