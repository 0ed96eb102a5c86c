"""What a controller says of itself. Whatever lists controllers, their events or their reasons is made of manifests.

In: the tables of a controller's own folder. Out: one value, of which the processes, the readers of a log, its codec,
the doctor and the reference pages are made. What costs a start something is named here and loaded when it is asked
for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from controlplane.log.event import Event, Unknown
from controlplane.runtime.hosting import Endpoint, FindController, GrantedRights, HostedController, ReviewHook
from controlplane.runtime.phrases import Phrase, Sentence
from controlplane.runtime.stories import ObjectStories
from controlplane.runtime.streams import StreamFolds
from controlplane.settings.model import Settings
from controlplane.values import Value

T = TypeVar("T")


class Deferred(msgspec.Struct, Generic[T], frozen=True):
    """What stands in a module, `module:name`, or the module itself; it is loaded when it is asked for."""

    where: str

    def load(self) -> T:
        """Return it."""
        module, _, name = self.where.partition(":")
        loaded: Any = importlib.import_module(module)
        found: T = getattr(loaded, name) if name else loaded
        return found


class StreamCauses(Protocol):
    """On which streams the causes of decisions may be: both by the first word of a stream."""

    MAY_CAUSE: Mapping[str, frozenset[str]]

    def may_cause(self, cause: str, stream: str) -> bool:
        """Return whether an event on one stream can be what a decision on another rests on."""


class Manifest(Value):
    """A controller, or a part of one that has events of its own.

    `title` heads its part of the reference; `intro` and `fields_intro` are prose below the headings. `streams` says of
    each stream, by its pattern (`workload/NS/NAME`), the history of what it is. `decision` is what all of its decisions
    are, `write` those that mean a write; `writes` says to what. `reasons` has the sentence of each member of its closed
    set, and `because` makes it of a decision, to follow "because".

    `runs` says by the settings and the policy of Workloads whether `host` is worth loading, which has the last word.
    `hook` answers admission reviews, `endpoint` says where, if the controller has settings of its own for that. `folds`
    are by the first word of a stream, and `causes` says which others' events a decision on one may rest on. `refused`:
    of an object that is not what it claims to be. `counted`: whether its decisions are in the metric of decisions."""

    title: str
    events: tuple[type[Event], ...]
    phrases: Mapping[type[Event], Phrase]
    streams: Mapping[str, str]
    reasons: Mapping[Any, Sentence] = {}
    decision: type[Event] | None = None
    write: type[Event] | None = None
    writes: Mapping[type[Event], str] = {}
    intro: str = ""
    because: Callable[[Any], str] | None = None
    refused: type[Event] | None = None
    counted: bool = False
    runs: Callable[[Settings, Any], object] = lambda settings, policy: False
    host: Deferred[Callable[[Settings, Any], Sequence[HostedController]]] | None = None
    hook: Deferred[Callable[[Settings, FindController], ReviewHook | None]] | None = None
    endpoint: Callable[[Settings], Endpoint | None] | None = None
    folds: Deferred[StreamFolds] | None = None
    causes: Deferred[StreamCauses] | None = None
    rights: Sequence[GrantedRights] = ()
    stories: Deferred[ObjectStories] | None = None

    def decisions(self) -> list[type[Event]]:
        """Return the events that are decisions, in their order."""
        return [event for event in self.events if self.decision is not None and issubclass(event, self.decision)]

    def others(self) -> list[type[Event]]:
        """Return the events that are none: observations, and outcomes of writes."""
        decisions = self.decisions()
        return [event for event in self.events if event not in decisions]


class Vocabulary:
    """The phrases of several manifests; raises `ValueError` if an event has none, or two."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._phrases: dict[type[Event], Phrase] = {}
        self._manifests: dict[type[Event], Manifest] = {}
        for manifest in manifests:
            self._manifests.update(dict.fromkeys(manifest.events, manifest))
            for event in manifest.events:
                if event not in manifest.phrases:
                    raise ValueError(f"{manifest.title} has no phrase for {event.__name__}")
                if self._phrases.setdefault(event, manifest.phrases[event]) is not manifest.phrases[event]:
                    raise ValueError(f"{event.__name__} has two phrases, one of {manifest.title}")

    def what(self, event: Event | Unknown) -> str:
        """Return what an event says, in a few words; of an unknown one its type."""
        if isinstance(event, Unknown):
            return event.type
        phrase = self._phrases.get(type(event))
        return phrase(event) if phrase is not None else type(event).__name__

    def because(self, event: Event | Unknown) -> str:
        """Return why something was decided, to follow "because"; "" of what is no decision."""
        manifest = self._manifests.get(type(event))  # type: ignore[arg-type]
        if manifest is None or manifest.because is None:
            return ""
        return manifest.because(event) if isinstance(event, manifest.decision or Event) else ""
