"""What an API server says about itself: its version, its groups and resources, and as much OpenAPI as kubectl needs.

In: the served kinds. Out: documents, made once. kubectl reads the aggregated discovery if it is there; it validates
on the server's side if the OpenAPI v3 document says that PATCH takes `fieldValidation`. Schemas are open objects:
kinds are not validated by schema here.
"""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.kube.kinds import PODS, Json, Kind
from controlplane.simulation.apiserver.access_reviews import REVIEWS
from controlplane.simulation.kinds.base import ServedKind

VERSION: Json = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0-simulated",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "simulated",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_POSTED: dict[str, Json] = {
    "binding": {"kind": "Binding"},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
}
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
        return self._documents.get(path.rstrip("/") or "/")

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
        specs: Json = {}
        for name, versions in self._groups.items():
            if name:
                documents[f"/apis/{name}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(name, list(versions))}
            for version, kinds in versions.items():
                path = f"apis/{name}/{version}" if name else f"api/{version}"
                documents[f"/{path}"] = _resources(kinds)
                documents[f"/openapi/v3/{path}"] = _openapi_v3(kinds)
                specs[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={len(kinds)}"}
        documents["/openapi/v3"] = {"paths": specs}
        documents["/openapi/v2"] = {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
            "paths": {},
            "definitions": {},
        }
        return documents


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
        resources += [
            {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": True, **posted, "verbs": ["create"]}
            for name, posted in _POSTED.items()
            if kind == PODS
        ]
    group_version = kinds[0].kind.api_version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def _verbs(kind: Kind) -> list[str]:
    """Return what can be done with a kind: a review is answered and not kept."""
    return ["create"] if kind in REVIEWS else _VERBS


def _other_names(served: ServedKind) -> Json:
    """Return by what other words a kind may be asked for; a list that is empty is left out."""
    names = {"shortNames": list(served.short_names), "categories": list(served.categories)}
    return {field: words for field, words in names.items() if words}


def _gvk(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _aggregated_resource(served: ServedKind) -> Json:
    kind = served.kind
    entry: Json = {
        "resource": kind.plural,
        "responseKind": _gvk(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.kind.lower(),
        "verbs": _verbs(kind),
    }
    entry |= _other_names(served)
    if served.status_subresource:
        status = {"subresource": "status", "responseKind": _gvk(kind), "verbs": _STATUS_VERBS}
        entry["subresources"] = [status]
    if kind == PODS:
        kinds = {"binding": ("", "v1", "Binding"), "eviction": ("policy", "v1", "Eviction")}
        entry["subresources"] += [
            {
                "subresource": name,
                "responseKind": {"group": group, "version": version, "kind": posted},
                "verbs": ["create"],
            }
            for name, (group, version, posted) in kinds.items()
        ]
    return entry


def _openapi_v3(kinds: list[ServedKind]) -> Json:
    paths: Json = {}
    schemas: Json = {}
    for served in kinds:
        kind = served.kind
        parameters = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in ("dryRun", "fieldManager", "fieldValidation", "force")
        ]
        patch = {
            "operationId": f"patch{kind.kind}",
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": _gvk(kind),
        }
        paths[kind.path("{namespace}", "{name}")] = {"patch": patch}
        if not served.builtin:
            # Built-in kinds have no schema here, so that kubectl computes their strategic patches from its own types.
            schemas[f"simulated.{kind.group}.{kind.version}.{kind.kind}"] = {
                "type": "object",
                "x-kubernetes-group-version-kind": [_gvk(kind)],
                "x-kubernetes-preserve-unknown-fields": True,
            }
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
