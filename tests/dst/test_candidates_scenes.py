"""Scenes of candidates by hand: what each hazard of the protocol comes to, from the first message to the end of all
trouble.

A placement takes some fifty milliseconds. Where it matters at which of them a fault comes, the scene is played at
several."""

from __future__ import annotations

import pytest

from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE, NEVER_TWICE
from controlplane.dst.engine.run import Outcome
from controlplane.dst.scenes.candidates.plan import TWO_SCHEDULERS
from tests.dst.candidates import CANDIDATES_KIND, played, pod, step
from tests.dst.plans import told
from tests.support.deep import deep_after, deep_but

MOMENTS = [round(5.0 + milliseconds / 1000, 3) for milliseconds in (8, 20, 28, 36, 44, 52, 60)]
#: While the answer is on its way; the others are for `make test-deep`.
AT = pytest.mark.parametrize("at", deep_but((5.044,), MOMENTS))
POLICIES = [(), (NEVER_TWICE,)]


def when(outcome: Outcome, *words: str) -> float:
    """Return when the first line with these words came, in virtual seconds."""
    return float(told(outcome, *words)[0].split()[0])


def test_a_pod_is_offered_permitted_and_runs() -> None:
    outcome = played(pod(5.0))
    assert len(told(outcome, "Reserved on candidate", "NodeFound")) == 2
    assert len(told(outcome, "PermitGranted")) == 1
    assert len(told(outcome, "binding pods web-1")) == 1
    assert when(outcome, "binding pods web-1") < 5.2


@AT
@pytest.mark.parametrize("way", deep_after(1, ["east", "near-east"]))
def test_a_target_is_cut_off_while_it_is_asked(at: float, way: str) -> None:
    """Whether it has the permit or not: nobody else gets one while it may bind (H1)."""
    played(pod(5.0), step(at, "partition", way, 100.0), traits=(NEVER_TWICE,))


@AT
def test_the_source_dies_between_any_two_steps_of_a_placement(at: float) -> None:
    """Whoever leads next sends the same permit again, and no other (H5)."""
    played(pod(5.0), step(at, "crash", "replica-1", value=60), replicas=1)


@AT
@pytest.mark.parametrize("value", deep_but((3,), range(6)))
def test_a_pod_is_changed_while_it_is_placed_and_a_process_dies(at: float, value: int) -> None:
    """Its delegate has the change in the end, and it runs once."""
    outcome = played(
        pod(5.0),
        step(at, "amend-pod", "web-1", value=value),
        step(at + 0.03, "crash", "replica-1", value=60),
        step(at + 0.06, "crash", "east-scheduler-1", value=30),
        replicas=1,
    )
    assert at < 5.02 or told(outcome, "CandidateAmended"), "it was not asked for before"


def test_a_service_comes_with_the_pod_and_goes_with_it() -> None:
    outcome = played(pod(5.0, "conf-1"), step(60.0, "delete-pod", "conf-1"))
    assert told(outcome, "FollowingAllowed")
    assert told(outcome, "CopyDecided")
    assert told(outcome, "CopyDropped")


@AT
def test_a_leader_that_stood_still_comes_back_with_what_it_believed(at: float) -> None:
    """What it still sends carries the version that it saw (H11)."""
    played(pod(5.0), step(at, "pause", "replica-1", 60.0), step(at, "pause", "replica-2", 20.0), replicas=2)


@AT
def test_a_scheduler_dies_or_stands_still(at: float) -> None:
    """Its successor holds what it held, and binds it once."""
    two = (TWO_SCHEDULERS,)
    played(pod(5.0), *(step(at, "crash", f"{where}-scheduler-1", value=30) for where in ("east", "west")), traits=two)
    played(pod(5.0), *(step(at, "pause", f"{where}-scheduler-1", 45.0) for where in ("east", "west")), traits=two)


@pytest.mark.parametrize("policy", [POLICIES[0], pytest.param(POLICIES[1], marks=pytest.mark.deep)])
@pytest.mark.parametrize("at", deep_but((5.044,), MOMENTS[2:]))
def test_a_source_whose_database_is_away_outlives_its_reservations(at: float, policy: tuple[str, ...]) -> None:
    """What was reserved has lapsed and is reserved anew: a permit is for the reservation that it names (H3, H4)."""
    played(pod(5.0), step(at, "database-away", "source", 38.0), traits=policy)


@pytest.mark.parametrize("policy", [POLICIES[0], pytest.param(POLICIES[1], marks=pytest.mark.deep)])
@pytest.mark.parametrize("trouble", deep_after(1, ["lose-replies", "mute", "conflicts", "late-errors"]))
def test_bindings_without_an_answer(trouble: str, policy: tuple[str, ...]) -> None:
    """Executed or not: it is found out, or fenced, before anybody else is permitted (H2)."""
    ways = [step(4.0, trouble, f"near-{where}", 60.0, 60) for where in ("east", "west")]
    played(*ways, pod(5.0), pod(30.0, "web-2"), traits=policy)


@AT
def test_a_pod_is_taken_back_while_it_is_placed(at: float) -> None:
    """Nothing is left of it anywhere (L5)."""
    outcome = played(pod(5.0), step(at, "delete-pod", "web-1"))
    assert told(outcome, "CleanupDone") or not told(outcome, "CandidateRequested")


