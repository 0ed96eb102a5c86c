"""Where the log knows the queues, quota is decided by the engine: what a change of them changes, and what it does
not."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from difflib import SequenceMatcher

import msgspec
import pytest

from controlplane.controllers.quota.admission.events import AdmissionClusterQueueObserved
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.dst.engine.plan import Plan
from controlplane.log.event import Recorded
from controlplane.runtime.observations import ObjectObserved
from controlplane.whatif.quota_history import PREEMPTED
from controlplane.whatif.quota_objects import problem
from controlplane.whatif.simulation import SimulationResult
from tests.dst.plans import step
from tests.support.deep import deep_after, deep_but, examples
from tests.whatif.logs import PlayedLog, played
from tests.whatif.past import Past, past
from tests.whatif.quota_logs import OF_A_COHORT, cluster_queue, cohort, fleet, given, random_fleet

A, B = "cluster-queue", "queue-b"
BORROWS = fleet(
    step(5, "submit", "job-1-a-low", 60, 3),
    step(10, "submit", "job-2-a-low", 60, 2),
    step(30, "submit", "job-3-b-mid", 60, 3),
)
"""Queue a asks for 5 CPUs and has 3; half a minute later queue b asks for the 3 that it has."""
LINE = fleet(
    step(5, "submit", "job-1-a-low", 60, 2),
    step(10, "submit", "job-2-a-low", 60, 3),
    step(15, "submit", "job-3-a-low", 60, 1),
)
"""In a queue of 3 CPUs one of 3 waits behind one of 2, and one of 1 behind that."""
SHARED = fleet(
    *(step(5 + n, "submit", f"job-{n}-a-low", 60, 1) for n in range(1, 7)),
    step(20, "submit", "job-7-b-low", 60, 1),
    step(21, "submit", "job-8-b-low", 60, 1),
    shape=OF_A_COHORT,
)
"""Queue a has asked for all that the Cohort has, and for more, when queue b asks for some."""


def name(stream: str) -> str:
    """Return which job of a plan a Workload is of: `3-b-mid`."""
    return stream.rpartition("/job-job-")[2].rpartition("-")[0]


def preempted(found: SimulationResult) -> list[str]:
    return [name(stream) for stream, choice in found.quota if choice == PREEMPTED]


def order(found: SimulationResult) -> list[str]:
    """Return who was given quota, in order."""
    return [name(stream) for stream, choice in found.quota if choice != PREEMPTED]


def ran(log: Past, found: SimulationResult) -> set[str]:
    return {name(stream) for stream in found.placements}


KILLED = fleet(
    *SHARED.steps, step(23, "crash", "replica-1", 12), step(30, "submit", "job-9-b-mid", 60, 1), shape=OF_A_COHORT
)
"""The service is killed while some wait, and is away for twelve seconds, in which one comes that may preempt."""
LOST = fleet(*SHARED.steps, step(40, "partition", "w3", 400), step(500, "cut", "w1"), shape=OF_A_COHORT)
"""A cluster is away for longer than its grace: what it had comes back to the queue."""


# --- nothing changed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "of", deep_after(2, [BORROWS, LINE, SHARED, KILLED, LOST], ids=["borrows", "line", "shared", "killed", "lost"])
)
def test_without_a_change_quota_is_decided_as_it_was(of: Plan) -> None:
    log = past(of)
    found = log.play()
    quota = log.quota_agrees(found)
    assert (quota.agree, quota.differ, quota.share) == (quota.recorded, [], 1.0)
    assert quota.recorded >= 3
    assert log.agrees(found).share == 1.0
    was = log.recorded()
    assert (found.figures.preemptions, found.figures.finished) == (was.preemptions, was.finished)
    assert {one: q.given for one, q in found.figures.queues.items()} == {one: q.given for one, q in was.queues.items()}
    assert set(log.history.queues().values()) == {"engine"}


def recorded(log: Past) -> list[tuple[str, str]]:
    """Return what was decided about quota, in the log's order."""
    choices = [(at, stream, one) for stream, of in log.history.quota.requests.items() for at, _, one in of.choices]
    return [(stream, one) for _, stream, one in sorted(choices)]


@pytest.mark.generated
def test_random_fleets_are_decided_as_they_were() -> None:
    """At least 99 of 100 decisions about quota are those of the log, in its order, over all fleets; the others are
    printed. Of what ends within some milliseconds either may be first, and while it is written why a Workload waits,
    which takes some more, others may get the quota that it would get. What follows from such a choice differs too."""
    either = same = 0
    for seed in range(1, examples(1, 30) + 1):
        log = Past(played(random_fleet(seed)))
        was, now = recorded(log), log.play().quota
        matcher = SequenceMatcher(None, was, now, autojunk=False)
        same += sum(block.size for block in matcher.get_matching_blocks())
        either += max(len(was), len(now))
        for what, begin, end, first, last in matcher.get_opcodes():
            if what != "equal":
                print(f"seed {seed}: {was[begin:end]}, played {now[first:last]}")
    print(f"{same} of {either} decisions agree")
    assert either > examples(10, 50)
    assert same >= 0.99 * either


