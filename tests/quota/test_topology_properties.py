"""What holds in every fleet with topologies: no domain gets more than it has, all pods are placed, and what was asked
for holds."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit
from controlplane.controllers.quota.engine.state import State
from controlplane.controllers.quota.topology.fleet import fit_in
from tests.quota.topology_answers import TopologyPlay, answer
from tests.quota.topology_fleets import question
from tests.support import folded
from tests.support.deep import examples

SEEDS = st.integers(100_000, 10**9)
GENERATED = settings(max_examples=examples(20, 400), deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Checked(TopologyPlay):
    """Checks after each step what holds."""

    def cycle(self) -> dict[str, object]:
        before = copy.deepcopy(self.state.snapshot.topology.usage)
        decisions = decide(self.state, self.now)
        assert self.state.snapshot.topology.usage == before
        assert decide(self.state, self.now) == decisions
        for decision in decisions:
            if isinstance(decision, Admit):
                self._placed_as_asked(decision)
        found = super().cycle()
        if not any(step["do"] == "drop node" for step in self.question["steps"]):
            self._within_capacity()
        return found

    def _placed_as_asked(self, decision: Admit) -> None:
        wanted = {pod_set.name: pod_set for pod_set in self.workloads[decision.workload].pod_sets}
        fleet = self.state.snapshot.topology
        for given_ in decision.admission.pod_sets:
            if given_.topology is None:
                continue
            assert given_.topology.pods == given_.count
            asked = wanted[given_.name].topology
            flavor = next(fleet.flavors[name] for name in given_.flavors.values() if name in fleet.flavors)
            leaves = [flavor.tree.by_key[values] for values, _ in given_.topology]
            if asked is not None and asked.required and leaves:
                level = flavor.tree.levels.index(asked.required)
                assert len({leaf.above(level).values for leaf in leaves}) == 1

    def _within_capacity(self) -> None:
        for flavor in self.state.snapshot.topology.flavors.values():
            for leaf in flavor.tree.leaves:
                used = self.state.snapshot.topology.usage.get((flavor.shares, leaf.key), {})
                assert not used or fit_in(used, flavor.tree.capacity[leaf.leaf]) >= 1


@pytest.mark.generated
@GENERATED
@example(13700876)
@example(435616)
@given(SEEDS)
def test_pods_are_placed_as_asked_and_no_node_gets_more_than_it_has(seed: int) -> None:
    Checked(question(seed)).answer()


class Keeper:
    """A part beside the state, as a controller is."""

    def __init__(self, state: State) -> None:
        self.state = state


def from_snapshot(state: State) -> State:
    found = folded.copied(Keeper(state), Keeper(State(state.settings))).state
    assert list(found.kept().items()) == list(state.kept().items())
    assert found.snapshot.topology.usage == state.snapshot.topology.usage
    return found


@pytest.mark.generated
@GENERATED
@given(SEEDS)
def test_a_state_made_of_a_snapshot_answers_as_the_one_that_was_kept(seed: int) -> None:
    assert TopologyPlay(question(seed), from_snapshot).answer() == answer(question(seed))
