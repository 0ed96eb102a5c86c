"""The answers of an API server that says no: statuses, reasons and texts as kube-apiserver words them.

In: what went wrong, in the store's terms. Out: `ApiError`s that carry the `details` of a Status body as well, and the
Status body itself. Texts follow `k8s.io/apimachinery/pkg/api/errors`; clients and people match on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from controlplane.clusters.protocol import ApiError
from controlplane.kube.kinds import Json, Kind


class Cause(NamedTuple):
    """One reason why an object is invalid: the field's path, Kubernetes' cause type, and the text after the path."""

    field: str
    type: str
    message: str


class ApiRefusal(ApiError):  # noqa: N818 - named like its siblings in the port
    """An `ApiError` as the server raises it: `details` is what the Status body says about the object and its causes."""

    def __init__(
        self, status: int, reason: str, message: str, *, details: Json | None = None, retry_after: float | None = None
    ) -> None:
        self.details = details or {}
        super().__init__(status, reason, message, retry_after, name=str(self.details.get("name", "")))


def _details(kind: Kind | None, name: str, causes: Sequence[Json] = ()) -> Json:
    details: Json = {}
    if name:
        details["name"] = name
    if kind is not None:
        if kind.group:
            details["group"] = kind.group
        details["kind"] = kind.plural
    if causes:
        details["causes"] = list(causes)
    return details


def not_found(kind: Kind, name: str) -> ApiRefusal:
    """404 for an object."""
    return ApiRefusal(404, "NotFound", f'{kind.name} "{name}" not found', details=_details(kind, name))


def no_such_resource(kind: Kind | None = None) -> ApiRefusal:
    """404 for a kind or subresource that is not served."""
    return ApiRefusal(404, "NotFound", "the server could not find the requested resource", details=_details(kind, ""))


def already_exists(kind: Kind, name: str) -> ApiRefusal:
    """409 for a create whose name is taken."""
    return ApiRefusal(409, "AlreadyExists", f'{kind.name} "{name}" already exists', details=_details(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> ApiRefusal:
    """409 for a precondition that does not hold; without `why` the text of a stale resourceVersion."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.name} "{name}": {why}'
    return ApiRefusal(409, "Conflict", message, details=_details(kind, name))


def apply_conflict(message: str, causes: Sequence[Json]) -> ApiRefusal:
    """409 of a server-side apply that touches other managers' fields."""
    return ApiRefusal(409, "Conflict", message, details={"causes": list(causes)})


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> ApiRefusal:
    """422 with one line per cause."""
    lines = [f"{cause.field}: {cause.message}" for cause in causes]
    text = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    spelled = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = _details(
        kind, name, [{"reason": cause.type, "message": cause.message, "field": cause.field} for cause in causes]
    )
    details["kind"] = kind.kind
    return ApiRefusal(422, "Invalid", f'{spelled} "{name}" is invalid: {text}', details=details)


def options_invalid(what: str, field: str, message: str) -> ApiRefusal:
    """422 for request options (`ListOptions`, `PatchOptions`) that contradict each other."""
    details = {"group": "meta.k8s.io", "kind": what, "causes": [{"field": field, "message": message}]}
    return ApiRefusal(422, "Invalid", f'{what}.meta.k8s.io "" is invalid: {field}: {message}', details=details)


def forbidden(kind: Kind, name: str, why: str) -> ApiRefusal:
    """403 by admission."""
    return ApiRefusal(403, "Forbidden", f'{kind.name} "{name}" is forbidden: {why}', details=_details(kind, name))


def bad_request(message: str) -> ApiRefusal:
    """400: the request itself makes no sense."""
    return ApiRefusal(400, "BadRequest", message)


def not_strict(kind: Kind, unknown: Sequence[str]) -> ApiRefusal:
    """400 for fields that a kind does not have, where somebody wants to know."""
    listed = ", ".join(f'unknown field "{path}"' for path in unknown)
    head = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return bad_request(f"{head}: strict decoding error: {listed}")


def unauthorized() -> ApiRefusal:
    """401: no bearer token, or a wrong one."""
    return ApiRefusal(401, "Unauthorized", "Unauthorized")


def nothing_runs(name: str, asked: str) -> ApiRefusal:
    """400 for what needs a container that runs, which no simulated pod has."""
    return bad_request(
        f"pod {name} is simulated: nothing runs in it, so it takes no {asked}; `kubectl logs {name}` says what it "
        "would run"
    )


def method_not_allowed() -> ApiRefusal:
    """405: the path exists, the verb does not."""
    return ApiRefusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media(accepted: Sequence[str]) -> ApiRefusal:
    """415 for a body or patch type that the kind does not take."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiRefusal(415, "UnsupportedMediaType", message)


def unpatchable() -> ApiRefusal:
    """422 for a JSON patch that does not fit the object."""
    return ApiRefusal(422, "Invalid", "the server rejected our request due to an error in our request")


def expired(message: str) -> ApiRefusal:
    """410: the asked resourceVersion lies before what the history still holds."""
    return ApiRefusal(410, "Expired", message)


def too_large(asked: int, current: int) -> ApiRefusal:
    """504: the asked resourceVersion has not been reached yet."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiRefusal(
        504,
        "Timeout",
        f"Too large resource version: {asked}, current: {current}",
        details={"causes": causes, "retryAfterSeconds": 1},
        retry_after=1,
    )


def status_body(error: ApiError) -> Json:
    """Return the Status object that says `error` over HTTP."""
    body: Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": error.status,
    }
    details = dict(error.details) if isinstance(error, ApiRefusal) else {}
    if error.retry_after is not None:
        details["retryAfterSeconds"] = int(error.retry_after)
    if details:
        body["details"] = details
    if not error.reason:
        del body["reason"]
    return body


def success_body(kind: Kind, name: str, uid: str) -> Json:
    """Return the Status object that answers a delete that took effect at once."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": _details(kind, name) | {"uid": uid},
    }
