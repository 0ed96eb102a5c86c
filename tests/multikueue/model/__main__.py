"""`python -m tests.multikueue.model [--most STATES] NAME…`: explore configurations, all if none is named, each to so
many states at most."""

from __future__ import annotations

import argparse
import dataclasses
import sys

from tests.candidates.model.explore import explore
from tests.multikueue.model.configs import ALL
from tests.multikueue.model.moves import Moves
from tests.multikueue.model.rules import check, settled


def main(arguments: list[str]) -> int:
    """Explore, print a line each, and the way to a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.multikueue.model")
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args(arguments)
    names: list[str] = given.names
    wanted = [config for config in ALL if not names or config.name in names]
    unknown = set(names) - {config.name for config in ALL}
    if unknown:
        print(f"there is no configuration {', '.join(sorted(unknown))}: {', '.join(config.name for config in ALL)}")
        return 2
    bad = 0
    for config in wanted:
        if given.most:
            config = dataclasses.replace(config, most_states=given.most)
        found = explore(Moves(config), progress=100_000, safe=check, over=settled)
        whole = "" if found.complete else ", not complete"
        counts = f"{found.states} states, {found.edges} edges, {found.ends} ends, depth {found.depth}"
        print(f"{config.name}: {counts}, {found.seconds:.0f} s{whole}", flush=True)
        if found.violation is not None:
            bad += 1
            print(f"  {found.violation}", *found.trace, sep="\n  ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
