"""Open writes, as every controller that writes keeps them: decided and without an outcome yet, refused and resting, or
settled.

In: a controller's decisions that mean a write, and how those ended. Out: what a state holds of them (`OpenWrites`), its
folds, and the answers that the loop asks of every controller alike (`WritingController`). A write is open from its
decision until its object is seen to change, which each controller tells by its own events, or until an API server said
no. The events stay each controller's own: their names are in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from controlplane.kube.kinds import Request
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import OpenWrite, WriteRefusal
from controlplane.values import Value

_FIRST_RETRY, _LAST_RETRY = timedelta(seconds=1), timedelta(minutes=5)
# A conflict is no refusal: the object has moved on, and the next try is made of what is there then. It waits for the
# watch, and no longer.
_AFTER_CONFLICT = timedelta(seconds=8)
_DOUBLINGS = 12  # more make no longer pause, and at some number none that a timedelta can hold
_replace = msgspec.structs.replace


class WriteFailed(Event):
    """An API server said no to a write. It is decided anew, not before `retry_at`. `sent_before`: the same write was
    sent before, and may have been carried out then.
    """

    target: str
    action: str
    code: int
    error: str
    message: str
    failures: int
    retry_at: datetime
    sent_before: bool = False


class WriteRefused(WriteFailed):
    """An API server said no to a write, and its word for that is the event's reason."""

    reason: str = ""


class WriteUnneeded(Event):
    """A write changed nothing, by the API server's own answer."""

    target: str
    action: str
    resource_version: str


class Targeted(Protocol):
    """A decision that means a write: to what in its stream, and on which cluster."""

    @property
    def target(self) -> str:
        """The key of what is written in its stream."""

    @property
    def cluster(self) -> str:
        """The cluster that is written to."""


class ObjectWrite:
    """What a decision has that means a write to one object of its stream: `WHAT` tells it from the others there."""

    __slots__ = ()
    WHAT: ClassVar[str] = ""
    cluster: str

    @property
    def target(self) -> str:
        """The key of the object in its stream: at most one write to it is open."""
        return f"{self.cluster}/{self.WHAT}"


D = TypeVar("D", bound=Targeted)


class Effect(msgspec.Struct, Generic[D], frozen=True):
    """An open write: the decision, where it (or its present step) stands in the log, and when it was taken."""

    position: int
    decision: D
    decided_at: datetime


class WriteFailure(msgspec.Struct, frozen=True):
    """What an API server last said against a write."""

    failures: int
    code: int
    error: str
    message: str
    until: datetime
    action: str


NO = frozenset({400, 403, 404, 405, 413, 422})
"""The codes by which an API server says that it means it."""
_TOO_LARGE = "request is too large"  # the word of etcd, which an API server passes on as an error of its own (500)


def says_no(trouble: WriteFailure) -> bool:
    """Whether an API server meant it: what was asked is wrong or forbidden as things are, and no accident of this
    moment.
    """
    return trouble.code in NO or trouble.error == "Foreign" or trouble.message.endswith(_TOO_LARGE)


T = TypeVar("T", bound=WriteFailure)


class OpenWrites(Value, Generic[D, T]):
    """A state's open writes, and the last no to each write, by target."""

    effects: dict[str, Effect[D]] = {}
    trouble: dict[str, T] = {}


W = TypeVar("W", bound=OpenWrites[Any, Any])


def trouble_of(event: WriteFailed) -> WriteFailure:
    """Return what is remembered of a no."""
    return WriteFailure(event.failures, event.code, event.error, event.message, event.retry_at, event.action)


def opened(state: W, decision: Targeted, recorded: Recorded) -> W:
    """Return the state with a write that was decided."""
    effect = Effect(recorded.position, decision, recorded.recorded_at)
    return _replace(state, effects={**state.effects, decision.target: effect})


def refused(state: W, event: WriteFailed, trouble: WriteFailure | None = None) -> W:
    """Return the state after an API server's no to a write; `trouble` if the controller remembers more of it than all
    do.
    """
    return _replace(dropped(state, event.target), trouble={**state.trouble, event.target: trouble or trouble_of(event)})


def is_late(state: OpenWrites[Any, Any], target: str, recorded: Recorded) -> bool:
    """Whether an outcome is that of a write which is open no more, while another one to the same target is: it was
    appended behind what closed the one and led to the other."""
    effect = state.effects.get(target)
    return effect is not None and recorded.caused_by not in (0, effect.position)


