"""How long one scheduling cycle takes on a large cluster: all nodes at once with arrays, beside the same rules node by
node.

Nodes lie in ten zones with ten pods each, of deployments of fifty. Every pod is scheduled and then assumed on its node,
so that the next one finds a changed cluster. "node by node" asks the same plugins' one-node forms for every node; what
the snapshot keeps counted serves both."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator

from benchmarks.machine import show
from controlplane.controllers.scheduling.cycle import schedule
from controlplane.controllers.scheduling.framework.configuration import default_framework
from controlplane.controllers.scheduling.snapshot.objects import ZONE, Pod, read_node, read_pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube.kinds import Json
from controlplane.kube.well_known import HOSTNAME

PODS_A_NODE = 10
PODS_A_DEPLOYMENT = 50
SHAPES = ("plain", "spread", "spread and affinity")


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    rows: list[list[object]] = []
    for nodes in args.nodes:
        for shape in SHAPES:
            fast = _cycles(nodes, shape, args.cycles, vectorised=True)
            slow = _cycles(nodes, shape, max(3, args.cycles // 50), vectorised=False)
            rows.append(
                [f"{nodes:,}, {shape}", *_figures(fast), _milliseconds(statistics.median(slow)), _times(fast, slow)]
            )
    columns = ["nodes, pod", "pods/s", "p50 ms", "p99 ms", "node by node p50 ms", "times"]
    show(f"scheduler: one cycle, {PODS_A_NODE} pods a node, {args.cycles} cycles", columns, rows)


def _cycles(nodes: int, shape: str, cycles: int, *, vectorised: bool) -> list[float]:
    """Return the seconds of each cycle, the assuming of the pod included."""
    snapshot = cluster(nodes)
    framework = default_framework()
    framework.vectorised = vectorised
    seconds = []
    for number, new in enumerate(pods(shape, cycles)):
        started = time.perf_counter()
        found = schedule(framework, snapshot, new, pick=number)
        if not found.node:
            raise RuntimeError(f"pod {new.name} found no node: {found.status.reasons}")
        snapshot.add_pod(new, found.node)
        seconds.append(time.perf_counter() - started)
    return seconds


def cluster(nodes: int) -> Snapshot:
    """Return a cluster of so many nodes, with their pods."""
    made = [read_node(node(number)) for number in range(nodes)]
    return Snapshot(made, (read_pod(_existing(number, nodes)) for number in range(nodes * PODS_A_NODE)))


def pods(shape: str, count: int) -> Iterator[Pod]:
    """Yield pods to be scheduled, of deployments that are there already."""
    for number in range(count):
        yield read_pod(pod(f"new-{number}", shape, number))


def pod(name: str, shape: str, number: int, **spec: object) -> Json:
    """Return a pod of one of `SHAPES`; ten in a row are of one app."""
    app = f"app-{number // 10 % 20}"
    return _pod(name, app, **_wishes(shape, app), **spec)


def _wishes(shape: str, name: str) -> Json:
    if shape == "plain":
        return {}
    selector = {"matchLabels": {"app": name}}
    spread = [
        {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector},
        {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector},
    ]
    if shape == "spread":
        return {"topologySpreadConstraints": spread}
    term = {"topologyKey": HOSTNAME, "labelSelector": selector}
    near = {"topologyKey": ZONE, "labelSelector": selector}
    disks = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    return {
        "topologySpreadConstraints": spread,
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [disks]}},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": near}]
            },
        },
    }


def node(number: int) -> Json:
    """Return a node: one of ten zones."""
    labels = {HOSTNAME: f"node-{number}", ZONE: f"zone-{number % 10}", "disk": "ssd" if number % 2 else "hdd"}
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    taints = [{"key": "team", "value": "x", "effect": "NoSchedule"}] if number % 50 == 7 else []
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": room},
    }


def _existing(number: int, nodes: int) -> Json:
    return _pod(f"pod-{number}", f"app-{number // PODS_A_DEPLOYMENT}", nodeName=f"node-{number * 7 % nodes}")


def _pod(name: str, app: str, **spec: object) -> Json:
    requests = {"cpu": "200m", "memory": "256Mi"}
    containers = [{"name": "c", "image": "app:1", "resources": {"requests": requests}}]
    meta = {"namespace": "default", "name": name, "uid": name, "labels": {"app": app}}
    return {"metadata": meta, "spec": {"containers": containers, **spec}}


def _figures(seconds: list[float]) -> list[object]:
    p99 = statistics.quantiles(seconds, n=100)[98] if len(seconds) > 1 else seconds[0]
    return [len(seconds) / sum(seconds), _milliseconds(statistics.median(seconds)), _milliseconds(p99)]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def _times(fast: list[float], slow: list[float]) -> str:
    return f"{statistics.median(slow) / statistics.median(fast):.0f}"
