"""What was folded, taken, written down, read and given to another controller: as a process does that starts from a
snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from controlplane.log.event import Recorded
from controlplane.runtime.folded import _is_part, _is_whole, check, give, keeps, taken
from controlplane.runtime.folded_records import Decoder, Encoder
from controlplane.runtime.router import ControllerRouter

T = TypeVar("T")


def copied(of: object, into: T) -> T:
    """Return another controller (or a part beside one) with all that one has folded."""
    decoder = Decoder()
    for record in Encoder().records(taken(of)):
        decoder.read(record)
    check(into, decoder.parts)
    give(into, decoder.parts)
    return into


def difference(one: object, other: object) -> dict[str, tuple[Any, Any]]:
    """Return what two controllers hold differently, by the path of the attribute."""
    left, right = taken(one), taken(other)
    return {path: (left.get(path), right.get(path)) for path in left | right if left.get(path) != right.get(path)}


def kept(router: ControllerRouter) -> bool:
    return all(keeps(one.controller) for one in router.registrations)


def started_from(router: ControllerRouter, into: ControllerRouter) -> ControllerRouter:
    """Return the router of a process that starts from what another one has folded."""
    router.remembers = into.remembers = True
    router.tidy()
    for one, other in zip(router.registrations, into.registrations, strict=True):
        copied(one.controller, other.controller)
    return copied(router, into)


def folded(router: ControllerRouter, events: Sequence[Recorded]) -> ControllerRouter:
    for event in events:
        router.fold(event)
    return router


# Given by whoever made it; made for a look at what is kept; or what the process is still to do, which is asked for
# besides.
_BESIDE = frozenset(
    [
        "policy",
        "identity",
        "_observer",
        "_placing",
        "obstacles_of",
        "obstacles_at",
        "_targets_of",
        "_copy",
        "_reads",
        "_views",
        "_objects",
        "_moved",
        "changed_clusters",
        "watch_changed",
        "_dirty",
        "_stale",
        "_told",
    ]
)


def everything(of: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all that a controller holds, whether it says that it is kept or not."""
    for name, value in vars(of).items():
        if name in _BESIDE:
            continue
        if _is_whole(value):
            yield f"{path}{name}", value.kept()
        elif _is_part(value):
            yield from everything(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def unlike(router: ControllerRouter, other: ControllerRouter) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Return what the controllers of two processes hold differently that have only folded."""
    found = {}
    for one, two in zip(router.registrations, other.registrations, strict=True):
        left, right = dict(everything(one.controller)), dict(everything(two.controller))
        differs = {path: (left.get(path), right.get(path)) for path in left | right}
        if differs := {path: pair for path, pair in differs.items() if pair[0] != pair[1]}:
            found[one.name] = differs
    return found


def asked(router: ControllerRouter) -> list[str]:
    """Return the streams that a process decides about first, but for those that are over."""
    found = []
    for stream in router.take_dirty():
        owner = next(one for one in router.registrations if stream.partition("/")[0] in one.owns)
        over = getattr(owner.controller, "is_over", None)
        if over is None or not over(stream):
            found.append(stream)
    return found
