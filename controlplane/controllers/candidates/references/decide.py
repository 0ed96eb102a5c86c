"""ConfigMaps, Secrets and whatever else a pod names: what has to be with its delegate, what may go again.

In: the pod's template, the source's objects and the target's, by their metadata alone: data of Secrets never reaches
the log. Out: copies to be written and to be removed, and the request of each. A copy carries the source cluster's name
as its label, and its UID as an annotation; an object of the same name without that label, or that another cluster of
that name has made, is somebody else's, is left alone, and is said to be in the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from controlplane.controllers.candidates.objects import FOLLOWED, GROUP, SOURCE_LABEL, SOURCE_UID
from controlplane.controllers.candidates.references.needs import REPLACED, copied_of, is_name
from controlplane.kube.kinds import STRATEGIC_PATCH, Json, ObjectRef, Request, meta

UNFIT = "unfit"  # beside an object's metadata, where that is all that is kept of it: why it cannot be copied
FOLLOWED_VERSION = f"{GROUP}/followed-version"  # on a copy: the resourceVersion of what it was made of
_UNCOPIED_TYPES = ("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token")
KEPT = frozenset({"PersistentVolumeClaim"})  # what its pods have written is nobody's to throw away but its user's
FOREIGN = "one of that name is in the target and is not ours: it is left as it is"
ANOTHERS = (
    "one of that name is in the target with our name (candidates.cluster) and is not known to be ours: it is left as it "
    f"is; delete it there if no other cluster has that name and made it (annotation {SOURCE_UID})"
)
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


class NamedObject(msgspec.Struct, frozen=True, order=True):
    """An object that a pod names; `optional`: the pod starts without it."""

    kind: Literal["ConfigMap", "PersistentVolumeClaim", "Secret", "Service", "ServiceAccount"]
    name: str
    optional: bool = False


class KnownCopy(msgspec.Struct, frozen=True):
    """What is known of an object, in the source or in a target. `mark`: its source label, `source_uid`: the cluster
    that it says it was made by, `followed`: the version copied, `unfit`: why it cannot be. `anothers`: not known to be
    ours, though it has our name; `unmarked`: it is to be marked, so that it stays known.
    """

    kind: str
    name: str
    uid: str
    resource_version: str
    mark: str = ""
    followed: str = ""
    type: str = ""
    unfit: str = ""
    source_uid: str = ""
    anothers: bool = False
    unmarked: bool = False


class Copy(msgspec.Struct, frozen=True, order=True):
    """Bring a copy up to the source's version; `uid` and `resource_version` are the copy's, "" if there is none yet."""

    kind: str
    name: str
    version: str
    uid: str = ""
    resource_version: str = ""


class CopyRemoval(msgspec.Struct, frozen=True, order=True):
    """Remove a copy of ours that no delegate needs any more."""

    kind: str
    name: str
    uid: str
    resource_version: str


class Obstacle(msgspec.Struct, frozen=True, order=True):
    """Something that keeps a copy from being made; for people, and for the pod's condition."""

    kind: str
    name: str
    why: str


