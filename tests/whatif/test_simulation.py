"""A recorded time is played again: as it was where nothing is changed, and otherwise where something is."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from controlplane.controllers.multikueue.nominate import INCREMENTAL
from controlplane.controllers.multikueue.observations import WorkloadGone
from controlplane.dst.engine.plan import Plan
from controlplane.log.event import Recorded
from controlplane.whatif.agreement import agreement
from controlplane.whatif.history import SLOTS, History
from controlplane.whatif.measure import Measures
from controlplane.whatif.queue import AddedCluster
from tests.audit.script import Script
from tests.dst.plans import plan, step
from tests.support.deep import deep_after, deep_but, examples
from tests.whatif.logs import PlayedLog, played
from tests.whatif.past import Past, near, past

BUSY = plan(*(step(5 + 3 * n, "submit", f"job-{n}", 20 + n % 7 * 5, 1 + n % 3) for n in range(40)))
"""Forty Jobs of one to three CPUs for a fleet that has twelve: most wait."""
LOST = plan(
    *(step(5 + 3 * n, "submit", f"job-{n}", 60, 1 + n % 2) for n in range(12)),
    step(22, "partition", "w1", 400),
    step(500, "cut", "w3"),
)
"""The largest cluster is away for longer than its grace, and comes back."""


TRIED = (Phase.explicit, Phase.reuse, Phase.generate)
"""Each example plays a minute of a fleet: a failing one is told as it is."""


KILLED = plan(
    *(step(5 + 1.7 * n, "submit", f"job-{n}", 20.3 + n % 7 * 5.3, 1) for n in range(30)),
    step(30, "crash", "replica-1", 12),
)
"""The service is killed while most wait, and is away for twelve seconds."""


# --- nothing changed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", deep_after(1, [LOST, BUSY, KILLED], ids=["lost", "busy", "killed"]))
def test_without_a_change_it_goes_as_it_went(of: Plan) -> None:
    found = past(of).play()
    agreed = past(of).agrees(found)
    assert (agreed.agree, agreed.differ, agreed.share) == (agreed.recorded, [], 1.0)
    was, now = past(of).recorded(), found.figures
    assert (now.arrived, now.started, now.waiting, now.finished) == (
        was.arrived,
        was.started,
        was.waiting,
        was.finished,
    )
    assert now.moves == was.moves
    assert near(now.wait_total, was.wait_total)
    assert near(now.lost_hours, was.lost_hours, least=0.002)
    assert near(now.run_hours, was.run_hours, least=0.002)


TAKEN_BACK = plan(
    *(step(5 + 3 * n, "submit", f"job-{n}", 60, 1 + n % 3) for n in range(14)),
    step(30, "delete-job", "job-3"),
    step(48, "delete-job", "job-13"),
)
"""Users take two jobs back: one that runs, and one that waits."""


def test_what_a_user_took_back_is_taken_back_again_and_gives_its_room_to_others() -> None:
    was, found = past(TAKEN_BACK).recorded(), past(TAKEN_BACK).play()
    assert past(TAKEN_BACK).agrees(found).differ == []
    now = found.figures
    assert (now.arrived, now.started, now.finished) == (was.arrived, was.started, was.finished)
    assert was.finished == 12
    assert now.waiting == was.waiting
    assert near(now.run_hours, was.run_hours, least=0.002)


def test_what_is_lost_is_moved_and_its_hours_are_lost() -> None:
    was = past(LOST).recorded()
    assert was.moves > 0
    assert was.lost_hours > 0.01


def quiet(events: Sequence[Recorded], share: float) -> int:
    """Return a position after which nothing happens for a moment: what is on its way there would have to be guessed."""
    pairs = enumerate(itertools.pairwise(events[int(len(events) * share) :]), int(len(events) * share) + 1)
    return next(at for at, (one, next_) in pairs if next_.recorded_at - one.recorded_at > timedelta(seconds=0.5))


@pytest.mark.parametrize("of", deep_after(1, [LOST, BUSY], ids=["lost", "busy"]))
@pytest.mark.parametrize("share", deep_but((0.45,), [0.2, 0.45, 0.7]))
def test_it_may_begin_in_the_middle(of: Plan, share: float) -> None:
    begin = quiet(past(of).events, share)
    found = past(of).play(begin)
    agreed = past(of).agrees(found, begin)
    assert agreed.agree >= 0.95 * agreed.recorded
    assert found.figures.finished == past(of).recorded(begin).finished


@pytest.mark.generated
@settings(
    max_examples=examples(2, 60), deadline=None, suppress_health_check=list(HealthCheck), phases=TRIED, derandomize=True
)
@given(
    jobs=st.lists(
        st.tuples(st.integers(1, 200), st.sampled_from([5.3, 20.6, 60.2, 150.8]), st.integers(1, 3)),
        min_size=3,
        max_size=20,
    ),
    outage=st.none() | st.tuples(st.integers(10, 120), st.sampled_from(["w1", "w2", "w3"]), st.integers(60, 300)),
    seed=st.integers(1, 1000),
)
def test_any_history_without_a_change_goes_as_it_went(
    jobs: Sequence[tuple[int, float, int]], outage: tuple[int, str, int] | None, seed: int
) -> None:
    at, steps = 5.0, []
    for number, (gap, seconds, cpus) in enumerate(jobs):
        at += gap * 0.0973
        steps.append(step(at, "submit", f"job-{number}", seconds, cpus))
    if outage is not None:
        steps.append(step(outage[0], "partition", outage[1], outage[2]))
    steps.append(step(max(at, 420) + 100, "cut", "w3"))
    log = Past(played(plan(*sorted(steps, key=lambda one: one.at), seed=seed)))
    found, was = log.play(), log.recorded()
    agreed = log.agrees(found)
    # Of two clusters that admit within one round trip either may be first. In a full fleet those after it change places
    # with it, and wait no longer for that, all in all.
    assert agreed.share >= 0.99 or len(agreed.differ) <= 1 or was.wait_total > 30, agreed.differ
    assert near(found.figures.wait_total, was.wait_total, share=0.1, least=5.0)
    assert (found.figures.finished, found.figures.waiting) == (was.finished, was.waiting)


def test_the_same_input_gives_the_same_output() -> None:
    def digest() -> str:
        found = Past(played(LOST)).play(without=frozenset({"w2"}))
        return hashlib.sha256(msgspec.json.encode(found)).hexdigest()

    assert digest() == digest()


# --- something changed -----------------------------------------------------------------------------------------------


def queue_of(jobs: Sequence[tuple[int, int]]) -> Plan:
    """Return a plan of Jobs of one CPU each, all in one queue."""
    at, steps = 5, []
    for number, (gap, seconds) in enumerate(jobs):
        at += gap
        steps.append(step(at, "submit", f"job-{number}", seconds, 1))
    return plan(*steps)


@pytest.mark.generated
@settings(
    max_examples=examples(2, 60), deadline=None, suppress_health_check=list(HealthCheck), phases=TRIED, derandomize=True
)
@given(
    jobs=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([20, 60, 150])), min_size=10, max_size=30),
    more=st.integers(1, 6),
)
def test_more_capacity_never_lengthens_the_waiting_of_one_queue(jobs: Sequence[tuple[int, int]], more: int) -> None:
    log = Past(played(queue_of(jobs)))
    added = AddedCluster(name="w4", capacity={"cpu": float(more)})
    before, after = log.play().figures, log.play(added=(added,)).figures
    assert after.wait_total <= before.wait_total + 1.0


def test_an_added_cluster_takes_some_of_what_waits() -> None:
    log = past(BUSY)
    before = log.play().figures
    after = log.play(added=(AddedCluster(name="w4", capacity={"cpu": 6.0}, labels={"zone": "d"}),)).figures
    assert after.clusters["w4"].placed > 0
    assert after.clusters["w4"].utilisation is not None
    assert after.wait_total < before.wait_total / 2
    assert after.finished == before.finished


def test_an_added_cluster_is_in_view_again_once_the_service_is() -> None:
    later = [step(90 + 1.7 * n, "submit", f"job-{n}", 60.3, 1) for n in range(16)]
    log = past(plan(step(5, "submit", "job-a", 20.3, 1), step(30, "crash", "replica-1", 12), *later))
    assert log.history.absences
    found = log.play(added=(AddedCluster(name="w4", capacity={"cpu": 6.0}),))
    assert any("w4" in placed for stream, placed in found.placements.items() if "job-a" not in stream)
    assert found.figures.wait_total < log.recorded().wait_total


@pytest.mark.parametrize("gone", deep_after(1, ["w1", "w2", "w3"]))
def test_without_a_cluster_its_jobs_go_elsewhere(gone: str) -> None:
    log = past(BUSY)
    before, found = log.play(), log.play(without=frozenset({gone}))
    assert before.figures.clusters[gone].placed > 0
    assert all(gone not in placed for placed in found.placements.values())
    left = {"w1", "w2", "w3"} - {gone}
    fit = {
        stream
        for stream in before.placements
        if any(log.history.request(stream)["cpu"] <= log.capacities.of[one]["cpu"] for one in left)
    }
    assert found.placements.keys() <= fit
    assert found.figures.arrived == found.figures.started + found.figures.waiting
    # All of it is longer than the log, which ends with the last Job.
    assert len(found.placements) > 25
    assert found.figures.wait_total > before.figures.wait_total


def test_without_the_cluster_that_was_lost_nothing_is_lost() -> None:
    found = past(LOST).play(without=frozenset({"w1"}))
    assert (found.figures.moves, found.figures.lost_hours) == (0, 0.0)


def test_a_longer_grace_moves_nothing() -> None:
    found = past(LOST).play(policy={"worker_lost_timeout": timedelta(hours=1)})
    assert (found.figures.moves, found.figures.lost_hours) == (0, 0.0)


def test_other_quotas_are_the_capacities() -> None:
    log = past(BUSY)
    more = {"w2": {"cpu": 12.0}, "@management/cluster-queue": {"cpu": 21.0}}
    found = log.play(capacities=more)
    assert found.figures.clusters["w2"].placed > log.play().figures.clusters["w2"].placed
    assert found.figures.wait_total < log.play().figures.wait_total
    none = log.play(capacities={"w1": {"cpu": 0.0}})
    assert none.figures.clusters["w1"].placed == 0


def test_another_dispatcher_asks_others() -> None:
    log = past(BUSY)
    found = log.play(policy={"dispatcher": INCREMENTAL, "step_size": 1, "dispatch_round": timedelta(seconds=5)})
    assert found.figures.started == 40
    assert found.events < log.play().events  # fewer copies


# --- what is read out of a log ---------------------------------------------------------------------------------------


def test_the_capacity_of_a_place_is_what_was_used_of_it() -> None:
    assert past(BUSY).capacities.of == {
        "w1": {"cpu": 6.0},
        "w2": {"cpu": 3.0},
        "w3": {"cpu": 3.0},
        "@management/cluster-queue": {"cpu": 12.0},
    }


def test_where_nobody_knows_what_workloads_ask_for_they_are_counted() -> None:
    events = PlayedLog(past(BUSY).events)
    events.requests = {}
    assert set(Past(events).capacities.of["w1"]) == {SLOTS}


def test_waiting_for_room_is_no_latency() -> None:
    log = past(BUSY)
    waited = [one for one in log.history.workloads.values() if (one.reserved_at - one.arrived).total_seconds() > 30]  # type: ignore[operator]
    assert len(waited) > 5
    slow = [one for one in waited if log.capacities.waits[one.stream] > 30]
    assert len(slow) < len(waited)


def test_measures_are_of_their_time() -> None:
    log = past(BUSY)
    middle = log.events[len(log.events) // 2].recorded_at
    first, second = Measures(log.begin, middle, {}), Measures(middle, log.end, {})
    for one in log.events:
        if one.recorded_at <= middle:
            first.take(one)
        second.take(one)
    found = [one.result({}) for one in (first, second)]
    whole = log.recorded()
    assert sum(one.arrived for one in found) == whole.arrived
    assert sum(one.finished for one in found) == whole.finished
    assert near(sum(one.run_hours for one in found), whole.run_hours, least=0.001)


@pytest.mark.parametrize("listed", [False, True])
def test_one_that_is_made_again_under_its_name_is_another_workload(listed: bool) -> None:
    """`listed`: a list shows it before it says that the one before is gone."""
    script = Script("a", "b")
    begin = script.now
    script.workload("waits-0a1b2").job().seen().gone()  # and is not made again
    first = script.workload("train-0a1b2").runs("a")
    gone = WorkloadGone(namespace=first.namespace, name=first.name, uid=first.uid)
    first.remote_job_gone("a").clone_gone("a")
    if not listed:
        first.put(gone)
    script.now += timedelta(hours=1)
    second = script.workload("train-0a1b2")
    second.uid = "second"
    second.seen()
    if listed:
        second.put(gone)
    second.runs("b")
    script.now += timedelta(hours=1)
    measures, history = Measures(begin, script.now, {}), History()
    for one in script.recorded:
        measures.take(one)
        history.take(one)
    found = measures.result({})
    assert (found.arrived, found.started, found.waiting, found.moves) == (3, 2, 0, 0)
    assert {name: one.placed for name, one in found.clusters.items()} == {"a": 1, "b": 1}
    assert found.wait_max < 60
    assert history.again == {"second"}
    assert [cluster for _, _, cluster in history.workloads[first.stream].placed] == ["a"]


def test_ranks_are_of_what_was_waited() -> None:
    from controlplane.whatif.measure import _rank

    values = [float(one) for one in range(1, 101)]
    assert (_rank(values, 0.5), _rank(values, 0.95), _rank([7.0], 0.95), _rank([], 0.5)) == (50.0, 95.0, 7.0, 0.0)


def test_an_agreement_counts_what_was_played_and_not_recorded() -> None:
    log = past(BUSY)
    found = {stream: [*placed, "w9"] for stream, placed in log.play().placements.items()}
    agreed = agreement(log.history, found, log.begin, log.end)
    assert (agreed.recorded, agreed.agree, agreed.share, agreed.enough) == (40, 40, 0.5, False)
    assert len(agreed.differ) == 40
