"""What a controller says of its events and reasons, in words: the shapes of it, and the phrases that several share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from controlplane.log.event import Event

Phrase = Callable[[Any], str]
"""What an event says, in a few words: one short line, to which columns beside it add when, where and why."""


def told(table: Mapping[type[Event], str | Phrase]) -> Mapping[type[Event], Phrase]:
    """Return the phrase of each event. A text is one as it stands, with the event's own fields in braces
    (`node {e.name} is gone`).
    """
    return {event: _spoken(phrase) if isinstance(phrase, str) else phrase for event, phrase in table.items()}


def _spoken(text: str) -> Phrase:
    return lambda event: text.format(e=event)


class Sentence(msgspec.Struct, frozen=True):
    """`means`: what the reason says of any decision. `clause`: what it says of one; braces are the names in
    `_parameters`.
    """

    means: str
    clause: str


def listed(names: list[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def each_says(said: Mapping[str, str]) -> str:
    """Return what each says, with names before it: those that say the same together, `a and b: no; c: yes`."""
    names: dict[str, list[str]] = {}
    for name, text in said.items():
        names.setdefault(text, []).append(name)
    return "; ".join(f"{listed(who)}: {text}" for text, who in names.items())


def choice(score: int, scores: Mapping[str, int], feasible: int) -> str:
    """Return why a node was taken, by the scores of the plugins, as a clause that follows "because"."""
    parts = ", ".join(
        f"{name} {part}" for name, part in sorted(scores.items(), key=lambda one: (-one[1], one[0])) if part
    )
    total = f"{score}{f': {parts}' if parts else ''}"
    if feasible == 1:
        return f"it was the only feasible node (score {total})"
    of = f"of {feasible} feasible nodes none" if feasible else "no other feasible node"
    return f"{of} had a higher score ({total})"


def refused_write(event: Any, writes: Mapping[str, str]) -> str:
    """Return what an API server refused, by the names of the writes, and when it is tried again."""
    what = writes.get(event.action, event.action)
    answer = " ".join(filter(None, [str(event.code) if event.code else "", event.error]))
    return f"{what} was refused ({answer}), not again before {event.retry_at:%H:%M:%S}"
