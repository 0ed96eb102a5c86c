"""What an event of the log is, for lists, where the columns beside it tell when, where and why.

In: an event of the log, known or not. Out: its type, its reason, its fields, and one short line, which its controller's
manifest has. The phrases about Workloads and jobs are those of the view `audit.workload_timeline`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.controllers.manifests import EVERY
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.runtime.manifest import Vocabulary

vocabulary = Vocabulary(EVERY)
what = vocabulary.what
"""Return what an event says, in a few words; of an unknown one its type."""


def type_of(recorded: Recorded) -> str:
    """Return the name of an event's type, also of one that this version does not know."""
    event = recorded.event
    return event.type if isinstance(event, Unknown) else type(event).__name__


def reason_of(recorded: Recorded) -> str:
    """Return the reason that the log has in its column: of decisions and of failures; "" elsewhere."""
    event = recorded.event
    if isinstance(event, Unknown):
        return str(fields_of(event).get("reason", ""))
    return str(getattr(event, "reason", ""))


def fields_of(event: Event | Unknown) -> dict[str, Any]:
    """Return an event's fields as plain values; one that has its default is left out."""
    if not isinstance(event, Unknown):
        fields: dict[str, Any] = msgspec.to_builtins(event)
        return fields
    found = msgspec.json.decode(event.data)
    return found if isinstance(found, dict) else {"data": found}
