"""Lists the controllers of a scheduler process, and what they watch of its cluster.

In: settings and profiles. Out: one controller for the loop, the watches, and what the log knows already, with which
reflectors begin. Most of what is watched is never recorded: it feeds the snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.app.candidates.binding import Targets
from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATES
from controlplane.controllers.candidates.source.observations import SourceObjectGone, SourceObservation
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.candidates.target.events import (
    CandidateObserved,
    CandidatePodGone,
    CandidatePodObserved,
    CandidateVanished,
    UnreadCandidateDeleted,
)
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.local_connection import LocalConnection
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.connectivity.versions import ShownVersion
from controlplane.controllers.scheduling.anticipation import PodAnticipation
from controlplane.controllers.scheduling.binding.pod_scheduling import Evictions, OwnPods
from controlplane.controllers.scheduling.events import (
    GangGone,
    GangObserved,
    PendingPodGone,
    PendingPodObserved,
    VictimGone,
    VictimSeen,
)
from controlplane.controllers.scheduling.gangs.conditions import PodGroupConditions
from controlplane.controllers.scheduling.snapshot.view import KINDS
from controlplane.kube.kinds import POD_GROUPS, PODS, PRIORITY_CLASSES, Kind
from controlplane.kube.watches import WatchSpec
from controlplane.log.event import Event
from controlplane.runtime.hosting import Registration
from controlplane.runtime.router import ControllerRouter
from controlplane.settings import Settings

CANDIDATE_KINDS = (CANDIDATES, CANDIDATE_SOURCES)
WATCHED: Sequence[Kind] = (*KINDS, PRIORITY_CLASSES, *CANDIDATE_KINDS)


class SchedulerControllers:
    """The controllers of one leadership term. `capability` is what the loop sees; `gangs`: whether a profile has
    the plugin Gang.
    """

    def __init__(self, settings: Settings, profiles: Sequence[str], *, gangs: bool = False) -> None:
        identity = settings.leader.identity
        self.placements, self.evictions = OwnPods(profiles, identity), Evictions(identity)
        self.ahead = PodAnticipation(self.placements)
        own = settings.scheduler
        policy = TargetPolicy(
            scheduler_name=own.candidate_profile or profiles[0],
            reservation_ttl=own.reservation_ttl,
            skew=own.clock_skew,
        )
        self.targets = Targets(policy)
        self.targets.identity, self.targets.takes = identity, own.takes_candidates
        self.here = LocalConnection(shown)
        candidates = frozenset({"candidate", "invitation", "refused"})
        ours = frozenset({"pod", "victim", "gang"})
        self.pod_group_conditions = PodGroupConditions(identity, enabled=gangs)
        self.router = ControllerRouter(
            [
                Registration("placements", self.placements, frozenset({"pod"}), anticipating=self.ahead),
                Registration("evictions", self.evictions, frozenset({"victim"}), identities="victim"),
                Registration("pod_group_conditions", self.pod_group_conditions, frozenset({"gang"}), identities="gang"),
                Registration(
                    "candidates", self.targets, candidates, hears=frozenset({"cluster"}), identities="candidate"
                ),
                Registration(
                    "here", self.here, frozenset({"cluster", "service"}), hears=candidates | ours, identities="here"
                ),
            ]
        )
        watched = (*WATCHED, *((POD_GROUPS,) if gangs else ()))
        left = () if own.takes_candidates else CANDIDATE_KINDS
        self.watches = [WatchSpec(kind) for kind in watched if kind not in left]

    def leave_candidates(self) -> None:
        """Leave Candidates to another log, before anything is watched."""
        self.targets.takes = False
        self.watches[:] = [spec for spec in self.watches if spec.kind not in CANDIDATE_KINDS]

    @property
    def connections(self) -> Mapping[str, Connection]:
        """The one connection, as the log says it."""
        return {MANAGEMENT: self.here.connection}

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind: UID to (namespace, name, resourceVersion)."""
        if kind == PODS.name:
            return self.evictions.known() | self.placements.known() | self.targets.known(kind)
        if kind == POD_GROUPS.name:
            return self.pod_group_conditions.known()
        return self.targets.known(kind) if kind in {one.name for one in CANDIDATE_KINDS} else {}

    def listed(self, cluster: str, kind: str) -> bool:
        """Whether the kind was listed as a whole in the cluster's present incarnation."""
        return self.here.newest.listed(cluster, kind)

    def newest(self, cluster: str, kind: str) -> int:
        """Return the highest resourceVersion of a kind, 0 if none was seen in the cluster's present incarnation."""
        return self.here.newest.of(cluster, kind)

    def is_gone(self, cluster: str, uid: str) -> bool:
        """Whether an object was seen to go in the cluster's present incarnation."""
        return self.here.newest.is_gone(cluster, uid)


_CANDIDATE = (CandidateObserved, UnreadCandidateDeleted, CandidateVanished)
_POD = (CandidatePodObserved, CandidatePodGone)


def shown(event: Event) -> ShownVersion | None:
    """Return what an observation of this process says of an object."""
    match event:
        case PendingPodObserved() | VictimSeen():
            return ShownVersion(PODS.name, event.resource_version)
        case PendingPodGone() | VictimGone():
            return ShownVersion(PODS.name, event.resource_version, event.uid)
        case GangObserved():
            return ShownVersion(POD_GROUPS.name, event.resource_version)
        case GangGone():
            return ShownVersion(POD_GROUPS.name, event.resource_version, event.uid)
        case SourceObservation() | SourceObjectGone():
            kind = (
                CANDIDATES if isinstance(event, _CANDIDATE) else PODS if isinstance(event, _POD) else CANDIDATE_SOURCES
            )
            return ShownVersion(
                kind.name, event.resource_version, event.uid if isinstance(event, SourceObjectGone) else ""
            )
        case _:
            return None
