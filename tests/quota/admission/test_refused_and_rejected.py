"""What the simulated outages have shown of quota that is reserved here: the ledger of an overtaken reservation,
Workloads that a check has rejected, and conditions whose write was refused."""

from __future__ import annotations

import copy
from datetime import timedelta

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.folded import CYCLE
from controlplane.kube import kinds
from controlplane.kube.kinds import Request
from controlplane.runtime.controller import WriteRefusal
from tests.quota.admission.checks import answer, checked
from tests.quota.admission.scene import NS, Scene


def test_a_reservation_that_was_overtaken_is_out_of_the_ledger_before_the_next_one() -> None:
    """Who decides first, the Workload's own stream or the cycle, is not said: the cycle waits for the entry."""
    scene = Scene()
    scene.queue("q", "5")
    scene.settle()
    scene.workload("a", "q", "5")
    scene.decide()
    scene.put(kinds.WORKLOADS, "a", NS, metadata={"labels": {"changed": "yes"}})
    assert scene.controller.index.workload(f"{NS}/a").posted.amounts
    assert not scene.controller.decide(CYCLE, scene.now).events
    scene.settle()
    assert scene.is_true("a", "Admitted")
    entries = [
        one.event for one in scene.log if isinstance(one.event, events.QuotaReservationDecided | events.QuotaPosted)
    ]
    assert [one.amounts["default"]["cpu"] for one in entries] == [5000, -5000, 5000]


def test_a_reservation_that_was_not_written_when_the_cluster_was_put_back_is_decided_anew() -> None:
    """What else has quota is as it was at the backup: what was free when it was decided may not be."""
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", "5")
    scene.settle()
    backup = copy.deepcopy(scene.of("a"))
    scene.workload("b", "q", "5")
    scene.settle()
    scene.finish("a")
    scene.decide()
    assert len(scene.said(events.QuotaReservationDecided, "b")) == 1
    scene.objects[kinds.WORKLOADS, NS, "a"] = backup
    scene.show(kinds.WORKLOADS, backup)
    scene.show(kinds.WORKLOADS, scene.of("b"))  # with the version that it had
    scene.settle()
    assert (scene.is_true("a", "Admitted"), scene.is_true("b", "QuotaReserved")) == (True, False)
    assert sum(scene.posted()[f"admission/workload/{NS}/b"].values()) == 0


def overtaken(code: int, error: str) -> Scene:
    """A Workload that changed while its reservation was on its way, which then was answered so."""
    scene = Scene()
    scene.queue("q", "5")
    scene.settle()
    scene.workload("a", "q", "5")
    scene.decide()
    (write,) = [one for one in scene.open_writes() if one.stream.endswith("/a")]
    scene.put(kinds.WORKLOADS, "a", NS, metadata={"labels": {"changed": "yes"}})
    scene.record(scene.controller.failed(write, WriteRefusal(code, error, "no"), scene.now))
    scene.decide()
    scene.decide()
    return scene


def test_a_reservation_that_is_refused_after_it_was_overtaken_is_not_tried_again_at_once() -> None:
    scene = overtaken(500, "InternalError")
    assert len(scene.said(events.QuotaReservationDecided, "a")) == 1
    scene.pass_time(2)
    assert scene.is_true("a", "Admitted")
    assert sum(scene.posted()[f"admission/workload/{NS}/a"].values()) == 5000


def test_a_reservation_that_meets_a_newer_version_keeps_its_place() -> None:
    scene = overtaken(409, "Conflict")
    assert len(scene.said(events.QuotaReservationDecided, "a")) == 2


def test_quota_is_not_reserved_before_the_write_of_why_it_waits_is_seen() -> None:
    """The echo of that write would overtake the reservation: the Workload would lose its place, and its victims be
    preempted twice."""
    scene = Scene()
    scene.queue("q", "5", preemption={"withinClusterQueue": "LowerPriority"})
    scene.workload("a", "q", "5")
    scene.settle()
    scene.workload("b", "q", "5", priority=5)
    scene.decide()
    scene.loses = lambda request: request.ref.name == "b"
    scene.carry_out()
    assert scene.is_true("a", "Preempted")
    scene.release("a")
    scene.decide()
    scene.decide()
    assert not scene.said(events.QuotaReservationDecided, "b"), "its condition is still being written"
    assert len(scene.said(events.QuotaReservationDecided, "a")) == 1, "what it waits for is not given to others"
    scene.loses = lambda request: False
    scene.settle()
    assert scene.is_true("b", "Admitted")
    assert not scene.said(events.AdmissionWriteFailed)
    assert [len(scene.said(events.QuotaReservationDecided, name)) for name in "ab"] == [1, 1]


