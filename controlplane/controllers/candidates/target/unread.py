"""Keeps which Candidates, Pods and CandidateSources of a target are there and could not be read.

In: refusals, observations and ends, in the log's order. Out: what of a candidate, or of a namespace's invitations,
nobody can read. Pure, and made anew by every replay. Of what was read before it is known what it was; what was never
read may be a delegate that runs, after the log was lost or put back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATES, PODS
from controlplane.controllers.candidates.target import events
from controlplane.log.event import Recorded

_ENDS = (
    events.CandidateObserved,
    events.UnreadCandidateDeleted,
    events.CandidateVanished,
    events.CandidatePodObserved,
    events.CandidatePodGone,
    events.InvitationObserved,
    events.InvitationGone,
)


class UnreadCandidateObjects:
    """The refusals that still hold, by UID, and by where their objects are."""

    def __init__(self) -> None:
        self._refusals: dict[str, events.TargetObservationRefused] = {}
        self._at: dict[tuple[str, str, str], dict[str, events.TargetObservationRefused]] = {}

    def fold(self, recorded: Recorded) -> events.TargetObservationRefused | None:
        """Take one more event; return the refusal that began or ended."""
        event = recorded.event
        if not isinstance(event, (events.TargetObservationRefused, *_ENDS)):
            return None
        ended = self._refusals.pop(event.uid, None)
        if ended is not None:
            at = self._at[_place(ended)]
            del at[event.uid]
            if not at:
                del self._at[_place(ended)]
        if not isinstance(event, events.TargetObservationRefused):
            return ended
        self._refusals[event.uid] = event
        self._at.setdefault(_place(event), {})[event.uid] = event
        return event

    def seen(self, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what of a kind is there, unread: UID to (namespace, name, resourceVersion)."""
        return {
            uid: (one.namespace, one.name, one.resource_version)
            for uid, one in self._refusals.items()
            if one.kind == kind
        }

    def candidate(self, namespace: str, name: str) -> events.TargetObservationRefused | None:
        """Return the refusal of the Candidate of this name, None if none holds."""
        return next(iter(self._of(CANDIDATES.name, namespace, name)), None)

    def pod(self, namespace: str, name: str) -> events.TargetObservationRefused | None:
        """Return the refusal of the Pod of this name, None if none holds."""
        return next(iter(self._of(PODS.name, namespace, name)), None)

    def invitations(self, namespace: str) -> Sequence[events.TargetObservationRefused]:
        """Return the refusals of CandidateSources of a namespace."""
        return sorted(self._of(CANDIDATE_SOURCES.name, namespace, ""), key=lambda one: one.name)

    def _of(self, kind: str, namespace: str, name: str) -> Iterable[events.TargetObservationRefused]:
        return self._at.get((kind, namespace, name), {}).values()


def _place(refusal: events.TargetObservationRefused) -> tuple[str, str, str]:
    """Return by what a refusal is asked for: an invitation by its namespace alone."""
    return refusal.kind, refusal.namespace, "" if refusal.kind == CANDIDATE_SOURCES.name else refusal.name
