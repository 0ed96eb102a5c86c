"""The management cluster as admission sees it: objects that users make and change, a log, and writes that are carried
out as an API server does."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.hosting import in_force
from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.admission.facts import by_place
from controlplane.controllers.quota.admission.metric_labels import MetricLabels
from controlplane.controllers.quota.admission.observe import KINDS
from controlplane.controllers.quota.admission.pods_ready import WaitForPodsReady
from controlplane.controllers.quota.devices.model import NO_MAPPINGS, DeviceRules
from controlplane.controllers.quota.engine.resource_rules import AS_ASKED, ResourceRules
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.controllers.quota.topology.model import DEFAULT_RULES, PlacementRules
from controlplane.kube import kinds
from controlplane.kube.kinds import APPLY_PATCH, Json, Kind, Request
from controlplane.kube.requests import timestamp
from controlplane.log.codec import Codec
from controlplane.log.event import Event, NewEvent
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite, WriteRefusal
from controlplane.settings import Settings
from tests.support.scenes import SceneLog

START = datetime(2026, 1, 1, tzinfo=UTC)
NS, GPU = "team", "example.com/gpu"
Place = tuple[Kind, str, str]


def quota(cpu: str, flavor: str = "default", **limits: str) -> Json:
    resources = [{"name": "cpu", "nominalQuota": cpu, **limits}]
    return {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": resources}]}


def pod_set(name: str, **requests: str) -> Json:
    """One pod that asks for some resources; `gpu` is that of an extended resource."""
    asked = {GPU if resource == "gpu" else resource: amount for resource, amount in requests.items()}
    container = {"name": "c", "resources": {"requests": asked}}
    return {"name": name, "count": 1, "template": {"spec": {"containers": [container]}}}


class Scene(SceneLog):
    """One log, one controller, and the objects of one API server."""

    def __init__(
        self,
        *,
        fair_sharing: bool = False,
        pods_ready: WaitForPodsReady | None = None,
        block_admission: bool = False,
        past_usage: AdmissionFairSharing | None = None,
        after_finished: timedelta | None = None,
        resources: ResourceRules = AS_ASKED,
        devices: DeviceRules = NO_MAPPINGS,
        labels: MetricLabels | None = None,
        explicit_status: bool = False,
        priority_boost: bool = False,
        preemption_gates: bool = False,
        placement: PlacementRules = DEFAULT_RULES,
        ignore_undeclared: bool = False,
    ) -> None:
        self.settings = EngineSettings(
            fair_sharing=fair_sharing,
            block_admission=block_admission,
            admission_fair_sharing=past_usage,
            resources=resources,
            devices=devices,
            explicit_status=explicit_status,
            priority_boost=priority_boost,
            preemption_gates=preemption_gates,
            placement=placement,
            ignore_undeclared=ignore_undeclared,
        )
        self.controller = AdmissionController(self.settings, "test", pods_ready, after_finished, labels)
        self.codec = Codec(self.controller.types)
        self.now, self.log = START, []  # type: datetime, list[Recorded]
        self.versions: dict[str, int] = {}
        self.rv, self.uids = itertools.count(100), itertools.count(1)
        self.objects: dict[Place, Json] = {}
        self.wakes: dict[str, datetime] = {}
        self.written: list[Request] = []
        self.told: list[Json] = []
        self.ended: dict[str, Json] = {}
        self.refuses: Callable[[Request], WriteRefusal | None] = lambda request: None
        self.loses: Callable[[Request], bool] = lambda request: False
        self.connect()
        self.put(kinds.NAMESPACES, NS)
        self.put(kinds.RESOURCE_FLAVORS, "default", spec={})

    # --- the log -----------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Have all that is there in view."""
        connected = connectivity.ClusterConnected(kinds=[kind.name for kind in KINDS], incarnation="one")
        self.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=connected, cluster=MANAGEMENT))

    def record(self, new: NewEvent) -> None:
        self.controller.fold(self.appended(new))

    def restart(self, settings: EngineSettings) -> None:
        """Go on with another process that has other settings, which it says in the log."""
        self.settings = settings
        self.controller = self.replayed()
        self.codec = Codec(self.controller.types)
        started = service_started(2, "test", "0")
        self.record(started)
        self.record(NewEvent(stream=started.stream, event=in_force(MultiKueuePolicy(adapters={}), Settings())))
        self.connect()

    def replayed(self) -> AdmissionController:
        """Return another controller that has folded the same log."""
        other = AdmissionController(self.settings, "test")
        for recorded in self.log:
            other.fold(recorded)
        return other

    def said(self, kind: type[Event], name: str = "") -> list[Any]:
        """Return the recorded events of a type, all or those about one Workload."""
        stream = f"admission/workload/{NS}/{name}" if name else ""
        return [one.event for one in self.log if isinstance(one.event, kind) and stream in ("", one.stream)]

    # --- objects -----------------------------------------------------------------------------------------------------

    def put(self, kind: Kind, name: str, namespace: str = "", **fields: Any) -> Json:
        """Make an object, or change fields of it."""
        place = (kind, namespace if kind.namespaced else "", name)
        before = self.objects.get(place)
        obj: Json = copy.deepcopy(before) if before is not None else {"metadata": {"name": name}}
        if before is None:
            obj["metadata"]["uid"] = f"uid-{next(self.uids)}"
            obj["metadata"]["creationTimestamp"] = timestamp(self.now)
            if namespace:
                obj["metadata"]["namespace"] = namespace
        obj["metadata"] |= fields.pop("metadata", {})
        if "spec" in fields and before is not None and fields["spec"] != before.get("spec"):
            obj["metadata"]["generation"] = obj["metadata"].get("generation", 1) + 1
        obj["metadata"].setdefault("generation", 1)
        return self.store(place, obj | fields)

    def store(self, place: Place, obj: Json) -> Json:
        """Store a version of an object, and show it."""
        obj["metadata"]["resourceVersion"] = str(next(self.rv))
        self.objects[place] = obj
        if obj["metadata"].get("deletionTimestamp") and not obj["metadata"].get("finalizers"):
            return self.drop(place)
        self.show(place[0], obj)
        return obj

    def drop(self, place: Place) -> Json:
        obj = self.objects.pop(place)
        self.show(place[0], obj, gone=True)
        return obj

    def delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        """Delete an object, or mark it where a finalizer keeps it."""
        place = (kind, namespace if kind.namespaced else "", name)
        obj = copy.deepcopy(self.objects[place])
        obj["metadata"]["deletionTimestamp"] = timestamp(self.now)
        self.store(place, obj)

    def show(self, kind: Kind, obj: Json, *, gone: bool = False) -> None:
        version = obj["metadata"]["resourceVersion"]
        change = ObjectChange(MANAGEMENT, "one", kind, copy.deepcopy(obj), version, gone)
        new = self.controller.observe(change, self.now)
        if new is not None:
            self.record(new)

    def queue(self, name: str, cpu: str = "10", **spec: Any) -> None:
        """Have a ClusterQueue, and a LocalQueue of its name that leads to it."""
        spec = {"resourceGroups": [quota(cpu)], "namespaceSelector": {}, **spec}
        self.put(kinds.CLUSTER_QUEUES, name, spec=spec)
        if (kinds.LOCAL_QUEUES, NS, name) not in self.objects:
            self.put(kinds.LOCAL_QUEUES, name, NS, spec={"clusterQueue": name})

    def workload(
        self,
        name: str,
        queue: str,
        cpu: str = "1",
        count: int = 1,
        priority: int = 0,
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> Json:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        pod_sets = [{"name": "main", "count": count, "template": {"spec": {"containers": [container]}}}]
        spec = {"queueName": queue, "priority": priority, "podSets": pod_sets, **spec}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{name}"}
        metadata = {"ownerReferences": [owner], "annotations": annotations or {}, "labels": labels or {}}
        return self.put(kinds.WORKLOADS, name, NS, spec=spec, metadata=metadata)

    def of(self, name: str) -> Json:
        return self.objects[kinds.WORKLOADS, NS, name]

    def status(self, name: str) -> Json:
        found: Json = self.of(name).get("status", {})
        return found

    def condition(self, name: str, type_: str) -> Json:
        return next((one for one in self.status(name).get("conditions", ()) if one["type"] == type_), {})

    def is_true(self, name: str, type_: str) -> bool:
        return bool(self.condition(name, type_).get("status") == "True")

    def set_condition(self, name: str, type_: str, value: str = "True", reason: str = "ByHand", **also: Any) -> None:
        """Set a condition as somebody else does, and other fields of the status."""
        made = {
            "type": type_,
            "status": value,
            "reason": reason,
            "message": "by hand",
            "lastTransitionTime": timestamp(self.now),
        }
        status = {key: one for key, one in {**self.status(name), **also}.items() if one is not None}
        kept = [one for one in status.get("conditions", ()) if one["type"] != type_]
        self.put(kinds.WORKLOADS, name, NS, status={**status, "conditions": [*kept, made]})

    def finish(self, name: str) -> None:
        self.set_condition(name, "Finished")

    def release(self, name: str) -> None:
        """Take the reservation away, as whoever keeps the job does once its pods are gone."""
        self.set_condition(name, "Admitted", "False", "NoReservation")
        self.set_condition(name, "QuotaReserved", "False", "Pending", admission=None)

    # --- what follows ------------------------------------------------------------------------------------------------

    def decide(self) -> list[Event]:
        """Decide once about everything that has to be, and record it."""
        return [event for stream in self._due() for event in self._recorded(stream, self._decided(stream))]

    def decide_together(self, meanwhile: Callable[[], None] = lambda: None) -> list[Event]:
        """Decide once, as the loop does: about everything before any of it is recorded. What is overtaken by that is
        decided again with the next. `meanwhile`: what happens before it is recorded."""
        decided = {stream: self._decided(stream) for stream in self._due()}
        meanwhile()
        found: list[Event] = []
        for stream, one in decided.items():
            recorded = self._recorded(stream, one)
            if one.events and not recorded:
                self.wakes[stream] = self.now
            found += recorded
        return found

    def _due(self) -> list[str]:
        due = [stream for stream, at in self.wakes.items() if at <= self.now]
        return list(dict.fromkeys([*self.controller.take_dirty(), *due]))

    def _decided(self, stream: str) -> Decided:
        self.wakes.pop(stream, None)
        decided = self.controller.decide(stream, self.now)
        if decided.wake is not None:
            self.wakes[stream] = decided.wake
        return decided

    def _recorded(self, stream: str, decided: Decided) -> list[Event]:
        """Record what was decided, unless it was overtaken: what came marks it again."""
        expected = {stream: decided.version, **decided.others}
        if decided.events and any(self.versions.get(one, 0) != version for one, version in expected.items()):
            return []
        for new in decided.events:
            self.record(new)
        return [new.event for new in decided.events]

    def open_writes(self) -> list[OpenWrite]:
        streams = [f"admission/workload/{key}" for key in self.controller.index.workloads]
        streams += self.controller.failures.pods.states
        return [
            write
            for stream in [*streams, *self.controller.index.objects]
            for write in self.controller.open_writes(stream)
        ]

    def carry_out(self) -> int:
        """Carry out what is open; return how many requests were sent."""
        sent = 0
        for write in self.open_writes():
            if not self.controller.is_open(write):
                continue
            request = self.controller.request(write, {}, self.now)
            if request is None:
                refusal: WriteRefusal | None = WriteRefusal(404, "Obsolete", "overtaken")
            else:
                told = self.controller.announcement(write, self.now)
                refusal = self.refuses(request) or self._write(request)
                self.written.append(request)
                sent += 1
                if refusal is None and request.ref.kind == kinds.EVENTS:
                    self.record(self.controller.unneeded(write, ""))
                    told = (request,)
                self.told += [] if refusal is not None else [one.body for one in told]
            if refusal is not None:
                self.record(self.controller.failed(write, refusal, self.now))
        return sent

    def _write(self, request: Request) -> WriteRefusal | None:
        kind = kinds.PODS_OF_TOPOLOGIES if request.ref.kind == kinds.PODS else request.ref.kind
        place = (kind, request.ref.namespace, request.ref.name)
        before = self.objects.get(place)
        if request.verb == "create":
            return None
        if before is None:
            return WriteRefusal(404, "NotFound", "it is gone")
        if request.resource_version != before["metadata"]["resourceVersion"]:
            return WriteRefusal(409, "Conflict", "it has changed")
        if self.loses(request):
            return None
        if request.verb == "delete":
            if request.uid != before["metadata"]["uid"]:
                return WriteRefusal(409, "Conflict", "it is another one")
            self.delete(place[0], place[2], place[1])
            return None
        obj = copy.deepcopy(before)
        if request.content_type == APPLY_PATCH:
            others = {key: one for key, one in obj.get("status", {}).items() if key == "reclaimablePods"}
            obj["status"] = {**others, **copy.deepcopy(request.body["status"])}
        else:
            obj = merged(obj, request.body)
        if not request.subresource and obj.get("spec") != before.get("spec"):
            obj["metadata"]["generation"] += 1
        if kind == kinds.PODS_OF_TOPOLOGIES and obj["status"].get("phase") in ("Succeeded", "Failed"):
            self.ended[request.ref.name] = obj
            self.drop(place)  # it leaves the selection that is watched
            return None
        self.store(place, obj)
        return None

    def trouble(self, chance: float) -> None:
        """Lose a write, or refuse one, or neither: by a number from 0 to 1."""
        if chance < 0.2:
            lost = [True]
            self.loses = lambda request: bool(lost and lost.pop())
        elif chance < 0.3:
            refused = [WriteRefusal(500, "InternalError", "no")]
            self.refuses = lambda request: refused.pop() if refused else None

    def settle(self, rounds: int = 60) -> int:
        """Decide and carry out until nothing follows; return how many rounds it took."""
        for count in range(rounds):
            if not self.decide() and not self.carry_out():
                return count
        raise AssertionError(f"it does not settle: {[type(one.event).__name__ for one in self.log[-12:]]}")

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.settle()

    # --- what must hold ----------------------------------------------------------------------------------------------

    def posted(self) -> dict[str, dict[tuple[str, str, str], int]]:
        """Return what the ledger says that each Workload has, by ClusterQueue, flavor and resource."""
        found: dict[str, dict[tuple[str, str, str], int]] = {}
        for one in self.log:
            if isinstance(one.event, events.QuotaReservationDecided | events.QuotaPosted):
                of = found.setdefault(one.stream, {})
                for (flavor, resource), amount in by_place(one.event.amounts).items():
                    place = (one.event.cluster_queue, flavor, resource)
                    of[place] = of.get(place, 0) + amount
        return found

    def active(self, kind: Kind, name: str, namespace: str = "") -> tuple[str, str, str]:
        conditions: Sequence[Json] = self.objects[kind, namespace, name].get("status", {}).get("conditions", ())
        found = next((one for one in conditions if one["type"] == "Active"), {})
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def merged(before: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    found = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found
