"""What is known of our copies in a namespace of a target, and which writes to them are open.

In: events of `copies/CLUSTER/NS`, folded by the controller. Out: a value. Here because a snapshot has it, too."""

from __future__ import annotations

from controlplane.controllers.candidates.references.events import CopyObserved
from controlplane.controllers.candidates.source.events import CandidateWrite
from controlplane.runtime.writes import OpenWrites, WriteFailure, says_no


class TargetNamespace(OpenWrites[CandidateWrite, WriteFailure]):
    """What is known of a namespace of a target. `restored`: there may be copies that the log does not know: since there
    were some, the target went back to a backup, or a candidate is there that a log which is lost had asked for.
    `kinds`: those of which there were copies, or may be.
    """

    version: int = 0
    position: int = 0
    copies: dict[str, CopyObserved] = {}
    restored: bool = False
    kinds: frozenset[str] = frozenset()

    def concerns(self, target: str) -> bool:
        """Whether there is a copy of an object, or may be."""
        failure = self.trouble.get(target)
        return target in self.copies or target in self.effects or (failure is not None and not says_no(failure))

    @property
    def may_hold_copies(self) -> bool:
        """Whether there are copies, or may be: of a write that failed without a no nobody knows whether it was carried
        out."""
        unclear = not all(map(says_no, self.trouble.values()))
        return bool(self.copies or self.effects or self.restored or unclear)
