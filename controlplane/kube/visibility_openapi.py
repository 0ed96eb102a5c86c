"""The OpenAPI documents of Kueue's visibility API (versions 2 and 3), which an API server adds to its own.

In: nothing. Out: documents by path."""

from __future__ import annotations

import hashlib
import json

from controlplane.kube.kinds import JSON_TYPE, Json
from controlplane.kube.visibility import CLUSTER_QUEUES, GROUP, LOCAL_QUEUES, SUBRESOURCE, SUMMARY, VERSIONS

_PREFIX = "io.k8s.kueue.visibility"
_INFO = {"title": "Kueue's visibility API", "version": "v1beta2"}
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer", "format": "int32"}
_OWNER = {"type": "object", "properties": dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT)}
_QUERY = {
    "offset": "The position of the first Workload that is returned, 0 for the first of all.",
    "limit": "How many Workloads are returned at the most; 1000 if it is not given.",
}
_PATH = {"name": "The name of the queue.", "namespace": "The namespace of the LocalQueue."}


def openapi_documents() -> dict[str, Json]:
    """Return the documents by their paths."""
    found: dict[str, Json] = {"/openapi/v2": _v2()}
    index = {}
    for version in VERSIONS:
        document, place = _v3(version), f"apis/{GROUP}/{version}"
        found[f"/openapi/v3/{place}"] = document
        digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest().upper()
        index[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={digest}"}
    return {**found, "/openapi/v3": {"paths": index}}


def _v2() -> Json:
    paths: Json = {}
    definitions: Json = {}
    for version in VERSIONS:
        definitions |= _schemas(version, "#/definitions/")
        for path, names in _paths(version).items():
            given = [{"name": name, **rest, **schema} for name, rest, schema in _parameters(names)]
            answer = {"description": "OK", "schema": {"$ref": f"#/definitions/{_name(version, SUMMARY)}"}}
            operation = {**_operation(version, path), "produces": [JSON_TYPE], "schemes": ["https"]}
            paths[path] = {"get": {**operation, "parameters": given, "responses": {"200": answer}}}
    return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": definitions}


def _v3(version: str) -> Json:
    reference = "#/components/schemas/"
    answer = {
        "description": "OK",
        "content": {JSON_TYPE: {"schema": {"$ref": reference + _name(version, SUMMARY)}}},
    }
    paths = {
        path: {
            "get": {
                **_operation(version, path),
                "parameters": [{"name": name, **rest, "schema": schema} for name, rest, schema in _parameters(names)],
                "responses": {"200": answer},
            }
        }
        for path, names in _paths(version).items()
    }
    schemas = _schemas(version, reference)
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


def _paths(version: str) -> dict[str, tuple[str, ...]]:
    """Return the paths, each with what stands in it."""
    base = f"/apis/{GROUP}/{version}"
    return {
        f"{base}/{CLUSTER_QUEUES}/{{name}}/{SUBRESOURCE}": ("name",),
        f"{base}/namespaces/{{namespace}}/{LOCAL_QUEUES}/{{name}}/{SUBRESOURCE}": ("name", "namespace"),
    }


def _operation(version: str, path: str) -> Json:
    scope = "NamespacedLocalQueue" if "{namespace}" in path else "ClusterQueue"
    return {
        "description": "The Workloads that wait for quota, in the order in which they are considered.",
        "operationId": f"readVisibilityKueueXK8sIo{version.capitalize()}{scope}PendingWorkloads",
        "tags": [f"visibilityKueueXK8sIo_{version}"],
        "x-kubernetes-action": "get",
        "x-kubernetes-group-version-kind": _kind(version),
    }


def _parameters(names: tuple[str, ...]) -> list[tuple[str, Json, Json]]:
    """Return the parameters: name, where it is given, and its schema."""
    return [
        *((name, {"in": "path", "required": True, "description": _PATH[name]}, _TEXT) for name in names),
        *((name, {"in": "query", "description": said}, {"type": "integer"}) for name, said in _QUERY.items()),
    ]


def _schemas(version: str, reference: str) -> Json:
    workload: Json = {
        "description": "A Workload that waits for quota.",
        "type": "object",
        "required": ["priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"],
        "properties": {
            "metadata": _metadata(),
            "priority": {**_NUMBER, "description": "The priority of the Workload."},
            "localQueueName": {**_TEXT, "description": "The LocalQueue that it was submitted to."},
            "positionInClusterQueue": {**_NUMBER, "description": "Its position in the ClusterQueue, 0 for the first."},
            "positionInLocalQueue": {**_NUMBER, "description": "Its position in the LocalQueue, 0 for the first."},
        },
    }
    items = {"type": "array", "items": {"$ref": reference + _name(version, "PendingWorkload")}}
    summary: Json = {
        "description": "The Workloads that wait in a ClusterQueue or a LocalQueue.",
        "type": "object",
        "required": ["items"],
        "properties": {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object"}, "items": items},
        "x-kubernetes-group-version-kind": [_kind(version)],
    }
    return {_name(version, "PendingWorkload"): workload, _name(version, SUMMARY): summary}


def _metadata() -> Json:
    return {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "namespace": _TEXT,
            "creationTimestamp": {"type": "string", "format": "date-time"},
            "ownerReferences": {"type": "array", "items": _OWNER},
        },
    }


def _name(version: str, kind: str) -> str:
    return f"{_PREFIX}.{version}.{kind}"


def _kind(version: str) -> Json:
    return {"group": GROUP, "version": version, "kind": SUMMARY}
