"""Deliberate bugs in what only plans of the fourth and the fifth edition play: scored dispatch, elastic jobs, groups of
pods, and logs that go back beside dispatchers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest

from controlplane.controllers.multikueue import dispatch, elastic, running, unobserved_jobs
from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.scoring import WorkloadScoring
from controlplane.runtime.writes import without
from tests.dst.mutants.hunt import Mutant
from tests.dst.plans import ASKED_AND_AWAY, BOUND_UNSEEN, EVICTED_ON_ITS_WAY, OUTGROWN_UNSEEN, UNSEEN_AND_SLOW


def spread_is_a_wish(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WorkloadScoring, "_too_many", lambda self, clusters: {})


def a_copy_keeps_its_size(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(running, "follow_size", lambda turn, local, job, cluster: True)


def a_stored_nomination_says_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dispatch, "_asked_before", lambda turn, local: False)


def bound_jobs_are_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unobserved_jobs, "_bound_unseen", lambda state, context, cluster: False)


def a_winner_is_released_with_its_job_on_its_way(patch: pytest.MonkeyPatch) -> None:
    original = dispatch._keeps

    def keeps(turn: Any, local: Any, winner: str) -> bool:
        known = turn.state
        if turn.context.in_view(winner):
            turn.state = msgspec.structs.replace(known, effects=without(known.effects, f"{winner}/Job"))
        try:
            return original(turn, local, winner)
        finally:
            turn.state = known

    patch.setattr(dispatch, "_keeps", keeps)


def every_copy_holds_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WorkloadPass, "holds_nothing", lambda self, cluster: True)


def a_group_is_split(patch: pytest.MonkeyPatch) -> None:
    original = running.create_members

    def create(turn: Any, cluster: str) -> None:
        route = turn.context.route
        others = [one for one in route.clusters if one != cluster and turn.context.available(one)] if route else []
        original(turn, others[-1] if others else cluster)

    patch.setattr(running, "create_members", create)


def components_go_anywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dispatch, "seat", lambda context: "")
    patch.setattr(dispatch, "awaits", lambda state, context: False)


def outgrown_slices_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("controlplane.controllers.multikueue.decide.finish_outgrown", lambda turn, local, job: False)


def waiting_copies_keep_their_size(patch: pytest.MonkeyPatch) -> None:
    for module in (dispatch, elastic):
        patch.setattr(module, "keep_size", lambda turn, local, cluster: None)


LATER: Final[Mapping[str, Mutant]] = {
    "spread-a-wish": Mutant(
        "where spreading is required it is only preferred", spread_is_a_wish, 30, "what must be spread is spread", 4
    ),
    "size-kept": Mutant(
        "a copy does not become smaller", a_copy_keeps_its_size, 148, "a copy has the size of its job's last slice", 4
    ),
    "nomination-ignored": Mutant(
        "a stored nomination says nothing of where a job may run",
        a_stored_nomination_says_nothing,
        0,
        "one cluster runs a workload",
        scene=ASKED_AND_AWAY,
    ),
    "bound-unseen": Mutant(
        "a job that nobody has seen is not waited for where jobs cannot be seen",
        bound_jobs_are_nothing,
        0,
        "one cluster runs a workload",
        scene=BOUND_UNSEEN,
    ),
    "released": Mutant(
        "a winner is released while its job is on its way",
        a_winner_is_released_with_its_job_on_its_way,
        0,
        "one cluster runs a workload",
        scene=EVICTED_ON_ITS_WAY,
    ),
    "holds-nothing": Mutant(
        "a copy that may have its job unseen is not waited for",
        every_copy_holds_nothing,
        0,
        "one cluster runs a workload",
        scene=UNSEEN_AND_SLOW,
    ),
    "group-split": Mutant(
        "the other pods of a group go to another cluster", a_group_is_split, 2, "steps are taken in their order", 5
    ),
    "components-apart": Mutant(
        "each replica of a set goes where there is room", components_go_anywhere, 3, "one cluster runs a workload", 5
    ),
    "outgrown": Mutant(
        "a slice that is too small for its ended job is left",
        outgrown_slices_wait,
        0,
        "everything settles",
        scene=OUTGROWN_UNSEEN,
    ),
    "waits-as-large": Mutant(
        "copies that wait keep the size that they were made in",
        waiting_copies_keep_their_size,
        448,
        "everything settles",
        4,
    ),
}
