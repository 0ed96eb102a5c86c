"""What the source side can do in one step, computed once for each distinct question: look, decide to the end, carry out
a write.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from controlplane.controllers.candidates.source import decide as decisions
from controlplane.controllers.candidates.source import observe, render
from controlplane.controllers.candidates.source import state as folds
from controlplane.controllers.candidates.source.events import EVENTS, PermitGranted, StatusShown
from controlplane.controllers.candidates.source.observations import CandidateGone, SourceDeleted
from controlplane.controllers.candidates.source.state import SourceState, source_stream
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import Json, Request, meta
from controlplane.log.codec import Codec
from controlplane.log.event import Event, Recorded
from tests.candidates.model.api import Api, Refused, Store
from tests.candidates.model.intern import Interner
from tests.candidates.model.world import AN_AGE, NAMESPACE, Config, Violation, at

STREAM = source_stream(NAMESPACE, "web")
_MOST_PASSES = 12


class SourceSteps:
    """The steps of source `s`."""

    def __init__(self, config: Config, s: int, api: Api, bodies: dict[str, bytes]) -> None:
        self.config, self.s, self.api, self.bodies = config, s, api, bodies
        self.policy = config.policy(s)
        # What can be seen at once, by number: one candidate, or with "" all those of a target.
        self.views = [(config.target(t), "") for t in range(config.targets)]
        self.states: Interner[SourceState] = Interner()
        self.requests: Interner[Request] = Interner()
        self.codec = Codec(EVENTS)
        self._memo: dict[Any, Any] = {}
        self._contexts: dict[int, Any] = {}

    def first(self) -> int:
        return self._put(folds.SourceState.initial(STREAM))

    # --- folding -----------------------------------------------------------------------------------------------------

    def fold(self, state: SourceState, event: Event, cluster: str, now: datetime) -> SourceState:
        """Fold one event as it comes back from the log."""
        stored = self.codec.decode(*self.codec.encode(event))
        recorded = Recorded(position=0, stream=STREAM, version=0, event=stored, cluster=cluster, recorded_at=now)
        after = folds.fold(state, recorded)
        _check_event(state, event, after, self.config)
        return after

    def decided(self, state: SourceState, now: int, links: int) -> SourceState:
        """Decide until nothing follows any more, as the loop does after each fold."""
        context = self._contexts.get(links)
        if context is None:
            context = self._contexts[links] = self.config.context(self.s, links)
        for _ in range(_MOST_PASSES):
            found = self.wanted(decisions.decide(state, context, at(now)).decisions)
            if not found:
                return state
            for event in found:
                state = self.fold(state, event, getattr(event, "cluster", "") or MANAGEMENT, at(now))
        raise Violation("quiet", f"the source goes on deciding: {[type(e).__name__ for e in found]}")

    def wanted(self, decisions: list[Any]) -> list[Any]:
        """Return the decisions that are carried out here: all."""
        return decisions

    def kept(self, state: SourceState) -> SourceState:
        """Return what is told of a state from any other: all, but since when an answer is owed where it is waited for
        without end.
        """
        return state if self.config.answer else unhurried(state)

    def _put(self, state: SourceState) -> int:
        return self.states.put(self.kept(state))

    def wake_of(self, src: int, now: int, links: int) -> int | None:
        """Return when the source wants to look again, in seconds of the model; None if it does not, or only after
        `AN_AGE`.
        """
        key = ("wake", src, now, links)
        if key not in self._memo:
            plan = decisions.decide(self.states[src], self.config.context(self.s, links), at(now))
            wake = None if plan.wake is None else int((plan.wake - at(0)).total_seconds())
            self._memo[key] = wake if wake is not None and wake < AN_AGE else None
        return self._memo[key]

    # --- looking -----------------------------------------------------------------------------------------------------

    def look_pod(self, src: int, pod: Json | None, pod_number: int, now: int, links: int) -> int:
        """Take notice of the source pod as it is."""
        key = ("pod", src, pod_number, now, links)
        if key not in self._memo:
            self._memo[key] = self._look_pod(src, pod, now, links)
        return self._memo[key]

    def _look_pod(self, src: int, pod: Json | None, now: int, links: int) -> int:
        state = self.states[src]
        known = state.pod
        if pod is None:
            if known is None:
                return src
            gone = SourceDeleted(namespace=known.namespace, name=known.name, uid=known.uid)
            state = self.fold(state, gone, MANAGEMENT, at(now))
        else:
            shown = self.api.shown(pod)
            if known is not None and known.resource_version == meta(shown)["resourceVersion"]:
                return src
            _, event, bodies = observe.source_pod(shown)
            self.bodies.update({body.ref: body.text.encode() for body in bodies})
            state = self.fold(state, event, MANAGEMENT, at(now))
        return self._put(self.decided(state, now, links))

    def see(self, src: int, store: Store, store_number: int, view: int, now: int, links: int) -> int:
        """Take notice of our candidates as a target's API server shows them; `view`: which of them (`views`)."""
        key = ("see", src, store_number, view, now, links)
        if key not in self._memo:
            state = self.states[src]
            after = self.observed(state, store, view, now)
            self._memo[key] = src if after is state else self._put(self.after_sight(after, now, links))
        return self._memo[key]

    def after_sight(self, state: SourceState, now: int, links: int) -> SourceState:
        """Return what follows at once from a sight: here, all that is decided on it."""
        return self.decided(state, now, links)

    def observed(self, state: SourceState, store: Store, view: int, now: int) -> SourceState:
        """Fold what a view shows of our candidates."""
        cluster, only = self.views[view]
        known = {
            name: c.seen
            for name, c in state.candidates.items()
            if c.cluster == cluster and c.seen is not None and only in ("", name)
        }
        for name, obj in sorted(store["candidates"].items()):
            shown = self.api.shown(obj)
            before = known.pop(name, None)
            if before is not None and before.resource_version == meta(shown)["resourceVersion"]:
                continue
            if before is not None and before.uid != meta(obj)["uid"]:
                gone = CandidateGone(namespace=NAMESPACE, name=name, uid=before.uid)
                state = self.fold(state, gone, cluster, at(now))
            stream, event, bodies = observe.candidate(shown)
            if stream != STREAM:
                raise Violation("S9", f"candidate {name} was recorded on {stream}")
            self.bodies.update({body.ref: body.text.encode() for body in bodies})
            state = self.fold(state, event, cluster, at(now))
        for name, before in known.items():
            gone = CandidateGone(namespace=NAMESPACE, name=name, uid=before.uid)
            state = self.fold(state, gone, cluster, at(now))
        return state

    def wake(self, src: int, now: int, links: int) -> int:
        """Decide again, since time has passed or a target is back."""
        key = ("decide", src, now, links)
        if key not in self._memo:
            state = self.states[src]
            after = self.decided(state, now, links)
            self._memo[key] = src if after is state else self._put(after)
        return self._memo[key]

    # --- writing -----------------------------------------------------------------------------------------------------

    def writes(self, src: int, now: int) -> list[tuple[str, str, int]]:
        """Return the open writes: target key, cluster, number of the request; without those that are obsolete."""
        key = ("writes", src, now)
        if key not in self._memo:
            found = []
            state = self.states[src]
            for target, effect in sorted(state.effects.items()):
                try:
                    request = render.render(state, effect.decision, self.bodies, self.policy, at(now))
                except render.Obsolete:
                    continue
                found.append((target, effect.decision.cluster, self.requests.put(request, repr(request))))
            self._memo[key] = found
        return self._memo[key]

    def execute(self, store: Store, request: int) -> Store | None:
        """Return the store after one of our requests, None if it was refused."""
        try:
            return self.api.execute(store, self.requests[request])
        except Refused:
            return None


