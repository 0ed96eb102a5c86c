"""What must hold in every state (safety), and in those where nothing is left to do (liveness)."""

from __future__ import annotations

from controlplane.controllers.candidates.source.delegate_status import rank
from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.controllers.candidates.source.state import SourceState
from tests.candidates.model.moves import Moves
from tests.candidates.model.rest import Left, able, at_rest, beyond, left_in
from tests.candidates.model.shapes import Global
from tests.candidates.model.world import Config, Violation


def check(moves: Moves, g: Global) -> None:
    """Raise `Violation` if a state breaks a safety rule."""
    for s in range(moves.config.sources):
        _at_most_one(moves, g, s)
    for t in range(moves.config.targets):
        _capacity(moves, g, t)


def _at_most_one(moves: Moves, g: Global, s: int) -> None:
    """S1, S2, S8: of a source pod, at most one candidate runs, is permitted or could be bound; nobody runs uninvited or
    unpermitted.
    """
    config = moves.config
    state = moves.sources[s].states[g.srcs[s]]
    live: dict[str, str] = {}
    for t in range(config.targets):
        for name in facts(moves, g, moves.index(s, t)):
            live[name] = config.target(t)
    permit = state.permit
    if permit is not None and permit.kind == "Bind":
        live[permit.candidate] = permit.cluster
    live = {name: where for name, where in live.items() if not excused(config, state, name, g.links)}
    if len(live) > 1:
        raise Violation("S1", f"more than one may run: {live}")


def excused(config: Config, state: SourceState, name: str, links: int) -> bool:
    """Whether a candidate belongs to an epoch that was ended without knowing: by at-least-once, or by an operator's
    word.
    """
    known = state.candidates.get(name)
    if known is None or not known.excused:
        return False
    return config.execution != NEVER_TWICE or known.cluster in beyond(config, links).forgotten


def facts(moves: Moves, g: Global, i: int) -> frozenset[str]:
    """Return the candidates of a cell that run or could be bound; raise if one breaks a rule by itself."""
    cell, steps = g.cells[i], moves.cells[i]
    found: frozenset[str] = steps.memo(("facts", cell.store, cell.side, g.now), lambda: _facts(moves, g, i))
    return found


def _facts(moves: Moves, g: Global, i: int) -> frozenset[str]:
    cell, steps = g.cells[i], moves.cells[i]
    store = steps.stores[cell.store]
    running = {name for name, pod in store["pods"].items() if pod["spec"].get("nodeName")}
    ended = {name for name in running if rank(store["pods"][name].get("status", {}).get("phase", "")) == 2}
    if steps.t in moves.config.uninvited and store["pods"]:
        raise Violation("S9", "a pod was made for a source that is not invited")
    epochs = [(c["spec"]["source"]["uid"], c["spec"]["source"]["epoch"]) for c in store["candidates"].values()]
    if len(set(epochs)) != len(epochs):
        raise Violation("S8", f"two candidates of one epoch on one target: {epochs}")
    for name in running:
        candidate = store["candidates"].get(name)
        if candidate is None:
            raise Violation("H12", f"{name} runs and its Candidate is gone")
        permit = candidate["spec"].get("permit")
        if permit is None or permit["kind"] != "Bind":
            raise Violation("S2", f"{name} is bound without a permit")
        state = steps.sides[cell.side].get(name)
        acknowledged = state.withdrawn if state is not None else 0
        if acknowledged >= permit["number"]:
            raise Violation("S3", f"{name} runs by permit {permit['number']}, whose withdrawal was acknowledged")
        if state is not None and permit["reservation"] != state.reservations:
            raise Violation("S2", f"{name} runs by a permit for reservation {permit['reservation']}")
    return frozenset((running - ended) | steps.could_bind(cell.side, g.now))


def _capacity(moves: Moves, g: Global, t: int) -> None:
    """S7: what is held, on its way and bound on a target never exceeds what there is; what runs is never missing in the
    books.
    """
    config = moves.config
    used = bound = 0
    for s in range(config.sources):
        i = moves.index(s, t)
        used += moves.cells[i].used(g.cells[i].side)
        bound += running(moves, i, g.cells[i].store)
    if max(used, bound) > config.capacity:
        raise Violation("S7", f"target {t} has {config.capacity} places; {used} are in the books, {bound} pods run")


def running(moves: Moves, i: int, store: int) -> int:
    """Return how many pods are bound in a cell and have not ended."""
    steps = moves.cells[i]

    def count() -> int:
        pods = steps.stores[store]["pods"].values()
        return sum(
            1 for pod in pods if pod["spec"].get("nodeName") and rank(pod.get("status", {}).get("phase", "")) != 2
        )

    found: int = steps.memo(("bound", store), count)
    return found


def settled(moves: Moves, g: Global) -> None:
    """L1 to L5: raise `Violation` if a state in which nothing is left to do is not as it should be."""
    config = moves.config
    gone = beyond(config, g.links)
    free = able(config, g.links)
    for s in range(config.sources):
        state, pod = moves.sources[s].states[g.srcs[s]], moves.pod(g, s)
        there: dict[str, Left] = {}
        for t in range(config.targets):
            there |= left_in(config, t, moves.cells[moves.index(s, t)].stores[g.cells[moves.index(s, t)].store])
        at_rest(config, state, pod, there, s, hopeless=_hopeless(moves, g, s, free), gone=gone)


def _hopeless(moves: Moves, g: Global, s: int, free: list[int]) -> bool:
    """Whether every target that could take pod `s` is full of others."""
    config = moves.config
    others = [r for r in range(config.sources) if r != s]
    for t in free:
        used = sum(moves.cells[moves.index(r, t)].used(g.cells[moves.index(r, t)].side) for r in others)
        if used < config.capacity:
            return False
    return True
