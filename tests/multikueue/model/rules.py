"""What must hold of one Workload over several workers in every state, and in those where nothing is left to do."""

from __future__ import annotations

from controlplane.controllers.multikueue.context import NEVER_TWICE
from tests.multikueue.model import dispatchers, elastic_kueue, kueue
from tests.multikueue.model.moves import Moves
from tests.multikueue.model.upheaval import LOST
from tests.multikueue.model.world import Frame, Global, Violation, foreign_job


def check(moves: Moves, g: Global) -> None:
    """Raise `Violation` if a state breaks a rule about safety, or what can come of it before anybody looks.

    S1: the job runs on one worker at most; under at-least-once those do not count that were given up after their grace.
    S2 is asked when the job is sent (`Ground.with_log`). S3: what is not ours stays as it is. S4: what ran to its end
    does not run again, but after a worker was given up. S5 is asked of each request (`Moves`): it names the object that
    it means. S6: what did not run to its end is not said to have ended. S7: of the copies one may preempt, as long as
    its pause lasts (which it does here). S8: nobody stops a job because it is made larger. S9 and S10: who is asked
    (`dispatchers`). S11 is asked with S2: the job begins nowhere where a write from before would end it."""
    f, running = moves.frame(g), moves.may_run(g)
    ahead = [[moves.stores[one.number] for one in moves.ahead(g, f, place, g[3 + place])] for place in moves.places]
    counted = running & ~f.given
    if counted & (counted - 1):
        raise Violation("S1", f"the job runs on {names(moves, counted)}")
    left = sum(all(store["job"] == foreign_job() for store in stores) for stores in ahead)
    if left != moves.config.foreign:
        raise Violation("S3", "somebody's job was touched")
    if moves.config.unbroken and any(elastic_kueue.was_stopped(store) for stores in ahead for store in stores):
        raise Violation("S8", "the job was stopped because it was made larger")
    _check_home(moves, g, f)
    again = [place for place in moves.places if counted >> place & 1 and f.over & moves.all & ~(1 << place)]
    opened = [place for place in moves.places if any(kueue.is_open(store["workload"]) for store in ahead[place])]
    if len(opened) > 1:
        raise Violation("S7", f"{[moves.name(place) for place in opened]} may preempt at once")
    upset = any(one in (-2, -3) for one in f.saved)
    if again and not upset and (moves.config.execution == NEVER_TWICE or not f.given):
        raise Violation(
            "S4", f"it ran to its end on {names(moves, f.over & moves.all)}, and runs on {moves.name(again[0])}"
        )


def _check_home(moves: Moves, g: Global, f: Frame) -> None:
    """S6, S9, S10: raise `Violation` if the management cluster says what is not so."""
    upset = any(one in (-2, -3) for one in f.saved)
    for one in moves.ahead(g, f, -1, g[2]):
        home = moves.stores[one.number]
        dispatchers.check(moves.config, f, home)
        done = any(elastic_kueue.has_finished(home[slot]) for slot in moves.config.slots[:-1])
        if (done or kueue.complete(home["job"])) and not f.over and not upset:
            raise Violation("S6", "it is said to have ended, and has not")


def names(moves: Moves, bits: int) -> list[str]:
    """Return the names of workers; of those that were before under a name, with that."""
    count = moves.config.clusters
    before = [f"the one that was {moves.name(place)}" for place in moves.places if bits >> count >> place & 1]
    return [moves.name(place) for place in moves.places if bits >> place & 1] + before


def settled(moves: Moves, g: Global) -> None:
    """L1, L2: raise `Violation` if a state in which nothing is left to do is not as it should be: the Workload is
    finished, or gone, and nothing of it is left on any worker."""
    home, f = moves.store(g, -1), moves.frame(g)
    lost = [one == LOST for one in f.saved]
    if any(lost) and moves.config.execution == NEVER_TWICE:
        return  # it waits for an operator
    routed = moves.process.logs[g[1]].routed
    if all(gone or not routed >> place & 1 for place, gone in enumerate(lost)):
        return  # it waits for a cluster
    for slot in moves.config.slots[:-1]:
        if home[slot] is not None and not kueue.condition(home[slot], "Finished"):
            raise Violation("L1", f"the {slot} never finishes")
    told = any(lost) or f.over & moves.untold
    if home["job"] is not None and not kueue.complete(home["job"]) and not told:
        raise Violation("L1", "the user's job does not say that it has ended")
    for place, name in enumerate(moves.config.names):
        store = moves.store(g, place)
        if lost[place]:
            continue
        left = [slot for slot in moves.config.slots if store[slot] is not None]
        if store["job"] == foreign_job():
            left = [slot for slot in left if slot != "job"]
        if left:
            raise Violation("L2", f"left behind on {name}: {left}")
