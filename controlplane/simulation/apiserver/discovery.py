"""What an API server says about itself: its version, its groups and resources, and the OpenAPI of `openapi`.

In: the served kinds. Out: documents, made once. kubectl reads the aggregated discovery if it is there; it validates
on the server's side if the OpenAPI v3 document says that PATCH takes `fieldValidation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from controlplane.kube.kinds import PODS, Json, Kind
from controlplane.simulation.apiserver import openapi
from controlplane.simulation.apiserver.access_reviews import REVIEWS
from controlplane.simulation.kinds.base import ServedKind

VERSION: Json = {
    "major": "1",
    "minor": "36",
    "gitVersion": openapi.GIT_VERSION,
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "simulated",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_OF_PODS: dict[str, tuple[Kind, list[str]]] = {
    "binding": (Kind("", "v1", "Binding", "bindings"), ["create"]),
    "eviction": (Kind("policy", "v1", "Eviction", "evictions"), ["create"]),
    "log": (PODS, ["get"]),
}
"""What a pod has beside itself and its status: the kind that is sent or shown, and the verbs."""
_STATUS_VERBS = ["get", "patch", "update"]


class Discovery:
    """The documents of one server, by path."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self._groups: dict[str, dict[str, list[ServedKind]]] = {}
        for served in (*kinds, *(ServedKind(kind, status_subresource=False) for kind in REVIEWS)):
            self._groups.setdefault(served.kind.group, {}).setdefault(served.kind.version, []).append(served)
        self._documents = self._all()

    def document(self, path: str) -> Json | None:
        """Return the document at a path, None if there is none."""
        path = path.rstrip("/") or "/"
        if path == "/openapi/v2":
            return self._openapi_v2
        return self._openapi_v3.get(path) if path.startswith("/openapi/v3") else self._documents.get(path)

    def aggregated(self, path: str) -> Json | None:
        """Return all groups of `/api` or `/apis` with their resources in one document, None for other paths."""
        if path not in ("/api", "/apis"):
            return None
        groups = [group for group in self._groups if bool(group) == (path == "/apis")]
        items = [
            {
                "metadata": {"name": group, "creationTimestamp": None},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated_resource(served) for served in kinds],
                        "freshness": "Current",
                    }
                    for version, kinds in self._groups[group].items()
                ],
            }
            for group in groups
        ]
        return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}

    def _all(self) -> dict[str, Json]:
        core = list(self._groups.get("", {}))
        groups = [_group(name, list(versions)) for name, versions in self._groups.items() if name]
        documents: dict[str, Json] = {
            "/version": VERSION,
            "/api": {"kind": "APIVersions", "versions": core, "serverAddressByClientCIDRs": []},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        }
        for name, versions in self._groups.items():
            if name:
                documents[f"/apis/{name}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(name, list(versions))}
            for version, kinds in versions.items():
                path = f"apis/{name}/{version}" if name else f"api/{version}"
                documents[f"/{path}"] = _resources(kinds)
        return documents

    @cached_property
    def _openapi_v3(self) -> dict[str, Json]:
        """The documents of version 3: made when they are asked for, which most servers never are."""
        documents: dict[str, Json] = {}
        places: Json = {}
        for name, versions in self._groups.items():
            for version, kinds in versions.items():
                path = f"apis/{name}/{version}" if name else f"api/{version}"
                document = documents[f"/openapi/v3/{path}"] = openapi.v3(kinds)
                places[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={openapi.digest(document)}"}
        return {"/openapi/v3": {"paths": places}, **documents}

    @cached_property
    def _openapi_v2(self) -> Json:
        every = [served for versions in self._groups.values() for kinds in versions.values() for served in kinds]
        return openapi.v2(every)

    @cached_property
    def openapi_protobuf(self) -> bytes:
        """The document of version 2 in protobuf."""
        return openapi.in_protobuf(self._openapi_v2)


def _group(name: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(kinds: list[ServedKind]) -> Json:
    resources: list[Json] = []
    for served in kinds:
        kind = served.kind
        entry: Json = {
            "name": kind.plural,
            "singularName": kind.kind.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": _verbs(kind),
        }
        entry |= _other_names(served)
        resources.append(entry)
        if served.status_subresource:
            status = {"name": f"{kind.plural}/status", "singularName": "", "namespaced": kind.namespaced}
            resources.append({**status, "kind": kind.kind, "verbs": _STATUS_VERBS})
        for name, (other, verbs) in _OF_PODS.items() if kind == PODS else ():
            group = {"group": other.group, "version": other.version} if other.group else {}
            entry = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": True, **group}
            resources.append({**entry, "kind": other.kind, "verbs": verbs})
    group_version = kinds[0].kind.api_version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def _verbs(kind: Kind) -> list[str]:
    """Return what can be done with a kind: a review is answered and not kept."""
    return ["create"] if kind in REVIEWS else _VERBS


def _other_names(served: ServedKind) -> Json:
    """Return by what other words a kind may be asked for; a list that is empty is left out."""
    names = {"shortNames": list(served.short_names), "categories": list(served.categories)}
    return {field: words for field, words in names.items() if words}


def _aggregated_resource(served: ServedKind) -> Json:
    kind = served.kind
    entry: Json = {
        "resource": kind.plural,
        "responseKind": openapi.gvk(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.kind.lower(),
        "verbs": _verbs(kind),
    }
    entry |= _other_names(served)
    if served.status_subresource:
        status = {"subresource": "status", "responseKind": openapi.gvk(kind), "verbs": _STATUS_VERBS}
        entry["subresources"] = [status]
    if kind == PODS:
        entry["subresources"] += [
            {"subresource": name, "responseKind": openapi.gvk(other), "verbs": verbs}
            for name, (other, verbs) in _OF_PODS.items()
        ]
    return entry
