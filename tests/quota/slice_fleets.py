"""Random fleets with workload slices: some that have quota are to be replaced by others, which ask for more pods, or
for fewer of some pod sets. The same seed gives the same question, and the engine's answer is in the form in which
Kueue's were recorded."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

from controlplane.controllers.quota.engine.amounts import spelled
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit, Preempt
from controlplane.kube.kinds import Json
from controlplane.kube.slices import REPLACEMENT_FOR
from tests.quota.answers import Play
from tests.quota.fleet_workloads import at
from tests.quota.fleets import Fleet

CYCLES = 2
_LEFT_OUT = ("afs", "oddities", "cycle", "checks", "huge", "partial", "steps")


def question(seed: int) -> Json:
    """Return a question: objects, and how many cycles."""
    fleet = Fleet(10**6 + seed)
    fleet.has |= dict.fromkeys(_LEFT_OUT, False)
    made = fleet.question()
    chance = random.Random(seed)
    moments = chance.sample(range(-900, -100), 60)
    for old in [one for one in made["objects"] if one["kind"] == "Workload" and "status" in one]:
        for pod_set, given in zip(old["spec"]["podSets"], old["status"]["admission"]["podSetAssignments"], strict=True):
            pod_set["count"] = given["count"]
        if chance.random() < 0.6:
            made["objects"].append(_slice(old, chance, moments.pop()))
    return {**made, "later": [], "steps": [], "cycles": CYCLES}


def _slice(old: Json, chance: random.Random, moment: int) -> Json:
    """Return another slice of a workload that has quota."""
    name, namespace = old["metadata"]["name"], old["metadata"]["namespace"]
    made = {key: copy.deepcopy(one) for key, one in old.items() if key != "status"}
    made["metadata"] |= {
        "name": f"{name}-grown",
        "uid": f"{old['metadata']['uid']}-grown",
        "creationTimestamp": at(moment),
        "annotations": {REPLACEMENT_FOR: f"{namespace}/{name}"},
    }
    for pod_set in made["spec"]["podSets"]:
        pod_set["count"] = max(1, pod_set["count"] + chance.choice((-1, 0, 1, 1, 1, 2, 3)))
    return made


class SlicePlay(Play):
    """Plays a question about slices. An old one ends as soon as its place was taken."""

    def cycles(self) -> list[Json]:
        """Return what each cycle brings."""
        waits: dict[str, list[str]] = {}
        found = []
        for _ in range(self.question["cycles"]):
            self.now += 60
            found.append(self._once(waits))
        return found

    def _once(self, waits: dict[str, list[str]]) -> Json:
        decisions = decide(self.state, self.now)
        made: dict[str, Any] = {"admit": {}, "preempt": {}, "replaced": []}
        for one in decisions:
            if isinstance(one, Admit):
                waits.pop(one.workload, None)
                made["admit"][one.workload] = {
                    "podSets": {
                        given.name: {r: f"{f} {spelled(r, given.usage[r])}" for r, f in given.flavors.items()}
                        for given in one.admission.pod_sets
                    },
                    "counts": {given.name: given.count for given in one.admission.pod_sets},
                }
                made["replaced"] += [one.replaces] if one.replaces else []
                continue
            waits[one.workload] = [one.reason, one.message]  # type: ignore[union-attr]
            for victim in one.victims if isinstance(one, Preempt) else ():
                if not victim.ongoing:
                    made["preempt"][victim.workload] = [victim.reason, victim.message]
        self.state.apply(decisions, self.now)
        for key in made["replaced"]:
            workload = self.state.snapshot.workloads[key].workload
            self.state.put_workload(replace(workload, finished=True), self.now)
        return {**made, "replaced": sorted(made["replaced"]), "waits": dict(sorted(waits.items()))}


def answer(asked: Json) -> list[Json]:
    """Return the engine's answer; cycles after one that preempts are left out: when who leaves is not said."""
    found = SlicePlay(asked).cycles()
    return found[: next((at + 1 for at, one in enumerate(found) if one["preempt"]), len(found))]


def of_kueue(found: Json) -> list[Json]:
    """Return an answer of Kueue's, as it was recorded, in the same form."""
    cycles = [
        {**one, "replaced": sorted(one["replaced"]), "waits": dict(sorted(one["waits"].items()))} for one in found
    ]
    return cycles[: next((at + 1 for at, one in enumerate(cycles) if one["preempt"]), len(cycles))]
