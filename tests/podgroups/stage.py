"""A small API server and the loop around the capability, in one process and on a clock of its own.

Everything that the server stores is shown back as a watch would, everything decided is appended and folded, writes and
reads are carried out until nothing is left to do. Requests are counted."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, cluster_stream
from controlplane.controllers.podgroups.controller import PodGroupController
from controlplane.controllers.podgroups.events import ROOM_STREAM, RoomObserved
from controlplane.controllers.podgroups.index import PodGroupPolicy
from controlplane.controllers.podgroups.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    OwnerReference,
)
from controlplane.controllers.podgroups.phases import ClusterCapacity
from controlplane.kube.kinds import EVENTS, Json, Kind, Request, meta
from controlplane.log.codec import Codec
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import ObjectChange, ReadAnswer, WriteRefusal
from controlplane.simulation.apiserver.patches import merge_patch
from tests.podgroups.scenes import NS

START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = (PODS, POD_GROUPS, CONFIG_MAPS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS)
BY_KIND = {(kind.api_version, kind.kind): kind for kind in KINDS}
Key = tuple[str, str, str, str]


class Stage:
    """See the module. Patches of the kind `deaf` change nothing; `webhook` changes what is patched."""

    def __init__(self, **policy: Any) -> None:
        self.fleet = PodGroupController(PodGroupPolicy(**policy), "test")
        self.codec = Codec(self.fleet.types)
        self.now, self.rv = START, 100
        self.log: list[Recorded] = []
        self.versions: Counter[str] = Counter()
        self.objects: dict[Key, Json] = {}
        self.requests: Counter[tuple[str, str]] = Counter()
        self.reads: Counter[str] = Counter()
        self.events: list[Json] = []
        self.refused: dict[str, WriteRefusal] = {}
        self.wakes: dict[str, datetime] = {}
        self.deaf = ""
        self.webhook: Callable[[Json], Json] = lambda obj: obj
        self.append(cluster_stream(MANAGEMENT), ClusterConnected(kinds=[kind.name for kind in KINDS]))

    # --- the log -----------------------------------------------------------------------------------------------------

    def append(self, stream: str, event: Event, caused_by: int = 0) -> None:
        name, schema, data = self.codec.encode(event)
        decoded = self.codec.decode(name, schema, data)
        assert decoded == event
        self.versions[stream] += 1
        recorded = Recorded(
            position=len(self.log) + 1,
            stream=stream,
            version=self.versions[stream],
            event=decoded,
            cluster=MANAGEMENT,
            caused_by=caused_by,
            recorded_at=self.now,
        )
        self.log.append(recorded)
        self.fleet.fold(recorded)

    def recorded(self, of: type[Event]) -> list[Any]:
        return [one.event for one in self.log if isinstance(one.event, of)]

    # --- the server --------------------------------------------------------------------------------------------------

    def put(self, obj: Json, *, watched: bool = True) -> Json:
        """Store an object and show it."""
        self.rv += 1
        obj = copy.deepcopy(obj)
        metadata = obj.setdefault("metadata", {})
        metadata["resourceVersion"] = str(self.rv)
        metadata.setdefault("uid", f"made-{self.rv}")
        metadata.setdefault("creationTimestamp", self.now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self.objects[key_of(obj)] = obj
        if watched:
            self._show(obj, gone=False)
        return obj

    def remove(self, obj: Json) -> None:
        self.rv += 1
        self._show(self.objects.pop(key_of(obj)), gone=True)

    def _show(self, obj: Json, *, gone: bool) -> None:
        kind = BY_KIND.get((obj["apiVersion"], obj["kind"]))
        if kind is None:
            return
        version = str(self.rv) if gone else meta(obj)["resourceVersion"]
        self._take(
            self.fleet.observe(ObjectChange(MANAGEMENT, "life", kind, copy.deepcopy(obj), version, gone), self.now)
        )

    def _take(self, new: NewEvent | None) -> None:
        if new is not None:
            self.append(new.stream, new.event, new.caused_by)

    def get(self, kind: Kind, name: str, namespace: str = NS) -> Json:
        return self.objects[kind.api_version, kind.kind, namespace, name]

    def all(self, kind: Kind) -> list[Json]:
        return [obj for key, obj in self.objects.items() if key[:2] == (kind.api_version, kind.kind)]

    # --- the loop ----------------------------------------------------------------------------------------------------

    def settle(self) -> Stage:
        """Go on until nothing is left to do at this time."""
        for _ in range(1000):
            streams = self.fleet.take_dirty()
            due = [stream for stream, at in self.wakes.items() if at <= self.now]
            for stream in due:
                del self.wakes[stream]
            if not streams and not due:
                return self
            for stream in dict.fromkeys([*streams, *due]):
                self._turn(stream)
        raise AssertionError("it does not settle")

    def later(self, **span: float) -> Stage:
        self.now += timedelta(**span)
        return self.settle()

    def _turn(self, stream: str) -> None:
        decided = self.fleet.decide(stream, self.now)
        if decided.wake is not None:
            self.wakes[stream] = decided.wake
        if decided.events:
            assert decided.version == self.versions[stream], stream
        for new in decided.events:
            self.append(new.stream, new.event, new.caused_by)
        for read in self.fleet.open_reads(stream, self.now):
            if self.fleet.is_wanted(read):
                self.reads[read.stream] += 1
                self._take(
                    self.fleet.answered(
                        read, self._read(read.api_version, read.kind, read.namespace, read.name), self.now
                    )
                )
        for write in self.fleet.open_writes(stream):
            request = self.fleet.request(write, {}, self.now)
            announcement = self.fleet.announcement(write, self.now)
            assert request is not None
            if request.ref.kind.kind == self.deaf and request.verb == "patch":
                self._take(self.fleet.unneeded(write, request.resource_version))
                continue
            failure = self._write(request)
            if failure is not None:
                self._take(self.fleet.failed(write, failure, self.now))
            elif announcement is not None:
                self.events.append(announcement.body)

    def _read(self, api_version: str, kind: str, namespace: str, name: str) -> ReadAnswer:
        if kind in self.refused:
            failure = self.refused[kind]
            return ReadAnswer(failure=failure, not_served=failure.code == 0)
        for place in (namespace, ""):
            found = self.objects.get((api_version, kind, place, name))
            if found is not None:
                return ReadAnswer(object=found)
        return ReadAnswer(failure=WriteRefusal(404, "NotFound", "not found"))

    def _write(self, request: Request) -> WriteRefusal | None:
        ref = request.ref
        self.requests[request.verb, ref.kind.name] += 1
        if f"write {ref.kind.kind}" in self.refused:
            return self.refused[f"write {ref.kind.kind}"]
        assert ref.kind != EVENTS
        key = (ref.kind.api_version, ref.kind.kind, ref.namespace, ref.name)
        stored = self.objects.get(key)
        if request.verb == "create":
            if stored is not None:
                label, value = request.owner_label or ("", "")
                if (meta(stored).get("labels") or {}).get(label) != value:
                    return WriteRefusal(409, "Foreign", "not ours")
                return None
            self.put(request.body)
            return None
        if stored is None:
            return WriteRefusal(404, "NotFound", "not found")
        if (meta(stored)["uid"], meta(stored)["resourceVersion"]) != (request.uid, request.resource_version):
            return WriteRefusal(409, "Conflict", "changed")
        self.put(self.webhook(merge_patch(stored, request.body)))
        return None

    def room(self, **amounts: int) -> Stage:
        self.append(ROOM_STREAM, RoomObserved(room=ClusterCapacity(total=amounts)))
        return self


def key_of(obj: Json) -> Key:
    return obj["apiVersion"], obj["kind"], meta(obj).get("namespace", ""), meta(obj)["name"]


def reference(obj: Json) -> OwnerReference:
    return OwnerReference(api_version=obj["apiVersion"], kind=obj["kind"], name=meta(obj)["name"], uid=meta(obj)["uid"])
