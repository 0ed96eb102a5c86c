"""Kueue's visibility API (visibility.kueue.x-k8s.io): its documents of discovery, and what a request for pending
workloads names.

In: a path's attributes, a query. Out: JSON as kube clients read it. Both versions are alike but for their names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from controlplane.kube.api_requests import RequestAttributes
from controlplane.kube.kinds import Json

GROUP = "visibility.kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""The preferred one first."""
SUMMARY = "PendingWorkloadsSummary"
SUBRESOURCE = "pendingworkloads"
CLUSTER_QUEUES, LOCAL_QUEUES = "clusterqueues", "localqueues"
SINGULAR = {CLUSTER_QUEUES: "clusterqueue", LOCAL_QUEUES: "localqueue"}
DEFAULT_LIMIT, MOST = 1000, 100_000
_INT64 = 2**63
_LAST = _INT64 - 1 - MOST  # no position that can be asked for from here on is more than Python counts to


def names_pending_workloads(asked: RequestAttributes) -> bool:
    """Whether a request names the pending workloads of a queue."""
    return (
        asked.group == GROUP
        and asked.version in VERSIONS
        and asked.subresource == SUBRESOURCE
        and bool(asked.name)
        and (asked.resource, bool(asked.namespace)) in ((CLUSTER_QUEUES, False), (LOCAL_QUEUES, True))
        and len([part for part in asked.path.split("/") if part]) == (8 if asked.namespace else 6)
    )


def limits(query: Mapping[str, str]) -> tuple[int, int]:
    """Return offset and limit of a query; `ValueError` with the sentence for what is no number."""
    limit = _number(query["limit"]) if "limit" in query else 0
    offset = _number(query["offset"]) if "offset" in query else 0
    return min(max(0, offset), _LAST), min(max(0, limit or DEFAULT_LIMIT), MOST)


def _number(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]+", text) is None:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    found = int(text) if len(text) < 30 else _INT64
    if not -_INT64 <= found < _INT64:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
    return found


def summary(version: str) -> Json:
    """Return the answer to a request for pending workloads, without any; `items` are the last of it."""
    return {"kind": SUMMARY, "apiVersion": f"{GROUP}/{version}", "metadata": {}, "items": []}


def documents() -> dict[str, Json]:
    """Return the documents of discovery by their paths."""
    group = _group()
    found: dict[str, Json] = {
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]},
        f"/apis/{GROUP}": {"kind": "APIGroup", "apiVersion": "v1", **group},
    }
    return found | {f"/apis/{GROUP}/{version}": _resources(version) for version in VERSIONS}


def aggregated_discovery() -> Json:
    """Return the document of aggregated discovery (apidiscovery.k8s.io/v2)."""
    kind = {"group": "", "version": "", "kind": SUMMARY}
    resources = [
        {
            "resource": resource,
            "responseKind": kind,
            "scope": "Namespaced" if resource == LOCAL_QUEUES else "Cluster",
            "singularResource": singular,
            "verbs": [],
            "subresources": [{"subresource": SUBRESOURCE, "responseKind": kind, "verbs": ["get"]}],
        }
        for resource, singular in SINGULAR.items()
    ]
    versions = [{"version": version, "resources": resources, "freshness": "Current"} for version in VERSIONS]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [{"metadata": {"name": GROUP}, "versions": versions}],
    }


def _group() -> Json:
    versions = [{"groupVersion": f"{GROUP}/{version}", "version": version} for version in VERSIONS]
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}


def _resources(version: str) -> Json:
    found = []
    for resource, singular in SINGULAR.items():
        same = {"namespaced": resource == LOCAL_QUEUES, "kind": SUMMARY}
        found.append({"name": resource, "singularName": singular, **same, "verbs": []})
        found.append({"name": f"{resource}/{SUBRESOURCE}", "singularName": "", **same, "verbs": ["get"]})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": found,
    }
