"""A hub and its workers as the judging room sees them: objects shown, connections, answers of reads; judgements in the
log.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.controllers.connectivity import events
from controlplane.controllers.connectivity.eligibility import ClustersJudged, Fit, fit_stream
from controlplane.controllers.coscheduling.feasibility.controller import FeasibilityController, FeasibilityPolicy
from controlplane.controllers.coscheduling.feasibility.observe import WORKER_KINDS
from controlplane.kube.kinds import NODES, PIPELINE_RUNS, STORAGE_CLASSES, WORKLOADS, Json, Kind
from controlplane.log.codec import Codec
from controlplane.log.event import Event, NewEvent
from controlplane.runtime.controller import ObjectChange, OpenRead, ReadAnswer, WriteRefusal
from tests.coscheduling.samples import NS, UID, run
from tests.support.scenes import SceneLog

START = datetime(2026, 1, 1, tzinfo=UTC)
OURS = "kueue.x-k8s.io/multikueue"
STREAM = fit_stream(PIPELINE_RUNS, NS, "my-pipelinerun")
EVERY = tuple(kind.name for kind in WORKER_KINDS)


class Scene(SceneLog):
    """One log, one room. What is decided is recorded, after it went through the log's own encoding."""

    def __init__(self, *workers: str, **policy: Any) -> None:
        self.room = FeasibilityController(FeasibilityPolicy(**policy))
        self.codec = Codec(self.room.types)
        self.now, self.log = START, []  # type: datetime, list[Recorded]
        self.versions: dict[str, int] = {}
        self.rv = itertools.count(100)
        self.wake: datetime | None = None
        for name in workers:
            self.connect(name)
            self.node(name)

    # --- the log ---

    def record(self, new: NewEvent) -> None:
        self.room.fold(self.appended(new))

    def say(self, cluster: str, event: Event) -> None:
        self.record(NewEvent(stream=events.cluster_stream(cluster), event=event, cluster=cluster))

    def connect(self, cluster: str, *kinds: str, incarnation: str = "") -> None:
        event = events.ClusterConnected(kinds=list(kinds or EVERY), incarnation=incarnation or f"i-{cluster}")
        self.say(cluster, event)

    def synced(self, cluster: str, kind: Kind) -> None:
        self.say(cluster, events.KindSynced(kind=kind.name, count=0, resource_version="1"))

    def off(self, cluster: str, kind: Kind, message: str = "forbidden") -> None:
        self.say(cluster, events.KindOff(kind=kind.name, reason="Forbidden", message=message))

    def lose(self, cluster: str) -> None:
        self.say(cluster, events.ClusterLost(reason="Unreachable", message="no answer"))

    def remove(self, cluster: str) -> None:
        self.say(cluster, events.ClusterDisconnected(reason="Removed"))

    def restart(self) -> None:
        self.record(NewEvent(stream="service", event=events.ServiceStarted(epoch=2, holder="b", version="1")))

    # --- what is seen ---

    def show(self, cluster: str, kind: Kind, obj: Json, *, gone: bool = False) -> bool:
        """Show an object; return whether it was recorded."""
        version = str(next(self.rv))
        metadata = {"uid": f"{cluster}-{kind.kind}-{obj['metadata']['name']}", **obj["metadata"]}
        shown = {**obj, "metadata": {**metadata, "resourceVersion": version}}
        new = self.room.observe(ObjectChange(cluster, f"i-{cluster}", kind, shown, version, gone), self.now)
        if new is not None:
            self.record(new)
        return new is not None

    def node(self, cluster: str, name: str = "n1", cpu: str = "8", pods: str = "20", **more: Any) -> None:
        allocatable = {"cpu": cpu, "memory": "64Gi", "pods": pods}
        body = {"metadata": {"name": name, "labels": more.pop("labels", {})}, "spec": more}
        self.show(cluster, NODES, {**body, "status": {"allocatable": allocatable}})

    def storage_class(self, cluster: str, name: str, *, late: bool = True, default: bool = False) -> None:
        notes = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
        binding = "WaitForFirstConsumer" if late else "Immediate"
        metadata = {"name": name, "annotations": notes}
        self.show(cluster, STORAGE_CLASSES, {"metadata": metadata, "volumeBindingMode": binding})

    def submit(self, *workspaces: Json, started: bool = False, **more: Any) -> Json:
        asks = {"name": "s", "computeResources": {"requests": {"cpu": "1"}}}
        inline = [{"name": "only", "taskSpec": {"steps": [asks]}}]
        obj = run(*workspaces, **{"managedBy": OURS, "tasks": inline, **more})
        if started:
            obj["status"] = {"startTime": "2026-01-01T00:00:00Z"}
        self.show(events.MANAGEMENT, PIPELINE_RUNS, obj)
        return obj

    def workload(self, cpu: str, owner: str = UID, *, count: int = 1, gone: bool = False, **more: str) -> bool:
        reference = {"kind": "PipelineRun", "name": "my-pipelinerun", "uid": owner, "controller": True}
        container = {"name": "c", "resources": {"requests": {"cpu": cpu, **more}}}
        pod_set = {"name": "main", "count": count, "template": {"spec": {"containers": [container]}}}
        metadata = {"namespace": NS, "name": "pipelinerun-x", "ownerReferences": [reference]}
        return self.show(
            events.MANAGEMENT, WORKLOADS, {"metadata": metadata, "spec": {"podSets": [pod_set]}}, gone=gone
        )

    # --- what follows ---

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def decide(self, stream: str = STREAM) -> list[ClustersJudged]:
        """One pass; what it says is recorded and returned."""
        decided = self.room.decide(stream, self.now)
        self.wake = decided.wake
        for new in decided.events:
            self.record(new)
        return [new.event for new in decided.events if isinstance(new.event, ClustersJudged)]

    @property
    def judged(self) -> dict[str, Fit]:
        """What was said last."""
        self.decide()
        said = self.room.runs[STREAM].said
        return said.clusters if said is not None else {}

    @property
    def reasons(self) -> dict[str, str]:
        return {name: fit.reason for name, fit in self.judged.items()}

    def reads(self) -> list[OpenRead]:
        """What the run waits to be read, after a pass."""
        self.decide()
        return list(self.room.open_reads(STREAM, self.now))

    def answer(self, wanted: str, outcome: Json | int | None, cluster: str = "a") -> None:
        """Answer the open read of `Kind name` on a cluster: with an object, an HTTP status, or None: the kind is not
        served.
        """
        read = next(one for one in self.reads() if (one.cluster, f"{one.kind} {one.name}") == (cluster, wanted))
        assert self.room.is_wanted(read)
        if isinstance(outcome, int):
            answer = ReadAnswer(failure=WriteRefusal(outcome, "No", f"{outcome} said the server"))
        else:
            answer = ReadAnswer(object=outcome, not_served=outcome is None)
        self.record(self.room.answered(read, answer, self.now))
