"""Ten seeds of each scene are played as they were: a change of the shape of the code changes nothing that happens.

Who changes what happens on purpose writes the file anew: `python -m tests.interface.test_digests`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.dst.play import SCENES, plan_of, play
from tests.support.deep import deep_but

FILE = Path(__file__).parent / "digests.json"
SEEDS = range(1, 11)
#: The seed of each scene that takes the fewest steps.
BRIEF = {"workloads": 1, "admission": 10, "candidates": 1, "local": 3}


def digest(scene: str, seed: int) -> dict[str, Any]:
    outcome = play(plan_of(seed, scene=scene, edition=3)).brief()
    assert outcome.violation is None
    return {"digest": outcome.digest[:16], "events": outcome.events, "steps": outcome.steps}


@pytest.mark.parametrize(("scene", "seed"), deep_but(BRIEF.items(), [(one, seed) for one in SCENES for seed in SEEDS]))
def test_a_seed_is_played_as_it_was(scene: str, seed: int) -> None:
    assert digest(scene, seed) == json.loads(FILE.read_text())[scene][str(seed)]


if __name__ == "__main__":
    found = {scene: {str(seed): digest(scene, seed) for seed in SEEDS} for scene in SCENES}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
