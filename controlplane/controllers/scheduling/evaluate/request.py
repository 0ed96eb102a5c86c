"""Reads one line of `evaluate`: a pod, the objects around it, and what deviates from the default profile.

In: a decoded JSON object. Out: a `Question`, or `PodMisfit` that names the field. Objects are taken as they are; keys
that mean nothing here are left alone, so that a line can carry notes of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from controlplane.controllers.scheduling.evaluate import shapes
from controlplane.controllers.scheduling.evaluate.shapes import check, misfit
from controlplane.controllers.scheduling.framework.args import (
    CPU_AND_MEMORY,
    Args,
    InterPodAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    Ratio,
    ResourceSpec,
    ScoringStrategy,
    Strategy,
    UtilizationPoint,
)
from controlplane.controllers.scheduling.framework.registry import IN_TREE, NOT_HERE
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.objects import Node, Pod, read_node, read_pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube.pod_fields import Obj, PodMisfit, items, number, strings, text

T = TypeVar("T")
STRATEGIES: tuple[Strategy, ...] = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_SHAPES: dict[str, type[shapes.Shape]] = {
    "persistentVolumes": shapes.VolumeShape,
    **dict.fromkeys(
        ("persistentVolumeClaims", "podDisruptionBudgets", "replicaSets", "statefulSets"), shapes.Selecting
    ),
}
_FIT_NAMES = {
    "scoringStrategy.resources": "fitResources",
    "scoringStrategy.requestedToCapacityRatio.shape": "rtcrShape",
}
_ARGS = (
    "defaultingType",
    "defaultConstraints",
    "hardPodAffinityWeight",
    "fitResources",
    "balancedResources",
    "rtcrShape",
)
_STRAIGHT = (UtilizationPoint(0, 0), UtilizationPoint(100, 10))


@dataclass(frozen=True, slots=True)
class PodChange:
    """A pod that comes to a node or leaves it, as far as PreFilter's state goes."""

    adds: bool
    pod: Pod
    node: str


@dataclass(slots=True)
class Question:
    """What is asked: a pod and its cluster. `scored` are the rows that PreScore and Score see, plugin by plugin; `only`
    names plugins.
    """

    id: Any
    pod: Pod
    snapshot: Snapshot
    nominated: dict[str, list[Pod]] = field(default_factory=dict)
    args: dict[str, Args] = field(default_factory=dict)
    strategies: dict[Strategy, NodeResourcesFitArgs] = field(default_factory=dict)
    scored: list[int] = field(default_factory=list)
    changes: list[PodChange] = field(default_factory=list)
    only: frozenset[str] | None = None


def read(obj: Any, plugins: frozenset[str] | None = None) -> Question:
    """Return the question of one line; `PodMisfit` names the field.

    `plugins`: those of the profiles that are asked instead of the default one; args then stand there.
    """
    if not isinstance(obj, Mapping):
        raise PodMisfit("line", f"expected an object, found {type(obj).__name__}")
    if not isinstance(obj.get("pod"), Mapping):
        raise PodMisfit("pod", "a line needs the pod that is to be scheduled")
    for key in _ARGS if plugins is not None else ():
        if key in obj:
            raise PodMisfit(key, "args stand in the profile; leave it out of the line")
    pod = _pod(obj["pod"], "pod")
    nodes = _nodes(obj)
    pods, nominated = _pods(obj)
    snapshot = Snapshot(nodes, pods.values(), _cluster(obj))
    args = _args(obj)
    fit = _strategies(obj)
    question = Question(obj.get("id"), pod, snapshot, nominated, {**args, "NodeResourcesFit": fit[STRATEGIES[0]]}, fit)
    question.scored = _scored(obj, snapshot)
    question.changes = _changes(obj, snapshot, pods)
    question.only = _only(obj, plugins or frozenset())
    return question


def _pod(obj: Obj, where: str) -> Pod:
    check(obj, shapes.PodShape, where)
    return read_pod(obj, where)


def _nodes(obj: Obj) -> list[Node]:
    found: dict[str, Node] = {}
    for at, node in enumerate(items(obj, "nodes", "")):
        check(node, shapes.NodeShape, f"nodes[{at}]")
        read_ = read_node(node, f"nodes[{at}]")
        if read_.name in found:
            raise PodMisfit(f"nodes[{at}].metadata.name", f"{read_.name!r} stands there twice")
        found[read_.name] = read_
    return list(found.values())


def _pods(obj: Obj) -> tuple[dict[str, Pod], dict[str, list[Pod]]]:
    found: dict[str, Pod] = {}
    nominated: dict[str, list[Pod]] = {}
    for at, one in enumerate(items(obj, "pods", "")):
        pod = _pod(one, f"pods[{at}]")
        if pod.identity in found:
            raise PodMisfit(f"pods[{at}].metadata", f"{pod.identity!r} stands there twice")
        found[pod.identity] = pod
        if not pod.node_name and pod.nominated_node and not pod.finished:
            nominated.setdefault(pod.nominated_node, []).append(pod)
    return found, nominated


