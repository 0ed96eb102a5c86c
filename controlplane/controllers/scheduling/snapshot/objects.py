"""Reads pods and nodes as the scheduler sees them: parsed once, asked often.

In: Kubernetes objects as dicts, nothing defaulted. Out: `Pod` and `Node`, or `PodMisfit` that names the field. What the
rules treat as a pod's own fault (a selector that does not parse) is kept as text in `…_error`, since a plugin answers
it with a status of that pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controlplane.controllers.scheduling.devices.pod_claims import PodResourceClaim, read_pod_claims
from controlplane.controllers.scheduling.snapshot.affinity import PodAffinity, pod_affinity
from controlplane.controllers.scheduling.snapshot.volume_sources import ClaimName, InlineVolume, read_mounts
from controlplane.kube import pod_requests as asked
from controlplane.kube.candidate_pods import SOURCE, SOURCE_UID, UNMARKED, is_candidates
from controlplane.kube.kinds import Json
from controlplane.kube.pod_fields import (
    Obj,
    PodMisfit,
    flag,
    instant,
    items,
    number,
    section,
    string_map,
    strings,
    text,
)
from controlplane.kube.pod_groups import GROUP_NAME, QUORUM
from controlplane.kube.selectors import NodeTerm, is_empty_term, node_term, node_terms
from controlplane.kube.tolerations import Taint, Toleration, taints, tolerations

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
NATIVE = ("cpu", "memory", "ephemeral-storage")
FINISHED = frozenset({"Succeeded", "Failed"})


class ControllerRef(NamedTuple):
    """The owner that manages a pod."""

    api_version: str
    kind: str
    name: str


class HostPort(NamedTuple):
    """A port of the node that a container asks for; ip "0.0.0.0" means all addresses."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class NodeRules:
    """What a pod says about nodes. None and empty differ: `required` None asks nothing, () matches nothing.

    `preferred` holds (weight, term), without those of weight 0 and the empty ones; None where the field is absent.
    """

    selector: tuple[tuple[str, str], ...] | None = None
    required: tuple[NodeTerm, ...] | None = None
    raw_required: tuple[Obj, ...] = ()
    preferred: tuple[tuple[int, NodeTerm], ...] | None = None


