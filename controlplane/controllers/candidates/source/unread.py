"""Keeps which source pods and Candidates are there and could not be read: what they are is unknown, and they are not
gone.

In: refusals, observations and ends, in the log's order. Out: the source pod of a name that nobody can read, and the
Candidates that may be a pod's. Pure, and made anew by every replay. Of what was read before it is known what it was,
and nothing is held up; what was never read may be a delegate that runs, after the log was lost or put back."""

from __future__ import annotations

from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS, CANDIDATES, PODS, stem_of
from controlplane.controllers.candidates.source.observations import (
    CandidateGone,
    CandidateObservationRefused,
    CandidateSeen,
    SourceDeleted,
    SourcePodObserved,
)
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.controllers.candidates.source.targets import CandidateTargetGone, CandidateTargetObserved
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.log.event import Recorded

_AT_HOME = (PODS.name, CANDIDATE_TARGETS.name)
_ENDS = (
    SourcePodObserved,
    SourceDeleted,
    CandidateSeen,
    CandidateGone,
    CandidateTargetObserved,
    CandidateTargetGone,
)


class UnreadCandidates:
    """The refusals that still hold, by cluster and UID, each with its stream."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[str, str], tuple[CandidateObservationRefused, str]] = {}

    def fold(self, recorded: Recorded) -> CandidateObservationRefused | None:
        """Take one more event; return the refusal that began or ended."""
        event, cluster = recorded.event, recorded.cluster
        if isinstance(event, CandidateObservationRefused):
            if event.kind not in (_AT_HOME if cluster == MANAGEMENT else (CANDIDATES.name,)):
                return None
            self._refusals[cluster, event.uid] = event, recorded.stream
            return event
        if not isinstance(event, _ENDS):
            return None
        ended = self._refusals.pop((cluster, event.uid), None)
        return ended[0] if ended is not None else None

    def stream_of(self, cluster: str, uid: str) -> str:
        """Return the stream of the refusal of an object that still holds, "" if none does."""
        return self._refusals[cluster, uid][1] if (cluster, uid) in self._refusals else ""

    def seen(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what of a kind is there on a cluster, unread: UID to (namespace, name, resourceVersion)."""
        return {
            uid: (one.namespace, one.name, one.resource_version)
            for (where, uid), (one, _) in self._refusals.items()
            if where == cluster and one.kind == kind
        }

    def pod(self, namespace: str, name: str) -> CandidateObservationRefused | None:
        """Return the refusal of the source pod of this name, None if it can be read, or is not there."""
        pods = (one for (where, _), (one, _) in self._refusals.items() if where == MANAGEMENT and one.kind == PODS.name)
        return next((one for one in pods if (one.namespace, one.name) == (namespace, name)), None)

    def targets(self) -> set[str]:
        """Return the namespaces with a CandidateTarget that cannot be read: which clusters they may use is not all
        known."""
        return {one.namespace for one, _ in self._refusals.values() if one.kind == CANDIDATE_TARGETS.name}

    def candidates(self, state: SourceState) -> dict[str, CandidateObservationRefused]:
        """Return the Candidates that may be of source pods of a name, one of each target; but those that were read
        before."""
        if not self._refusals:
            return {}
        read = {known.seen.uid for known in state.candidates.values() if known.seen is not None}
        return {
            cluster: one
            for (cluster, uid), (one, _) in self._refusals.items()
            if cluster != MANAGEMENT
            and uid not in read
            and one.namespace == state.namespace
            and may_be_of(one, state.name)
        }


def concerns(refusal: CandidateObservationRefused, namespace: str, name: str) -> bool:
    """Whether an object is the source pod of a name, or may be a Candidate of it, or a target that it may use."""
    if refusal.namespace != namespace or refusal.kind == CANDIDATE_TARGETS.name:
        return refusal.namespace == namespace
    return refusal.name == name if refusal.kind == PODS.name else may_be_of(refusal, name)


def may_be_of(refusal: CandidateObservationRefused, name: str) -> bool:
    """Whether a Candidate may be one of a source pod's: by what it says of that, else by its own name."""
    if refusal.pod:
        return refusal.pod == name
    return refusal.name.rpartition("-")[0] == stem_of(name)
