"""Says of which changes of one member nothing can follow for its gang, so that the gang is not looked at as a whole.

A gang of thousands has as many events each time that it is offered, reserved, bound or shown, and a look at all of it
after each of them would make that quadratic. In: the group, what its last look found (`Outlook`), how many members
stand how (`GangCounts`), and the member before and after. Out: yes or no. A wrong yes would leave a gang waiting, so
whatever is not known to be harmless is a no. Pure but for the outlook, which is used up."""

from __future__ import annotations

import msgspec

from controlplane.controllers.candidates.source import observations as seen
from controlplane.controllers.candidates.source.candidate import Candidate
from controlplane.controllers.candidates.source.events import TO_POD
from controlplane.controllers.candidates.source.gang_counts import NO_NODE, GangCounts, MemberStanding
from controlplane.controllers.candidates.source.state import SourceState

_replace = msgspec.structs.replace
_NO_ANSWER = (type(None), seen.CandidateWaiting)


class Outlook:
    """What the last look at a gang found that is permitted nowhere: `slack` has the targets that may still have room
    for a quorum, each with how many members may be refused there until it cannot; `holds`: some members hold a node."""

    def __init__(self, slack: dict[str, int], *, holds: bool) -> None:
        self.slack, self.holds = slack, holds


def spares_placed(
    cluster: str, least: int, counts: GangCounts, before: MemberStanding, after: MemberStanding, *, formed: bool
) -> bool:
    """Whether nothing follows for a gang that stands in a target: what a member is offered elsewhere, and that one more
    is bound while others run and it is not yet a quorum, or was one."""
    if before.asks != after.asks:
        return False
    if _in_place(before) == _in_place(after):
        return counts.running + counts.permitted > 0
    others = counts.running - (after.stage == "Assigned")
    if formed:
        return others > 0
    bound = (before.stage, before.binds, before.revoking) == ("Pending", cluster, False)
    bound = bound and (after.stage, after.place, after.binds) == ("Assigned", cluster, "")
    return bound and others > 0 and counts.placed(cluster) < least


def _in_place(one: MemberStanding) -> MemberStanding:
    return one._replace(holds=frozenset(), full=frozenset())


def spares_short(least: int, counts: GangCounts, before: MemberStanding | None, after: MemberStanding) -> bool:
    """Whether a gang had too few members before and has too few now, so that all of them wait."""
    asks = before.asks if before is not None else frozenset()
    was = before is not None and before.stage not in (None, "Failed")
    now = after.stage not in (None, "Failed")
    return asks == after.asks and counts.present < least and counts.present - now + was < least


def spares_free(
    least: int, says: bool, outlook: Outlook, counts: GangCounts, before: SourceState, after: SourceState
) -> bool:
    """Whether nothing follows for a gang that is permitted nowhere, and that waits for answers (or `says` that nobody
    has room), from what one target said of one member, or from what concerns the member alone."""
    if counts.running or counts.permitted or _apart(before) != _apart(after):
        return False
    if not outlook.slack and (not says or counts.could_make_room(least)):
        return False
    changed = _changed(before, after)
    if len(changed) != 1:
        return not changed
    was, now = changed[0]
    if was is None or now is None or (now.uid, now.epoch) != (after.uid, after.epoch) or not _only_said(was, now):
        return False
    return _spares_answer(least, outlook, counts, was, now)


def _changed(before: SourceState, after: SourceState) -> list[tuple[Candidate | None, Candidate | None]]:
    """Return the candidates that differ, as they were and are."""
    names = before.candidates.keys() | after.candidates.keys()
    pairs = [(before.candidates.get(name), after.candidates.get(name)) for name in names]
    return [(one, other) for one, other in pairs if one != other]


def _apart(state: SourceState) -> SourceState:
    """Return a member without what is of no interest to its gang: what it shows, and writes that are open."""
    pod = state.pod
    if pod is not None:
        pod = _replace(pod, resource_version="", conditions=[], restarts={}, unready=False)
    trouble = {key: one for key, one in state.trouble.items() if key not in TO_POD}
    failed = state.shown if state.shown is not None and state.shown.failed else None
    return _replace(
        state, version=0, position=0, pod=pod, candidates={}, effects={}, trouble=trouble, shown=failed, dirty=False
    )


def _only_said(was: Candidate, now: Candidate) -> bool:
    """Whether a candidate differs in what its target says of it alone, and that names no permit."""
    said = now.seen
    if said is None or said.deleting or said.permit or said.withdrawn:
        return False
    return _replace(now, seen=was.seen, ready_since=was.ready_since, waits_since=was.waits_since) == was


def _spares_answer(least: int, outlook: Outlook, counts: GangCounts, was: Candidate, now: Candidate) -> bool:
    cluster = now.cluster
    if isinstance(now.seen, seen.CandidateWaiting):
        return isinstance(was.seen, _NO_ANSWER)
    if isinstance(now.seen, seen.CandidateReserved):
        news = isinstance(was.seen, (*_NO_ANSWER, *NO_NODE))
        return news and outlook.holds and counts.holding(cluster) < counts.need(cluster, least)
    if not isinstance(now.seen, NO_NODE) or not isinstance(was.seen, _NO_ANSWER):
        return False
    left = outlook.slack.get(cluster)
    if left is None:
        # It had no room for all of them before; where nobody has, the gang says what each target said first.
        return bool(outlook.slack) or counts.refusing(cluster) > 1
    outlook.slack[cluster] = left - 1
    return left > 0
