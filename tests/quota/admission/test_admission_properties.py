"""What must hold of admission whatever happens: quota is never given twice, the ledger adds up, a replay is the live
state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.admission.facts import by_flavor
from controlplane.controllers.quota.admission.folded import CYCLE
from controlplane.controllers.quota.engine.amounts import add
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.kube import kinds
from controlplane.kube.kinds import Request
from controlplane.kube.slices import REPLACEMENT_FOR
from controlplane.runtime.controller import WriteRefusal
from tests.quota.admission.scene import NS, Scene
from tests.support import folded
from tests.support.deep import examples

pytestmark = pytest.mark.generated

GENERATED = settings(max_examples=examples(25, 600), deadline=None, suppress_health_check=[HealthCheck.too_slow])
QUEUES = ("a", "b", "c")
BY_USAGE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
PREEMPTION = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}

_NAMES = st.sampled_from([f"w{number}" for number in range(6)])
_STEPS = st.one_of(
    st.tuples(st.just("submit"), _NAMES, st.sampled_from((*QUEUES, "a2")), st.integers(1, 6), st.integers(0, 2)),
    st.tuples(st.just("grow"), _NAMES, _NAMES, st.integers(1, 6)),
    st.tuples(st.just("finish"), _NAMES),
    st.tuples(st.just("release"), _NAMES),
    st.tuples(st.just("delete"), _NAMES),
    st.tuples(st.just("touch"), _NAMES),
    st.tuples(st.just("deactivate"), _NAMES),
    st.tuples(st.just("stop"), st.sampled_from(QUEUES), st.sampled_from(["None", "Hold", "HoldAndDrain"])),
    st.tuples(st.just("decide")),
    st.tuples(st.just("ask")),
    st.tuples(st.just("write")),
    st.tuples(st.just("crash")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("refuse"), _NAMES),
    st.tuples(st.just("lose")),
    st.tuples(st.just("wait"), st.integers(1, 400)),
)


class Play:
    """A scene with three ClusterQueues of one Cohort, to which things happen; two LocalQueues lead to the first one."""

    def __init__(self, *, fair_sharing: bool, past_usage: bool, explicit_status: bool) -> None:
        sharing = AdmissionFairSharing(600, 100) if past_usage else None
        self.scene = Scene(fair_sharing=fair_sharing, past_usage=sharing, explicit_status=explicit_status)
        strategies = ("StrictFIFO", "BestEffortFIFO", "BestEffortFIFO")
        for name, cpu, strategy in zip(QUEUES, ("4", "6", "2"), strategies, strict=True):
            specs = {"cohortName": "all", "preemption": PREEMPTION, "queueingStrategy": strategy, **BY_USAGE}
            self.scene.queue(name, cpu, **specs)
        self.scene.put(kinds.LOCAL_QUEUES, "a2", NS, spec={"clusterQueue": "a"})
        self.scene.settle()

    def there(self, name: str) -> bool:
        return (kinds.WORKLOADS, NS, name) in self.scene.objects

    def step(self, what: str, *more: Any) -> None:
        self.scene.now += timedelta(seconds=1)
        if what in ("finish", "release", "delete", "touch", "deactivate") and not self.there(more[0]):
            return
        getattr(self, f"_{what}")(*more)
        self.check()

    def _submit(self, name: str, queue: str, cpu: int, priority: int) -> None:
        if not self.there(name):
            self.scene.workload(name, queue, str(cpu), priority=priority)

    def _grow(self, name: str, of: str, cpu: int) -> None:
        """Submit a slice that is to take the place of a Workload."""
        if self.there(of) and not self.there(name):
            queue = self.scene.of(of)["spec"]["queueName"]
            self.scene.workload(name, queue, str(cpu), annotations={REPLACEMENT_FOR: f"{NS}/{of}"})

    def _finish(self, name: str) -> None:
        if self.scene.is_true(name, "Admitted"):
            self.scene.finish(name)

    def _release(self, name: str) -> None:
        if self.scene.is_true(name, "Evicted"):
            self.scene.release(name)

    def _delete(self, name: str) -> None:
        self.scene.drop((kinds.WORKLOADS, NS, name))

    def _touch(self, name: str) -> None:
        self.scene.put(kinds.WORKLOADS, name, NS, metadata={"labels": {"touched": str(self.scene.now)}})

    def _deactivate(self, name: str) -> None:
        self.scene.put(kinds.WORKLOADS, name, NS, spec={**self.scene.of(name)["spec"], "active": False})

    def _stop(self, queue: str, policy: str) -> None:
        spec = self.scene.objects[kinds.CLUSTER_QUEUES, "", queue]["spec"]
        self.scene.put(kinds.CLUSTER_QUEUES, queue, spec={**spec, "stopPolicy": policy})

    def _decide(self) -> None:
        self.scene.decide()

    def _ask(self) -> None:
        """Decide about the next cycle, of which nothing is recorded: somebody else was faster, or the database away."""
        self.scene.controller.decide(CYCLE, self.scene.now)

    def _write(self) -> None:
        self.scene.carry_out()

    def _crash(self) -> None:
        self.scene.controller = self.scene.replayed()

    def _restart(self) -> None:
        """Go on with a controller that starts from a snapshot: it decides as the one before."""
        before = self.scene.controller
        after = folded.copied(before, AdmissionController(self.scene.settings, "test"))
        assert list(dict(folded.everything(after))) == list(dict(folded.everything(before)))
        assert folded.difference(before, after) == {}
        assert in_their_order(after) == in_their_order(before)
        for stream in (*before.index.objects, *(f"admission/workload/{key}" for key in before.index.workloads), CYCLE):
            assert after.decide(stream, self.scene.now) == before.decide(stream, self.scene.now)
        after.index.all_dirty()
        self.scene.controller = after

    def _refuse(self, name: str) -> None:
        self.scene.refuses = lambda request: refusal(request, name)

    def _lose(self) -> None:
        self.scene.loses = lambda request: True
        self.scene.carry_out()
        self.scene.loses = lambda request: False

    def _wait(self, seconds: int) -> None:
        self.scene.now += timedelta(seconds=seconds)

    def check(self) -> None:
        """Quota is within what there is, and each ClusterQueue's reservations are those of its Workloads."""
        engine = self.scene.controller.index.engine
        total = 0
        for node in engine.snapshot.queues.values():
            summed = 0
            for info in node.workloads.values():
                summed = add(summed, info.usage.get(("default", "cpu"), 0))
            assert node.usage.get(("default", "cpu"), 0) == summed
            total += summed
        assert total <= 12_000, "more is reserved than the Cohort has"
        for _, penalties, *_ in engine.history.kept().values():
            for key, _ in penalties:
                assert key in self.scene.controller.index.workloads, "who is gone counts"


