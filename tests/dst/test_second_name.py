"""A worker is defined under two names: each job runs once, whatever happens to either of them meanwhile."""

from __future__ import annotations

import pytest

from controlplane.app.identities import Identities
from controlplane.dst.play import play
from tests.dst.plans import cluster_of, held, plan, step, submitted, told
from tests.support.deep import deep_after, deep_but

END = step(299, "cut", "w3")
TROUBLE = {
    "nothing": (),
    "the process ends": (step(40, "crash"),),
    "the cluster is away": (step(40, "partition", "{where}", 60),),
    "its connections break": (step(40, "cut", "{where}"),),
    "it is restored": (step(40, "restore", "{where}", 20),),
    "its kubeconfig is bad": (step(40, "bad-kubeconfig", "{where}", 60),),
}


@pytest.mark.parametrize("order", deep_after(1, [0, 1]))
@pytest.mark.parametrize("trouble", deep_but(("nothing", "it is restored"), TROUBLE))
@pytest.mark.parametrize("name", deep_after(1, ["once-1", "job-1"]))
def test_each_job_runs_once(name: str, trouble: str, order: int) -> None:
    where = cluster_of(name)
    steps = [step(one.at, one.kind, one.where.format(where=where), one.seconds, one.value) for one in TROUBLE[trouble]]
    outcome = play(plan(step(2, "second-name", where, 200, order), submitted(name), *steps, END))
    assert held(outcome)
    assert told(outcome, "ClusterStandby", "lead to one cluster")
    assert not told(outcome, "CloneDecided", f"-{where})")


def test_a_name_that_comes_while_a_job_runs_takes_nothing_from_it() -> None:
    where = cluster_of("once-1")
    outcome = play(plan(submitted("once-1"), step(30, "second-name", where, 100), END))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == 1


def test_a_name_of_another_cluster_takes_nothing_from_what_runs_under_one_that_is_gone() -> None:
    """The worker is built anew, and used under its second name, which is then taken back."""
    where = cluster_of("job-1")
    again = step(20, "second-name", where, 120, 1)
    outcome = play(
        plan(submitted("job-1"), again, step(30, "rebuild", where), step(60, "submit", "once-2", 400, 2), END)
    )
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided", "once-2", f"(a-{where})")) == 1
    heard, *_ = told(outcome, "operator: is heard")
    gone, *_ = told(outcome, f"store {where}: DELETED Job once-2")
    assert float(heard.split()[0]) < float(gone.split()[0])


def test_who_takes_two_names_for_two_clusters_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Identities, "held_by", lambda self, cluster, incarnation: "")
    monkeypatch.setattr(Identities, "objection", lambda self, cluster, incarnation: None)
    where = cluster_of("once-1")
    outcome = play(plan(step(2, "second-name", where, 200, 1), submitted("once-1"), END))
    assert outcome.violation is not None
