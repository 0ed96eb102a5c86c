"""What is explored target by target: `python -m tests.candidates.model.any_sources [NAME ...]`; without a name, a list.

Each configuration stands for any number of sources and every interleaving. A run has no fault, or one of the kind in
the name, which any of the sources may have."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from tests.candidates.model.modular import prove
from tests.candidates.model.world import EVEN, EVEN_WAITS, KINDS, Config, Faults

SLOW = ("timeouts", "lost_pods", "ticks", "away", "removals", "silent", "forbidden")
"""The faults after which most can follow."""
IDLE, ANSWER = ("silent", "forbidden"), 8
"""The faults of targets that do not do their part, and for how many seconds an answer is waited for where they may
happen."""
ALL = Faults(total=2, removals=1, away=1)


def alone(name: str, **fields: Any) -> Config:
    """Return a configuration with every interleaving, and with the clock of this exploration."""
    return Config(name, clock=EVEN, placement=EVEN_WAITS, deviations=None, **fields)


def placing(name: str, **fields: Any) -> Config:
    """Return one in which only what places the pod is explored, not what it shows."""
    return alone(f"placing-{name}", placing=True, **fields)


def one_fault(make: Callable[..., Config], kind: str, targets: int) -> Config:
    """Return a configuration with one fault of a kind."""
    answer = ANSWER if kind in IDLE else 0
    return make(f"{kind}-{NUMBERS[targets]}", targets=targets, faults=Faults.only(kind), answer=answer)


NUMBERS = ("", "one-target", "two-targets", "three-targets")
CI = (
    alone("no-fault", targets=3, faults=Faults(total=0)),
    *(one_fault(alone, kind, 2) for kind in KINDS if kind not in SLOW),
    *(one_fault(alone, kind, 1) for kind in ("timeouts", "lost_pods", "removals")),
    *(one_fault(placing, kind, 3) for kind in KINDS if kind not in SLOW),
    *(one_fault(placing, kind, 2) for kind in ("timeouts", "lost_pods", "removals")),
    *(one_fault(placing, kind, 1) for kind in ("ticks", "away")),
    *(one_fault(make, kind, 1) for kind in IDLE for make in (alone, placing)),
    *(one_fault(placing, kind, 2) for kind in IDLE),
)
OTHERS = (
    alone("uninvited", targets=2, faults=Faults(total=0), uninvited=(0,)),
    alone("never-twice-timeouts", targets=1, faults=Faults.only("timeouts"), execution=NEVER_TWICE),
    alone("never-twice-ticks", targets=1, faults=Faults.only("ticks"), execution=NEVER_TWICE),
    alone("life-lost_pods", targets=1, faults=Faults.only("lost_pods"), life=True),
)
LARGE = (
    *(one_fault(alone, kind, 3) for kind in KINDS if kind not in SLOW),
    *(one_fault(alone, kind, 2) for kind in SLOW),
    one_fault(alone, "timeouts", 3),
    one_fault(alone, "forbidden", 3),
    one_fault(alone, "ticks", 1),
    *(one_fault(placing, kind, 3) for kind in SLOW),
    *(
        placing(
            f"{kind}-three-targets-never-twice",
            targets=3,
            faults=Faults.only(kind),
            execution=NEVER_TWICE,
            answer=ANSWER if kind in IDLE else 0,
        )
        for kind in KINDS
    ),
    placing("two-faults-one-target", targets=1, faults=ALL, epochs=3),
    placing("two-faults-two-targets", targets=2, faults=ALL, epochs=3),
    placing("two-faults-three-targets", targets=3, faults=ALL, epochs=3),
)
CONFIGS = (*CI, *OTHERS, *LARGE)


def main(names: list[str]) -> int:
    """Explore the configurations of some names, and print a line of the table for each."""
    known = {config.name: config for config in CONFIGS}
    if not names:
        for config in CONFIGS:
            print(f"{config.name}: {config.targets} targets")
        return 0
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f'there is no configuration "{unknown[0]}": without a name, all are listed')
    bad = 0
    for name in names:
        found = prove(known[name])
        print(
            f"| {name} | {found.config.targets} | {found.controls:,} | {found.pairs:,} | {found.steps:,} | "
            f"{found.ends:,} | {found.seconds:.1f} s ({found.cpu:.1f} s) | {found.violation or 'holds'} |",
            flush=True,
        )
        if found.violation is not None:
            print("   ", found.where)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