def test_the_same_input_gives_the_same_output() -> None:
    def digest() -> str:
        found = Past(played(SHARED)).play(objects=given(cluster_queue(B, 3, preemption={"reclaimWithinCohort": "Any"})))
        return hashlib.sha256(msgspec.json.encode(found)).hexdigest()

    assert digest() == digest()


@pytest.mark.parametrize("at", deep_but((40.0,), [15.0, 40.0, 70.0]))
def test_it_may_begin_in_the_middle(at: float) -> None:
    log = past(SHARED)
    begin = sum(one.recorded_at <= log.begin + timedelta(seconds=at + 1) for one in log.events)
    found = log.play(begin)
    assert log.quota_agrees(found, begin).share == 1.0
    assert found.figures.finished == log.recorded(begin).finished


# --- other queues ----------------------------------------------------------------------------------------------------


def test_a_preemption_that_did_not_happen_happens_where_a_queue_borrows() -> None:
    log = past(BORROWS)
    assert preempted(log.play()) == []
    lends = cluster_queue(B, 3, preemption={"reclaimWithinCohort": "Any"})
    found = log.play(objects=given(cluster_queue(A, 3), lends))
    assert preempted(found) == ["2-a-low"]
    assert order(found) == ["1-a-low", "2-a-low", "3-b-mid", "2-a-low"]
    assert (found.figures.preemptions, found.figures.queues[A].preemptions) == (1, 1)
    # It runs anew, for as long as it ran.
    assert found.figures.finished == 3
    assert found.figures.lost_hours == pytest.approx(20 / 3600, abs=0.001)


def test_the_head_of_a_strict_queue_keeps_others_waiting() -> None:
    log = past(LINE)
    assert order(log.play()) == ["1-a-low", "3-a-low", "2-a-low"]
    found = log.play(objects=given(cluster_queue(A, 3, queueingStrategy="StrictFIFO", cohortName="")))
    assert order(found) == ["1-a-low", "2-a-low", "3-a-low"]


def test_with_less_quota_just_those_wait_that_it_is_too_little_for() -> None:
    log = past(LINE)
    found = log.play(objects=given(cluster_queue(A, 2, cohortName="")))
    assert ran(log, found) == {"1-a-low", "3-a-low"}
    assert found.figures.waiting == 1


def test_a_capacity_of_a_clusterqueue_is_its_nominal_quota() -> None:
    log = past(LINE)
    less = log.play(capacities={f"@management/{A}": {"cpu": 2.0}, f"@management/{B}": {"cpu": 0.0}})
    assert ran(log, less) == {"1-a-low", "3-a-low"}


def test_a_cohort_that_is_added_has_quota_for_all() -> None:
    log = past(LINE)
    found = log.play(objects=given(cluster_queue(A, 3, cohortName="more"), cohort("more", 3)))
    assert order(found) == ["1-a-low", "2-a-low", "3-a-low"]
    assert found.figures.queues[A].wait_p95 < 1
    assert log.play().figures.queues[A].wait_p95 > 30


def test_by_fair_sharing_who_has_less_comes_first() -> None:
    log = past(SHARED)
    none = {"preemption": {}}
    objects = given(cluster_queue(A, 0, **none), cluster_queue(B, 0, **none), cohort("all", 4))
    first_come = log.play(objects=objects)
    shared = log.play(objects=objects, quota=EngineSettings(fair_sharing=True))
    of_a = [f"{n}-a-low" for n in range(1, 5)]
    assert order(first_come)[:6] == [*of_a, "5-a-low", "6-a-low"]
    assert order(shared)[:4] == of_a
    assert set(order(shared)[4:6]) == {"7-b-low", "5-a-low"} or order(shared)[4] == "7-b-low"


def test_a_queue_that_was_changed_is_changed_when_it_was() -> None:
    log = past(LINE)
    seen = next(one for one in log.events if one.stream == f"admission/clusterqueue/{A}")
    spec = cluster_queue(A, 6)["spec"]
    changed = Recorded(
        position=0,
        stream=seen.stream,
        version=0,
        event=msgspec.structs.replace(seen.event, spec=spec),
        cluster=seen.cluster,
        recorded_at=log.begin + timedelta(seconds=30),
    )
    events = PlayedLog(sorted([*log.events, changed], key=lambda one: one.recorded_at))
    events.requests = log.events.requests
    found = Past(events).play()
    # One of 2 CPUs ran, and those of 1 and 3 fit with 6.
    assert found.figures.wait_max == pytest.approx(21, abs=2)


