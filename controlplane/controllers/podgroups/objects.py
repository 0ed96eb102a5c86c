"""Reads the Kubernetes objects that PodGroup ownership looks at: dicts in, typed facts out, or `OwnerMisfit` with the
field that is wrong.

Only what decides is kept: of a pod its scheduler, group, queue and controlling owner, of an owner its own controlling
owner and the annotation with the wanted number of members. References without `controller: true` are garbage
collection's business and are not even looked at."""

from __future__ import annotations

from typing import Any

from controlplane.kube import kinds, pod_groups
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.well_known import DEFAULT_SCHEDULER
from controlplane.log.event import Part

GROUP_NAME = pod_groups.GROUP_NAME
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
MIRROR = "kubernetes.io/config.mirror"
CONFIG_SOURCE = "kubernetes.io/config.source"

POD_GROUPS = kinds.POD_GROUPS
PODS = Kind("", "v1", "Pod", "pods")
CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
DEPLOYMENTS = Kind("apps", "v1", "Deployment", "deployments")
REPLICA_SETS = Kind("apps", "v1", "ReplicaSet", "replicasets")
STATEFUL_SETS = Kind("apps", "v1", "StatefulSet", "statefulsets")
JOBS = Kind("batch", "v1", "Job", "jobs")
WATCHED_OWNERS = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS)
NODE = ("v1", "Node")


class OwnerMisfit(ValueError):  # noqa: N818
    """A field of an object does not hold what the API promises; `remedy` says what to do about it."""

    def __init__(self, field: str, wrong: str, remedy: str) -> None:
        super().__init__(f"{field}: {wrong}; {remedy}")
        self.field, self.wrong, self.remedy = field, wrong, remedy


class OwnerReference(Part):
    """An object as an owner reference names it; also the pod itself, at position 0 of a chain."""

    api_version: str
    kind: str
    name: str
    uid: str

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return group_of(self.api_version)

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind} {self.name} (UID {self.uid})"


class OwnerFacts(Part):
    """What the walk and the group need of an owner. `min_member` is the annotation's text, None where it is absent."""

    uid: str
    controller: OwnerReference | None = None
    min_member: str | None = None


class PodFacts(Part):
    """What decides on a pod's group. `static`: it mirrors a file on a node."""

    namespace: str
    name: str
    uid: str
    scheduler_name: str = DEFAULT_SCHEDULER
    group_name: str = ""
    queue: str = ""
    static: bool = False
    controller: OwnerReference | None = None

    @property
    def reference(self) -> OwnerReference:
        """The pod as an owner reference would name it."""
        return OwnerReference(api_version="v1", kind="Pod", name=self.name, uid=self.uid)


def group_of(api_version: str) -> str:
    """Return the group of an `apiVersion`, empty for the core group."""
    return api_version.rpartition("/")[0]


def section(obj: Json, field: str, where: str = "") -> Json:
    """Return a sub-object, empty where it is absent; `OwnerMisfit` if it is something else."""
    found = obj.get(field)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise OwnerMisfit(f"{where}{field}", f"is {spelled(found)}", "write an object")
    return found


def text(obj: Json, field: str, where: str, *, needed: str = "") -> str:
    """Return a string, "" where it is absent; `OwnerMisfit` if it is something else, or absent though `needed` says
    what for.
    """
    found = obj.get(field)
    if found is None or (needed and found == ""):
        if needed:
            raise OwnerMisfit(f"{where}{field}", "is missing", needed)
        return ""
    if not isinstance(found, str):
        raise OwnerMisfit(
            f"{where}{field}", f"is {spelled(found)}", "write text, in quotes if it looks like something else"
        )
    return found


def spelled(found: object) -> str:
    """Name a value in a complaint: what it is, and what it holds if that is short."""
    match found:
        case bool():
            return f"{str(found).lower()}, a truth value"
        case int() | float():
            return f"{found}, a number"
        case str():
            return f'"{found[:60]}", text'
        case list():
            return "a list"
        case dict():
            return "an object"
        case None:
            return "empty"
        case _:
            return f"a {type(found).__name__}"


def notes_of(obj: Json) -> dict[str, str]:
    """Return an object's annotations; those that are null count as absent."""
    found = section(meta(obj), "annotations", "metadata.")
    for key, value in found.items():
        if value is not None and not isinstance(value, str):
            raise OwnerMisfit(
                f"metadata.annotations[{key}]", f"is {spelled(value)}", "put it in quotes: annotations are text"
            )
    return {key: value for key, value in found.items() if value is not None}


