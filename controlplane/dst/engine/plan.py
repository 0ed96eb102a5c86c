"""What is to happen in a run, in advance: a numbered list of steps, of any scene.

A plan with some steps left out is again a plan, which is how a failure is made smaller; `spell` and `chosen` are the
two directions of `--steps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from controlplane.dst.engine.steps import Step

EDITIONS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
EDITION = EDITIONS[-1]


@dataclass(frozen=True, slots=True)
class Plan:
    """A run in advance. `quotas` is CPUs by cluster, `replicas` how many processes compete for the lead, `size` how
    many steps it had when it was drawn. `scene` is what is played ("": Workloads over clusters), `traits` what else
    that scene was drawn with."""

    seed: int
    quotas: dict[str, int]
    replicas: int
    steps: tuple[Step, ...]
    size: int = 0
    edition: int = EDITION
    scene: str = field(default="", repr=False)  # unseen by the checksum of the first edition, which has none
    traits: tuple[str, ...] = field(default=(), repr=False)

    def only(self, numbers: Iterable[int]) -> Plan:
        """Return the plan with only these steps."""
        kept = set(numbers)
        return replace(self, steps=tuple(step for step in self.steps if step.number in kept))

    @property
    def numbers(self) -> list[int]:
        """The numbers of the steps."""
        return [step.number for step in self.steps]


def spell(numbers: Sequence[int]) -> str:
    """Return step numbers as `--steps` takes them: `1,4-6`."""
    parts: list[str] = []
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ",".join(parts)


def chosen(text: str) -> list[int]:
    """Return the step numbers that a text like `1,4-6` names; ValueError if it is none."""
    numbers: list[int] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        first, dash, last = part.partition("-")
        numbers += range(int(first), int(last) + 1) if dash else [int(first)]
    return numbers
