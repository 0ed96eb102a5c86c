"""The configurations: those that CI explores, and larger ones for a machine with time."""

from __future__ import annotations

from tests.candidates.model.world import Config, Faults

NONE = Faults(total=0)

CONFIGS = (
    Config("plain", targets=3, faults=NONE),
    Config("fine-2x1", targets=2, faults=Faults(total=1)),
    Config("coarse-3x1", targets=3, coarse=True, faults=Faults(total=1)),
    Config("coarse-3x2", targets=3, coarse=True, faults=Faults(total=2)),
    Config("coarse-2x2", targets=2, coarse=True, faults=Faults(total=2)),
    Config("joint-0", sources=2, targets=3, coarse=True, faults=NONE),
    Config("joint-1", sources=2, targets=3, coarse=True, faults=Faults(total=1)),
)
