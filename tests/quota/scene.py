"""A manager and its workers as quota automation sees them: objects shown, connections, writes carried out by hand."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.controllers.connectivity import events
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.controller import QuotaController, QuotaPolicy
from controlplane.controllers.quota.events import QuotaConditionDecided, QuotaDecided
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind
from controlplane.log.codec import Codec
from controlplane.log.event import Event, NewEvent
from controlplane.runtime.controller import ObjectChange, WriteRefusal
from tests.support.scenes import SceneLog

START = datetime(2026, 1, 1, tzinfo=UTC)
HOME = (
    kinds.CLUSTER_QUEUES,
    kinds.LOCAL_QUEUES,
    kinds.ADMISSION_CHECKS,
    kinds.MULTIKUEUE_CONFIGS,
    kinds.MULTIKUEUE_CLUSTERS,
)
WORKER = (kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES)
NS, LOCAL, QUEUE, CHECK, CONFIG = "team", "lq", "q1", "ac1", "config"
STREAM = f"quota/queue/{QUEUE}"


def resource(name: str, amount: str, **limits: str) -> Json:
    return {"name": name, "nominalQuota": amount, **limits}


def group(*resources: Json, flavor: str = "default") -> Json:
    return {
        "coveredResources": [one["name"] for one in resources],
        "flavors": [{"name": flavor, "resources": list(resources)}],
    }


class Scene(SceneLog):
    """One log, one controller. What is decided is recorded, and the object changed as the request says."""

    def __init__(self, *workers: str, management: str = "Automated", quota: str = "1") -> None:
        self.controller = QuotaController(QuotaPolicy(worker_lost_timeout=timedelta(minutes=15)))
        self.codec = Codec(self.controller.types)
        self.now, self.log = START, []  # type: datetime, list[Recorded]
        self.versions: dict[str, int] = {}
        self.rv = itertools.count(100)
        self.wake: datetime | None = None
        self.queue: Json = {}
        self.connect(MANAGEMENT, *HOME)
        self.check()
        self.config(*workers, management=management)
        self.local_queue(MANAGEMENT)
        for name in workers:
            self.defined(name)
            self.connect(name, *WORKER)
            self.local_queue(name)
            self.worker_queue(name, group(resource("cpu", "10")))
        self.manager_queue(group(resource("cpu", quota)))

    # --- the log ---

    def record(self, new: NewEvent) -> None:
        self.controller.fold(self.appended(new))

    def say(self, cluster: str, event: Event) -> None:
        self.record(NewEvent(stream=events.cluster_stream(cluster), event=event, cluster=cluster))

    def defined(self, cluster: str) -> None:
        """A MultiKueueCluster of this name is there: an event that the other controller records."""
        self.say(cluster, events.ClusterSuspected(message="stands for a MultiKueueCluster that was seen"))

    def connect(self, cluster: str, *listed: Kind) -> None:
        self.say(cluster, events.ClusterConnected(kinds=[kind.name for kind in listed], incarnation=f"i-{cluster}"))

    def lose(self, cluster: str) -> None:
        self.say(cluster, events.ClusterLost(reason="Unreachable", message="no answer"))

    # --- what is seen ---

    def show(self, cluster: str, kind: Kind, obj: Json, *, gone: bool = False) -> Json:
        version = str(next(self.rv))
        metadata = {
            "uid": f"{cluster}-{kind.kind}-{obj['metadata']['name']}",
            **obj["metadata"],
            "resourceVersion": version,
        }
        shown = {**obj, "metadata": metadata}
        new = self.controller.observe(ObjectChange(cluster, f"i-{cluster}", kind, shown, version, gone), self.now)
        if new is not None:
            self.record(new)
        return shown

    def check(self, *, gone: bool = False, controller: str = "kueue.x-k8s.io/multikueue") -> None:
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": CONFIG}
        spec = {"controllerName": controller, "parameters": parameters}
        self.show(MANAGEMENT, kinds.ADMISSION_CHECKS, {"metadata": {"name": CHECK}, "spec": spec}, gone=gone)

    def config(self, *clusters: str, management: Any = "Automated", gone: bool = False) -> None:
        spec = {"clusters": list(clusters), **({"quotaManagement": management} if management else {})}
        self.show(MANAGEMENT, kinds.MULTIKUEUE_CONFIGS, {"metadata": {"name": CONFIG}, "spec": spec}, gone=gone)

    def local_queue(
        self, cluster: str, name: str = LOCAL, queue: str = QUEUE, *, gone: bool = False, ns: str = NS
    ) -> None:
        body = {"metadata": {"namespace": ns, "name": name}, "spec": {"clusterQueue": queue}}
        self.show(cluster, kinds.LOCAL_QUEUES, body, gone=gone)

    def worker_queue(self, cluster: str, *groups: Json, name: str = QUEUE, gone: bool = False) -> None:
        body = {"metadata": {"name": name}, "spec": {"resourceGroups": list(groups)}}
        self.show(cluster, kinds.CLUSTER_QUEUES, body, gone=gone)

    def manager_queue(self, *groups: Json, checks: tuple[str, ...] = (CHECK,), **status: Any) -> None:
        strategy = {"admissionChecks": [{"name": name} for name in checks]}
        status = status or self.queue.get("status", {})
        body = {
            "metadata": {"name": QUEUE, "generation": 3},
            "spec": {"resourceGroups": list(groups), "admissionChecksStrategy": strategy},
            "status": status,
        }
        self.queue = self.show(MANAGEMENT, kinds.CLUSTER_QUEUES, body)

    # --- what follows ---

    def decide(self) -> list[Event]:
        """Decide once, and record that."""
        self.controller.take_dirty()
        decided = self.controller.decide(STREAM, self.now)
        self.wake = decided.wake
        for new in decided.events:
            self.record(new)
        return [new.event for new in decided.events]

    def settle(self) -> list[Event]:
        """Decide and carry out until nothing follows."""
        said: list[Event] = []
        while found := self.decide():
            said += found
            assert len(said) < 10, "it does not come to rest"
            self.carry_out()
        return said

    def carry_out(self) -> None:
        (write,) = self.controller.open_writes(STREAM)
        request = self.controller.request(write, {}, self.now)
        assert request is not None
        assert request.resource_version == self.queue["metadata"]["resourceVersion"]
        changed = {**self.queue, **{key: {**self.queue.get(key, {}), **value} for key, value in request.body.items()}}
        self.queue = self.show(MANAGEMENT, kinds.CLUSTER_QUEUES, changed)

    def refuse(self, code: int, error: str) -> None:
        (write,) = self.controller.open_writes(STREAM)
        self.record(self.controller.failed(write, WriteRefusal(code, error, "no"), self.now))

    def quotas(self) -> list[dict[str, str]]:
        """What was decided, in order."""
        return [one.event.resources for one in self.log if isinstance(one.event, QuotaDecided)]

    @property
    def shown(self) -> tuple[str, str, str] | None:
        found = [
            one
            for one in self.queue["status"].get("conditions", [])
            if one["type"] == "MultiKueueManagerQuotaAutomation"
        ]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


__all__ = ["CHECK", "CONFIG", "LOCAL", "NS", "QUEUE", "STREAM", "QuotaConditionDecided", "Scene", "group", "resource"]
