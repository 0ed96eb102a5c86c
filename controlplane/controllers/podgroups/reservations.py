"""Sums up what admitted groups keep free, so that many that wait cost no more than there are.

In: which groups changed, and what was admitted a moment ago. Out: what all groups but one keep free. What a group keeps
is worked out again only after something of it, or of its members, was folded. Nothing here is from the log: a process
that starts works it out once for all groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from controlplane.controllers.podgroups import phases
from controlplane.controllers.podgroups.phases import GroupClaim
from controlplane.controllers.podgroups.state import MemberState, PodGroupState
from controlplane.kube.quantities import nanos

_Amounts = dict[str, int]
_KEEPING = ("Inqueue", "Running")


class Reservations:
    """See the module."""

    GIVEN = ("_kept", "_total", "_changed", "_admitting", "_admitted")

    def __init__(self) -> None:
        self._kept: dict[str, _Amounts] = {}
        self._total: _Amounts = {}
        self._changed: set[str] | None = None
        self._admitting: dict[str, _Amounts] = {}
        self._admitted: _Amounts = {}

    def changed(self, stream: str) -> None:
        """Take note that a group, or one of its members, is another than before."""
        if self._changed is not None:
            self._changed.add(stream)

    def admit(self, stream: str, amounts: _Amounts) -> None:
        """Count what was admitted in this very pass, though it is not folded yet: else all that wait would get the
        same."""
        self.folded(stream)
        self._admitting[stream] = amounts
        _add(self._admitted, amounts, 1)

    def folded(self, stream: str) -> None:
        """Take note that something of a group was folded: from here on it counts as what it is."""
        _add(self._admitted, self._admitting.pop(stream, {}), -1)
        self.changed(stream)

    def besides(self, stream: str, groups: Iterable[str], claim: Callable[[str], GroupClaim | None]) -> _Amounts:
        """Return what all groups but one keep free; `groups` are all that there are, and `claim` gives the claim of
        each, None if it has none.
        """
        for one in list(groups) if self._changed is None else self._changed:
            _add(self._total, self._kept.pop(one, {}), -1)
            if (claimed := claim(one)) is not None and (kept := phases.reserved_by(claimed)):
                self._kept[one] = kept
                _add(self._total, kept, 1)
        self._changed = set()
        found = dict(self._total)
        _add(found, self._kept.get(stream, {}), -1)
        _add(found, self._admitted, 1)
        return found


def gives_back(before: PodGroupState, after: PodGroupState) -> bool:
    """Whether a group keeps free what it kept no longer, though nothing of the cluster's room has changed. That its
    members run shows in the room.
    """
    if before.seen is None or before.phase not in _KEEPING:
        return False
    return after.seen is None or after.phase not in _KEEPING or before.seen.min_resources != after.seen.min_resources


def _add(total: _Amounts, amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount


def claim_of(state: PodGroupState, members: list[MemberState]) -> GroupClaim | None:
    """Return what a group asks for and has, in billionths; None if its minResources cannot be read."""
    if state.seen is None:
        return None
    allocated: dict[str, int] = {}
    placed = [one.seen for one in members if one.seen is not None and one.seen.stage == "Bound"]
    for member in placed:
        _add(allocated, member.requests, 1)
    try:
        wanted = {name: nanos(amount) for name, amount in state.seen.min_resources.items()}
    except ValueError:
        return None
    counts = phases.count(one.seen.stage for one in members if one.seen is not None)
    return GroupClaim(
        phase=state.phase,
        live=counts.live,
        min_member=state.seen.min_member,
        min_resources=wanted,
        allocated=allocated,
        allocated_members=len(placed),
    )
