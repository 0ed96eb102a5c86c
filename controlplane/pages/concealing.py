"""What of an event is shown to somebody who may not see all namespaces: decisions on quota name Workloads of others.

In: an event, or its fields or a state as plain values, and which namespaces somebody may see. Out: the same without the
names of Workloads in other namespaces; that there are such Workloads is not hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from controlplane.controllers.quota.admission.events import WorkloadInadmissible, WorkloadPreemptionDecided
from controlplane.log.event import Recorded

OTHER = "another Workload"
Sees = Callable[[str], bool]
_replace = msgspec.structs.replace


def as_shown(recorded: Recorded, sees: Sees) -> Recorded:
    """Return an event without the names that are not to be seen."""
    match recorded.event:
        case WorkloadPreemptionDecided() as event if not _seen(event.preemptor, sees):
            return _replace(recorded, event=_replace(event, preemptor=OTHER, preemptor_uid=""))
        case WorkloadInadmissible() as event if event.victims:
            return _replace(recorded, event=_replace(event, victims=_named(event.victims, sees)))
    return recorded


def plain_as_shown(value: Any, sees: Sees) -> Any:
    """Return plain values of events, or of a state that they made, without the names that are not to be seen."""
    if isinstance(value, list):
        return [plain_as_shown(one, sees) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: plain_as_shown(one, sees) for key, one in value.items()}
    if isinstance(by := found.get("preemptor"), str) and not _seen(by, sees):
        found |= {"preemptor": OTHER, "preemptor_uid": ""}
    if isinstance(victims := found.get("victims"), list):
        found["victims"] = _named([str(one) for one in victims], sees)
    return found


def _named(names: list[str], sees: Sees) -> list[str]:
    return [one if _seen(one, sees) else OTHER for one in names]


def _seen(name: str, sees: Sees) -> bool:
    """Whether a Workload, NAMESPACE/NAME with or without more, may be named."""
    return name == OTHER or sees(name.partition("/")[0])
