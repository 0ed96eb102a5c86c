"""The configurations: those that CI explores, and larger ones for a machine with time."""

from __future__ import annotations

from tests.candidates.model.world import Config, Faults

NONE = Faults(total=0)

CONFIGS = (
    Config("plain", targets=3, faults=NONE),
    Config("one", targets=2, faults=Faults(total=1)),
)
