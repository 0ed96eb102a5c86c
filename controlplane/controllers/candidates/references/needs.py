"""What else a pod needs in a target than ConfigMaps and Secrets: its ServiceAccount, its claims, Services that it
names.

In: a pod, and objects of the source. Out: what the pod names, and what of such an object means something in another
cluster. A claim's copy is an empty volume of the same size and class; a Service's has addresses of its own, and none
outside the cluster."""

from __future__ import annotations

import re
from typing import Any

from controlplane.kube.kinds import Json

_PORT = ("name", "protocol", "appProtocol", "port", "targetPort")
_SERVICE = ("sessionAffinity", "sessionAffinityConfig", "publishNotReadyAddresses", "internalTrafficPolicy")
#: In a strategic merge patch: what is there goes, whatever it holds. Only of what is there: a map that is not, and is
#: to be replaced, an API server leaves out (kubernetes 1.36, apimachinery pkg/util/strategicpatch, dropDirectives).
REPLACED = {"$patch": "replace"}
_CLAIM = ("accessModes", "resources", "storageClassName", "volumeMode")


_NAME, _LONGEST_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"), 253


def is_name(found: object) -> bool:
    """Whether an object that a pod names can have that name."""
    return isinstance(found, str) and len(found) <= _LONGEST_NAME and _NAME.fullmatch(found) is not None


def needed(spec: Json, services: list[str]) -> list[tuple[str, str]]:
    """Return kind and name of what a PodSpec needs, and of the Services that its pod asks for, each once."""
    account = str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "")
    found = {("ServiceAccount", account)} if account not in ("", "default") else set()
    volumes = spec.get("volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        claim = volume.get("persistentVolumeClaim") if isinstance(volume, dict) else None
        # An API server takes any text for the name of a claim; nothing of another one can be there.
        if isinstance(claim, dict) and is_name(claim.get("claimName")):
            found.add(("PersistentVolumeClaim", claim["claimName"]))
    return sorted(found | {("Service", name) for name in services})


def unfit(kind: str, obj: Json) -> str:
    """Return why an object cannot be copied, "" if it can."""
    spec = obj.get("spec") or {}
    if kind == "Service" and spec.get("type") == "ExternalName":
        return "spec.type: a Service of type ExternalName is not copied; name what it leads to in the target yourself"
    if kind == "PersistentVolumeClaim" and (spec.get("dataSource") or spec.get("dataSourceRef")):
        return (
            "spec.dataSource: it is made of another object's data, which is not in the target; create the claim there"
        )
    return ""


def copied_of(kind: str, source: Json, *, renewed: bool) -> Json:
    """Return the part of an object that its copy has; of one that is `renewed` only what may be changed of it."""
    spec: Json = source.get("spec") or {}
    match kind:
        case "ServiceAccount":
            return _only(source, ("automountServiceAccountToken",))
        case "PersistentVolumeClaim":
            return {"spec": _only(spec, ("resources",) if renewed else _CLAIM)}
        case "Service":
            return {"spec": _service(spec) | (REPLACED if renewed else {})}
        case _:
            # A whole of its own: merged, what the source holds no more would stay.
            return _only(source, ("data", "binaryData", "type", "immutable")) | (REPLACED if renewed else {})


def _service(spec: Json) -> Json:
    ports: list[Any] = [_only(port, _PORT) for port in spec.get("ports") or ()]
    headless = {"clusterIP": "None"} if spec.get("clusterIP") == "None" else {}
    selector: Json = dict(spec.get("selector") or {})
    return {**_only(spec, _SERVICE), **headless, "type": "ClusterIP", "ports": ports, "selector": selector}


def _only(obj: Json, names: tuple[str, ...]) -> Json:
    return {name: obj[name] for name in names if name in obj}
