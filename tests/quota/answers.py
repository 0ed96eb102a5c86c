"""The engine's answer to a question, in the form in which Kueue's were recorded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from controlplane.controllers.quota.engine import parse_queues, parse_workloads
from controlplane.controllers.quota.engine.amounts import spelled
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit, Preempt
from controlplane.controllers.quota.engine.fair_preemption import STRATEGIES
from controlplane.controllers.quota.engine.model import Workload
from controlplane.controllers.quota.engine.past_usage import in_units
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.shares import dominant_resource_share
from controlplane.controllers.quota.engine.state import State
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing, decayed
from controlplane.kube.kinds import Json
from controlplane.kube.pod_requests import amounts, whole
from controlplane.kube.quantities import NANO, nanos

EVENT_LIMIT = 1024


def settings_of(question: Json) -> EngineSettings:
    fair, past = question["fairSharing"], question["admissionFairSharing"]
    return EngineSettings(
        try_all_released=True,
        fair_sharing=fair is not None,
        preemption_strategies=tuple((fair or {}).get("preemptionStrategies") or STRATEGIES),
        admission_fair_sharing=AdmissionFairSharing(3600, 300, past["resourceWeights"] or {}) if past else None,
    )


class Play:
    """Plays a question. `anew`: makes another state of one, before each step."""

    def __init__(self, question: Json, anew: Callable[[State], State] = lambda state: state) -> None:
        self.question, self._anew = question, anew
        self.state = State(settings_of(question))
        self.now = datetime.fromisoformat(question["now"]).timestamp()
        self.workloads: dict[str, Workload] = {}
        self.victims: set[str] = set()
        for key, usage in question.get("usage", {}).items():
            self.state.history.record(key, in_units(whole(amounts(usage))), self.now)
        # Workloads first: whatever comes in which order, the state is the same.
        for obj in sorted(question["objects"], key=lambda obj: obj["kind"] != "Workload"):
            self._put(obj)

    def _put(self, obj: Json) -> None:
        state, now = self.state, self.now
        match obj["kind"]:
            case "Namespace":
                state.put_namespace(obj["metadata"]["name"], obj["metadata"]["labels"], now)
            case "ResourceFlavor":
                state.put_flavor(parse_queues.resource_flavor(obj), now)
            case "Cohort":
                state.put_cohort(parse_queues.cohort(obj), now)
            case "ClusterQueue":
                state.put_cluster_queue(parse_queues.cluster_queue(obj), now)
            case "LocalQueue":
                state.put_local_queue(parse_queues.local_queue(obj))
            case "AdmissionCheck":
                state.put_check(parse_queues.admission_check(obj), now)
            case "Workload":
                found = parse_workloads.workload(obj)
                self.workloads[found.key] = found
                if found.key not in self.question["later"]:
                    state.put_workload(found, now)

    def answer(self) -> Json:
        """Return the answer."""
        tree, shares = self.tree(), self.shares()
        cycles = []
        for step in self.question["steps"]:
            self.now += 60
            self.state = self._anew(self.state)
            match step["do"]:
                case "cycle":
                    cycles.append(self.cycle())
                case "settle":
                    for key in sorted(self.victims):
                        self._release(key, finished=False)
                    self.victims.clear()
                case "finish":
                    for key in step["who"]:
                        self._release(key, finished=True)
                case "add":
                    for key in step["who"]:
                        self.state.put_workload(self.workloads[key], self.now)
        return {"tree": tree, "shares": shares, "cycles": cycles, "decays": decays(self.question)}

    def tree(self) -> Json:
        found: Json = {}
        for queue in self.state.snapshot.queues.values():
            if queue.active and not self.state.snapshot.has_cycle(queue):
                found[queue.name] = {
                    " ".join(place): [
                        str(queue.usage.get(place, 0)),
                        str(max(0, queue.available(place))),
                        str(queue.potential_available(place)),
                    ]
                    for place in queue.quotas
                }
        for cohort in self.cohorts():
            quotas = cohort.subtree.items()
            found[f"cohort {cohort.name}"] = {
                " ".join(place): [str(cohort.usage.get(place, 0)), str(amount)] for place, amount in quotas
            }
        return found

    def cohorts(self) -> list[Any]:
        snapshot = self.state.snapshot
        return [cohort for cohort in snapshot.cohorts() if cohort.name not in snapshot._cyclic]

    def shares(self) -> Json:
        snapshot = self.state.snapshot
        queues = [q for q in snapshot.queues.values() if q.active and not snapshot.has_cycle(q)]
        found = {queue.name: dominant_resource_share(queue) for queue in queues}
        found |= {f"cohort {cohort.name}": dominant_resource_share(cohort) for cohort in self.cohorts()}
        return {name: [share.weighted, share.borrows] for name, share in found.items()}

    def cycle(self) -> Json:
        decisions = decide(self.state, self.now)
        found: Json = {"admit": {}, "preempt": {}, "pending": {}, "active": {}, "inadmissible": {}}
        for decision in decisions:
            if isinstance(decision, Admit):
                found["admit"][decision.workload] = {
                    "admitted": self._passes(decision),
                    "podSets": {
                        given.name: {r: f"{f} {spelled(r, given.usage[r])}" for r, f in given.flavors.items()}
                        for given in decision.admission.pod_sets
                    },
                    "counts": {given.name: given.count for given in decision.admission.pod_sets},
                }
                continue
            found["pending"][decision.workload] = [decision.reason, _truncated(decision.message)]
            if isinstance(decision, Preempt):
                new = [victim for victim in decision.victims if not victim.ongoing]
                found["preempt"] |= {victim.workload: [victim.reason, victim.message] for victim in new}
        self.state.apply(decisions, self.now)
        self.victims |= set(found["preempt"])
        for name, pending in self.state.queues.pending.items():
            if pending.active:
                found["active"][name] = sorted(pending.active)
            if pending.inadmissible:
                found["inadmissible"][name] = sorted(pending.inadmissible)
        return {name: part for name, part in found.items() if part}

    def _passes(self, decision: Admit) -> bool:
        """Return whether nothing but quota was missing: the workload has a state Ready for each of its checks."""
        obj = next(
            o
            for o in self.question["objects"]
            if f"{o['metadata'].get('namespace')}/{o['metadata']['name']}" == decision.workload
        )
        states = {check["name"]: check["state"] for check in obj.get("status", {}).get("admissionChecks", ())}
        return all(state == "Ready" for state in states.values()) and set(decision.checks) <= set(states)

    def _release(self, key: str, *, finished: bool) -> None:
        info = self.state.snapshot.workloads.get(key)
        if info is None:
            return
        workload = info.workload
        self.state.history.leave(key)  # nothing is sampled there, and who left does not count on
        if not finished:
            workload = replace(workload, admission=None, reserved_at=None)
        self.state.put_workload(replace(workload, finished=finished), self.now)


def decays(question: Json) -> list[Json]:
    """Return past usages after some time, in billionths."""
    found = []
    for asked in question.get("decays", ()):
        old, new = (_units(asked[part]) for part in ("old", "new"))
        faded = decayed(old, new, asked["elapsed"], asked["halfLife"])
        found.append({name: _rounded(amount * NANO) for name, amount in faded.items()})
    return found


def _rounded(amount: int | Decimal) -> str:
    """Powers of 0.5 differ in their last bit between Go and C."""
    return f"{float(amount):.12g}"


def _units(listed: Json) -> dict[str, Decimal]:
    return {name: Decimal(amount) / NANO for name, amount in amounts(listed).items()}


def _truncated(message: str) -> str:
    return message if len(message) <= EVENT_LIMIT else message[: EVENT_LIMIT - 4] + " ..."


def answer(question: Json) -> Json:
    """Return the engine's answer."""
    return Play(question).answer()


def of_kueue(found: Json) -> Json:
    """Return a recorded answer with its shares as numbers."""
    shares = {
        name: [float(text.split()[0].replace("+Inf", "inf")), text.endswith("true")]
        for name, text in found["shares"].items()
    }
    faded = [{name: _rounded(nanos(amount)) for name, amount in one.items()} for one in found.get("decays", ())]
    return {"tree": found["tree"], "shares": shares, "cycles": found["cycles"], "decays": faded}


def digest(found: Json) -> bytes:
    """Return eight bytes that are equal for equal answers."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).digest()[:8]
