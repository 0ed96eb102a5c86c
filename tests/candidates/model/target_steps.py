"""What a target can do in one step about the candidates of one source, computed once for each distinct question."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.source.render import Obsolete
from controlplane.controllers.candidates.target import calls as calls
from controlplane.controllers.candidates.target import decide as decisions
from controlplane.controllers.candidates.target import events
from controlplane.controllers.candidates.target import observe as observe
from controlplane.controllers.candidates.target import render as render
from controlplane.controllers.candidates.target import state as folds
from controlplane.controllers.candidates.target.state import TargetState
from controlplane.kube.kinds import Request, meta
from controlplane.log.codec import Codec
from controlplane.log.event import Event, Recorded
from tests.candidates.model.api import Api, Refused, Store
from tests.candidates.model.intern import Interner, freeze
from tests.candidates.model.world import AN_AGE, FAR, NAMESPACE, Config, Violation, at

Side = dict[str, TargetState]
_MOST_PASSES = 12


class TargetSteps:
    """The steps of target `t` about source `s`. A side is the target's states of that source's candidates, by name."""

    def __init__(self, config: Config, s: int, t: int, api: Api, bodies: dict[str, bytes]) -> None:
        self.config, self.s, self.t, self.api, self.bodies = config, s, t, api, bodies
        self.sides: Interner[Side] = Interner()
        self.stores: Interner[Store] = Interner()
        self.requests: Interner[Request] = Interner()
        self.codec = Codec(events.TARGET_EVENTS)
        self._memo: dict[Any, Any] = {}
        self.policy = config.target_policy
        head = {"name": "i", "uid": "i", "resource_version": "1", "namespace": NAMESPACE}
        invitation = events.InvitationObserved(**head, cluster=config.cluster(s), pod_security="baseline")
        self.context = decisions.TargetContext(
            policy=self.policy, invitations=() if t in config.uninvited else (invitation,)
        )

    def put_store(self, store: Store) -> int:
        return self.stores.put(store, freeze(store))

    def memo(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    # --- folding -----------------------------------------------------------------------------------------------------

    def fold(self, state: TargetState, event: Event, now: datetime) -> TargetState:
        stored = self.codec.decode(*self.codec.encode(event))
        stream = folds.candidate_stream(state.namespace, state.name)
        recorded = Recorded(position=0, stream=stream, version=0, event=stored, cluster=events.HERE, recorded_at=now)
        return folds.target_fold(state, recorded)

    def decided(self, state: TargetState, now: int) -> TargetState:
        for _ in range(_MOST_PASSES):
            plan = decisions.target_decide(state, self.context, at(now))
            if not plan.decisions:
                return state
            for event in plan.decisions:
                state = self.fold(state, event, at(now))
        raise Violation("quiet", f"the target goes on deciding: {[type(e).__name__ for e in plan.decisions]}")

    def wake_of(self, side: int, now: int) -> int | None:
        """Return when the target wants to look again, in seconds of the model; None if it does not, or only after
        `AN_AGE`.
        """

        def ask() -> int | None:
            wakes = [decisions.target_decide(state, self.context, at(now)).wake for state in self.sides[side].values()]
            seconds = [int((wake - at(0)).total_seconds()) for wake in wakes if wake is not None]
            return min((second for second in seconds if second < AN_AGE), default=None)

        return self.memo(("wake_of", side, now), ask)

    # --- looking -----------------------------------------------------------------------------------------------------

    def look(self, side: int, store: int, now: int, forbids: bool = False) -> tuple[int, int]:
        """Take notice of the Candidates; a Pod that is to be made is made at once, and seen: nothing can come between.

        `forbids`: the API server lets none be made. That is answered once; what is tried again then waits for its
        answer."""
        return self.memo(("look", side, store, now, forbids), lambda: self._look(side, store, now, forbids))

    def _look(self, side: int, store: int, now: int, forbids: bool) -> tuple[int, int]:
        states, objects = dict(self.sides[side]), self.stores[store]
        for name in sorted({*states, *objects["candidates"], *objects["pods"]}):
            before = states.get(name) or folds.TargetState.initial(folds.candidate_stream(NAMESPACE, name))
            states[name] = self._observed(before, objects["candidates"].get(name), now)
            if states[name].binding is None:
                states[name] = self._observed_pod(states[name], objects["pods"].get(name), now)
            for effect in list(states[name].effects.values()):
                if isinstance(effect.decision, events.PodMade) and forbids:
                    states[name] = self._forbidden(states[name], effect.decision, now)
                elif isinstance(effect.decision, events.PodMade):
                    objects = self._carried_out(states[name], effect.decision, objects, now)
                    states[name] = self._observed_pod(states[name], objects["pods"].get(name), now)
        states = {name: state for name, state in states.items() if not state.settled}
        return self.sides.put(states), self.put_store(objects)

    def _forbidden(self, state: TargetState, decision: events.PodMade, now: int) -> TargetState:
        if decision.target in state.trouble:
            return state
        no = {"code": 403, "error": "Forbidden", "message": "exceeded quota", "failures": 1, "retry_at": at(now)}
        failed = events.TargetWriteFailed(target=decision.target, action=events.PodMade.__name__, **no)
        return self.decided(self.fold(state, failed, at(now)), now)

    def _observed(self, state: TargetState, obj: Any, now: int) -> TargetState:
        known = state.seen
        after = state
        if obj is None:
            if known is not None:
                after = self.fold(
                    state, events.CandidateVanished(namespace=NAMESPACE, name=known.name, uid=known.uid), at(now)
                )
        else:
            shown = self.api.shown(obj)
            if known is None or known.resource_version != meta(shown)["resourceVersion"]:
                _, event, bodies = observe.candidate(shown)
                self.bodies.update({body.ref: body.text.encode() for body in bodies})
                after = self.fold(state, event, at(now))
        return self.decided(after, now)

    def look_pods(self, side: int, store: int, now: int) -> int:
        """Take notice of the Pods."""

        def look() -> int:
            states, objects = dict(self.sides[side]), self.stores[store]
            for name in sorted({*states, *objects["pods"]}):
                if name in states and states[name].binding is None:
                    continue  # looked at together with the Candidate: there is nothing to race with
                before = states.get(name) or folds.TargetState.initial(folds.candidate_stream(NAMESPACE, name))
                states[name] = self._observed_pod(before, objects["pods"].get(name), now)
            return self.sides.put({name: state for name, state in states.items() if not state.settled})

        return self.memo(("pods", side, store, now), look)

    def _observed_pod(self, state: TargetState, obj: Any, now: int) -> TargetState:
        known = state.pod
        if obj is None:
            if known is None:
                return state
            event: Event = events.CandidatePodGone(namespace=NAMESPACE, name=known.name, uid=known.uid)
        else:
            shown = self.api.shown(obj)
            if known is not None and known.resource_version == meta(shown)["resourceVersion"]:
                return state
            _, event, bodies = observe.pod(shown)
            self.bodies.update({body.ref: body.text.encode() for body in bodies})
        return self.decided(self.fold(state, event, at(now)), now)

    # --- writing -----------------------------------------------------------------------------------------------------

    def writes(self, side: int, now: int) -> list[tuple[str, int]]:
        """Return the open writes: candidate, number of the request; without those that are obsolete."""

        def ask() -> list[tuple[str, int]]:
            found = []
            for name, state in sorted(self.sides[side].items()):
                for effect in state.effects.values():
                    try:
                        request = render.target_render(state, effect.decision, self.bodies, self.policy, at(now))
                    except Obsolete:
                        continue
                    found.append((name, self.requests.put(request, repr(request))))
            return found

        return self.memo(("writes", side, now), ask)

    def makes_pod(self, request: int) -> bool:
        """Whether a request creates a Pod."""
        asked = self.requests[request]
        return asked.verb == "create" and not asked.subresource

    def _carried_out(self, state: TargetState, decision: Any, objects: Store, now: int) -> Store:
        try:
            request = render.target_render(state, decision, self.bodies, self.policy, at(now))
            return self.api.execute(objects, request)
        except (Refused, Obsolete):
            return objects

    def execute(self, store: int, request: int) -> int | None:
        """Return the store after one of our requests, None if it was refused."""

        def run() -> int | None:
            try:
                return self.put_store(self.api.execute(self.stores[store], self.requests[request]))
            except Refused:
                return None

        return self.memo(("execute", store, request), run)

    # --- the scheduler -----------------------------------------------------------------------------------------------

    def said(self, side: int, name: str, what: str, now: int) -> int | None:
        """Return the side after the scheduler said something about a candidate; None if it may not be said."""
        return self.memo(("said", side, name, what, now), lambda: self._said(side, name, what, now))

    def _said(self, side: int, name: str, what: str, now: int) -> int | None:
        states = self.sides[side]
        state, event = states[name], None
        if what == "reserve":
            if self.t not in self.config.preempt or calls.may_preempt(state, self.policy, at(now)):
                event = calls.reserved(state, self.policy, f"node-{self.t}", 10, at(now))
                if event is not None:  # it never ends by itself here: that is all that its end says
                    event = msgspec.structs.replace(event, expires=at(0) + FAR)
        elif what == "full":
            preemptable = self.t in self.config.preempt
            event = calls.not_schedulable(state, self.policy, "no room", at(now), preemptable=preemptable)
        elif what == "give up":
            number = state.held.number if state.held is not None else 0
            event = calls.unreserved(state, number, TargetReason.NODE_GONE)
        elif what == "bind":
            event = calls.bind_order(state, self.policy, at(now))
        if event is None:
            return None
        after = self.decided(self.fold(state, event, at(now)), now)
        return self.sides.put({**states, name: after})

    def used(self, side: int) -> int:
        """Return how many places of this target's nodes are taken for this source."""
        return self.memo(("used", side), lambda: sum(1 for state in self.sides[side].values() if state.node))

    def could_bind(self, side: int, now: int) -> frozenset[str]:
        """Return the candidates that this target may still bind by itself, now or with a request that is on its way."""

        def ask() -> frozenset[str]:
            found = set()
            for name, state in self.sides[side].items():
                ordered = calls.bind_order(state, self.policy, at(now)) is not None
                opened = any(
                    isinstance(e.decision, events.BindStarted) and at(now) < e.decision.before
                    for e in state.effects.values()
                )
                if ordered or opened:
                    found.add(name)
            return frozenset(found)

        return self.memo(("could", side, now), ask)
