"""What a controller says of itself. Whatever lists controllers, their events or their reasons is made of manifests.

In: the tables of a controller's own folder. Out: one value, of which the readers of a log, its codec and the reference
pages are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.log.event import Event, Unknown
from controlplane.runtime.phrases import Phrase, Sentence
from controlplane.values import Value


class Manifest(Value):
    """A controller, or a part of one that has events of its own.

    `title` heads its part of the reference; `intro` and `fields_intro` are prose below the headings. `streams` says of
    each stream, by its pattern (`workload/NS/NAME`), the history of what it is. `decision` is what all of its decisions
    are, `write` those that mean a write; `writes` says to what. `reasons` has the sentence of each member of its closed
    set."""

    title: str
    events: tuple[type[Event], ...]
    phrases: Mapping[type[Event], Phrase]
    streams: Mapping[str, str]
    reasons: Mapping[Any, Sentence] = {}
    decision: type[Event] | None = None
    write: type[Event] | None = None
    writes: Mapping[type[Event], str] = {}
    intro: str = ""

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
        for manifest in manifests:
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
