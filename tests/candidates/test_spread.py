"""Where the pods of a workload are, counted as they come and go, is what it is when all are counted; and what becomes
of one of them has nobody decide about those that it does not concern."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.candidates.source.candidate import Candidate, Permit
from controlplane.controllers.candidates.source.observations import SourcePodObserved
from controlplane.controllers.candidates.source.pods import SourceCandidates
from controlplane.controllers.candidates.source.policy import PlacementPolicy, SourcePolicy
from controlplane.controllers.candidates.source.spread import WorkloadSpread, placed_in
from controlplane.controllers.candidates.source.state import SourceState
from tests.candidates.stage import NS
from tests.candidates.test_copies_there import AT


def pod(name: str, workload: str, place: str, kind: str = "Bind") -> SourceState:
    head = {"namespace": NS, "name": name, "uid": name, "resource_version": "1"}
    seen = SourcePodObserved(**head, template="t", workload=workload)
    known = {name: Candidate(cluster=place, uid=name, epoch=1)}
    state = SourceState(namespace=NS, name=name, pod=seen, uid=name, candidates=known)
    if kind == "Delegate":
        return msgspec.structs.replace(state, delegate=name if place else "")
    permit = Permit(cluster=place, candidate=name, number=1, kind=kind, reservation=1, until=AT) if place else None
    return msgspec.structs.replace(state, permit=permit)


def gone(name: str) -> SourceState:
    return SourceState(namespace=NS, name=name)


names, workloads, places = (
    st.sampled_from("abcd"),
    st.sampled_from(["", "x", "y"]),
    st.sampled_from(["", "east", "west"]),
)
kinds = st.sampled_from(["Bind", "Preempt", "Delegate"])
STEPS = st.tuples(names, st.one_of(st.none(), st.tuples(workloads, places, kinds)), st.integers(0, 1))


@given(st.lists(STEPS, max_size=20), st.dictionaries(names, st.sampled_from(["east", "west"]), max_size=2))
def test_counts_are_those_of_all_pods(
    steps: list[tuple[str, tuple[str, str, str] | None, int]], just: dict[str, str]
) -> None:
    spread, there, skews = WorkloadSpread(), dict[str, SourceState](), dict[str, int]()
    spread.granted = just
    for name, how, skew in steps:
        state = pod(name, *how) if how is not None else gone(name)
        before = {workload: placed(there, workload, {}) for workload in "xy"}
        told = {*spread.note(name, state, skew)}
        there[name], skews[name] = state, skew
        for workload in "xy":
            of = {one for one, known in there.items() if known.pod is not None and known.pod.workload == workload}
            assert (workload in spread) == bool(of)
            assert workload in told or before[workload] == placed(there, workload, {})
            nowhere = sorted(one for one in of if not placed_in(there[one]) and skews[one])
            assert list(spread.waiting(workload)) == nowhere
            for one in "abcd":
                assert +Counter(spread.counts(one, workload)) == placed(there, workload, just, but=one)
    for name in "abcd":
        spread.note(name, gone(name), 0)
    assert (spread._of, spread._counts, spread._waiting) == ({}, {}, {}), "nothing is kept of what is gone"


def placed(there: dict[str, SourceState], workload: str, just: dict[str, str], but: str = "") -> Counter[str]:
    found: Counter[str] = Counter()
    for name, state in there.items():
        if name != but and state.pod is not None and state.pod.workload == workload:
            found.update([place] if (place := placed_in(state) or just.get(name, "")) else [])
    return found


def test_a_place_is_news_only_to_those_that_wait_for_their_spread() -> None:
    """Each of four hundred pods of a workload that got its place had all be decided about: that took a minute."""
    for skew, asked in ((0, []), (1, ["sourcepod/team/b"])):
        policy = SourcePolicy(cluster="home", placement=PlacementPolicy(max_skew=skew))
        controller = SourceCandidates(policy, "me", lambda _: [])
        for name, place in (("a", ""), ("b", ""), ("c", "east")):
            controller._regroup(f"sourcepod/team/{name}", pod(name, "x", place), 1)
        controller.take_dirty()
        controller._dirty.clear()
        for name in "ab":
            controller.sources[f"sourcepod/team/{name}"] = pod(name, "x", "")
        controller._regroup("sourcepod/team/a", pod("a", "x", "west"), 2)
        assert list(controller._dirty) == asked
        assert controller._counts("sourcepod/team/b", pod("b", "x", "")) == ({"east": 1, "west": 1} if skew else {})
