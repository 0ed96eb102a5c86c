"""Builds the controllers of one's own cluster, by the settings: who owns the PodGroup of a pod, and a PipelineRun's
pods on one node.

In: settings. Out: their parts of the log, what they watch on the management cluster (which is where they run: beside
the cluster whose pods they look after), and what reflectors begin with. A controller that is off adds nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from controlplane.clusters.streams import WatchSpec
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.connectivity.versions import ResourceVersionTracker
from controlplane.controllers.coscheduling.controller import NEEDED, CoschedulingController, CoschedulingPolicy
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.names import COMPONENT
from controlplane.controllers.coscheduling.objects import CLAIMS, COMPONENT_LABEL, NODES, RUN_LABEL, TASK_RUNS
from controlplane.controllers.podgroups import rules
from controlplane.controllers.podgroups.capacity import Capacity
from controlplane.controllers.podgroups.controller import PodGroupController
from controlplane.controllers.podgroups.index import PodGroupPolicy as PodGroupsPolicy
from controlplane.controllers.podgroups.objects import (
    CONFIG_MAPS,
    POD_GROUPS,
    PODS,
    STATEFUL_SETS,
    WATCHED_OWNERS,
)
from controlplane.kube.kinds import PIPELINE_RUNS
from controlplane.log.event import Event
from controlplane.runtime.router import Registration, merged
from controlplane.settings import Settings

TYPES: Sequence[type[Event]] = merged([PodGroupController.types, CoschedulingController.types])
"""The events of these controllers, whether they are on or off."""

_CONNECTIONS = frozenset({"cluster", "service"})
_GROUP_STREAMS = frozenset({"member", "podgroup", "owner", "podgroup-rules"})
_ROOM_STREAM = frozenset({"podgroup-room"})
_RUN_STREAMS = frozenset({"pipelinerun", "node", "coscheduling"})


class KnownObjects(Protocol):
    """What a controller knows of objects, as far as reflectors begin with it."""

    @property
    def newest(self) -> ResourceVersionTracker:
        """The versions that were seen."""

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster."""


@dataclass(slots=True)
class OwnCluster:
    """What the controllers of one's own cluster add to a leadership term. `ready` tells of each whether it sees all
    that is to be had.
    """

    registrations: list[Registration] = field(default_factory=list)
    home: list[WatchSpec] = field(default_factory=list)
    knows: list[KnownObjects] = field(default_factory=list)
    ready: dict[str, Callable[[], bool]] = field(default_factory=dict)
    groups: PodGroupController | None = None
    runs: CoschedulingController | None = None


def local(settings: Settings) -> OwnCluster:
    """Return the controllers that are on."""
    found = OwnCluster()
    if "podgroups" in settings.run.controllers:
        _add_groups(settings, found)
    if "coscheduling" in settings.run.controllers:
        _add_runs(settings, found)
    return found


def settled(connection: Connection, kinds: Sequence[str]) -> bool:
    """Whether all that can be seen of some kinds is in view; what is not installed, or forbidden, is not waited for."""
    return all(connection.in_view(kind) or (connection.connected and kind in connection.off) for kind in kinds)


def groups_policy(settings: Settings) -> PodGroupsPolicy:
    """Return what decisions about PodGroups depend on."""
    chosen = settings.podgroups
    return PodGroupsPolicy(
        schedulers=chosen.scheduler_names,
        block_owner_deletion=chosen.block_owner_deletion == "yes",
        inqueue_limit=chosen.inqueue_limit,
        overcommit=chosen.overcommit_percent / 100,
    )


def runs_policy(settings: Settings) -> CoschedulingPolicy:
    """Return what decisions about PipelineRuns' pods depend on."""
    chosen = settings.coscheduling
    return CoschedulingPolicy(
        config_namespace=chosen.config_namespace,
        mode=None if chosen.mode == "flag" else Mode(chosen.mode),
        old_worker=chosen.old_worker == "yes",
        image=chosen.image,
        everywhere=chosen.isolate_everywhere == "yes",
    )


def _add_groups(settings: Settings, found: OwnCluster) -> None:
    groups = found.groups = PodGroupController(groups_policy(settings), settings.leader.identity)
    hears = _CONNECTIONS | _ROOM_STREAM | {"refused"}
    found.registrations.append(
        Registration("podgroups", groups, _GROUP_STREAMS, hears, identities="podgroups", reading=groups)
    )
    found.knows.append(groups)
    found.ready["podgroups"] = lambda: settled(groups.index.connection, (PODS.name, POD_GROUPS.name))
    name = f"metadata.name={rules.NAME}"
    found.home += [
        WatchSpec(POD_GROUPS),
        WatchSpec(CONFIG_MAPS, namespace=rules.NAMESPACE, field_selector=name),
        *(WatchSpec(kind) for kind in WATCHED_OWNERS),
    ]
    found.registrations.append(Registration("capacity", Capacity(), _ROOM_STREAM, _CONNECTIONS, identities="capacity"))
    found.home += [WatchSpec(PODS), WatchSpec(NODES)]  # what others' pods use counts


def _add_runs(settings: Settings, found: OwnCluster) -> None:
    runs = found.runs = CoschedulingController(runs_policy(settings), settings.leader.identity)
    found.registrations.append(
        Registration("coscheduling", runs, _RUN_STREAMS, _CONNECTIONS | {"refused"}, identities="coscheduling")
    )
    found.knows.append(runs.places)
    found.ready["coscheduling"] = lambda: settled(runs.connection, NEEDED)
    found.home += [
        WatchSpec(PIPELINE_RUNS),
        WatchSpec(TASK_RUNS, RUN_LABEL),
        WatchSpec(STATEFUL_SETS, f"{COMPONENT_LABEL}={COMPONENT}"),
        WatchSpec(CLAIMS),
        WatchSpec(PODS, RUN_LABEL),
        WatchSpec(NODES),
        WatchSpec(CONFIG_MAPS, namespace=settings.coscheduling.config_namespace),
    ]
