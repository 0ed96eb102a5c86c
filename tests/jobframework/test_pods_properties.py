"""Whatever users, the admission, kubelets and failures do with pods in whatever order: what must hold of them holds."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.pod_events import PodDeletionDecided, PodStartDecided, QueuedPodObserved
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import PODS, WORKLOADS, Json, Request, meta
from controlplane.runtime.controller import OpenWrite
from controlplane.simulation.apiserver.errors import ApiRefusal
from tests.jobframework.scene import NS, Scene
from tests.jobframework.single import plain_pod, pod
from tests.jobframework.test_pod_groups import member
from tests.support.deep import examples
from tests.support.folded import difference

STRANGER = "stranger"
NAMES = ("a", "b", "g-0", "g-1", "g-2")
ACTIONS = (
    "create", "run", "succeed", "fail", "delete", "force", "queue", "delete workload", "reserve", "admit", "evict", ("let "
        "go"),
    "settle", "crash", "half", "lost", "time",
)  # fmt: skip


class Walk:
    """A scene with single pods `a` and `b` and a group of two, of which a third pod may come; and what is done to
    it."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.scene.flavor()
        self.scene.create(plain_pod(STRANGER, labels={"kueue.x-k8s.io/pod-group-name": "g"}), PODS)
        self._show(STRANGER, "Running")
        self.scene.settle()
        self.stranger = self.scene.store.get(PODS, NS, STRANGER)
        self.scene.before_write = self.check

    def check(self, write: OpenWrite, request: Request) -> None:
        assert request.ref.name != STRANGER
        if request.verb != "create":
            assert request.uid, "what is written is the very one that was seen"

    def do(self, action: str, name: str) -> None:
        with contextlib.suppress(ApiRefusal):  # what is not there cannot be changed
            getattr(self, "_" + action.replace(" ", "_"))(name)

    def _create(self, name: str) -> None:
        self.scene.create(member(name) if name.startswith("g-") else pod(name), PODS)

    def _show(self, name: str, phase: str) -> None:
        found = self.scene.store.get(PODS, NS, name)
        if found["spec"].get("schedulingGates") or found["status"].get("phase") in ("Succeeded", "Failed"):
            return
        if "nodeName" not in found["spec"]:
            self.scene.store.patch(PODS, NS, name, {"spec": {"nodeName": "n"}})
        self.scene.store.patch(PODS, NS, name, {"status": {"phase": phase}}, subresource="status")

    def _run(self, name: str) -> None:
        self._show(name, "Running")

    def _succeed(self, name: str) -> None:
        self._show(name, "Succeeded")

    def _fail(self, name: str) -> None:
        self._show(name, "Failed")

    def _delete(self, name: str) -> None:
        self.scene.store.delete(PODS, NS, name)

    def _force(self, name: str) -> None:
        self.scene.store.delete(PODS, NS, name, grace=0)

    def _queue(self, name: str) -> None:
        body = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": f"q{self.scene.store.version % 2}"}}}
        self.scene.store.patch(PODS, NS, name, body)

    def _of(self, name: str) -> list[Json]:
        return [one for one in self.scene.workloads() if name in {ref["name"] for ref in meta(one)["ownerReferences"]}]

    def _delete_workload(self, name: str) -> None:
        for one in self._of(name):
            self.scene.store.delete(WORKLOADS, NS, meta(one)["name"])

    def _reserve(self, name: str) -> None:
        for one in self._of(name):
            if not is_true(one, "Finished") and not is_true(one, "Evicted"):
                self.scene.say(one, QuotaReserved=(True, "QuotaReserved", "reserved"))

    def _admit(self, name: str) -> None:
        for one in self._of(name)[:1]:
            if not is_true(one, "Finished") and not (is_true(one, "Evicted") and is_true(one, "QuotaReserved")):
                self.scene.say(one, Evicted=(False, "QuotaReserved", "")) if is_true(one, "Evicted") else None
                self.scene.admit(self.scene.store.get(WORKLOADS, NS, meta(one)["name"]))

    def _evict(self, name: str) -> None:
        for one in self._of(name):
            if is_true(one, "QuotaReserved") and not is_true(one, "Finished"):
                self.scene.say(one, Evicted=(True, "Preempted", "to make room"))

    def _let_go(self, name: str) -> None:
        """The kubelet says that a pod that is being deleted has stopped."""
        found = self.scene.store.get(PODS, NS, name)
        if "deletionTimestamp" in meta(found):
            self._show(name, "Failed")
            self.scene.store.delete(PODS, NS, name, grace=0)

    def _settle(self, name: str) -> None:
        self.scene.settle()

    def _crash(self, name: str) -> None:
        self.scene.crash()

    def _half(self, name: str) -> None:
        """Decisions are in the log and nothing is sent of them; another process takes over."""
        self.scene.decide()
        self.scene.crash()

    def _lost(self, name: str) -> None:
        """What was decided is sent twice, and no answer comes; another process takes over."""
        self.scene.decide()
        for _ in range(2):
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
        assert scene.store.get(PODS, NS, STRANGER) == self.stranger, "nobody of ours touched it"
        for found in scene.store.list(PODS)[0]:
            self._pod_holds(found)
        for one in scene.workloads():
            assert not is_true(one, "Finished") or "finalizers" not in meta(one)
        deletions = Counter(one.uid for one in scene.decided(PodDeletionDecided))
        assert all(count == 1 for count in deletions.values()), "each is deleted once"
        self._replays()

    def _pod_holds(self, found: Json) -> None:
        name, gated = meta(found)["name"], bool(found["spec"].get("schedulingGates"))
        if name == STRANGER:
            return
        over = found["status"].get("phase") in ("Succeeded", "Failed")
        own = [
            one for one in self._of(name) if meta(found)["uid"] in {ref["uid"] for ref in meta(one)["ownerReferences"]}
        ]
        assert len(own) <= 1
        if "deletionTimestamp" in meta(found) or over:
            return
        if not name.startswith("g-"):
            assert len(own) == 1, "a pod with a queue has its Workload"
        may_run = own and is_true(own[0], "Admitted") and not is_true(own[0], "Evicted")
        assert gated or may_run or is_true(own[0], "Finished")

    def _replays(self) -> None:
        scene = self.scene
        again = scene.replayed()
        again.take_dirty()
        assert difference(again, scene.controller) == {}
        managed: set[str] = set()
        for recorded in scene.log:
            event = recorded.event
            if isinstance(event, QueuedPodObserved) and event.managed:
                managed.add(event.uid)
            if isinstance(event, events.JobDecision):
                assert 0 < recorded.caused_by < recorded.position
            if isinstance(event, PodDeletionDecided):
                assert event.uid in managed
            if isinstance(event, PodStartDecided):
                seen: list[Any] = [
                    one.event
                    for one in scene.log[: recorded.position - 1]
                    if isinstance(one.event, events.JobWorkloadObserved) and one.event.name == event.workload
                ]
                assert seen[-1].is_true("Admitted")
                assert not seen[-1].is_true("Evicted")


@pytest.mark.generated
@settings(max_examples=examples(60, 2000), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(NAMES)), max_size=30))
def test_whatever_is_done_what_must_hold_holds(actions: list[tuple[str, str]]) -> None:
    walk = Walk()
    for action, name in actions:
        walk.do(action, name)
    walk.holds()
