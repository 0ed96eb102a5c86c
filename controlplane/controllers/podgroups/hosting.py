"""Hosts the controller of PodGroups, and beside it the one that sums up their capacity.

In: settings. Out: their parts of the log, what they watch on the cluster beside which they run, and their policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import get_args

from controlplane.controllers.podgroups import rules
from controlplane.controllers.podgroups.capacity import Capacity
from controlplane.controllers.podgroups.controller import PodGroupController
from controlplane.controllers.podgroups.index import PodGroupIndex, PodGroupPolicy
from controlplane.controllers.podgroups.objects import CONFIG_MAPS, POD_GROUPS, PODS, WATCHED_OWNERS
from controlplane.controllers.podgroups.phases import Phase
from controlplane.kube.kinds import NODES
from controlplane.kube.watches import WatchSpec
from controlplane.runtime.hosting import GaugeReading, HostedController, Registration
from controlplane.settings.model import Settings

_CONNECTIONS = frozenset({"cluster", "service"})
_GROUPS = frozenset({"member", "podgroup", "owner", "podgroup-rules"})
_CAPACITY = frozenset({"podgroup-room"})


def host(settings: Settings, policy: object = None) -> Sequence[HostedController]:
    """Return the controllers that run: none, that of the groups, or both, if groups are admitted here."""
    if "podgroups" not in settings.run.controllers:
        return ()
    chosen, groups = settings.podgroups, PodGroupController(policy_of(settings), settings.leader.identity)
    hears = _CONNECTIONS | _CAPACITY | {"refused"}

    def unseen() -> str:
        seen = groups.index.connection.settled((PODS.name, POD_GROUPS.name))
        return "" if seen else "podgroups does not see all that it needs"

    hosted = (
        HostedController(
            registration=Registration("podgroups", groups, _GROUPS, hears, identities="podgroups", reading=groups),
            home=(
                WatchSpec(POD_GROUPS),
                WatchSpec(CONFIG_MAPS, namespace=rules.NAMESPACE, field_selector=f"metadata.name={rules.NAME}"),
                *(WatchSpec(kind) for kind in (*WATCHED_OWNERS, PODS)),
            ),
            knows=groups,
            unseen=unseen,
            gauges=partial(gauges, groups.index),
        ),
    )
    if set(chosen.status_for).isdisjoint(chosen.scheduler_names):
        return hosted  # nothing is admitted here
    return (
        *hosted,
        HostedController(
            registration=Registration("capacity", Capacity(), _CAPACITY, _CONNECTIONS, identities="capacity"),
            home=(WatchSpec(PODS), WatchSpec(NODES)),  # what others' pods use counts
        ),
    )


def gauges(index: PodGroupIndex) -> Iterator[GaugeReading]:
    """Yield the number of groups in each phase, and that of pods without one."""
    phases = Counter(group.phase for group in index.groups.values() if group.seen is not None)
    for phase in get_args(Phase):
        yield GaugeReading("pod_groups", phases[phase], {"phase": phase})
    yield GaugeReading("ungrouped_pods", len(index.unresolved))


def policy_of(settings: Settings) -> PodGroupPolicy:
    """Return what decisions about PodGroups depend on."""
    chosen = settings.podgroups
    return PodGroupPolicy(
        schedulers=chosen.scheduler_names,
        status_for=chosen.status_for,
        block_owner_deletion=chosen.block_owner_deletion == "yes",
        inqueue_limit=chosen.inqueue_limit,
        overcommit=chosen.overcommit_percent / 100,
    )
