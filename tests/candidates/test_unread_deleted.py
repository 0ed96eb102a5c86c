"""A Candidate that is deleted is let go when nothing runs of it, also one that nobody can read, or under whose name
somebody else has a Pod.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATE_SOURCES,
    CANDIDATES,
    FINALIZER,
    PODS,
    TEMPLATE,
)
from controlplane.controllers.candidates.target.events import (
    CandidatePodObserved,
    FinalizerReleased,
    PodMade,
    PodRemoved,
    TargetWriteFailed,
)
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import Json
from tests.candidates.test_unread import AT, NAME, candidate, decided, invitation, made, target


def leaving(**more: Any) -> Json:
    """A Candidate that nobody can read, and that is deleted."""
    shown = candidate(message=5)
    shown["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", **more}
    return shown


@pytest.mark.parametrize("before", ["never seen", "unread", "read"])
def test_a_candidate_that_cannot_be_read_is_let_go_when_it_is_deleted_and_nothing_runs_of_it(before: str) -> None:
    seen, controller = target()
    if before != "never seen":
        seen.show(MANAGEMENT, CANDIDATES, candidate(message=5) if before == "unread" else candidate())
    seen.show(MANAGEMENT, CANDIDATES, leaving(finalizers=[FINALIZER, "example.com/other"]))
    stream = f"candidate/team/{NAME}"
    (new,) = controller.decide(stream, AT).events
    assert isinstance(new.event, FinalizerReleased)
    assert (new.event.uid, new.event.finalizers) == ("c-1", ["example.com/other"])
    assert list(controller.known(CANDIDATES.name)) == ["c-1"]
    seen.show(MANAGEMENT, CANDIDATES, leaving(), gone=True)
    assert not controller.candidates
    assert not controller.known(CANDIDATES.name)


@pytest.mark.parametrize("readable", [True, False])
def test_it_is_held_as_long_as_its_pod_is_there(readable: bool) -> None:
    seen, controller = target()
    seen.show(MANAGEMENT, PODS, made("n", **({} if readable else {TEMPLATE: 5})))
    seen.show(MANAGEMENT, CANDIDATES, leaving())
    assert decided(controller) == [PodRemoved]
    stream = f"candidate/team/{NAME}"
    for new in controller.decide(stream, AT).events:
        seen.fold(stream, new.event, MANAGEMENT)
    assert decided(controller) == []
    seen.show(MANAGEMENT, PODS, made("n"), gone=True)
    assert decided(controller) == [FinalizerReleased]


def test_it_is_held_while_pods_are_not_listed() -> None:
    seen, controller = target()
    seen.show(MANAGEMENT, CANDIDATES, leaving())
    controller.ready = False
    assert decided(controller) == []


def test_one_that_is_read_after_all_is_deleted_as_any_other() -> None:
    seen, controller = target()
    seen.show(MANAGEMENT, CANDIDATES, leaving())
    again = candidate()
    again["metadata"] |= {"uid": "c-2"}
    seen.show(MANAGEMENT, CANDIDATES, again)
    assert FinalizerReleased not in decided(controller)


def copied(node: str = "") -> Json:
    """A Pod of that name which somebody made from another candidate's Pod, labels and all."""
    found = made(node)
    head = {**found["metadata"], "labels": {CANDIDATE_LABEL: "web-0123456789abcdef"}, "ownerReferences": []}
    return {**found, "metadata": head}


def test_a_pod_of_its_name_with_anothers_label_is_not_its_pod() -> None:
    """It was taken for it, and could not be removed: the candidate said nothing, and was never let go."""
    seen, controller = target()
    seen.show(MANAGEMENT, CANDIDATE_SOURCES, invitation())
    seen.show(MANAGEMENT, PODS, copied())
    seen.show(MANAGEMENT, CANDIDATES, candidate())
    stream = f"candidate/team/{NAME}"
    for new in controller.decide(stream, AT).events:
        seen.fold(stream, new.event, MANAGEMENT)
    assert decided(controller) == [PodMade]  # the API server says that the name is taken
    leaving_ = candidate()
    leaving_["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    seen.show(MANAGEMENT, CANDIDATES, leaving_)
    assert decided(controller) == [FinalizerReleased]


def test_one_that_an_earlier_version_took_for_it_keeps_no_candidate() -> None:
    seen, controller = target()
    leaving_ = candidate()
    leaving_["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    seen.show(MANAGEMENT, CANDIDATES, leaving_)
    stream = f"candidate/team/{NAME}"
    head = {"namespace": "team", "name": NAME, "uid": "p-9", "resource_version": "1"}
    seen.fold(stream, CandidatePodObserved(**head, owner=""), MANAGEMENT)
    (new,) = controller.decide(stream, AT).events
    assert isinstance(new.event, PodRemoved)
    seen.fold(stream, new.event, MANAGEMENT)
    failed = TargetWriteFailed(
        target=new.event.target, action="PodRemoved", code=0, error="Foreign", message="no", failures=1, retry_at=AT
    )
    seen.fold(stream, failed, MANAGEMENT)
    assert decided(controller) == [FinalizerReleased]
