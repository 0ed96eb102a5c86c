"""The capabilities of a scheduler process, and what it wants to see of its cluster.

In: settings and profiles. Out: one `Capability` for the loop, the watches, and what the log knows already, with which reflectors begin.
Most of what is watched is never recorded: it feeds the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.app.scheduling.candidates import Targets
from controlplane.candidates.events import Gone, Seen
from controlplane.candidates.objects import CANDIDATE_SOURCES, CANDIDATES
from controlplane.candidates.target_decide import TargetPolicy
from controlplane.candidates.target_events import (
    CandidateObserved,
    CandidatePodGone,
    CandidatePodObserved,
    CandidateVanished,
)
from controlplane.clusters.streams import WatchSpec
from controlplane.connectivity.events import MANAGEMENT
from controlplane.connectivity.here import Here
from controlplane.connectivity.newest import Shown
from controlplane.connectivity.state import Connection
from controlplane.kube import POD_GROUPS, PODS, PRIORITY_CLASSES, Kind
from controlplane.log.event import Event
from controlplane.reconcile.several import Room, Several
from controlplane.scheduler.books import Evictions, Placements
from controlplane.scheduler.events import (
    GangGone,
    GangObserved,
    PendingPodGone,
    PendingPodObserved,
    VictimGone,
    VictimSeen,
)
from controlplane.scheduler.verdicts import Verdicts
from controlplane.scheduler.view import KINDS
from controlplane.settings import Settings

CANDIDATE_KINDS = (CANDIDATES, CANDIDATE_SOURCES)
WATCHED: Sequence[Kind] = (*KINDS, PRIORITY_CLASSES, *CANDIDATE_KINDS)


class SchedulerRooms:
    """The capabilities of one turn. `capability` is what the loop sees; `gangs`: whether a profile has the plugin Gang."""

    def __init__(self, settings: Settings, profiles: Sequence[str], *, gangs: bool = False) -> None:
        identity = settings.leader.identity
        self.placements, self.evictions = Placements(profiles, identity), Evictions(identity)
        own = settings.scheduler
        policy = TargetPolicy(
            scheduler_name=own.candidate_profile or profiles[0],
            reservation_ttl=own.reservation_ttl,
            skew=own.clock_skew,
        )
        self.targets = Targets(policy)
        self.targets.identity = identity
        self.here = Here(shown)
        candidates = frozenset({"candidate", "invitation", "refused"})
        ours = frozenset({"pod", "victim", "gang"})
        self.verdicts = Verdicts(identity, enabled=gangs)
        self.capability = Several(
            [
                Room("placements", self.placements, frozenset({"pod"})),
                Room("evictions", self.evictions, frozenset({"victim"}), mark="victim"),
                Room("verdicts", self.verdicts, frozenset({"gang"}), mark="gang"),
                Room("candidates", self.targets, candidates, hears=frozenset({"cluster"}), mark="candidate"),
                Room("here", self.here, frozenset({"cluster", "service"}), hears=candidates | ours, mark="here"),
            ]
        )
        self.watches = [WatchSpec(kind) for kind in (*WATCHED, *((POD_GROUPS,) if gangs else ()))]

    @property
    def connections(self) -> Mapping[str, Connection]:
        """The one connection, as the log says it."""
        return {MANAGEMENT: self.here.connection}

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind: UID to (namespace, name, resourceVersion)."""
        if kind == PODS.name:
            return self.evictions.known() | self.placements.known() | self.targets.known(kind)
        if kind == POD_GROUPS.name:
            return self.verdicts.known()
        return self.targets.known(kind) if kind in {one.name for one in CANDIDATE_KINDS} else {}

    def listed(self, cluster: str, kind: str) -> bool:
        """Whether the kind was listed as a whole in the cluster's present life."""
        return self.here.newest.listed(cluster, kind)

    def newest(self, cluster: str, kind: str) -> int:
        """Return the highest resourceVersion of a kind, 0 if none was seen in the cluster's present life."""
        return self.here.newest.of(cluster, kind)

    def is_gone(self, cluster: str, uid: str) -> bool:
        """Whether an object was seen to go in the cluster's present life."""
        return self.here.newest.is_gone(cluster, uid)


_CANDIDATE = (CandidateObserved, CandidateVanished)
_POD = (CandidatePodObserved, CandidatePodGone)


def shown(event: Event) -> Shown | None:
    """Return what an observation of this process says of an object."""
    match event:
        case PendingPodObserved() | VictimSeen():
            return Shown(PODS.name, event.resource_version)
        case PendingPodGone() | VictimGone():
            return Shown(PODS.name, event.resource_version, event.uid)
        case GangObserved():
            return Shown(POD_GROUPS.name, event.resource_version)
        case GangGone():
            return Shown(POD_GROUPS.name, event.resource_version, event.uid)
        case Seen() | Gone():
            kind = (
                CANDIDATES if isinstance(event, _CANDIDATE) else PODS if isinstance(event, _POD) else CANDIDATE_SOURCES
            )
            return Shown(kind.name, event.resource_version, event.uid if isinstance(event, Gone) else "")
        case _:
            return None
