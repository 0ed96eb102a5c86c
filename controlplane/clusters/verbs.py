"""Carries out one `Request` to one cluster so that doing it twice does no harm.

The call that was executed and whose answer was lost is the normal case, so every verb leans on something the server
checks: a deterministic name, the origin label and for whom it was made (create), a uid and resourceVersion (patch,
delete). Only "come back later" is repeated here; everything else, above all a conflict, goes back to whoever decided,
who will have seen more by then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from controlplane.clusters.budget import RequestBudget
from controlplane.clusters.protocol import ApiError, ClusterError, ClusterPort, Foreign, Unreachable
from controlplane.kube.kinds import APPLY_PATCH, Json, ObjectRef, Request, Verb, meta

_ATTEMPTS = 4
#: The reason of a refusal after which nobody knows whether the object is there.
UNCLEAR = "Unclear"
_SUCCESS = {"create": "201", "get": "200", "patch": "200", "delete": "200"}

#: Called once for each HTTP request: cluster, verb (`get` included), resource (`jobs.batch`,
#: `workloads.kueue.x-k8s.io/status`), and the HTTP code or `Unreachable`.
OnRequest = Callable[[str, str, str, str, float], None]

_Answer = TypeVar("_Answer")


def _uncounted(cluster: str, verb: str, resource: str, code: str, seconds: float) -> None:
    """Count nothing."""


def _seen_by_nobody(ref: ObjectRef) -> None:
    """Tell nobody."""


def always() -> bool:
    """Allow everything."""
    return True


class _Withheld(Unreachable):
    """Nothing was sent: whoever asked may not act any more."""


class Executor:
    """Implements `Executes` on a port, within a budget.

    `allowed` is asked when a request's turn has come, immediately before it is sent: a process that was paused while it
    waited may have lost the lead meanwhile. `on_absent` is told of each object that was not found."""

    def __init__(
        self,
        port: ClusterPort,
        budget: RequestBudget,
        on_request: OnRequest = _uncounted,
        allowed: Callable[[], bool] = always,
        on_absent: Callable[[ObjectRef], None] = _seen_by_nobody,
    ) -> None:
        self._port, self._budget, self._on_request, self._allowed = port, budget, on_request, allowed
        self._on_absent = on_absent

    async def execute(self, request: Request) -> Json | None:
        """Carry out the request; return the object as stored, or None after a delete.

        Raises `ApiError` (a 409 means: observe again), `Foreign` (what is there is not ours) or `Unreachable` (perhaps
        done, perhaps not)."""
        if request.verb == "create":
            return await (self._post(request) if request.subresource else self._create(request))
        if request.verb == "patch":
            return await self._patch(request)
        await self._delete(request)
        return None

    async def _create(self, request: Request) -> Json:
        """Create the object, or adopt what a lost answer of ours left there.

        That it was refused now proves nothing of an attempt before, whose answer was lost: the refusal counts if the
        object is not there. Where that cannot be seen, nothing is known: 503 `Unclear`."""
        ref, complete = request.ref, replace(request, body=_complete(request))
        try:
            return await self._send("create", request, lambda: self._port.write(complete))
        except ApiError as error:
            if request.owner_label is None or error.status in (401, 429) or error.status >= 500:
                raise
            refusal = error
        found = await self._after_refusal(request, refusal)
        if meta(found).get("deletionTimestamp"):
            raise ApiError(409, "AlreadyExists", f"{ref} is being deleted")
        return found

    async def _post(self, request: Request) -> Json:
        """POST to a subresource: nothing is adopted here, for what an earlier attempt did shows on the object
        itself.
        """
        return await self._send("create", request, lambda: self._port.write(request))

    async def _after_refusal(self, request: Request, refusal: ApiError) -> Json:
        """Return what is in the place of an object that could not be created; raises the refusal if nothing is."""
        try:
            found = await self._get(request, absent_by_name=True)
        except ApiError as error:
            text = f"{refusal.message}; and whether an earlier attempt created {request.ref} cannot be seen"
            if not error.status == refusal.status == 403:  # which says the same of another verb
                text += f": {error.message}"
            raise ApiError(503, UNCLEAR, text) from error
        if found is not None:
            _not_of_another(request, found)
            return found
        if refusal.reason == "AlreadyExists":
            raise ApiError(409, "Conflict", f"{request.ref} existed and vanished; observe again")
        raise refusal

    async def _patch(self, request: Request) -> Json:
        preconditions = {"uid": request.uid, "resourceVersion": request.resource_version}
        body = _complete(request) if request.content_type == APPLY_PATCH else request.body
        metadata = meta(body) | {key: value for key, value in preconditions.items() if value}
        complete = replace(request, body=body | {"metadata": metadata} if metadata else body)
        return await self._send("patch", request, lambda: self._port.write(complete))

    async def _delete(self, request: Request) -> None:
        """Delete exactly the object that was decided on.

        With both preconditions it is the very version that was observed, label and all. With less, the label is looked
        at now, and what was looked at is what gets deleted."""
        ref, uid, version = request.ref, request.uid, request.resource_version
        if request.owner_label is not None and not (uid and version):
            found = await self._get(request)
            if found is None or (uid and meta(found).get("uid") != uid):
                return  # already gone; another of its name is another object
            if version and meta(found).get("resourceVersion") != version:
                raise ApiError(409, "Conflict", f"{ref} has changed since resourceVersion {version}")
            uid, version = str(meta(found).get("uid", "")), str(meta(found).get("resourceVersion", ""))
        complete = replace(request, uid=uid, resource_version=version)
        try:
            await self._send("delete", request, lambda: self._port.write(complete))
        except ApiError as error:
            if error.status != 404:
                raise

    async def _get(self, request: Request, *, absent_by_name: bool = False) -> Json | None:
        """Return what is in the request's place, which must carry the origin label; None if nothing is.

        A kind that is not served has no objects either; with `absent_by_name`, that alone is no proof.
        """
        ref = request.ref
        try:
            found = await self._send("get", request, lambda: self._port.get(ref.kind, ref.namespace, ref.name))
        except ApiError as error:
            if error.status == 404 and (error.name == ref.name or not absent_by_name):
                return None
            raise
        label, value = request.owner_label or ("", "")
        labels = meta(found).get("labels")
        if not isinstance(labels, dict) or labels.get(label) != value:
            raise Foreign(f"{ref} does not carry {label}={value}", found)
        return found

    async def _send(self, verb: Verb | str, request: Request, call: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Send within the budget, and again a few times where the server asks to come back later."""
        backoff, monotonic = self._budget.backoff(), self._budget.clock.monotonic
        while True:
            started = monotonic()
            try:
                async with self._budget.slot():
                    started = monotonic()  # the wait for its turn is not the server's
                    if not self._allowed():
                        raise _Withheld(f"{self._port.name}: not sent, this process may not lead any more")
                    answer = await call()
            except _Withheld:
                raise
            except ClusterError as error:
                code = str(error.status) if isinstance(error, ApiError) else "Unreachable"
                self._count(verb, request, code, monotonic() - started)
                if code == "404":
                    self._on_absent(request.ref)
                if not isinstance(error, ApiError) or not _later(error) or backoff.attempts >= _ATTEMPTS - 1:
                    raise
                # Everyone keeps off for as long as the server asks; this request waits a little longer, so not all come
                # at once.
                asked = error.retry_after or 0.0
                self._budget.pause(asked)
                await self._budget.clock.sleep(asked + backoff.next())
                continue
            self._count(verb, request, _SUCCESS[verb], monotonic() - started)
            return answer

    def _count(self, verb: str, request: Request, code: str, seconds: float) -> None:
        resource = request.ref.kind.name
        if verb in ("patch", "create") and request.subresource:
            resource += f"/{request.subresource}"
        self._on_request(self._port.name, verb, resource, code, seconds)


def _not_of_another(request: Request, found: Json) -> None:
    """Raise `Foreign` if an object says that it was made for somebody else. One that says nothing may be of before."""
    note, *ours = request.maker or ("",)
    notes = meta(found).get("annotations")
    said = notes.get(note) if isinstance(notes, dict) else None
    if said and said not in ours:
        raise Foreign(f"{request.ref} was made for another: {note}={said}", found)


def _later(error: ApiError) -> bool:
    """Say whether the server refused before doing anything and wants to be asked again."""
    return error.status == 429 or (error.status >= 500 and error.retry_after is not None)


def _complete(request: Request) -> Json:
    """Return the body with the place from the ref, so that body and path cannot disagree."""
    ref = request.ref
    place = {"name": ref.name} | ({"namespace": ref.namespace} if ref.namespace else {})
    head = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind}
    return request.body | head | {"metadata": meta(request.body) | place}