def controller_of(obj: Json) -> OwnerReference | None:
    """Return the controlling owner reference; None if there is none, whatever other references there are."""
    references = meta(obj).get("ownerReferences")
    if references is None:
        return None
    if not isinstance(references, list):
        raise OwnerMisfit("metadata.ownerReferences", f"is {spelled(references)}", "write a list of references")
    chosen: list[tuple[int, Json]] = []
    for place, reference in enumerate(references):
        where = f"metadata.ownerReferences[{place}]"
        if not isinstance(reference, dict):
            raise OwnerMisfit(where, f"is {spelled(reference)}", "write apiVersion, kind, name and uid")
        flag = reference.get("controller")
        if flag is not None and not isinstance(flag, bool):
            raise OwnerMisfit(f"{where}.controller", f"is {spelled(flag)}", "write true or false, without quotes")
        if flag:
            chosen.append((place, reference))
    if len(chosen) > 1:
        raise OwnerMisfit(
            f"metadata.ownerReferences[{chosen[1][0]}].controller",
            "is true for a second reference",
            "let one reference at most control an object, as the API server does",
        )
    if not chosen:
        return None
    place, reference = chosen[0]
    where = f"metadata.ownerReferences[{place}]."
    return OwnerReference(
        api_version=_named(reference, "apiVersion", where),
        kind=_named(reference, "kind", where),
        name=_named(reference, "name", where),
        uid=_named(reference, "uid", where),
    )


def _named(reference: Json, field: str, where: str) -> str:
    """Return a field of a controlling reference; `OwnerMisfit` for a text by which no object can be told: the API
    server takes any.
    """
    found = text(reference, field, where, needed="a controlling reference names its object by all four fields")
    parts = found.split("/", 1) if field == "apiVersion" else [found]
    if not all(map(kinds.is_path_part, parts)):
        raise OwnerMisfit(f"{where}{field}", f"is {found[:60]!a}", "name an object that there can be")
    return found


def identity(obj: Json) -> tuple[str, str, str]:
    """Return namespace, name and UID; `OwnerMisfit` if the object has no name or UID."""
    if not isinstance(obj.get("metadata"), dict):
        raise OwnerMisfit("metadata", "is missing", "write the object as the API server shows it")
    metadata = meta(obj)
    return (
        text(metadata, "namespace", "metadata."),
        text(metadata, "name", "metadata.", needed="every object has a name"),
        text(
            metadata,
            "uid",
            "metadata.",
            needed="take the object from a cluster (kubectl get -o yaml): groups are named by UID",
        ),
    )


def pod_facts(obj: Json) -> PodFacts:
    """Return what decides on a pod's group; `OwnerMisfit` if a field of it does not fit."""
    namespace, name, uid = identity(obj)
    notes, controller = notes_of(obj), controller_of(obj)
    return PodFacts(
        namespace=namespace,
        name=name,
        uid=uid,
        scheduler_name=text(section(obj, "spec"), "schedulerName", "spec.") or DEFAULT_SCHEDULER,
        group_name=notes.get(GROUP_NAME, ""),
        queue=notes.get(QUEUE_NAME, ""),
        static=is_static(notes, controller),
        controller=controller,
    )


def is_static(notes: dict[str, str], controller: OwnerReference | None) -> bool:
    """Whether a pod mirrors a file on a node: by the kubelet's annotations, or because the Node itself controls it."""
    source = notes.get(CONFIG_SOURCE, "")
    from_file = bool(source) and source != "api"
    return MIRROR in notes or from_file or (controller is not None and is_node(controller))


def is_node(reference: OwnerReference) -> bool:
    """Whether a reference names a Node, which never owns a group."""
    return (reference.api_version, reference.kind) == NODE


def owner_facts(obj: Json) -> OwnerFacts:
    """Return what the walk needs of an owner; `OwnerMisfit` if a field of it does not fit."""
    _, _, uid = identity(obj)
    return OwnerFacts(uid=uid, controller=controller_of(obj), min_member=notes_of(obj).get(MIN_MEMBER))


def owner_reference(owner: OwnerReference, *, block: bool = True) -> dict[str, Any]:
    """Return the one owner reference of a group; `block` is `blockOwnerDeletion`."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": block,
    }
