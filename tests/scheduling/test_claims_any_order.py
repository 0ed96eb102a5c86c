"""Claims that wait for their first consumer, with everything in any order: no volume is given twice, no pod is bound
before its claims.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controlplane.controllers.scheduling.snapshot.storage import SELECTED_NODE
from controlplane.kube.well_known import BIND_COMPLETED
from tests.scheduling.bench import CLAIMS, VOLUMES
from tests.scheduling.volumes import HOST, stage
from tests.support.deep import examples


class NoVolumeTwice(RuleBasedStateMachine):
    """Commits and writes in any order, lost answers, refusals, crashes; a volume controller and a provisioner that take
    their time, and a provisioner that gives up."""

    @initialize()
    def begin(self) -> None:
        self.bench = stage()
        self.given: dict[str, str] = {}
        for name, node, size in (("v0", "a", "1Gi"), ("v1", "b", "1Gi"), ("v2", "b", "4Gi")):
            self.bench.volume(name, node, size)
        for number in range(3):
            self.bench.claim(f"static{number}", "local", "4Gi" if number == 2 else "1Gi")
            self.bench.claim(f"made{number}", "made")

    @rule(number=st.integers(0, 3), claims=st.lists(st.sampled_from(["static", "made"]), min_size=1, unique=True))
    def pod_comes(self, number: int, claims: list[str]) -> None:
        if ("pods", f"p{number}") not in self.bench.objects:
            self.bench.using(f"p{number}", *(f"{claim}{number % 3}" for claim in claims))

    @rule(number=st.integers(0, 3))
    def pod_goes(self, number: int) -> None:
        if not self.bench.objects.get(("pods", f"p{number}"), {"spec": {"nodeName": "x"}})["spec"].get("nodeName"):
            self.bench.delete("pods", f"p{number}")

    @rule()
    def turn(self) -> None:
        self.bench.turn()

    @precondition(lambda self: self.bench.outbox)
    @rule(data=st.data(), lost=st.booleans())
    def commit(self, data: st.DataObject, lost: bool) -> None:
        proposal = data.draw(st.sampled_from(self.bench.outbox))
        if not lost:
            self.bench.commit(proposal)
            return
        self.bench.outbox.remove(proposal)
        self.bench.append(proposal.append.events, proposal.append.expected)
        self.bench.loop.turned_down(proposal, self.bench.now)
        self.bench.take()

    @precondition(lambda self: self.bench.writes())
    @rule(data=st.data(), answer=st.sampled_from([201, 201, 0, 409, 403]))
    def write(self, data: st.DataObject, answer: int) -> None:
        self.bench.carry_out(data.draw(st.sampled_from(self.bench.writes())), answer)

    @rule()
    def decide(self) -> None:
        self.bench.decide()

    @rule(seconds=st.sampled_from([0.5, 5.0, 650.0]))
    def pass_time(self, seconds: float) -> None:
        self.bench.pass_time(seconds)

    @rule()
    def crash(self) -> None:
        self.bench.start()

    @rule(number=st.integers(0, 2), kind=st.sampled_from(["static", "made"]))
    def controller(self, number: int, kind: str) -> None:
        self.control(f"{kind}{number}")

    @rule(number=st.integers(0, 2))
    def provisioner_gives_up(self, number: int) -> None:
        if not self.bound(f"made{number}") and self.bench.selected(f"made{number}"):
            self.bench.change(CLAIMS, f"made{number}", {"metadata": {"annotations": {SELECTED_NODE: None}}})

    def control(self, claim: str) -> None:
        bench = self.bench
        if self.bound(claim):
            return
        names = [name for kind, name in bench.objects if kind == VOLUMES]
        ours = [name for name in names if bench.reference(name).get("name") == claim]
        if not ours and claim.startswith("made") and bench.selected(claim):
            bench.volume(f"pvc-{claim}", bench.selected(claim), storageClassName="made")
            reference = {"namespace": "default", "name": claim, "uid": f"uid-{claim}"}
            bench.change(VOLUMES, f"pvc-{claim}", {"spec": {"claimRef": reference}})
            ours = [f"pvc-{claim}"]
        if ours:
            bench.bind_claim(claim, ours[0])

    def bound(self, claim: str) -> str:
        found = self.bench.of(CLAIMS, claim)
        return str(found["spec"].get("volumeName", "")) if BIND_COMPLETED in found["metadata"]["annotations"] else ""

    @invariant()
    def what_is_given_stays(self) -> None:
        if not hasattr(self, "bench"):
            return
        for kind, name in self.bench.objects:
            if kind == VOLUMES and (claim := self.bench.reference(name).get("uid", "")):
                assert self.given.setdefault(name, claim) == claim

    @invariant()
    def nobody_runs_without_its_volumes(self) -> None:
        if not hasattr(self, "bench"):
            return
        for (kind, _), pod in self.bench.objects.items():
            if kind != "pods" or not (node := pod["spec"].get("nodeName")):
                continue
            for volume in pod["spec"]["volumes"]:
                name = self.bound(volume["name"])
                assert name
                terms = self.bench.of(VOLUMES, name)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
                assert terms[0]["matchExpressions"] == [{"key": HOST, "operator": "In", "values": [node]}]

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        bench = self.bench
        for _ in range(12):
            bench.settle(4)
            for claim in [name for kind, name in bench.objects if kind == CLAIMS]:
                self.control(claim)
        for (kind, name), pod in bench.objects.items():
            if kind != "pods" or bench.on(name):
                continue
            # Only who shares claims that ended up on two nodes, or wants a volume that is another's, may be left.
            message = bench.condition(name)["message"]
            assert "PersistentVolume's node affinity" in message or "available persistent volumes" in message, message
            assert len(pod["spec"]["volumes"]) == 2
        waiting = {state.pod.uid for state in bench.placements.states.values() if state.pod and state.held}
        assert waiting == set()
        assert bench.view.cluster.volume_reservations._pods == {}


TestNoVolumeTwice = pytest.mark.generated(NoVolumeTwice.TestCase)
TestNoVolumeTwice.settings = settings(max_examples=examples(15, 60), stateful_step_count=40, deadline=None)
