"""Hosts controllers in a process, by its settings: their streams in the log, and what they want to see of which
cluster.

In: settings. Out: one `Capability` for the loop, the watches of the management cluster and of the others, and what the
log knows already, with which reflectors begin. A controller that is off watches nothing, records nothing and decides
nothing. MultiKueueClusters are followed wherever a controller needs other clusters: they are how it gets to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from controlplane.app import feasibility, own_cluster
from controlplane.app.own_cluster import KnownObjects
from controlplane.app.policy import candidate_policy, candidate_targets, policy_of
from controlplane.clusters.streams import WatchSpec
from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS, CANDIDATES, PODS, SOURCE_LABEL
from controlplane.controllers.candidates.references import controller as followed
from controlplane.controllers.candidates.references.controller import ReferenceController
from controlplane.controllers.candidates.source import controller as candidates
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.connectivity.eligibility import FIT
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.manifests import SERVICE
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.job_kinds.base import ORIGIN_LABEL
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    POD_GROUPS,
    WORKLOADS,
)
from controlplane.log.event import Event
from controlplane.runtime.router import ControllerRouter, Registration, merged
from controlplane.settings import Settings

# What the dispatch of Workloads watches on the management cluster, the kinds of jobs aside.
HOME_KINDS = (ADMISSION_CHECKS, MULTIKUEUE_CONFIGS, MULTIKUEUE_CLUSTERS, CLUSTER_QUEUES, WORKLOADS)

TYPES: Sequence[type[Event]] = merged(manifest.events for manifest in SERVICE)
"""The events of every controller, hosted or not: whoever reads a log reads all of it."""

_FLEET_STREAMS = frozenset(
    {
        "workload",
        "job",
        "cluster",
        "admissioncheck",
        "multikueueconfig",
        "clusterqueue",
        "fleet",
        "service",
        "refused",
    }
)


class HostedControllers:
    """The controllers of one leadership term. `router` is what the loop sees; `sources` is there if candidates are on,
    `local` holds what is on of one's own cluster. `follows`: whether other clusters are connected to.

    `policy` takes the place of what the settings say of Workloads: simulations have their own.
    """

    def __init__(self, settings: Settings, policy: MultiKueuePolicy | None = None) -> None:
        identity = settings.leader.identity
        policy = policy or policy_of(settings)
        self.fleet = MultiKueueController(policy, identity)
        self.sources: SourceController | None = None
        self.copies: ReferenceController | None = None
        self.follows = policy.dispatches or "candidates" in settings.run.controllers
        self._registrations = [Registration("multikueue", self.fleet, _FLEET_STREAMS, frozenset({FIT}))]
        self._indices: list[KnownObjects] = [self.fleet.index]
        home, workers = self._dispatch(policy)
        if policy.dispatches and policy.judged:
            judge = feasibility.judging(settings)
            self._registrations.append(feasibility.room_of(judge))
            self._indices.append(judge.places)
            workers += feasibility.watches(settings)
        if "candidates" in settings.run.controllers:
            self._place(settings, home, workers)
        self.local = own_cluster.local(settings)
        self._registrations += self.local.registrations
        self._indices += self.local.knows
        home += self.local.home
        self.router = ControllerRouter(self._registrations)
        # Alone, the dispatch of Workloads knows of an object what its reflector knows.
        self.sole = len(self._registrations) == 1
        self.home, self.workers = united(home), united(workers)
        placed: tuple[KnownObjects | None, ...] = (self.sources, self.copies)
        self._indices += [one for one in placed if one is not None]

    def _dispatch(self, policy: MultiKueuePolicy) -> tuple[list[WatchSpec], list[WatchSpec]]:
        """Return what the dispatch of Workloads watches on the management cluster, and on workers."""
        if not policy.dispatches:
            return ([WatchSpec(MULTIKUEUE_CLUSTERS)] if self.follows else []), []
        jobs = [adapter.kind for adapter in policy.adapters.values()]
        origin = f"{ORIGIN_LABEL}={policy.origin}"
        return [WatchSpec(kind) for kind in (*HOME_KINDS, *jobs)], [
            WatchSpec(kind, origin) for kind in (WORKLOADS, *jobs)
        ]

    def _place(self, settings: Settings, home: list[WatchSpec], workers: list[WatchSpec]) -> None:
        """Host the controllers that place pods on other clusters, and add what they watch."""
        identity, chosen, selector = (
            settings.leader.identity,
            candidate_policy(settings),
            settings.candidates.namespace_selector,
        )
        self.sources = SourceController(chosen, identity, candidate_targets(settings), labelled=bool(selector))
        hears = candidates.HEARS | {"refused"}
        self._registrations.append(
            Registration("candidates", self.sources, candidates.OWNS, hears, identities="candidates")
        )
        home += [
            WatchSpec(PODS, field_selector=f"spec.schedulerName={chosen.scheduler_name}"),
            WatchSpec(CANDIDATE_TARGETS),
            WatchSpec(POD_GROUPS),
        ]
        if selector:
            home.append(WatchSpec(NAMESPACES, selector))
        if settings.candidates.follow == "yes":
            self.copies = ReferenceController(self.sources)
            self._registrations.append(
                Registration("copies", self.copies, followed.OWNS, followed.HEARS, identities="copies")
            )
        if "*" in chosen.namespaces:
            workers.append(candidates_in("", chosen.cluster))

    @property
    def unseen(self) -> str:
        """What is not in view yet of what decisions rest on, in words; "" if all is."""
        if self.follows and not self.fleet.index.ready:
            known = self.connections.get(MANAGEMENT)
            why = f": {known.message}" if known is not None and known.message else ""
            return f"the management cluster is not in view{why}"
        return "; ".join(
            f"{name} does not see all that it needs" for name, ready in self.local.ready.items() if not ready()
        )

    @property
    def connections(self) -> Mapping[str, Connection]:
        """The connections by cluster, as the log says them."""
        return self.fleet.index.connections

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion)."""
        found: dict[str, tuple[str, str, str]] = {}
        for index in self._indices:
            found |= index.known(cluster, kind)
        return found

    def resting_on(self, cluster: str, now: datetime) -> str:
        """Return what waits for word from a cluster that is away, in words; "" if nothing does."""
        pods = self.sources.resting_on(cluster, now) if self.sources is not None else 0
        found = [(self.fleet.resting_on(cluster, now), "Workload"), (pods, "pod")]
        return " and ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in found if count)

    def abandoned(self) -> list[str]:
        """Return the clusters that no MultiKueueCluster names any more, and of which nobody has said that we let go of
        them.

        The process that should have said it ended before it could; whoever waits for such a cluster would wait for
        ever."""
        if self.sources is None:
            return []
        ours, clusters = self.sources.connections, self.fleet.index.clusters
        gone = (name for name, known in ours.items() if known.phase == "Unknown" and name not in clusters)
        return sorted(name for name in gone if not name.startswith("@"))

    def listed(self, cluster: str, kind: str) -> bool:
        """Whether the kind was listed as a whole in the cluster's present life."""
        return any(index.newest.listed(cluster, kind) for index in self._indices)

    def newest(self, cluster: str, kind: str) -> int:
        """Return the highest resourceVersion of a kind on a cluster, 0 if none was seen in its present life."""
        return max(index.newest.of(cluster, kind) for index in self._indices)

    def is_gone(self, cluster: str, uid: str) -> bool:
        """Whether an object was seen to go in the cluster's present life."""
        return any(index.newest.is_gone(cluster, uid) for index in self._indices)


def candidates_in(namespace: str, source: str) -> WatchSpec:
    """Return the watch of a source's own Candidates in a namespace of a target; "": in all of them."""
    return WatchSpec(CANDIDATES, f"{SOURCE_LABEL}={source}", namespace)


def united(specs: Iterable[WatchSpec]) -> list[WatchSpec]:
    """Return one watch for each kind and namespace: where two controllers narrow it differently, both get the whole of
    it.
    """
    found: dict[tuple[str, str], WatchSpec] = {}
    for spec in specs:
        key = (spec.kind.name, spec.namespace)
        known = found.setdefault(key, spec)
        if known != spec:
            found[key] = WatchSpec(spec.kind, namespace=spec.namespace)
    return list(found.values())
