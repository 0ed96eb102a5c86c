"""The Kubernetes Event that tells of a decision about a pod.

In: what it is about, and a mark that makes it one of a kind. Out: the request that creates it. Sent twice, the second is refused by its
name.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from controlplane.candidates.events import SourcePodObserved, StatusShown
from controlplane.candidates.status import FOLLOWED
from controlplane.kube import EVENTS, Json, ObjectRef, Request, event_name

_NOTE_LIMIT = 1024


def news(pod: SourcePodObserved, decision: StatusShown) -> tuple[str, str, str] | None:
    """Return type, reason and note of the Event that a status is worth; None if the pod shows already what is new in it."""
    shown = {entry.type: entry.message for entry in pod.conditions}
    if shown.get("PodScheduled") != decision.message:
        good = bool(decision.source) and not decision.failed
        reason = "Scheduled" if good else "DelegateLost" if decision.failed else "FailedScheduling"
        return "Normal" if good else "Warning", reason, f"{decision.reason}: {decision.message}"
    if decision.obstacles and shown.get(FOLLOWED) != decision.obstacles:
        return "Warning", "NotFollowed", decision.obstacles
    return None


def event_about(
    regarding: ObjectRef, uid: str, kind: str, reason: str, note: str, mark: str, identity: str, now: datetime
) -> Request:
    """Return the creation of an Event of type `kind` (Normal, Warning) on an object."""
    note = note if len(note) <= _NOTE_LIMIT else f"{note[: _NOTE_LIMIT - 4]} ..."
    suffix = hashlib.sha256(f"{uid}/{reason}/{mark}".encode()).hexdigest()[:16]
    body: Json = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"namespace": regarding.namespace, "name": event_name(regarding.name, suffix)},
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": kind,
        "reason": reason,
        "action": reason,
        "note": note,
        "reportingController": "controlplane",
        "reportingInstance": identity[:128],
        "regarding": {
            "apiVersion": regarding.kind.api_version,
            "kind": regarding.kind.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": uid,
        },
    }
    return Request("create", ObjectRef(EVENTS, regarding.namespace, str(body["metadata"]["name"])), body)
