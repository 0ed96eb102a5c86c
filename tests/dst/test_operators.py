"""The operator's verbs in a plan: what he gives up is run again, what he may not say he is told, and the rules know
whose fault it was.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.app import operate
from controlplane.controllers.connectivity.events import ClusterConnected, ClusterForgotten, cluster_stream
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.events import JobCreationDecided
from controlplane.controllers.multikueue.objects import EXECUTION_POLICY
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.steps import Step
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.workloads.decisions import PATIENCE, WORD
from controlplane.dst.invariants.workloads.runs import RunRules
from controlplane.dst.play import play
from controlplane.kube.kinds import JOBS
from controlplane.kube.kueue_names import ORIGIN_LABEL, PREBUILT
from controlplane.log.event import Append, Event, NewEvent, Recorded
from controlplane.simulation.apiserver.history import Commit, record_of
from tests.dst.plans import cluster_of, held, plan, step, submitted, told
from tests.support.deep import deep_after
from tests.support.rows import each

AT = datetime(2026, 1, 1, tzinfo=UTC)
END = step(290, "cut", "w1")


def lost(name: str, *more: Any) -> Outcome:
    """A job's cluster is away from the thirtieth second on."""
    where = cluster_of(name)
    away = step(30, "partition", where, 300)
    return play(plan(submitted(name), away, *(one(where) for one in more), END))


def given_up(where: str) -> Step:
    return step(60, "forget", where, 60)


@pytest.mark.parametrize(("name", "copies"), [("once-1", 1), ("job-1", 2)])
def test_without_a_word_never_twice_waits(name: str, copies: int) -> None:
    outcome = lost(name)
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == copies


@pytest.mark.parametrize("name", deep_after(1, ["once-1", "job-1"]))
def test_what_is_given_up_is_run_again_at_once(name: str) -> None:
    outcome = lost(name, given_up)
    assert held(outcome)
    (heard,) = told(outcome, "operator: is heard: 1")
    first, second = told(outcome, "JobCreationDecided")
    assert float(first.split()[0]) < float(heard.split()[0]) < float(second.split()[0]) < 130


def test_what_he_may_not_say_he_is_told_until_he_gives_up() -> None:
    outcome = play(plan(step(20, "forget", "w2", 30), step(20, "forget", "w9", 3), step(20, "accept-outage", "", 3)))
    assert held(outcome)
    assert len(told(outcome, 'is told: cluster "w2" is connected, not lost')) > 1
    assert told(outcome, 'is told: the log knows no cluster "w9": it knows w1, w2, w3')
    assert told(outcome, "is told: there is no mass outage to accept")
    assert not told(outcome, "ClusterForgotten")
    assert float(told(outcome, "operator: is told")[-1].split()[0]) < 65


@pytest.mark.parametrize("accepted", [False, True])
def test_a_mass_outage_takes_nothing_until_it_is_accepted(accepted: bool) -> None:
    steps = [submitted("job-1"), *(step(30, "partition", worker, 400) for worker in ("w1", "w2", "w3"))]
    steps += [step(100, "accept-outage", "", 60)] * accepted
    outcome = play(plan(*steps, END))
    assert held(outcome)
    assert len(told(outcome, "CheckStateDecided", "RemoteLost")) == accepted


def test_whoever_takes_from_lost_clusters_in_a_mass_outage_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    original = WorkloadContext.lost_until

    def lost_until(self: Any, *arguments: Any) -> datetime | None:
        self = type(self)(**{name: getattr(self, name) for name in self.__struct_fields__} | {"mass_outage": False})
        return original(self, *arguments)

    monkeypatch.setattr(WorkloadContext, "lost_until", lost_until)
    steps = [submitted("job-1"), *(step(30, "partition", worker, 400) for worker in ("w1", "w2", "w3"))]
    outcome = play(plan(*steps, END))
    assert outcome.violation is not None
    assert outcome.violation.rule == PATIENCE


def test_an_operator_who_is_not_judged_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget_in(log: Any, policy: Any, name: str, by: str) -> int:
        await log.assist()
        return int(await log.append(Append([NewEvent(stream=cluster_stream(name), event=ClusterForgotten(by=by))])))

    monkeypatch.setattr(operate, "forget_in", forget_in)
    outcome = play(plan(step(20, "forget", "w2", 30)))
    assert outcome.violation is not None
    assert outcome.violation.rule == WORD


def job(cluster: str, *, once: bool) -> Commit:
    annotations = {PREBUILT: "wl"} | ({EXECUTION_POLICY: "never-twice"} if once else {})
    metadata = {"namespace": "default", "name": "a", "uid": cluster, "resourceVersion": "7"}
    metadata |= {"creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata |= {"labels": {ORIGIN_LABEL: "multikueue"}, "annotations": annotations}
    return Commit("ADDED", record_of(JOBS, {"metadata": metadata, "spec": {}, "status": {"active": 1}}), None)


def decided(cluster: str) -> tuple[str, Event]:
    event = JobCreationDecided(
        cluster=cluster, attempt=1, kind="jobs.batch", template="", reason=WorkloadReason.ADMITTED_ON_WORKER
    )
    return "workload/default/wl", event


FORGET, BACK = (cluster_stream("w1"), ClusterForgotten(by="me")), (cluster_stream("w1"), ClusterConnected())


@each("once", [True, False])
@each(
    ("events", "forgiven"),
    [
        ([decided("w1"), decided("w2")], False),
        ([decided("w1"), FORGET, decided("w2")], True),
        ([decided("w1"), FORGET, decided("w2"), BACK], True),
        ([decided("w1"), FORGET, BACK, decided("w2")], False),
        ([FORGET, decided("w1"), decided("w2")], False),
        ([decided("w2"), FORGET, decided("w1")], False),
        ([decided("w1"), FORGET, BACK, FORGET, decided("w2")], True),
    ],
)
def test_whose_fault_it_was(events: list[tuple[str, Event]], once: bool, forgiven: bool) -> None:
    trace = Trace(VirtualLoop("runs"))  # type: ignore[abstract]
    rule = RunRules(trace, timedelta(minutes=3), lambda: AT, lambda name: Connection(name=name))
    for position, (stream, event) in enumerate(events, start=1):
        rule.before_fold(
            Recorded(
                position=position,
                stream=stream,
                version=position,
                event=event,
                cluster="",
                caused_by=0,
                trace="",
                observed_at=AT,
                recorded_at=AT,
            )
        )
    rule.on_commit("w2", job("w2", once=once))
    rule.on_commit("w1", job("w1", once=once))
    assert (trace.violation is None) is forgiven
    assert rule.by_operators == forgiven
