"""What a request to an API server asks for, by its method and path, as authorizers see it
(https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb); and the Status with
which a request is refused.

In: method and path. Out: attributes, those of a SubjectAccessReview, and statuses."""

from __future__ import annotations

import json

from controlplane.kube.kinds import Json
from controlplane.values import Value

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_MANY = {"get": "list", "delete": "deletecollection"}
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class RequestAttributes(Value):
    """What is asked for. `resource` is empty where a path is: then `verb` is the method. An empty `namespace` is the
    whole cluster."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def review(self) -> Json:
        """The part of a SubjectAccessReview's spec that says what is asked for."""
        if not self.resource:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        fields = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
        return {"resourceAttributes": {name: value for name in fields if (value := getattr(self, name))}}

    def forbidden(self, user: str) -> str:
        """Return the sentence that refuses it to a user."""
        who = f"User {_quoted(user)} cannot {self.verb}"
        if not self.resource:
            return f"forbidden: {who} path {_quoted(self.path)}".translate(_HTML)
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f"in the namespace {_quoted(self.namespace)}" if self.namespace else "at the cluster scope"
        what = f"{self.resource}.{self.group} {_quoted(self.name)} is forbidden"
        return f"{what}: {who} resource {_quoted(resource)} in API group {_quoted(self.group)} {where}".translate(_HTML)


def attributes(method: str, path: str) -> RequestAttributes:
    """Return what a request asks for, of an API group or of no resource."""
    parts = [part for part in path.split("/") if part]
    if len(parts) < 4 or parts[0] != "apis":
        return RequestAttributes(verb=method.lower(), path=path)
    verb = _VERBS.get(method, "")
    group, version, rest, namespace = parts[1], parts[2], parts[3:], ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        rest = rest[2:] if len(rest) > 2 else rest
    resource, name, subresource = (*rest, "", "")[:3]
    return RequestAttributes(
        verb=verb if name else _OF_MANY.get(verb, verb),
        path=path,
        group=group,
        version=version,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


def status(code: int, reason: str, message: str, details: Json | None = None) -> Json:
    """Return the Status of a request that failed."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": details} if details is not None else {}),
        "code": code,
    }


def not_found(group: str, kind: str, name: str) -> Json:
    """Return the Status of an object that is not there."""
    details = {"name": name, "group": group, "kind": kind}
    return status(404, "NotFound", f"{kind}.{group} {_quoted(name)} not found", details)


def forbidden(asked: RequestAttributes, user: str) -> Json:
    """Return the Status of what a user may not do."""
    found = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    details = {key: value for key, value in found.items() if value}
    return status(403, "Forbidden", asked.forbidden(user), details)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
