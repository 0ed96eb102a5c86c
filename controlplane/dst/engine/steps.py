"""A step of a plan: the words in which plans are drawn, played, spelled and told."""

from __future__ import annotations

from dataclasses import dataclass

HORIZON = 300.0  # virtual seconds in which steps begin
UNFIT = "unfit"  # jobs whose names begin so cannot be dispatched
NEVER_TWICE = "once"  # jobs whose names begin so ask for the execution policy never-twice


@dataclass(frozen=True, slots=True)
class Step:
    """One step: when it begins, what it is, where (a cluster, a replica, a job), for how many seconds, a number with
    its own meaning.
    """

    number: int
    at: float
    kind: str
    where: str = ""
    seconds: float = 0.0
    value: int = 0

    def __str__(self) -> str:
        more = [
            self.where,
            f"for {self.seconds:.0f} s" if self.seconds else "",
            f"({self.value})" if self.value else "",
        ]
        return " ".join([f"{self.number}: at {self.at:.1f} s {self.kind}", *(part for part in more if part)])
