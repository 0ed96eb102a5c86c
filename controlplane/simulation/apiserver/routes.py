"""Which resource, object and verb a request means.

In: method, path and query of an HTTP request. Out: a `ResourceRoute`, or None for paths that are no resource
(discovery, health). The grammar is that of `k8s.io/apiserver/pkg/endpoints/request`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.simulation.apiserver.errors import method_not_allowed, no_such_resource
from controlplane.simulation.apiserver.faults import MatchedRequest
from controlplane.simulation.kinds.base import ServedKind

_ON_COLLECTION = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_ON_OBJECT = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
POSTED = frozenset({"binding", "eviction"})
CONNECTED = {"exec": "exec", "attach": "attach", "portforward": "port-forward"}
"""What is asked of a pod over a connection that is upgraded, by GET (WebSocket) or POST (SPDY), and kubectl's word for
it."""
_TRUE = frozenset({"true", "True", "1", "t", "T", "TRUE"})


def truthy(text: str | None) -> bool:
    """Whether a query parameter is a true as Go parses it."""
    return text in _TRUE


@dataclass(frozen=True, slots=True)
class ResourceRoute:
    """One request for a resource: the kind, the verb, and where; namespace and name are empty where there are none."""

    served: ServedKind
    verb: str
    namespace: str
    name: str
    subresource: str

    @property
    def asked(self) -> MatchedRequest:
        """The route in the terms of faults and counters."""
        return MatchedRequest(self.verb, self.served.kind.name, self.subresource, self.namespace, self.name)


class Routes:
    """The resources of one server, by group, version and plural."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self._kinds = {(served.kind.group, served.kind.version, served.kind.plural): served for served in kinds}

    def find(self, method: str, path: str, query: Mapping[str, str]) -> ResourceRoute | None:
        """Return the route of a request; None if the path is no resource's, 404 and 405 for resources and verbs that
        are not served.
        """
        split = _split(path)
        if split is None:
            return None
        group, version, namespace, rest = split
        served = self._kinds.get((group, version, rest[0]))
        if served is None or len(rest) > 3 or (namespace and not served.kind.namespaced):
            raise no_such_resource()
        name, subresource = (*rest[1:], "", "")[:2]
        verb = _verb(method, name, subresource, query)
        if verb is None or (served.kind.namespaced and not namespace and verb not in ("list", "watch")):
            raise method_not_allowed()
        return ResourceRoute(served, verb, namespace, name, subresource)


def _split(path: str) -> tuple[str, str, str, list[str]] | None:
    """Return group, version, namespace and the rest of a path, which is not empty; None if it is no resource's."""
    steps = [step for step in path.split("/") if step]
    if len(steps) >= 3 and steps[0] == "api":
        group, version, rest = "", steps[1], steps[2:]
    elif len(steps) >= 4 and steps[0] == "apis":
        group, version, rest = steps[1], steps[2], steps[3:]
    else:
        return None
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        return group, version, rest[1], rest[2:]
    return group, version, "", rest


def _verb(method: str, name: str, subresource: str, query: Mapping[str, str]) -> str | None:
    if method == "POST" and subresource in POSTED:
        return "create"
    if method == "POST" and subresource in CONNECTED:
        return "get"
    verb = (_ON_OBJECT if name else _ON_COLLECTION).get(method)
    return "watch" if verb == "list" and truthy(query.get("watch")) else verb
