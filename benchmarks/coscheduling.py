"""A wave of PipelineRuns: what placing them costs in decisions, time and requests, folded, and beside it planned anew
in each pass.

The room follows the wave as its loop would: every object that changes is observed, folded and decided on, and each
write is counted and answered by an API server that is a dictionary. Nothing waits, so the time is the core's own. The
other way is a reconciler without a memory: at each change it looks up what is there and plans from nothing, by the same
functions that build the objects."""

from __future__ import annotations

import argparse
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from benchmarks.machine import show
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, cluster_stream
from controlplane.controllers.coscheduling.controller import CoschedulingController, CoschedulingPolicy
from controlplane.controllers.coscheduling.objects import CLAIMS, CONFIG_MAPS, NODES, PODS, STATEFUL_SETS
from controlplane.controllers.coscheduling.observe import KINDS
from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.plan import PlannedCluster, plan
from controlplane.kube.kinds import PIPELINE_RUNS, Json, Kind, Request, meta
from controlplane.log.event import NewEvent, Recorded
from controlplane.runtime.controller import ObjectChange

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_NODES = 20
_PROTECTION = "kubernetes.io/pvc-protection"
# Changes of a run's status while its tasks go by, of which nothing follows.
_QUIET = 6


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    wave = [_run(number) for number in range(args.runs)]
    folded = _Wave()
    seconds = {"folded": _timed(folded, wave)}
    lookups, seconds["from nothing"] = _from_nothing(wave)
    rows: list[list[object]] = [
        [f"{verb} {kind}", count / args.runs] for (verb, kind), count in sorted(folded.requests.items())
    ]
    rows.append(["all writes", folded.requests.total() / args.runs])
    show(f"coscheduling: writes of a run, {args.runs:,} PipelineRuns on {_NODES} nodes", ["request", "a run"], rows)
    passes = args.runs * (_QUIET + 3)
    compared: list[list[object]] = [
        ["passes", folded.passes, passes],
        ["seconds of the core", seconds["folded"], seconds["from nothing"]],
        ["passes/s", folded.passes / seconds["folded"], passes / seconds["from nothing"]],
        ["lookups a run that would be requests", 0, lookups / args.runs],
    ]
    show("the same wave, folded and planned from nothing", ["", "folded", "from nothing"], compared)


def _run(number: int) -> Json:
    tasks = [
        {"name": "clone", "taskRef": {"name": "clone"}, "workspaces": [{"name": "source"}]},
        {"name": "build", "taskRef": {"name": "build"}, "workspaces": [{"name": "source"}, {"name": "cache"}]},
    ]
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "tekton.dev/v1",
        "kind": "PipelineRun",
        "metadata": {"name": f"run-{number}", "namespace": "ci", "uid": f"uid-run-{number}"},
        "spec": {
            "pipelineSpec": {"tasks": tasks},
            "workspaces": [
                {"name": "source", "volumeClaimTemplate": {"spec": storage}},
                {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}},
            ],
        },
    }


