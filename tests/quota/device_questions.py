"""Random questions about devices: mappings, templates of claims, classes, slices, and a Workload that asks for some of
it. The same seed makes the same question. `python -m tests.quota.device_questions FIRST NUMBER` prints them, one a
line, for whoever asks Kueue."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from controlplane.kube.kinds import Json

NS = "team"
DRIVERS = ("gpu.example.com", "nic.example.com")
CLASSES = ("gpu", "mig", "nic", "spare")
TEMPLATES = ("a", "b", "c")
EXTENDED = ("example.com/gpu", "example.com/nic")
_SELECTORS = (
    "device.driver == 'gpu.example.com'",
    "device.attributes['gpu.example.com'].type == 'mig'",
    "device.attributes['gpu.example.com'].type == 'gpu'",
    "has(device.attributes['gpu.example.com'].profile) && device.attributes['gpu.example.com'].profile == '1g'",
    "device.attributes['gpu.example.com'].slots > 2",
    "device.capacity['gpu.example.com'].memory.compareTo(quantity('20Gi')) >= 0",
    "device.driver == 'none'",
    "true",
)


def question(seed: int) -> Json:
    """Return a question."""
    return _Asked(random.Random(seed)).question()


class _Asked:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def some(self, chance: float) -> bool:
        return self.dice.random() < chance

    def question(self) -> Json:
        mappings = self._mappings()
        found: Json = {"mappings": mappings, "objects": [], "excluded": [], "transformations": []}
        found["objects"] += [self._template(name) for name in TEMPLATES if self.some(0.96)]
        found["objects"] += [self._class(name) for name in CLASSES if self.some(0.95)]
        found["objects"] += [one for at in range(self.dice.randint(1, 3)) for one in self._pool(at)]
        found["workload"] = self._workload()
        if self.some(0.1):
            found["excluded"] = ["example.com/"]
        if self.some(0.15):
            strategy = self.dice.choice(["Retain", "Replace"])
            made = {"input": self.dice.choice(EXTENDED), "strategy": strategy, "outputs": {"credits": "5"}}
            found["transformations"] = [made]
        return found

    def _mappings(self) -> list[Json]:
        found: list[Json] = []
        counters = self.some(0.5)
        names = list(CLASSES[: 4 if self.some(0.6) else 3])
        if counters:
            counted = self.dice.sample(names[:2], self.dice.randint(1, 2))
            names = [one for one in names if one not in counted]
            found.append({"name": "gpu.memory", "deviceClassNames": counted, "sources": [self._source("memory")]})
            if self.some(0.3):
                found.append({"name": "gpu.slots", "deviceClassNames": counted, "sources": [self._source("slots")]})
        if names and self.some(0.95):
            found.append({"name": "devices", "deviceClassNames": names[:1]})
            if names[1:]:
                found.append({"name": "others", "deviceClassNames": names[1:]})
        self.dice.shuffle(found)
        return found

    def _source(self, counter: str) -> Json:
        selector = "device.driver == 'gpu.example.com'" if self.some(0.7) else self.dice.choice(_SELECTORS)
        return {"counter": {"name": counter, "driver": DRIVERS[0], "deviceSelector": {"cel": {"expression": selector}}}}

    def _selectors(self, chance: float) -> Json:
        if not self.some(chance):
            return {}
        several = self.dice.sample(_SELECTORS, 2 if self.some(0.2) else 1)
        return {"selectors": [{"cel": {"expression": one}} for one in several]}

    def _template(self, name: str) -> Json:
        requests = [self._request(f"r{at}") for at in range(self.dice.choice((1, 1, 1, 2, 3)))]
        return _object("ResourceClaimTemplate", name, NS, {"spec": {"devices": {"requests": requests}}})

    def _request(self, name: str) -> Json:
        exact: Json = {
            "deviceClassName": self.dice.choices(CLASSES, (6, 6, 4, 1))[0],
            "allocationMode": "ExactCount",
            "count": self.dice.choice((1, 1, 2, 3)),
            **self._selectors(0.3),
        }
        if self.some(0.02):
            exact["count"] = 2**63 - 1
        if self.some(0.03):
            exact = {**exact, "allocationMode": "All", "count": 0}
        if self.some(0.05):
            exact["adminAccess"] = True
        if self.some(0.03):
            option = {"name": "one", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
            return {"name": name, "firstAvailable": [option]}
        return {"name": name, "exactly": exact}

    def _class(self, name: str) -> Json:
        spec: Json = self._selectors(0.3)
        if self.some(0.3):
            spec["extendedResourceName"] = self.dice.choice(EXTENDED)
        found = _object("DeviceClass", name, "", spec)
        found["metadata"]["creationTimestamp"] = f"2026-01-0{self.dice.randint(1, 2)}T00:00:00Z"
        return found

    def _pool(self, at: int) -> list[Json]:
        driver = self.dice.choices(DRIVERS, (4, 1))[0]
        count, generation = self.dice.choice((1, 1, 2)), self.dice.randint(1, 2)
        found = []
        for number in range(count):
            pool = {"name": f"pool-{at}", "generation": generation, "resourceSliceCount": count}
            if self.some(0.08):
                pool["resourceSliceCount"] += 1
            devices = [self._device(f"d{number}-{one}", driver) for one in range(self.dice.randint(1, 3))]
            spec = {"driver": driver, "pool": pool, "nodeName": f"n{at}", "devices": devices}
            found.append(_object("ResourceSlice", f"s-{at}-{number}", "", spec))
        if generation == 2 and self.some(0.5):
            old = {"name": f"pool-{at}", "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": driver, "pool": old, "nodeName": f"n{at}", "devices": [self._device("old", driver)]}
            found.append(_object("ResourceSlice", f"s-{at}-old", "", spec))
        return found

    def _device(self, name: str, driver: str) -> Json:
        kind = self.dice.choice(("gpu", "mig", "mig"))
        found: Json = {"name": name}
        if self.some(0.95):
            found["attributes"] = {"type": {"string": kind}, "slots": {"int": self.dice.randint(1, 4)}}
            if kind == "mig":
                found["attributes"]["profile"] = {"string": self.dice.choice(("1g", "2g"))}
            found["capacity"] = {"memory": {"value": self.dice.choice(("10Gi", "40Gi"))}}
        if self.some(0.85):
            counters = {"memory": {"value": self.dice.choice(("4864Mi", "10Gi", "40320Mi", "1500m", "-1Gi"))}}
            if self.some(0.7):
                counters["slots"] = {"value": str(self.dice.randint(1, 7))}
            found["consumesCounters"] = [{"counterSet": "set", "counters": counters}]
        return found

    def _workload(self) -> Json:
        several = range(2 if self.some(0.25) else 1)
        pod_sets = [self._pod_set("main" if at == 0 else "other") for at in several]
        return _object("Workload", "asks", NS, {"queueName": "q", "podSets": pod_sets})

    def _pod_set(self, name: str) -> Json:
        claims: list[Json] = []
        for at in range(self.dice.choice((0, 1, 1, 1, 2))):
            named = "resourceClaimName" if self.some(0.03) else "resourceClaimTemplateName"
            claims.append({"name": f"c{at}", named: self.dice.choice(TEMPLATES)})
        spec: Json = {"containers": [self._container("one")], "resourceClaims": claims}
        if self.some(0.2):
            spec["containers"].append(self._container("two"))
        if self.some(0.2):
            spec["initContainers"] = [self._container(f"init{at}") for at in range(self.dice.randint(1, 2))]
        return {"name": name, "count": self.dice.randint(1, 3), "template": {"spec": spec}}

    def _container(self, name: str) -> Json:
        asked = {"cpu": self.dice.choice(("1", "500m"))}
        for resource in EXTENDED:
            if self.some(0.3):
                asked[resource] = "1500m" if self.some(0.05) else str(self.dice.randint(1, 3))
        return {"name": name, "resources": {"requests": asked}}


def _object(kind: str, name: str, namespace: str, spec: Json) -> Json:
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}"}
    if namespace:
        metadata["namespace"] = namespace
    return {"kind": kind, "metadata": metadata, "spec": spec}


if __name__ == "__main__":
    first, number = (int(one) for one in sys.argv[1:])
    for seed in range(first, first + number):
        sys.stdout.write(json.dumps(question(seed)) + "\n")
