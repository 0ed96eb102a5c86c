"""Plans of the scene of admission: what they draw can be played, and a part of one is a run of its own."""

from __future__ import annotations

from controlplane.dst.engine.story import command
from controlplane.dst.invariants.admission.quota import overdrawn
from controlplane.dst.play import play
from controlplane.dst.scenes.admission import administrators, limits, people, pod_groups, rearrangements, trouble
from controlplane.dst.scenes.admission.eighth_edition import CHECKS
from controlplane.dst.scenes.admission.plan import plan_of
from controlplane.dst.scenes.admission.queues import SHAPES, QueueShape, Shape, cluster_queues
from controlplane.dst.scenes.workloads.acts import ACTS
from controlplane.dst.scenes.workloads.plan import TROUBLE
from controlplane.dst.scenes.workloads.processes import QUOTA_RULES
from tests.support.rows import each

FITS_EVERYWHERE = 3000  # thousandths of a CPU: the largest job of a plan


def test_every_kind_of_step_is_drawn_and_can_be_played() -> None:
    drawn = {step.kind for seed in range(200) for step in plan_of(seed).steps}
    own = {*people.ACTS, *administrators.ACTS, *pod_groups.ACTS, *limits.ACTS, *rearrangements.ACTS, *trouble.ACTS}
    assert drawn <= {*own, *ACTS}
    assert {*own, *TROUBLE} - {"preempt", "drain-queue"} <= drawn
    assert not drawn & {"preempt", "drain-queue"}, "Kueue is not there to do that"


def test_the_eighth_edition_has_all_that_is_in_the_seventh() -> None:
    for seed in range(40):
        before, after = plan_of(seed, edition=7), plan_of(seed)
        assert set(before.steps) <= set(after.steps)
        assert set(before.traits) <= set(after.traits)
        assert [step.number for step in sorted(after.steps, key=lambda one: one.number)] == [*range(1, after.size + 1)]


def test_every_rule_is_drawn() -> None:
    drawn = {trait for seed in range(100) for trait in plan_of(seed).traits}
    assert {*QUOTA_RULES, CHECKS} <= drawn


def test_a_part_of_a_plan_is_a_run_of_its_own() -> None:
    plan = plan_of(3, edition=7)
    some = plan.only(plan.numbers[::3])
    assert play(some).digest == play(some).digest
    assert command(some).startswith("controlplane simulate --seed 3 --scene admission --plan 7 --steps 1,4")


@each("shape", SHAPES)
def test_any_job_fits_into_any_queue_that_nobody_else_uses(shape: Shape) -> None:
    names = cluster_queues(shape)
    assert [overdrawn({name: FITS_EVERYWHERE}, names, shape.cohort) for name in names] == [""] * len(names)


@each(
    ("used", "wrong"),
    [
        ({"cluster-queue": 4000, "queue-b": 4000}, ""),
        ({"cluster-queue": 5000, "queue-b": 3000}, ""),
        ({"cluster-queue": 6000, "queue-b": 3000}, "the Cohort uses"),
        ({"queue-b": 5000}, "borrowed"),
        ({"cluster-queue": 7000}, "the Cohort uses"),
        ({"nobodys": 1000}, "has no quota"),
    ],
)
def test_what_is_too_much(used: dict[str, int], wrong: str) -> None:
    """4 CPUs of which 2 are lent, 3 of which 1 is, and 1 of the Cohort's own; the second borrows 1 at most."""
    shape = Shape((QueueShape(4, lends=2), QueueShape(3, borrows=1, lends=1)), cohort=1)
    found = overdrawn(used, cluster_queues(shape), shape.cohort)
    assert wrong in found
    assert bool(found) == bool(wrong)
