"""Defines what may be asked of one API server, and what it answers.

In: kinds, requests (`controlplane.kube.kinds`). Out: objects as plain dicts, deltas of a watched kind, and two sorts of
failure: a refusal (`ApiError`) and no answer at all (`Unreachable`). The HTTP client, the doubles of the
tests and whatever comes later all stand behind these protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from controlplane.kube.kinds import Json, Kind, ObjectRef, Request


class ClusterError(Exception):
    """Anything that kept a request to a cluster from succeeding."""


class Unreachable(ClusterError):  # noqa: N818 - a state, named as the log names it
    """No answer: connection refused, cut, timed out, TLS failed. The request may or may not have been executed."""


class UnreadableResponse(Unreachable):
    """An answer came, and cannot be read: it is too long, nested too deep, or not what was asked for. As good as
    none.
    """


class ApiError(ClusterError):
    """The API server answered with a status of 400 or more.

    `status` is the HTTP code, `reason` the Status object's reason (`AlreadyExists`, `Conflict`, …) or "", `retry_after`
    seconds from the header or None, `name` the object that the Status names: a 404 without it is about the kind,
    not of the object."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None, *, name: str = ""
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message, self.retry_after = status, reason, message, retry_after
        self.name = name


class Foreign(ClusterError):  # noqa: N818
    """The object in the way does not carry our origin label: it is neither adopted nor deleted."""

    def __init__(self, message: str, found: Json) -> None:
        super().__init__(message)
        self.found = found


class Change(msgspec.Struct, frozen=True, gc=False):
    """One object of a watched kind as it now is, or, for `gone`, as it last was.

    `gone` has two sources: a DELETED line (`object` is the last state with the deletion's resourceVersion), or a relist
    that no longer contains it (`object` holds only apiVersion, kind and metadata name/namespace/uid; `resource_version`
    is the list's). `seen`: it is listed at the very version that the sink took before, or that the log was said to hold
    when the reflector began. `unreadable`: why no more of it could be read than its identity (and its labels and
    annotations, if those could); `resource_version` may be empty then. `manager`: the field manager that wrote the
    object itself last, no subresource of it; "" where the server does not say."""

    op: Literal["listed", "added", "modified", "gone"]
    kind: Kind
    object: Json
    resource_version: str
    seen: bool = False
    unreadable: str = ""
    manager: str = ""


class Synced(msgspec.Struct, frozen=True, gc=False):
    """A list of the kind is complete. `gap`: a watch could not be resumed (410), so changes in between were
    missed.
    """

    kind: Kind
    resource_version: str
    count: int
    gap: bool


class Off(msgspec.Struct, frozen=True, gc=False):
    """The cluster does not serve the kind (404), forbids it (403), or lists it so that it cannot be read: nothing of it
    will be seen until that changes."""

    kind: Kind
    reason: Literal["NotServed", "Forbidden", "Unreadable"]
    message: str


Delta = Change | Synced | Off


class Sink(Protocol):
    """Where deltas go. Returning means: they are in the log. Not returning is back-pressure; the reflector stops
    reading.
    """

    async def __call__(self, cluster: str, deltas: Sequence[Delta]) -> None:
        """Take deltas of one kind of one cluster, in the order in which the API server showed them."""


class ClusterPort(Protocol):
    """The verbs on one API server. Each raises `ApiError` or `Unreachable`; each has a time-out of its own.

    Who implements it derives from it and says how one object is read and how one `Request` is carried out."""

    name: str

    async def get(self, kind: Kind, namespace: str, name: str, timeout: float | None = None) -> Json:
        """Return one object, within `timeout` seconds in all. Only for the exceptional path: state comes from
        watches."""
        raise NotImplementedError

    async def write(self, request: Request) -> Json:
        """Send one write as it is: POST (to a subresource, if it names one), PATCH or DELETE. Return the answer, which
        may be a Status; 409 `AlreadyExists` if a name is taken, `Conflict` if a precondition does not hold.
        """
        raise NotImplementedError

    async def create(self, kind: Kind, namespace: str, body: Json, *, field_manager: str = "") -> Json:
        """POST an object; 409 `AlreadyExists` if the name is taken."""
        return await self.write(Request("create", ObjectRef(kind, namespace, ""), body, field_manager=field_manager))


class NotServed(ClusterError):  # noqa: N818
    """The API server does not serve a kind, by discovery looked at just now."""


class Discovers(Protocol):
    """What dynamic reads need of an API server: discovery of one group and version, and GET."""

    name: str

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Return one object."""

    async def resources(self, api_version: str) -> Json:
        """Return the APIResourceList of a group and version; 404 if it is not served."""


class Looks(Protocol):
    """Reads from a cluster: one object of any kind, by the fields of a reference."""

    async def look(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        """Return an object, from the namespace if its kind has namespaces. Raises `ApiError`, `NotServed` or
        `Unreachable`.
        """


class Executes(Protocol):
    """Writes to a cluster, idempotently: one `Request`, carried out with its preconditions and origin label."""

    async def execute(self, request: Request) -> Json | None:
        """Carry out the request. A create whose place is taken by an object with our origin label is adopted (the
        object is returned); otherwise `Foreign`. A delete of something already gone succeeds (None)."""
