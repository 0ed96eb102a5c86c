"""Folds a cluster's connection: connected or not, since when lost, which kinds are in view.

In: the events of `cluster/NAME`. Out: `Connection`. The loss clock starts with the first failure after the cluster was
last connected and is the log's, so it survives restarts and changes of the leader."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from controlplane.controllers.connectivity import events
from controlplane.log.event import Recorded
from controlplane.values import Value

STANDBY = "ClusterIdentityShared"
"""Why a cluster that stands by is not used, as it is listed."""

Phase = Literal["Unknown", "Connected", "Suspect", "Lost", "Failed", "Removed", "Standby"]


class Connection(Value):
    """What is known of the connection to one cluster.

    `Unknown`: nothing tried since the service started. `Suspect`: connected, but a heartbeat is overdue. `Lost`: it was
    connected before. `Failed`: it never was. `Standby`: it answers, and is used under the name `behind`, which stays
    set until the cluster is used under this one. `before`: the identities of other clusters that came in its place, in
    the order in which they were replaced. `since` is when the phase began; `lost_since` when it was lost, None
    while connected. `restores` counts restores of the cluster's store, removals, and other clusters that came in its
    place. `forgotten`: an operator ended the grace. `rebound`: an operator lets another cluster take this one's place.
    `untried_since`: when the service started, while no attempt of it has ended yet. The clocks: `lost_clock` starts
    with `lost_since`; `out_since`: when a kind went out of view on a cluster that is connected; `unlisted_since`: when
    those did that are not listed yet on this connection. They stand still while nobody of ours looks."""

    name: str
    version: int = 0
    phase: Phase = "Unknown"
    since: datetime | None = None
    lost_since: datetime | None = None
    lost_clock: datetime | None = None
    reason: str = ""
    message: str = ""
    attempt: int = 0
    next_attempt_at: datetime | None = None
    incarnation: str = ""
    server_version: str = ""
    synced: frozenset[str] = frozenset()
    off: dict[str, str] = {}
    out_since: dict[str, datetime] = {}
    unlisted_since: datetime | None = None
    restores: int = 0
    forgotten: bool = False
    connected_once: bool = False
    untried_since: datetime | None = None
    rebound: bool = False
    behind: str = ""
    before: tuple[str, ...] = ()

    @property
    def identities(self) -> tuple[str, ...]:
        """What the cluster is known by, and whose place it took; nothing while its identity is not known."""
        return (self.incarnation, *self.before) if self.incarnation else ()

    @property
    def connected(self) -> bool:
        """Whether requests can be sent and what is seen is current."""
        return self.phase in ("Connected", "Suspect")

    @property
    def removed(self) -> bool:
        """Whether the cluster was taken out of use; one that was reconfigured is connected to anew."""
        return self.phase == "Removed" and self.reason == "Removed"

    @property
    def facts(self) -> tuple[object, ...]:
        """What a decision may rest on; of what is listed nothing, as long as the cluster is not connected."""
        listed = self.synced if self.connected else None
        times = (self.lost_since, self.lost_clock, self.untried_since, self.unlisted_since)
        return (self.phase, self.restores, self.forgotten, listed, times, self.out_since)

    def in_view(self, kind: str) -> bool:
        """Whether everything of a kind that exists there has been listed on this connection."""
        return self.connected and kind in self.synced

    def settled(self, kinds: Iterable[str]) -> bool:
        """Whether all that can be seen of some kinds is in view; what is not installed, or forbidden, is not waited
        for.
        """
        return all(self.in_view(kind) or (self.connected and kind in self.off) for kind in kinds)

    def out_of_view_since(self, kind: str) -> datetime | None:
        """Return when what exists of a kind went out of view: with the cluster, or alone, by rights or because its list
        does not come.

        Time in which nobody of ours looked does not count. None if that is not known: it never was in view, or only
        before the service started."""
        known = [at for at in (self.lost_clock, self.out_since.get(kind)) if at is not None]
        return min(known, default=self.unlisted_since)


def fold(state: Connection, recorded: Recorded) -> Connection:
    """Return the connection after one more event of its stream."""
    event, at = recorded.event, recorded.recorded_at
    state = msgspec.structs.replace(state, version=recorded.version)
    match event:
        case events.ClusterConnected():
            return _connected(state, event, at)
        case events.ClusterConnectFailed():
            return msgspec.structs.replace(
                _away(state, at, "Lost" if state.connected_once else "Failed"),
                reason=event.reason,
                message=event.message,
                attempt=event.attempt,
                next_attempt_at=event.next_attempt_at,
            )
        case events.ClusterStandby():
            return msgspec.structs.replace(
                state,
                phase="Standby",
                since=state.since if state.phase == "Standby" else at,
                untried_since=None,
                reason=STANDBY,
                message=event.message,
                attempt=0,
                next_attempt_at=None,
                synced=frozenset(),
                behind=event.behind,
            )
        case events.ClusterSuspected() if state.connected:
            return msgspec.structs.replace(state, phase="Suspect", since=at, message=event.message)
        case events.ClusterRecovered() if state.phase == "Suspect":
            return msgspec.structs.replace(state, phase="Connected", since=at, message="")
        case events.ClusterIdentified() | events.ClusterRestored() | events.LogRebound():
            return _another_incarnation(state, event, at)
        case events.ClusterForgotten() if not state.connected:
            return msgspec.structs.replace(state, forgotten=True)
        case events.ClusterLost():
            return msgspec.structs.replace(_away(state, at, "Lost"), reason=event.reason, message=event.message)
        case events.ClusterDisconnected():
            # What is removed and comes back was out of everybody's sight meanwhile: what it shows then is news,
            # whatever its versions are.
            restores = state.restores + (event.reason == "Removed" and state.connected_once)
            return msgspec.structs.replace(
                _away(state, at, "Removed"), reason=event.reason, message="", restores=restores
            )
        case events.KindSynced() | events.KindOff():
            return _kind(state, event, at)
        case _:
            return state


def _connected(state: Connection, event: events.ClusterConnected, at: datetime) -> Connection:
    return msgspec.structs.replace(
        state,
        phase="Connected",
        since=at,
        lost_since=None,
        lost_clock=None,
        forgotten=False,
        connected_once=True,
        rebound=False,
        behind="",
        untried_since=None,
        reason="",
        message="",
        attempt=0,
        next_attempt_at=None,
        synced=frozenset(event.kinds),
        out_since={kind: since for kind, since in state.out_since.items() if kind not in event.kinds},
        unlisted_since=state.lost_clock or at,
        incarnation=event.incarnation,
        before=_before(state, event.incarnation),
        restores=next_incarnation_number(state, event.incarnation),
        server_version=event.server_version,
    )


def _another_incarnation(
    state: Connection, event: events.ClusterIdentified | events.ClusterRestored | events.LogRebound, at: datetime
) -> Connection:
    """Whatever was seen belongs to the incarnation before: nothing of this one is in view until it is listed."""
    match event:
        case events.ClusterIdentified():
            return msgspec.structs.replace(
                state,
                incarnation=event.incarnation,
                before=_before(state, event.incarnation),
                restores=next_incarnation_number(state, event.incarnation),
                synced=frozenset(),
            )
        case events.ClusterRestored():
            out_since = dict.fromkeys(state.synced, at) | state.out_since
            return msgspec.structs.replace(state, restores=event.restores, synced=frozenset(), out_since=out_since)
        case events.LogRebound():
            # Versions of another store mean nothing beside those that were seen: an incarnation of its own, also if it
            # is an old one's store.
            return msgspec.structs.replace(state, rebound=True, restores=state.restores + 1, synced=frozenset())


def _kind(state: Connection, event: events.KindSynced | events.KindOff, at: datetime) -> Connection:
    if isinstance(event, events.KindSynced):
        return msgspec.structs.replace(
            state,
            synced=state.synced | {event.kind},
            off={kind: why for kind, why in state.off.items() if kind != event.kind},
            out_since={kind: since for kind, since in state.out_since.items() if kind != event.kind},
        )
    # Before the cluster is said to be connected again, it was in view until the loss, or until our own absence.
    unlisted = state.unlisted_since if state.connected else state.lost_clock
    since = at if event.kind in state.synced else unlisted or at
    return msgspec.structs.replace(
        state,
        synced=state.synced - {event.kind},
        off={**state.off, event.kind: event.message},
        out_since={event.kind: since, **state.out_since},
    )


def _before(state: Connection, incarnation: str) -> tuple[str, ...]:
    """Return whose place a cluster took, once it answers with an identity."""
    known = (*state.before, state.incarnation) if state.incarnation not in ("", *state.before) else state.before
    return known if incarnation not in ("", state.incarnation) else state.before


def next_incarnation_number(state: Connection, incarnation: str) -> int:
    """Return the count of incarnations once a cluster answers with an identity: another one begins one, also if it was
    there before.

    What was seen of it then counts as gone, and what is seen now is news.
    """
    return state.restores + (state.incarnation not in ("", incarnation))


def incarnation_name(incarnation: str, restores: int) -> str:
    """Return the name of a cluster's incarnation: its own identity, and how often it was restored from a backup or
    removed."""
    return f"{incarnation}+{restores}" if restores else incarnation


def restarted(state: Connection, recorded: Recorded) -> Connection:
    """Return the connection after `ServiceStarted`: nothing is in view until it is listed again; a running loss clock
    runs on.

    The time in which no service was there to see the cluster return does not count, and the rest only once the cluster
    has been tried."""
    untried = recorded.recorded_at if state.phase != "Removed" else None
    state = msgspec.structs.replace(
        state,
        synced=frozenset(),
        untried_since=untried,
        lost_clock=resumed(state.lost_clock, recorded) if state.lost_clock else None,
        out_since={kind: resumed(since, recorded) for kind, since in state.out_since.items()},
        unlisted_since=resumed(state.unlisted_since, recorded) if state.unlisted_since else None,
    )
    if state.connected or state.phase in ("Unknown", "Standby"):
        return msgspec.structs.replace(state, phase="Unknown", since=recorded.recorded_at)
    return state


def resumed(clock: datetime, recorded: Recorded) -> datetime:
    """Return a clock after `ServiceStarted`, moved on by the time in which nobody of ours looked; as it is if that is
    not known.
    """
    assert isinstance(recorded.event, events.ServiceStarted)
    unwatched = recorded.event.unwatched_since
    if unwatched is None:
        return clock
    return clock + max(recorded.recorded_at - max(clock, unwatched), timedelta())


def _away(state: Connection, at: datetime, phase: Phase) -> Connection:
    return msgspec.structs.replace(
        state,
        phase=phase,
        since=state.since if state.phase == phase else at,
        lost_since=state.lost_since or at,
        lost_clock=state.lost_clock or at,
        untried_since=None,
        synced=frozenset(),
    )
