"""The configurations: those that CI explores, and larger ones for a machine with time."""

from __future__ import annotations

from dataclasses import replace

from controlplane.controllers.candidates.source.policy import NEVER_TWICE, PlacementPolicy
from tests.candidates.model.gang_world import GangConfig
from tests.candidates.model.world import Config, Faults

NONE = Faults(total=0)
TWO = Faults(total=2)
IDLE = replace(Faults.only("silent"), forbidden=1)
APART = PlacementPolicy(max_skew=1)

CI = (
    Config("one-source", targets=3, deviations=1),
    Config("two-faults", targets=2, deviations=0, faults=TWO),
    Config("interleaved", targets=2, deviations=3),
    Config("never-twice", targets=2, deviations=0, faults=TWO, execution=NEVER_TWICE),
    Config("preemption", targets=2, deviations=1, preempt=(0, 1)),
    Config("uninvited", targets=3, deviations=1, uninvited=(0,)),
    Config("life", targets=2, deviations=1, life=True),
    Config("two-sources", sources=2, targets=3, coarse=True, deviations=1),
    Config("contended", sources=2, targets=1, coarse=True, deviations=2),
    # A target does not do its part, for ever: its scheduler is down, or its API server lets no Pod be made.
    Config("idle", targets=2, deviations=1, faults=IDLE, answer=6),
    Config("idle-one-target", targets=1, deviations=2, faults=IDLE, answer=6),
    Config("idle-preemption", targets=2, deviations=0, faults=IDLE, answer=6, preempt=(0, 1)),
    Config("idle-never-twice", targets=2, deviations=1, faults=IDLE, answer=6, execution=NEVER_TWICE),
    Config("idle-spread", targets=2, deviations=1, faults=IDLE, answer=6, elsewhere=(1, 0), placement=APART),
)
LARGE = (
    Config("two-faults-interleaved", targets=2, deviations=1, faults=TWO),
    Config("never-twice-interleaved", targets=2, deviations=1, faults=TWO, execution=NEVER_TWICE),
    Config("preemption-two-faults", targets=2, deviations=1, faults=TWO, preempt=(0, 1)),
    Config("life-two-faults", targets=2, deviations=1, life=True, faults=TWO),
    Config("contended-two-faults", sources=2, targets=1, coarse=True, deviations=2, faults=TWO),
    Config("plain", targets=3, faults=NONE),
    Config("plain-two-targets", targets=2, faults=Faults(total=1), most_states=6_000_000),
    Config("one-source-two-faults", targets=3, deviations=1, faults=TWO),
    Config("one-source-three-faults", targets=2, deviations=1, faults=Faults(total=3)),
    Config("two-sources-two-faults", sources=2, targets=3, coarse=True, deviations=1, faults=TWO),
    Config("idle-two-faults", targets=2, deviations=0, faults=replace(TWO, silent=1, forbidden=1), answer=6),
    Config("idle-three-targets", targets=3, deviations=0, faults=IDLE, answer=6),
    Config("two-sources-fine", sources=2, targets=3, deviations=1),
)
CONFIGS = (*CI, *LARGE)

# A gang of two over two targets. `apart`: their schedulers know no gangs, and one has room for one.
GANGS_CI = (
    GangConfig("gang", deviations=0),
    GangConfig("gang-apart", deviations=0, together=False, room=(1, 2)),
    GangConfig("gang-never-twice", deviations=0, execution=NEVER_TWICE),
    GangConfig("gang-interleaved", deviations=2, faults=NONE, together=False, room=(1, 2)),
)
GANGS_LARGE = (
    GangConfig("gang-plain", faults=NONE),
    GangConfig("gang-apart-plain", faults=NONE, together=False, room=(1, 2)),
    GangConfig("gang-two-faults", deviations=0, faults=TWO),
    GangConfig("gang-apart-two-faults", deviations=0, faults=TWO, together=False),
    GangConfig("gang-apart-one-fault-interleaved", deviations=1, together=False),
)
GANGS = (*GANGS_CI, *GANGS_LARGE)
