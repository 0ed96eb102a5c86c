"""The state of a stream at a position, by the folds with which the controllers decide.

In: a stream's name and its events; of a Workload or a cluster those around it too, as the service's index folds them
together. Out: the state as plain values, and what of it changed. A stream that no controller folds has as its state
what was seen last of each of its objects. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from controlplane.audit.words import fields_of, type_of
from controlplane.controllers.connectivity.events import FLEET_STREAM
from controlplane.controllers.manifests import EVERY
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.observe import ADMISSION
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.log.event import Recorded
from controlplane.runtime.streams import Folded, StreamFolds

_MISSING = object()
# The place of the stream in the log, and since where things are as they are: they follow from the event itself.
_OWN = ("version", "position", "positions")
_OF_ADMISSION = tuple(
    f"{ADMISSION}/{word}/" for word in ("workload", "clusterqueue", "cohort", "localqueue", "flavor", "check")
)
_KEYS = ("type", "name", "cluster")  # by which the parts of a list are told apart


FOLDS: StreamFolds = {
    word: folded for one in EVERY if one.folds is not None for word, folded in one.folds.load().items()
}
"""The states that only their own events change, by the first word of a stream, or the first two."""


INDEXED: Mapping[str, Callable[[WorkloadIndex, str], Any]] = {
    "workload": lambda index, stream: index.workloads.get(stream),
    "cluster": lambda index, stream: index.connections.get(stream.partition("/")[2]),
    FLEET_STREAM: lambda index, stream: index.outage,
}
"""The states that an event of another stream may change, by the first word of their own: they are the index's."""


class Replay:
    """The state of one stream, event by event."""

    def __init__(self, fold: Callable[[Recorded], None], state: Callable[[], Any]) -> None:
        self.fold, self.state = fold, state


def replay_of(stream: str, policy: MultiKueuePolicy) -> Replay:
    """Return the replay of a stream: by the index where others change its state, else by its own fold."""
    if (of_index := INDEXED.get(stream.partition("/")[0])) is not None:
        index = WorkloadIndex(policy)
        return Replay(index.fold, lambda: of_index(index, stream))
    return own_replay(stream)


def own_replay(stream: str) -> Replay:
    """Return the replay of a stream whose state no other stream changes; of one of admission, the part of its state
    that its own events make.
    """
    if stream.startswith(_OF_ADMISSION):
        return _admission_replay(stream)
    folded = of_stream(stream)
    state = folded.initial(stream)

    def fold(recorded: Recorded) -> None:
        nonlocal state
        if recorded.stream == stream:
            state = folded.fold(state, recorded)

    return Replay(fold, lambda: state)


def _admission_replay(stream: str) -> Replay:
    index, key = AdmissionIndex(EngineSettings()), stream.removeprefix(f"{ADMISSION}/workload/")
    known: Mapping[str, Any] = index.objects if key == stream else index.workloads

    def fold(recorded: Recorded) -> None:
        if recorded.stream == stream:
            index.fold(recorded)

    return Replay(fold, lambda: known.get(key))


class StateChange(NamedTuple):
    """A field of a state, by its path, before and after; None where it was or is not there."""

    path: str
    before: Any
    after: Any


def of_stream(stream: str) -> Folded:
    """Return how a stream is folded."""
    first, second = [*stream.split("/", 2), ""][:2]
    return FOLDS.get(first) or FOLDS.get(f"{first}/{second}") or Folded(lambda stream: {}, last_seen)


def last_seen(state: dict[str, Any], recorded: Recorded) -> dict[str, Any]:
    """Return what was seen last, after one more event: by cluster and object, without what is gone, by its UID."""
    kind = type_of(recorded)
    stem = kind.removesuffix("Observed").removesuffix("Gone")
    key = f"{recorded.cluster}/{stem}" if recorded.cluster else stem
    told = fields_of(recorded.event)
    if not kind.endswith("Gone"):
        return {**state, key: told}
    if state.get(key, {}).get("uid", told.get("uid")) != told.get("uid"):  # another one of its name is there
        return state
    return {name: value for name, value in state.items() if name != key}


def plain(state: Any) -> dict[str, Any]:
    """Return a state as plain values; a field that has its default is left out where its type does so."""
    if state is None:
        return {}
    found = msgspec.to_builtins(state, str_keys=True, enc_hook=_plain, order="deterministic")
    return found if isinstance(found, dict) else {"state": found}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[StateChange]:
    """Return the fields of a state that differ, by path; not its place in the log, nor the positions of causes."""
    ours = [{name: value for name, value in one.items() if name not in _OWN} for one in (before, after)]
    return list(_changes(ours[0], ours[1], ""))


def _changes(before: Any, after: Any, path: str) -> Iterator[StateChange]:
    if before is _MISSING or after is _MISSING or type(before) is not type(after):
        if before != after:
            yield StateChange(path, _shown(before), _shown(after))
        return
    old, new = _parts(before), _parts(after)
    if old is None or new is None:
        if before != after:
            yield StateChange(path, before, after)
        return
    for name in sorted(old.keys() | new.keys()):
        step = f"{path}[{name}]" if isinstance(before, list) else f"{path}.{name}".removeprefix(".")
        yield from _changes(old.get(name, _MISSING), new.get(name, _MISSING), step)


def _parts(value: Any) -> dict[str, Any] | None:
    """Return the parts of a value by name; None for one that is compared as a whole."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return None
    for key in _KEYS:
        names = [one.get(key) for one in value]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return dict(zip(map(str, names), value, strict=True))
    return None


def _shown(value: Any) -> Any:
    return None if value is _MISSING else value
