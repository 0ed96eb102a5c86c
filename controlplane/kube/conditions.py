"""Holds a Kubernetes condition as an observation has it."""

from __future__ import annotations

from controlplane.values import Value


class Condition(Value, omit_defaults=True, forbid_unknown_fields=True):
    """A Kubernetes condition; `last_transition_time` as the server wrote it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0
