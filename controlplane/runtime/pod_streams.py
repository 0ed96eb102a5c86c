"""Keeps the pods of Workloads, those of each in a stream of their own, with what is written to them.

In: pods as they are shown, events in the log's order. Out: which event a pod is; states by stream. What is recorded of
a pod, and what is written to it, each controller says. A write is open from its decision until its pod is seen to
change, or to go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.observations import ObjectObserved, ObjectVanished, ObservationsAhead
from controlplane.runtime.writes import (
    D,
    OpenWrites,
    WriteFailed,
    WriteFailure,
    WriteUnneeded,
    dropped,
    opened,
    refused,
    without,
)

_replace = msgspec.structs.replace
P = TypeVar("P", bound=ObjectObserved)


class PodsState(OpenWrites[D, WriteFailure], Generic[D, P]):
    """The pods of a Workload by UID, and what is open about them. `vain`: at which version of a pod a write changed
    nothing."""

    version: int = 0
    position: int = 0
    pods: dict[str, P] = {}
    vain: dict[str, str] = {}


S = TypeVar("S", bound=PodsState[Any, Any])


class PodStreams(ABC, Generic[S]):
    """The pods of all Workloads, by stream. `OBSERVED`, `GONE` and `WRITE` are the events of a pod that was seen, of
    one that went, and of a write to one, whose target is `Pod/NAME`."""

    OBSERVED: ClassVar[type[ObjectObserved]]
    GONE: ClassVar[type[ObjectVanished]]
    WRITE: ClassVar[type[Any]]
    STATE: ClassVar[type[PodsState[Any, Any]]]

    def __init__(self) -> None:
        self.states: dict[str, S] = {}
        self._stream_of: dict[str, str] = {}
        self._ahead: ObservationsAhead[ObjectObserved] = ObservationsAhead()

    @abstractmethod
    def observed(self, change: ObjectChange) -> Any:
        """Return the observation of a pod that is there; None if nothing rests on it. `Misfit` names a field that does
        not fit."""

    @abstractmethod
    def gone(self, change: ObjectChange, known: Any) -> Event:
        """Return that a pod is gone which was observed before."""

    def kind_of(self, event: Any) -> str | None:
        """Return in which watch a pod was shown, by the name of the kind; None if there is one watch. Others say
        nothing of it."""
        return None

    @abstractmethod
    def stream(self, event: Any) -> str:
        """Return the stream of a pod that was observed."""

    @abstractmethod
    def is_written(self, event: Any) -> bool:
        """Whether a pod may be written: then every version is recorded, since a write holds for one version alone."""

    def seen(self, change: ObjectChange) -> tuple[str, Event] | None:
        """Return stream and event of a pod; None if it says nothing new."""
        uid = change.uid
        state = self.states.get(self._stream_of.get(uid, ""))
        known = self._ahead.newest(uid, state.pods.get(uid) if state is not None else None)
        if known is not None and self.kind_of(known) not in (None, change.kind.name):
            return None
        event = None if change.gone else self.observed(change)
        if event is None and known is None:
            return None
        if _says_the_same(event, known) and not self.is_written(event):
            return None
        self._ahead.note(uid, event)
        stream = self._stream_of.get(uid) or self.stream(event or known)
        return stream, event or self.gone(change, known)

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of a stream of pods."""
        stream, event = recorded.stream, recorded.event
        before = self.states.get(stream) or self.STATE()
        state: Any = _replace(before, version=recorded.version, position=recorded.position)
        if isinstance(event, self.OBSERVED):
            self._stream_of[event.uid] = stream
            self._ahead.folded(event.uid, event)
            state = _seen(state, event)
        elif isinstance(event, self.GONE):
            self._stream_of.pop(event.uid, None)
            self._ahead.folded(event.uid, None)
            state = _without(state, event)
        elif isinstance(event, self.WRITE):
            state = opened(state, event, recorded)
        elif isinstance(event, WriteFailed):
            state = refused(state, event)
        elif isinstance(event, WriteUnneeded):
            vain = {**state.vain, event.target: event.resource_version}
            state = dropped(_replace(state, vain=vain), event.target)
        if state.pods or state.effects:
            self.states[stream] = state
        else:
            self.states.pop(stream, None)


def _says_the_same(event: Any, known: Any) -> bool:
    """Whether a pod was seen as it is known, but for its resourceVersion."""
    if event is None or known is None:
        return False
    return bool(_replace(event, resource_version=known.resource_version) == known)


def target_of(name: str) -> str:
    """Return the target of a write to a pod of this name, in the stream of its Workload's pods."""
    return f"Pod/{name}"


def is_in_conflict(state: PodsState[Any, Any]) -> bool:
    """Whether a pod has changed under a write, perhaps by our own write whose answer was lost: its next version will
    tell."""
    return any(one.error == "Conflict" for one in state.trouble.values())


def _seen(state: S, event: ObjectObserved) -> S:
    known = state.pods.get(event.uid)
    state = _replace(state, pods={**state.pods, event.uid: event})
    if known is not None and known.resource_version == event.resource_version:
        return state  # shown once more to a process that begins: what is open is so still
    return _settled(state, event.name)


def _without(state: S, event: ObjectVanished) -> S:
    if event.uid not in state.pods:
        return state
    return _settled(_replace(state, pods=without(state.pods, event.uid)), event.name)


def _settled(state: S, name: str) -> S:
    """Return the state without the open write to a pod that was seen to change, and without a conflict about it."""
    target = target_of(name)
    trouble = state.trouble.get(target)
    return _replace(
        state,
        effects=without(state.effects, target),
        vain=without(state.vain, target),
        trouble=without(state.trouble, target) if trouble and trouble.error == "Conflict" else state.trouble,
    )
