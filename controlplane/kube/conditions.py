"""Reads and sets Kubernetes conditions; holds one as an observation has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.kube.fields import items, number, text
from controlplane.kube.kinds import Json
from controlplane.values import Value

MESSAGE_LIMIT = 32 * 1024
REMOTE_LOST = "Admitting remote lost"
"""What the message of MultiKueue's check says, and that of the eviction for it, where a Workload's cluster is lost."""


class Condition(Value, omit_defaults=True, forbid_unknown_fields=True):
    """A Kubernetes condition; `last_transition_time` as the server wrote it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


def conditions_of(status: Json, section: str = "status") -> list[Condition]:
    """Return `status.conditions`, or those of another section; `Misfit` for what is none."""
    where = f"{section}.conditions[]"
    return [
        Condition(
            type=text(item, "type", where),
            status=text(item, "status", where),
            reason=text(item, "reason", where),
            message=text(item, "message", where),
            last_transition_time=text(item, "lastTransitionTime", where),
            observed_generation=number(item, "observedGeneration", where),
        )
        for item in items(status, "conditions", section)
    ]


def condition_json(condition: Condition) -> Json:
    """Return a condition as the API has it."""
    result: Json = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    if condition.observed_generation:
        result["observedGeneration"] = condition.observed_generation
    return result


def condition(obj: Mapping[str, Any], type_: str) -> Json | None:
    """Return a condition of an object, or None."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found["type"] == type_:
            return found  # type: ignore[no-any-return]
    return None


def is_true(obj: Mapping[str, Any], type_: str) -> bool:
    """Return whether an object has a condition with status True."""
    found = condition(obj, type_)
    return found is not None and found["status"] == "True"


def set_condition(
    status: Json, type_: str, value: bool, reason: str, message: str, *, at: str, generation: int = 0
) -> bool:
    """Set a condition in a status; `lastTransitionTime` moves only with the value. Return whether anything changed."""
    message = message[:MESSAGE_LIMIT]
    conditions: list[Json] = list(status.get("conditions") or ())
    made: Json = {"type": type_, "status": "True" if value else "False", "reason": reason, "message": message}
    if generation:
        made["observedGeneration"] = generation
    for index, old in enumerate(conditions):
        if old["type"] != type_:
            continue
        same_value = old["status"] == made["status"]
        made["lastTransitionTime"] = old.get("lastTransitionTime", at) if same_value else at
        if made == old:
            return False
        conditions[index] = made
        break
    else:
        made["lastTransitionTime"] = at
        conditions.append(made)
    status["conditions"] = conditions
    return True


def drop_condition(status: Json, type_: str) -> None:
    """Remove a condition from a status."""
    status["conditions"] = [c for c in status.get("conditions") or () if c["type"] != type_]
