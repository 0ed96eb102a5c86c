"""The words of gangs of candidate pods: what each event of a group says, and why its decisions were taken.

In: an event of `controlplane.controllers.candidates.source.gang_events`. Out: as `pod_words`, of which these are a
part. And of a reader, a pod's gang."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import gang_events as gangs
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, Sentence, listed, told


def _group(event: gangs.SourceGroupObserved) -> str:
    return (
        f"PodGroup cannot be used: {event.problem}"
        if event.problem
        else f"PodGroup starts with {event.min_member} pods"
    )


def _permitted(event: gangs.GangPermitted) -> str:
    may = "bind" if event.kind == "Bind" else "make room"
    return (
        f"gang may {may} in {event.cluster}, nowhere else (permission {event.number}):"
        f" {listed(event.members) or 'nobody yet'}"
    )


def _released(event: gangs.GangReleased) -> str:
    rests = f", and rests until {event.until:%H:%M:%S}" if event.until is not None else ""
    return f"gang is not in {event.cluster} any more{' and failed there' if event.failed else ''}{rests}"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        gangs.SourceGroupObserved: _group,
        gangs.SourceGroupGone: "PodGroup is gone",
        gangs.GangPermitted: _permitted,
        gangs.GangFormed: "a quorum of the gang is bound in {e.cluster}",
        gangs.GangWithdrawn: "permits of the whole gang are to be taken back from {e.cluster}: {e.message}",
        gangs.GangKept: "gang stays in {e.cluster}: one of it is bound there",
        gangs.GangDissolved: "gang is to be taken back from {e.cluster} as a whole: {e.message}",
        gangs.GangReleased: _released,
        gangs.GangRested: "gang rests until {e.until:%H:%M:%S}: {e.message}",
        gangs.GangWaits: "gang waits: {e.message}",
    }
)

R = CandidateReason
REASONS: Mapping[CandidateReason, Sentence] = {
    R.GROUP_MISSING: Sentence("the PodGroup that the pod names is not there, or cannot be used", "{message}"),
    R.TOO_FEW_MEMBERS: Sentence("fewer pods of its PodGroup are there than have to start together", "{message}"),
    R.GANG_RESTS: Sentence("its PodGroup could not be placed as a whole, and rests before it tries again", "{message}"),
    R.GANG_TARGETS_DIFFER: Sentence("the pods of its PodGroup ask for targets that have none in common", "{message}"),
    R.GANG_NEVER_SPREADS: Sentence("the pod of a PodGroup asks to be spread over clusters", "{message}"),
    R.AWAITS_GANG: Sentence(
        "the pod goes where all of its PodGroup go", "it goes where all of its PodGroup go: {message}"
    ),
    R.GANG_FOLLOWS: Sentence("the gang is in this target", "the others of its PodGroup are in {cluster}"),
    R.GANG_FOUND: Sentence("members were there before the gang was placed", "members of it were in {cluster} already"),
    R.GANG_FORMED: Sentence("a quorum is bound", "a quorum is bound in {cluster}"),
    R.GANG_INCOMPLETE: Sentence(
        "too few of the gang have, or may get, a place together", "too few of its PodGroup have a place together"
    ),
    R.GANG_BOUND_MEANWHILE: Sentence(
        "a member was bound before the withdrawal was read",
        "a member was bound in {cluster} before it read the withdrawal",
    ),
    R.GANG_DISSOLVED: Sentence(
        "a part of the gang ran alone for longer than candidates.gangTimeout",
        "a part of its PodGroup ran alone for longer than candidates.gangTimeout",
    ),
    R.GANG_ENDED: Sentence("nobody of the gang runs any more", "nobody of it runs in {cluster} any more"),
    R.GANG_YIELDS: Sentence(
        "a gang that comes before it holds places in the same targets, and neither has enough",
        "a gang that comes before it holds places in the same targets, and neither has enough",
    ),
    R.GANG_FITS_NOWHERE: Sentence("no target has room for all of the gang", "no target has room for all of it"),
}
