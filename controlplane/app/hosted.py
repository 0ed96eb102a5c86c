"""Hosts controllers in a process, by its settings: their streams in the log, and what they want to see of which
cluster.

In: settings. Out: one `ControllerRouter` for the loop, the watches of the management cluster and of the others, and
what the log knows already, with which reflectors begin. A controller that is off watches nothing, records nothing and
decides nothing. MultiKueueClusters are followed wherever a controller needs other clusters: they are how it gets to
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.hosts import hosted
from controlplane.controllers.manifests import SERVICE
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.kube.watches import WatchSpec
from controlplane.log.event import Event
from controlplane.runtime.hosting import GaugeReading
from controlplane.runtime.router import ControllerRouter, merged
from controlplane.settings import Settings

if TYPE_CHECKING:
    from controlplane.controllers.candidates.nodes.controller import VirtualNodes
    from controlplane.controllers.candidates.references.controller import ReferenceController
    from controlplane.controllers.candidates.source.controller import SourceController
    from controlplane.controllers.jobframework.controller import JobFrameworkController
    from controlplane.controllers.quota.admission.controller import AdmissionController

C = TypeVar("C")
TYPES: Sequence[type[Event]] = merged(manifest.events for manifest in SERVICE)
"""The events of every controller, hosted or not: whoever reads a log reads all of it."""


class HostedControllers:
    """The controllers of one leadership term. `router` is what the loop sees; `fleet` is there always, the others if
    they are on. `follows`: whether other clusters are connected to.

    `policy` takes the place of what the settings say of Workloads: simulations have their own.
    """

    def __init__(self, settings: Settings, policy: MultiKueuePolicy | None = None) -> None:
        self._hosted = hosted(settings, policy)
        self.router = ControllerRouter([one.registration for one in self._hosted])
        named: dict[str, Any] = {one.registration.name: one.registration.controller for one in self._hosted}
        self.fleet: MultiKueueController = named["multikueue"]
        self.sources: SourceController | None = named.get("candidates")
        self.copies: ReferenceController | None = named.get("copies")
        self.virtual_nodes: VirtualNodes | None = named.get("virtualnodes")
        self.jobs: JobFrameworkController | None = named.get("jobframework")
        self.admission: AdmissionController | None = named.get("admission")
        self.follows = any(one.follows for one in self._hosted)
        # Alone, the dispatch of Workloads knows of an object what its reflector knows, if it records all of them.
        self.sole = len(self._hosted) == 1 and not self.fleet.policy.own_only
        self.home = united(spec for one in self._hosted for spec in one.home)
        self.workers = united(spec for one in self._hosted for spec in one.workers)
        self._indices = [one.knows for one in self._hosted if one.knows is not None]

    def find(self, kind: type[C], /) -> C | None:
        """Return the controller of a type; None if none is on."""
        controllers = (one.registration.controller for one in self._hosted)
        return next((one for one in controllers if isinstance(one, kind)), None)

    def gauges(self) -> Iterator[GaugeReading]:
        """Yield what metrics show of the states of those that are on."""
        for one in self._hosted:
            yield from one.gauges() if one.gauges is not None else ()

    @property
    def wanted(self) -> list[WatchSpec]:
        """What is to be watched of the management cluster besides, by what was seen there."""
        asked = (one.wants() for one in self._hosted if one.wants is not None)
        return [spec for spec in united(spec for specs in asked for spec in specs) if spec not in self.home]

    @property
    def unseen(self) -> str:
        """What is not in view yet of what decisions rest on, in words; "" if all is."""
        asked = [one for one in self._hosted if one.unseen is not None]
        if not self.follows:
            asked = [one for one in asked if one.registration.controller is not self.fleet]
        return "; ".join(said for one in asked if one.unseen is not None and (said := one.unseen()))

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
        found = [(one.resting_on(cluster, now), one.noun) for one in self._hosted if one.resting_on is not None]
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
        """Whether the kind was listed as a whole in the cluster's present incarnation."""
        return any(index.newest.listed(cluster, kind) for index in self._indices)

    def newest(self, cluster: str, kind: str) -> int:
        """Return the highest resourceVersion of a kind on a cluster, 0 if none was seen in its present incarnation."""
        return max(index.newest.of(cluster, kind) for index in self._indices)

    def is_gone(self, cluster: str, uid: str) -> bool:
        """Whether an object was seen to go in the cluster's present incarnation."""
        return any(index.newest.is_gone(cluster, uid) for index in self._indices)


def united(watches: Iterable[WatchSpec]) -> list[WatchSpec]:
    """Return one watch for each kind and namespace: where two controllers narrow it differently, both get the whole of
    it.
    """
    found: dict[tuple[str, str], WatchSpec] = {}
    for spec in watches:
        key = (spec.kind.name, spec.namespace)
        known = found.setdefault(key, spec)
        if known != spec:
            found[key] = WatchSpec(spec.kind, namespace=spec.namespace)
    return list(found.values())
