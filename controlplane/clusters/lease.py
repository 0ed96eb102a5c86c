"""Takes a Lease of a cluster and keeps it, as Kubernetes' own leader election does.

In: the Lease's place, a holder, an API server for each call. Out: who holds it. Whether a holder is still there is
judged by our own monotonic clock: one whose Lease has not changed for as long as it says has gone (kubernetes/client-go
1.36, tools/leaderelection/leaderelection.go). Every write names the version that it was decided on, so of two that take
a free Lease at once the server refuses one."""

from __future__ import annotations

from typing import NamedTuple

from controlplane.clock import Clock
from controlplane.clusters.protocol import ApiError, ClusterPort, UnreadableResponse
from controlplane.clusters.validation import version_of
from controlplane.kube.kinds import Json, ObjectRef, Request, meta

PROCESS = "controlplane/process"
"""The annotation that says which process of the holder wrote last."""
_RECENT = 3.0  # seconds for which a Lease that was seen to be free is taken without another look
_LABELS = {"app.kubernetes.io/managed-by": "controlplane"}


class LeaseHolder(NamedTuple):
    """Who holds a Lease: the holder's identity, and which process of it wrote last; empty if nobody does, or we do."""

    identity: str
    process: str = ""


FREE = LeaseHolder("")


class _FreeLease(NamedTuple):
    """A Lease that was seen to be free for a holder: what was found, None if there was none, and when."""

    found: Json | None
    holder: str
    at: float


class ClusterLease:
    """One Lease, `duration` seconds long. `process` is the name of this process. `holder` is whom it is taken for:
    every process that may act in the place of another one has the same; "" until it is known, and then nothing is
    taken.
    """

    def __init__(self, ref: ObjectRef, process: str, clock: Clock, duration: float) -> None:
        self.ref, self.holder = ref, ""
        self._process, self._clock, self._duration = process, clock, duration
        self._version = ""  # of what we wrote last
        self._seen, self._since = "", 0.0  # the version of what somebody else wrote, and since when it is there
        self._free: _FreeLease | None = None

    async def other(self, server: ClusterPort) -> LeaseHolder:
        """Return who else holds it. Raises what the server raises, but not if there is no such Lease."""
        found = await self._read(server)
        other = FREE if found is None else self._other(found)
        self._free = _FreeLease(found, self.holder, self._clock.monotonic()) if other == FREE else None
        return other

    async def renew(self, server: ClusterPort) -> LeaseHolder:
        """Take it, or keep it; return who else holds it, in which case it was not taken. Raises what the server
        raises."""
        if self._version:
            try:
                return await self._write(server, self._version, {})
            except ApiError as error:
                self._version = ""
                if error.status not in (404, 409):
                    raise
        free, self._free = self._free, None
        # Who was nobody yet saw one that is free for all.
        ours = free is not None and free.holder in ("", self.holder)
        if free is not None and ours and self._clock.monotonic() - free.at < _RECENT:
            try:
                return await self._take(free.found, server)
            except ApiError as error:  # it is not as it was
                if error.status not in (404, 409):
                    raise
        found = await self._read(server)
        if found is not None and (other := self._other(found)) != FREE:
            return other
        return await self._take(found, server)

    async def _take(self, found: Json | None, server: ClusterPort) -> LeaseHolder:
        if found is None:
            return await self._create(server)
        spec = _part(found, "spec")
        taken: Json = {}
        if spec.get("holderIdentity") != self.holder:
            taken = {"acquireTime": self._now(), "leaseTransitions": int(_number(spec, "leaseTransitions") or 0) + 1}
        return await self._write(server, self._version_of(found, server), taken)

    async def release(self, server: ClusterPort) -> None:
        """Let go of it, if nobody has written to it since we did. Raises what the server raises."""
        if self._version:
            version, self._version = self._version, ""
            await server.write(self._patch(version, {"holderIdentity": None, "leaseDurationSeconds": 1}))

    async def _read(self, server: ClusterPort) -> Json | None:
        try:
            found = await server.get(self.ref.kind, self.ref.namespace, self.ref.name)
        except ApiError as error:
            if error.status == 404 and error.name == self.ref.name:
                return None
            raise
        self._version_of(found, server)
        return found

    def _version_of(self, found: Json, server: ClusterPort) -> str:
        """Return a Lease's version; raises `UnreadableResponse` for an answer that is none, as a gateway gives one."""
        if version := version_of(found.get("metadata")):
            return version
        raise UnreadableResponse(f"{server.name}: the answer is not the Lease {self.ref.namespace}/{self.ref.name}")

    def _other(self, found: Json) -> LeaseHolder:
        spec, version = _part(found, "spec"), meta(found)["resourceVersion"]
        identity = str(spec.get("holderIdentity") or "")
        if identity in ("", self.holder):
            return FREE
        now = self._clock.monotonic()
        if version != self._seen:
            self._seen, self._since = version, now
        if now - self._since >= (_number(spec, "leaseDurationSeconds") or self._duration):
            return FREE
        return LeaseHolder(identity, str(_part(meta(found), "annotations").get(PROCESS, "")))

    async def _create(self, server: ClusterPort) -> LeaseHolder:
        metadata = {"namespace": self.ref.namespace, "name": self.ref.name, "labels": _LABELS}
        body: Json = {
            "apiVersion": self.ref.kind.api_version,
            "kind": self.ref.kind.kind,
            "metadata": metadata | {"annotations": {PROCESS: self._process}},
            "spec": self._spec() | {"acquireTime": self._now(), "leaseTransitions": 0},
        }
        self._version = self._version_of(await server.create(self.ref.kind, self.ref.namespace, body), server)
        return FREE

    async def _write(self, server: ClusterPort, version: str, more: Json) -> LeaseHolder:
        self._version = self._version_of(await server.write(self._patch(version, self._spec() | more)), server)
        return FREE

    def _patch(self, version: str, spec: Json) -> Request:
        metadata = {"resourceVersion": version, "annotations": {PROCESS: self._process}}
        return Request("patch", self.ref, {"metadata": metadata, "spec": spec})

    def _spec(self) -> Json:
        seconds = max(round(self._duration), 1)
        return {"holderIdentity": self.holder, "leaseDurationSeconds": seconds, "renewTime": self._now()}

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _part(found: Json, field: str) -> Json:
    """Return an object that is a field of another one; empty for what is none."""
    part = found.get(field)
    return part if isinstance(part, dict) else {}


def _number(spec: Json, field: str) -> float | None:
    """Return a number of a Lease; None for what is none."""
    found = spec.get(field)
    return float(found) if isinstance(found, int | float) else None
