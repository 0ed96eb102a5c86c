"""What must hold of a gang in every state, and in those where nothing is left to do."""

from __future__ import annotations

from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from tests.candidates.model.gang_moves import GangGlobal, GangMoves
from tests.candidates.model.gang_world import LEAST, NAMES
from tests.candidates.model.world import Violation


def check(moves: GangMoves, g: GangGlobal) -> None:
    """Raise `Violation` if a state breaks a rule about safety."""
    _one_target(moves, g)
    running = _running(moves, g)
    _each_once(moves, g, running)
    _all_or_nothing(moves, g, running)
    for t, room in enumerate(moves.config.room):
        here = [moves.index(m, t) for m in range(len(NAMES))]
        used = sum(moves.cells[i].used(g.cells[i].side) for i in here)
        if used > room:
            raise Violation("S7", f"target {t} has {room} places, and {used} are taken")


def _one_target(moves: GangMoves, g: GangGlobal) -> None:
    """G1: the gang is permitted and bound in one target, by the log."""
    found = set()
    for state in moves.source.members(g.joint):
        if state.permit is not None and state.permit.kind == "Bind":
            found.add(state.permit.cluster)
        if state.chosen is not None:
            found.add(state.chosen.cluster)
    if len(found) > 1:
        raise Violation("G1", f"the gang is permitted or bound in {sorted(found)}")


def _running(moves: GangMoves, g: GangGlobal) -> dict[tuple[int, str], int]:
    """Return what runs: member and candidate, and the target."""
    return {
        (m, name): t
        for m in range(len(NAMES))
        for t in range(moves.config.targets)
        for name, pod in moves.cells[moves.index(m, t)].stores[g.cells[moves.index(m, t)].store]["pods"].items()
        if pod["spec"].get("nodeName")
    }


def _each_once(moves: GangMoves, g: GangGlobal, running: dict[tuple[int, str], int]) -> None:
    """S1 and G2: a member runs once, or may; and the gang in one target. What at-least-once has given up on does not
    count.
    """
    where: set[int] = set()
    for m, state in enumerate(moves.source.members(g.joint)):
        live = {name: t for (one, name), t in running.items() if one == m}
        for t in range(moves.config.targets):
            i = moves.index(m, t)
            live |= dict.fromkeys(moves.cells[i].could_bind(g.cells[i].side, g.now), t)
        if moves.config.execution != NEVER_TWICE:
            excused = {name for name, known in state.candidates.items() if known.excused}
            live = {name: t for name, t in live.items() if name not in excused}
        if len(live) > 1:
            raise Violation("S1", f"member {m} may run more than once: {live}")
        where.update(live.values())
    if len(where) > 1:
        raise Violation("G2", f"the gang runs, or may, in targets {sorted(where)}")


def _all_or_nothing(moves: GangMoves, g: GangGlobal, running: dict[tuple[int, str], int]) -> None:
    """G3: while nothing has gone wrong, who runs alone has a sibling that is permitted beside it."""
    limits = moves.config.faults
    untouched = g.faults[-1] == limits.total
    if not untouched or not running or len(running) >= LEAST:
        return
    permitted = [s.name for s in moves.source.members(g.joint) if s.permit is not None or s.delegate]
    if len(permitted) < LEAST:
        raise Violation("G3", f"{sorted(running)} run alone, and only {permitted} may")


def settled(moves: GangMoves, g: GangGlobal) -> None:
    """L1, L2: raise `Violation` if a state in which nothing is left to do is not as it should be: the whole gang in one
    target.
    """
    running, members = _running(moves, g), moves.source.members(g.joint)
    if len(running) != LEAST or len(set(running.values())) != 1:
        raise Violation("L1", f"the gang runs as {running}")
    if any(name != members[m].delegate for m, name in running):
        raise Violation("L2", f"the source believes {[state.delegate for state in members]}, there are {running}")
    left = [name for i, cell in enumerate(g.cells) for name in moves.cells[i].stores[cell.store]["candidates"]]
    if sorted(left) != sorted(name for _, name in running):
        raise Violation("L2", f"left behind: {left}")
    placed = moves.source.group(g.joint).placed
    if placed is None or placed.cluster != moves.config.target(next(iter(running.values()))):
        raise Violation("L2", f"the group is said to be in {placed}")
