"""What was last known of an object that is gone: its explanation as it was before its end began.

In: the events of an object, and what explains them. Out: the explanation, with that sentence after it and its events
beside. For the objects of which nothing but their going is left to fold. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from controlplane.audit.explain import Explanation
from controlplane.log.event import Recorded

LAST_KNOWN = "What was known of it last:"


def with_last_known(
    told: Explanation,
    events: Sequence[Recorded],
    gone: type[object],
    explain: Callable[[Sequence[Recorded]], Explanation],
) -> Explanation:
    """Return the explanation of what is gone, and what was known of it before; `gone` is the event with which it went."""
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
    last = next((index for index in range(len(events) - 1, -1, -1) if isinstance(events[index].event, gone)), 0)
    uid = getattr(events[last].event, "uid", "") if events else ""
    going = (
        index
        for index, recorded in enumerate(events[:last])
        if getattr(recorded.event, "deleting", False) and getattr(recorded.event, "uid", uid) == uid
    )
    return next(going, last)
