"""The condition on a PodGroup that says what was odd on the way to its owner: what it has to say, and what it says.

In: warnings, or a group as it was seen. Out: status, reason and message; all empty if there is nothing to say."""

from __future__ import annotations

from controlplane.controllers.podgroups.events import GroupObserved
from controlplane.controllers.podgroups.ownership import Warned

CONDITION = "OwnerResolved"
LONGEST_NOTE = 1000
Condition = tuple[str, str, str]


def wanted_condition(warnings: list[Warned]) -> Condition:
    """Return status, reason and message of the condition by the warnings about a group's members."""
    if not warnings:
        return "", "", ""
    message = "; ".join(str(one) for one in warnings)
    return "False", str(warnings[0].oddity), message[:LONGEST_NOTE]


def shown_condition(seen: GroupObserved) -> Condition:
    """Return the condition as the group shows it."""
    entry = next((one for one in seen.conditions if one.get("type") == CONDITION), None)
    if entry is None:
        return "", "", ""
    return str(entry.get("status", "")), str(entry.get("reason", "")), str(entry.get("message", ""))
