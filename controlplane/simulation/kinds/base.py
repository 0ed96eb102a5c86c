"""What a simulated cluster serves: for each kind its subresource, short names, columns of `kubectl get` and merge keys.

Pure data. `DEFAULT_KINDS` is what a cluster with Kueue and JobSet has installed, as far as this system touches it.
Columns and list keys are those of the kinds' own definitions (`additionalPrinterColumns`,
`x-kubernetes-list-map-keys`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controlplane.job_kinds import SIMULATED
from controlplane.job_kinds.base import JobKind
from controlplane.kube import kinds
from controlplane.kube.kinds import NODES, PODS, WORKLOAD_PRIORITY_CLASSES, Json, Kind
from controlplane.simulation.apiserver.cells import (
    event_count,
    event_last_seen,
    event_object,
    event_source,
    job_completions,
    job_containers,
    job_duration,
    job_images,
    job_selector,
    job_status,
    node_roles,
    node_status,
    pod_ip,
    pod_node,
    pod_ready,
    pod_restarts,
    pod_status,
    secret_size,
)

CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
CORE_EVENTS = Kind("", "v1", "Event", "events")

BUILTIN_GROUPS = frozenset(
    {
        "",
        "apps",
        "batch",
        "coordination.k8s.io",
        "events.k8s.io",
        "policy",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)

# The lists of every object's metadata: owner references by uid; an empty tuple marks a set of plain values.
METADATA_LISTS: Mapping[str, tuple[str, ...]] = {"metadata.ownerReferences": ("uid",), "metadata.finalizers": ()}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`: a JSONPath into the object, or a function of the object and the present time.

    `priority` above 0 shows only with `-o wide`; `type` `date` is printed as an age.
    """

    name: str
    path: str = ""
    type: str = "string"
    priority: int = 0
    value: Callable[[Json, datetime], Any] | None = None


_IN_ALL = frozenset(
    {("", "pods"), ("", "services"), ("batch", "jobs"), ("batch", "cronjobs")}
    | {("apps", plural) for plural in ("deployments", "replicasets", "statefulsets", "daemonsets")}
)
"""What kube-apiserver has in the category `all`: built-in kinds, and none of Kueue's."""


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind and the traits that its definition gives it on the server.

    `list_map_keys` maps dotted paths (indices left out) to the merge keys of that list; an empty tuple means a set of
    plain values. `strategic_keys` are further lists that a strategic merge patch merges, but not an apply. `generation`
    is False for kinds whose objects carry none; `selectable` are the field selectors beyond metadata.name and
    metadata.namespace; `stored_as` names the kind whose objects this one shows in another version. `named_first`: the
    name is the first column.
    """

    kind: Kind
    status_subresource: bool = True
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    list_map_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    strategic_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generation: bool = True
    selectable: tuple[str, ...] = ()
    stored_as: Kind | None = None
    named_first: bool = True

    @property
    def builtin(self) -> bool:
        """Whether the API server knows the kind itself, without a CustomResourceDefinition."""
        return self.kind.group in BUILTIN_GROUPS

    @property
    def categories(self) -> tuple[str, ...]:
        """The words that stand for several kinds at once, such as `kubectl get all`."""
        return ("all",) if (self.kind.group, self.kind.plural) in _IN_ALL else ()

    @property
    def stored(self) -> Kind:
        """The kind under which the store keeps the objects."""
        return self.stored_as or self.kind


AGE = Column("Age", ".metadata.creationTimestamp", "date")
_CONDITIONS = {"status.conditions": ("type",)}


def _condition(column: str, condition: str) -> Column:
    return Column(column, f".status.conditions[?(@.type=='{condition}')].status")


def pod_lists(prefix: str) -> dict[str, tuple[str, ...]]:
    """Return the merge keys of a pod spec's lists, where the pod spec lies at `prefix`."""
    keys: dict[str, tuple[str, ...]] = {f"{prefix}.volumes": ("name",), f"{prefix}.schedulingGates": ("name",)}
    for containers in ("containers", "initContainers"):
        at = f"{prefix}.{containers}"
        keys |= {
            at: ("name",),
            f"{at}.env": ("name",),
            f"{at}.ports": ("containerPort", "protocol"),
            f"{at}.volumeMounts": ("mountPath",),
        }
    return keys


