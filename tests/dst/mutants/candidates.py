"""The table of deliberate bugs in the candidates' protocol and the scheduler beside a target: the rule that finds each,
and where.

They show that the scene `candidates` bites.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.run import Outcome
from controlplane.dst.play import plan_of, play
from controlplane.dst.scenes.candidates.plan import NO_JOBS, SCENE
from tests.dst.candidates import CANDIDATES_KIND, PODS_KIND, pod, step, written
from tests.dst.mutants import candidates_bugs as bugs
from tests.dst.mutants import candidates_gang_bugs as gangs
from tests.dst.mutants.hunt import Patch, the_epoch_is_not_checked


@dataclass(frozen=True)
class Bug:
    """A bug, the rule that finds it, and where: at the first seed that does, or in a scene by hand where no seed up to
    30 did.
    """

    what: str
    patch: Patch
    rule: str
    seed: int = 0
    scene: Plan | None = None

    @property
    def where(self) -> str:
        """Where it is found, as docs/explanation/simulation.md has it."""
        return f"candidates {self.seed}" if self.scene is None else "a scene by hand"


def find(bug: Bug, seeds: Iterable[int]) -> Outcome | None:
    """Return the first run that the bug breaks, of its scene or of these seeds; all of them hold without it, as other
    tests say.
    """
    plans = [plan_of(seed, scene=SCENE) for seed in seeds] if bug.scene is None else [bug.scene]
    for plan in plans:
        with pytest.MonkeyPatch.context() as patch:
            bug.patch(patch)
            outcome = play(plan)
        if outcome.violation is not None:
            return outcome
    return None


BOTH = ("east", "west")
SUCCESSION = written(pod(5.0), step(20.0, "replace-pod", "web-1", 0.02))
REFUSED = written(*(step(4.0, "conflicts", w, 60.0) for w in BOTH), *(pod(4.0 + n, f"web-{n}") for n in (1, 2, 3)))
LAPSED = written(
    pod(5.0),
    step(5.032, "database-away", "source", 31.0),
    *(step(28.0, "blind", f"near-{w}", 30.0, CANDIDATES_KIND) for w in BOTH),
    seed=4,
)
UNSEEN = written(pod(5.0), step(5.05, "blind", "near-east", 90.0, PODS_KIND), traits=(NEVER_TWICE,))
LATE = written(
    pod(20.0),
    *(step(21.0, "crash", f"{w}-scheduler-1") for w in BOTH),
    *(step(21.5, "blind", f"near-{w}", 40.0, CANDIDATES_KIND) for w in BOTH),
    pod(22.0, "best-2"),
    step(90.0, "cut", "management"),
)
CORDONED = written(*(step(2.0, "cordon", "east", 150.0, value) for value in (0, 1)), pod(100.0))
VANISHED = written(
    pod(5.0),
    *(step(20.0, "partition", f"near-{w}", 60.0) for w in BOTH),
    *(step(25.0, "delete-delegate", w) for w in BOTH),
    *(step(40.0, "compact", w) for w in BOTH),
)
#: Put back to between the binding and its report; to before the binding; to when the pod was not yet deleted.
WENT_BACK = written(pod(5.0), step(5.1, "restore", "east", 40.0))
UNBOUND = written(pod(5.0), *(step(5.07, "restore", w, 40.0) for w in BOTH))
UNDELETED = written(
    pod(5.0), *(step(5.1, "restore", w, 55.0) for w in BOTH), step(19.78, "delete-pod", "web-1"), seed=2
)
COPIED = written(
    pod(5.0, "conf-1"),
    *(step(20.0, "restore", w, 40.0) for w in BOTH),
    step(30.0, "delete-pod", "conf-1"),
    traits=(NO_JOBS,),
)
GIVEN_UP = [step(40.0, "partition", "east", 400.0), step(50.0, "forget", "east", 90.0)]
FORGOTTEN = written(pod(5.0), *GIVEN_UP)
GOING = written(pod(5.0), step(39.9, "delete-candidate", "east"), *GIVEN_UP, seed=4, traits=(NEVER_TWICE,))
GANG = step(5.0, "submit-gang", "gang-9", 0.0, 33)
ALONE = written(step(5.0, "submit-gang", "gang-9", 2.0, 33))
HALF_FULL = written(*(step(float(n), "rival", w, 200.0, 2) for n in (1, 2) for w in BOTH), replace(GANG, at=20.0))
#: With seed 1 a gang goes to `east`. Its nodes are closed, and a member is replaced; or one is deleted while the others
#: are being bound.
STUCK = written(
    GANG, *(step(20.0, "cordon", "east", 100.0, n) for n in (0, 1)), step(21.0, "replace-pod", "gang-9-1", 1.0)
)
BEREFT = written(GANG, step(5.1, "delete-pod", "gang-9-1"))
FULL = written(*(step(float(n), "rival", w, 200.0, 3) for n in (1, 2) for w in BOTH), pod(20.0, "high-1"))

ONE, BOUND, LOST = "one candidate may run", "nothing is bound without a permit", "a lost target is waited for"
WHERE_IT_IS = "a gang's member is permitted where its gang is"
HOLDS_NOTHING = "a forgotten target holds nothing"
SETTLES, FOR_EVER = "everything settles", "nothing is repeated for ever"
BUGS: dict[str, Bug] = {
    "lease-is-enough": Bug("a permit is free again when its lease is over", bugs.a_lease_is_enough, ONE, scene=UNSEEN),
    "successor-at-once": Bug(
        "a pod's successor does not wait for its delegate", bugs.a_successor_does_not_wait, ONE, scene=SUCCESSION
    ),
    "no-grace-for-targets": Bug(
        "a target's delegates are lost with its connection", bugs.a_lost_target_has_no_grace, LOST, 4
    ),
    "never-twice-outlived": Bug("never-twice goes on without the target's word", bugs.never_twice_is_outlived, LOST, 1),
    "losers-stay": Bug("the candidates that lost are not deleted", bugs.the_losers_stay, SETTLES, 1),
    "deleted-stays": Bug(
        "a deleted pod's candidates are not deleted", bugs.a_deleted_pod_leaves_its_candidates, HOLDS_NOTHING, 2
    ),
    "status-goes-back": Bug(
        "a status is shown as the delegate says it",
        bugs.a_status_goes_back,
        "a source pod's status does not go back",
        1,
    ),
    "permit-anew": Bug(
        "a permit that is sent again has another lease",
        bugs.a_permit_is_decided_anew,
        "the same permit is sent again",
        scene=REFUSED,
    ),
    "permit-in-memory": Bug(
        "the number of a permit is kept beside the log", bugs.a_permit_is_in_memory, "the log gives the state", 1
    ),
    "permit-forgotten": Bug("another candidate's word ends a permit", bugs.a_permit_goes_to_all, BOUND, 2),
    "drop-without-uid": Bug(
        "candidates are deleted by name", bugs.drops_without_uid, "only what is ours is written", 1
    ),
    "missing-unminded": Bug(
        "a delegate that is missing stays the delegate", bugs.a_missing_pod_is_not_minded, SETTLES, 1
    ),
    "bind-unpermitted": Bug("a reservation is bound without a permit", bugs.bound_without_a_permit, BOUND, 1),
    "any-permit": Bug("a permit counts for any reservation", bugs.any_permit_will_do, BOUND, scene=LAPSED),
    "ack-before-fence": Bug(
        "a withdrawal is acknowledged while a binding is on its way",
        bugs.acknowledged_before_the_fence,
        ONE,
        scene=UNSEEN,
    ),
    "same-fence": Bug("every fence of a permit says the same", bugs.every_fence_says_the_same, FOR_EVER, 234),
    "finalizer-first": Bug(
        "a Candidate goes before its Pod", bugs.the_finalizer_goes_first, "a Candidate stays until its Pod is gone", 2
    ),
    "uninvited": Bug(
        "who is not invited is taken", bugs.nobody_has_to_be_invited, "who is not invited is not taken", 11
    ),
    "held-is-free": Bug("what is reserved is not counted", bugs.what_is_held_is_free, SETTLES, 1),
    "everybody-preempts": Bug(
        "room is made without a permit", bugs.everybody_makes_room, "room is made only under a permit", scene=FULL
    ),
    "late-kinds": Bug(
        "candidates that are listed late are not taken up", bugs.late_kinds_are_not_taken_up, SETTLES, scene=LATE
    ),
    "cordon-ignored": Bug(
        "cordoned nodes are as good as others",
        bugs.nodes_are_all_alike,
        "nothing goes to a node that is closed",
        scene=CORDONED,
    ),
    "spread-ignored": Bug(
        "topology spread constraints are not kept", bugs.pods_are_not_spread, "pods are spread as they ask for", 16
    ),
    "namespaces-unlisted": Bug(
        "a target that comes back is not listed again", bugs.namespaces_are_not_listed_again, SETTLES, 2
    ),
    "parked-candidates": Bug(
        "writes for a target that was away are forgotten", bugs.parked_writes_are_forgotten, SETTLES, 2
    ),
    "no-tombstones-there": Bug(
        "a scheduler's relist does not tell what vanished", bugs.vanished_objects_stay_known, SETTLES, scene=VANISHED
    ),
    "old-word": Bug(
        "a delegate is lost when its target goes back to before it",
        bugs.an_old_word_counts,
        "a delegate that is called gone is gone",
        scene=WENT_BACK,
    ),
    "unbound-unseen": Bug(
        "what was bound once is taken for bound", bugs.what_was_bound_stays_bound, SETTLES, scene=UNBOUND
    ),
    "between-lists": Bug(
        "candidates are decided on between two lists of a cluster that went back",
        bugs.decided_between_lists,
        "a Candidate stays until its Pod is gone",
        scene=UNDELETED,
    ),
    "restored-copies": Bug(
        "copies that a backup brings back are not looked for",
        bugs.restored_copies_are_not_looked_for,
        SETTLES,
        scene=COPIED,
    ),
    "restore-unnoticed": Bug(
        "that a cluster went back to a backup is not noticed", bugs.a_restore_goes_unnoticed, SETTLES, 1
    ),
    "forgotten-waited-for": Bug(
        "a target that was given up is waited for", bugs.nobody_is_forgotten, HOLDS_NOTHING, scene=FORGOTTEN
    ),
    "given-up-unsaid": Bug("a target that is away counts as given up", bugs.whoever_is_away_is_forgotten, LOST, 4),
    "going-waited-for": Bug(
        "a delegate that was being deleted is waited for in a target that was given up",
        bugs.who_goes_is_waited_for,
        HOLDS_NOTHING,
        scene=GOING,
    ),
    "forgotten-for-good": Bug(
        "what ran on a target that was given up is known no more",
        bugs.the_forgotten_are_unknown,
        SETTLES,
        scene=FORGOTTEN,
    ),
    "one-by-one": Bug("a gang's members are placed one by one", gangs.there_are_no_gangs, WHERE_IT_IS, scene=ALONE),
    "gang-anywhere": Bug(
        "a member of a gang follows to whichever target has room",
        gangs.members_follow_anywhere,
        WHERE_IT_IS,
        scene=STUCK,
    ),
    "half-a-quorum": Bug(
        "one member that is ready is a quorum",
        gangs.one_is_a_quorum,
        "no permission is for fewer than a quorum",
        scene=HALF_FULL,
    ),
    "gang-for-good": Bug(
        "a gang that does not come together stays where it is", gangs.gangs_are_never_dissolved, SETTLES, scene=BEREFT
    ),
    "no-fence-there": Bug("the logs do not check the epoch", the_epoch_is_not_checked, "one process writes", 11),
}


def table(names: Sequence[str] = ()) -> Iterator[str]:
    """Yield the rows of the table in docs/explanation/simulation.md; those of some names are looked for, up to seed
    30.
    """
    for name, bug in BUGS.items():
        found = find(bug, range(1, 31)) if name in names else None
        rule = found.violation.rule if found is not None and found.violation is not None else bug.rule
        where = f"candidates {found.plan.seed}" if found is not None and bug.scene is None else bug.where
        yield f"| `{name}` | {bug.what} | {rule} | {where} |"


if __name__ == "__main__":
    import sys

    for row in table(sys.argv[1:]):
        print(row, flush=True)
