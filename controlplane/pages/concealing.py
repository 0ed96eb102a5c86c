"""What of an event is shown to somebody who may not see all namespaces: decisions on quota name Workloads of others,
and those of a scheduler name their pods.

In: an event, or its fields or a state as plain values, and which namespaces somebody may see. Out: the same without the
names of Workloads and pods in other namespaces; that there are such is not hidden. It goes by the names of the fields:
a test knows every event that has one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from controlplane.log.event import Recorded

OTHER = "another Workload"
OTHER_POD = "of another namespace"
"""What stands in the place of a pod's name, after the word "pod"."""
NAMING = ("preemptor", "preemptor_uid", "victims", "woken")
"""The fields that name others; a message may, too."""
_BY_POD = "preempted by pod "
Sees = Callable[[str], bool]
_replace = msgspec.structs.replace


def as_shown(recorded: Recorded, sees: Sees) -> Recorded:
    """Return an event without the names that are not to be seen."""
    event = recorded.event
    fields = [name for name in (*NAMING, "message", "scheduler") if name in event.__struct_fields__]
    changed = _concealed({name: getattr(event, name) for name in fields}, sees)
    return _replace(recorded, event=_replace(event, **changed)) if changed else recorded


def plain_as_shown(value: Any, sees: Sees) -> Any:
    """Return plain values of events, or of a state that they made, without the names that are not to be seen."""
    if isinstance(value, list):
        return [plain_as_shown(one, sees) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: plain_as_shown(one, sees) for key, one in value.items()}
    return {**found, **_concealed(found, sees)}


def _concealed(fields: dict[str, Any], sees: Sees) -> dict[str, Any]:
    """Return those of some fields that name somebody who is not to be seen, as they are shown."""
    shown = dict(fields)
    if not _seen(str(fields.get("preemptor") or OTHER), sees):
        shown |= {"preemptor": OTHER_POD if "scheduler" in fields else OTHER, "preemptor_uid": ""}
    if victims := fields.get("victims"):
        shown["victims"] = [one if _seen(str(one), sees) else OTHER for one in victims]
    if woken := fields.get("woken"):
        shown["woken"] = _woken(woken, sees)
    _, by_pod, name = str(fields.get("message", "")).partition(_BY_POD)
    if by_pod and not _seen(name, sees):
        shown["message"] = f"{_BY_POD}{OTHER_POD}"
    return {name: value for name, value in shown.items() if value != fields.get(name, "")}


def _seen(name: str, sees: Sees) -> bool:
    """Whether a Workload or a pod, NAMESPACE/NAME with or without more, may be named."""
    return name in (OTHER, OTHER_POD) or sees(name.partition("/")[0])


def _woken(woken: Any, sees: Sees) -> Any:
    """Return to what something happened, without the name of one in a namespace that is not to be seen."""
    name = str(woken.get("name", "") if isinstance(woken, dict) else woken.name)
    if "/" not in name or _seen(name, sees):
        return woken
    return {**woken, "name": ""} if isinstance(woken, dict) else _replace(woken, name="")
