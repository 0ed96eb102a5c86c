"""What the source side records of a gang: the PodGroup as it was seen, and what was decided about its pods as a whole.

Stream `sourcegroup/NS/NAME`. A gang never spans clusters, so where it may be is one decision,
taken here; each member's own permit and its end are on the member's stream. `GangPermitted` is appended together with
the permits of all the members that it names: the log has them all or none."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.candidates.source.events import CandidateDecision, PermitKind
from controlplane.controllers.candidates.source.observations import SourceObjectGone, SourceObservation
from controlplane.log.event import Event

GROUP = "sourcegroup"


class SourceGroupObserved(SourceObservation):
    """A PodGroup of the source cluster. `problem`: why it cannot be used, by field; its pods wait as if it were not
    there.
    """

    min_member: int = 1
    created: datetime | None = None
    problem: str = ""


class SourceGroupGone(SourceObjectGone):
    """A PodGroup is not there any more. What was permitted stays permitted."""


class GangPermitted(CandidateDecision):
    """The one target of a gang: these members may bind there (or make room there, `Preempt`), and nobody anywhere else.

    `least` is the quorum that it is about; `among`: the score of each target that had room for all of it, which is that
    of its worst place, since a gang goes as fast as its slowest member. `pause`: for how long no other target is asked
    to make room."""

    cluster: str
    number: int
    kind: PermitKind
    least: int
    members: list[str]
    among: dict[str, int] = {}
    until: datetime | None = None


class GangFormed(CandidateDecision):
    """A quorum is bound. From now on members follow one by one, and one that is replaced needs no new quorum."""

    cluster: str
    number: int


class GangWithdrawn(CandidateDecision):
    """Take the permits of all members back: too few are left before any was bound. Nobody gets another before each has
    ended.
    """

    cluster: str
    number: int
    message: str = ""


class GangKept(CandidateDecision):
    """A member was bound before its withdrawal was read: the others follow it after all."""

    cluster: str
    number: int


class GangDissolved(CandidateDecision):
    """Some are bound, and for too long the others found no place beside them: they are taken back too."""

    cluster: str
    number: int
    message: str = ""


class GangReleased(CandidateDecision):
    """Nobody of the gang is permitted or runs there any more. `failed`: the target comes after others; `until`: the
    gang rests.
    """

    cluster: str
    number: int
    failed: bool = False
    until: datetime | None = None


class GangRested(CandidateDecision):
    """Some members hold places and no cluster has room for all: they give them back and try again later."""

    until: datetime
    message: str = ""


class GangWaits(CandidateDecision):
    """Why no target has the gang yet, as its pods show it."""

    message: str


GANG_EVENTS: tuple[type[Event], ...] = (
    SourceGroupObserved,
    SourceGroupGone,
    GangPermitted,
    GangFormed,
    GangWithdrawn,
    GangKept,
    GangDissolved,
    GangReleased,
    GangRested,
    GangWaits,
)
