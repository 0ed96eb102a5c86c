"""Whose PodGroup ten thousand pods are in: reads of owners, requests and time, beside a walk that each pod does for
itself.

The capability runs as the loop runs it (observe, fold, decide, read, fold), without a database and without a network:
reads are answered at once from memory and counted. Three ways: owners shown by watches, owners that have to be read (as
kinds are that nobody watches), and the naive walk in which every pod reads its own chain. All three are checked to put
the same pods into the same groups."""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from benchmarks.machine import show
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, cluster_stream
from controlplane.controllers.podgroups.controller import PodGroupController
from controlplane.controllers.podgroups.events import RULES_STREAM, OwnerResolved, RulesAccepted
from controlplane.controllers.podgroups.index import PodGroupPolicy
from controlplane.controllers.podgroups.objects import (
    DEPLOYMENTS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    OwnerReference,
    owner_facts,
    pod_facts,
)
from controlplane.controllers.podgroups.ownership import OwnerAnswer, Resolution, resolve
from controlplane.controllers.podgroups.rules import DEFAULT_DOCUMENT, read_text
from controlplane.kube.kinds import Json
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange, ReadAnswer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_KINDS = {kind.kind: kind for kind in (DEPLOYMENTS, REPLICA_SETS)}


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    pods, owners = _cluster(args.pods, args.deployments)
    ways: list[tuple[str, Callable[[], tuple[dict[str, str], Counter[str], int]]]] = [
        ("owners watched", lambda: _capability(pods, owners, watched=True)),
        ("owners read", lambda: _capability(pods, owners, watched=False)),
        ("naive: each pod reads its chain", lambda: _naive(pods, owners)),
    ]
    rows: list[list[object]] = []
    groups: list[dict[str, str]] = []
    for name, way in ways:
        times = []
        for _ in range(args.repeat):
            started = time.perf_counter()
            found, reads, writes = way()
            times.append(time.perf_counter() - started)
        groups.append(found)
        seconds = statistics.median(times)
        most = max(reads.values(), default=0)
        rows.append([name, len(set(found.values())), reads.total(), most, writes, args.pods / seconds])
    if any(found != groups[0] for found in groups) or len(groups[0]) != args.pods:
        raise RuntimeError("the ways do not agree about the groups")
    title = f"podgroups: {args.pods:,} pods of {args.deployments:,} Deployments, median of {args.repeat}"
    show(title, ["way", "groups", "reads", "most of one owner", "writes wanted", "pods/s"], rows)


def _cluster(pods: int, deployments: int) -> tuple[list[Json], dict[tuple[str, str], Json]]:
    """Return pods and owners: each Deployment has two ReplicaSets, as in the middle of a rollout."""
    owners: dict[tuple[str, str], Json] = {}
    for number in range(deployments):
        above = _object("apps/v1", "Deployment", f"d{number}", {})
        owners["Deployment", f"d{number}"] = above
        for half in "ab":
            name = f"d{number}-{half}"
            owners["ReplicaSet", name] = _object("apps/v1", "ReplicaSet", name, {}, above)
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}
    made = [
        _object("v1", "Pod", f"p{n}", spec, owners["ReplicaSet", f"d{n % deployments}-{'ab'[n // deployments % 2]}"])
        for n in range(pods)
    ]
    return made, owners


def _object(api_version: str, kind: str, name: str, spec: Json, above: Json | None = None) -> Json:
    metadata: Json = {"namespace": "bench", "name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    if above is not None:
        place = {key: above["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [
            {"apiVersion": above["apiVersion"], "kind": above["kind"], "controller": True, **place}
        ]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


class _Log:
    """Positions and versions, as the log gives them."""

    def __init__(self, fleet: PodGroupController) -> None:
        self.fleet, self.position = fleet, 0
        self.versions: Counter[str] = Counter()

    def add(self, stream: str, event: Event) -> None:
        self.position += 1
        self.versions[stream] += 1
        version = self.versions[stream]
        self.fleet.fold(Recorded(position=self.position, stream=stream, version=version, event=event, recorded_at=NOW))


def _capability(
    pods: list[Json], owners: dict[tuple[str, str], Json], *, watched: bool
) -> tuple[dict[str, str], Counter[str], int]:
    fleet = PodGroupController(PodGroupPolicy(), "benchmark")
    log = _Log(fleet)
    log.add(cluster_stream(MANAGEMENT), ClusterConnected(kinds=[PODS.name, POD_GROUPS.name]))
    log.add(RULES_STREAM, RulesAccepted(rules=list(read_text(DEFAULT_DOCUMENT).entries)))
    for obj in [*(owners.values() if watched else ()), *pods]:
        kind = _KINDS.get(obj["kind"], PODS)
        new = fleet.observe(ObjectChange(MANAGEMENT, "life", kind, obj, "1", False), NOW)
        assert new is not None
        log.add(new.stream, new.event)
    groups: dict[str, str] = {}
    reads: Counter[str] = Counter()
    writes = 0
    for stream in _streams(fleet):
        decided = fleet.decide(stream, NOW)
        for one in decided.events:
            if isinstance(one.event, OwnerResolved):
                groups[one.event.uid] = one.event.group
            else:
                writes += 1
            log.add(one.stream, one.event)
        for read in fleet.open_reads(stream, NOW):
            if fleet.is_wanted(read):
                reads[read.stream] += 1
                answer = ReadAnswer(object=owners[read.kind, read.name])
                event = fleet.answered(read, answer, NOW)
                log.add(event.stream, event.event)
    return groups, reads, writes


def _streams(fleet: PodGroupController) -> Iterator[str]:
    while streams := fleet.take_dirty():
        yield from streams


def _naive(pods: list[Json], owners: dict[tuple[str, str], Json]) -> tuple[dict[str, str], Counter[str], int]:
    """Let every pod read its own chain: nothing is remembered from one to the next."""
    rules = read_text(DEFAULT_DOCUMENT)
    groups: dict[str, str] = {}
    reads: Counter[str] = Counter()
    for obj in pods:
        pod, mine = pod_facts(obj), dict[OwnerReference, OwnerAnswer]()

        def known(namespace: str, owner: OwnerReference, mine: dict[OwnerReference, OwnerAnswer] = mine) -> OwnerAnswer:
            if owner not in mine:
                reads[owner.uid] += 1
                mine[owner] = OwnerAnswer(outcome="Found", facts=owner_facts(owners[owner.kind, owner.name]))
            return mine[owner]

        step = resolve(pod, rules, known)
        assert isinstance(step, Resolution)
        groups[pod.uid] = step.group_name
    return groups, reads, len(set(groups.values()))
