"""The verbs against a store of one object: adopting, refusing, preconditions, repeating."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from controlplane.clusters.budget import RateLimits, RequestBudget
from controlplane.clusters.protocol import ApiError, ClusterPort, Executes, Foreign, Unreachable
from controlplane.clusters.verbs import Executor
from controlplane.kube.kinds import APPLY_PATCH, JOBS, ObjectRef, Request
from tests.clusters.clocks import ManualClock

OWNER = ("kueue.x-k8s.io/multikueue-origin", "here")
MAKER = ("controlplane/management-cluster", "us", "us before")
REF = ObjectRef(JOBS, "ns", "job")
OURS = {"metadata": {"name": "job", "uid": "u1", "resourceVersion": "5", "labels": {OWNER[0]: OWNER[1]}}}


class OneObject(ClusterPort):
    """A port whose cluster holds at most one object; `trouble` is raised by the calls to come, first the first."""

    name = "worker"

    def __init__(self, stored: dict[str, Any] | None = None) -> None:
        self.stored = copy.deepcopy(stored)
        self.calls: list[tuple[Any, ...]] = []
        self.trouble: list[Exception | None] = []

    def _called(self, *call: Any) -> None:
        self.calls.append(call)
        if self.trouble and (error := self.trouble.pop(0)) is not None:
            raise error

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        self._called("get")
        if self.stored is None:
            raise ApiError(404, "NotFound", "", name=name)
        return self.stored

    async def write(self, request: Request) -> Any:
        if request.verb == "create":
            self._called("create", request.body)
            if self.stored is not None:
                raise ApiError(409, "AlreadyExists", "")
            self.stored = request.body
        elif request.verb == "patch":
            how = {name: getattr(request, name) for name in ("subresource", "content_type", "field_manager")}
            self._called("patch", request.body, how)
        else:
            which = {name: getattr(request, name) for name in ("uid", "resource_version", "propagation")}
            self._called("delete", which)
            if self.stored is None:
                raise ApiError(404, "NotFound", "")
            self.stored = None
        return request.body


def executor(port: OneObject, counts: list[tuple[str, ...]] | None = None) -> tuple[Executor, ManualClock]:
    clock = ManualClock()
    count = (lambda *what: None) if counts is None else (lambda *what: counts.append(what[:-1]))
    found = Executor(port, RequestBudget(clock=clock, random=lambda: 0.5), count)
    checked: Executes = found
    assert checked is found
    return found, clock


def create(**more: Any) -> Request:
    return Request(
        "create", REF, body={"metadata": {"labels": {OWNER[0]: OWNER[1]}}, "spec": {}}, owner_label=OWNER, **more
    )


async def test_create_completes_the_body_from_the_ref() -> None:
    port, counts = OneObject(), []
    await executor(port, counts)[0].execute(create())
    body = port.calls[0][1]
    assert (body["apiVersion"], body["kind"]) == ("batch/v1", "Job")
    assert body["metadata"] == {"labels": {OWNER[0]: OWNER[1]}, "name": "job", "namespace": "ns"}
    assert counts == [("worker", "create", "jobs.batch", "201")]


async def test_create_adopts_what_carries_our_mark() -> None:
    port, counts = OneObject(OURS), []
    assert await executor(port, counts)[0].execute(create()) == OURS
    assert [count[1:] for count in counts] == [("create", "jobs.batch", "409"), ("get", "jobs.batch", "200")]


@pytest.mark.parametrize("labels", [None, {}, {OWNER[0]: "elsewhere"}, {"other": "here"}])
async def test_create_does_not_adopt_what_is_foreign(labels: Any) -> None:
    port = OneObject({"metadata": {"name": "job", "labels": labels}})
    with pytest.raises(Foreign) as caught:
        await executor(port)[0].execute(create())
    assert caught.value.found == port.stored


@pytest.mark.parametrize(
    ("said", "adopted"),
    [({MAKER[0]: "us"}, True), ({MAKER[0]: "us before"}, True), ({}, True), ({MAKER[0]: "them"}, False)],
)
async def test_create_does_not_adopt_what_says_that_another_made_it(said: Any, adopted: bool) -> None:
    port = OneObject({"metadata": OURS["metadata"] | {"annotations": said}})
    if adopted:
        assert await executor(port)[0].execute(create(maker=MAKER)) == port.stored
        return
    with pytest.raises(Foreign, match=f"Job ns/job was made for another: {MAKER[0]}=them") as caught:
        await executor(port)[0].execute(create(maker=MAKER))
    assert caught.value.found == port.stored


async def test_create_does_not_adopt_what_is_being_deleted() -> None:
    port = OneObject({"metadata": OURS["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    with pytest.raises(ApiError, match="being deleted") as caught:
        await executor(port)[0].execute(create())
    assert caught.value.status == 409


async def test_create_whose_obstacle_vanished_is_a_conflict_not_a_loop() -> None:
    port = OneObject()
    port.trouble = [ApiError(409, "AlreadyExists", "")]
    with pytest.raises(ApiError) as caught:
        await executor(port)[0].execute(create())
    assert (caught.value.status, len(port.calls)) == (409, 2)


@pytest.mark.parametrize(
    "refusal", [ApiError(403, "Forbidden", "no"), ApiError(404, "NotFound", "no"), ApiError(422, "Invalid", "no")]
)
async def test_a_create_that_is_refused_was_refused_if_nothing_is_there(refusal: ApiError) -> None:
    port = OneObject()
    port.trouble = [refusal]
    with pytest.raises(ApiError) as caught:
        await executor(port)[0].execute(create())
    assert caught.value is refusal
    assert [call[0] for call in port.calls] == ["create", "get"]


async def test_a_create_that_is_refused_after_one_whose_answer_was_lost_adopts_what_that_one_left() -> None:
    port = OneObject(OURS)
    port.trouble = [ApiError(403, "Forbidden", "admission says no by now")]
    assert await executor(port)[0].execute(create()) == OURS


@pytest.mark.parametrize(
    "blind", [ApiError(404, "NotFound", "no such kind"), ApiError(403, "Forbidden", "not yours"), ApiError(500, "", "")]
)
async def test_a_refusal_says_nothing_where_it_cannot_be_seen_what_is_there(blind: ApiError) -> None:
    port = OneObject()
    port.trouble = [ApiError(404, "NotFound", "no such kind"), blind]
    with pytest.raises(ApiError, match="whether an earlier attempt created Job ns/job cannot be seen") as caught:
        await executor(port)[0].execute(create())
    assert (caught.value.status, caught.value.reason) == (503, "Unclear")


async def test_who_has_no_right_at_all_is_told_so_once() -> None:
    port = OneObject()
    port.trouble = [ApiError(403, "Forbidden", "may not create"), ApiError(403, "Forbidden", "may not get")]
    with pytest.raises(ApiError) as caught:
        await executor(port)[0].execute(create())
    said = "may not create; and whether an earlier attempt created Job ns/job cannot be seen"
    assert (caught.value.reason, caught.value.message) == ("Unclear", said)


async def test_create_without_a_mark_adopts_nothing() -> None:
    port = OneObject(OURS)
    with pytest.raises(ApiError, match="AlreadyExists"):
        await executor(port)[0].execute(Request("create", REF))
    assert [call[0] for call in port.calls] == ["create"]


async def test_a_lost_answer_to_a_create_is_healed_by_doing_it_again() -> None:
    port = OneObject()
    found, _ = executor(port)
    port.stored = OURS  # executed, but the answer never came
    port.trouble = [Unreachable("cut")]
    with pytest.raises(Unreachable):
        await found.execute(create())
    assert await found.execute(create()) == OURS


async def test_delete_hands_both_preconditions_over_and_reads_nothing() -> None:
    port = OneObject(OURS)
    await executor(port)[0].execute(Request("delete", REF, uid="u1", resource_version="5", owner_label=OWNER))
    assert port.calls == [("delete", {"uid": "u1", "resource_version": "5", "propagation": "Background"})]


async def test_delete_with_less_looks_at_the_mark_and_deletes_what_it_looked_at() -> None:
    port = OneObject(OURS)
    await executor(port)[0].execute(Request("delete", REF, owner_label=OWNER))
    assert port.calls[1] == ("delete", {"uid": "u1", "resource_version": "5", "propagation": "Background"})


async def test_delete_leaves_what_is_foreign_or_changed_or_another() -> None:
    port = OneObject({"metadata": OURS["metadata"] | {"labels": {}}})
    with pytest.raises(Foreign):
        await executor(port)[0].execute(Request("delete", REF, owner_label=OWNER))
    port = OneObject(OURS)
    with pytest.raises(ApiError, match="has changed"):
        await executor(port)[0].execute(Request("delete", REF, resource_version="4", owner_label=OWNER))
    assert await executor(port)[0].execute(Request("delete", REF, uid="u0", owner_label=OWNER)) is None
    assert port.stored is not None


@pytest.mark.parametrize(
    "request_", [Request("delete", REF), Request("delete", REF, owner_label=OWNER), Request("delete", REF, uid="u")]
)
async def test_delete_of_what_is_gone_succeeds(request_: Request) -> None:
    assert await executor(OneObject())[0].execute(request_) is None


async def test_delete_that_meets_a_conflict_says_so() -> None:
    port = OneObject(OURS)
    port.trouble = [ApiError(409, "Conflict", "uid")]
    with pytest.raises(ApiError) as caught:
        await executor(port)[0].execute(Request("delete", REF, uid="u1", resource_version="5"))
    assert caught.value.reason == "Conflict"


async def test_patch_carries_preconditions_in_the_body() -> None:
    port, counts = OneObject(OURS), []
    body = {"metadata": {"labels": {"a": "b"}}, "status": {}}
    request = Request("patch", REF, body, "status", APPLY_PATCH, uid="u1", resource_version="5", field_manager="m")
    await executor(port, counts)[0].execute(request)
    _, sent, options = port.calls[0]
    place = {"name": "job", "namespace": "ns"}
    assert sent == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"labels": {"a": "b"}, "uid": "u1", "resourceVersion": "5"} | place,
        "status": {},
    }
    assert options == {"subresource": "status", "content_type": APPLY_PATCH, "field_manager": "m"}
    assert "uid" not in body["metadata"]
    assert counts == [("worker", "patch", "jobs.batch/status", "200")]


async def test_a_merge_patch_is_sent_as_it_was_decided() -> None:
    port = OneObject(OURS)
    await executor(port)[0].execute(Request("patch", REF, {"spec": {"active": False}}))
    assert port.calls[0][1] == {"spec": {"active": False}}


async def test_a_server_that_asks_to_come_back_later_is_asked_again_and_everybody_waits() -> None:
    port, counts = OneObject(), []
    port.trouble = [ApiError(429, "TooManyRequests", "", 3.0), ApiError(503, "", "", 2.0)]
    found, clock = executor(port, counts)
    await found.execute(create())
    assert [count[3] for count in counts] == ["429", "503", "201"]
    assert clock.seconds >= 1005


@pytest.mark.parametrize(
    "error",
    [ApiError(500, "InternalError", ""), ApiError(503, "", ""), ApiError(401, "Unauthorized", ""), Unreachable("x")],
)
async def test_what_repeating_does_not_cure_is_not_repeated(error: Exception) -> None:
    port = OneObject()
    port.trouble = [error]
    with pytest.raises(type(error)):
        await executor(port)[0].execute(create())
    assert len(port.calls) == 1


async def test_repeating_has_an_end() -> None:
    port = OneObject()
    port.trouble = [ApiError(429, "TooManyRequests", "", 1.0)] * 100
    with pytest.raises(ApiError):
        await executor(port)[0].execute(create())
    assert len(port.calls) == 4


async def test_what_waited_for_its_turn_is_not_sent_once_the_lead_is_in_doubt() -> None:
    port, clock, leads = OneObject(), ManualClock(), [True]
    budget = RequestBudget(RateLimits(concurrency=1), clock=clock, random=lambda: 0.5)
    found = Executor(port, budget, allowed=lambda: leads[0])
    async with budget.slot():
        waiting = asyncio.create_task(found.execute(create()))
        await asyncio.sleep(0)
        leads[0] = False
    with pytest.raises(Unreachable, match="not sent"):
        await waiting
    assert port.calls == []
