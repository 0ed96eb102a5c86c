"""Lines for `evaluate` in any number from a seed: `python -m tests.scheduler.generated SEED COUNT > lines.jsonl`.

Where `scenarios` draws for hypothesis, small and to be shrunk, this draws for a comparison with kube-scheduler's own
plugins: wider objects and odder quantities. What the API would refuse and its plugins were never asked is left out, and
so are what they answer by chance: changes on several nodes, and namespace selectors with NotIn or DoesNotExist
(docs/reference/scheduler-evaluate.md, "Held against kube-scheduler")."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from controlplane.kube.kinds import Json
from tests.scheduler.generated_pods import (
    HOST,
    KEYS,
    NAMESPACES,
    SOFT,
    ZONE,
    PodDraw,
    labels,
    selector,
    spread_constraint,
)
from tests.scheduler.generated_volumes import volumes

_ALLOCATABLE: dict[str, list[Any]] = {
    "cpu": ["4", "4", "8", "2500m", "1e1", "0.5", "3.7", "0", "0.0015", 4, 7.5, "4000000u"],
    "memory": ["8Gi", "8Gi", "4Gi", "1e10", "1500M", "2.5Gi", "0", "4294967296", "3e9", 4294967296, "0.01Ti"],
    "ephemeral-storage": ["10Gi", "20G", "0"],
    "example.com/gpu": ["2", "4", "1", "0", "8"],
    "hugepages-2Mi": ["100Mi", "0", "64Mi"],
    "attachable-volumes-x": ["2"],
    "plain": ["5"],
}
_IMAGES = {
    "big:1": 900_000_000,
    "app:latest": 120_000_000,
    "registry:5000/tool:latest": 2_500_000_000,
    "small:2": 9_000_000,
}


class Draw(PodDraw):
    """One scenario's dice."""

    def node(self, at: int) -> Json:
        rng = self.rng
        found: dict[str, str] = {}
        if rng.random() < 0.93:
            found[HOST] = f"n{at}" if rng.random() < 0.85 else rng.choice(["shared", "n0", ""])
        if rng.random() < self.zoned:
            found[ZONE] = rng.choice(["z1", "z2", "z2", "z3", ""] if rng.random() < 0.3 else ["z1", "z2", "z3"])
        for key, values in (("rack", ["1", "2", "30", "-4", "x", "+7"]), ("disk", ["ssd", "hdd"])):
            if rng.random() < 0.6:
                found[key] = rng.choice(values)
        spec: Json = {}
        if self.tainted and rng.random() < 0.5:
            spec["taints"] = [self.taint() for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.06:
            spec["unschedulable"] = True
        return {
            "metadata": {"name": f"n{at}", "labels": found},
            "spec": spec,
            "status": {"allocatable": self._allocatable(), "images": self._images()},
        }

    def _allocatable(self) -> Json:
        rng = self.rng
        found = {name: values[0] for name, values in list(_ALLOCATABLE.items())[:4]}
        for name, values in _ALLOCATABLE.items():
            if rng.random() < self.odd:
                found[name] = rng.choice(values)
                if rng.random() < 0.1:
                    del found[name]
        if rng.random() < 0.97:
            found["pods"] = "110" if rng.random() < 0.9 else rng.choice(["0", "1", "2", "4"])
        return found

    def _images(self) -> list[Json]:
        names = [name for name in _IMAGES if self.rng.random() < 0.4]
        uneven = self.rng.choice([0, 0, 0, 7_000_000])
        return [
            {"names": [name, f"{name}@sha256:1"], "sizeBytes": _IMAGES[name] + uneven * self.rng.randint(0, 3)}
            for name in names
        ]

    def taint(self) -> Json:
        rng = self.rng
        effects = ["PreferNoSchedule"] * 3 + ["NoSchedule", "NoExecute"]
        found = {"key": rng.choice(["k", "l", "m"]), "effect": rng.choice(effects)}
        if rng.random() < 0.5:
            found["value"] = rng.choice(["v", "w", "", "5"])
        if rng.random() < 0.05:
            found = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        return found

    def budget(self, at: int) -> Json:
        rng = self.rng
        spec = {"selector": chosen} if (chosen := selector(rng)) is not None else {}
        status: Json = {"disruptionsAllowed": rng.choice([0, 0, 1, 2])}
        if rng.random() < 0.3:
            gone = rng.sample(range(8), 2)
            status["disruptedPods"] = {f"p{number}": "2026-01-01T00:00:00Z" for number in gone}
        meta = {"name": f"b{at}", "namespace": rng.choice(NAMESPACES[:2])}
        return {"metadata": meta, "spec": spec, "status": status}

    def owners(self) -> Json:
        """Draw Services and controllers; the pod's owner reference names one of them, or none."""
        rng = self.rng
        services = []
        for at in range(rng.randint(0, 3)):
            spec: Json = {"selector": rng.choice([{"app": "a"}, {"app": "a"}, {"tier": "x"}, {}, {"app": "b"}])}
            if rng.random() < 0.1:
                spec = {}
            meta = {"name": f"s{at}", "namespace": rng.choice(["default", "default", "other"])}
            services.append({"metadata": meta, "spec": spec})
        named = {"name": "owner", "namespace": rng.choice(["default", "default", "other"])}
        by_set = {"metadata": named, "spec": {"selector": selector(rng) or {"matchLabels": {"tier": "x"}}}}
        by_map = {"metadata": named, "spec": {"selector": rng.choice([{"tier": "x"}, {}])}}
        found: Json = {"services": services}
        for name, one in (("replicaSets", by_set), ("statefulSets", by_set), ("replicationControllers", by_map)):
            if rng.random() < 0.6:
                found[name] = [one]
        return found

    def arguments(self) -> Json:
        rng = self.rng
        found: Json = {}
        if rng.random() < 0.3:
            found["hardPodAffinityWeight"] = rng.choice([0, 1, 10, 100])
        resources = ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi"]
        if rng.random() < 0.4:
            chosen = rng.sample(resources, rng.randint(1, 4))
            found["fitResources"] = [{"name": name, "weight": rng.choice([1, 2, 5, 100])} for name in chosen]
        if rng.random() < 0.4:
            chosen = rng.sample(resources, rng.randint(1, 4))
            found["balancedResources"] = [{"name": name, "weight": 1} for name in chosen]
        if rng.random() < 0.5:
            xs = sorted(rng.sample(range(101), rng.randint(1, 4)))
            found["rtcrShape"] = [{"utilization": x, "score": rng.randint(0, 10)} for x in xs]
        return found

    def defaults(self) -> Json:
        """Draw default constraints: the system's, or a list, whose pairs of key and kind are distinct."""
        rng = self.rng
        if rng.random() < 0.5:
            return rng.choice([{}, {"defaultingType": "System"}])
        listed, seen = [], set()
        for _ in range(rng.randint(0, 3)):
            one = spread_constraint(rng)
            allowed = {"maxSkew", "topologyKey", "whenUnsatisfiable"}
            if rng.random() < 0.3:
                allowed |= {"nodeAffinityPolicy", "nodeTaintsPolicy"}
            if (pair := (one["topologyKey"], one["whenUnsatisfiable"])) not in seen:
                seen.add(pair)
                listed.append({key: value for key, value in one.items() if key in allowed})
        return {"defaultingType": "List", "defaultConstraints": listed}

    def changes(self, nodes: list[Json], pods: list[Json]) -> list[Json]:
        """Draw pods that come to one node or leave it."""
        node = self.rng.choice(nodes)["metadata"]["name"]
        there = [p for p in pods if p["spec"].get("nodeName") == node and "phase" not in p.get("status", {})]
        self.rng.shuffle(there)
        found = []
        for at in range(self.rng.randint(1, 3)):
            if there and self.rng.random() < 0.5:
                found.append({"op": "remove", "pod": there.pop(), "node": node})
            else:
                added = self.placed(f"extra{at}", [node])
                added["spec"]["nodeName"] = node
                found.append({"op": "add", "pod": added, "node": node})
        return found


def scenario(seed: int) -> Json:
    """Return the line of a seed."""
    rng = random.Random(seed)
    draw = Draw(rng)
    nodes = [draw.node(at) for at in range(rng.choice([1, 2, 3, 3, 4, 4, 5, 6, 8]))]
    names = [node["metadata"]["name"] for node in nodes]
    pods = [draw.placed(f"p{at}", names) for at in range(rng.choice([8, 12] if draw.crowded else [0, 2, 4, 6, 8, 12]))]
    for at in range(rng.choice([1, 2]) if rng.random() < 0.15 else 0):
        pods.append(draw.nominated(f"nominated{at}", names))
    found: Json = {"id": seed, "pod": draw.incoming(names), "nodes": nodes, "pods": pods}
    listed = [{"name": name, "labels": labels(rng, ("team", "env"))} for name in NAMESPACES if rng.random() < 0.9]
    found["namespaces"] = [{"metadata": one} for one in listed]
    if draw.owned:
        found |= draw.owners() | draw.defaults()
    if rng.random() < 0.5:
        found["podDisruptionBudgets"] = [draw.budget(at) for at in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        found["filteredNodes"] = rng.sample(names, rng.randint(1, len(names)))
    if rng.random() < 0.25:
        found["simulate"] = draw.changes(nodes, pods)
    if rng.random() < 0.1:
        _with_nulls(rng, found)
    if rng.random() < 0.08:
        found |= volumes(rng, found["pod"], names)
    elif rng.random() < 0.05:
        _without_namespaces(found)
    return found | draw.arguments()


def _without_namespaces(found: Json) -> None:
    """Take the namespaces of all objects away, as in a line that somebody wrote by hand."""
    for one in [found["pod"], *(one for listed in found.values() if isinstance(listed, list) for one in listed)]:
        if isinstance(one, dict):
            one.get("metadata", {}).pop("namespace", None)
    for change in found.get("simulate", ()):
        if isinstance(change["pod"], dict):
            change["pod"]["metadata"].pop("namespace", None)


def _with_nulls(rng: random.Random, found: Json) -> None:
    """Say of some fields that may be absent that they are null."""
    for one in [found["pod"], *found["pods"]]:
        for place, fields in (
            (one["metadata"], ("labels", "annotations", "deletionTimestamp", "ownerReferences")),
            (
                one["spec"],
                ("tolerations", "affinity", "initContainers", "overhead", "nodeSelector", "volumes", "priority"),
            ),
            (one.get("status", {}), ("conditions", "containerStatuses", "nominatedNodeName")),
        ):
            for field in fields:
                if field not in place and rng.random() < 0.2:
                    place[field] = None
    for node in found["nodes"]:
        for field in ("taints", "unschedulable"):
            node["spec"].setdefault(field, None)


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

__all__ = ["KEYS", "SOFT", "scenario", "scenarios"]
