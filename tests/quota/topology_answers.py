"""The engine's answer to a question about topologies, in the form in which Kueue's were recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controlplane.controllers.quota.engine.amounts import in_order, spelled
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit, Evict, Preempt
from controlplane.controllers.quota.engine.model import QuotaAdmission
from controlplane.controllers.quota.engine.parse_workloads import counted
from controlplane.controllers.quota.topology import parse
from controlplane.controllers.quota.topology.model import PENDING, PodSetUpdate
from controlplane.kube.kinds import Json
from controlplane.kube.limit_ranges import NO_DEFAULTS
from tests.quota.answers import Play, _truncated


class TopologyPlay(Play):
    """Plays a question."""

    def _put(self, obj: Json) -> None:
        match obj["kind"]:
            case "Topology":
                self.state.put_topology(parse.parse_topology(obj), self.now)
            case "Node":
                self.state.put_node(parse.parse_node(obj), self.now)
            case "Pod":
                requests = in_order(counted(obj["spec"], NO_DEFAULTS, "spec").requests)
                place = f"ns/{obj['metadata']['name']}", obj["spec"]["nodeName"]
                self.state.wake_released()
                self._freed(self.state.snapshot.topology.put_pod(*place, requests))
            case _:
                super()._put(obj)

    def _freed(self, flavors: list[str]) -> None:
        """Try those again who may fit now, as the service does once pods have left nodes."""
        if queues := self.state.snapshot.with_flavors(flavors):
            self.state.wake(queues, self.now)

    def answer(self) -> Json:
        """Return the answer."""
        cycles = []
        for step in self.question["steps"]:
            self.now += 60
            self.state = self._anew(self.state)
            if step["do"] == "cycle":
                cycles.append(self.cycle())
            else:
                self._step(step)
        return {"cycles": cycles}

    def _step(self, step: Json) -> None:
        state, now = self.state, self.now
        match step["do"]:
            case "settle":
                for key in sorted(self.victims):
                    self._release(key, finished=False)
                self.victims.clear()
            case "finish":
                for key in step["who"]:
                    self.victims.discard(key)
                    self._release(key, finished=True)
            case "add":
                for key in step["who"]:
                    state.put_workload(self.workloads[key], now)
            case "node":
                state.put_node(parse.parse_node(step["object"]), now)
                state.wake(list(state.snapshot.queues), now)
            case "drop node":
                state.drop_node(step["name"], now)
                state.wake(list(state.snapshot.queues), now)
            case "drop pod":
                state.wake_released()
                self._freed(state.snapshot.topology.drop_pod(f"ns/{step['name']}"))
                state.wake(list(state.snapshot.queues), now)
            case "checks":
                self._checks(step["nodeSelector"])
            case "unhealthy":
                self._fail(step["name"])

    def _checks(self, selector: Json | None) -> None:
        for _, info in sorted(self.state.snapshot.workloads.items()):
            workload, admission = info.workload, info.workload.admission
            assert admission is not None
            pending = any(one.topology is None and one.delayed == PENDING for one in admission.pod_sets)
            if pending and not workload.admitted and not workload.evicted:
                update = tuple(sorted((selector or {}).items()))
                updates = tuple(PodSetUpdate(one.name, update) for one in workload.pod_sets) if selector else ()
                self.state.put_workload(replace(workload, checks_ready=True, updates=updates), self.now)

    def _fail(self, node: str) -> None:
        for _, info in sorted(self.state.snapshot.workloads.items()):
            marked = replace(info.workload, unhealthy_nodes=(node,))
            if not info.workload.evicted and not info.workload.unhealthy_nodes and marked.on_unhealthy_node:
                self.state.put_workload(marked, self.now)

    def _release(self, key: str, *, finished: bool) -> None:
        info = self.state.snapshot.workloads.get(key)
        if info is not None:
            left = info.workload if finished else self.workloads[key]
            self.state.put_workload(replace(left, finished=finished), self.now)
            self.state.wake(list(self.state.snapshot.queues), self.now)

    def cycle(self) -> Json:
        decisions = decide(self.state, self.now)
        found: Json = {"admit": {}, "preempt": {}, "evict": {}, "pending": {}, "active": {}, "inadmissible": {}}
        admitted = {}
        for decision in decisions:
            if isinstance(decision, Admit):
                admitted[decision.workload] = self._admits(decision)
                if self._has(decision.workload) != decision.admission:
                    found["admit"][decision.workload] = _told(decision.admission, admitted[decision.workload])
                continue
            if isinstance(decision, Evict):
                found["evict"][decision.workload] = [decision.reason, decision.message]
                continue
            reason = "SecondPassFailed" if decision.second_pass else decision.reason
            found["pending"][decision.workload] = [reason, _truncated(decision.message)]
            if isinstance(decision, Preempt):
                new = [victim for victim in decision.victims if not victim.ongoing]
                found["preempt"] |= {victim.workload: [victim.reason, victim.message] for victim in new}
        found["evict"] = {key: said for key, said in found["evict"].items() if key not in found["preempt"]}
        self.state.apply(decisions, self.now)
        for key, is_admitted in admitted.items():
            self._mark(key, admitted=is_admitted)
        self.victims |= {*found["preempt"], *found["evict"]}
        for name, pending in self.state.queues.pending.items():
            found["active"] |= {name: sorted(pending.active)} if pending.active else {}
            found["inadmissible"] |= {name: sorted(pending.inadmissible)} if pending.inadmissible else {}
        return {name: part for name, part in found.items() if part}

    def _has(self, key: str) -> QuotaAdmission | None:
        info = self.state.snapshot.workloads.get(key)
        return info.workload.admission if info is not None else None

    def _mark(self, key: str, *, admitted: bool) -> None:
        """Let the condition Admitted be written with the reservation, as Kueue does."""
        info = self.state.snapshot.workloads.get(key)
        if info is None:
            return
        marked = info.having(workload=replace(info.workload, admitted=admitted))
        self.state.snapshot.workloads[key] = marked
        self.state.snapshot.queues[info.cluster_queue].workloads[key] = marked

    def _admits(self, decision: Admit) -> bool:
        """Return whether nothing but quota and places was missing."""
        info = self.state.snapshot.workloads.get(decision.workload)
        ready = not decision.checks or (info is not None and info.workload.checks_ready)
        delayed = any(one.topology is None and one.delayed == PENDING for one in decision.admission.pod_sets)
        return ready and not delayed


def _told(admission: QuotaAdmission, admitted: bool) -> Json:
    topology: dict[str, Any] = {}
    for given in admission.pod_sets:
        if given.topology is not None:
            domains = [[list(values), pods] for values, pods in given.topology]
            raw = parse.rendered(given.topology)
            topology[given.name] = {"levels": list(given.topology.levels), "domains": domains, "raw": raw}
    return {
        "admitted": admitted,
        "podSets": {
            given.name: {r: f"{f} {spelled(r, given.usage[r])}" for r, f in given.flavors.items()}
            for given in admission.pod_sets
        },
        "counts": {given.name: given.count for given in admission.pod_sets},
        "topology": topology,
        "delayed": {given.name: given.delayed for given in admission.pod_sets if given.delayed},
    }


def answer(question: Json) -> Json:
    """Return the engine's answer."""
    return TopologyPlay(question).answer()
