"""A Candidate with our name that does not say which cluster made it, as a version before made them: it is ours if the
log asked for it, or if its pod is, or was, here. Any other one may be of another cluster that has our name."""

from __future__ import annotations

import msgspec

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.events import CandidateDropped, PermitGranted, PlacementFound
from controlplane.controllers.candidates.source.observations import CandidateSeen
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.log.event import Event
from tests.candidates.stage import pod
from tests.candidates.test_lost_log import LostLogStage


class UnmarkedStage(LostLogStage):
    """A stage on which no Candidate is marked."""

    def fold(self, event: Event, cluster: str = MANAGEMENT) -> None:
        if isinstance(event, CandidateSeen):
            event = msgspec.structs.replace(event, unmarked=True)
        super().fold(event, cluster)


def bound_in_a() -> UnmarkedStage:
    stage = UnmarkedStage("a", "b")
    stage.delegated("a")
    return stage


def dropped(stage: UnmarkedStage) -> list[str]:
    return [one.cluster for one in stage.told(CandidateDropped)]


def test_what_the_log_asked_for_goes_with_its_pod() -> None:
    stage = bound_in_a()
    del stage.home["pods"]["web"]
    stage.look()
    assert "a" in dropped(stage)


def test_what_runs_for_the_pod_of_another_cluster_with_our_name_is_not_given_up() -> None:
    """It was: an installation with copied settings removed what ran for the other one's pods."""
    stage = bound_in_a().lose_the_log()
    del stage.home["pods"]["web"]
    stage.look()
    assert stage.state.candidates
    assert dropped(stage) == []


def test_what_runs_for_a_pod_that_is_here_is_ours_also_by_a_new_log() -> None:
    stage = bound_in_a().lose_the_log()
    stage.look()
    assert [one.cluster for one in stage.told(PlacementFound)] == ["a"]
    del stage.home["pods"]["web"]
    stage.look()
    assert "a" in dropped(stage)


def test_a_pod_of_that_name_waits_for_what_may_run_of_it() -> None:
    stage = bound_in_a().lose_the_log()
    stage.home["pods"]["web"] = pod(metadata={"uid": "web#2"})
    stage.settle()
    assert dropped(stage) == []
    assert not stage.told(PermitGranted)
    waits = next(one for one in stage.decided if getattr(one, "reason", "") == CandidateReason.PREDECESSOR_STOPS)
    assert waits is not None


def test_what_does_not_run_is_waited_for_by_nobody() -> None:
    stage = UnmarkedStage("a", "b")
    stage.look()
    stage.send()
    stage.lose_the_log()
    stage.home["pods"]["web"] = pod(metadata={"uid": "web#2"})
    stage.settle()
    stage.reserve("b")
    stage.settle()
    assert dropped(stage) == []
    assert [one.cluster for one in stage.told(PermitGranted)] == ["b"]