def refusal(request: Request, name: str) -> WriteRefusal | None:
    return WriteRefusal(403, "Forbidden", "not allowed") if request.ref.name == name else None


def in_their_order(controller: AdmissionController) -> list[Any]:
    """What a tie may be decided by: in which order a snapshot has workloads, queues and Cohorts."""
    engine = controller.index.engine
    return [
        list(engine.kept().items()),
        [list(node.workloads) for node in engine.snapshot.queues.values()],
        [[child.name for child in node.children()] for node in engine.snapshot.cohorts()],
        [list(one.active) for one in engine.queues.pending.values()],
        [list(node.usage.items()) for node in (*engine.snapshot.queues.values(), *engine.snapshot.cohorts())],
    ]


def picture(controller: AdmissionController) -> dict[str, Any]:
    """What a controller has folded, as plain values."""
    index = controller.index
    index.engine.heads()  # whom a release may help is woken when somebody asks
    return {
        "workloads": dict(index.workloads),
        "objects": dict(index.objects),
        "usage": {name: dict(node.usage) for name, node in index.engine.snapshot.queues.items()},
        "reserved": {key: info.usage for key, info in index.engine.snapshot.workloads.items()},
        "evicted": {key for key, info in index.engine.snapshot.workloads.items() if info.workload.evicted},
        "active": {name: sorted(queue.active) for name, queue in index.engine.queues.pending.items()},
        "inadmissible": {name: sorted(queue.inadmissible) for name, queue in index.engine.queues.pending.items()},
        "wakes": {name: queue.wakes for name, queue in index.engine.queues.pending.items()},
        "cycle": index.engine.cycle,
        "said": set(index.cycles.said),
        "touched": dict(index.touched),
        "past usage": index.engine.history.kept(),
    }


