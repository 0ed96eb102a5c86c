"""Nodes and pods for the tests, in as few words as possible."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.scheduling.snapshot.objects import Node, Pod, read_node, read_pod
from controlplane.kube.kinds import Json

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(name: str, labels: dict[str, str] | None = None, **more: Any) -> Json:
    """Return a Node with its hostname label; `more`: taints, unschedulable, allocatable, images."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"} | more.pop("allocatable", {})
    status = {"allocatable": room, "images": more.pop("images", [])}
    meta = {"name": name, "labels": {HOST: name} | (labels or {})}
    return {"metadata": meta, "spec": more, "status": status}


def pod(name: str, labels: dict[str, str] | None = None, on: str = "", **spec: Any) -> Json:
    """Return a Pod; `requests` is one container's, `meta` and `status` go where they belong."""
    requests = spec.pop("requests", {})
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}} | spec.pop("meta", {})
    status = spec.pop("status", {})
    container = {"name": "c", "image": spec.pop("image", "app"), "resources": {"requests": requests}}
    placed = {"nodeName": on} if on else {}
    return {"metadata": meta, "spec": {"containers": [container], **placed, **spec}, "status": status}


def a_pod(name: str, labels: dict[str, str] | None = None, on: str = "", **spec: Any) -> Pod:
    """Return a parsed pod."""
    return read_pod(pod(name, labels, on, **spec))


def a_node(name: str, labels: dict[str, str] | None = None, **more: Any) -> Node:
    """Return a parsed node."""
    return read_node(node(name, labels, **more))


def constraint(key: str, skew: int = 1, when: str = "DoNotSchedule", **more: Any) -> Json:
    """Return a spread constraint for app=a, unless `labelSelector` says otherwise."""
    selector = {"labelSelector": {"matchLabels": {"app": "a"}}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, **selector, **more}


def term(key: str, labels: dict[str, str] | None = None, **more: Any) -> Json:
    """Return a pod affinity term for labels."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels or {"app": "a"}}, **more}
