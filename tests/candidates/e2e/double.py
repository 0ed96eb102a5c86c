"""A target's scheduler, as far as a source can see it: the real pure target side, in a log of its own, acting on a
simulated cluster.

In: commits of the cluster's store. Out: Pods made, bound and removed, Candidates' statuses. Finding a node is one
number: how many pods there is room for. What it knows outlives a crash (`crash`, `start`), as the log of a real one
does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import CANDIDATE_LABEL, CANDIDATE_SOURCES, CANDIDATES, PODS
from controlplane.controllers.candidates.target.controller import TargetController
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.candidates.target.events import HERE
from controlplane.kube.kinds import Json, Request, meta
from controlplane.log.codec import Codec
from controlplane.log.event import NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite, WriteRefusal
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.apiserver.store import Store

_KINDS = {PODS, CANDIDATES, CANDIDATE_SOURCES}
_PAUSE = 0.005


class TargetDouble:
    """See the module. `room`: for how many pods there is a node; `holds`: permits are read and not used; `score` goes
    with each offer.
    """

    def __init__(self, store: Store, policy: TargetPolicy, *, room: int = 100, score: int = 0) -> None:
        self.store, self.room, self.score = store, room, score
        self.holds = False
        self.capability = TargetController(policy)
        self._codec = Codec(self.capability.types)
        self._log: list[Recorded] = []
        self._versions: dict[str, int] = {}
        self._marks: dict[str, int] = {}
        self._texts: dict[str, bytes] = {}
        self._inbox: list[ObjectChange] = []
        self._task: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] | None = None

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, or go on with what the log says."""
        capability = TargetController(self.capability.policy)
        for recorded in self._log:
            capability.fold(recorded)
        capability.ready = True
        self.capability = capability
        for kind in _KINDS:
            self._inbox += [_sighting(record.obj, kind, gone=False) for record in self.store.records(kind)]
        self._stop = self.store.listen(self._on_commit)
        self._task = asyncio.create_task(self._run())

    async def crash(self) -> None:
        """Stop between two steps; what was decided and not done stays open in the log."""
        if self._stop is not None:
            self._stop()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._task = None

    def _on_commit(self, commit: Commit) -> None:
        if commit.record.kind in _KINDS:
            self._inbox.append(_sighting(commit.record.obj, commit.record.kind, gone=commit.type == "DELETED"))

    async def _run(self) -> None:
        while True:
            self.step()
            await asyncio.sleep(_PAUSE)

    def step(self) -> None:
        """See, decide and do what there is."""
        now, capability = datetime.now(UTC), self.capability
        seen, self._inbox = self._inbox, []
        for sighting in seen:
            event = capability.observe(sighting, now)
            if event is not None:
                self._append([event], now)
        self._stop_pods()
        self._schedule(now)
        capability.touch_all()
        for stream in capability.take_dirty():
            self._append(capability.decide(stream, now).events, now)
            for write in capability.open_writes(stream):
                self._carry_out(write, now)

    def _stop_pods(self) -> None:
        """Be the kubelet of pods that are being deleted gracefully: they stop at once."""
        for pod in self.pods:
            if meta(pod).get("deletionTimestamp"):
                self.store.delete(PODS, meta(pod)["namespace"], meta(pod)["name"], uid=meta(pod)["uid"], grace=0)

    def _schedule(self, now: datetime) -> None:
        capability = self.capability
        for stream in capability.waiting():
            if len(capability.taken()) < self.room:
                self._said(capability.reserved(stream, "node-1", self.score, now), now)
            else:
                self._said(capability.not_schedulable(stream, "0/1 nodes are available: 1 Insufficient cpu.", now), now)
        for stream in list(capability.taken()):
            if not self.holds and capability.may_bind(stream, now):
                self._said(capability.bind(stream, now), now)

    def _said(self, decided: Decided, now: datetime) -> None:
        self._append(decided.events, now)

    def _append(self, events: Sequence[NewEvent], now: datetime) -> None:
        for new in events:
            if new.source and new.mark <= self._marks.get(new.source, -1):
                continue
            self._marks[new.source] = new.mark
            self._texts.update({body.ref: body.text.encode() for body in new.bodies})
            self._versions[new.stream] = self._versions.get(new.stream, 0) + 1
            recorded = Recorded(
                position=len(self._log) + 1,
                stream=new.stream,
                version=self._versions[new.stream],
                event=self._codec.decode(*self._codec.encode(new.event)),
                cluster=HERE,
                recorded_at=now,
            )
            self._log.append(recorded)
            self.capability.fold(recorded)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _carry_out(self, write: OpenWrite, now: datetime) -> None:
        capability = self.capability
        request = capability.request(write, self._bodies(capability.bodies_needed(write)), now)
        if request is None:
            return
        try:
            execute(self.store, request)
        except ApiError as error:
            failure = WriteRefusal(error.status, error.reason, error.message)
            if request.verb == "create" or error.status not in (404, 409):
                self._append([capability.failed(write, failure, now)], now)

    def _bodies(self, refs: Sequence[str]) -> Mapping[str, bytes]:
        return {ref: self._texts[ref] for ref in refs if ref in self._texts}

    # --- what tests look at and do -----------------------------------------------------------------------------------

    def said(self, event_type: type[Any]) -> list[Any]:
        return [recorded.event for recorded in self._log if isinstance(recorded.event, event_type)]

    @property
    def bound(self) -> list[Json]:
        """The Pods on nodes."""
        return [pod for pod in self.pods if pod["spec"].get("nodeName")]

    @property
    def pods(self) -> list[Json]:
        return [
            record.obj
            for record in self.store.records(PODS)
            if CANDIDATE_LABEL in (meta(record.obj).get("labels") or {})
        ]

    @property
    def candidates(self) -> list[Json]:
        return [record.obj for record in self.store.records(CANDIDATES)]

    def show(self, phase: str, **status: Any) -> None:
        """Let the kubelet say how the bound pods are."""
        for pod in self.bound:
            head = meta(pod)
            self.store.patch(
                PODS, head["namespace"], head["name"], {"status": {"phase": phase, **status}}, subresource="status"
            )

    def evict(self) -> None:
        """Delete the bound pods behind everybody's back."""
        for pod in self.bound:
            self.store.delete(PODS, meta(pod)["namespace"], meta(pod)["name"])


