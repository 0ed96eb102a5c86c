"""What of an event is shown to somebody who may not see all namespaces: decisions on quota name Workloads of others,
and those of a scheduler name their pods.

In: an event, or its fields or a state as plain values, and which namespaces somebody may see. Out: the same without the
names of Workloads and pods in other namespaces; that there are such is not hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from controlplane.controllers.quota.admission.events import WorkloadInadmissible, WorkloadPreemptionDecided
from controlplane.controllers.scheduling.events import (
    NodeReserved,
    ReservationDropped,
    SchedulingFailed,
    VictimChosen,
    Woken,
)
from controlplane.log.event import Recorded

OTHER = "another Workload"
OTHER_POD = "of another namespace"
"""What stands in the place of a pod's name, after the word "pod"."""
_BY_POD = "preempted by pod "
Sees = Callable[[str], bool]
_replace = msgspec.structs.replace


def as_shown(recorded: Recorded, sees: Sees) -> Recorded:
    """Return an event without the names that are not to be seen."""
    match recorded.event:
        case WorkloadPreemptionDecided() as event if not _seen(event.preemptor, sees):
            return _replace(recorded, event=_replace(event, preemptor=OTHER, preemptor_uid=""))
        case WorkloadInadmissible() as event if event.victims:
            return _replace(recorded, event=_replace(event, victims=_named(event.victims, sees)))
        case VictimChosen() as event if not _seen(event.preemptor, sees):
            return _replace(recorded, event=_replace(event, preemptor=OTHER_POD, preemptor_uid=""))
        case NodeReserved(woken=Woken() as woken) | SchedulingFailed(woken=Woken() as woken) if not _may_wake(
            woken.name, sees
        ):
            return _replace(recorded, event=_replace(recorded.event, woken=_replace(woken, name="")))
        case ReservationDropped() as event:
            return _replace(recorded, event=_replace(event, message=_message(event.message, sees)))
    return recorded


def plain_as_shown(value: Any, sees: Sees) -> Any:
    """Return plain values of events, or of a state that they made, without the names that are not to be seen."""
    if isinstance(value, list):
        return [plain_as_shown(one, sees) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: plain_as_shown(one, sees) for key, one in value.items()}
    if isinstance(by := found.get("preemptor"), str) and not _seen(by, sees):
        found |= {"preemptor": OTHER_POD if "scheduler" in found else OTHER, "preemptor_uid": ""}
    if isinstance(victims := found.get("victims"), list):
        found["victims"] = _named([str(one) for one in victims], sees)
    if isinstance(woken := found.get("woken"), dict) and not _may_wake(str(woken.get("name", "")), sees):
        found["woken"] = {**woken, "name": ""}
    if isinstance(message := found.get("message"), str):
        found["message"] = _message(message, sees)
    return found


def _named(names: list[str], sees: Sees) -> list[str]:
    return [one if _seen(one, sees) else OTHER for one in names]


def _seen(name: str, sees: Sees) -> bool:
    """Whether a Workload or a pod, NAMESPACE/NAME with or without more, may be named."""
    return name in (OTHER, OTHER_POD) or sees(name.partition("/")[0])


def _may_wake(name: str, sees: Sees) -> bool:
    """Whether an object may be named to which something happened: one without a namespace may."""
    return "/" not in name or _seen(name, sees)


def _message(message: str, sees: Sees) -> str:
    """Return why a reservation was given up, without the name of a pod that is not to be seen."""
    by = message.removeprefix(_BY_POD)
    return message if by == message or _seen(by, sees) else f"{_BY_POD}{OTHER_POD}"
