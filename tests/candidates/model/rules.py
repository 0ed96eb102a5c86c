"""What must hold in every state (safety), and in those where nothing is left to do (liveness)."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.candidates.policy import NEVER_TWICE
from controlplane.candidates.state import SourceState
from controlplane.candidates.status import rank
from controlplane.kube import Json, meta
from tests.candidates.model.moves import Moves
from tests.candidates.model.shapes import Global
from tests.candidates.model.world import Violation


def check(moves: Moves, g: Global) -> None:
    """Raise `Violation` if a state breaks a safety rule."""
    for s in range(moves.config.sources):
        _at_most_one(moves, g, s)
    for t in range(moves.config.targets):
        _capacity(moves, g, t)


def _at_most_one(moves: Moves, g: Global, s: int) -> None:
    """S1, S2, S8: of a source pod, at most one candidate runs, is permitted or could be bound; nobody runs uninvited or unpermitted."""
    config = moves.config
    state = moves.sources[s].states[g.srcs[s]]
    live: dict[str, str] = {}
    for t in range(config.targets):
        for name in facts(moves, g, moves.index(s, t)):
            live[name] = config.target(t)
    permit = state.permit
    if permit is not None and permit.kind == "Bind":
        live[permit.candidate] = permit.cluster
    if config.execution != NEVER_TWICE:
        live = {name: where for name, where in live.items() if not excused(state, name)}
    if len(live) > 1:
        raise Violation("S1", f"more than one may run: {live}")


def excused(state: object, name: str) -> bool:
    """Whether a candidate belongs to an epoch that was ended without knowing: what at-least-once means."""
    known = state.candidates.get(name)  # type: ignore[attr-defined]
    return known is not None and known.excused


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
    """S7: what is held, on its way and bound on a target never exceeds what there is; what runs is never missing in the books."""
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
    """L1, L2, L5: raise `Violation` if a state in which nothing is left to do is not as it should be."""
    config = moves.config
    free = [t for t in range(config.targets) if t not in config.uninvited]
    for s in range(config.sources):
        state, pod = moves.sources[s].states[g.srcs[s]], moves.pod(g, s)
        there: dict[str, bool] = {}
        for t in range(config.targets):
            store = moves.cells[moves.index(s, t)].stores[g.cells[moves.index(s, t)].store]
            for name in {*store["candidates"], *store["pods"]}:
                there[name] = bool(store["pods"].get(name, {}).get("spec", {}).get("nodeName"))
        at_rest(state, pod, there, s, hopeless=_hopeless(moves, g, s, free))


def at_rest(state: SourceState, pod: Json | None, there: Mapping[str, bool], s: int, *, hopeless: bool) -> None:
    """L1, L2, L5 of one source when nothing is left to do: `there` are its candidates and pods anywhere, and whether each runs."""
    if pod is None:
        if there:
            raise Violation("L5", f"pod {s} is deleted, left behind: {sorted(there)}")
        if not state.settled:
            raise Violation("L5", f"pod {s} is deleted, and its stream does not say that all is done")
        return
    over = rank(pod["status"]["phase"]) == 2
    wanted = {state.delegate} if state.delegate else set()
    if over and set(there) - wanted:
        raise Violation("L2", f"pod {s} has ended, left behind: {sorted(set(there) - wanted)}")
    if over:
        return
    if state.delegate and set(there) == wanted and there[state.delegate]:
        _shown(state, pod, s)
    elif state.delegate:
        raise Violation("L2", f"pod {s} is with {state.delegate}; there are {there}")
    elif not hopeless:
        raise Violation("L1", f"pod {s} is nowhere although there is room; there are {there}")


def _shown(state: SourceState, pod: Json, s: int) -> None:
    said = [c["message"] for c in pod["status"].get("conditions", []) if c["type"].endswith("/Delegated")]
    if not said or state.delegate not in said[0]:
        raise Violation("L2", f"pod {s} does not say where it is: {said}")
    if "annotations" not in meta(pod):
        raise Violation("L2", f"pod {s} has no hint to its delegate")


def _hopeless(moves: Moves, g: Global, s: int, free: list[int]) -> bool:
    """Whether every target that could take pod `s` is full of others."""
    config = moves.config
    others = [r for r in range(config.sources) if r != s]
    for t in free:
        used = sum(moves.cells[moves.index(r, t)].used(g.cells[moves.index(r, t)].side) for r in others)
        if used < config.capacity:
            return False
    return True
