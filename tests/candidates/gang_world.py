"""Both pure sides with gangs: source pods that name PodGroups, targets with room for a number of pods, time by hand.

A target's scheduler is either `together`, as one with the plugin Gang: all of a group get a place or nobody, and none
is bound before a quorum is permitted; or each pod gets its place by itself, as far as there is room."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.controllers.candidates.objects import CANDIDATES, PODS
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.source.events import PermitGranted
from controlplane.controllers.candidates.source.gang_state import SourceGangState, group_stream
from controlplane.controllers.candidates.source.pods import SourceCandidates
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.controllers.candidates.source.targets import gone, seen
from controlplane.controllers.candidates.target.state import TargetState
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterLost, cluster_stream
from controlplane.kube.kinds import POD_GROUPS, Json, meta
from controlplane.kube.pod_groups import GROUP_NAME
from controlplane.log.event import Event, NewEvent
from controlplane.runtime.controller import Decided
from tests.candidates.model.world import START
from tests.candidates.stage import NS, pod
from tests.candidates.test_capabilities import Federation, Process


class Timed(Process):
    """A process that knows when the log took what."""

    def __init__(self, capability: SourceCandidates) -> None:
        super().__init__(capability, SourceCandidates.types)
        self.times: list[datetime] = []

    def append(self, new: NewEvent) -> None:
        self.times.append(self.now)
        super().append(new)

    def take(self, decided: Decided) -> bool:
        """Append what was decided, on the versions that it rests on."""
        rests_on = dict(decided.others)
        if decided.events and decided.events[0].stream not in rests_on:
            rests_on[decided.events[0].stream] = decided.version
        assert all(self.versions[stream] == version for stream, version in rests_on.items())
        for new in decided.events:
            self.append(new)
        return bool(decided.events)


class GangWorld(Federation):
    """See the module. `room`: how many pods each target has nodes for."""

    def __init__(self, **room: int) -> None:
        super().__init__(*room)
        restarted(self)
        self.room, self.together = dict(room), set(room)
        self.away: set[str] = set()
        self.least: dict[str, int] = {}
        self.preemptable: set[str] = set()
        self.score: dict[str, int] = {}

    # --- what the user does ------------------------------------------------------------------------------------------

    def policy(self, **more: Any) -> GangWorld:
        capability: SourceCandidates = self.source.capability
        capability.policy = msgspec.structs.replace(capability.policy, **more)
        return self

    def group(self, name: str, least: Any = 2, *, uid: str = "", age: int = 0) -> None:
        """Create a PodGroup, or change it."""
        self.least[name] = least
        created = (START - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
        head = {"namespace": NS, "name": name, "uid": uid or f"{name}#g", "resourceVersion": "1"}
        found = seen(POD_GROUPS, {"metadata": {**head, "creationTimestamp": created}, "spec": {"minMember": least}})
        assert found is not None
        self.source.append(NewEvent(stream=found[0], event=found[1], cluster=MANAGEMENT))

    def no_group(self, name: str) -> None:
        found = gone(POD_GROUPS, {"metadata": {"namespace": NS, "name": name, "uid": f"{name}#g"}})
        assert found is not None
        self.source.append(NewEvent(stream=found[0], event=found[1], cluster=MANAGEMENT))

    def member(self, of: str, number: int, *, annotations: Json | None = None, **spec: Any) -> str:
        """Submit one pod of a group."""
        name = f"{of}-{number}"
        marks = {GROUP_NAME: of, **(annotations or {})}
        made = pod(metadata={"name": name, "uid": f"{name}#{len(self.source.rows)}", "annotations": marks}, spec=spec)
        self.home = {**self.home, "pods": {**self.home["pods"], name: made}}
        return name

    def gang(self, name: str, size: int, least: int | None = None, **more: Any) -> list[str]:
        self.group(name, size if least is None else least)
        return [self.member(name, number, **more) for number in range(size)]

    def delete(self, name: str) -> None:
        self.home = {**self.home, "pods": {key: obj for key, obj in self.home["pods"].items() if key != name}}

    def tick(self, seconds: float) -> GangWorld:
        self.source.now += timedelta(seconds=seconds)
        for process in self.schedulers.values():
            process.now += timedelta(seconds=seconds)
        return self

    # --- the source --------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Let the source see what it can, and decide until nothing follows."""
        source = self.source
        source.watch(self.api, MANAGEMENT, PODS, self.home["pods"])
        for name in self.targets:
            if name not in self.away:
                source.watch(self.api, name, CANDIDATES, self.stores[name]["candidates"])
        source.capability.touch_all()
        source.settle()

    def step(self) -> None:
        self.look()
        self.source.send(self._reached, self.source.capability.sources)
        for name in self.targets:
            self.target(name)

    def _reached(self, cluster: str, request: Any) -> None:
        if cluster not in self.away:
            self._from_source(cluster, request)

    def lose(self, name: str) -> None:
        self.away.add(name)
        event = ClusterLost(reason="Unreachable", message="gone")
        self.source.append(NewEvent(stream=cluster_stream(name), event=event, cluster=name))

    def back(self, name: str) -> None:
        self.away.discard(name)
        self.connect(name, CANDIDATES)

    # --- a target ----------------------------------------------------------------------------------------------------

    def target(self, name: str) -> None:
        process = self.schedulers[name]
        process.watch(self.api, "", CANDIDATES, self.stores[name]["candidates"])
        process.watch(self.api, "", PODS, self.stores[name]["pods"])
        process.capability.touch_all()
        process.settle()
        process.send(lambda _, request: self._at(name, request), process.capability.candidates)
        pods = self.stores[name]["pods"]  # a pod whose grace period is over is gone
        kept = {key: obj for key, obj in pods.items() if "deletionTimestamp" not in meta(obj)}
        self.stores[name] = {**self.stores[name], "pods": kept}

    def states(self, target: str, of: str = "") -> dict[str, TargetState]:
        found = self.schedulers[target].capability.candidates
        return {s: state for s, state in found.items() if not of or self.group_of(state) == of}

    def group_of(self, state: TargetState) -> str:
        return state.seen.origin.name.rpartition("-")[0] if state.seen is not None else ""

    def schedule(self, name: str, score: int = 1) -> None:
        """Find nodes, or none, for whoever waits; begin the bindings that may begin."""
        process, waiting = self.schedulers[name], list(self.schedulers[name].capability.waiting())
        free = self.room[name] - len(process.capability.taken())
        for stream in sorted(waiting):
            state = process.capability.candidates[stream]
            fits = free > 0
            if fits and name in self.together:
                fits = self._all_fit(name, self.group_of(state), free)
            if fits:
                free -= 1
                process.take(process.capability.reserved(stream, f"node-{name}", self.score.get(name, 1), process.now))
            else:
                preemptable = name in self.preemptable
                said = process.capability.not_schedulable(stream, "no room", process.now, preemptable=preemptable)
                process.take(said)
        self.bind(name)

    def _all_fit(self, name: str, of: str, free: int) -> bool:
        states = self.states(name, of).values()
        taken = sum(bool(state.node) for state in states)
        waiting = sum(state.pod is not None and not state.node for state in states)
        return taken >= self.least[of] or min(free, waiting) + taken >= self.least[of]

    def bind(self, name: str, only: Iterable[str] | None = None) -> None:
        process = self.schedulers[name]
        for stream, state in sorted(process.capability.candidates.items()):
            if only is not None and (state.seen is None or state.seen.origin.name not in only):
                continue
            if process.capability.may_bind(stream, process.now) and self._quorum(name, self.group_of(state)):
                process.take(process.capability.bind(stream, process.now))

    def _quorum(self, name: str, of: str) -> bool:
        if name not in self.together or of not in self.least:
            return True
        states, capability = self.states(name, of), self.schedulers[name].capability
        if any(state.bound is not None for state in states.values()):
            return True
        now = self.schedulers[name].now
        ready = [s for s, state in states.items() if state.binding is not None or capability.may_bind(s, now)]
        return len(ready) >= self.least[of]

    def give_up(self, target: str, member: str) -> None:
        """The node of a reservation goes."""
        process = self.schedulers[target]
        for stream, state in self.states(target).items():
            if state.seen is not None and state.seen.origin.name == member and state.held is not None:
                process.take(process.capability.must_unreserve(stream, TargetReason.NODE_GONE))

    def evict(self, target: str, member: str) -> None:
        """A bound pod vanishes."""
        names = {s.name for s in self.states(target).values() if s.seen and s.seen.origin.name == member}
        store = self.stores[target]
        self.stores[target] = {**store, "pods": {k: obj for k, obj in store["pods"].items() if k not in names}}

    def shows(self, target: str, member: str, phase: str) -> None:
        """A bound pod says how it is."""
        names = {s.name for s in self.states(target).values() if s.seen and s.seen.origin.name == member}
        store = self.stores[target]
        pods = {k: ({**o, "status": {"phase": phase}} if k in names else o) for k, o in store["pods"].items()}
        self.stores[target] = {**store, "pods": pods}

    # --- what there is -----------------------------------------------------------------------------------------------

    def where(self, name: str) -> list[str]:
        """The targets in which a source pod runs."""
        return [
            target
            for target in self.targets
            for key, obj in self.stores[target]["pods"].items()
            if obj["spec"].get("nodeName") and self._origin(target, key) == name
        ]

    def _origin(self, target: str, key: str) -> str:
        candidate = self.stores[target]["candidates"].get(key)
        return str(candidate["spec"]["source"]["name"]) if candidate is not None else ""

    def places(self, names: Iterable[str]) -> set[tuple[str, ...]]:
        return {tuple(self.where(name)) for name in names}

    def state(self, name: str) -> SourceState:
        found: SourceState = self.source.capability.sources[f"sourcepod/{NS}/{name}"]
        return found

    def of_group(self, name: str) -> SourceGangState:
        found: SourceGangState = self.source.capability.gangs.state(group_stream(NS, name))
        return found

    def permits(self) -> dict[str, str]:
        """Open permits to bind, by source pod."""
        sources: dict[str, SourceState] = self.source.capability.sources
        return {s.name: s.permit.cluster for s in sources.values() if s.permit is not None and s.permit.kind == "Bind"}

    def said(self, kind: type[Event]) -> list[Any]:
        return [row.event for row in self.source.rows if isinstance(row.event, kind)]

    def condition(self, name: str) -> Json:
        entries = self.home["pods"][name]["status"].get("conditions") or []
        return next((entry for entry in entries if entry["type"] == "PodScheduled"), {})

    def granted(self) -> list[tuple[str, str, str]]:
        """Every permit that was given: pod, target, kind."""
        return [
            (row.stream.rpartition("/")[2], row.event.cluster, row.event.kind)
            for row in self.source.rows
            if isinstance(row.event, PermitGranted)
        ]


def restarted(world: GangWorld) -> GangWorld:
    """Fold the source's log anew, as a new leader does."""
    before, old = world.source, world.source.capability
    capability = SourceCandidates(old.policy, "test", old._targets_of)
    process = Timed(capability)
    process.bodies, process.seen = before.bodies, before.seen
    times = before.times if isinstance(before, Timed) else [START] * len(before.rows)
    for row, process.now in zip(before.rows, times, strict=True):
        process.append(row)
    process.now = before.now
    world.source = process
    return world
