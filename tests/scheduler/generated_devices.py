"""Lines about devices: `python -m tests.scheduler.generated_devices SEED COUNT > lines.jsonl`.

Drawn for a comparison with kube-scheduler's own DynamicResources, as `generated` draws for the other plugins: pools of
every shape, claims with alternatives, constraints, tolerations and selectors, and claims that are allocated already.
What kube-scheduler 1.36 answers by its own mistakes is left out: counters beside taints and constraints, and attributes
that have to be distinct where one request asks for several devices."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from controlplane.kube.kinds import Json
from tests.scheduler.generated_selectors import expression
from tests.scheduler.objects import HOST, ZONE

DRIVERS = ("gpu.example.com", "nic.example.com")
CLASSES = ("gpu", "nic", "any", "big")
ZONE_TERM = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}]


class Draw:
    """One line's dice."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes = [f"n{at}" for at in range(rng.choice([1, 2, 2, 3]))]
        self.counted = rng.random() < 0.2
        self.tainted = not self.counted and rng.random() < 0.4
        self.constrained = not self.counted and rng.random() < 0.5
        self.wild = rng.random() < 0.25
        self.slices: list[Json] = []

    def device(self, at: int, driver: str) -> Json:
        rng = self.rng
        attributes: Json = {"model": {"string": rng.choice(["a", "b"])}, "index": {"int": at}}
        if rng.random() < 0.6:
            attributes["numa"] = {"int": rng.randint(0, 1)}
        if rng.random() < 0.4:
            attributes[rng.choice(["ok", f"{driver}/ok"])] = {"bool": rng.random() < 0.5}
        if rng.random() < 0.5:
            attributes["version"] = {"version": rng.choice(["1.0.0", "1.2.3", "2.0.0-rc.1", "1.2.3+b"])}
        if rng.random() < 0.3:
            attributes["shared.example.com/root"] = {"string": rng.choice(["r1", "r2"])}
        if self.wild and rng.random() < 0.1:
            attributes["odd"] = {}
        found: Json = {"name": f"d{at}", "attributes": attributes}
        found["capacity"] = {"memory": {"value": rng.choice(["10Gi", "40Gi", "80G"])}}
        if self.tainted and rng.random() < 0.5:
            effect = rng.choice(["NoSchedule", "NoExecute", "None"])
            found["taints"] = [{"key": rng.choice("kl"), "value": rng.choice(["", "v"]), "effect": effect}]
        if rng.random() < 0.05:
            found["bindsToNode"] = True
        return found

    def pool(self, number: int) -> None:
        """Draw the slices of one pool."""
        rng = self.rng
        driver = rng.choice(DRIVERS)
        count = rng.choice([1, 1, 1, 2, 3])
        generation = rng.choice([1, 2])
        pool = {"name": f"pool{number}", "generation": generation, "resourceSliceCount": count}
        where = self.where()
        at = 0
        for part in range(count):
            spec: Json = {"driver": driver, "pool": dict(pool), **(where if rng.random() < 0.8 else self.where())}
            size = rng.choice([0, 1, 2, 2, 3, 4])
            spec["devices"] = [self.device(at + one, driver) for one in range(size)]
            if spec.get("perDeviceNodeSelection"):
                for device in spec["devices"]:
                    device |= rng.choice(
                        [
                            {"nodeName": rng.choice(self.nodes)},
                            {"allNodes": True},
                            {"nodeSelector": {"nodeSelectorTerms": ZONE_TERM}},
                        ]
                    )
            at += size if rng.random() < 0.95 else max(size - 1, 0)
            if rng.random() < 0.04:
                spec["pool"]["generation"] = generation - 1
            if rng.random() < 0.97:
                self.slices.append({"metadata": {"name": f"s{number}-{part}-{rng.randint(0, 9)}"}, "spec": spec})
        if self.counted and rng.random() < 0.8:
            self.count(number, driver, pool)

    def count(self, number: int, driver: str, pool: Json) -> None:
        """Give a pool shared counters, which its devices consume."""
        rng = self.rng
        pool["resourceSliceCount"] += 1
        for one in self.slices:
            if one["spec"]["pool"]["name"] == pool["name"]:
                one["spec"]["pool"]["resourceSliceCount"] += 1
                for device in one["spec"]["devices"]:
                    if rng.random() < 0.7:
                        amount = {"memory": {"value": rng.choice(["10Gi", "20Gi", "40Gi"])}}
                        name = "set" if rng.random() < 0.97 else "gone"
                        device["consumesCounters"] = [{"counterSet": name, "counters": amount}]
        sets = [{"name": "set", "counters": {"memory": {"value": rng.choice(["20Gi", "40Gi", "80Gi"])}}}]
        spec = {"driver": driver, "pool": pool, "nodeName": rng.choice(self.nodes), "sharedCounters": sets}
        self.slices.append({"metadata": {"name": f"s{number}-counters"}, "spec": spec})

    def where(self) -> Json:
        return self.rng.choice(
            [
                *[{"nodeName": self.rng.choice(self.nodes)}] * 4,
                {"allNodes": True},
                {"nodeSelector": {"nodeSelectorTerms": ZONE_TERM}},
                {"perDeviceNodeSelection": True},
            ]
        )

    def request(self, name: str, *, alternative: bool = False) -> Json:
        """Draw one request, or an alternative of one."""
        rng = self.rng
        everything = rng.random() < 0.15
        found: Json = {"deviceClassName": rng.choice(CLASSES) if rng.random() < 0.98 else "gone"}
        found |= (
            {"allocationMode": "All"}
            if everything
            else {"allocationMode": "ExactCount", "count": rng.choice([1, 1, 1, 2, 2])}
        )
        if rng.random() < 0.5:
            found["selectors"] = [
                {"cel": {"expression": expression(rng, self.wild)}} for _ in range(rng.choice([1, 1, 2]))
            ]
        if self.tainted and rng.random() < 0.5:
            one = rng.choice(
                [
                    {"operator": "Exists"},
                    {"key": "k", "operator": "Exists"},
                    {"key": "k", "operator": "Equal", "value": "v"},
                ]
            )
            found["tolerations"] = [one | rng.choice([{}, {"effect": "NoSchedule"}])]
        if not alternative and rng.random() < 0.08:
            found["adminAccess"] = True
        return found

    def claim(self, name: str) -> Json:
        """Draw what a claim asks for."""
        rng = self.rng
        requests: list[Json] = []
        for at in range(rng.choice([1, 1, 1, 2, 3])):
            if rng.random() < 0.25:
                options = [
                    {"name": f"o{one}", **self.request("", alternative=True)} for one in range(rng.choice([1, 2, 3]))
                ]
                requests.append({"name": f"r{at}", "firstAvailable": options})
            else:
                requests.append({"name": f"r{at}", "exactly": self.request(f"r{at}")})
        devices: Json = {"requests": requests}
        if self.constrained:
            names = [one["name"] for one in requests]
            several = any(told in json.dumps(requests) for told in ('"All"', '"count": 2'))
            kind = "matchAttribute" if several else rng.choice(["matchAttribute", "distinctAttribute"])
            attribute = rng.choice(
                [
                    "gpu.example.com/numa",
                    "gpu.example.com/model",
                    "shared.example.com/root",
                    "gpu.example.com/version",
                    "gpu.example.com/index",
                ]
            )
            devices["constraints"] = [
                {kind: attribute, **({"requests": rng.sample(names, 1)} if rng.random() < 0.4 else {})}
            ]
        if rng.random() < 0.3:
            opaque = {"opaque": {"driver": DRIVERS[0], "parameters": {"a": 1}}}
            devices["config"] = [opaque | rng.choice([{}, {"requests": ["r0"]}, {"requests": ["r0/o0"]}])]
        meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        return {"metadata": meta, "spec": {"devices": devices}}

    def given(self, claim: Json) -> None:
        """Say that a claim was allocated."""
        rng = self.rng
        listed = [(one["spec"], device) for one in self.slices for device in one["spec"].get("devices", ())]
        taken = rng.sample(listed, min(len(listed), rng.choice([1, 1, 2])))
        results = [
            {"request": "r0", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            | ({"adminAccess": True} if rng.random() < 0.1 else {})
            for spec, device in taken
        ]
        here = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [rng.choice(self.nodes)]}]}]
        nodes = rng.choice(
            [{}, {"nodeSelector": {"nodeSelectorTerms": here}}, {"nodeSelector": {"nodeSelectorTerms": ZONE_TERM}}]
        )
        claim["status"] = {"allocation": {"devices": {"results": results}, **nodes}}
        if rng.random() < 0.5:
            claim["status"]["reservedFor"] = [{"resource": "pods", "name": "x", "uid": "uid-x"}]