@given(
    steps=st.lists(_STEPS, max_size=40),
    fair_sharing=st.booleans(),
    past_usage=st.booleans(),
    explicit_status=st.booleans(),
)
@GENERATED
def test_what_must_hold(
    steps: list[tuple[Any, ...]], *, fair_sharing: bool, past_usage: bool, explicit_status: bool
) -> None:
    play = Play(fair_sharing=fair_sharing, past_usage=past_usage, explicit_status=explicit_status)
    scene = play.scene
    for step in steps:
        play.step(*step)
    # Faults over: everything settles, and then nothing is written any more.
    scene.refuses = lambda request: None
    scene.settle()
    scene.pass_time(1000)
    scene.pass_time(1000)
    play.check()
    before = len(scene.log)
    scene.controller.index.all_dirty()
    scene.settle()
    assert len(scene.log) == before, "a pass with nothing to do wrote something"

    # A replay is the live state.
    again = scene.replayed()
    assert picture(again) == picture(scene.controller)

    # The ledger says what each Workload has; what is over adds up to nothing.
    has = {
        f"admission/workload/{key}": {info.cluster_queue: by_flavor(info.usage)}
        for key, info in scene.controller.index.engine.snapshot.workloads.items()
    }
    for stream, posted in scene.posted().items():
        left: dict[str, Any] = {}
        for (queue, flavor, resource), amount in posted.items():
            assert amount >= 0
            if amount:
                left.setdefault(queue, {}).setdefault(flavor, {})[resource] = amount
        assert left == has.get(stream, {})
    assert has.keys() <= scene.posted().keys()

    # No two are left of which one has taken the place of the other.
    for info in scene.controller.index.engine.snapshot.workloads.values():
        stays = not scene.is_true(info.workload.name, "Evicted")
        assert not (stays and info.workload.replaces in scene.controller.index.engine.snapshot.workloads)

    # What is decided has come to be: the API server says the same as the log.
    for (kind, _, name), obj in scene.objects.items():
        if kind == kinds.WORKLOADS:
            active = obj["spec"].get("active") is not False and not scene.is_true(name, "Finished")
            reserves = f"{NS}/{name}" in scene.controller.index.engine.snapshot.workloads
            assert reserves == (scene.is_true(name, "QuotaReserved") and active)
            if active and not reserves and not scene.is_true(name, "Evicted"):
                assert scene.condition(name, "QuotaReserved").get("message"), "nobody says why it waits"


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8))
@GENERATED
def test_strict_fifo_admits_in_order(sizes: list[int]) -> None:
    scene = Scene()
    scene.queue("q", "4", queueingStrategy="StrictFIFO")
    names = [f"w{number}" for number in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        scene.workload(name, "q", str(size))
        scene.now += timedelta(seconds=1)
    running: list[str] = []
    for _ in range(2 * len(sizes)):
        scene.settle()
        running = [name for name in names if scene.is_true(name, "Admitted") and not scene.is_true(name, "Finished")]
        if running:
            scene.finish(running[0])
    decided = [
        one.stream.rpartition("/")[2] for one in scene.log if isinstance(one.event, events.QuotaReservationDecided)
    ]
    assert decided == names
