"""Random fleets: Cohort trees, ClusterQueues, workloads that have quota and workloads that wait, as Kubernetes objects.

A question is a fleet and steps: cycles, and what happens between them. The same seed gives the same question, so that
only the answers of Kueue have to be recorded."""

from __future__ import annotations

from controlplane.kube.kinds import Json
from tests.quota.fleet_workloads import GPU, DrawnWorkloads, at, condition


class Fleet(DrawnWorkloads):
    """Draws one question."""

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


def question(seed: int) -> Json:
    """Return the question of a seed."""
    return Fleet(seed).question()