def unhurried(state: SourceState) -> SourceState:
    """Return a state without since when its targets owe an answer."""
    replace = msgspec.structs.replace
    candidates = {name: replace(known, waits_since=None) for name, known in state.candidates.items()}
    return replace(state, candidates=candidates)


def _check_event(before: SourceState, event: Event, after: SourceState, config: Config) -> None:
    """Hold a decision against the rules that it alone can break."""
    if isinstance(event, PermitGranted):
        _check_permit(before, event)
    elif isinstance(event, StatusShown) and event.status and not event.failed:
        if event.source != before.delegate:
            raise Violation("S11", f"the status of {event.source} is shown, the delegate is {before.delegate!r}")
        shown = before.shown
        if shown is not None and shown.source == event.source and shown.sequence > event.sequence:
            raise Violation("S11", f"status {event.sequence} is shown after {shown.sequence}")


def _check_permit(before: SourceState, event: PermitGranted) -> None:
    permit = before.permit
    if before.delegate:
        raise Violation("S5", f"{event.candidate} is permitted although {before.delegate} is bound")
    if event.epoch != before.epoch or not before.electing:
        raise Violation("S5", f"a permit in epoch {event.epoch}, which is closed")
    known = before.candidates.get(event.candidate)
    if known is None or (known.uid, known.epoch) != (before.uid, before.epoch):
        raise Violation("S5", f"{event.candidate} is not of the epoch under way")
    if permit is None:
        if event.number <= before.permits:
            raise Violation("S4", f"permit {event.number} was given before")
        return
    same = (permit.number, permit.candidate, permit.reservation, permit.until, permit.kind)
    if same != (event.number, event.candidate, event.reservation, event.until, event.kind):
        rule = "S4" if permit.number == event.number else "S1"
        raise Violation(rule, f"permit {event.number} to {event.candidate} while {permit.number} is open")
