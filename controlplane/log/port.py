"""What the loop asks of a log, whoever keeps it: PostgreSQL in production, memory in simulations. One contract test
binds both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from controlplane.log.event import Append, Heartbeat, LogHead, Recorded
from controlplane.log.traces import Traces

FOLLOWED = 16
"""Of so many events at most it is asked before their commit what follows from them."""


class FollowUp(NamedTuple):
    """What follows from events that are about to be committed. `whole`: it is known that nothing else does, once they
    are folded.
    """

    requests: Sequence[Append] = ()
    whole: bool = False


FollowUps = Callable[[Sequence[Recorded]], FollowUp]
"""What follows from events, which have the places that they are about to get."""


def nobody_anticipates(events: Sequence[Recorded]) -> FollowUp:
    """Return that nothing is known of what follows."""
    return FollowUp()


class Log(Protocol):
    """One log. Every method raises `LogUnavailable` when the keeper does not answer.

    Every method but `bodies` and `wait` may also raise `LogReplaced`: what was read through this object is not, or no
    longer, in the log."""

    async def head(self) -> LogHead:
        """Return the last position and the current epoch."""

    async def identity(self) -> str:
        """Return which log it is, of all that there are; "" while nobody has opened it, and of one that is kept
        nowhere."""

    async def take_epoch(self, holder: str) -> LogHead:
        """Bump the epoch: from now on only the caller may append. Returns the head at that moment, to be read up to
        before acting.
        """

    async def assist(self) -> LogHead:
        """Append with the current epoch, without taking it: a leader after this one fences the caller off too."""

    async def heartbeat(self) -> Heartbeat:
        """Return the last heartbeat of the log's holder: whoever sees no other one for a lease may take its
        place.
        """

    async def lead(self, holder: str, heartbeat: Heartbeat) -> LogHead | None:
        """Take the epoch unless its holder has sent another heartbeat than `heartbeat`; None then."""

    async def renew(self, *, resign: bool = False) -> None:
        """Send a heartbeat for our epoch, or the last one; raises `Fenced` if the epoch is over."""

    async def append(self, request: Append) -> int:
        """Commit a request, together with whatever else has arrived; return how many of its events were new.

        Raises `VersionConflict` (nothing of this request was written) or `Fenced`.
        """

    def follow_with(self, follow_ups: FollowUps) -> None:
        """Ask, before a few events are committed, what follows from them, and commit that with them. What another event
        overtook is left out: who decided it decides again once the events are read. Events from which nothing follows
        may wait for others, for a moment.
        """

    async def read(self, after: int, limit: int = 2000) -> Sequence[Recorded]:
        """Return the events after a position, in order, without holes. Raises `LogGap` where some are missing."""

    async def patient(self) -> None:
        """Return once what is to be committed waits for more: whoever has more may take it back and bring both."""

    @property
    def traces(self) -> Traces:
        """What this process knows of the traces of the events that it has read."""

    async def wait(self, after: int, timeout: float) -> None:
        """Return when the log may have grown past `after`, or after `timeout` seconds."""

    async def bodies(self, refs: Iterable[str]) -> dict[str, bytes]:
        """Return the JSON of bodies by the hex of their hash; unknown ones are missing from the answer."""

    async def close(self) -> None:
        """Let go of the log."""


class Assisted(Protocol):
    """A log to which somebody beside its leader may append: an operator, who is asked before he is heard."""

    async def assist(self) -> LogHead:
        """Append with the current epoch, without taking it: a leader after this one fences the caller off too."""

    async def read(self, after: int) -> Sequence[Recorded]:
        """Return the next events after a position; see `Log`."""

    async def append(self, request: Append) -> int:
        """Commit a request; see `Log`."""
