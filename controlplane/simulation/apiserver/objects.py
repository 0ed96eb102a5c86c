"""What an API server does to one object on its way in: names, system metadata, generation, the defaults of built-in
kinds.

Pure functions over private copies of objects: whoever calls them owns the object and may have it changed in place.
Rules are those of `k8s.io/apiserver/pkg/registry/rest` (create.go, update.go, delete.go) and of the kinds' own
strategies.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any

import orjson

from controlplane.kube.kinds import JOBS, NAMESPACES, PODS, SECRETS, Json, Kind
from controlplane.simulation.apiserver import pods
from controlplane.simulation.apiserver.errors import Cause, bad_request, conflict, invalid
from controlplane.simulation.kinds.base import ServedKind

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL_KEY = re.compile(r"^([a-z0-9.\-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_NAME_ATTEMPTS = 8
_SYSTEM = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)


def detach(obj: Json) -> Json:
    """Return a private copy of plain JSON; 400 if it is not."""
    try:
        copied: Json = orjson.loads(orjson.dumps(obj))
    except (TypeError, orjson.JSONDecodeError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error
    if not isinstance(copied, dict):
        raise bad_request("the object provided is unrecognized (must be of type Object)")
    if not isinstance(copied.setdefault("metadata", {}), dict):
        raise bad_request("metadata must be an object")
    return copied


def check_type(kind: Kind, obj: Json, *, builtin: bool) -> None:
    """Fill in apiVersion and kind; 400 if the object says that it is something else (422 for the kind of a custom
    one).
    """
    if not builtin and obj.get("kind", kind.kind) != kind.kind:
        sent = Kind(kind.group, kind.version, obj["kind"], kind.plural)
        cause = Cause("kind", "FieldValueInvalid", f'Invalid value: "{obj["kind"]}": must be {kind.kind}')
        raise invalid(sent, obj["metadata"].get("name", ""), [cause])
    for key, expected in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        found = obj.setdefault(key, expected)
        if found != expected:
            raise bad_request(f"the {key} in the data ({found}) does not match the expected {key} ({expected})")


def generated_name(metadata: Json, new_uid: Callable[[], str], taken: Callable[[str], bool]) -> str:
    """Return generateName and five characters, drawn from the object's uid first and from fresh ones while the name is
    taken.
    """
    seed = metadata["uid"]
    for _ in range(_NAME_ATTEMPTS):
        digest = hashlib.sha256(seed.encode()).digest()
        name = metadata["generateName"][:58] + "".join(_SUFFIX_ALPHABET[byte % 27] for byte in digest[:5])
        if not taken(name):
            break
        seed = new_uid()
    return str(name)


def applied_configuration(served: ServedKind, namespace: str, name: str, config: Json) -> Json:
    """Return a private copy of what is to be applied, its type and place filled in; 400 if it carries managedFields."""
    kind, applied = served.kind, detach(config)
    check_type(kind, applied, builtin=served.builtin)
    metadata = applied["metadata"]
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    metadata.setdefault("name", name)
    if kind.namespaced:
        metadata.setdefault("namespace", namespace)
    return applied


def manageable(served: ServedKind, config: Json, subresource: str) -> Json:
    """Return the part of an applied configuration that counts at this door; metadata never counts at a custom kind's
    status.
    """
    if not subresource:
        return {key: value for key, value in config.items() if key != "status" or not served.status_subresource}
    part = {key: value for key, value in config.items() if key in ("apiVersion", "kind", "metadata", "status")}
    if not served.builtin:
        part["metadata"] = {
            key: config["metadata"][key] for key in ("uid", "resourceVersion") if key in config["metadata"]
        }
    return part


def check_metadata(kind: Kind, metadata: Json) -> None:
    """422 for a name, labels or finalizers that Kubernetes does not take."""
    name, causes = metadata.get("name", ""), []
    if not name:
        causes.append(Cause("metadata.name", "FieldValueRequired", "Required value: name or generateName is required"))
    elif len(name) > 253 or not _NAME.match(name):
        causes.append(Cause("metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {_NAME_RULE}'))
    for key, value in (metadata.get("labels") or {}).items():
        if not isinstance(value, str):
            raise bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled: labels[{key}] is not a string'
            )
        if not _LABEL_KEY.match(key):
            rule = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
            message = f'Invalid value: "{key}": name part must consist of {rule}'
            causes.append(Cause("metadata.labels", "FieldValueInvalid", message))
        if len(value) > 63 or not _LABEL_VALUE.match(value):
            message = (
                f"Invalid value: \"{value}\": must be no more than 63 characters of alphanumerics, '-', '_' or '.'"
            )
            causes.append(Cause("metadata.labels", "FieldValueInvalid", message))
    if causes:
        raise invalid(kind, name, causes)


def drop_empty(metadata: Json) -> None:
    """Drop what Kubernetes does not keep: empty labels, annotations, finalizers, owner references and nulls."""
    for key in [key for key, value in metadata.items() if value is None or value in ({}, [], "")]:
        del metadata[key]


def check_identity(kind: Kind, stored: Json, sent: Json) -> None:
    """400 if the metadata sent names another object than the one that the request is for."""
    if sent.get("name") != stored["name"]:
        raise bad_request(
            f"the name of the object ({sent.get('name')}) does not match the name on the URL ({stored['name']})"
        )
    if kind.namespaced and sent.get("namespace", stored["namespace"]) != stored["namespace"]:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def check_delete_options(kind: Kind, stored: Json, uid: str, version: str) -> None:
    """409 if the preconditions of a delete do not hold."""
    name = stored["name"]
    if uid and uid != stored["uid"]:
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({stored['uid']}). "
        raise conflict(kind, name, why + "The object might have been deleted and then recreated")
    if version and version != stored["resourceVersion"]:
        why = f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
        raise conflict(kind, name, why + f"({stored['resourceVersion']}). The object might have been modified")


def check_uid(kind: Kind, stored: Json, sent: Json) -> None:
    """409 if a PUT is meant for an object with another uid."""
    uid = sent.get("uid") or ""
    if uid and uid != stored["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored['uid']}"
        raise conflict(kind, stored["name"], why)


def check_preconditions(served: ServedKind, stored: Json, sent: Json, subresource: str) -> None:
    """409 if the metadata sent names another resourceVersion than the stored one, 422 if it names another uid.

    The status of a custom kind takes no metadata, so a uid sent to it is not looked at.
    """
    kind = served.kind
    uid, version = sent.get("uid") or stored["uid"], sent.get("resourceVersion") or ""
    if version and version != stored["resourceVersion"]:
        raise conflict(kind, stored["name"])
    if uid != stored["uid"] and (served.builtin or not subresource):
        message = f'Invalid value: "{uid}": field is immutable'
        raise invalid(kind, stored["name"], [Cause("metadata.uid", "FieldValueInvalid", message)])


def check_finalizers(kind: Kind, stored: Json, sent: Json) -> None:
    """422 if a finalizer is added to an object that is being deleted."""
    if "deletionTimestamp" not in stored:
        return
    added = sorted(set(sent.get("finalizers") or []) - set(stored.get("finalizers") or []))
    if added:
        listed = ", ".join(f'"{name}"' for name in added)
        message = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}"
        )
        raise invalid(kind, stored["name"], [Cause("metadata.finalizers", "FieldValueForbidden", message)])


def carry_over(served: ServedKind, old: Json, new: Json, subresource: str) -> None:
    """Put back into `new` what a write through this door cannot change: system metadata, and spec or status."""
    stored = old["metadata"]
    if subresource == "status":
        status = new.get("status")
        kept = new["metadata"] if served.builtin else dict(stored)
        new.clear()
        new.update(old)
        new["metadata"] = kept
        new.pop("status", None)
        if status is not None:
            new["status"] = status
    elif served.status_subresource:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    metadata = new["metadata"]
    for key in _SYSTEM:
        metadata.pop(key, None)
    metadata.update({key: stored[key] for key in _SYSTEM if key in stored})
    metadata["resourceVersion"] = stored["resourceVersion"]
    drop_empty(metadata)


def next_generation(served: ServedKind, old: Json, new: Json) -> None:
    """Bump metadata.generation if anything but metadata (and a status with its own subresource) changed."""
    if not served.generation:
        return
    beside = {"metadata", "status"} if served.status_subresource else {"metadata"}
    if {k: v for k, v in old.items() if k not in beside} != {k: v for k, v in new.items() if k not in beside}:
        new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1


def mark_deleted(metadata: Json, at: str, grace: int = 0) -> None:
    """Set the deletion fields of an object that finalizers, or a kubelet for `grace` seconds until `at`, keep."""
    metadata["deletionTimestamp"] = at
    metadata["deletionGracePeriodSeconds"] = grace
    if "generation" in metadata:
        metadata["generation"] += 1


def defaults(served: ServedKind, obj: Json) -> None:
    """Fill in what the API server itself fills in on create, for the built-in kinds that are served; uid and name are
    set already.
    """
    if served.status_subresource:
        obj.pop("status", None)
    if served.kind == NAMESPACES:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
    elif served.kind == SECRETS:
        _secret(obj)
    elif served.kind == PODS:
        pods.defaults(obj, obj["metadata"]["creationTimestamp"])
    elif served.kind == JOBS:
        _job(obj)


def _secret(obj: Json) -> None:
    obj.setdefault("type", "Opaque")
    written = obj.pop("stringData", None)
    if written:
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in written.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _job(obj: Json) -> None:
    """Default a Job as batch/v1 does, selector and template labels by uid included."""
    metadata, spec = obj["metadata"], obj.setdefault("spec", {})
    obj["status"] = {}
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    for key, value in (
        ("parallelism", 1),
        ("backoffLimit", 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("podReplacementPolicy", "TerminatingOrFailed"),
        ("manualSelector", False),
    ):
        spec.setdefault(key, value)
    if spec["manualSelector"]:
        return
    name, uid = metadata["name"], metadata["uid"]
    if spec.get("selector"):
        selector: Any = spec["selector"].get("matchLabels", {})
        message = f"Invalid value: {selector}: `selector` not auto-generated"
        if selector.get("batch.kubernetes.io/controller-uid") != uid:
            raise invalid(JOBS, name, [Cause("spec.selector", "FieldValueInvalid", message)])
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    for key, value in (
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ):
        if labels.setdefault(key, value) != value:
            message = f"Invalid value: \"{labels[key]}\": must be '{value}'"
            raise invalid(JOBS, name, [Cause(f"spec.template.metadata.labels[{key}]", "FieldValueInvalid", message)])
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
