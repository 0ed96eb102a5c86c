"""Which of the places where one process listens would take each other's port.

In: places, each with the key of its port. Out: contradictions. Whoever finds a port taken when it starts cannot know
that it took the port itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class ListeningPlace(NamedTuple):
    """Where something is served; `key` names the setting of its port, which is 0 for any free one."""

    key: str
    address: str
    port: int


def port_contradictions(places: Iterable[ListeningPlace]) -> Iterator[tuple[str, str]]:
    """Yield the keys of the ports that another one of these has, each with the reason, to follow the key's name."""
    before: list[ListeningPlace] = []
    for one in places:
        other = next((other for other in before if one.port and _meet(one, other)), None)
        if other is not None:
            yield (
                one.key,
                f"is {one.port}, as is {other.key}: one process serves both, and each needs a port of its own",
            )
        before.append(one)


def _meet(one: ListeningPlace, other: ListeningPlace) -> bool:
    here, there = ipaddress.ip_address(one.address), ipaddress.ip_address(other.address)
    if one.port != other.port or here.version != there.version:  # `::` leaves the addresses of IPv4 to others
        return False
    return here == there or here.is_unspecified or there.is_unspecified
