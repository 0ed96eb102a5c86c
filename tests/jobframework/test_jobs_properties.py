"""Whatever users, the admission and failures do in whatever order: what must hold of jobs and Workloads holds."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.controller import JobFrameworkController
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import JOBS, WORKLOADS, Json, Request, meta
from controlplane.kube.slices import ELASTIC_JOB, REPLACEMENT_FOR
from controlplane.runtime.controller import OpenWrite
from controlplane.simulation.apiserver.errors import ApiRefusal
from tests.jobframework.scene import NS, Scene, job
from tests.support.deep import examples
from tests.support.folded import copied, difference

NAMES = ("a", "b")
FOREIGN = "foreign"
ACTIONS = (
    "create", "create running", "create elastic", "queue", "size", "priority", "end", "delete", "delete workload", "reserve",
    "admit", "evict",
    "deactivate", "double", "settle", "crash", "half", "lost", "time", "suspend", "unsuspend",
)  # fmt: skip


class Walk:
    """A scene, and what is done to it. Every request is looked at before it is sent."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.scene.flavor()
        owner = {"apiVersion": "example.com/v1", "kind": "Render", "name": "a", "uid": "x", "controller": True}
        head = {"namespace": NS, "name": FOREIGN, "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
        self.scene.store.create(WORKLOADS, {"metadata": {**head, "ownerReferences": [owner]}, "spec": {}})
        self.foreign = self.scene.store.get(WORKLOADS, NS, FOREIGN)
        self.scene.before_write = self.check

    def check(self, write: OpenWrite, request: Request) -> None:
        assert request.ref.name != FOREIGN
        if request.ref.kind == WORKLOADS and request.verb != "create":
            assert request.uid, "a Workload is only written as the very one that was seen"

    def do(self, action: str, name: str) -> None:
        with contextlib.suppress(ApiRefusal):  # what is not there cannot be changed
            getattr(self, "_" + action.replace(" ", "_"))(name)

    def _create(self, name: str) -> None:
        self.scene.create(job(name))

    def _create_running(self, name: str) -> None:
        self.scene.create(job(name, suspend=False))

    def _create_elastic(self, name: str) -> None:
        made = job(name, completions=9)
        made["metadata"]["annotations"] = {ELASTIC_JOB: "true"}
        self.scene.create(made)

    def _patch(self, name: str, body: Json, **options: Any) -> None:
        self.scene.store.patch(JOBS, NS, name, body, field_manager="user", **options)

    def _queue(self, name: str) -> None:
        self._patch(name, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": f"q{self.scene.store.version % 3}"}}})

    def _size(self, name: str) -> None:
        self._patch(name, {"spec": {"parallelism": 1 + self.scene.store.version % 3}})

    def _suspend(self, name: str) -> None:
        self._patch(name, {"spec": {"suspend": True}})

    def _unsuspend(self, name: str) -> None:
        self._patch(name, {"spec": {"suspend": False}})

    def _priority(self, name: str) -> None:
        self._patch(name, {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "none"}}})
        self.scene.settle()
        self._patch(name, {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": None}}})

    def _end(self, name: str) -> None:
        done = [{"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "done"}]
        self._patch(name, {"status": {"conditions": done, "active": 0}}, subresource="status")

    def _delete(self, name: str) -> None:
        self.scene.store.delete(JOBS, NS, name)

    def _of(self, name: str) -> list[Json]:
        found = [one for one in self.scene.workloads() if meta(one)["name"] != FOREIGN]
        return [one for one in found if meta(one)["ownerReferences"][0]["name"] == name]

    def _delete_workload(self, name: str) -> None:
        for one in self._of(name):
            self.scene.store.delete(WORKLOADS, NS, meta(one)["name"])

    def _reserve(self, name: str) -> None:
        for one in self._of(name):
            if not is_true(one, "Finished") and not is_true(one, "Evicted"):
                self.scene.say(one, QuotaReserved=(True, "QuotaReserved", "reserved"))

    def _admit(self, name: str) -> None:
        for one in self._of(name)[:1]:
            if not is_true(one, "Finished"):
                self.scene.say(one, Evicted=(False, "QuotaReserved", "")) if is_true(one, "Evicted") else None
                self.scene.admit(self.scene.store.get(WORKLOADS, NS, meta(one)["name"]))

    def _evict(self, name: str) -> None:
        for one in self._of(name):
            if is_true(one, "QuotaReserved"):
                self.scene.say(one, Evicted=(True, "Preempted", "to make room"))

    def _deactivate(self, name: str) -> None:
        for one in self._of(name):
            self.scene.store.patch(WORKLOADS, NS, meta(one)["name"], {"spec": {"active": False}})

    def _double(self, name: str) -> None:
        for one in self._of(name)[:1]:
            head = {key: copy.deepcopy(meta(one)[key]) for key in ("namespace", "ownerReferences")}
            self.scene.store.create(WORKLOADS, {"metadata": {**head, "name": f"{name}-double"}, "spec": one["spec"]})

    def _settle(self, name: str) -> None:
        self.scene.settle()

    def _crash(self, name: str) -> None:
        self.scene.crash()

    def _half(self, name: str) -> None:
        """Decisions are in the log and nothing is sent of them; another process takes over."""
        self.scene.decide()
        self.scene.crash()

    def _lost(self, name: str) -> None:
        """What was decided is sent, and no answer comes; another process takes over and sends it again."""
        self.scene.decide()
        for write in self.scene.open_writes():
            self.scene.carry_out(write)
        for write in self.scene.open_writes():
            self.scene.carry_out(write)
        self.scene.crash()

    def _time(self, name: str) -> None:
        self.scene.clock.move(3)

    def holds(self) -> None:
        """What holds once everything has come to rest."""
        scene = self.scene
        scene.settle()
        assert scene.settle() == [], "what is at rest stays so"
        for found in scene.store.list(JOBS)[0]:
            ended = any(one["type"] == "Complete" for one in found["status"].get("conditions", ()))
            own = [
                one
                for one in self._of(meta(found)["name"])
                if meta(one)["ownerReferences"][0]["uid"] == meta(found)["uid"]
            ]
            if ELASTIC_JOB in meta(found).get("annotations", {}):
                self._slices_hold(found, own, ended=ended)
                continue
            assert len(own) <= 1
            if ended:
                continue
            assert len(own) == 1, "a job with a queue has its Workload"
            runs = found["spec"]["suspend"] is False
            may_run = is_true(own[0], "Admitted") and not is_true(own[0], "Evicted")
            assert not runs or may_run or is_true(own[0], "Finished")
            if not runs:
                assert "kueue.x-k8s.io/stopping" not in meta(found).get("annotations", {})
        for one in self.scene.workloads():
            name = meta(one)["name"]
            assert name == FOREIGN or not is_true(one, "Finished") or "finalizers" not in meta(one)
        assert scene.store.get(WORKLOADS, NS, FOREIGN) == self.foreign, "nobody of ours touched it"
        self._replays()

    def _slices_hold(self, found: Json, own: list[Json], *, ended: bool) -> None:
        """What holds of an elastic job: one slice has its quota, one may wait to take its place, and it runs by one
        alone."""
        live = [one for one in own if not is_true(one, "Finished")]
        if ended:
            assert not live
            return
        taken = {meta(one).get("annotations", {}).get(REPLACEMENT_FOR) for one in live if is_true(one, "QuotaReserved")}
        rest = [one for one in live if f"{NS}/{meta(one)['name']}" not in taken]
        assert len(rest) <= 2
        assert own, "a job with a queue has its Workload"
        if found["spec"]["suspend"] is False and live:
            assert any(is_true(one, "QuotaReserved") and not is_true(one, "Evicted") for one in live)

    def _replays(self) -> None:
        scene = self.scene
        again = scene.replayed()
        again.take_dirty()
        assert difference(again, scene.controller) == {}
        without = JobFrameworkController(scene.policy, "test")
        live = scene.controller
        for recorded in scene.log:
            ours = recorded.stream.startswith("jobframework/")
            if not (ours and live.leaves_nothing(recorded.stream) and recorded.stream not in live.needed_streams()):
                without.fold(recorded)
        without.take_dirty()
        assert difference(without, live).keys() <= {"index.places.newest._gone"}
        for recorded in scene.log:
            if isinstance(recorded.event, events.JobDecision):
                assert 0 < recorded.caused_by < recorded.position
        starts = {one.position: one for one in scene.log if isinstance(one.event, events.JobStartDecided)}
        for position, start in starts.items():
            assert isinstance(start.event, events.JobStartDecided)
            seen = [
                one.event
                for one in scene.log[: position - 1]
                if isinstance(one.event, events.JobWorkloadObserved) and one.event.name == start.event.workload
            ]
            assert seen[-1].is_true("Admitted"), "a job is only started by a Workload that was seen to be admitted"
            assert not seen[-1].is_true("Evicted")


@pytest.mark.generated
@settings(max_examples=examples(60, 2000), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(NAMES)), max_size=25))
def test_whatever_is_done_what_must_hold_holds(actions: list[tuple[str, str]]) -> None:
    walk = Walk()
    for action, name in actions:
        walk.do(action, name)
    walk.holds()


def test_what_was_folded_is_kept_for_the_next_start() -> None:
    walk = Walk()
    for action in ("create", "settle", "admit", "settle", "double", "evict", "half", "settle"):
        walk.do(action, "a")
    walk.do("create", "b")
    walk.scene.settle()
    live, again = walk.scene.controller, JobFrameworkController(walk.scene.policy, "other")
    copied(live, again)
    assert difference(live, again) == {}
    assert again.index.states == live.index.states
    walk.scene.controller = again
    walk.holds()
