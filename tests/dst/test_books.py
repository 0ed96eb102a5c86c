"""Quota is looked at with every commit of a Workload: what is booked, what is held, and what the queue has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.workloads.quota import BALANCE, OVERDRAWN, QuotaAccounts
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment, WorkloadEnvironment
from controlplane.kube.kinds import JOBS, WORKLOADS, Json
from controlplane.kube.kueue_names import QUEUE_LABEL
from controlplane.simulation.apiserver.history import Commit

CPU = ("default-flavor", "cpu")


@dataclass
class Scene:
    """A worker with 4 CPUs and its books."""

    loop: VirtualLoop
    trace: Trace
    stage: WorkloadEnvironment
    books: list[QuotaAccounts] = field(default_factory=list)

    @property
    def place(self) -> ClusterEnvironment:
        return self.stage.places["w1"]

    @property
    def usage(self) -> dict[tuple[str, str], int]:
        queue = self.place.cluster.kueue.queues.quota.queue("cluster-queue")
        assert queue is not None
        return queue.usage

    def job(self, name: str, cpus: int) -> None:
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": str(cpus)}}}
        body: Json = {
            "metadata": {"namespace": "default", "name": name, "labels": {QUEUE_LABEL: "user-queue"}},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        self.place.store.create(JOBS, body)
        self.loop.advance(self.loop.time() + 1)

    def set_active(self, active: bool) -> None:
        (record,) = [r for r in self.place.store.records(WORKLOADS) if r.name.startswith("job-first")]
        self.place.store.patch(WORKLOADS, "default", record.name, {"spec": {"active": active}})

    @property
    def broken(self) -> str:
        return self.trace.violation.rule if self.trace.violation else ""


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = VirtualLoop("books")  # type: ignore[abstract]
    trace = Trace(loop)

    def on_commit(cluster: str, commit: Commit) -> None:
        if cluster == "w1" and commit.record.kind == WORKLOADS and found.books:
            found.books[0].on_commit(commit)

    found = Scene(loop, trace, WorkloadEnvironment(loop, "books", {"management": 4, "w1": 4}, on_commit))
    loop.advance(1)
    found.books.append(QuotaAccounts(trace, found.place))
    yield found
    found.stage.close()
    loop.finish()


def test_what_is_admitted_and_finished_balances(scene: Scene) -> None:
    for number in range(5):
        scene.job(f"job-{number}", 2)
    assert scene.usage[CPU] == 4000
    scene.loop.advance(200)
    scene.books[0].recount()
    assert scene.broken == ""
    assert not scene.usage.get(CPU)


def test_books_are_opened_on_what_is_there(scene: Scene) -> None:
    scene.job("first", 3)
    scene.books[0] = QuotaAccounts(scene.trace, scene.place)
    scene.loop.advance(100)
    scene.books[0].recount()
    assert scene.broken == ""


def test_what_is_booked_twice_is_seen_with_the_next_commit(scene: Scene) -> None:
    scene.job("first", 1)
    scene.usage[CPU] += 1000
    assert scene.broken == ""
    scene.job("second", 1)
    assert scene.broken == BALANCE


@pytest.mark.parametrize("amount", [9000, -1])
def test_more_than_there_is_and_less_than_nothing(scene: Scene, amount: int) -> None:
    scene.job("first", 1)
    scene.usage[CPU] = amount
    scene.set_active(False)
    assert scene.broken == OVERDRAWN


def test_a_recount_sees_what_no_commit_told(scene: Scene) -> None:
    scene.job("first", 1)
    scene.books[0] = QuotaAccounts(scene.trace, scene.place)
    heard, scene.books = scene.books, []
    scene.loop.advance(100)
    heard[0].recount()
    assert scene.broken == BALANCE


def test_what_a_user_takes_back_is_not_the_queues_fault(scene: Scene) -> None:
    """Inactive, its quota is given to the next one; active again before its job has stopped, it has it too."""
    scene.job("first", 3)
    scene.job("second", 3)
    scene.place.cluster.jobs.step = lambda: False  # type: ignore[method-assign]  # its pods take their time to stop
    scene.set_active(False)
    scene.loop.advance(scene.loop.time() + 0.03)
    scene.set_active(True)
    assert scene.usage[CPU] == 6000
    assert scene.broken == ""
    scene.usage[CPU] = 6001
    scene.set_active(False)
    assert scene.broken != ""
