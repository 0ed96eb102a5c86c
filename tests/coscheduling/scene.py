"""A cluster small enough to be seen through: objects, the StatefulSet controller, garbage collection; and the room next
to it.

`Scene.settle` is the loop: what changed is seen, folded, decided on, and carried out with the preconditions that an API
server checks."""

from __future__ import annotations

import copy
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, cluster_stream
from controlplane.controllers.coscheduling.controller import CoschedulingController, CoschedulingPolicy
from controlplane.controllers.coscheduling.events import EVENTS
from controlplane.controllers.coscheduling.objects import CLAIMS, PODS
from controlplane.controllers.coscheduling.observe import KINDS
from controlplane.kube.kinds import Kind, Request
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import ObjectChange, OpenWrite, WriteRefusal

Json = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
PROTECTION = "kubernetes.io/pvc-protection"
BY_NAME = {kind.kind: kind for kind in KINDS}


class Scene:
    """One cluster, one log, one room."""

    def __init__(self, flag: str = "pipelineruns", **policy: Any) -> None:
        self.policy = CoschedulingPolicy(**policy)
        self.room = CoschedulingController(self.policy, "test")
        self.now = START
        self.log: list[Recorded] = []
        self.versions: dict[str, int] = {}
        self.bodies: dict[str, bytes] = {}
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.requests: list[Request] = []
        self.refuse: dict[tuple[str, str], WriteRefusal] = {}
        self.ids = itertools.count(1)
        self.append(NewEvent(stream=cluster_stream(MANAGEMENT), event=ClusterConnected(kinds=[k.name for k in KINDS])))
        self.put(config("feature-flags", coschedule=flag))
        for name in ("n1", "n2"):
            self.put({"kind": "Node", "metadata": {"name": name}, "spec": {}})

    # --- the log ---

    def append(self, new: NewEvent) -> None:
        self.versions[new.stream] = self.versions.get(new.stream, 0) + 1
        for body in new.bodies:
            self.bodies[body.ref] = body.text.encode()
        recorded = Recorded(
            position=len(self.log) + 1,
            stream=new.stream,
            version=self.versions[new.stream],
            event=new.event,
            cluster=new.cluster or MANAGEMENT,
            caused_by=new.caused_by,
            recorded_at=self.now,
        )
        self.log.append(recorded)
        self.room.fold(recorded)

    def events(self, *kinds: type[Event]) -> list[Any]:
        return [one.event for one in self.log if isinstance(one.event, kinds or EVENTS)]

    def restart(self) -> None:
        """Another process takes over: it folds the log from its beginning."""
        self.room = CoschedulingController(self.policy, "test")
        for recorded in self.log:
            self.room.fold(recorded)

    # --- the cluster ---

    def put(self, obj: Json) -> Json:
        """Create or change an object, as seen by whoever watches."""
        obj = copy.deepcopy(obj)
        metadata = obj["metadata"]
        key = (obj["kind"], metadata.get("namespace", ""), metadata["name"])
        before = self.objects.get(key)
        metadata.setdefault("uid", before["metadata"]["uid"] if before else f"uid-{next(self.ids)}")
        metadata["resourceVersion"] = str(1000 + next(self.ids))
        self.objects[key] = obj
        self._see(obj, gone=False)
        return obj

    def change(self, kind: str, namespace: str, name: str, **sections: Any) -> Json:
        obj = copy.deepcopy(self.objects[kind, namespace, name])
        for section, value in sections.items():
            obj[section] = {**obj.get(section, {}), **value}
        return self.put(obj)

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object, and what it controls or owns."""
        obj = self.objects.pop((kind, namespace, name), None)
        if obj is None:
            return
        self._see(obj, gone=True)
        uid = obj["metadata"]["uid"]
        for (other, where, called), owned in list(self.objects.items()):
            if any(one.get("uid") == uid for one in owned["metadata"].get("ownerReferences", ())):
                self._delete(BY_NAME.get(other, PODS), where, called)

    def _see(self, obj: Json, gone: bool) -> None:
        kind = BY_NAME.get(obj["kind"])
        if kind is None:
            return
        version = str(1000 + next(self.ids)) if gone else obj["metadata"]["resourceVersion"]
        new = self.room.observe(ObjectChange(MANAGEMENT, "life", kind, copy.deepcopy(obj), version, gone), self.now)
        if new is not None:
            self.append(new)

    def of(self, kind: str) -> list[Json]:
        return [obj for (known, _, _), obj in self.objects.items() if known == kind]

    def names(self, kind: str) -> list[str]:
        return sorted(obj["metadata"]["name"] for obj in self.of(kind))

    def controllers(self) -> None:
        """Let the StatefulSet controller and the scheduler do their work once."""
        for found in self.of("StatefulSet"):
            metadata, spec = found["metadata"], found["spec"]
            namespace, name = metadata["namespace"], metadata["name"]
            for one in spec.get("volumeClaimTemplates", ()):
                called = f"{one['metadata']['name']}-{name}-0"
                if ("PersistentVolumeClaim", namespace, called) not in self.objects:
                    made = copy.deepcopy(one) | {"kind": "PersistentVolumeClaim"}
                    labels = {**made["metadata"].get("labels", {}), **spec["selector"]["matchLabels"]}
                    made["metadata"] |= {
                        "name": called,
                        "namespace": namespace,
                        "labels": labels,
                        "finalizers": [PROTECTION],
                    }
                    self.put(made)
            if ("Pod", namespace, f"{name}-0") not in self.objects:
                self.place(found)

    def place(self, owner: Json) -> None:
        free = [one["metadata"]["name"] for one in self.of("Node") if not one["spec"].get("unschedulable")]
        if not free:
            return
        metadata = owner["metadata"]
        self.put(
            {
                "kind": "Pod",
                "metadata": {
                    "name": f"{metadata['name']}-0",
                    "namespace": metadata["namespace"],
                    "labels": owner["spec"]["template"]["metadata"]["labels"],
                    "ownerReferences": [{"kind": "StatefulSet", "uid": metadata["uid"], "controller": True}],
                },
                "spec": {**owner["spec"]["template"]["spec"], "nodeName": sorted(free)[0]},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        )

    # --- the loop ---

    def decide(self) -> list[Event]:
        """One pass over what is due: decisions are recorded and returned."""
        found = []
        for stream in [*dict.fromkeys([*self.room.take_dirty(), *self.room.runs])]:
            decided = self.room.decide(stream, self.now)
            for new in decided.events:
                assert decided.version == self.versions.get(stream, 0) or found
                self.append(new)
                found.append(new.event)
        return found

    def carry_out(self, lose: bool = False) -> int:
        """Carry out every open write; with `lose` nothing reaches the cluster."""
        done = 0
        for stream in list(self.room.runs):
            for write in self.room.open_writes(stream):
                if self.room.is_open(write) and not lose:
                    done += self._one(write)
        return done

    def _one(self, write: OpenWrite) -> int:
        refs = self.room.bodies_needed(write)
        request = self.room.request(write, {ref: self.bodies[ref] for ref in refs}, self.now)
        if request is None:
            self.append(self.room.failed(write, WriteRefusal(404, "Obsolete", "gone"), self.now))
            return 1
        self.requests.append(request)
        failure = self.refuse.get((request.verb, request.ref.kind.kind)) or self._execute(request)
        if failure is not None:
            self.append(self.room.failed(write, failure, self.now))
        return 1

    def _execute(self, request: Request) -> WriteRefusal | None:
        ref = request.ref
        found = self.objects.get((ref.kind.kind, ref.namespace, ref.name))
        match request.verb:
            case "create":
                if found is not None:
                    return WriteRefusal(409, "AlreadyExists", f"{ref} exists")
                body = copy.deepcopy(request.body)
                if ref.kind == CLAIMS:
                    body["metadata"]["finalizers"] = [PROTECTION]
                self.put(body)
            case "patch":
                if found is None or (request.uid and found["metadata"]["uid"] != request.uid):
                    return WriteRefusal(404, "NotFound", f"{ref} is not there")
                if request.resource_version and found["metadata"]["resourceVersion"] != request.resource_version:
                    return WriteRefusal(409, "Conflict", f"{ref} has changed")
                self._patch(found, request.body)
            case "delete":
                if found is not None and found["metadata"]["uid"] != request.uid:
                    return WriteRefusal(409, "Conflict", f"{ref} is another one")
                self._delete(ref.kind, ref.namespace, ref.name)
        return None

    def _patch(self, found: Json, body: Json) -> None:
        obj = copy.deepcopy(found)
        if "status" in body:
            obj["status"] = {**obj.get("status", {}), **body["status"]}
        if "spec" in body:
            obj["spec"] = {**obj.get("spec", {}), **body["spec"]}
        if "finalizers" in body.get("metadata", {}):
            obj["metadata"]["finalizers"] = body["metadata"]["finalizers"] or []
            if "deletionTimestamp" not in obj["metadata"] and obj["kind"] == "PersistentVolumeClaim":
                obj["metadata"]["finalizers"].append(PROTECTION)  # its controller puts it back
            elif not obj["metadata"]["finalizers"]:
                self.drop(obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"])
                return
        self.put(obj)

    def _delete(self, kind: Kind, namespace: str, name: str) -> None:
        found = self.objects.get((kind.kind, namespace, name))
        if found is None:
            return
        if found["metadata"].get("finalizers"):
            if "deletionTimestamp" not in found["metadata"]:
                found = copy.deepcopy(found)
                found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                self.put(found)
            return
        self.drop(kind.kind, namespace, name)

    def settle(self, rounds: int = 60) -> None:
        """Go on until nothing changes any more."""
        for _ in range(rounds):
            self.controllers()
            before = len(self.log)
            self.decide()
            self.carry_out()
            if len(self.log) == before:
                return
            self.now += timedelta(seconds=1)
        raise AssertionError("it does not come to rest")

    def wait(self, **delta: float) -> None:
        self.now += timedelta(**delta)


def config(name: str, namespace: str = "tekton-pipelines", **data: str) -> Json:
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}
