"""The Kubernetes terms that every controller uses: a kind, an object's place, one request.

Pure data, so that the core can say *what* is to be written without knowing how it travels. The shell
(`controlplane.clusters`) turns a `Request` into HTTP; the simulated clusters turn HTTP back into objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

JSON_TYPE = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Json = dict[str, Any]
Verb = Literal["create", "patch", "delete"]


_LONGEST_NAME = 253  # Kubernetes' own, of names and UIDs alike (apimachinery, pkg/api/validation/path)


def is_path_part(text: str) -> bool:
    """Whether a text may be a name, namespace or UID: one part of a path, which leads nowhere else."""
    usual = "/" not in text and "%" not in text and text not in (".", "..")
    return usual and len(text) <= _LONGEST_NAME and text.isprintable()


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource as an API server serves it; `group` is empty for the core group.

    `view` names another look at the same objects, which is watched by itself: what one selection shows says nothing of
    what the other one does."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    view: str = ""

    @property
    def api_version(self) -> str:
        """`group/version`, or only the version in the core group: what `apiVersion` holds."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """`plural.group`, as kubectl and RBAC spell it, and the view; unique among the kinds of one cluster."""
        name = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{name}@{self.view}" if self.view else name

    @property
    def gvk(self) -> str:
        """Go's spelling (`batch/v1, Kind=Job`), which Kueue uses in annotations and messages."""
        return f"{self.api_version}, Kind={self.kind}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """Return the URL path of the collection, of one object, or of its subresource."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """Where an object is: its kind, namespace (empty for a cluster-scoped one) and name."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.kind} {place}"


@dataclass(frozen=True, slots=True)
class Request:
    """One write to one cluster, with the preconditions that make it safe to repeat.

    `uid` and `resource_version` are preconditions: of a delete in its options, of a patch in the body's metadata. A
    create with a `subresource` is a POST to it (`pods/binding`) with the preconditions in the body. `owner_label` is
    the ownership label, `(label, value)`: whatever a create finds in its place, or a delete removes, must carry it.
    `maker` is an annotation that says for whom an object was made, and its values: what a create finds must not have
    another one.
    `grace`: within how many seconds what is deleted stops, None for as it says itself."""

    verb: Verb
    ref: ObjectRef
    body: Json = field(default_factory=dict)
    subresource: str = ""
    content_type: str = MERGE_PATCH
    uid: str = ""
    resource_version: str = ""
    owner_label: tuple[str, str] | None = None
    maker: tuple[str, ...] = ()
    propagation: str = "Background"
    field_manager: str = ""
    grace: int | None = None


SECRETS = Kind("", "v1", "Secret", "secrets")
NAMESPACES = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
LIMIT_RANGES = Kind("", "v1", "LimitRange", "limitranges")
RUNTIME_CLASSES = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False)
LEASES = Kind("coordination.k8s.io", "v1", "Lease", "leases")
EVENTS = Kind("events.k8s.io", "v1", "Event", "events")
JOBS = Kind("batch", "v1", "Job", "jobs")
JOBSETS = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
PIPELINE_RUNS = Kind("tekton.dev", "v1", "PipelineRun", "pipelineruns")
WORKLOADS = Kind("kueue.x-k8s.io", "v1beta2", "Workload", "workloads")
ADMISSION_CHECKS = Kind("kueue.x-k8s.io", "v1beta2", "AdmissionCheck", "admissionchecks", namespaced=False)
MULTIKUEUE_CONFIGS = Kind("kueue.x-k8s.io", "v1beta2", "MultiKueueConfig", "multikueueconfigs", namespaced=False)
MULTIKUEUE_CLUSTERS = Kind("kueue.x-k8s.io", "v1beta2", "MultiKueueCluster", "multikueueclusters", namespaced=False)
COHORTS = Kind("kueue.x-k8s.io", "v1beta2", "Cohort", "cohorts", namespaced=False)
CLUSTER_QUEUES = Kind("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
LOCAL_QUEUES = Kind("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues")
CLUSTER_PROFILES = Kind("multicluster.x-k8s.io", "v1alpha1", "ClusterProfile", "clusterprofiles")
PODS = Kind("", "v1", "Pod", "pods")
NODES = Kind("", "v1", "Node", "nodes", namespaced=False)
SERVICES = Kind("", "v1", "Service", "services")
REPLICATION_CONTROLLERS = Kind("", "v1", "ReplicationController", "replicationcontrollers")
PERSISTENT_VOLUMES = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
REPLICA_SETS = Kind("apps", "v1", "ReplicaSet", "replicasets")
STATEFUL_SETS = Kind("apps", "v1", "StatefulSet", "statefulsets")
POD_DISRUPTION_BUDGETS = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
POD_GROUPS = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
CSI_NODES = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False)
VOLUME_ATTACHMENTS = Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", namespaced=False)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
WORKLOAD_PRIORITY_CLASSES = Kind(
    "kueue.x-k8s.io", "v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False
)
RESOURCE_CLAIMS = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
RESOURCE_CLAIM_TEMPLATES = Kind("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates")
RESOURCE_SLICES = Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False)
DEVICE_CLASSES = Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)
RESOURCE_FLAVORS = Kind("kueue.x-k8s.io", "v1beta2", "ResourceFlavor", "resourceflavors", namespaced=False)
TOPOLOGIES = Kind("kueue.x-k8s.io", "v1beta2", "Topology", "topologies", namespaced=False)
PODS_OF_TOPOLOGIES = Kind("", "v1", "Pod", "pods", view="topologies")
"""Pods that have not ended, as topology-aware scheduling counts and places them."""
PODS_OF_SLICES = Kind("", "v1", "Pod", "pods", view="slices")
"""Pods of jobs that have not ended, as elastic jobs count them and let them run."""


_LARGEST_VERSION = (1 << 63) - 1  # of etcd, and of the log's column
_DIGITS = len(str(_LARGEST_VERSION))


def meta(obj: Mapping[str, Any]) -> Json:
    """Return an object's metadata, empty where there is none."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def nested(obj: Mapping[str, Any], *path: str) -> Json:
    """Return the object at a path of fields, empty where any of them is absent, null or empty.

    Raises: AttributeError if one of them is something else than an object.
    """
    found: Any = obj
    for name in path:
        found = found.get(name) or {}
    return found if found is not obj else dict(obj)


def version_number(version: str) -> int | None:
    """Return a resourceVersion as a number, as etcd counts; None for what is none. Nothing else may be compared by
    size.
    """
    if not (version.isascii() and version.isdigit() and len(version) <= _DIGITS):
        return None
    number = int(version)
    return number if number <= _LARGEST_VERSION else None


def event_name(about: str, suffix: str) -> str:
    """Return the name of an Event about an object: its name, cut so that what is left is a DNS name still, and what
    tells Events apart.
    """
    return f"{about[:200].rstrip('.-')}.{suffix}"
