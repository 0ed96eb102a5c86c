"""Faults that plans of all scenes draw since the tenth edition: one process is cut off while the others are not, a
database answers with errors, rights are taken away, an API server refuses a verb, or is overloaded again and again.

In: networks, databases, a way to end what has begun. Out: what is wrong until then."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.drawing import scenes
from controlplane.dst.engine.network import Network, Storm
from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.kube.kinds import Kind

After = Callable[..., None]
"""`after(seconds, end, *arguments)`: does something when its time has come, or when all trouble ends."""
WRITES: Final = ("create", "patch", "delete")
_BURST = 4.0  # virtual seconds, of which an overloaded API server refuses everything in the first half


class Barring(Protocol):
    """What lets some replicas through and others not."""

    barred: set[str]


def cut_off(after: After, ways: Iterable[Barring], replica: str, seconds: float) -> None:
    """Let a replica get nothing through on some ways, or to a database, while the others do."""
    for way in ways:
        way.barred.add(replica)
        after(seconds, way.barred.discard, replica)


def ail(after: After, database: SimulatedDatabase, share: float, seconds: float) -> None:
    """Let a database answer a share of what it is asked with errors."""
    database.ailing = share
    after(seconds, setattr, database, "ailing", 0.0)


def storm(after: After, way: Network, seconds: float, *storms: Storm) -> None:
    """Let an API server give answers that say no."""
    for one in storms:
        way.storms.append(one)
        after(seconds, lambda gone=one: way.storms.remove(gone) if gone in way.storms else None)


def withdraw(after: After, way: Network, kind: Kind, step: Step) -> None:
    """Take the rights to a kind away: all of them, or those to write. A watch goes on, or ends as well (an odd
    `value`)."""
    if step.value % 3 == 0:
        storm(after, way, step.seconds, *(Storm(403, 1.0, resource=kind.name, verb=verb) for verb in WRITES))
        return
    storm(after, way, step.seconds, Storm(403, 1.0, resource=kind.name))
    if step.value % 2:
        way.end_watches()


def overload(after: After, way: Network, step: Step) -> None:
    """Let an API server refuse everything for two seconds, answer for two, and so on."""
    status = (429, 503)[step.value % 2]
    for number in range(int(step.seconds // _BURST) + 1):
        after(number * _BURST, storm, after, way, _BURST / 2, Storm(status, 1.0))


# --- how they are drawn ----------------------------------------------------------------------------------------------


def at(source: random.Random, earliest: float = 2.0, latest: float = HORIZON * 0.8) -> float:
    """Draw when something begins."""
    return round(source.uniform(earliest, latest), 3)


def lasting(source: random.Random, shortest: float, longest: float) -> float:
    """Draw how long something lasts."""
    return round(source.uniform(shortest, longest), 1)


def number(source: random.Random) -> int:
    """Draw a number with a meaning of its own."""
    return source.randint(1, 60)


def draw(source: random.Random, processes: Sequence[str], logs: Sequence[str], ways: Sequence[str]) -> list[Step]:
    """Draw one to three of these faults."""
    return scenes(source, _SCENES, source.choice((1, 2, 2, 3)), processes, logs, ways)


def _cut_off(source: random.Random, processes: Sequence[str], *_: Sequence[str]) -> list[Step]:
    return [Step(0, at(source), "cut-off", source.choice(processes), lasting(source, 2, 150), number(source))]


def _ailing(source: random.Random, _: Sequence[str], logs: Sequence[str], __: Sequence[str]) -> list[Step]:
    return [Step(0, at(source), "database-ailing", source.choice(logs), lasting(source, 5, 90), number(source))]


def _withdrawn(source: random.Random, _: Sequence[str], __: Sequence[str], ways: Sequence[str]) -> list[Step]:
    return [Step(0, at(source), "withdraw", source.choice(ways), lasting(source, 5, 150), number(source))]


def _overload(source: random.Random, _: Sequence[str], __: Sequence[str], ways: Sequence[str]) -> list[Step]:
    return [Step(0, at(source), "overload", source.choice(ways), lasting(source, 5, 60), number(source))]


_SCENES: Final[Mapping[str, tuple[int, Callable[..., list[Step]]]]] = {
    "cut-off": (4, _cut_off),
    "ailing": (3, _ailing),
    "withdrawn": (4, _withdrawn),
    "overload": (2, _overload),
}
