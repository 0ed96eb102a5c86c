"""Says which phase a PodGroup is in, and what its admission reserves (docs/explanation/podgroups.md, Phases;
volcano-sh/volcano pkg/scheduler/plugins/overcommit/overcommit.go, ed72c7c81).

In: what a group's members show, the phase before, the cluster's capacity. Out: the phase now, and which groups may be
admitted. Volcano recomputes phases from counts in each pass; here a phase follows from the one before, so what is
complete stays complete, and what was admitted and never started gives its reservation back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

from controlplane.log.event import Part

Phase = Literal["Pending", "Inqueue", "Running", "Unknown", "Completed"]
Stage = Literal["Pending", "Unschedulable", "Bound", "Succeeded", "Failed"]
Amounts = Mapping[str, int]
DEFAULT_FACTOR = 1.2


class Counts(Part):
    """A group's members: not bound yet (of them those found unschedulable), bound or running, finished in either way.

    A member that is terminating on a node still counts as running.
    """

    pending: int = 0
    unschedulable: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0

    @property
    def finished(self) -> int:
        """The members that ended."""
        return self.succeeded + self.failed

    @property
    def scheduled(self) -> int:
        """The members that have, or had, a node."""
        return self.running + self.finished

    @property
    def live(self) -> int:
        """The members that may still need something."""
        return self.pending + self.running


def count(stages: Iterable[Stage]) -> Counts:
    """Count members by what each shows."""
    listed = list(stages)
    unschedulable = listed.count("Unschedulable")
    return Counts(
        pending=listed.count("Pending") + unschedulable,
        unschedulable=unschedulable,
        running=listed.count("Bound"),
        succeeded=listed.count("Succeeded"),
        failed=listed.count("Failed"),
    )


def phase_after(before: Phase, counts: Counts, min_member: int) -> Phase:
    """Return the phase that follows from the one before and from what the members show.

    Completed is latched: members that are cleaned up, or new ones that wait, do not undo it; only a quorum that runs
    again does. A group without live members is never Inqueue. `min_member` below 1, which others may have written,
    counts as 1."""
    wanted = max(min_member, 1)
    if before == "Completed":
        return "Running" if counts.running >= wanted else "Completed"
    if counts.scheduled >= wanted:
        return "Running" if counts.running else "Completed"
    if counts.running and counts.unschedulable:
        return "Unknown"
    return "Inqueue" if before == "Inqueue" and counts.live else "Pending"


def expires_at(phase: Phase, since: datetime | None, limit: timedelta) -> datetime | None:
    """Return when an Inqueue group falls back to Pending because it did not start; None for other phases."""
    return since + limit if phase == "Inqueue" and since is not None else None


class GroupClaim(Part):
    """What a group asks for and has: `min_resources`, what its members on nodes hold, how many of those there are."""

    phase: Phase
    live: int
    min_member: int
    min_resources: dict[str, int] = {}
    allocated: dict[str, int] = {}
    allocated_members: int = 0


def reserved_by(claim: GroupClaim) -> dict[str, int]:
    """Return what is kept free for a group: all of it while Inqueue, the missing rest while Running; nothing without
    live members.
    """
    if not claim.live:
        return {}
    full = claim.phase == "Inqueue"
    if not full and not (claim.phase == "Running" and claim.allocated_members >= claim.min_member):
        return {}
    rest = {name: amount - claim.allocated.get(name, 0) for name, amount in claim.min_resources.items()}
    return dict(claim.min_resources) if full else {name: amount for name, amount in rest.items() if amount > 0}


class ClusterCapacity(Part):
    """What a cluster has and what is used on its nodes."""

    total: dict[str, int] = {}
    used: dict[str, int] = {}


def fits(claim: GroupClaim, capacity: ClusterCapacity, reserved: Amounts, factor: float = DEFAULT_FACTOR) -> bool:
    """Whether a group may be admitted: reserved + its minResources within total × factor − used, where it asks for
    something.

    A factor below 1 falls back to the default. A group without live members is not admitted, one without minResources
    always."""
    if not claim.live:
        return False
    factor = factor if factor >= 1 else DEFAULT_FACTOR
    return all(
        reserved.get(name, 0) + amount <= int(capacity.total.get(name, 0) * factor) - capacity.used.get(name, 0)
        for name, amount in claim.min_resources.items()
        if amount > 0
    )
