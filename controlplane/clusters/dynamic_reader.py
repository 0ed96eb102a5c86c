"""Reads objects of any kind by the fields of an owner reference: apiVersion, kind, name.

In: a `ClusterPort`. Out: the object, or the error that `ClusterPort.get` raises. Which resource a kind is, and whether
it has namespaces, comes from discovery, which is asked once for each group and version, and once more when it does not
know a kind: a CRD may have come or gone since."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from controlplane.clusters.budget import RequestBudget
from controlplane.clusters.protocol import ApiError, Discovers, NotServed
from controlplane.kube.kinds import Json, Kind

_Answer = TypeVar("_Answer")

#: Called once for each HTTP request: cluster, verb, resource and HTTP code.
OnRequest = Callable[[str, str, str, str, float], None]


class Dynamic:
    """Implements `Looks` on a port, within its budget."""

    def __init__(self, port: Discovers, budget: RequestBudget, on_request: OnRequest = lambda *_: None) -> None:
        self._port, self._budget, self._on_request = port, budget, on_request
        self._kinds: dict[str, dict[str, Kind]] = {}

    async def look(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        """Return an object; `NotServed` if discovery, asked anew, does not know its kind."""
        found = self._kinds.get(api_version, {}).get(kind)
        if found is None:
            found = await self._discover(api_version, kind)
        try:
            return await self._get(found, namespace, name)
        except ApiError as error:
            if error.status != 404 or error.reason == "NotFound":
                raise
        # A 404 without the reason of a missing object is a missing resource: the CRD has gone, or moved on.
        self._kinds.pop(api_version, None)
        return await self._get(await self._discover(api_version, kind), namespace, name)

    async def _get(self, kind: Kind, namespace: str, name: str) -> Json:
        place = namespace if kind.namespaced else ""
        return await self._send("get", kind.name, lambda: self._port.get(kind, place, name))

    async def _discover(self, api_version: str, kind: str) -> Kind:
        try:
            listed = await self._send("get", "discovery", lambda: self._port.resources(api_version))
        except ApiError as error:
            if error.status != 404:
                raise
            raise NotServed(f"{self._port.name} serves no {api_version}") from None
        group, _, version = api_version.rpartition("/")
        resources = listed.get("resources")
        named = [
            (one.get("kind"), one.get("name"), one.get("namespaced") is True)
            for one in (resources if isinstance(resources, list) else [])
            if isinstance(one, dict)
        ]
        served = {
            one: Kind(group, version, one, plural, namespaced)
            for one, plural, namespaced in named
            if isinstance(one, str) and isinstance(plural, str) and plural and "/" not in plural  # not a subresource
        }
        self._kinds[api_version] = served
        if kind not in served:
            raise NotServed(f"{self._port.name} serves no {kind} in {api_version}")
        return served[kind]

    async def _send(self, verb: str, resource: str, call: Callable[[], Awaitable[_Answer]]) -> _Answer:
        monotonic = self._budget.clock.monotonic
        async with self._budget.slot():
            started = monotonic()
            try:
                answer = await call()
            except ApiError as error:
                self._on_request(self._port.name, verb, resource, str(error.status), monotonic() - started)
                if error.status == 429 and error.retry_after:
                    self._budget.pause(error.retry_after)
                raise
        self._on_request(self._port.name, verb, resource, "200", monotonic() - started)
        return answer
