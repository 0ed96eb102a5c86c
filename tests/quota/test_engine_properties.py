"""What holds in every fleet: usage stays within limits, a decision changes nothing by itself, and the order in which
things became known does not matter."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from controlplane.controllers.quota.engine import parse_queues, pending
from controlplane.controllers.quota.engine.amounts import FlavorResource
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit
from controlplane.controllers.quota.engine.flavor_assigner import FlavorAssigner
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import PodSet, Workload
from controlplane.controllers.quota.engine.modes import AssignmentMode, Possibility
from controlplane.controllers.quota.engine.pending import PendingQueue, order_of
from controlplane.controllers.quota.engine.state import State
from controlplane.controllers.quota.engine.tree import QuotaNode
from controlplane.controllers.quota.topology.queue_topology import QueueTopology
from tests.quota.answers import Play
from tests.quota.fleets import Fleet, question
from tests.support.deep import examples

SEEDS = st.integers(20_000, 10**9)
GENERATED = settings(max_examples=examples(20, 400), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def nodes(state: State) -> dict[tuple[bool, str], QuotaNode]:
    found: dict[tuple[bool, str], QuotaNode] = {(False, cohort.name): cohort for cohort in state.snapshot.cohorts()}
    return found | {(True, queue.name): queue for queue in state.snapshot.queues.values()}


def figures(state: State) -> dict[object, object]:
    """Return what the trees say; where nothing is used or lent, it does not matter whether that is written down."""
    return {
        key: (
            {place: amount for place, amount in node.usage.items() if amount},
            {place: amount for place, amount in node.subtree.items() if amount},
            {place: node.available(place) for place in node.subtree},
            {place: sorted(one.name for one in over) for place, over in node.over.items() if over},
        )
        for key, node in nodes(state).items()
    }


@pytest.mark.generated
@GENERATED
@given(SEEDS)
def test_who_is_not_tried_after_a_release_would_not_fit(seed: int) -> None:
    asked = question(seed)
    play = Play({**asked, "fairSharing": None, "admissionFairSharing": None}, spares_no_fit)
    play.answer()
    spares_no_fit(play.state)


def spares_no_fit(state: State) -> State:
    """Let only those be tried again whom a release may help, and look at the others."""
    state.settings = replace(state.settings, try_all_released=False)
    state.wake_released()
    for queue in state.snapshot.queues.values():
        pending = state.queues.pending[queue.name]
        for info in pending.inadmissible.values():
            known = pending.no_fit.get(info.shape)
            if known is None or known.short_of is None or state.snapshot.has_cycle(queue):
                continue
            topology = QueueTopology(state.snapshot, queue)
            others = nobody if queue.spec.preemption.none else anybody
            assigner = FlavorAssigner(info, queue, state.snapshot.flavors, others, state.cycle, topology)
            found = assigner.assign().mode
            unhelped = AssignmentMode.PREEMPT if queue.spec.preemption.none else AssignmentMode.NO_FIT
            assert found in (AssignmentMode.NO_FIT, unhelped)
    return state


def nobody(place: FlavorResource, amount: int) -> tuple[Possibility, int]:
    return Possibility.NO_CANDIDATES, 0


def anybody(place: FlavorResource, amount: int) -> tuple[Possibility, int]:
    return Possibility.PREEMPT, 0


@pytest.mark.generated
@GENERATED
@given(SEEDS)
def test_a_decision_changes_nothing_and_is_always_the_same(seed: int) -> None:
    play = Play(question(seed))
    before = copy.deepcopy(figures(play.state))
    first = decide(play.state, play.now)
    assert figures(play.state) == before
    assert decide(play.state, play.now) == first


@pytest.mark.generated
@GENERATED
@given(SEEDS)
@example(24872)
def test_usage_stays_within_limits(seed: int) -> None:
    play = Play(question(seed))
    for _ in range(4):
        play.now += 60
        decisions = decide(play.state, play.now)
        for decision in decisions:
            if isinstance(decision, Admit):
                before = {cohort: dict(cohort.usage) for cohort in play.state.snapshot.cohorts()}
                play.state.apply([decision], play.now)
                _within_limits(play.state, decision, before)
        play.state.apply([one for one in decisions if not isinstance(one, Admit)], play.now)
        for node in nodes(play.state).values():
            assert all(amount >= 0 for amount in node.usage.values())


def _within_limits(state: State, decision: Admit, before: dict[QuotaNode, dict[FlavorResource, int]]) -> None:
    """What was admitted fits: into the nominal quota with what may be borrowed, and beside what others may not lend."""
    queue = state.snapshot.queues[decision.cluster_queue]
    for place, amount in state.snapshot.workloads[decision.workload].usage.items():
        quota = queue.quota(place)
        if not amount:
            continue
        if queue.parent is None:
            assert queue.usage[place] <= quota.nominal
        if quota.borrowing_limit is not None:
            assert queue.usage[place] <= quota.nominal + quota.borrowing_limit
        for cohort in queue.ancestors():
            limit = cohort.quota(place).borrowing_limit
            if cohort.usage.get(place, 0) == before[cohort].get(place, 0):
                break  # It came out of what a child keeps for itself, however much others use.
            if cohort.parent is None:
                # What a child keeps for itself by its lending limit is not in its parent's subtree.
                assert cohort.usage.get(place, 0) <= cohort.subtree.get(place, 0)
            elif limit is not None:
                assert cohort.usage.get(place, 0) <= cohort.subtree[place] + limit


@pytest.mark.generated
@GENERATED
@given(SEEDS, st.randoms(use_true_random=False))
def test_the_order_in_which_objects_come_does_not_matter(seed: int, chance: random.Random) -> None:
    asked = question(seed)
    mixed = copy.deepcopy(asked)
    chance.shuffle(mixed["objects"])
    first, second = Play(asked), Play(mixed)
    assert figures(first.state) == figures(second.state)
    found, other = (decide(play.state, play.now) for play in (first, second))
    key = lambda one: (one.cluster_queue, one.workload)  # noqa: E731
    for a, b in zip(sorted(found, key=key), sorted(other, key=key), strict=True):
        assert type(a) is type(b)
        assert key(a) == key(b)
        assert getattr(a, "message", "") == getattr(b, "message", "")


@pytest.mark.generated
@GENERATED
@given(SEEDS)
def test_changes_lead_where_a_new_start_leads(seed: int) -> None:
    """Quotas, parents and workloads change and go; what is left is what a state has that saw only the last objects."""
    old, new = Fleet(seed), Fleet(seed + 1)
    asked, wanted = old.question(), new.question()
    if old.has["afs"] or new.has["afs"] or old.has["cycle"]:
        return
    play = Play(asked)
    decide(play.state, play.now)
    _replace(play, wanted)
    assert figures(play.state) == figures(Play(wanted).state)
    decide(play.state, play.now)


def _replace(play: Play, wanted: dict[str, object]) -> None:
    state, now = play.state, play.now
    left = {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in wanted["objects"]}  # type: ignore[attr-defined]
    play.question = wanted
    for obj in wanted["objects"]:  # type: ignore[attr-defined]
        play._put(obj)
    for key in list(play.workloads):
        if ("Workload", *key.split("/")) not in left or key in wanted["later"]:  # type: ignore[operator]
            state.drop_workload(key, now)
    for name in list(state.snapshot.queues):
        if ("ClusterQueue", "", name) not in left:
            state.drop_cluster_queue(name, now)
    for cohort in [cohort.name for cohort in state.snapshot.cohorts()]:
        if ("Cohort", "", cohort) not in left:
            state.drop_cohort(cohort, now)
    for name in list(state.snapshot.flavors):
        if ("ResourceFlavor", "", name) not in left:
            state.drop_flavor(name, now)


def waiting(name: str, priority: int, at: float, queue: str = "lq") -> Workload:
    return Workload("ns", name, name, queue, priority, (PodSet("main", 1, 1, {"cpu": priority}),), at)


@pytest.mark.generated
@GENERATED
@given(
    st.integers(0, 3),
    st.lists(
        st.tuples(
            st.sampled_from(["put", "delay", "drop", "requeue", "set aside", "wake", "wake all"]),
            st.integers(0, 9),
            st.integers(0, 3),
            st.integers(0, 5),
        ),
        max_size=60,
    ),
)
def test_the_head_is_the_first_by_priority_and_time(spare: int, steps: list[tuple[str, int, int, int]]) -> None:
    """Whatever is set aside and woken, one by one or all that are alike; `spare`: how soon the heap is made anew."""
    queue = PendingQueue("q", "BestEffortFIFO")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending, "_SPARE", spare)
        for what, number, priority, at in steps:
            key, head = f"ns{number % 2}/{number}", queue.head()
            if what in ("put", "delay"):
                made = replace(waiting(str(number), priority, at), namespace=f"ns{number % 2}")
                queue.put(Info(replace(made, requeue_at=20.0 * (what == "delay"))), 10.0)
            elif what == "drop":
                queue.drop(key)
            elif what in ("wake", "wake all"):
                may = [one for one in queue.inadmissible.values() if one.workload.requeue_at <= 10.0]
                may = [one for one in may if what == "wake all" or one.workload.namespace == "ns0"]
                admits = {"wake": lambda namespace: namespace == "ns0", "wake all": lambda namespace: True}[what]
                assert queue.wake(10.0, admits, queue.wakes + 1) == len(may)
                assert {one.key for one in may} <= queue.active.keys()
            elif head is not None:
                queue.requeue(head, "NoFit" if what == "requeue" else "", 10.0, queue.wakes)
                assert head.key in queue.inadmissible
            assert not set(queue.active) & set(queue.inadmissible)
            first = min((order_of(info.workload) for info in queue.active.values()), default=None)
            head = queue.head()
            assert (head and order_of(head.workload)) == first


def test_a_cohort_that_is_its_own_ancestor_stays_apart() -> None:
    state = State()
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        state.put_cohort(parse_queues.cohort({"metadata": {"name": name}, "spec": {"parentName": parent}}), 0)
    assert [cohort.parent for cohort in state.snapshot.cohorts()] == [None] * 4
    state.put_cohort(parse_queues.cohort({"metadata": {"name": "c"}, "spec": {}}), 0)
    assert {c.name: c.parent and c.parent.name for c in state.snapshot.cohorts()} == {
        "a": "b",
        "b": "c",
        "c": None,
        "d": "a",
    }
