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


_Refusals = dict[tuple[str, str], CandidateObservationRefused]


class UnreadCandidates:
    """The refusals that still hold, by cluster and UID, each with its stream, and by whom they may concern."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[str, str], tuple[CandidateObservationRefused, str]] = {}
        self._of: dict[tuple[str, str, str], _Refusals] = {}
        self._targets: dict[tuple[str, str], str] = {}

    def fold(self, recorded: Recorded) -> CandidateObservationRefused | None:
        """Take one more event; return the refusal that began or ended."""
        event, cluster = recorded.event, recorded.cluster
        if isinstance(event, CandidateObservationRefused):
            if event.kind not in (_AT_HOME if cluster == MANAGEMENT else (CANDIDATES.name,)):
                return None
            key = cluster, event.uid
            self._end(key)
            self._refusals[key] = event, recorded.stream
            self._of.setdefault(whom(event), {})[key] = event
            if event.kind == CANDIDATE_TARGETS.name:
                self._targets[key] = event.namespace
            return event
        return self._end((cluster, event.uid)) if isinstance(event, _ENDS) else None

    def _end(self, key: tuple[str, str]) -> CandidateObservationRefused | None:
        if key not in self._refusals:
            return None
        ended, _ = self._refusals.pop(key)
        self._targets.pop(key, None)
        concerned = self._of[whom(ended)]
        del concerned[key]
        if not concerned:
            del self._of[whom(ended)]
        return ended

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
        return next(iter(self._of.get((namespace, PODS.kind, name), {}).values()), None)

    def targets(self) -> set[str]:
        """Return the namespaces with a CandidateTarget that cannot be read: which clusters they may use is not all
        known."""
        return {*self._targets.values()}

    def candidates(self, state: SourceState) -> dict[str, CandidateObservationRefused]:
        """Return the Candidates that may be of source pods of a name, one of each target; but those that were read
        before."""
        if not self._of:
            return {}
        read = {known.seen.uid for known in state.candidates.values() if known.seen is not None}
        words = ((_OF_POD, state.name), (_OF_STEM, stem_of(state.name)))
        found = (self._of.get((state.namespace, *word), {}) for word in words)
        return {cluster: one for some in found for (cluster, uid), one in some.items() if uid not in read}


_OF_POD, _OF_STEM = "Candidate", "Candidates"


def whom(refusal: CandidateObservationRefused) -> tuple[str, str, str]:
    """Return the namespace, and by which word and name, of the pods that an object may concern: the source pod itself,
    a Candidate by what it says of that, else by its own name, or a target that all of them may use."""
    if refusal.kind == PODS.name:
        return refusal.namespace, PODS.kind, refusal.name
    if refusal.kind == CANDIDATE_TARGETS.name:
        return refusal.namespace, CANDIDATE_TARGETS.kind, ""
    if refusal.pod:
        return refusal.namespace, _OF_POD, refusal.pod
    return refusal.namespace, _OF_STEM, refusal.name.rpartition("-")[0]


def concerns(refusal: CandidateObservationRefused, namespace: str, name: str) -> bool:
    """Whether an object is the source pod of a name, or may be a Candidate of it, or a target that it may use."""
    where, word, of = whom(refusal)
    return where == namespace and of in {CANDIDATE_TARGETS.kind: ("",), _OF_STEM: (stem_of(name),)}.get(word, (name,))
