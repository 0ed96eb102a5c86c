"""Reads Topologies, Nodes, and what Workloads say of topology; renders an assignment as Kueue writes it.

In: objects as an API server shows them, or parts of them. Out: the values of `topology.model`. What does not fit the
API raises `Misfit`, which names the field. A status has an assignment in one of two forms: that of v1beta1, a list of
domains, or that of v1beta2, slices in which what domains have in common is said once (kubernetes-sigs/kueue
apis/kueue/v1beta2/workload_types.go)."""

from __future__ import annotations

from controlplane.controllers.quota.engine.amounts import Requests, in_order, requested
from controlplane.controllers.quota.topology import encoding
from controlplane.controllers.quota.topology.model import (
    DomainPods,
    Node,
    PodSetSlice,
    PodSetUpdate,
    Topology,
    TopologyAssignment,
    TopologyRequest,
)
from controlplane.kube.conditions import is_true
from controlplane.kube.fields import BadValue, items, number, section, strings, text
from controlplane.kube.kinds import Json, meta
from controlplane.kube.pod_requests import amounts
from controlplane.kube.tolerations import taints, tolerations
from controlplane.kube.topologies import domains_of

_PLACEMENTS = (
    "unconstrained",
    "required",
    "preferred",
    "podSetSliceRequiredTopology",
    "podSetSliceSize",
    "podsetSliceRequiredTopologyConstraints",
)


def parse_topology(obj: Json) -> Topology:
    """Return a Topology; `Misfit` names the field that does not fit."""
    levels = items(section(obj, "spec"), "levels", "spec")
    return Topology(text(meta(obj), "name", "metadata"), tuple(text(one, "nodeLabel", "spec.levels") for one in levels))


def parse_node(obj: Json) -> Node:
    """Return a Node; `Misfit` names the field that does not fit."""
    metadata, spec, status = meta(obj), section(obj, "spec"), section(obj, "status")
    labels = section(metadata, "labels", "metadata")
    return Node(
        name=text(metadata, "name", "metadata"),
        labels={str(key): str(value) for key, value in labels.items()},
        taints=taints(items(spec, "taints", "spec")),
        allocatable=_counted(section(status, "allocatable", "status"), "status.allocatable"),
        schedulable=spec.get("unschedulable") is not True,
        ready=is_true(obj, "Ready"),
    )


def _counted(listed: Json, where: str) -> Requests:
    try:
        found = amounts(listed)
    except ValueError as problem:
        raise BadValue(where, str(problem)) from problem
    return in_order({name: requested(name, amount) for name, amount in found.items()})


def topology_request(obj: Json, where: str) -> TopologyRequest | None:
    """Return a pod set's `topologyRequest`, None if it has none."""
    if not obj:
        return None
    constraints = items(obj, "podsetSliceRequiredTopologyConstraints", where)
    inside = f"{where}.podsetSliceRequiredTopologyConstraints"
    slices = tuple(PodSetSlice(text(one, "topology", inside), number(one, "size", inside)) for one in constraints)
    if not slices and obj.get("podSetSliceRequiredTopology") is not None:
        size = number(obj, "podSetSliceSize", where) if obj.get("podSetSliceSize") is not None else 0
        slices = (PodSetSlice(text(obj, "podSetSliceRequiredTopology", where), size),)
    return TopologyRequest(
        required=text(obj, "required", where),
        preferred=text(obj, "preferred", where),
        unconstrained=obj.get("unconstrained") is True,
        slices=slices,
        group=text(obj, "podSetGroupName", where),
        pod_index_label=text(obj, "podIndexLabel", where),
        explicit=any(obj.get(name) not in (None, []) for name in _PLACEMENTS),
    )


def topology_assignment(obj: Json, where: str) -> TopologyAssignment | None:
    """Return a `topologyAssignment` of a status in either form, None if there is none."""
    if not obj:
        return None
    levels = tuple(strings(obj, "levels", where))
    if obj.get("domains"):
        inside = f"{where}.domains"
        listed = items(obj, "domains", where)
        domains = [DomainPods(tuple(strings(one, "values", inside)), number(one, "count", inside)) for one in listed]
        if not all(values for values, _ in domains):
            raise BadValue(f"{inside}.values", "a domain has a value at least")
        return TopologyAssignment(levels, tuple(domains))
    return TopologyAssignment(levels, tuple(DomainPods(values, pods) for values, pods in domains_of(obj, where)))


def rendered(assignment: TopologyAssignment) -> Json:
    """Return an assignment in the form of v1beta2, as Kueue writes it."""
    return encoding.encoded(assignment)


def pod_set_updates(status: Json) -> tuple[PodSetUpdate, ...]:
    """Return what admission checks that are Ready change of pod sets, where placement rests on it."""
    found = []
    for check in items(status, "admissionChecks", "status"):
        if check.get("state") == "Ready":
            where = "status.admissionChecks.podSetUpdates"
            for update in items(check, "podSetUpdates", "status.admissionChecks"):
                selector = section(update, "nodeSelector", where)
                found.append(
                    PodSetUpdate(
                        text(update, "name", where),
                        tuple((str(key), str(value)) for key, value in sorted(selector.items())),
                        tolerations(update.get("tolerations")),
                    )
                )
    return tuple(found)


def unhealthy_nodes(status: Json) -> tuple[str, ...]:
    """Return the names of the nodes whose pods have to be placed anew."""
    where = "status.unhealthyNodes"
    return tuple(text(one, "name", where) for one in items(status, "unhealthyNodes", "status"))