@pytest.mark.parametrize("seconds", deep_after(1, [0.0, 0.02, 3.0]))
def test_a_successor_waits_for_its_predecessor(seconds: float) -> None:
    """A StatefulSet's next pod starts when the delegate of the one before has stopped (H12)."""
    outcome = played(pod(5.0), step(20.0, "replace-pod", "web-1", seconds))
    assert len(told(outcome, "binding pods web-1")) == 2


def test_a_successor_waits_for_a_target_that_is_cut_off() -> None:
    cut = [step(20.0, "partition", where, 90.0) for where in ("east", "west")]
    played(pod(5.0), *cut, step(21.0, "replace-pod", "web-1", 1.0), north=2, east=2, west=2)


@AT
def test_a_candidate_goes_in_the_breath_in_which_it_came(at: float) -> None:
    """The source hears of its end before its beginning is folded."""
    gone = [step(8.0, "delete-candidate", where) for where in ("east", "west")]
    played(pod(5.0), step(at, "database-away", "source", 20.0), *gone)


def test_candidates_that_come_into_view_late_are_taken_all_the_same() -> None:
    """A scheduler is connected once a kind has failed often enough; what it could not list then, it lists later."""
    outcome = played(
        pod(20.0),
        step(21.0, "crash", "east-scheduler-1"),
        step(21.0, "crash", "west-scheduler-1"),
        step(21.5, "blind", "near-east", 40.0, CANDIDATES_KIND),
        step(21.5, "blind", "near-west", 40.0, CANDIDATES_KIND),
        pod(22.0, "best-2"),
        step(90.0, "cut", "management"),
    )
    assert told(outcome, "Bound on candidate", "best-2")


def test_a_target_that_comes_back_is_in_view_again() -> None:
    """With candidates alone its namespaces are all that is watched of it."""
    away = [step(10.0, "partition", "west", 60.0), step(12.0, "partition", "east", 60.0)]
    outcome = played(pod(5.0), *away, pod(100.0, "web-2"), traits=("candidates-alone",))
    assert when(outcome, "binding pods web-2") < 101.0


@pytest.mark.parametrize("seed", deep_after(1, range(1, 6)))
def test_a_second_binding_under_a_permit_that_fails_is_fenced_too(seed: int) -> None:
    away = [step(4.0, "conflicts", f"near-{where}", 40.0) for where in ("east", "west")]
    played(*away, pod(5.0), pod(6.0, "web-2"), seed=seed)


def test_a_node_that_is_full_is_not_taken_by_a_scheduler_that_has_just_begun() -> None:
    outcome = played(
        step(1.0, "rival", "east", 200.0, 3),
        step(2.0, "rival", "east", 200.0, 3),
        pod(20.0, "web-1", 2),
        step(20.2, "crash", "east-scheduler-1", value=1),
        pod(30.0, "best-2", 2),
    )
    assert told(outcome, "binding pods best-2", "on west")


def test_room_is_made_in_one_target_at_a_time() -> None:
    """Every target is full of pods of lower priority: one of them makes room, and only one pod goes (H9)."""
    full = [step(float(n), "rival", where, 200.0, 3) for n in (1, 2) for where in ("east", "west")]
    outcome = played(*full, pod(20.0, "high-1", 1))
    assert len(told(outcome, "VictimChosen")) == 1
    assert told(outcome, "RoomByPreemption")


def test_a_node_that_goes_takes_its_pods_to_another_target() -> None:
    gone = [step(20.0, "delete-node", where, 150.0, value) for where in ("east",) for value in (0, 1)]
    outcome = played(pod(5.0), *gone)
    assert told(outcome, "binding pods web-1", "on west")


def test_who_is_not_invited_any_more_gets_nothing_new_there() -> None:
    outcome = played(step(2.0, "uninvite", "east", 100.0), pod(5.0), pod(8.0, "web-2"))
    assert not told(outcome, "binding pods", "on east")


def test_a_delegate_that_somebody_deletes_is_placed_anew() -> None:
    outcome = played(pod(5.0), step(20.0, "delete-delegate", "east"), step(20.0, "delete-delegate", "west"))
    assert len(told(outcome, "DelegateLost", "PodMissing")) == 1


def test_another_source_takes_no_harm() -> None:
    """Its candidate is never permitted: its reservation lapses and is made anew, and ours goes on beside it (H10,
    S9).
    """
    outcome = played(
        *(step(2.0, "stranger", where, 90.0, 2) for where in ("east", "west")), pod(5.0), pod(40.0, "web-2", 2)
    )
    assert told(outcome, "Unreserved", "stranger", "Timeout")


@pytest.mark.parametrize("policy", [(AT_LEAST_ONCE,), pytest.param((NEVER_TWICE,), marks=pytest.mark.deep)])
def test_an_unreachable_target_costs_the_others_nothing(policy: tuple[str, ...]) -> None:
    """L3: whoever answers is permitted at once."""
    outcome = played(step(2.0, "partition", "west", 200.0), pod(60.0), traits=policy)
    assert when(outcome, "binding pods web-1", "on east") < 60.5


def test_pods_are_spread_over_zones_in_whichever_target_they_land() -> None:
    outcome = played(*(pod(5.0 + n * 0.01, f"spread-{n}") for n in range(1, 7)), east=2, west=2)
    assert len(told(outcome, "binding pods spread")) == 6
