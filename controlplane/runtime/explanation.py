"""Why something is where it is, in the words that all controllers share: how far it is, a sentence, and the events that
it rests on.

In: what a controller's `explain.py` found. Out: an `Explanation`. Of what is gone, of which nothing but its going is
left to fold, it has what was known of it last, too. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import msgspec

from controlplane.log.event import Recorded
from controlplane.values import Value

LAST_KNOWN = "What was known of it last:"

Word = Literal[
    "Pending", "Inactive", "Reserved", "Nominated", "Chosen", "Admitted", "Running", "Lost", "Retry", "Rejected",
    "Evicted", "Deleting", "Finished", "Deleted",
]  # fmt: skip
"""Pending: waits for quota. Inactive: deactivated. Reserved: has quota, offered to nobody. Nominated: offered to
clusters. Chosen: one of them was chosen, its job is being made. Admitted: the check is Ready. Running: the job's copy
is unsuspended. Lost: its cluster cannot be reached. Retry, Rejected: the check says so. Evicted: evicted, still holding
quota. Deleted: not there any more."""

WORDS: tuple[Word, ...] = get_args(Word)

About = Literal[
    "Offered", "Placed", "GivenUp", "LeftOut", "Ran", "Away", "TakenBack", "Judged", "Restored", "Times", "AtOnce"
]


class Standing(msgspec.Struct, frozen=True):
    """`cluster` is the one that has it or was chosen, "" if none; `waits_for` completes "it waits for …", "" if it
    waits for nothing.
    """

    word: Word
    cluster: str = ""
    waits_for: str = ""


class Statement(Value):
    """One thing that is said of a Workload, with the events that prove it. `cluster` is the one that it is about, "" if
    it is about none or several; `seconds` is how long that lasted, None if it is about no length of time."""

    about: About
    text: str
    events: list[Recorded]
    cluster: str = ""
    attempt: int = 0
    seconds: float | None = None


class Explanation(msgspec.Struct, frozen=True):
    """The answer: how far the object is, the sentence, and the events it rests on, by position; of a Workload that has
    ended also what became of it, statement by statement."""

    standing: Standing
    sentence: str
    events: list[Recorded]
    statements: list[Statement] = []


def answer(stands: Standing, sentence: str, *rests_on: Recorded | None) -> Explanation:
    """Return an explanation with one full stop at its end, and each of its events once, by position."""
    found = {recorded.position: recorded for recorded in rests_on if recorded is not None}
    text = " ".join(sentence.split()).rstrip(".") + "."  # what an API server said may have had one already
    return Explanation(stands, text, [found[position] for position in sorted(found)])


def last(events: Sequence[Recorded], *kinds: type[object]) -> Recorded | None:
    """Return the newest event of some types."""
    return next((recorded for recorded in reversed(events) if isinstance(recorded.event, kinds)), None)


def last_seen(
    events: Sequence[Recorded], seen: tuple[type[object], ...], gone: tuple[type[object], ...]
) -> Recorded | None:
    """Return the newest observation of an object by one of `seen`, or of its end by one of `gone`; None if there is
    neither. It is gone by its UID: a list shows another one of its name before it says that the one before is gone."""
    found = last(events, *seen)
    if found is None:
        return last(events, *gone)
    uid = getattr(found.event, "uid", "")
    return last([e for e in events if e is found or getattr(e.event, "uid", "") == uid], *seen, *gone)


def each(events: Sequence[Recorded], *kinds: type[object]) -> list[Recorded]:
    """Return the events of some types."""
    return [recorded for recorded in events if isinstance(recorded.event, kinds)]


def with_last_known(
    told: Explanation,
    events: Sequence[Recorded],
    gone: type[object],
    explain: Callable[[Sequence[Recorded]], Explanation],
) -> Explanation:
    """Return the explanation of what is gone, and what was known of it before; `gone` is the event with which it
    went."""
    begins = ending(events, gone)
    if not begins:
        return told
    before = explain(events[:begins])
    found = {recorded.position: recorded for recorded in (*before.events, *told.events)}
    return msgspec.structs.replace(
        told,
        sentence=f"{told.sentence} {LAST_KNOWN} {before.sentence}",
        events=[found[position] for position in sorted(found)],
    )


def ending(events: Sequence[Recorded], gone: type[object]) -> int:
    """Return the index of the event with which an object's end began: the first that shows it being deleted, else its
    going; 0 if it is not gone, or nothing was recorded before.
    """
    last_index = next((index for index in range(len(events) - 1, -1, -1) if isinstance(events[index].event, gone)), 0)
    uid = getattr(events[last_index].event, "uid", "") if events else ""
    going = (
        index
        for index, recorded in enumerate(events[:last_index])
        if getattr(recorded.event, "deleting", False) and getattr(recorded.event, "uid", uid) == uid
    )
    return next(going, last_index)