def execute(store: Store, request: Request) -> None:
    """Carry out a request on a store, with the preconditions of the HTTP executor."""
    ref = request.ref
    preconditions = {"uid": request.uid, "resourceVersion": request.resource_version}
    known = {key: value for key, value in preconditions.items() if value}
    if request.subresource == "binding":
        head = {key: request.body["metadata"][key] for key in ("uid", "resourceVersion")}
        node = request.body["target"]["name"]
        store.patch(ref.kind, ref.namespace, ref.name, {"metadata": head, "spec": {"nodeName": node}})
    elif request.verb == "create":
        head = {**meta(request.body), "name": ref.name, "namespace": ref.namespace}
        whole = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, **request.body, "metadata": head}
        try:
            store.create(ref.kind, msgspec.json.decode(msgspec.json.encode(whole)))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            found = store.get(ref.kind, ref.namespace, ref.name)
            label, value = request.owner_label or ("", "")
            if (meta(found).get("labels") or {}).get(label) != value:
                raise ApiError(409, "Foreign", f"{ref} is not ours") from None
    elif request.verb == "patch":
        body = {**request.body, "metadata": {**meta(request.body), **known}}
        store.patch(ref.kind, ref.namespace, ref.name, body, subresource=request.subresource)
    else:
        with contextlib.suppress(KeyError):
            try:
                store.delete(
                    ref.kind, ref.namespace, ref.name, uid=request.uid, resource_version=request.resource_version
                )
            except ApiError as error:
                if error.status != 404:
                    raise


def _sighting(obj: Json, kind: Any, *, gone: bool) -> ObjectChange:
    copied = msgspec.json.decode(msgspec.json.encode(obj))
    return ObjectChange(HERE, "", kind, copied, str(meta(copied)["resourceVersion"]), gone)
