"""The cells of `kubectl get` that are computed, not read off a path: ages, a Job's and a Pod's summary.

Pure functions of an object and the present time, worded as `k8s.io/kubernetes/pkg/printers/internalversion` words
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from controlplane.kube.durations import human_duration
from controlplane.kube.kinds import Json, nested

_STEP = re.compile(r"\.([A-Za-z0-9_\-]+)|\[\?\(@\.([A-Za-z0-9_]+)==['\"]([^'\"]*)['\"]\)\]")


def at_path(obj: Any, path: str) -> Any:
    """Return what a JSONPath of steps `.name` and `[?(@.key=='value')]` finds first, or None."""
    for step in _STEP.finditer(path):
        name, key, value = step.groups()
        if name is not None:
            obj = obj.get(name) if isinstance(obj, dict) else None
        else:
            items = obj if isinstance(obj, list) else []
            obj = next((item for item in items if isinstance(item, dict) and item.get(key) == value), None)
        if obj is None:
            return None
    return obj


def parse_time(text: object) -> datetime | None:
    """Return an RFC 3339 time in UTC, or None where there is none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
    except ValueError:
        return None


def age(text: object, now: datetime) -> str:
    """Return how long ago an RFC 3339 time was, or `<unknown>`."""
    then = parse_time(text)
    return human_duration((now - then).total_seconds()) if then else "<unknown>"


def _true_conditions(obj: Json) -> Iterator[str]:
    for condition in (obj.get("status") or {}).get("conditions") or []:
        if condition.get("status") == "True":
            yield condition.get("type", "")


def job_status(obj: Json, _now: datetime) -> str:
    """Return `Complete`, `Failed`, `Suspended`, … as kubectl's STATUS column of a Job."""
    true = set(_true_conditions(obj))
    for condition, word in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if condition in true:
            return word
    if (obj.get("metadata") or {}).get("deletionTimestamp"):
        return "Terminating"
    return (
        "FailureTarget"
        if "FailureTarget" in true
        else "SuccessCriteriaMet"
        if "SuccessCriteriaMet" in true
        else "Running"
    )


def job_completions(obj: Json, _now: datetime) -> str:
    """Return `succeeded/wanted` of a Job."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    succeeded, completions = status.get("succeeded", 0), spec.get("completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = spec.get("parallelism", 1)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def job_duration(obj: Json, now: datetime) -> str:
    """Return how long a Job has run, or ran; empty while it has not started."""
    status = obj.get("status") or {}
    start = parse_time(status.get("startTime"))
    if start is None:
        return ""
    end = parse_time(status.get("completionTime"))
    return human_duration(((end or now) - start).total_seconds())


def pod_ready(obj: Json, _now: datetime) -> str:
    """Return `ready/containers` of a Pod."""
    statuses = (obj.get("status") or {}).get("containerStatuses") or []
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len((obj.get('spec') or {}).get('containers') or [])}"


def pod_status(obj: Json, _now: datetime) -> str:
    """Return one word for how a Pod is: why its containers ended or wait, where that is known, else its phase."""
    status = nested(obj, "status")
    if nested(obj, "metadata").get("deletionTimestamp"):
        return "Terminating"
    gated = ("PodScheduled", "SchedulingGated")
    if any((one.get("type"), one.get("reason")) == gated for one in status.get("conditions") or []):
        return "SchedulingGated"
    for one in status.get("containerStatuses") or []:
        if reason := (nested(one, "state", "waiting") or nested(one, "state", "terminated")).get("reason"):
            return str(reason)
    return str(status.get("reason") or status.get("phase") or "")


def pod_restarts(obj: Json, _now: datetime) -> int:
    """Return the restarts of all containers of a Pod."""
    statuses = (obj.get("status") or {}).get("containerStatuses") or []
    return sum(int(status.get("restartCount", 0)) for status in statuses)


def secret_size(obj: Json, _now: datetime) -> int:
    """Return the number of keys in a Secret or ConfigMap."""
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def event_object(obj: Json, _now: datetime) -> str:
    """Return `kind/name` of what an Event is about."""
    about = obj.get("regarding") or obj.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def event_last_seen(obj: Json, now: datetime) -> str:
    """Return how long ago an Event was last seen, in the field that whoever wrote it has: its series, or one of the
    times."""
    series = nested(obj, "series").get("lastObservedTime")
    for field in (series, *(obj.get(name) for name in _LAST_SEEN)):
        if parse_time(field) is not None:
            return age(field, now)
    return "<unknown>"


_LAST_SEEN = (
    "lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp", "deprecatedFirstTimestamp",
)  # fmt: skip


def event_source(obj: Json, _now: datetime) -> str:
    """Return who wrote an Event."""
    source = nested(obj, "source") or nested(obj, "deprecatedSource")
    return str(source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or "")


def event_count(obj: Json, _now: datetime) -> int:
    """Return how often an Event was seen."""
    return int(nested(obj, "series").get("count") or obj.get("count") or obj.get("deprecatedCount") or 1)


def _containers_of(job: Json) -> list[Json]:
    return list(nested(job, "spec", "template", "spec").get("containers") or [])


def job_containers(obj: Json, _now: datetime) -> str:
    """Return the names of a Job's containers."""
    return ",".join(str(one.get("name", "")) for one in _containers_of(obj))


def job_images(obj: Json, _now: datetime) -> str:
    """Return the images of a Job's containers."""
    return ",".join(str(one.get("image", "")) for one in _containers_of(obj))


def job_selector(obj: Json, _now: datetime) -> str:
    """Return by which labels a Job knows its pods."""
    labels = nested(obj, "spec", "selector").get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def pod_ip(obj: Json, _now: datetime) -> str:
    """Return a Pod's address."""
    return str(nested(obj, "status").get("podIP") or "<none>")


def pod_node(obj: Json, _now: datetime) -> str:
    """Return the node that a Pod is on."""
    return str(nested(obj, "spec").get("nodeName") or "<none>")


def node_status(obj: Json, _now: datetime) -> str:
    """Return whether a Node is ready, and that it is cordoned."""
    word = {"True": "Ready", "False": "NotReady"}.get(
        str(at_path(obj, ".status.conditions[?(@.type=='Ready')].status")), "Unknown"
    )
    return f"{word},SchedulingDisabled" if nested(obj, "spec").get("unschedulable") else word


def node_roles(obj: Json, _now: datetime) -> str:
    """Return the roles of a Node, by its labels."""
    labels = nested(obj, "metadata").get("labels") or {}
    roles = sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE)
    return ",".join(roles) or "<none>"


_ROLE = "node-role.kubernetes.io/"