def _event_columns(message: str) -> tuple[Column, ...]:
    """Return the columns of Events; their generated names stand at the end, and only with `-o wide`."""
    return (
        Column("Last Seen", value=event_last_seen),
        Column("Type", ".type"),
        Column("Reason", ".reason"),
        Column("Object", value=event_object),
        Column("Message", message),
        Column("Source", value=event_source, priority=1),
        Column("Count", value=event_count, type="integer", priority=1),
        Column("Name", ".metadata.name", priority=1),
    )


_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def served(job: JobKind) -> ServedKind:
    """Return a kind of job as its definition has an API server show it."""
    keys: dict[str, tuple[str, ...]] = {**_CONDITIONS, **job.list_map_keys}
    for prefix in job.pod_specs:
        keys |= pod_lists(prefix)
    columns = (*(Column(name, path, type_) for name, path, type_ in job.columns), AGE)
    return ServedKind(job.kind, short_names=job.short_names, columns=columns, list_map_keys=keys)


DEFAULT_KINDS: tuple[ServedKind, ...] = (
    ServedKind(
        kinds.NAMESPACES,
        short_names=("ns",),
        columns=(Column("Status", ".status.phase"), AGE),
        generation=False,
        selectable=("status.phase",),
    ),
    ServedKind(
        kinds.SECRETS,
        status_subresource=False,
        columns=(Column("Type", ".type"), Column("Data", value=secret_size), AGE),
        generation=False,
        selectable=("type",),
    ),
    ServedKind(
        kinds.LEASES,
        status_subresource=False,
        columns=(Column("Holder", ".spec.holderIdentity"), AGE),
        generation=False,
    ),
    ServedKind(
        CONFIG_MAPS,
        status_subresource=False,
        short_names=("cm",),
        columns=(Column("Data", value=secret_size), AGE),
        generation=False,
    ),
    ServedKind(
        PODS,
        short_names=("po",),
        columns=(
            Column("Ready", value=pod_ready),
            Column("Status", value=pod_status),
            Column("Restarts", value=pod_restarts),
            AGE,
            Column("IP", value=pod_ip, priority=1),
            Column("Node", value=pod_node, priority=1),
        ),
        list_map_keys={"status.conditions": ("type",), **pod_lists("spec")},
        selectable=("spec.nodeName", "spec.schedulerName", "status.phase"),
    ),
    ServedKind(
        NODES,
        short_names=("no",),
        columns=(
            Column("Status", value=node_status),
            Column("Roles", value=node_roles),
            AGE,
            Column("Version", ".status.nodeInfo.kubeletVersion"),
        ),
        list_map_keys=_CONDITIONS,
        generation=False,
        selectable=("spec.unschedulable",),
    ),
    ServedKind(
        kinds.EVENTS,
        status_subresource=False,
        short_names=("ev",),
        columns=_event_columns(".note"),
        named_first=False,
        generation=False,
        selectable=("reason", "type", *(f"regarding.{name}" for name in _INVOLVED)),
    ),
    ServedKind(
        CORE_EVENTS,
        status_subresource=False,
        short_names=("ev",),
        columns=_event_columns(".message"),
        named_first=False,
        generation=False,
        selectable=(
            "reason",
            "type",
            "reportingComponent",
            "source",
            *(f"involvedObject.{name}" for name in _INVOLVED),
        ),
        stored_as=kinds.EVENTS,
    ),
    ServedKind(
        kinds.JOBS,
        columns=(
            Column("Status", value=job_status),
            Column("Completions", value=job_completions),
            Column("Duration", value=job_duration),
            AGE,
            Column("Containers", value=job_containers, priority=1),
            Column("Images", value=job_images, priority=1),
            Column("Selector", value=job_selector, priority=1),
        ),
        list_map_keys=pod_lists("spec.template.spec"),
        strategic_keys=_CONDITIONS,
        selectable=("status.successful",),
    ),
    *(served(one) for one in SIMULATED.values() if one.kind != kinds.JOBS),
    *(ServedKind(one, status_subresource=False) for kind in SIMULATED.values() for one in kind.runtimes),
    ServedKind(
        kinds.WORKLOADS,
        short_names=("kwl", "wl", "kueueworkload", "kueueworkloads"),  # wl: that of earlier versions
        columns=(
            Column("Queue", ".spec.queueName"),
            Column("Reserved in", ".status.admission.clusterQueue"),
            _condition("Admitted", "Admitted"),
            _condition("Finished", "Finished"),
            AGE,
        ),
        list_map_keys={
            **_CONDITIONS,
            "spec.podSets": ("name",),
            "spec.preemptionGates": ("name",),
            "status.admission.podSetAssignments": ("name",),
            "status.admissionChecks": ("name",),
            "status.preemptionGates": ("name",),
            "status.reclaimablePods": ("name",),
            "status.resourceRequests": ("name",),
            "status.schedulingStats.evictions": ("reason", "underlyingCause"),
            "status.unhealthyNodes": ("name",),
            **pod_lists("spec.podSets.template.spec"),
        },
    ),
    ServedKind(kinds.ADMISSION_CHECKS, short_names=("ac",), columns=(AGE,), list_map_keys=_CONDITIONS),
    ServedKind(kinds.MULTIKUEUE_CONFIGS, status_subresource=False, short_names=("mkconf",), columns=(AGE,)),
    ServedKind(
        kinds.MULTIKUEUE_CLUSTERS,
        short_names=("mkc",),
        columns=(_condition("Connected", "Active"), AGE),
        list_map_keys=_CONDITIONS,
    ),
    ServedKind(kinds.CLUSTER_PROFILES, columns=(AGE,), list_map_keys=_CONDITIONS),
    ServedKind(
        kinds.CLUSTER_QUEUES,
        short_names=("cq",),
        columns=(
            Column("Cohort", ".spec.cohortName"),
            Column("Strategy", ".spec.queueingStrategy", priority=1),
            Column("Pending Workloads", ".status.pendingWorkloads", "integer"),
            Column("Admitted Workloads", ".status.admittedWorkloads", "integer", 1),
        ),
        list_map_keys={
            **_CONDITIONS,
            "spec.admissionChecksStrategy.admissionChecks": ("name",),
            "spec.admissionChecksStrategy.admissionChecks.onFlavors": (),
            "status.flavorsReservation": ("name",),
            "status.flavorsReservation.resources": ("name",),
            "status.flavorsUsage": ("name",),
            "status.flavorsUsage.resources": ("name",),
        },
    ),
    ServedKind(
        kinds.LOCAL_QUEUES,
        short_names=("queue", "queues", "lq"),
        columns=(
            Column("ClusterQueue", ".spec.clusterQueue"),
            Column("Pending Workloads", ".status.pendingWorkloads", "integer"),
            Column("Admitted Workloads", ".status.admittedWorkloads", "integer"),
        ),
        list_map_keys={
            **_CONDITIONS,
            "status.flavorsReservation": ("name",),
            "status.flavorsReservation.resources": ("name",),
            "status.flavorsUsage": ("name",),
            "status.flavorsUsage.resources": ("name",),
        },
    ),
    ServedKind(
        kinds.COHORTS, short_names=("co",), columns=(AGE,), list_map_keys={"spec.resourceGroups.flavors": ("name",)}
    ),
    ServedKind(
        kinds.RESOURCE_FLAVORS, status_subresource=False, short_names=("flavor", "flavors", "rf"), columns=(AGE,)
    ),
    ServedKind(kinds.TOPOLOGIES, status_subresource=False, short_names=("topo",), columns=(AGE,)),
    ServedKind(
        kinds.LIMIT_RANGES,
        status_subresource=False,
        short_names=("limits",),
        columns=(Column("Created At", ".metadata.creationTimestamp"),),
        generation=False,
    ),
    ServedKind(
        kinds.RUNTIME_CLASSES,
        status_subresource=False,
        columns=(Column("Handler", ".handler"), AGE),
        generation=False,
    ),
    ServedKind(
        kinds.PRIORITY_CLASSES,
        status_subresource=False,
        short_names=("pc",),
        columns=(Column("Value", ".value", "integer"), AGE),
    ),
    ServedKind(
        WORKLOAD_PRIORITY_CLASSES,
        status_subresource=False,
        short_names=("wpc",),
        columns=(Column("Value", ".value", "integer"),),
    ),
)
