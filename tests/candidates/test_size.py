"""A pod that is too large for a Candidate: its users are told, by its own cluster and by a target that is asked all the
same; an API server that does not store one has said no."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from controlplane.controllers.candidates import objects
from controlplane.controllers.candidates.reasons import CandidateReason, TargetReason
from controlplane.controllers.candidates.source.observations import SourcePodObserved
from controlplane.controllers.candidates.source.observe import source_pod
from controlplane.controllers.candidates.target.events import CandidateObserved
from controlplane.controllers.candidates.target.observe import candidate
from controlplane.kube.kinds import Json
from controlplane.runtime.writes import WriteFailure, says_no
from tests.candidates.stage import Stage, pod
from tests.support.rows import each

AT = datetime(2026, 1, 1, tzinfo=UTC)


def sized(size: int) -> Json:
    """A pod whose template has exactly so many bytes."""
    made = pod()
    spec = {"schedulerName": objects.SCHEDULER_NAME, "containers": [{"name": "c", "image": "i", "args": [""]}]}
    made["spec"] = spec
    spec["containers"][0]["args"] = ["x" * (size - len(objects.template(made).text))]
    assert len(objects.template(made).text) == size
    return made


@each(("size", "fits"), [(objects.MOST_BYTES, True), (objects.MOST_BYTES + 1, False)])
def test_a_pod_says_that_it_is_too_large(size: int, fits: bool) -> None:
    event = source_pod({**sized(size), "metadata": {**sized(size)["metadata"], "uid": "u", "resourceVersion": "1"}})[1]
    assert isinstance(event, SourcePodObserved)
    assert (event.problem == "") is fits
    if not fits:
        assert event.problem == CandidateReason.POD_TOO_LARGE
        assert event.problem_message.startswith(f"the pod has {size} bytes")


def test_it_is_offered_to_nobody_and_says_why() -> None:
    stage = Stage("a")
    stage.home["pods"]["web"] = sized(objects.MOST_BYTES + 1)
    stage.settle()
    assert stage.there("a") == []
    assert "more than fits into a Candidate" in stage.said()


def test_a_target_refuses_what_it_could_say_nothing_about() -> None:
    stage = Stage("a").ask()
    (found,) = stage.stores["a"]["candidates"].values()
    big = sized(objects.MOST_BYTES + 1)["spec"]
    whole = {**found, "spec": {**found["spec"], "template": {"metadata": {}, "spec": big}}}
    event = candidate(stage.api.shown(whole))[1]
    assert isinstance(event, CandidateObserved)
    assert event.problem == TargetReason.POD_TOO_LARGE


def test_an_api_server_that_cannot_store_it_has_said_no() -> None:
    failed = WriteFailure(1, 500, "", "etcdserver: request is too large", AT, "CandidateRequested")
    assert says_no(failed)
    assert not says_no(msgspec.structs.replace(failed, message="etcdserver: request timed out"))
