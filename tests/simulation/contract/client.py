"""The bare HTTP client of the contract: what is sent and what comes back, without any of the product's own client in
between.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import orjson

from controlplane.kube.kinds import APPLY_PATCH, JOBS, MERGE_PATCH, NAMESPACES, Json, Kind
from tests.support.waiting import PATIENCE

WIDGETS = Kind("contract.example.com", "v1", "Widget", "widgets")
MACHINES = Kind("contract.example.com", "v1", "Machine", "machines", namespaced=False)

_numbers = itertools.count()


def job(name: str, **spec: Any) -> Json:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/none"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod}, **spec},
    }


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, scheduler: str) -> Json:
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "example.com/none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def widget(name: str, **spec: Any) -> Json:
    return {"apiVersion": WIDGETS.api_version, "kind": "Widget", "metadata": {"name": name}, "spec": spec}


class Answer:
    """A status and the decoded body."""

    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body = status, body

    def ok(self, status: int = 200) -> Json:
        assert self.status == status, self.body
        found: Json = self.body
        return found

    def refused(self, status: int, reason: str, *fragments: str) -> Json:
        """Assert a Status body of failure, and that its message has all fragments."""
        assert (self.status, self.body.get("reason", "")) == (status, reason), self.body
        assert (self.body["kind"], self.body["status"], self.body["code"]) == ("Status", "Failure", status)
        for fragment in fragments:
            assert fragment in self.body["message"]
        found: Json = self.body
        return found


class Lines:
    """The events of one watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> tuple[str, Json]:
        """Return the next event's type and object; AssertionError if the watch ends instead."""
        async with asyncio.timeout(PATIENCE):
            line = await self._response.content.readline()
        assert line, "the watch has ended"
        event = orjson.loads(line)
        return event["type"], event["object"]

    async def named(self) -> tuple[str, str]:
        """Return the next event's type and its object's name."""
        type_, obj = await self.next()
        return type_, obj["metadata"]["name"]

    async def ended(self) -> bool:
        """Wait for the server to close the watch; False if another line comes instead."""
        async with asyncio.timeout(PATIENCE):
            return await self._response.content.readline() == b""


class Api:
    """One server under contract.

    `simulated` says which of the two it is; tests may ask only where one cannot be provoked. `forget` drops the history
    of changes, which the real server's begins long after resourceVersion 1 anyway.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str, *, simulated: bool) -> None:
        self.session, self.url, self.token, self.simulated = session, url, token, simulated
        self.namespace = ""
        self.forget: Callable[[], None] = lambda: None

    def headers(self, **more: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "User-Agent": "contract/1.0", **more}

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> Answer:
        data = orjson.dumps(body) if body is not None else None
        headers = self.headers(Accept=accept, **({"Content-Type": content_type} if data is not None else {}))
        async with self.session.request(method, self.url + path, data=data, headers=headers, params=query) as response:
            raw = await response.read()
            return Answer(response.status, orjson.loads(raw) if raw[:1] in (b"{", b"[") else raw.decode())

    async def create(self, kind: Kind, obj: Json, namespace: str = "", **query: str) -> Answer:
        return await self.call("POST", kind.path(namespace or self.namespace), obj, **query)

    async def get(self, kind: Kind, name: str, **query: str) -> Answer:
        return await self.call("GET", kind.path(self.namespace, name), **query)

    async def list(self, kind: Kind, **query: str) -> Answer:
        return await self.call("GET", kind.path(self.namespace), **query)

    async def update(self, kind: Kind, obj: Json, subresource: str = "", **query: str) -> Answer:
        return await self.call("PUT", kind.path(self.namespace, obj["metadata"]["name"], subresource), obj, **query)

    async def patch(
        self, kind: Kind, name: str, patch: Any, subresource: str = "", content_type: str = MERGE_PATCH, **query: str
    ) -> Answer:
        path = kind.path(self.namespace, name, subresource)
        return await self.call("PATCH", path, patch, content_type=content_type, **query)

    async def apply(
        self, kind: Kind, name: str, obj: Json, manager: str, subresource: str = "", **query: str
    ) -> Answer:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **obj}
        return await self.patch(kind, name, body, subresource, APPLY_PATCH, fieldManager=manager, **query)

    async def delete(self, kind: Kind, name: str, options: Json | None = None, **query: str) -> Answer:
        return await self.call("DELETE", kind.path(self.namespace, name), options, **query)

    async def new_namespace(self) -> str:
        name = f"contract-{next(_numbers)}"
        (await self.call("POST", NAMESPACES.path(), {"metadata": {"name": name}})).ok(201)
        return name

    @contextlib.asynccontextmanager
    async def watch(self, kind: Kind, **query: str) -> AsyncIterator[Lines]:
        """Open a watch on a kind in the test's namespace."""
        async with self.session.get(
            self.url + kind.path(self.namespace), params={"watch": "true", **query}, headers=self.headers()
        ) as response:
            assert response.status == 200, await response.text()
            yield Lines(response)


def version(obj: Json) -> str:
    """Return the resourceVersion of an object or a list."""
    found: str = obj["metadata"]["resourceVersion"]
    return found


__all__ = ["JOBS", "MACHINES", "WIDGETS", "Answer", "Api", "Lines", "config_map", "job", "version", "widget"]
