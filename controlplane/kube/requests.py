"""Pieces of requests that every controller makes alike: an Event about a decision, the body of a merge patch, a time as
Kubernetes writes it.

In: what is to be said, and the time. Out: JSON, or a whole request. Pure; which Event is worth sending, and what is to
be patched, is each controller's own rule."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from controlplane.kube.kinds import EVENTS, Json, ObjectRef, Request, event_name

_NOTE_LIMIT, _INSTANCE_LIMIT = 1024, 128  # bytes; the API server's own


_LAST = datetime.max.replace(microsecond=0, tzinfo=UTC)


class Obsolete(Exception):  # noqa: N818
    """What the write was based on is no longer there; the state will bring another decision, or none."""


def body_in(bodies: Mapping[str, bytes], ref: str) -> Json:
    """Return a body as JSON; `Obsolete` if the log does not have it any more."""
    found = bodies.get(ref)
    if found is None:
        raise Obsolete(f"the body {ref[:12]} is not in the log any more")
    body: Json = msgspec.json.decode(found, type=dict)
    return body


def event_about(
    regarding: ObjectRef,
    uid: str,
    kind: str,
    reason: str,
    note: str,
    suffix: str,
    identity: str,
    now: datetime,
    *,
    action: str = "",
    controller: str = "controlplane",
) -> Request:
    """Return the creation of an Event of type `kind` (Normal, Warning) on an object; `action` is the reason, if nothing
    else is said.

    `suffix` makes its name, and with it the Event, one of a kind: sent twice, the second is refused.
    """
    namespace = regarding.namespace or "default"
    digest = hashlib.sha256(f"{uid}/{reason}/{suffix}".encode()).hexdigest()[:16]
    name = event_name(regarding.name, digest)
    body: Json = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"namespace": namespace, "name": name},
        "eventTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": kind,
        "reason": reason,
        "action": action or reason,
        "note": truncated(note, _NOTE_LIMIT),
        "reportingController": controller,
        "reportingInstance": identity[:_INSTANCE_LIMIT],
        "regarding": {
            "apiVersion": regarding.kind.api_version,
            "kind": regarding.kind.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": uid,
        },
    }
    return Request("create", ObjectRef(EVENTS, namespace, name), body)


def truncated(message: str, limit: int) -> str:
    """Return a message that fits into so many bytes, as Kueue cuts it: an API server refuses one that is longer."""
    encoded = message.encode()
    return message if len(encoded) <= limit else f"{encoded[: limit - 4].decode(errors='ignore')} ..."


def merge_diff(current: Json, wanted: Json) -> Json:
    """Return the JSON merge patch (RFC 7386) that turns one object into another: what is not wanted any more becomes
    null.
    """
    patch: Json = {key: None for key in current if key not in wanted}
    for key, value in wanted.items():
        before = current.get(key)
        if value == before and key in current:
            continue
        patch[key] = merge_diff(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return patch


def timestamp(now: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def later(since: datetime, seconds: float) -> datetime:
    """Return the moment some seconds after another one, the last that there is if it would be after that: an object may
    name both."""
    try:
        return since + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST
