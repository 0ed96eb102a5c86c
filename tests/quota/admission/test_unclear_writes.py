"""An error of an API server's own is not an answer: what may have been written counts until that is clear."""

from __future__ import annotations

import pytest

from controlplane.controllers.quota.admission import events
from controlplane.kube import kinds
from controlplane.kube.kinds import Request
from controlplane.runtime.controller import WriteRefusal
from tests.quota.admission.scene import NS, Scene


@pytest.mark.parametrize("done", [True, False])
def test_quota_that_may_have_been_given_is_given_to_nobody_else(done: bool) -> None:
    """An error is not an answer: the reservation may have been written all the same, and be seen later than the
    error."""
    scene = Scene()
    scene.queue("q", "5")
    scene.settle()
    refused: list[Request] = []

    def fails(request: Request) -> WriteRefusal | None:
        if refused or request.ref.kind != kinds.WORKLOADS or request.ref.name != "a":
            return None
        refused.append(request)
        return WriteRefusal(500, "InternalError", "etcdserver: request timed out")

    scene.refuses = fails
    scene.workload("a", "q", "5")
    scene.settle()
    scene.workload("b", "q", "5")
    scene.settle()
    assert refused
    assert not scene.is_true("b", "QuotaReserved")
    if done:
        status = refused[0].body["status"]
        scene.put(kinds.WORKLOADS, "a", NS, status=status)
    scene.pass_time(2)
    assert scene.is_true("a", "Admitted")
    assert not scene.is_true("b", "QuotaReserved")
    assert len(scene.said(events.QuotaReservationDecided, "a")) == 1
    assert scene.posted()[f"admission/workload/{NS}/a"] == {("q", "default", "cpu"): 5000}
    scene.finish("a")
    scene.settle()
    assert scene.is_true("b", "Admitted")
