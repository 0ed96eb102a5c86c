"""Random topologies and pod sets to be placed in them by themselves, with the rules of Kueue's alpha gates, and the
engine's answers.

A question is one flavor's nodes and what a workload asks for. The same seed gives the same question."""

from __future__ import annotations

import random

from controlplane.controllers.quota.engine.model import ResourceFlavor, Workload
from controlplane.controllers.quota.engine.parse_workloads import pod_set
from controlplane.controllers.quota.topology import parse
from controlplane.controllers.quota.topology.fleet import TopologyFleet
from controlplane.controllers.quota.topology.model import PlacementRules
from controlplane.controllers.quota.topology.requests import PlacementRequest
from controlplane.controllers.quota.topology.workload_placement import placements
from controlplane.kube.kinds import Json
from tests.quota.topology_fleets import BLOCK, HOST, RACK

LEVELS = ([HOST], [RACK, HOST], [BLOCK, RACK, HOST], [BLOCK, RACK, HOST], [BLOCK, RACK, HOST], [BLOCK, RACK], [BLOCK])
RULES = ((True, False), (True, False), (False, True), (True, True))


class _Question:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.levels = self.chance.choice(LEVELS)
        self.balanced, self.preferred = self.chance.choice(RULES)

    def some(self, share: float) -> bool:
        return self.chance.random() < share

    def asked(self) -> Json:
        """Return the question."""
        rooms = self.chance.choice((("1", "2", "3"), ("2", "4"), ("1", "2", "4", "8"), ("4",)))
        nodes = [
            self._node(f"b{block}", f"r{block}-{rack}", f"n{block}-{rack}-{n}", rooms)
            for block in range(self.chance.choice((1, 2, 3)))
            for rack in range(self.chance.choice((1, 2, 3, 4)))
            for n in range(self.chance.choice((1, 2, 3)))
        ]
        self.chance.shuffle(nodes)
        return {
            "levels": self.levels,
            "balanced": self.balanced,
            "preferred": self.preferred,
            "nodes": nodes,
            "podSets": self._pod_sets(),
        }

    def _node(self, block: str, rack: str, name: str, rooms: tuple[str, ...]) -> Json:
        labels = {
            BLOCK: block,
            RACK: rack,
            HOST: name,
            "zone": self.chance.choice("123"),
            "disk": self.chance.choice("ab"),
        }
        allocatable = {"cpu": self.chance.choice(rooms), "pods": self.chance.choice(("20", "20", "3"))}
        ready = [{"type": "Ready", "status": "True"}]
        metadata = {"name": name, "labels": labels}
        return {"metadata": metadata, "spec": {}, "status": {"allocatable": allocatable, "conditions": ready}}

    def _pod_sets(self) -> list[Json]:
        level = self.chance.choice(self.levels)
        roll = self.chance.random()
        request: Json = (
            {"preferred": level} if roll < 0.75 else {"required": level} if roll < 0.9 else {"unconstrained": True}
        )
        size = 1
        if roll < 0.9 and self.some(0.45):
            size = self.chance.choice((1, 2, 2, 3, 4))
            below = self.levels[self.levels.index(level) :]
            request |= {"podSetSliceRequiredTopology": self.chance.choice(below), "podSetSliceSize": size}
        workers = self._pod_set("workers", size * self.chance.choice((1, 2, 3, 4, 5, 6, 8, 12)), request)
        if roll >= 0.9 or not self.some(0.4):
            return (
                [workers]
                if self.some(0.8)
                else [workers, self._pod_set("others", size * self.chance.choice((1, 3, 6)), request)]
            )
        request["podSetGroupName"] = "group"
        return [self._pod_set("leader", 1, dict(request)), workers]

    def _pod_set(self, name: str, count: int, request: Json) -> Json:
        spec: Json = {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": self.chance.choice(("1", "1", "2"))}}}]
        }
        if self.some(0.6 if self.preferred else 0.1):
            preferred = [self._preference() for _ in range(self.chance.choice((1, 1, 2, 3)))]
            spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        return {"name": name, "count": count, "template": {"spec": spec}, "topologyRequest": request}

    def _preference(self) -> Json:
        key, values = self.chance.choice((("zone", "123"), ("disk", "ab"), (RACK, ("r0-0", "r1-0", "r1-1"))))
        operator = self.chance.choice(("In", "In", "NotIn", "Exists"))
        asked: Json = {"key": key, "operator": operator}
        if operator != "Exists":
            asked["values"] = [self.chance.choice(values)]
        return {"weight": self.chance.choice((1, 10, 50, 100)), "preference": {"matchExpressions": [asked]}}


def question(seed: int) -> Json:
    """Return the question of a seed."""
    return _Question(seed).asked()


def answer(asked: Json) -> Json:
    """Return what the engine answers: of each pod set the domains with their pods, or why it is not placed."""
    fleet = TopologyFleet(PlacementRules(balanced=asked["balanced"], preferred_affinity=asked["preferred"]))
    levels = [{"nodeLabel": level} for level in asked["levels"]]
    fleet.put_topology(parse.parse_topology({"metadata": {"name": "default"}, "spec": {"levels": levels}}))
    fleet.put_flavor(ResourceFlavor("flavor", topology="default"))
    for node in asked["nodes"]:
        fleet.put_node(parse.parse_node(node))
    sets = [pod_set(one, f"podSets[{at}]") for at, one in enumerate(asked["podSets"])]
    requests = {"flavor": [PlacementRequest(one, one.count, "flavor") for one in sets]}
    found = {}
    for one in placements(fleet.flavors, requests, Workload("ns", "w", "w", "lq", 0, tuple(sets), 0)):
        domains = None if one.assignment is None else [[list(values), pods] for values, pods in one.assignment]
        found[one.pod_set] = {"domains": domains, "refusal": one.refusal}
    return found
