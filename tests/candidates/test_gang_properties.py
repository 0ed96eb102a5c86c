"""Whatever happens in whatever order, a gang is permitted and runs in one target, by a quorum; and in the end it is
placed whole.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.events import PermitGranted
from controlplane.controllers.candidates.source.gang_events import GangPermitted, GangReleased
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE, NEVER_TWICE
from tests.candidates.gang_world import GangWorld, restarted
from tests.candidates.stage import NS
from tests.support.deep import examples

GROUPS, TARGETS, LEAST = ("g", "h"), ("a", "b"), 2
groups, targets, numbers = st.sampled_from(GROUPS), st.sampled_from(TARGETS), st.integers(0, 2)


class Gangs(RuleBasedStateMachine):
    """Two gangs of two, with an extra member or not, and two targets with room for one of them, or less, or more."""

    world: GangWorld
    twice: bool

    @initialize(twice=st.booleans(), together=st.booleans(), sizes=st.tuples(st.integers(2, 3), st.integers(2, 3)))
    def begin(self, *, twice: bool, together: bool, sizes: tuple[int, int]) -> None:
        policy = AT_LEAST_ONCE if twice else NEVER_TWICE
        self.world, self.twice = GangWorld(a=2, b=2).policy(execution_policy=policy), twice
        if not together:
            self.world.together.clear()
        for group, size in zip(GROUPS, sizes, strict=True):
            self.world.gang(group, size, LEAST)
        self.made = 10
        self.checked = 0

    # --- steps -------------------------------------------------------------------------------------------------------

    @rule()
    def source_looks(self) -> None:
        self.world.look()

    @rule()
    def source_sends(self) -> None:
        self.world.source.send(self.world._reached, self.world.source.capability.sources)

    @rule(name=targets)
    def target_looks(self, name: str) -> None:
        self.world.target(name)

    @rule(name=targets)
    def scheduler_goes(self, name: str) -> None:
        self.world.schedule(name)

    @rule()
    def all_goes_on(self) -> None:
        self.world.run(2)

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    @rule(name=targets, room=st.integers(0, 6))
    def room_changes(self, name: str, room: int) -> None:
        self.world.room[name] = max(room, len(self.world.schedulers[name].capability.taken()))

    @rule(name=targets, group=groups, number=numbers)
    def a_node_goes(self, name: str, group: str, number: int) -> None:
        self.world.give_up(name, f"{group}-{number}")

    @rule(name=targets, group=groups, number=numbers)
    def a_pod_vanishes(self, name: str, group: str, number: int) -> None:
        self.world.evict(name, f"{group}-{number}")

    @rule(name=targets)
    def a_target_is_lost(self, name: str) -> None:
        if name not in self.world.away:
            self.world.lose(name)

    @rule(name=targets)
    def a_target_is_back(self, name: str) -> None:
        if name in self.world.away:
            self.world.back(name)

    @rule(seconds=st.sampled_from([1, 6, 16, 31, 40, 400, 1000]))
    def time_passes(self, seconds: int) -> None:
        self.world.tick(seconds)

    @rule()
    def a_new_leader(self) -> None:
        restarted(self.world)

    @rule(group=groups, number=numbers)
    def a_member_is_replaced(self, group: str, number: int) -> None:
        name = f"{group}-{number}"
        if name in self.world.home["pods"]:
            self.world.delete(name)
            self.world.member(group, self.made)
            self.made += 1

    @rule(group=groups)
    def a_group_is_deleted_and_made_again(self, group: str) -> None:
        self.world.no_group(group)
        self.world.look()
        self.world.group(group, LEAST)

    # --- what holds --------------------------------------------------------------------------------------------------

    @invariant()
    def no_group_is_permitted_or_bound_in_two_targets(self) -> None:
        for group in GROUPS:
            found = set()
            for state in self._states(group):
                if state.permit is not None and state.permit.kind == "Bind":
                    found.add(state.permit.cluster)
                if state.chosen is not None:
                    found.add(state.chosen.cluster)
            assert len(found) <= 1, (group, found)

    @invariant()
    def never_twice_is_never_in_two_targets(self) -> None:
        if self.twice:
            return
        for group in GROUPS:
            live = [name for name in self.world.home["pods"] if name.startswith(f"{group}-")]
            assert len({target for name in live for target in self.world.where(name)}) <= 1

    @invariant()
    def nobody_is_permitted_but_with_a_quorum_or_after_one(self) -> None:
        rows = self.world.source.rows
        for index in range(self.checked, len(rows)):
            event, stream = rows[index].event, rows[index].stream
            if isinstance(event, GangPermitted) and event.kind == "Bind" and event.reason != CandidateReason.GANG_FOUND:
                together = rows[index + 1 : index + 1 + len(event.members)]
                assert [row.stream.rpartition("/")[2] for row in together] == event.members
                assert all(isinstance(row.event, PermitGranted) for row in together)
                assert len({row.event.cluster for row in together}) == 1
                assert len(event.members) >= event.least
            if isinstance(event, PermitGranted) and event.kind == "Bind":
                placed = self._placed(stream.rpartition("/")[2][0], index)
                assert placed == event.cluster, (stream, placed)
        self.checked = len(rows)

    def _placed(self, group: str, until: int) -> str:
        """Where a group was permitted, by its own stream, when something was said."""
        placed = ""
        for row in self.world.source.rows[:until]:
            if row.stream != f"sourcegroup/{NS}/{group}":
                continue
            if isinstance(row.event, GangPermitted) and row.event.kind == "Bind":
                placed = row.event.cluster
            elif isinstance(row.event, GangReleased):
                placed = ""
        return placed

    @invariant()
    def what_is_folded_anew_is_the_same(self) -> None:
        if len(self.world.source.rows) % 7:
            return
        before = self.world.source.capability
        restarted(self.world)
        after = self.world.source.capability
        assert before.sources == after.sources
        assert before.gangs.groups == after.gangs.groups

    def _states(self, group: str) -> list[Any]:
        return [state for name, state in self.world.source.capability.sources.items() if f"/{group}-" in name]

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        for name in list(world.away):
            world.back(name)
        for name in TARGETS:
            world.room[name] = 9
        for _ in range(8):
            world.run(12)
            world.tick(70)
        for group in GROUPS:
            names = [name for name in world.home["pods"] if name.startswith(f"{group}-")]
            assert len(world.places(names)) == 1, [(name, world.where(name)) for name in names]
            assert world.places(names) != {()}
        rows = len(world.source.rows)
        world.run(4)
        assert len(world.source.rows) == rows


TestGangs = pytest.mark.generated(Gangs.TestCase)
TestGangs.settings = settings(
    phases=[Phase.generate],
    max_examples=examples(6, 40),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
