"""A stage for both pure halves and an API server between them: one source pod, some targets, time by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from controlplane.controllers.candidates.objects import CANDIDATES, SCHEDULER_NAME
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.source import decide as source
from controlplane.controllers.candidates.source import observe, render
from controlplane.controllers.candidates.source import state as folds
from controlplane.controllers.candidates.source.decision_pass import PodContext
from controlplane.controllers.candidates.source.observations import CandidateGone, SourceDeleted
from controlplane.controllers.candidates.source.policy import SourcePolicy, Target
from controlplane.controllers.candidates.source.state import SourceState, source_stream
from controlplane.controllers.candidates.target import calls as calls
from controlplane.controllers.candidates.target import decide as target
from controlplane.controllers.candidates.target import observe as target_observe
from controlplane.controllers.candidates.target import render as target_render
from controlplane.controllers.candidates.target import state as target_folds
from controlplane.controllers.candidates.target.decide import TargetContext, TargetPolicy
from controlplane.controllers.candidates.target.events import (
    HERE,
    CandidatePodGone,
    CandidateVanished,
    InvitationObserved,
)
from controlplane.controllers.candidates.target.state import TargetState
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.kube.kinds import Json, Request, meta
from controlplane.log.event import Event, NewEvent, Recorded
from tests.candidates.model.api import EMPTY, Api, Refused, Store
from tests.candidates.model.world import START

NS = "team"


def pod(**more: Any) -> Json:
    """Return a source pod as its API server shows it."""
    spec = {"schedulerName": SCHEDULER_NAME, "containers": [{"name": "c", "image": "i"}], **more.pop("spec", {})}
    metadata = {"namespace": NS, "name": "web", "uid": "web#1", **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}, **more}


class Stage:
    """Everything in one place. Nothing happens by itself: each test says who looks, sends and schedules."""

    def __init__(self, *targets: str, **policy: Any) -> None:
        self.now = START
        self.names = targets
        self.policy = SourcePolicy(cluster="home", namespaces=frozenset({NS}), **policy)
        self.target_policy = TargetPolicy()
        self.api, self.bodies = Api(), dict[str, bytes]()
        self.state: SourceState = SourceState.initial(f"sourcepod/{NS}/web")
        self.stores: dict[str, Store] = dict.fromkeys(targets, EMPTY)
        self.sides: dict[str, dict[str, TargetState]] = {name: {} for name in targets}
        self.home: Store = {"candidates": {}, "pods": {"web": pod()}, "lives": {}}
        self.away: set[str] = set()
        self.forgotten: set[str] = set()
        self.hidden: dict[str, datetime] = {}  # targets that answer and do not show their candidates, since when
        self.uninvited: set[str] = set()
        self.lends: dict[str, Any] = {"pod_security": "baseline"}
        self.tiers: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.decided: list[Event] = []
        self.appended: list[NewEvent] = []  # the source's stream
        self.position = 0
        self.wake = None

    # --- the source --------------------------------------------------------------------------------------------------

    @property
    def context(self) -> PodContext:
        connections = {
            name: Connection(
                name=name,
                phase="Lost" if name in self.away else "Connected",
                lost_since=START if name in self.away else None,
                lost_clock=START if name in self.away else None,
                synced=frozenset() if name in self.hidden else frozenset({CANDIDATES.name}),
                off={CANDIDATES.name: "candidates is forbidden"} if name in self.hidden else {},
                out_since={CANDIDATES.name: self.hidden[name]} if name in self.hidden else {},
                forgotten=name in self.forgotten,
            )
            for name in self.names
        }
        return PodContext(
            policy=self.policy,
            ready=True,
            targets=[Target(name=name, tier=self.tiers.get(name, 0)) for name in self.names],
            connections=connections,
            counts=self.counts,
        )

    def fold(self, event: Event, cluster: str = MANAGEMENT) -> None:
        self.position += 1
        self.appended.append(NewEvent(stream=source_stream(NS, "web"), event=event, cluster=cluster))
        self.state = folds.fold(
            self.state,
            Recorded(
                position=self.position,
                stream="s",
                version=self.position,
                event=event,
                cluster=cluster,
                recorded_at=self.now,
            ),
        )

    def decide(self) -> list[Event]:
        """Decide until nothing follows; return what was decided."""
        said: list[Event] = []
        for _ in range(20):
            plan = source.decide(self.state, self.context, self.now)
            self.wake = plan.wake
            if not plan.decisions:
                break
            for event in plan.decisions:
                self.fold(event, getattr(event, "cluster", "") or MANAGEMENT)
            said += plan.decisions
        self.decided += said
        return said

    def look(self) -> list[Event]:
        """See the source pod and all targets that can be reached, and decide."""
        found = self.home["pods"].get("web")
        if found is not None:
            _, event, bodies = observe.source_pod(self.api.shown(found))
            self._keep(bodies)
            if self.state.pod is None or self.state.pod.resource_version != event.resource_version:
                self.fold(event)
        elif self.state.pod is not None:
            self.fold(SourceDeleted(namespace=NS, name="web", uid=self.state.pod.uid))
        for name in self.names:
            if name not in self.away and name not in self.hidden:
                self.see(name)
        return self.decide()

    def see(self, name: str, store: Store | None = None) -> None:
        store = self.stores[name] if store is None else store
        known = {n: c.seen for n, c in self.state.candidates.items() if c.cluster == name and c.seen is not None}
        for key, obj in store["candidates"].items():
            shown = self.api.shown(obj)
            before = known.pop(key, None)
            if before is None or before.resource_version != meta(shown)["resourceVersion"]:
                _, event, bodies = observe.candidate(shown)
                self._keep(bodies)
                self.fold(event, name)
        for key, before in known.items():
            self.fold(CandidateGone(namespace=NS, name=key, uid=before.uid), name)

    def requests(self) -> dict[str, Request]:
        """Return the open writes that can be rendered, by their target key."""
        found = {}
        for key, effect in self.state.effects.items():
            try:
                found[key] = render.render(self.state, effect.decision, self.bodies, self.policy, self.now)
            except render.Obsolete:
                continue
        return found

    def send(self) -> list[str]:
        """Carry out all open writes whose cluster can be reached; return what was refused."""
        refused = []
        for key, request in self.requests().items():
            cluster = key.partition("/")[0]
            if cluster in self.away:
                continue
            try:
                self.carry_out(cluster, request)
            except Refused as error:
                refused.append(f"{key}: {error}")
        return refused

    def carry_out(self, cluster: str, request: Request) -> None:
        if cluster == MANAGEMENT:
            self.home = self.api.execute(self.home, request)
        else:
            self.stores[cluster] = self.api.execute(self.stores[cluster], request)

    def _keep(self, bodies: Any) -> None:
        self.bodies.update({body.ref: body.text.encode() for body in bodies})

    # --- a target ----------------------------------------------------------------------------------------------------

    def target_context(self, name: str) -> TargetContext:
        head = {"name": "home", "uid": "i", "resource_version": "1", "namespace": NS}
        invitation = InvitationObserved(**head, cluster="home", **self.lends)
        return TargetContext(
            policy=self.target_policy,
            invitations=() if name in self.uninvited else (invitation,),
            priority_classes=frozenset({"high", "system-node-critical"}),
        )

    def target_fold(self, name: str, candidate: str, event: Event) -> None:
        before = self.sides[name].get(candidate) or target_folds.TargetState.initial(f"candidate/{NS}/{candidate}")
        recorded = Recorded(position=0, stream="c", version=0, event=event, cluster=HERE, recorded_at=self.now)
        self.sides[name][candidate] = target_folds.target_fold(before, recorded)

    def target_look(self, name: str) -> list[Event]:
        """Let a target see its Candidates and Pods and decide; return what was decided."""
        store, said = self.stores[name], list[Event]()
        for key in sorted({*store["candidates"], *store["pods"], *self.sides[name]}):
            self._target_sees(name, key, store)
            for _ in range(20):
                if key not in self.sides[name]:
                    break
                plan = target.target_decide(self.sides[name][key], self.target_context(name), self.now)
                if not plan.decisions:
                    break
                for event in plan.decisions:
                    self.target_fold(name, key, event)
                said += plan.decisions
        self.sides[name] = {key: state for key, state in self.sides[name].items() if not state.settled}
        return said

    def _target_sees(self, name: str, key: str, store: Store) -> None:
        state = self.sides[name].get(key)
        obj = store["candidates"].get(key)
        if obj is not None:
            shown = self.api.shown(obj)
            if state is None or state.seen is None or state.seen.resource_version != meta(shown)["resourceVersion"]:
                _, event, bodies = target_observe.candidate(shown)
                self._keep(bodies)
                self.target_fold(name, key, event)
        elif state is not None and state.seen is not None:
            self.target_fold(name, key, CandidateVanished(namespace=NS, name=key, uid=state.seen.uid))
        state, made = self.sides[name].get(key), store["pods"].get(key)
        if made is not None:
            shown = self.api.shown(made)
            if state is None or state.pod is None or state.pod.resource_version != meta(shown)["resourceVersion"]:
                _, event, bodies = target_observe.pod(shown)
                self._keep(bodies)
                self.target_fold(name, key, event)
        elif state is not None and state.pod is not None:
            self.target_fold(name, key, CandidatePodGone(namespace=NS, name=key, uid=state.pod.uid))

    def target_requests(self, name: str) -> list[Request]:
        found = []
        for state in self.sides[name].values():
            for effect in state.effects.values():
                try:
                    found.append(
                        target_render.target_render(state, effect.decision, self.bodies, self.target_policy, self.now)
                    )
                except render.Obsolete:
                    continue
        return found

    def target_send(self, name: str) -> None:
        for request in self.target_requests(name):
            try:
                self.stores[name] = self.api.execute(self.stores[name], request)
            except Refused:
                continue

    def target_turn(self, name: str) -> None:
        for _ in range(4):
            self.target_look(name)
            self.target_send(name)
        self.target_look(name)

    def only(self, name: str) -> str:
        """Return the name of the newest candidate of a target."""
        epochs = {key: state.seen.origin.epoch for key, state in self.sides[name].items() if state.seen is not None}
        return max(epochs, key=lambda key: epochs[key])

    def reserve(self, name: str, score: int = 1) -> None:
        key = self.only(name)
        event = calls.reserved(self.sides[name][key], self.target_policy, f"node-{name}", score, self.now)
        assert event is not None
        self.target_fold(name, key, event)
        self.target_turn(name)

    def full(self, name: str, *, preemptable: bool = False) -> None:
        key = self.only(name)
        event = calls.not_schedulable(
            self.sides[name][key], self.target_policy, "0/1 nodes: no room", self.now, preemptable=preemptable
        )
        assert event is not None
        self.target_fold(name, key, event)
        self.target_turn(name)

    def give_up(self, name: str, reason: TargetReason = TargetReason.NODE_GONE) -> None:
        key = self.only(name)
        state = self.sides[name][key]
        assert state.held is not None
        event = calls.unreserved(state, state.held.number, reason)
        assert event is not None
        self.target_fold(name, key, event)

    def bind(self, name: str) -> bool:
        """Begin a binding; return whether it may be begun."""
        key = self.only(name)
        event = calls.bind_order(self.sides[name][key], self.target_policy, self.now)
        if event is not None:
            self.target_fold(name, key, event)
        return event is not None

    # --- short ways --------------------------------------------------------------------------------------------------

    def tick(self, seconds: float) -> Stage:
        self.now += timedelta(seconds=seconds)
        return self

    def ask(self) -> Stage:
        """Elect the pod and ask every target that can be reached."""
        self.look()
        self.send()
        for name in self.names:
            if name not in self.away:
                self.target_turn(name)
        self.look()
        return self

    def permitted(self, name: str) -> Stage:
        """Have a target reserve, and permit it."""
        self.ask()
        self.reserve(name)
        self.look()
        assert self.state.permit is not None
        assert self.state.permit.cluster == name
        self.send()
        return self

    def delegated(self, name: str) -> Stage:
        """Have a target bind."""
        self.permitted(name)
        self.target_turn(name)
        assert self.bind(name)
        self.target_turn(name)
        self.look()
        return self

    def moved(self, name: str) -> Stage:
        """Have another target reserve and bind, once the one before is lost."""
        self.settle()
        self.reserve(name)
        self.settle()
        assert self.bind(name)
        return self.settle()

    def run(self, name: str, phase: str = "Running", restarts: int = 0) -> None:
        """Have the pod on a target say something."""
        key = self.only(name)
        store = self.stores[name]
        status = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "restartCount": restarts, "ready": True}],
        }
        pods = {**store["pods"], key: {**store["pods"][key], "status": status}}
        self.stores[name] = {**store, "pods": pods}
        self.target_turn(name)

    def reject(self, name: str) -> None:
        """The kubelet of its node refuses the pod on a target."""
        key, store = self.only(name), self.stores[name]
        message = "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 4000, capacity: 4000"
        status = {"phase": "Failed", "reason": "OutOfcpu", "message": message, "qosClass": "Burstable"}
        pods = {**store["pods"], key: {**store["pods"][key], "status": status}}
        self.stores[name] = {**store, "pods": pods}
        self.target_turn(name)

    def lose_pod(self, name: str) -> None:
        """The pod on a target vanishes."""
        store = self.stores[name]
        self.stores[name] = {**store, "pods": {}}
        self.target_turn(name)

    def settle(self) -> Stage:
        """Let everybody who can be reached do what there is to do, scheduling aside."""
        for _ in range(8):
            self.look()
            self.send()
            for name in self.names:
                self.target_turn(name)
        return self

    def phase(self) -> str:
        return str(self.home["pods"]["web"]["status"]["phase"])

    def said(self, kind: str = "PodScheduled") -> str:
        conditions = self.home["pods"]["web"]["status"].get("conditions", [])
        return next((entry["message"] for entry in conditions if entry["type"] == kind), "")

    def there(self, name: str) -> list[str]:
        return sorted({*self.stores[name]["candidates"], *self.stores[name]["pods"]})