@dataclass(slots=True, eq=False)
class Pod:
    """One pod. `requests` and the non-zero amounts are integers as a node counts them (cpu in thousandths).

    `asked` is what its spec alone asks for; the others count what its status says of a resize as well. `group` names
    its PodGroup, `least` is how many of it start together, for a candidate whose PodGroup is not here, `source` the
    cluster that a candidate comes from (`UNMARKED`: it does not say), `source_uid` which one of that
    name. `mounts` are the claims and the disks that it names itself, in its own order; `claims` those of them that are
    claims."""

    namespace: str
    name: str
    uid: str
    labels: dict[str, str]
    node_name: str
    nominated_node: str
    priority: int
    preemption_policy: str
    scheduler_name: str
    terminating: bool
    phase: str
    started: float | None
    preempted: bool
    asked: dict[str, int]
    requests: dict[str, int]
    nonzero: tuple[int, int]
    tolerations: tuple[Toleration, ...]
    nodes: NodeRules
    affinity: PodAffinity
    spread: tuple[Json, ...]
    ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    containers: int
    mounts: tuple[ClaimName | InlineVolume, ...]
    claims: tuple[ClaimName, ...]
    controller: ControllerRef | None
    spec: Obj = field(repr=False)
    group: str = ""
    least: int = 0
    source: str = ""
    source_uid: str = ""
    generation: int = 0
    resource_claims: tuple[PodResourceClaim, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def identity(self) -> str:
        """What tells this pod from others: its UID, or its place where it has none."""
        return self.uid or self.key

    @property
    def finished(self) -> bool:
        """Whether it holds nothing on its node any more."""
        return self.phase in FINISHED


def read_pod(obj: Obj, where: str = "pod") -> Pod:
    """Return a pod; `PodMisfit` names the field that cannot be read."""
    meta, spec, status = section(obj, "metadata", where), section(obj, "spec", where), section(obj, "status", where)
    in_meta, in_spec, in_status = f"{where}.metadata", f"{where}.spec", f"{where}.status"
    containers = _containers(spec, in_spec)
    for listed in ("containerStatuses", "initContainerStatuses"):
        items(status, listed, in_status)
    section(section(status, "resources", in_status), "requests", f"{in_status}.resources")
    try:
        plain, cpu, memory = asked.scheduled(spec, status)
        resized = any(status.get(field_) for field_ in ("containerStatuses", "initContainerStatuses", "resources"))
        wanted = asked.whole(asked.effective(spec)) if resized else plain
    except ValueError as error:
        at, _, problem = str(error).removeprefix("spec.").partition(": ")
        raise PodMisfit(f"{in_spec}.{at}", problem) from error
    namespace, notes = text(meta, "namespace", in_meta), section(meta, "annotations", in_meta)
    name, least = text(meta, "name", in_meta), text(notes, QUORUM, f"{in_meta}.annotations")
    mounts = read_mounts(items(spec, "volumes", in_spec), name, in_spec)
    return Pod(
        namespace=namespace,
        name=name,
        uid=text(meta, "uid", in_meta),
        labels=string_map(meta, "labels", in_meta),
        node_name=text(spec, "nodeName", in_spec),
        nominated_node=text(status, "nominatedNodeName", in_status),
        priority=number(spec, "priority", in_spec),
        preemption_policy=text(spec, "preemptionPolicy", in_spec),
        scheduler_name=text(spec, "schedulerName", in_spec),
        terminating=bool(text(meta, "deletionTimestamp", in_meta)),
        phase=text(status, "phase", in_status),
        started=instant(status, "startTime", in_status),
        preempted=_preempted(items(status, "conditions", in_status)),
        asked=wanted,
        requests=plain,
        nonzero=(cpu, memory),
        tolerations=tolerations(items(spec, "tolerations", in_spec)),
        nodes=_node_rules(spec, in_spec),
        affinity=pod_affinity(spec, namespace, in_spec),
        spread=tuple(items(spec, "topologySpreadConstraints", in_spec)),
        ports=_ports(spec, in_spec),
        images=_images(spec, containers, in_spec),
        containers=len(containers),
        mounts=mounts,
        claims=tuple(one for one in mounts if isinstance(one, ClaimName)),
        controller=_controller(items(meta, "ownerReferences", in_meta), in_meta),
        spec=spec,
        generation=number(meta, "generation", in_meta),
        group=text(notes, GROUP_NAME, f"{in_meta}.annotations"),
        resource_claims=read_pod_claims(spec, status, f"{namespace}/{name}", where),
        least=int(least) if least.isascii() and least.isdigit() and len(least) < 10 else 0,
        **(_source(notes, f"{in_meta}.annotations") if is_candidates(meta) else {}),
    )


def _source(notes: Obj, where: str) -> dict[str, str]:
    """Return which cluster a candidate's Pod comes from; one whose name is not said is none that is known."""
    name = text(notes, SOURCE, where)
    return {"source": name or UNMARKED, "source_uid": text(notes, SOURCE_UID, where) if name else ""}


@dataclass(slots=True, eq=False)
class Node:
    """One node. `allocatable` holds integers (cpu in thousandths); `images` maps each name to its size in bytes."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: dict[str, int]
    images: dict[str, int]


def read_node(obj: Obj, where: str = "node") -> Node:
    """Return a node; `PodMisfit` names the field that cannot be read."""
    meta, spec, status = section(obj, "metadata", where), section(obj, "spec", where), section(obj, "status", where)
    try:
        allocatable = asked.whole(asked.amounts(section(status, "allocatable", f"{where}.status"), "allocatable"))
    except ValueError as error:
        at, _, problem = str(error).partition(": ")
        raise PodMisfit(f"{where}.status.{at}", problem) from error
    images: dict[str, int] = {}
    for count, image in enumerate(items(status, "images", f"{where}.status")):
        size = number(image, "sizeBytes", f"{where}.status.images[{count}]")
        for name in strings(image, "names", f"{where}.status.images[{count}]"):
            images.setdefault(name, size)
    name = text(meta, "name", f"{where}.metadata")
    if not name:
        raise PodMisfit(f"{where}.metadata.name", "a node needs a name")
    return Node(
        name=name,
        labels=string_map(meta, "labels", f"{where}.metadata"),
        taints=taints(items(spec, "taints", f"{where}.spec")),
        unschedulable=flag(spec, "unschedulable", f"{where}.spec"),
        allocatable=allocatable,
        images=images,
    )


def is_extended(resource: str) -> bool:
    """Return whether a resource is domain-prefixed and not Kubernetes' own."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def is_scalar(resource: str) -> bool:
    """Return whether the scheduler counts a resource beside cpu, memory and ephemeral storage."""
    return (
        is_extended(resource)
        or "kubernetes.io/" in resource
        or resource.startswith(("hugepages-", "attachable-volumes-"))
    )


def _containers(spec: Obj, where: str) -> list[Json]:
    found = [*items(spec, "initContainers", where), *items(spec, "containers", where)]
    for container in found:
        inside = f"{where}.containers[{container.get('name', '')}]"
        section(section(container, "resources", inside), "requests", f"{inside}.resources")
    section(section(spec, "resources", where), "requests", f"{where}.resources")
    section(spec, "overhead", where)
    return found


def _node_rules(spec: Obj, where: str) -> NodeRules:
    selector = None if spec.get("nodeSelector") is None else string_map(spec, "nodeSelector", where)
    affinity = section(section(spec, "affinity", where), "nodeAffinity", f"{where}.affinity")
    return NodeRules(
        tuple(sorted(selector.items())) if selector is not None else None,
        *_affinity_rules(affinity, f"{where}.affinity.nodeAffinity"),
    )


def _affinity_rules(affinity: Obj, where: str) -> tuple[Any, tuple[Obj, ...], Any]:
    required: tuple[NodeTerm, ...] | None = None
    raw: tuple[Obj, ...] = ()
    field_ = "requiredDuringSchedulingIgnoredDuringExecution"
    if affinity.get(field_) is not None:
        raw = tuple(items(section(affinity, field_, where), "nodeSelectorTerms", f"{where}.{field_}"))
        for at, term in enumerate(raw):
            _check_term(term, f"{where}.{field_}.nodeSelectorTerms[{at}]")
        required = node_terms(raw)
    preferred = None
    field_ = "preferredDuringSchedulingIgnoredDuringExecution"
    if affinity.get(field_) is not None:
        found = []
        for at, entry in enumerate(items(affinity, field_, where)):
            inside = f"{where}.{field_}[{at}]"
            weight, preference = number(entry, "weight", inside), section(entry, "preference", inside)
            _check_term(preference, f"{inside}.preference")
            if weight and not is_empty_term(preference):
                found.append((weight, node_term(preference, f"{inside}.preference")))
        preferred = tuple(found)
    return required, raw, preferred


def node_affinity(affinity: Obj, where: str) -> NodeRules:
    """Return the rules of a nodeAffinity by itself (`addedAffinity` of a profile); `PodMisfit` names the field."""
    return NodeRules(None, *_affinity_rules(affinity, where))


def _check_term(term: Obj, where: str) -> None:
    for part in ("matchExpressions", "matchFields"):
        for at, expression in enumerate(items(term, part, where)):
            values = expression.get("values")
            if values is not None and not isinstance(values, list):
                raise PodMisfit(f"{where}.{part}[{at}].values", "expected a list of strings")


def _ports(spec: Obj, where: str) -> tuple[HostPort, ...]:
    sidecars = [c for c in items(spec, "initContainers", where) if c.get("restartPolicy") == "Always"]
    found = []
    for container in [*items(spec, "containers", where), *sidecars]:
        inside = f"{where}.containers[{container.get('name', '')}]"
        for at, port in enumerate(items(container, "ports", inside)):
            at_port = f"{inside}.ports[{at}]"
            if (host := number(port, "hostPort", at_port)) > 0:
                ip, protocol = text(port, "hostIP", at_port), text(port, "protocol", at_port)
                found.append(HostPort(ip or "0.0.0.0", protocol or "TCP", host))  # noqa: S104 - the API's wildcard
    return tuple(found)


def _images(spec: Obj, containers: list[Json], where: str) -> tuple[str, ...]:
    volumes = [section(v, "image", where) for v in items(spec, "volumes", where) if v.get("image") is not None]
    named = [str(c.get("image") or "") for c in containers] + [str(v.get("reference") or "") for v in volumes]
    return tuple(name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in named)


def _controller(owners: list[Json], where: str) -> ControllerRef | None:
    for at, owner in enumerate(owners):
        inside = f"{where}.ownerReferences[{at}]"
        if flag(owner, "controller", inside):
            return ControllerRef(
                text(owner, "apiVersion", inside), text(owner, "kind", inside), text(owner, "name", inside)
            )
    return None


def _preempted(conditions: list[Json]) -> bool:
    for condition in conditions:
        if condition.get("type") == "DisruptionTarget":
            return condition.get("status") == "True" and condition.get("reason") == "PreemptionByScheduler"
    return False
