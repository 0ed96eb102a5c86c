"""Keeps which Candidates, Pods and CandidateSources of a target are there and could not be read.

In: refusals, observations and ends, in the log's order. Out: what of a candidate, or of a namespace's invitations,
nobody can read. Pure, and made anew by every replay. Of what was read before it is known what it was; what was never
read may be a delegate that runs, after the log was lost or put back."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATES, PODS
from controlplane.controllers.candidates.target import events
from controlplane.log.event import Recorded

_ENDS = (
    events.CandidateObserved,
    events.CandidateVanished,
    events.CandidatePodObserved,
    events.CandidatePodGone,
    events.InvitationObserved,
    events.InvitationGone,
)


class UnreadCandidateObjects:
    """The refusals that still hold, by UID."""

    def __init__(self) -> None:
        self._refusals: dict[str, events.TargetObservationRefused] = {}

    def fold(self, recorded: Recorded) -> events.TargetObservationRefused | None:
        """Take one more event; return the refusal that began or ended."""
        event = recorded.event
        if isinstance(event, events.TargetObservationRefused):
            self._refusals[event.uid] = event
            return event
        return self._refusals.pop(event.uid, None) if isinstance(event, _ENDS) else None

    def seen(self, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what of a kind is there, unread: UID to (namespace, name, resourceVersion)."""
        return {
            uid: (one.namespace, one.name, one.resource_version)
            for uid, one in self._refusals.items()
            if one.kind == kind
        }

    def candidate(self, namespace: str, name: str) -> events.TargetObservationRefused | None:
        """Return the refusal of the Candidate of this name, None if none holds."""
        return self._named(CANDIDATES.name, namespace, name)

    def pod(self, namespace: str, name: str) -> events.TargetObservationRefused | None:
        """Return the refusal of the Pod of this name, None if none holds."""
        return self._named(PODS.name, namespace, name)

    def invitations(self, namespace: str) -> Sequence[events.TargetObservationRefused]:
        """Return the refusals of CandidateSources of a namespace."""
        sources = (one for one in self._refusals.values() if one.kind == CANDIDATE_SOURCES.name)
        return sorted((one for one in sources if one.namespace == namespace), key=lambda one: one.name)

    def _named(self, kind: str, namespace: str, name: str) -> events.TargetObservationRefused | None:
        found = (one for one in self._refusals.values() if one.kind == kind)
        return next((one for one in found if (one.namespace, one.name) == (namespace, name)), None)