class Following(msgspec.Struct, frozen=True):
    """What is to be done in one namespace of one target."""

    copies: tuple[Copy, ...] = ()
    removals: tuple[CopyRemoval, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()


def references(spec: Json) -> list[NamedObject]:
    """Return the ConfigMaps and Secrets that a PodSpec names, each once; optional only if every mention is."""
    found: dict[tuple[str, str], bool] = {}
    for kind, name, optional in _mentions(spec):
        if name:
            found[kind, name] = found.get((kind, name), True) and optional
    return sorted(NamedObject("Secret" if kind == "Secret" else "ConfigMap", n, o) for (kind, n), o in found.items())


def _list(obj: Any, field: str) -> list[Json]:
    found = obj.get(field) if isinstance(obj, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _object(obj: Any, field: str) -> Json:
    found = obj.get(field) if isinstance(obj, dict) else None
    return found if isinstance(found, dict) else {}


def _text(obj: Json | Mapping[str, Any], field: str) -> str:
    found = obj.get(field)
    return found if isinstance(found, str) else ""


def _mention(kind: str, ref: Json, field: str = "name") -> Iterator[tuple[str, str, bool]]:
    name = _text(ref, field)
    if is_name(name):  # nothing of another name can be there
        yield kind, name, bool(ref.get("optional"))


def _mentions(spec: Json) -> Iterator[tuple[str, str, bool]]:
    for volume in _list(spec, "volumes"):
        yield from _of_volume(volume)
    for field in _CONTAINERS:
        for container in _list(spec, field):
            for entry in _list(container, "envFrom"):
                yield from _mention("ConfigMap", _object(entry, "configMapRef"))
                yield from _mention("Secret", _object(entry, "secretRef"))
            for entry in _list(container, "env"):
                value = _object(entry, "valueFrom")
                yield from _mention("ConfigMap", _object(value, "configMapKeyRef"))
                yield from _mention("Secret", _object(value, "secretKeyRef"))
    for entry in _list(spec, "imagePullSecrets"):
        yield from _mention("Secret", {**entry, "optional": True})  # a kubelet goes on without it


def _of_volume(volume: Json) -> Iterator[tuple[str, str, bool]]:
    yield from _mention("ConfigMap", _object(volume, "configMap"))
    yield from _mention("Secret", _object(volume, "secret"), "secretName")
    for entry in _list(_object(volume, "projected"), "sources"):
        yield from _mention("ConfigMap", _object(entry, "configMap"))
        yield from _mention("Secret", _object(entry, "secret"))
    for driver, field in (("csi", "nodePublishSecretRef"), ("cephfs", "secretRef"), ("flexVolume", "secretRef")):
        yield from _mention("Secret", _object(_object(volume, driver), field))
    for driver in ("rbd", "iscsi", "scaleIO", "storageos"):
        yield from _mention("Secret", _object(_object(volume, driver), "secretRef"))
    yield from _mention("Secret", _object(volume, "azureFile"), "secretName")


def useless(type_: str) -> bool:
    """Whether a Secret of a type means nothing in another cluster."""
    return type_ in _UNCOPIED_TYPES


def follow(
    needed: Iterable[NamedObject], here: Iterable[KnownCopy], there: Iterable[KnownCopy], cluster: str, *, in_view: bool
) -> Following:
    """Return what to do in a namespace of a target.

    `needed` by all delegates that are bound there, `here` the source's objects, `there` the target's, `cluster` our
    source label. Nothing is removed unless the source's objects and pods are `in_view`: what is not seen is not known
    to be gone."""
    wanted: dict[tuple[str, str], bool] = {}
    for ref in needed:
        wanted[ref.kind, ref.name] = wanted.get((ref.kind, ref.name), True) and ref.optional
    sources = {(known.kind, known.name): known for known in here}
    present = {(known.kind, known.name): known for known in there}
    copies, obstacles = [], []
    for key, optional in sorted(wanted.items()):
        match _step(key, sources.get(key), present.get(key), cluster, must_exist=in_view and not optional):
            case Copy() as copy:
                copies.append(copy)
            case Obstacle() as obstacle:
                obstacles.append(obstacle)
    removals = [
        CopyRemoval(known.kind, known.name, known.uid, known.resource_version)
        for key, known in sorted(present.items())
        if in_view and _is_ours(known, cluster) and known.kind not in KEPT and (key not in wanted or key not in sources)
    ]
    return Following(tuple(copies), tuple(removals), tuple(obstacles))


def _is_ours(copy: KnownCopy, cluster: str) -> bool:
    return copy.mark == cluster and not copy.anothers


def _step(
    key: tuple[str, str], source: KnownCopy | None, found: KnownCopy | None, cluster: str, *, must_exist: bool
) -> Copy | Obstacle | None:
    """Return what brings a copy up to its source, or what is in the way; None if it is there as it should be."""
    kind, name = key
    if source is None:
        return Obstacle(kind, name, "it does not exist in the source") if found is None and must_exist else None
    if source.unfit:
        return Obstacle(kind, name, source.unfit)
    if useless(source.type):
        return Obstacle(kind, name, f"a Secret of type {source.type} means nothing in another cluster")
    if found is None:
        return Copy(kind, name, source.resource_version)
    if not _is_ours(found, cluster):
        return Obstacle(kind, name, ANOTHERS if found.anothers else FOREIGN)
    if found.unmarked or found.followed != source.resource_version:
        return Copy(kind, name, source.resource_version, found.uid, found.resource_version)
    return None


def known(kind: str, obj: Mapping[str, Any]) -> KnownCopy:
    """Return what `follow` looks at of an object, without its data."""
    metadata = meta(obj)
    labels, annotations = _object(metadata, "labels"), _object(metadata, "annotations")
    return KnownCopy(
        kind=kind,
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        resource_version=_text(metadata, "resourceVersion"),
        mark=_text(labels, SOURCE_LABEL),
        followed=_text(annotations, FOLLOWED_VERSION),
        type=_text(obj, "type"),
        unfit=_text(obj, UNFIT),
        source_uid=_text(annotations, SOURCE_UID),
    )


def copy_request(copy: Copy, namespace: str, source: Json, cluster: str, source_uid: str = "") -> Request:
    """Return the request that makes or renews a copy of a source object, as it is at this moment."""
    made_by = {SOURCE_UID: source_uid} if source_uid else {}
    body: Json = {
        "metadata": {
            "labels": {**_object(meta(source), "labels"), SOURCE_LABEL: cluster},
            "annotations": {FOLLOWED_VERSION: _text(meta(source), "resourceVersion"), **made_by},
        },
        **copied_of(copy.kind, source, renewed=bool(copy.uid)),
    }
    ref = ObjectRef(FOLLOWED[copy.kind], namespace, copy.name)
    if not copy.uid:
        maker = (SOURCE_UID, source_uid) if source_uid else ()
        return Request("create", ref, body, owner_label=(SOURCE_LABEL, cluster), maker=maker)
    if REPLACED.items() <= body.items():  # the whole object, so with its place
        body["metadata"] |= {"name": copy.name, "namespace": namespace}
    version = copy.resource_version
    return Request("patch", ref, body, content_type=STRATEGIC_PATCH, uid=copy.uid, resource_version=version)


def removal_request(removal: CopyRemoval, namespace: str, cluster: str) -> Request:
    """Return the request that removes a copy, of exactly the version that was seen with our source label."""
    return Request(
        "delete",
        ObjectRef(FOLLOWED[removal.kind], namespace, removal.name),
        uid=removal.uid,
        resource_version=removal.resource_version,
        owner_label=(SOURCE_LABEL, cluster),
    )
