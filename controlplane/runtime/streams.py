"""The state of a stream of one object, `WORD/NAMESPACE/NAME`: how it begins, and how far it is folded.

In: a stream's name and its events, in order. Out: states with the fields `namespace`, `name`, `version` and
`position`, whatever else a controller keeps of the object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from controlplane.log.event import Recorded


def streams_of(word: str) -> Callable[[str, str], str]:
    """Return what names the stream of an object, by its namespace and name."""
    return lambda namespace, name: f"{word}/{namespace}/{name}"


def object_of(stream: str) -> tuple[str, str]:
    """Return namespace and name of the object that a stream is about."""
    _, namespace, name = stream.split("/", 2)
    return namespace, name


class Folded(NamedTuple):
    """How the state of a stream begins, and the fold."""

    initial: Callable[[str], Any]
    fold: Callable[[Any, Recorded], Any]


StreamFolds = Mapping[str, Folded]
"""The states that only their own events change, by the first word of a stream."""


class StreamFold:
    """What the state of a stream of one object has beside its fields."""

    __slots__ = ()

    @classmethod
    def initial(cls, stream: str) -> Self:
        """Return the state before the first event of a stream."""
        fields: dict[str, Any] = dict(zip(("namespace", "name"), object_of(stream), strict=True))
        return cls(**fields)

    def folded_to(self, recorded: Recorded) -> Self:
        """Return the state with the place of one more event, which is then folded."""
        state: Any = self
        found: Self = msgspec.structs.replace(state, version=recorded.version, position=recorded.position)
        return found


S = TypeVar("S", bound=StreamFold)


def replayed(kind: type[S], fold: Callable[[S, Recorded], S], stream: str, events: Iterable[Recorded]) -> S:
    """Return the state of a stream, by those events of a log that are on it."""
    state = kind.initial(stream)
    for recorded in events:
        if recorded.stream == stream:
            state = fold(state, recorded)
    return state
