"""The scheduling loop without its process: a log that is a list, an API server that is a dict, and every step by
hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.app.scheduler_profiles import load
from controlplane.controllers.scheduling.anticipation import PodAnticipation
from controlplane.controllers.scheduling.binding.assumed import Proposal
from controlplane.controllers.scheduling.binding.pod_scheduling import Evictions, OwnPods
from controlplane.controllers.scheduling.binding.protocol import Plain
from controlplane.controllers.scheduling.gangs.conditions import PodGroupConditions
from controlplane.controllers.scheduling.loop import Loop
from controlplane.controllers.scheduling.snapshot.view import ClusterView
from controlplane.kube.kinds import (
    DEVICE_CLASSES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Json,
    Request,
)
from controlplane.kube.pod_groups import GROUP_NAME
from controlplane.log.event import NewEvent, Recorded
from controlplane.runtime.controller import ObjectChange, OpenWrite, WriteRefusal, observed_by

START = datetime(2026, 1, 1, tzinfo=UTC)
PROFILE = "controlplane"
VOLUMES, CLAIMS = PERSISTENT_VOLUMES.name, PERSISTENT_VOLUME_CLAIMS.name
DEVICES = (RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES)
KINDS = {kind.name.partition(".")[0]: kind for kind in (PODS, NODES, POD_GROUPS, STORAGE_CLASSES, *DEVICES)} | {
    VOLUMES: PERSISTENT_VOLUMES,
    CLAIMS: PERSISTENT_VOLUME_CLAIMS,
}


class Bench:
    def __init__(self, config: str = "") -> None:
        self.config = config
        self.now, self.revision = START, 0
        self.objects: dict[tuple[str, str], Json] = {}
        self.log: list[Recorded] = []
        self.versions: dict[str, int] = {}
        self.bound: dict[str, list[str]] = {}
        self.how = "apart"  # how the log takes what is seen: before it is decided on, or as `arrive` says
        self.start()

    # --- the process -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin as a new process: fold the log, list the cluster, take up what is held."""
        setup = load(self.config)
        self.placements, self.evictions = OwnPods(setup.names, "bench"), Evictions("bench")
        self.pod_group_conditions = PodGroupConditions("bench", enabled=setup.gangs)
        self.controllers: dict[str, Any] = {
            "pod": self.placements,
            "victim": self.evictions,
            "gang": self.pod_group_conditions,
        }
        self.view = ClusterView()
        self.loop = Loop(
            setup.frameworks,
            setup.queue(self.view.cluster),
            self.view,
            {"pod": Plain(self.placements)},
            leaving=self.evictions.leaving,
        )
        self.loop.gangs.recorded = self.pod_group_conditions
        self.outbox: list[Proposal] = []
        self.under_way: list[tuple[NewEvent, Sequence[NewEvent]]] = []
        self.anticipation = PodAnticipation(self.placements)
        self.begun = False  # as in the service: no cycle runs before what is held is taken up
        self.anticipation.connect(self.loop, lambda: self.begun, self.loop.schedule_one)
        for recorded in self.log:
            self.controllers[recorded.stream.partition("/")[0]].fold(recorded)
        known = self.placements.known() | self.evictions.known()
        for (kind, name), obj in list(self.objects.items()):
            known.pop(obj["metadata"]["uid"], None)
            self._show(KINDS[kind], obj, name)
        for uid, (namespace, name, _) in known.items():
            self._show(PODS, {"metadata": {"uid": uid, "namespace": namespace, "name": name}}, name, gone=True)
        self.loop.begin(self.now)
        self.begun = True

    def append(self, events: Any, expected: Any = None) -> bool:
        """Append and fold events; False if a stream has moved on."""
        for stream, version in (expected or {}).items():
            if self.versions.get(stream, 0) != version:
                return False
        streams = {}
        for new in events:
            version = self.versions[new.stream] = self.versions.get(new.stream, 0) + 1
            recorded = Recorded(
                position=len(self.log) + 1,
                stream=new.stream,
                version=version,
                event=new.event,
                recorded_at=self.now,
                caused_by=new.caused_by,
            )
            self.log.append(recorded)
            self.controllers[new.stream.partition("/")[0]].fold(recorded)
            streams[new.stream] = None
        for stream in streams:
            self.loop.sync(stream, self.now)
        return True

    def take(self) -> None:
        self.outbox.extend(self.loop.outbox)
        self.loop.outbox.clear()

    def commit(self, proposal: Proposal) -> bool:
        """The log answers a proposal."""
        self.outbox.remove(proposal)
        done = self.append(proposal.append.events, proposal.append.expected)
        if done:
            self.loop.committed(proposal)
        else:
            self.loop.turned_down(proposal, self.now)
        self.take()
        return done

    def turn(self) -> bool:
        ran = self.loop.schedule_one(self.now)
        self.take()
        return ran

    def decide(self) -> None:
        for room in self.controllers.values():
            for stream in list(room.states):
                decided = room.decide(stream, self.now)
                if decided.events:
                    self.append(decided.events, {stream: decided.version})
        self.take()

    def writes(self) -> list[OpenWrite]:
        return [
            write for room in self.controllers.values() for stream in room.states for write in room.open_writes(stream)
        ]

    def carry_out(self, write: OpenWrite, answer: int = 201) -> None:
        """Carry a write out: `answer` 0 loses the reply, others than 201 refuse it without effect."""
        room = self.controllers[write.stream.partition("/")[0]]
        request: Request | None = room.request(write, {}, self.now)
        if request is None:
            return
        code = self._serve(request) if answer in (0, 201) else answer
        if answer != 0 and code >= 400:
            self.append(
                [room.failed(write, WriteRefusal(code, "Conflict" if code == 409 else "No", "said no"), self.now)]
            )
        self.take()

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.decide()

    def once(self) -> None:
        """Run the cycles that there are, and do what follows, without time."""
        while self.turn():
            pass
        while self.outbox:
            self.commit(self.outbox[0])
        self.decide()
        for write in self.writes():
            self.carry_out(write)

    def settle(self, rounds: int = 60) -> None:
        """Let everything happen, with every answer good."""
        self.how = "apart"
        for _ in range(rounds):
            while self.under_way:
                self.arrive(decision=False)
            for _ in range(100):
                if not self.turn():
                    break
            for proposal in list(self.outbox):
                if proposal in self.outbox:
                    self.commit(proposal)
            self.decide()
            for write in self.writes():
                self.carry_out(write)
            self.finish_deletions()
            self.pass_time(11)

    # --- the cluster -------------------------------------------------------------------------------------------------

    def node(self, name: str, cpu: str = "2") -> None:
        room = {"cpu": cpu, "memory": "64Gi", "pods": "20"}
        metadata = {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name}}
        self._store("nodes", {"metadata": metadata, "spec": {}, "status": {"allocatable": room}})

    def group(self, name: str, least: int, **spec: Any) -> None:
        metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}", "creationTimestamp": START.isoformat()}
        self._store("podgroups", {"metadata": metadata, "spec": {"minMember": least, **spec}, "status": {}})

    def pod(self, name: str, cpu: str = "1", priority: int = 0, group: str = "", app: str = "", **spec: Any) -> str:
        uid = f"uid-{name}-{self.revision}"
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        annotations = {GROUP_NAME: group} if group else {}
        body = {
            "metadata": {
                "namespace": "default",
                "name": name,
                "uid": uid,
                "annotations": annotations,
                "labels": {"app": app} if app else {},
            },
            "spec": {"schedulerName": PROFILE, "priority": priority, "containers": [container], **spec},
            "status": {},
        }
        self._store("pods", body)
        return uid

    def delete(self, kind: str, name: str) -> None:
        obj = self.objects.pop((kind, name), None)
        if obj is not None:
            self.revision += 1
            self._show(KINDS[kind], obj, name, gone=True)

    def finish_deletions(self) -> None:
        for (kind, name), obj in list(self.objects.items()):
            if kind == "pods" and obj["metadata"].get("deletionTimestamp"):
                self.delete("pods", name)

    def on(self, name: str) -> str:
        return str(self.objects["pods", name]["spec"].get("nodeName", ""))

    def condition(self, name: str) -> Json:
        conditions = self.objects["pods", name]["status"].get("conditions") or []
        return next((c for c in conditions if c["type"] == "PodScheduled"), {})

    def overcommitted(self) -> list[str]:
        """Nodes on which more is bound than there is room."""
        used: dict[str, float] = {}
        for (kind, _), obj in self.objects.items():
            if kind == "pods" and (node := obj["spec"].get("nodeName")):
                cpu = obj["spec"]["containers"][0]["resources"]["requests"]["cpu"]
                used[node] = used.get(node, 0) + float(cpu)
        room = {
            name: float(o["status"]["allocatable"]["cpu"])
            for (kind, name), o in self.objects.items()
            if kind == "nodes"
        }
        return [node for node, cpu in used.items() if cpu > room.get(node, 1e9)]

    def recorded(self, kind: type) -> list[Any]:
        return [recorded.event for recorded in self.log if isinstance(recorded.event, kind)]

    def _store(self, kind: str, obj: Json) -> None:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self.objects[kind, obj["metadata"]["name"]] = obj
        self._show(KINDS[kind], obj, obj["metadata"]["name"])

    def _show(self, kind: Any, obj: Json, name: str, *, gone: bool = False) -> None:
        """What a watch does: into the view, and into the log."""
        self.loop.changed(kind, obj, self.now, gone=gone)
        version = str(self.revision) if gone else obj["metadata"]["resourceVersion"]
        change = ObjectChange("@management", "life", kind, obj, version, gone)
        for room in self.controllers.values():
            for event in observed_by(room, change, self.now):
                self._observed(event)
        self.take()

    def _observed(self, event: NewEvent) -> None:
        if self.how == "apart" and not self.under_way:
            self.append([event])
            return
        self.under_way.append((event, self._decided_with(event)))
        if self.how in ("together", "alone"):
            self.arrive(decision=self.how == "together")

    def _decided_with(self, event: NewEvent) -> Sequence[NewEvent]:
        """What follows from an observation before it is in the log, if it is the next that the log gets."""
        if self.under_way:
            return ()
        version = self.versions.get(event.stream, 0) + 1
        recorded = Recorded(
            position=len(self.log) + 1, stream=event.stream, version=version, event=event.event, recorded_at=self.now
        )
        decided = self.anticipation.anticipate([recorded], self.now)
        return decided.events if decided is not None else ()

    def arrive(self, *, decision: bool) -> None:
        """What was seen gets into the log, with what was decided on it or without."""
        event, decided = self.under_way.pop(0)
        self.append([event, *(decided if decision else ())])
        self.take()

    def _merge(self, request: Request) -> int:
        kind, name = request.ref.kind.plural, request.ref.name
        found = self.objects.get((kind, name))
        if found is None:
            return 404
        metadata = found["metadata"]
        if (request.uid, request.resource_version) != (metadata["uid"], metadata["resourceVersion"]):
            return 409
        self._store(kind, merged(found, request.body))
        return 201

    def _serve(self, request: Request) -> int:
        name, body = request.ref.name, request.body
        if request.ref.kind == POD_GROUPS:
            group = self.objects["podgroups", name]
            if request.resource_version != group["metadata"]["resourceVersion"]:
                return 409
            self._store("podgroups", {**group, "metadata": dict(group["metadata"]), "status": body["status"]})
            return 201
        if request.ref.kind in (PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS):
            return self._merge(request)
        found = self.objects.get(("pods", name))
        uid = request.uid or (body.get("metadata") or {}).get("uid")
        if found is None or (uid and found["metadata"]["uid"] != uid):
            return 404 if found is None else 409
        changed: Json = {
            "metadata": dict(found["metadata"]),
            "spec": dict(found["spec"]),
            "status": dict(found["status"]),
        }
        if request.subresource == "binding":
            if found["spec"].get("nodeName") or found["metadata"].get("deletionTimestamp"):
                return 409
            changed["spec"]["nodeName"] = body["target"]["name"]
            changed["status"] = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
            self.bound.setdefault(found["metadata"]["uid"], []).append(body["target"]["name"])
        elif request.subresource == "status":
            conditions = {c["type"]: c for c in changed["status"].get("conditions") or []}
            conditions |= {c["type"]: c for c in body["status"].get("conditions") or []}
            changed["status"]["conditions"] = list(conditions.values())
            if "nominatedNodeName" in body["status"]:
                changed["status"]["nominatedNodeName"] = body["status"]["nominatedNodeName"]
        elif request.verb == "delete":
            changed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self._store("pods", changed)
        return 201


def merged(obj: Json, patch: Json) -> Json:
    """Return an object with a merge patch applied."""
    found = dict(obj)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            before = found.get(key)
            found[key] = merged(before if isinstance(before, dict) else {}, value)
        else:
            found[key] = value
    return found


def ready(*nodes: str, cpu: str = "2", config: str = "") -> Bench:
    """A bench with some nodes."""
    bench = Bench(config)
    for node in nodes:
        bench.node(node, cpu)
    return bench
