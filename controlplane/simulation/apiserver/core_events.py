"""One Event, two versions: what is stored as events.k8s.io/v1 is shown as core/v1 too, and the other way round.

In and out: Event objects. `kubectl describe` reads core/v1, controllers write either. The fields are paired as in
`k8s.io/kubernetes/pkg/apis/events/v1/conversion.go`.
"""

from __future__ import annotations

from controlplane.kube.kinds import EVENTS, Json
from controlplane.simulation.kinds.base import CORE_EVENTS

# core/v1 → events.k8s.io/v1
_PAIRS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_BACK = {new: old for old, new in _PAIRS.items()}


def to_stored(event: Json) -> Json:
    """Return a core/v1 Event as events.k8s.io/v1."""
    return {_PAIRS.get(key, key): value for key, value in event.items()} | {"apiVersion": EVENTS.api_version}


def to_core(event: Json) -> Json:
    """Return an events.k8s.io/v1 Event as core/v1."""
    return {_BACK.get(key, key): value for key, value in event.items()} | {"apiVersion": CORE_EVENTS.api_version}
