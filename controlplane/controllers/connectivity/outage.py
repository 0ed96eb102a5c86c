"""Guards everything that a lost cluster sets in motion: when most clusters are away together, it may be us.

In: who is away, of how many. Out: `MassOutageBegan` and `MassOutageEnded`. Of one or two clusters "most" is all of
them: then nothing could be run again elsewhere anyway, while one of two may be taken for what it seems. The guard stays
out of the way once an operator has accepted the outage as real. After its end every cluster that is still away has a
whole grace before it: what passed during the outage may have been our own."""

from __future__ import annotations

from datetime import datetime

import msgspec

from controlplane.controllers.connectivity.events import MassOutageAccepted, MassOutageBegan, MassOutageEnded
from controlplane.controllers.connectivity.state import resumed
from controlplane.log.event import Event, Recorded

_MANY = 3  # from here on a share means something


class Outage(msgspec.Struct, frozen=True):
    """The mass outage that is on, if any; `version` is that of its stream, `ended` when the last one ended that nobody
    had accepted.
    """

    version: int = 0
    since: datetime | None = None
    accepted_by: str = ""
    ended: datetime | None = None

    @property
    def holds(self) -> bool:
        """Whether destructive decisions are held back."""
        return self.since is not None and not self.accepted_by


def fold_outage(state: Outage, recorded: Recorded) -> Outage:
    """Return the state after one more event of the stream `fleet`."""
    match recorded.event:
        case MassOutageBegan():
            return Outage(recorded.version, recorded.recorded_at)
        case MassOutageEnded():
            return Outage(recorded.version, ended=recorded.recorded_at if state.holds else None)
        case MassOutageAccepted() if state.since is not None:
            return Outage(recorded.version, state.since, recorded.event.by)
        case _:
            return Outage(recorded.version, state.since, state.accepted_by, state.ended)


def outage_resumed(state: Outage, recorded: Recorded) -> Outage:
    """Return the state after `ServiceStarted`: of what passed since the last outage, what nobody of ours saw does not
    count.
    """
    return msgspec.structs.replace(state, ended=resumed(state.ended, recorded)) if state.ended is not None else state


def decide_outage(state: Outage, away: list[str], of: int, share: float) -> Event | None:
    """Return what follows from who is away: more than `share` of the clusters is a mass outage, of one or two of them
    only all; none is where the share is 1."""
    massive = len(away) > share * of and (of >= _MANY or len(away) == of)
    if massive and state.since is None:
        return MassOutageBegan(away=away, of=of)
    if not massive and state.since is not None:
        return MassOutageEnded(away=away, of=of)
    return None
