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
from controlplane.clusters.streams import Lines, ListPage
from controlplane.dst.engine.network import Network, NetworkRequest, Reply
from controlplane.dst.engine.watch import Selection, Stream
from controlplane.kube.kinds import APPLY_PATCH, MERGE_PATCH, Json, Kind
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


class SimulatedServer:
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

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Return one object."""
        found: Json = await self._send(
            NetworkRequest("get", kind.name, name), lambda: self._store(kind).get(kind, namespace, name)
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

    async def create(self, kind: Kind, namespace: str, body: Json, *, field_manager: str = "") -> Json:
        """Create an object; 409 `AlreadyExists` if the name is taken."""
        name = str(body["metadata"]["name"])

        def carry_out() -> Json:
            created = self._store(kind).create(kind, body, field_manager=field_manager or MANAGER)
            self._tell("create", kind, name, None, body)
            return created

        found: Json = await self._send(NetworkRequest("create", kind.name, name), carry_out)
        return found

    async def post(
        self, kind: Kind, namespace: str, name: str, subresource: str, body: Json, *, field_manager: str = ""
    ) -> Json:
        """Bind or evict a pod; 409 `Conflict` if a precondition in the body does not hold."""

        def carry_out() -> Json:
            store = self._store(kind)
            if subresource == "binding":
                done = bind(store, namespace, name, body, manager=field_manager or MANAGER, dry_run=False)
            else:
                done = evict(store, namespace, name, body, dry_run=False)
            self._tell(subresource, kind, name, None, body)
            return done

        found: Json = await self._send(NetworkRequest("create", kind.name, name), carry_out)
        return found

    async def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Json,
        *,
        subresource: str = "",
        content_type: str = "",
        field_manager: str = "",
    ) -> Json:
        """Patch an object or its subresource; 409 `Conflict` if a precondition in the body does not hold."""

        def carry_out() -> Json:
            store = self._store(kind)
            before = store.record(kind, namespace, name)
            patched = store.patch(
                kind,
                namespace,
                name,
                body,
                content_type=content_type or MERGE_PATCH,
                subresource=subresource,
                field_manager=field_manager or MANAGER,
                force=content_type == APPLY_PATCH,
            )
            metadata = body.get("metadata") or {}
            uid, version = str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))
            self._tell("patch", kind, name, before, body, uid, version, subresource)
            return patched

        found: Json = await self._send(NetworkRequest("patch", kind.name, name), carry_out)
        return found

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> None:
        """Delete an object; 409 `Conflict` if a precondition does not hold."""

        def carry_out() -> None:
            store = self._store(kind)
            before = store.record(kind, namespace, name)
            store.delete(kind, namespace, name, uid=uid, resource_version=resource_version, propagation=propagation)
            self._tell("delete", kind, name, before, {}, uid, resource_version)

        await self._send(NetworkRequest("delete", kind.name, name), carry_out)

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        consistent: bool = True,
    ) -> ListPage:
        """Return one page of the objects of a namespace, or of all."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector, "continue": continue_token}
        query["limit"] = str(limit or "")

        def carry_out() -> Json:
            store = self._store(kind)
            served = store.served[kind]
            route, shown = ResourceRoute(served, "list", namespace, "", ""), Representation(served, "object", store.now)
            page: Json = orjson.loads(Rest(store).call(ApiCall(route, query, "", "", b"", shown)).body)
            self._listed(self.name, kind, int(page["metadata"]["resourceVersion"]))
            return page

        page = await self._send(NetworkRequest("list", kind.name), carry_out, LIST_TIMEOUT)
        metadata = page["metadata"]
        return ListPage(page["items"], metadata["resourceVersion"], metadata.get("continue", ""))

    async def watch(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
        idle_timeout: float,
    ) -> Lines:
        """Yield lines until the server ends the stream."""

        def carry_out() -> Stream:
            store = self._store(kind)
            wanted = Selection(namespace, label_selector, field_selector)
            return Stream(self._network, store, kind, wanted, resource_version, float(timeout_seconds))

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
        self._network.send(asked, self._token, carry_out, answer)
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

    def _tell(
        self,
        verb: str,
        kind: Kind,
        name: str,
        before: Record | None,
        body: Json,
        uid: str = "",
        resource_version: str = "",
        subresource: str = "",
    ) -> None:
        self._written(
            Written(self._process, self.name, verb, kind, name, subresource, before, body, uid, resource_version)
        )
