"""What is explored target by target: `python -m tests.candidates.model.any_sources [NAME ...]`; without a name, a list.

Each configuration stands for any number of sources and every interleaving. A run has no fault, or one of the kind in the name, which any of
the sources may have.
"""

from __future__ import annotations

import sys
from typing import Any

from controlplane.candidates.policy import NEVER_TWICE
from tests.candidates.model.modular import prove
from tests.candidates.model.world import EVEN, EVEN_WAITS, KINDS, Config, Faults

SLOW = ("timeouts", "frozen", "lost_pods", "ticks")
"""The faults after which most can follow."""


def alone(name: str, **fields: Any) -> Config:
    """Return a configuration with every interleaving, and with the clock of this exploration."""
    return Config(name, clock=EVEN, placement=EVEN_WAITS, deviations=None, **fields)


CI = (
    alone("no-fault", targets=3, faults=Faults(total=0)),
    *(alone(f"{kind}-two-targets", targets=2, faults=Faults.only(kind)) for kind in KINDS if kind not in SLOW),
    *(alone(f"{kind}-one-target", targets=1, faults=Faults.only(kind)) for kind in SLOW[:3]),
)
OTHERS = (
    alone("uninvited", targets=2, faults=Faults(total=0), uninvited=(0,)),
    alone("never-twice-timeouts", targets=1, faults=Faults.only("timeouts"), execution=NEVER_TWICE),
    alone("never-twice-ticks", targets=1, faults=Faults.only("ticks"), execution=NEVER_TWICE),
    alone("life-lost_pods", targets=1, faults=Faults.only("lost_pods"), life=True),
)
LARGE = (
    *(alone(f"{kind}-three-targets", targets=3, faults=Faults.only(kind)) for kind in KINDS if kind not in SLOW),
    *(alone(f"{kind}-two-targets", targets=2, faults=Faults.only(kind)) for kind in SLOW),
    *(alone(f"{kind}-three-targets", targets=3, faults=Faults.only(kind)) for kind in SLOW),
    alone("ticks-one-target", targets=1, faults=Faults.only("ticks")),
)
CONFIGS = (*CI, *OTHERS, *LARGE)


def main(names: list[str]) -> int:
    """Explore the configurations of some names, and print a line of the table for each."""
    known = {config.name: config for config in CONFIGS}
    if not names:
        for config in CONFIGS:
            print(f"{config.name}: {config.targets} targets")
        return 0
    bad = 0
    for name in names:
        found = prove(known[name])
        print(
            f"| {name} | {found.config.targets} | {found.controls:,} | {found.pairs:,} | {found.steps:,} | {found.ends:,} | "
            f"{found.seconds:.1f} s ({found.cpu:.1f} s) | {found.violation or 'holds'} |",
            flush=True,
        )
        if found.violation is not None:
            print("   ", found.where)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
