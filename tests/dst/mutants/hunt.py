"""What the deliberate bugs of all scenes have in common: how a seed that finds one is looked for, and the page that
shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.run import Outcome
from controlplane.dst.play import play
from controlplane.log.event import Append
from controlplane.log.memory import MemoryLog

PAGE = Path(__file__).resolve().parents[3] / "docs/explanation/simulation.md"


Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    """A bug, and the first seed that finds it, by which rule; of which edition of plans. Or the scene by hand that
    does, where no seed is known.
    """

    what: str
    patch: Patch
    seed: int
    rule: str
    edition: int = 2
    scene: Plan | None = None

    @property
    def where(self) -> str:
        """How the page says what finds it."""
        return str(self.seed) if self.scene is None else "a scene of its own"


def first_of(patch: Patch, seeds: Iterable[int], plan_of: Callable[[int], Plan]) -> tuple[int, Outcome] | None:
    """Return the first seed that a bug breaks and that holds without it."""
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patched:
            patch(patched)
            outcome = play(plan_of(seed))
        if outcome.violation is not None and play(plan_of(seed)).violation is None:
            return seed, outcome
    return None


def shown(where: str) -> list[tuple[str, ...]]:
    """Return the rows of the page whose last column is a pattern: name, bug, rule, and where it is found."""
    return re.findall(rf"^\| `([a-z0-9-]+)` \| (.+?) \| (.+?) \| {where} \|$", PAGE.read_text(), re.MULTILINE)


def the_epoch_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    append, renew = MemoryLog.append, MemoryLog.renew

    async def any_append(self: MemoryLog, request: Append) -> int:
        self._epoch, self._holder = self._store.epoch, self._store.holder
        return await append(self, request)

    async def any_renew(self: MemoryLog, *, resign: bool = False) -> None:
        self._epoch, self._holder = self._store.epoch, self._store.holder
        await renew(self, resign=resign)

    patch.setattr(MemoryLog, "append", any_append)
    patch.setattr(MemoryLog, "renew", any_renew)