def test_a_capacity_is_held_against_what_a_clusterqueue_was_in_the_time() -> None:
    """The ClusterQueue has no quota at all for the first half minute."""
    log, since = past(LINE), past(LINE).begin + timedelta(seconds=30)
    events = PlayedLog()
    for one in log.events:
        if isinstance(one.event, AdmissionClusterQueueObserved) and one.event.name == A and one.recorded_at <= since:
            empty = msgspec.structs.replace(one.event, spec={**one.event.spec, "resourceGroups": []})
            events += [msgspec.structs.replace(one, event=empty), msgspec.structs.replace(one, recorded_at=since)]
        else:
            events.append(one)
    events.sort(key=lambda one: one.recorded_at)
    events.requests = log.events.requests
    changed, asked = Past(events), {f"@management/{A}": {"cpu": 6.0}}
    found = problem({}, asked, changed.history.quota, changed.begin)
    assert found.startswith(f"clusterQueues.{A}.cpu: the ClusterQueue has no quota of it")
    assert problem({}, asked, changed.history.quota, since) == ""
    later = sum(one.recorded_at <= since for one in events)
    assert changed.play(later, capacities=asked).figures.finished > 0


def test_what_is_not_simulated_waits_for_no_quota_of_others() -> None:
    """An elastic job waits for 2 CPUs as the time begins; another one comes after it."""
    log = past(
        fleet(
            step(5, "submit", "job-1-a-low", 60, 3),
            step(10, "submit-elastic", "job-2-a-low", 60, 2),
            step(15, "submit", "job-3-a-low", 60, 2),
        )
    )
    begin = sum(one.recorded_at <= log.begin + timedelta(seconds=13) for one in log.events)
    assert log.play(begin).figures.queues[A].wait_p50 > 45  # as it was
    found = log.play(begin, objects=given(cluster_queue(A, 5, cohortName="")))
    assert order(found) == ["3-a-low"]
    assert found.figures.queues[A].wait_p50 < 1


def test_what_cannot_be_simulated_has_the_quota_that_it_had() -> None:
    log = past(fleet(step(5, "submit-elastic", "job-1-a-low", 60, 4), *LINE.steps[1:]))
    found = log.play()
    assert found.beyond == {"a slice of an elastic job": 1}
    assert order(found) == ["2-a-low", "3-a-low"]
    assert found.figures.queues[A].wait_p50 > 45  # until it has ended
    assert log.quota_agrees(found).share == 1.0


def test_a_job_without_checks_runs_where_it_is() -> None:
    log = past(LINE)
    found = log.play(objects=given(cluster_queue(A, 3, cohortName="", admissionChecksStrategy={})))
    assert (found.placements, found.figures.finished) == ({}, 2)  # the log ends with the third
    assert (found.figures.started, found.figures.waiting) == (3, 0)
    assert found.figures.wait_max == pytest.approx(60, abs=6)  # until the first has ended
    assert order(found) == ["1-a-low", "3-a-low", "2-a-low"]


def test_a_queue_that_is_drained_gives_its_quota_back() -> None:
    log = past(fleet(*LINE.steps, step(30, "stop-queue", "job-1-a-low", 20, 5)))
    found = log.play()
    assert log.quota_agrees(found).share == 1.0
    assert any("quota" in choice for _, choice in found.quota[3:])  # once it is opened again
    assert (found.figures.preemptions, found.figures.finished) == (0, 3)


def test_what_kueue_gave_quota_has_one_queue_until_this_service_decides() -> None:
    """Admission lists all that there is when two of the three have come, of which one has quota already."""
    log = past(BORROWS)
    since = log.begin + timedelta(seconds=12)
    before = [one for one in log.events if one.recorded_at <= since and one.stream.startswith("admission/")]
    listed = {one.stream: one for one in before if isinstance(one.event, ObjectObserved)}
    events = PlayedLog(one for one in log.events if one not in before)
    events += [msgspec.structs.replace(one, recorded_at=since) for one in listed.values()]
    events.sort(key=lambda one: one.recorded_at)
    events.requests = log.events.requests
    changed = Past(events)
    found = changed.play()
    assert changed.history.queues() == {A: "both", B: "engine"}
    assert changed.agrees(found).share == 1.0
    assert sorted(order(found)) == ["2-a-low", "3-b-mid"]
