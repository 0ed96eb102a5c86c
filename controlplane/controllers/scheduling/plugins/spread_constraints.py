"""Topology spread constraints: which apply to a pod, and what each means
(kubernetes/kubernetes pkg/scheduler/framework/plugins/podtopologyspread/common.go, v1.36).

In: the pod's constraints as they stand in its spec, or the profile's defaults. Out: `Constraint`s of one kind, hard or
soft. A selector that does not parse raises `InvalidSelector`: the pod's cycle ends with an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from controlplane.controllers.scheduling.framework.args import PodTopologySpreadArgs
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables, selector_of_owners
from controlplane.controllers.scheduling.snapshot.objects import ZONE, Pod
from controlplane.controllers.scheduling.snapshot.pod_counts import Query, QueryTerm
from controlplane.kube.kinds import Json
from controlplane.kube.pod_fields import number, section, strings, text
from controlplane.kube.selectors import LabelSelector, Requirement, label_selector
from controlplane.kube.well_known import HOSTNAME

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
SYSTEM: tuple[Json, ...] = (
    {"maxSkew": 3, "topologyKey": HOSTNAME, "whenUnsatisfiable": SOFT},
    {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": SOFT},
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint, with its defaults filled in and matchLabelKeys merged into the selector."""

    topology_key: str
    max_skew: int
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False

    def query(self, namespace: str) -> Query | None:
        """Return which pods it counts, None for none: an absent selector matches nothing, and for an empty one the
        count is 0.
        """
        if self.selector.nothing or self.selector.everything:
            return None
        return Query((QueryTerm(frozenset({namespace}), self.selector),), live=True)


def constraints_of(pod: Pod, kind: str, args: PodTopologySpreadArgs, cluster: ClusterTables) -> tuple[Constraint, ...]:
    """Return the hard or the soft constraints of a pod; the profile's defaults only if it has none of any kind."""
    if pod.spread:
        return _read(pod.spread, kind, pod, "spec.topologySpreadConstraints")
    defaults = SYSTEM if args.defaulting_type == "System" else args.default_constraints
    found = _read(defaults, kind, pod, "defaultConstraints")
    if not found:
        return ()
    selector = selector_of_owners(cluster, pod)
    return () if selector.everything else tuple(replace(constraint, selector=selector) for constraint in found)


def _read(listed: Iterable[Json], kind: str, pod: Pod, where: str) -> tuple[Constraint, ...]:
    found = []
    for at, obj in enumerate(listed):
        inside = f"{where}[{at}]"
        if text(obj, "whenUnsatisfiable", inside) != kind:
            continue
        by_labels = None if obj.get("labelSelector") is None else section(obj, "labelSelector", inside)
        keys = strings(obj, "matchLabelKeys", inside)
        same = [Requirement(key, "In", (pod.labels[key],)) for key in keys if key in pod.labels]
        found.append(
            Constraint(
                topology_key=text(obj, "topologyKey", inside),
                max_skew=number(obj, "maxSkew", inside),
                selector=label_selector(by_labels, f"{inside}.labelSelector").plus(same),
                min_domains=number(obj, "minDomains", inside, default=1),
                honor_affinity=text(obj, "nodeAffinityPolicy", inside) != "Ignore",
                honor_taints=text(obj, "nodeTaintsPolicy", inside) == "Honor",
            )
        )
    return tuple(found)
