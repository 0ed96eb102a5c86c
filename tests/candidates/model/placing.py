"""A source's steps, without those that only show: what decides where a pod runs, told by less, so that more of it can
be explored.

In: the states and decisions of `source_steps`. Out: the same, with three things forgotten; each adds behaviour or
changes none.

- *What the source pod shows.* The decisions about it are the last of a pass, nothing else reads them while no container
  ends, and whoever writes to the pod writes nothing else. S6 and S11, which are about it, are left to the explorations
  that have it.
- *What was last seen of a candidate that has to go.* Its deletion is open, and nobody reads more of it than that it is
  there and may run. The deletion names no version here: it comes sooner than the real one, which is refused until the
  newest is seen.
- *When a write was decided, and why.* Nobody reads it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.candidate import Candidate
from controlplane.controllers.candidates.source.events import (
    CandidateDropped,
    DelegateHinted,
    PermitGranted,
    PermitRevoked,
    StatusShown,
)
from controlplane.controllers.candidates.source.observations import CandidateSeen, CandidateWaiting
from controlplane.controllers.candidates.source.state import SourceState, dropping
from controlplane.kube.kinds import Request
from controlplane.runtime.writes import Effect
from tests.candidates.model.api import Store
from tests.candidates.model.source_steps import SourceSteps
from tests.candidates.model.world import at

_replace = msgspec.structs.replace


class PlacingSteps(SourceSteps):
    """The steps of a source that places its pod and shows nothing on it."""

    def wanted(self, decisions: list[Any]) -> list[Any]:
        return [decision for decision in decisions if not isinstance(decision, (StatusShown, DelegateHinted))]

    def kept(self, state: SourceState) -> SourceState:
        return kept(super().kept(state))

    def after_sight(self, state: SourceState, now: int, links: int) -> SourceState:
        """Nothing: whoever leads may have seen more before it decides."""
        return state

    def observed(self, state: SourceState, store: Store, view: int, now: int) -> SourceState:
        after = super().observed(state, store, view, now)
        for name, known in state.candidates.items():
            seen = after.candidates[name].seen if name in after.candidates else None
            if known.seen is not None and not known.seen.resource_version and seen is not None:
                # Its deletion would be decided again at once, whatever is decided about others.
                drop = _drop(known, seen, name)
                after = _replace(after, effects={**after.effects, drop.target: Effect(0, drop, at(0))})
        return after


def kept(state: SourceState) -> SourceState:
    """Return a state without what is forgotten here; one whose writes to its pod are left out stays that way."""
    effects = {key: _told(effect) for key, effect in state.effects.items() if not _shows(effect)}
    candidates = dict(state.candidates)
    for name, known in state.candidates.items():
        if _goes(state, name, known) and known.seen is not None:
            candidates[name] = _going(known, known.seen)
            effects[f"{known.cluster}/{name}"] = Effect(0, _drop(known, known.seen, name), at(0))
    pod = None if state.pod is None else _replace(state.pod, resource_version="", conditions=[], hints={})
    return _replace(state, effects=effects, candidates=candidates, shown=None, pod=pod, hinted="", hinted_to="")


def _shows(effect: Effect[Any]) -> bool:
    return isinstance(effect.decision, (StatusShown, DelegateHinted))


def _told(effect: Effect[Any]) -> Effect[Any]:
    """Return an open write without when it was decided, and why."""
    decision = effect.decision
    if isinstance(decision, PermitGranted):
        decision = _replace(decision, among={}, reason=CandidateReason.PERMIT_OPEN)
    elif isinstance(decision, PermitRevoked):
        decision = _replace(decision, reason=CandidateReason.LEASE_ENDED)
    elif isinstance(decision, CandidateDropped):
        decision = _replace(decision, reason=CandidateReason.OLD_EPOCH)
    return Effect(0, decision, at(0))


def _goes(state: SourceState, name: str, known: Candidate) -> bool:
    """Whether a candidate has to go, whatever else comes: its deletion is under way, and it is no part of a choice any
    more.
    """
    if not dropping(state, name) or name == state.delegate:
        return False
    if state.permit is not None and state.permit.candidate == name:
        return False
    of_epoch = (known.uid, known.epoch) == (state.uid, state.epoch) and state.electing
    return not of_epoch or bool(state.delegate)


def _going(known: Candidate, seen: CandidateSeen) -> Candidate:
    bare = CandidateWaiting(
        namespace=seen.namespace, name=seen.name, uid=seen.uid, resource_version="", origin=seen.origin
    )
    return _replace(
        known, seen=bare, may_run=known.may_run and not known.excused, ready_since=None, waits_since=None, bound=""
    )


def _drop(known: Candidate, seen: CandidateSeen, name: str) -> CandidateDropped:
    return CandidateDropped(cluster=known.cluster, candidate=name, uid=seen.uid, reason=CandidateReason.OLD_EPOCH)


def without_version(request: Request) -> Request:
    """Return a request as it is here: a deletion names no version."""
    return dataclasses.replace(request, resource_version="") if request.verb == "delete" else request