def test_quota_is_not_reserved_before_any_write_of_its_status_is_seen() -> None:
    """What is decided in one pass is recorded together, so a write of the Workload's own stream is sent before the
    cycle decides."""
    scene = Scene()
    scene.queue("q", "5")
    queue = scene.objects[kinds.LOCAL_QUEUES, NS, "q"]
    scene.delete(kinds.LOCAL_QUEUES, "q", NS)
    for name in "ab":
        scene.workload(name, "q", "5")
        scene.settle()
        scene.now += timedelta(seconds=1)
    assert scene.condition("a", "QuotaReserved")["reason"] == "Misconfigured"
    scene.put(kinds.LOCAL_QUEUES, "q", NS, spec=queue["spec"])
    scene.decide_together()
    scene.loses = lambda request: request.ref.name == "a"
    scene.carry_out()
    scene.decide_together()
    assert not scene.said(events.QuotaReservationDecided), "the condition of the first is still being written"
    scene.loses = lambda request: False
    scene.settle()
    assert scene.is_true("a", "Admitted")
    assert [len(scene.said(events.QuotaReservationDecided, name)) for name in "ab"] == [1, 0]


def test_quota_is_reserved_once_the_write_of_why_it_waits_was_refused() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", "5")
    scene.settle()
    scene.workload("b", "q", "5")
    scene.decide()
    scene.loses = lambda request: request.ref.name == "b"
    scene.carry_out()
    scene.finish("a")
    scene.decide()
    assert not scene.said(events.QuotaReservationDecided, "b")
    scene.loses = lambda request: False
    scene.refuses = lambda request: (
        WriteRefusal(422, "Invalid", "not now") if not scene.said(events.AdmissionWriteFailed) else None
    )
    scene.settle()
    assert scene.is_true("b", "Admitted")


def test_who_is_rejected_without_quota_keeps_nobody_behind_it_waiting() -> None:
    scene = Scene()
    checked(scene, cpu="5", queueingStrategy="StrictFIFO")
    scene.workload("long", "q", "5")
    scene.settle()
    scene.now += timedelta(seconds=1)
    scene.workload("unfit", "q", "1", priority=1)
    scene.now += timedelta(seconds=1)
    scene.workload("next", "q", "5")
    scene.settle()
    answer(scene, "unfit", "Rejected")
    waits = scene.condition("unfit", "QuotaReserved")
    assert (waits["status"], waits["message"]) == ("False", "The workload has failed admission checks")
    scene.finish("long")
    scene.settle()
    assert scene.is_true("next", "QuotaReserved")
    scene.finish("next")
    answer(scene, "unfit", "Pending")
    assert scene.is_true("unfit", "QuotaReserved"), "what was mended is tried again"


def test_why_it_waits_is_not_written_again_before_the_pause_after_a_refusal_is_over() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", "3")
    scene.settle()

    def refused(request: Request) -> WriteRefusal | None:
        mine = request.ref.kind == kinds.WORKLOADS and request.ref.name == "b"
        return WriteRefusal(500, "InternalError", "not now") if mine else None

    scene.refuses = refused
    scene.workload("b", "q", "4")
    scene.settle()
    failed = scene.said(events.AdmissionWriteFailed, "b")
    assert failed
    for name in ("c", "d"):  # the queue changes, and with it what is to be said
        scene.workload(name, "q", "1")
        scene.settle()
        scene.finish("a" if name == "c" else "c")
        scene.workload("a2" if name == "c" else "a3", "q", "3", priority=5)
        scene.settle()
    assert scene.said(events.AdmissionWriteFailed, "b") == failed
    scene.refuses = lambda request: None
    scene.pass_time(600)
    assert scene.condition("b", "QuotaReserved")["reason"] == "WaitingForQuota"