class _Wave:
    """The room, its log and a dictionary of objects."""

    def __init__(self) -> None:
        self.room = CoschedulingController(CoschedulingPolicy(image="nop"), "benchmark")
        self.objects: dict[tuple[Kind, str], Json] = {}
        self.requests: Counter[tuple[str, str]] = Counter()
        self.passes = 0
        self._bodies: dict[str, bytes] = {}
        self._versions: Counter[str] = Counter()
        self._positions = itertools.count(1)
        self._nodes = itertools.cycle(f"node-{number}" for number in range(_NODES))
        self._append(
            NewEvent(stream=cluster_stream(MANAGEMENT), event=ClusterConnected(kinds=[kind.name for kind in KINDS]))
        )
        flags: Json = {"metadata": {"name": "feature-flags", "namespace": "tekton-pipelines"}}
        self._put(CONFIG_MAPS, {**flags, "data": {"coschedule": "pipelineruns"}})
        for number in range(_NODES):
            self._put(NODES, {"metadata": {"name": f"node-{number}"}, "spec": {}})

    def play(self, wave: list[Json]) -> None:
        """Let the wave start, run, lose a node, and end."""
        for obj in wave:
            self._put(PIPELINE_RUNS, obj)
        self._settle()
        for number in range(_QUIET):
            for obj in wave:
                self._put(PIPELINE_RUNS, {**obj, "status": {"childReferences": [{"name": str(number)}]}})
            self._settle()
        self._put(NODES, {"metadata": {"name": "node-0"}, "spec": {"unschedulable": True}})
        self._settle()
        for obj in wave:
            self._put(PIPELINE_RUNS, {**obj, "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}})
        self._settle()
        left = [kind.kind for kind, _ in self.objects if kind in (STATEFUL_SETS, PODS, CLAIMS)]
        if left:
            raise RuntimeError(f"not everything was cleaned up: {Counter(left)}")

    def _append(self, new: NewEvent) -> None:
        self._versions[new.stream] += 1
        for body in new.bodies:
            self._bodies[body.ref] = body.text.encode()
        self.room.fold(
            Recorded(
                position=next(self._positions),
                stream=new.stream,
                version=self._versions[new.stream],
                event=new.event,
                cluster=MANAGEMENT,
                recorded_at=_NOW,
            )
        )

    def _put(self, kind: Kind, obj: Json) -> None:
        metadata = {"uid": f"uid-{kind.kind}-{meta(obj)['name']}", **meta(obj)}
        obj = {**obj, "metadata": {**metadata, "resourceVersion": str(next(self._positions))}}
        self.objects[kind, metadata["name"]] = obj
        self._see(kind, obj, gone=False)

    def _drop(self, kind: Kind, name: str) -> None:
        self._see(kind, self.objects.pop((kind, name)), gone=True)

    def _see(self, kind: Kind, obj: Json, *, gone: bool) -> None:
        seen = self.room.observe(ObjectChange(MANAGEMENT, "life", kind, obj, meta(obj)["resourceVersion"], gone), _NOW)
        if seen is not None:
            self._append(seen)

    def _settle(self) -> None:
        while dirty := self.room.take_dirty():
            for stream in dirty:
                self.passes += 1
                for new in self.room.decide(stream, _NOW).events:
                    self._append(new)
                for request in self._open(stream):
                    self.requests[request.verb, request.ref.kind.name] += 1
                    self._carry_out(request)

    def _open(self, stream: str) -> Iterator[Request]:
        for write in self.room.open_writes(stream):
            needed = {ref: self._bodies[ref] for ref in self.room.bodies_needed(write)}
            request = self.room.request(write, needed, _NOW)
            if request is not None:
                yield request

    def _carry_out(self, request: Request) -> None:
        kind, name = request.ref.kind, request.ref.name
        if request.verb == "create":
            self._put(kind, {**request.body, "status": {"readyReplicas": 1}})
            self._follow(self.objects[kind, name])
        elif request.verb == "delete" and meta(self.objects[kind, name]).get("finalizers"):
            held = self.objects[kind, name]
            self._put(kind, {**held, "metadata": {**meta(held), "deletionTimestamp": "2026-01-01T00:00:00Z"}})
        else:
            owner = self.objects[kind, name]
            self._drop(kind, name)
            if kind == STATEFUL_SETS:
                self._drop(PODS, f"{name}-0")
            elif kind == PODS:
                self._place(self.objects[STATEFUL_SETS, name.removesuffix("-0")])
            assert meta(owner)["uid"] == request.uid

    def _follow(self, stateful_set: Json) -> None:
        """Do what the StatefulSet controller does: the claims of its templates, and its pod."""
        name, spec = meta(stateful_set)["name"], stateful_set["spec"]
        for template in spec.get("volumeClaimTemplates", ()):
            metadata = {**meta(template), "name": f"{meta(template)['name']}-{name}-0", "namespace": "ci"}
            self._put(CLAIMS, {**template, "metadata": {**metadata, "finalizers": [_PROTECTION]}})
        self._place(stateful_set)

    def _place(self, stateful_set: Json) -> None:
        metadata = meta(stateful_set)
        owner = {"kind": "StatefulSet", "uid": metadata["uid"], "controller": True}
        self._put(
            PODS,
            {
                "metadata": {
                    "name": f"{metadata['name']}-0",
                    "namespace": "ci",
                    "labels": metadata["labels"],
                    "ownerReferences": [owner],
                    "uid": f"uid-pod-{next(self._positions)}",
                },
                "spec": {"nodeName": next(self._nodes)},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            },
        )


class _Counting(ObjectsByKind):
    """Objects whose every lookup would be a request to an API server."""

    lookups = 0

    def find(self, kind: str, namespace: str, name: str) -> Json | None:
        self.lookups += 1
        return super().find(kind, namespace, name)

    def all(self, kind: str, namespace: str | None = None) -> list[Json]:
        self.lookups += 1
        return super().all(kind, namespace)


def _timed(wave: _Wave, objects: list[Json]) -> float:
    started = time.perf_counter()
    wave.play(objects)
    return time.perf_counter() - started


def _from_nothing(wave: list[Json]) -> tuple[int, float]:
    """Return the lookups and the seconds of planning each run anew at its start, at each change, at a cordon, and at
    its end.
    """
    cluster, lookups, seconds = PlannedCluster(flags={"coschedule": "pipelineruns"}), 0, 0.0
    done: Json = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    for obj in wave:
        made = plan(obj, ObjectsByKind([obj]), cluster).stateful_sets
        around = [*made, *({"kind": "Node", "metadata": {"name": f"node-{number}"}} for number in range(_NODES))]
        for status in [{}, *({"childReferences": [{"name": str(number)}]} for number in range(_QUIET + 1)), done]:
            world = _Counting([obj, *around])
            started = time.perf_counter()
            plan({**obj, "status": status}, world, cluster)
            seconds += time.perf_counter() - started
            lookups += world.lookups
    return lookups, seconds
