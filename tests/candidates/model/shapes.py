"""What a state of the whole is made of, and a step from one to another."""

from __future__ import annotations

from typing import NamedTuple

from controlplane.kube.kinds import Json


class Cell(NamedTuple):
    """What one target holds of one source: its API server's objects, its scheduler's states, requests on their way, a
    late sight.

    A request on its way is the source's ("s"), the target's ("t"), or one that a paused leader of the source still has
    to send ("p")."""

    store: int
    side: int
    ghosts: tuple[tuple[str, int], ...] = ()
    slot: int = -1

    @property
    def delayed(self) -> bool:
        """Whether a request is delayed on its way: at most one is."""
        return any(who != "p" for who, _ in self.ghosts)


class Global(NamedTuple):
    """A state of the whole.

    `frozen`: a paused leader of a source, with what it knows (in a component: what it may still write to the pod).
    `faults`: how many are left, by kind, and in all; `deviations`: how often this run may still leave the first order
    of steps."""

    srcs: tuple[int, ...]
    pods: tuple[int, ...]
    cells: tuple[Cell, ...]
    links: int
    now: int
    faults: tuple[int, ...]
    frozen: tuple[int, int] | None = None
    deviations: int = 0


class Move(NamedTuple):
    """A step: what it is, whether it is a fault (or the user's), where it leads."""

    label: str
    fault: bool
    to: Global


def short(body: Json) -> str:
    """Return the part of a request that the protocol is about."""
    said = body.get("status") or body.get("spec") or body.get("metadata") or {}
    if "phase" in said:
        return f"{said['phase']} acknowledged {said.get('acknowledged')}"
    return " ".join(f"{key}={value}" for key, value in said.items() if key in ("permit", "withdrawn", "finalizers"))
