"""A Candidate that its API server takes and no source of ours would write: it is refused by name, and nobody else
waits for it."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controlplane.app.candidates.watches import TargetNodesSink
from controlplane.clusters.protocol import Change, Synced
from controlplane.controllers.candidates.nodes.controller import VirtualNodes
from controlplane.controllers.candidates.nodes.decide import NodePolicy
from controlplane.controllers.candidates.objects import CANDIDATES
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.source.observations import CandidateObservationRefused
from controlplane.controllers.candidates.source.observe import candidate as seen_by_source
from controlplane.controllers.candidates.target.events import CandidateObserved
from controlplane.controllers.candidates.target.observe import candidate as seen_by_target
from controlplane.kube.fields import Misfit
from controlplane.kube.kinds import NODES, Json
from tests.candidates.stage import Stage
from tests.candidates.test_unread import candidate, source


def offered(stage: Stage) -> Json:
    """Return the Candidate with which a target is asked, not created yet."""
    stage.look()
    (request,) = stage.requests().values()
    stage.carry_out("a", request)
    (obj,) = stage.stores["a"]["candidates"].values()
    return copy.deepcopy(stage.api.shown(obj))


def with_permit(**permit: Any) -> Json:
    obj = candidate()
    whole = {"number": 1, "kind": "Preempt", "reservation": 0, "until": "2026-01-01T00:00:00Z", **permit}
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": "1"}, "spec": {**obj["spec"], "permit": whole}}


TIMES = ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00"]


@pytest.mark.parametrize("until", TIMES)
def test_a_permit_whose_end_no_clock_reaches_is_none_and_its_candidate_is_refused(until: str) -> None:
    _, event, _ = seen_by_target(with_permit(until=until))
    assert isinstance(event, CandidateObserved)
    assert (event.permit, event.problem) == (None, TargetReason.INVALID_POD)
    assert "spec.permit.until" in event.problem_message


@pytest.mark.parametrize("expires", TIMES)
def test_a_reservation_whose_end_no_clock_reaches_cannot_be_read(expires: str) -> None:
    with pytest.raises(Misfit, match=r"status\.reservation\.expires"):
        seen_by_source(candidate(phase="Reserved", reservation={"number": 1, "expires": expires}))


def test_a_time_of_another_zone_is_the_same_instant() -> None:
    _, event, _ = seen_by_target(with_permit(until="2026-01-01T02:00:00+02:00"))
    assert isinstance(event, CandidateObserved)
    assert event.permit is not None
    assert event.permit.until == datetime(2026, 1, 1, tzinfo=UTC)
    assert event.permit.until.utcoffset() == timedelta()


def test_a_number_after_which_there_is_none_cannot_be_read() -> None:
    """The next permit of the pod would have a number that no API server takes, in any target."""
    seen, controller = source()
    new = seen.show("east", CANDIDATES, with_permit(number=2**63 - 1))
    assert new is not None
    assert isinstance(new.event, CandidateObservationRefused)
    assert new.event.field == "spec.permit.number"
    assert not controller.sources


ODD: dict[str, Json] = {
    "a key that is a list": {
        "topologySpreadConstraints": [{"topologyKey": ["zone"], "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}]
    },
    "an operator that is a list": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": []}]}]
                }
            }
        }
    },
    "a class that is a number": {"priorityClassName": 5},
    "a node that is a number": {"nodeName": 5},
    "a deadline that is text": {"activeDeadlineSeconds": "soon"},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_a_template_of_another_shape_is_refused_and_its_candidate_can_be_deleted(odd: Json) -> None:
    stage = Stage("a")
    obj = offered(stage)
    obj["spec"]["template"]["spec"] |= odd
    stage.stores["a"] = {**stage.stores["a"], "candidates": {obj["metadata"]["name"]: obj}}
    stage.target_turn("a")
    (there,) = stage.stores["a"]["candidates"].values()
    assert (there["status"]["phase"], there["status"]["reason"]) == ("Refused", TargetReason.INVALID_POD)
    assert there["status"]["message"].startswith("spec.template.")
    there["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stage.target_turn("a")
    assert stage.there("a") == []


def test_a_candidate_that_claims_a_pod_of_another_namespace_concerns_nobody() -> None:
    """It would be deleted in that namespace, where it is not, again and again."""
    seen, controller = source()
    obj = candidate()
    obj["spec"]["source"]["namespace"] = "kube-system"
    assert seen.show("east", CANDIDATES, obj) is None
    assert not controller.sources


async def test_a_node_of_another_shape_ends_no_watch() -> None:
    nodes, told = VirtualNodes(source()[1], NodePolicy()), list[Any]()

    class Heard:
        async def record(self, events: Any) -> None:
            told.extend(event.event for event in events)

    sink = TargetNodesSink(nodes, Heard())  # type: ignore[arg-type]
    shown = [
        Change("listed", NODES, {"metadata": {"name": name, "uid": name}, "status": status}, "1")
        for name, status in (("odd", []), ("good", {"capacity": {"cpu": "2"}}))
    ]
    await sink("east", [*shown, Synced(NODES, "1", 2, gap=False)])
    assert [(one.nodes, one.capacity) for one in told] == [(1, {"cpu": "2"})]


def test_what_each_version_of_a_candidate_adds_to_the_log_is_bounded() -> None:
    """Marks and tolerations are in the event itself: a source that changes one word would write megabytes each time."""
    many = {f"a{number}": "" for number in range(20_000)}
    for marks, tolerations in ((many, []), ({}, [{"key": key} for key in many])):
        obj = with_permit()
        spec = {**obj["spec"]["template"]["spec"], "tolerations": tolerations}
        obj["spec"]["template"] = {"metadata": {"annotations": marks}, "spec": spec}
        _, event, _ = seen_by_target(obj)
        assert isinstance(event, CandidateObserved)
        assert event.problem == TargetReason.INVALID_POD
        assert event.problem_message.startswith("spec.template: its labels, annotations, images and tolerations")
        assert len(msgspec.json.encode(event)) < 2000
