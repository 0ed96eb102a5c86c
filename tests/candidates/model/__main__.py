"""Explore from the command line: `python -m tests.candidates.model [NAME ...]`; without a name, list the
configurations.
"""

from __future__ import annotations

import sys

from tests.candidates.model import gang_rules
from tests.candidates.model.configs import CONFIGS, GANGS
from tests.candidates.model.explore import Result, explore
from tests.candidates.model.gang_moves import GangMoves
from tests.candidates.model.gang_world import GangConfig
from tests.candidates.model.moves import Moves
from tests.candidates.model.world import Config


def explored(config: Config) -> Result:
    if isinstance(config, GangConfig):
        return explore(GangMoves(config), progress=100_000, safe=gang_rules.check, over=gang_rules.settled)
    return explore(Moves(config), progress=100_000)


def main(names: list[str]) -> int:
    known = {config.name: config for config in (*CONFIGS, *GANGS)}
    if not names:
        for config in known.values():
            print(f"{config.name}: {config.sources} sources, {config.targets} targets, {config.faults}")
        return 0
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f'there is no configuration "{unknown[0]}": without a name, all are listed')
    bad = 0
    for name in names:
        found = explored(known[name])
        print(
            f"| {name} | {found.states:,} | {found.edges:,} | {found.depth} | {found.ends:,} | "
            f"{found.seconds:.1f} s | {found.violation or ('holds' if found.complete else 'holds as far as seen')} |"
        )
        for step in found.trace:
            print("   ", step)
        bad += found.violation is not None
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
