"""One cluster's API server as a simulated process calls it: `controlplane.clusters.streams.ApiServer` without a socket.

In: the calls of reflectors and executors. Out: what the store says, by way of the network and its faults. Every write
is shown to the `watchers` of the environment as it is carried out, because some rules are about requests (who deleted
what, with which precondition) and cannot be read off the objects afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from controlplane.clusters.protocol import ApiError, Unreachable
from controlplane.clusters.streams import ApiServer, Lines, ListPage, ListQuery, WatchQuery
from controlplane.dst.engine.network import Network, NetworkRequest, Reply
from controlplane.dst.engine.watch import Selection, Stream, StreamPlace
from controlplane.kube.kinds import APPLY_PATCH, Json, Kind, Request, meta
from controlplane.simulation.apiserver.discovery import Discovery
from controlplane.simulation.apiserver.errors import no_such_resource
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.apiserver.pod_subresources import bind, evict
from controlplane.simulation.apiserver.representation import Representation
from controlplane.simulation.apiserver.rest import ApiCall, Rest
from controlplane.simulation.apiserver.routes import ResourceRoute
from controlplane.simulation.apiserver.store import Store

REQUEST_TIMEOUT = 10.0
LIST_TIMEOUT = 60.0
MANAGER = "controlplane"


@dataclass(frozen=True, slots=True)
class Written:
    """A write that was carried out: by which process, on what (`before` is None for a create), with which
    preconditions.
    """

    process: str
    cluster: str
    verb: str
    kind: Kind
    name: str
    subresource: str
    before: Record | None
    body: Json
    uid: str
    resource_version: str


class ServedCluster(Protocol):
    """What a server needs to know of the environment: the present store, and which kinds are switched off."""

    @property
    def store(self) -> Store:
        """The objects as they now are; another one after a restore."""

    @property
    def off(self) -> set[str]:
        """The kinds (`plural.group`) that are not served for the time being."""


class SimulatedServer(ApiServer):
    """A client's connection to one cluster.

    `written` hears of every write, `asked` of every request and how it ended, `listed` of every list and its
    resourceVersion."""

    def __init__(
        self,
        name: str,
        process: str,
        network: Network,
        cluster: ServedCluster,
        *,
        token: str,
        written: Callable[[Written], None],
        asked: Callable[[str, str, NetworkRequest, str], None],
        listed: Callable[[str, Kind, int], None],
    ) -> None:
        self.name = name
        self._process, self._network, self._cluster, self._token = process, network, cluster, token
        self._written, self._asked, self._listed = written, asked, listed
        self._open: dict[Reply, None] = {}
        self._closed = False

    async def get(self, kind: Kind, namespace: str, name: str, timeout: float | None = None) -> Json:
        """Return one object."""
        found: Json = await self._send(
            NetworkRequest("get", kind.name, name),
            lambda: self._store(kind).get(kind, namespace, name),
            timeout or REQUEST_TIMEOUT,
        )
        return found

    async def resources(self, api_version: str) -> Json:
        """Return the kinds of a group and version that are not switched off."""

        def carry_out() -> Json:
            served = [one for one in self._cluster.store.served.values() if one.kind.name not in self._cluster.off]
            path = f"/{'apis' if '/' in api_version else 'api'}/{api_version}"
            if (found := Discovery(served).document(path)) is None:
                raise no_such_resource()
            return found

        found: Json = await self._send(NetworkRequest("get", "discovery"), carry_out)
        return found

    async def write(self, request: Request) -> Json:
        """Carry out a write; 409 `AlreadyExists` if a name is taken, `Conflict` if a precondition does not hold."""
        ref, name = request.ref, request.ref.name or str(meta(request.body).get("name", ""))

        def carry_out() -> Json:
            store = self._store(ref.kind)
            create = request.verb == "create"
            before = None if create else store.record(ref.kind, ref.namespace, name)
            done = _CARRY_OUT[request.subresource if create else request.verb](store, request)
            self._tell(request, name, before)
            return done

        found: Json = await self._send(NetworkRequest(request.verb, ref.kind.name, name), carry_out)
        return found

    async def list(self, query: ListQuery) -> ListPage:
        """Return one page of the objects of a namespace, or of all."""
        kind = query.kind
        asked = {
            "labelSelector": query.label_selector,
            "fieldSelector": query.field_selector,
            "continue": query.continue_token,
            "limit": str(query.limit or ""),
        }

        def carry_out() -> Json:
            store = self._store(kind)
            served = store.served[kind]
            route, shown = (
                ResourceRoute(served, "list", query.namespace, "", ""),
                Representation(served, "object", store.now),
            )
            page: Json = orjson.loads(Rest(store).call(ApiCall(route, asked, "", "", b"", shown)).body)
            self._listed(self.name, kind, int(page["metadata"]["resourceVersion"]))
            return page

        page = await self._send(NetworkRequest("list", kind.name), carry_out, LIST_TIMEOUT)
        metadata = page["metadata"]
        return ListPage(page["items"], metadata["resourceVersion"], metadata.get("continue", ""))

    async def watch(self, query: WatchQuery) -> Lines:
        """Yield lines until the server ends the stream."""
        kind, idle_timeout = query.kind, query.idle_timeout

        def carry_out() -> Stream:
            store = self._store(kind)
            wanted = Selection(query.namespace, query.label_selector, query.field_selector)
            place = StreamPlace(self._network, self._process)
            return Stream(place, store, kind, wanted, query.resource_version, float(query.timeout_seconds))

        stream: Stream = await self._send(NetworkRequest("watch", kind.name), carry_out, idle_timeout)
        try:
            async for lines in stream.lines(idle_timeout):
                yield lines
        finally:
            stream.close()

    async def version(self, timeout: float) -> Json:
        """Return `/version`."""
        found: Json = await self._send(
            NetworkRequest("version", ""), lambda: {"gitVersion": "v1.36.0-simulated"}, timeout
        )
        return found

    async def close(self) -> None:
        """Close the connection: whatever is under way gets no answer."""
        self._closed = True
        for answer in list(self._open):
            answer.settle(Unreachable(f"{self.name}: the connection was closed"))

    def _store(self, kind: Kind) -> Store:
        if kind.name in self._cluster.off or kind not in self._cluster.store.served:
            raise no_such_resource(kind)
        return self._cluster.store

    async def _send(self, asked: NetworkRequest, carry_out: Callable[[], Any], timeout: float = REQUEST_TIMEOUT) -> Any:
        if self._closed:
            raise Unreachable(f"{self.name}: the connection was closed")
        answer = Reply(self._network, timeout)
        self._open[answer] = None
        self._network.send(asked, self._token, carry_out, answer, self._process)
        outcome = "done"
        try:
            return await answer.future
        except ApiError as error:
            outcome = f"{error.status} {error.reason}"
            raise
        except Unreachable as error:
            outcome = str(error)
            raise
        finally:
            del self._open[answer]
            self._asked(self._process, self.name, asked, outcome)

    def _tell(self, request: Request, name: str, before: Record | None) -> None:
        """Show a write that was carried out, with the preconditions that it had: those of a patch are in its body."""
        body, uid, version = request.body, request.uid, request.resource_version
        verb, subresource = str(request.verb), request.subresource
        if verb == "create":
            verb, subresource = subresource or verb, ""
        if verb == "patch":
            metadata = meta(body)
            uid, version = str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))
        self._written(
            Written(
                process=self._process,
                cluster=self.name,
                verb=verb,
                kind=request.ref.kind,
                name=name,
                subresource=subresource,
                before=before,
                body=body,
                uid=uid,
                resource_version=version,
            )
        )


def _create(store: Store, request: Request) -> Json:
    return store.create(request.ref.kind, request.body, field_manager=request.field_manager or MANAGER)


def _bind(store: Store, request: Request) -> Json:
    ref = request.ref
    return bind(store, ref.namespace, ref.name, request.body, manager=request.field_manager or MANAGER, dry_run=False)


def _evict(store: Store, request: Request) -> Json:
    return evict(store, request.ref.namespace, request.ref.name, request.body, dry_run=False)


def _patch(store: Store, request: Request) -> Json:
    ref, how = request.ref, request.content_type
    return store.patch(
        ref.kind,
        ref.namespace,
        ref.name,
        request.body,
        content_type=how,
        subresource=request.subresource,
        field_manager=request.field_manager or MANAGER,
        force=how == APPLY_PATCH,
    )


def _delete(store: Store, request: Request) -> Json:
    ref, uid, version = request.ref, request.uid, request.resource_version
    return store.delete(
        ref.kind,
        ref.namespace,
        ref.name,
        uid=uid,
        resource_version=version,
        propagation=request.propagation,
        grace=request.grace,
    )


_CARRY_OUT: dict[str, Callable[[Store, Request], Json]] = {
    "": _create,
    "binding": _bind,
    "eviction": _evict,
    "patch": _patch,
    "delete": _delete,
}
"""By subresource of a create, and by verb of everything else."""