def dropped(state: W, target: str) -> W:
    """Return the state without the open write to a target."""
    if target not in state.effects:
        return state
    return _replace(state, effects=without(state.effects, target))


def closed(state: W, target: str) -> W:
    """Return the state without the open write to a target, and without what was said against it: it is decided anew."""
    if target not in state.effects and target not in state.trouble:
        return state
    return _replace(state, effects=without(state.effects, target), trouble=without(state.trouble, target))


V = TypeVar("V")


def without(entries: Mapping[str, V], key: str) -> dict[str, V]:
    """Return the entries but one."""
    return {name: value for name, value in entries.items() if name != key}


class WritingController(Generic[D]):
    """What a `Controller` answers about its open writes. `FAILED` and `UNNEEDED` are its events of how one ended."""

    FAILED: ClassVar[type[WriteFailed]]
    UNNEEDED: ClassVar[type[WriteUnneeded]]

    def _writes(self, stream: str) -> OpenWrites[D, Any] | None:
        """Return the writes of a stream; None if nothing is known of it."""
        raise NotImplementedError

    def _effects(self, stream: str) -> Mapping[str, Effect[D]]:
        writes = self._writes(stream)
        return writes.effects if writes is not None else {}

    def _trouble(self, write: OpenWrite) -> WriteFailure | None:
        writes = self._writes(write.stream)
        return writes.trouble.get(write.target) if writes is not None else None

    def _decision(self, write: OpenWrite) -> D | None:
        effect = self._effects(write.stream).get(write.target)
        return effect.decision if effect is not None and effect.position == write.position else None

    def open_writes(self, stream: str) -> Sequence[OpenWrite]:
        """Return the open writes of a stream."""
        return [
            OpenWrite(stream, target, effect.decision.cluster, effect.position, type(effect.decision).__name__)
            for target, effect in self._effects(stream).items()
        ]

    def is_open(self, write: OpenWrite) -> bool:
        """Whether a write is still to be carried out."""
        return self._decision(write) is not None

    def failed(self, write: OpenWrite, failure: WriteRefusal, now: datetime) -> NewEvent:
        """Return the event that records an API server's no, with a longer pause each time, which a conflict cuts
        short.
        """
        before = self._trouble(write)
        failures = before.failures + 1 if before is not None and before.action == write.action else 1
        longest = _AFTER_CONFLICT if failure.error == "Conflict" else _LAST_RETRY
        event = self.FAILED(
            target=write.target,
            action=write.action,
            code=failure.code,
            error=failure.error,
            message=failure.message,
            failures=failures,
            sent_before=failure.sent_before,
            retry_at=now + min(_FIRST_RETRY * 2 ** min(failures - 1, _DOUBLINGS), longest),
            **({"reason": failure.error} if issubclass(self.FAILED, WriteRefused) else {}),
        )
        return NewEvent(stream=write.stream, event=event, cluster=write.cluster, caused_by=write.position)

    def unneeded(self, write: OpenWrite, resource_version: str) -> NewEvent:
        """Return the event that records that a write changed nothing."""
        event = self.UNNEEDED(target=write.target, action=write.action, resource_version=resource_version)
        return NewEvent(stream=write.stream, event=event, cluster=write.cluster, caused_by=write.position)


class WritesNothing:
    """What a `Controller` answers about its open writes that has none."""

    def open_writes(self, stream: str) -> Sequence[OpenWrite]:
        """Return nothing."""
        return ()

    def is_open(self, write: OpenWrite) -> bool:
        """Nothing is."""
        return False

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return nothing."""
        return ()

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return nothing."""
        return None

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return nothing."""
        return None

    def failed(self, write: OpenWrite, failure: WriteRefusal, now: datetime) -> NewEvent:
        """Raise `NotImplementedError`: nothing of ours can fail."""
        raise NotImplementedError(f"{type(self).__name__} writes nothing, so {write.action} cannot have failed")

    def unneeded(self, write: OpenWrite, resource_version: str) -> NewEvent:
        """Raise `NotImplementedError`: nothing of ours can be unneeded."""
        raise NotImplementedError(f"{type(self).__name__} writes nothing, so {write.action} cannot be unneeded")
