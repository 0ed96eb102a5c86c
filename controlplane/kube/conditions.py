"""Holds a Kubernetes condition as an observation has it."""

from __future__ import annotations

import msgspec


class Condition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A Kubernetes condition; `last_transition_time` as the server wrote it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0