def device_class(rng: random.Random, name: str, wild: bool) -> Json:
    """Draw a class."""
    own = {
        "gpu": 'device.driver == "gpu.example.com"',
        "nic": 'device.driver == "nic.example.com"',
        "any": "",
        "big": expression(rng, wild),
    }
    spec: Json = {"selectors": [{"cel": {"expression": own[name]}}]} if own[name] else {}
    if rng.random() < 0.3:
        spec["config"] = [{"opaque": {"driver": DRIVERS[0], "parameters": {"of": name}}}]
    return {"metadata": {"name": name}, "spec": spec}


def scenario(seed: int) -> Json:
    """Return the line of a seed."""
    rng = random.Random(seed)
    draw = Draw(rng)
    for number in range(rng.choice([1, 2, 2, 3])):
        draw.pool(number)
    entries: list[Json] = []
    statuses: list[Json] = []
    claims: list[Json] = []
    for at in range(rng.choice([1, 1, 1, 2])):
        claim = draw.claim(f"c{at}")
        if rng.random() < 0.15:
            draw.given(claim)
        if rng.random() < 0.3:
            entries.append({"name": f"e{at}", "resourceClaimTemplateName": "t"})
            owner = {"apiVersion": "v1", "kind": "Pod", "name": "new", "controller": True}
            claim["metadata"]["ownerReferences"] = [owner | {"uid": rng.choice(["uid-new"] * 9 + ["other"])}]
            if rng.random() < 0.9:
                statuses.append({"name": f"e{at}"} | ({"resourceClaimName": f"c{at}"} if rng.random() < 0.9 else {}))
        else:
            entries.append({"name": f"e{at}", "resourceClaimName": f"c{at}"})
        if rng.random() < 0.03:
            claim["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
        if rng.random() < 0.97:
            claims.append(claim)
    for at in range(rng.choice([0, 0, 1, 2])):
        other = draw.claim(f"other{at}")
        draw.given(other)
        claims.append(other)
    meta = {"name": "new", "namespace": "default", "uid": "uid-new"}
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    pod = {"metadata": meta, "spec": {"containers": [container], "resourceClaims": entries}}
    if statuses:
        pod["status"] = {"resourceClaimStatuses": statuses}
    room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    nodes = [
        {
            "metadata": {"name": name, "labels": {HOST: name, ZONE: rng.choice(["z1", "z2"])}},
            "spec": {},
            "status": {"allocatable": room},
        }
        for name in draw.nodes
    ]
    classes = [device_class(rng, name, draw.wild) for name in CLASSES]
    found: Json = {"id": seed, "pod": pod, "nodes": nodes, "pods": [], "resourceClaims": claims}
    return found | {"resourceSlices": draw.slices, "deviceClasses": classes}


def scenarios(seed: int, count: int) -> Iterator[Json]:
    """Yield lines, each with its own seed as its id."""
    return map(scenario, range(seed, seed + count))


def main(write: Callable[[str], Any] = sys.stdout.write) -> None:
    """Print lines from a seed and a count."""
    seed, count = (int(argument) for argument in sys.argv[1:3])
    for line in scenarios(seed, count):
        write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
