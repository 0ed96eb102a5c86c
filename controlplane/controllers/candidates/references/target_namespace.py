"""What is known of our copies in a namespace of a target, and which writes to them are open.

In: events of `copies/CLUSTER/NS`. Out: a value, which a snapshot has too. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.candidates.references.events import CopyDecided, CopyGone, CopyObserved
from controlplane.controllers.candidates.references.ours import Written
from controlplane.controllers.candidates.source.events import (
    CandidateWrite,
    CandidateWriteFailed,
    CandidateWriteUnneeded,
)
from controlplane.log.event import Recorded
from controlplane.runtime.writes import OpenWrites, WriteFailure, closed, is_late, opened, refused, says_no, without

_replace = msgspec.structs.replace

ARRIVES_WITHIN = timedelta(minutes=5)
"""How long a request may take to arrive that was sent again before it had an answer: thirty seconds until its client
gives it up (`Timeouts.request` of the transport), some two minutes for which a connection that was closed still
delivers what is on its way (Linux, `tcp_orphan_retries`), and one for which an API server carries it out
(`--request-timeout`)."""


class TargetNamespace(OpenWrites[CandidateWrite, WriteFailure]):
    """What is known of a namespace of a target. `restored`: there may be copies that the log does not know: since there
    were some, the target went back to a backup, or a candidate is there that a log which is lost had asked for.
    `kinds`: those of which there were copies, or may be. `late_until`: until when the creation of a copy may still be
    carried out that was sent more than once, of which only one was seen. `written`: what this log wrote to each copy,
    as far as that may be what is there.
    """

    version: int = 0
    position: int = 0
    copies: dict[str, CopyObserved] = {}
    restored: bool = False
    kinds: frozenset[str] = frozenset()
    late_until: datetime | None = None
    written: dict[str, frozenset[Written]] = {}

    def concerns(self, target: str) -> bool:
        """Whether there is a copy of an object, or may be."""
        failure = self.trouble.get(target)
        return target in self.copies or target in self.effects or (failure is not None and not says_no(failure))

    @property
    def may_hold_copies(self) -> bool:
        """Whether there are copies, or may be, as far as that is no matter of time: of a write that failed without a no
        nobody knows whether it was carried out."""
        unclear = not all(map(says_no, self.trouble.values()))
        return bool(self.copies or self.effects or self.restored or unclear)


def fold(there: TargetNamespace, recorded: Recorded) -> TargetNamespace:
    """Return what is known after one more event of the namespace's stream."""
    after = _fold(_replace(there, version=recorded.version, position=recorded.position), recorded)
    if _creations(there) <= _creations(after):
        return after
    # Which of the requests was carried out nobody knows, nor how many there were: a process may have ended after one.
    return _replace(after, late_until=recorded.recorded_at + ARRIVES_WITHIN)


def _creations(there: TargetNamespace) -> set[int]:
    """Return the positions of the open writes that create a copy."""
    effects = there.effects.values()
    return {one.position for one in effects if isinstance(one.decision, CopyDecided) and not one.decision.uid}


def _fold(there: TargetNamespace, recorded: Recorded) -> TargetNamespace:
    match recorded.event:
        case CopyObserved() | CopyGone() as event:
            key = f"{event.kind}/{event.name}"
            there = closed(there, key)
            if isinstance(event, CopyObserved):
                return _replace(there, copies={**there.copies, key: event}, kinds=there.kinds | {event.kind})
            if key in there.copies and there.copies[key].uid == event.uid:
                return _replace(there, copies=without(there.copies, key), written=without(there.written, key))
        case CandidateWrite() as event:
            there = opened(there, event, recorded)
            if isinstance(event, CopyDecided):
                written = {**there.written, event.target: _written(there, event)}
                return _replace(there, kinds=there.kinds | {event.kind}, written=written)
        case CandidateWriteFailed() | CandidateWriteUnneeded() as event if is_late(there, event.target, recorded):
            pass
        case CandidateWriteFailed() as event:
            return refused(there, event)
        case CandidateWriteUnneeded() as event:
            return closed(there, event.target)
    return there


def _written(there: TargetNamespace, event: CopyDecided) -> frozenset[Written]:
    """Return what may be there of what this log wrote to a copy, once one more write is decided: that one, and what is
    there now, which stays if the write is refused. Of a copy that was not seen yet any attempt may have arrived."""
    seen, before = there.copies.get(event.target), there.written.get(event.target, frozenset())
    kept = before if seen is None else before & {(seen.followed, seen.source_uid)}
    return kept | {(event.version, event.source_uid)}