def _cluster(obj: Obj) -> ClusterTables:
    cluster = ClusterTables()
    put: dict[str, Callable[[Obj, str], None]] = {
        "namespaces": cluster.put_namespace,
        "services": cluster.put_service,
        "podDisruptionBudgets": cluster.put_budget,
        "persistentVolumes": cluster.put_volume,
        "persistentVolumeClaims": cluster.put_claim,
        "storageClasses": cluster.put_class,
        "csiNodes": cluster.put_csi_node,
        "volumeAttachments": cluster.put_attachment,
        "resourceClaims": cluster.devices.put_claim,
        "resourceSlices": cluster.devices.put_slice,
        "deviceClasses": cluster.devices.put_class,
    }
    for name, take in put.items():
        for at, one in enumerate(items(obj, name, "")):
            if name in _SHAPES:
                check(one, _SHAPES[name], f"{name}[{at}]")
            take(one, f"{name}[{at}]")
    kinds = {
        "replicaSets": "ReplicaSet",
        "statefulSets": "StatefulSet",
        "replicationControllers": "ReplicationController",
    }
    for name, kind in kinds.items():
        for at, one in enumerate(items(obj, name, "")):
            if name in _SHAPES:
                check(one, _SHAPES[name], f"{name}[{at}]")
            cluster.put_controller(kind, one, f"{name}[{at}]")
    return cluster


def _args(obj: Obj) -> dict[str, Args]:
    defaults = tuple(items(obj, "defaultConstraints", ""))
    for at, constraint in enumerate(defaults):
        check(constraint, shapes.ConstraintShape, f"defaultConstraints[{at}]")
    kind = text(obj, "defaultingType", "") or ("List" if defaults else "System")
    if kind not in ("System", "List"):
        raise PodMisfit("defaultingType", f"{kind!r} is neither System nor List")
    balanced = _resources(obj, "balancedResources")
    weight = number(obj, "hardPodAffinityWeight", "", default=1)
    return {
        "PodTopologySpread": _checked(
            PodTopologySpreadArgs(defaulting_type="List" if kind == "List" else "System", default_constraints=defaults)
        ),
        "InterPodAffinity": _checked(InterPodAffinityArgs(hard_pod_affinity_weight=weight)),
        "NodeResourcesBalancedAllocation": _checked(
            NodeResourcesBalancedAllocationArgs(resources=balanced), {"resources": "balancedResources"}
        ),
    }


def _strategies(obj: Obj) -> dict[Strategy, NodeResourcesFitArgs]:
    resources = _resources(obj, "fitResources")
    shape = _converted(obj, "rtcrShape", tuple[UtilizationPoint, ...]) or _STRAIGHT
    found = {}
    for kind in STRATEGIES:
        ratio = Ratio(shape) if kind == "RequestedToCapacityRatio" else None
        strategy = ScoringStrategy(type=kind, resources=resources, requested_to_capacity_ratio=ratio)
        found[kind] = _checked(NodeResourcesFitArgs(scoring_strategy=strategy), _FIT_NAMES)
    return found


def _resources(obj: Obj, name: str) -> tuple[ResourceSpec, ...]:
    return _converted(obj, name, tuple[ResourceSpec, ...]) or CPU_AND_MEMORY


def _converted(obj: Obj, name: str, kind: type[T]) -> T | None:
    if obj.get(name) is None:
        return None
    try:
        return msgspec.convert(obj[name], kind)
    except msgspec.ValidationError as error:
        raise misfit(error, name) from error


A = TypeVar("A", bound=Args)


def _checked(args: A, names: Mapping[str, str] | None = None) -> A:
    """Return args that are in order; `PodMisfit` names the field of the line: `names` has those that are called
    otherwise in the args.
    """
    for problem in args.check():
        where, _, what = problem.partition(": ")
        for field_, name in (names or {}).items():
            where = where.replace(field_, name)
        raise PodMisfit(where, what)
    return args


def _scored(obj: Obj, snapshot: Snapshot) -> list[int]:
    if obj.get("filteredNodes") is None:
        return list(range(len(snapshot)))
    rows = []
    for at, name in enumerate(strings(obj, "filteredNodes", "")):
        if name not in snapshot.row:
            raise PodMisfit(f"filteredNodes[{at}]", f"there is no node {name!r} in nodes")
        rows.append(snapshot.row[name])
    return rows


def _changes(obj: Obj, snapshot: Snapshot, pods: Mapping[str, Pod]) -> list[PodChange]:
    by_name = {pod.key: pod for pod in pods.values()} | {pod.name: pod for pod in pods.values()} | dict(pods)
    found = []
    for at, one in enumerate(items(obj, "simulate", "")):
        where = f"simulate[{at}]"
        op, node, other = text(one, "op", where), text(one, "node", where), one.get("pod")
        if op not in ("add", "remove"):
            raise PodMisfit(f"{where}.op", f"{op!r} is neither add nor remove")
        if isinstance(other, str):
            if other not in by_name:
                raise PodMisfit(f"{where}.pod", f"there is no pod {other!r} in pods")
            pod = by_name[other]
        elif isinstance(other, Mapping):
            pod = _pod(other, f"{where}.pod")
        else:
            raise PodMisfit(f"{where}.pod", "expected a pod, or the name of one in pods")
        node = node or pod.node_name
        if node not in snapshot.row:
            raise PodMisfit(f"{where}.node", f"there is no node {node!r} in nodes")
        found.append(PodChange(op == "add", pod, node))
    return found


def _only(obj: Obj, plugins: frozenset[str]) -> frozenset[str] | None:
    if obj.get("only") is None:
        return None
    found = strings(obj, "only", "")
    known = {*plugins, *IN_TREE, *NOT_HERE, *(f"NodeResourcesFit:{kind}" for kind in STRATEGIES[1:])}
    for at, name in enumerate(found):
        if name not in known:
            raise PodMisfit(f"only[{at}]", f"there is no plugin {name!r}")
    return frozenset(found)
