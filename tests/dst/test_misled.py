"""A worker's kubeconfig leads to another worker, or its cluster is built anew: what must not run twice does not."""

from __future__ import annotations

import pytest

from controlplane.app.identities import Identities
from controlplane.dst.play import play
from tests.dst.plans import cluster_of, held, plan, step, submitted, told
from tests.support.deep import deep_after

END = step(299, "cut", "w3")


@pytest.mark.parametrize("seconds", deep_after(1, [40, 280, 600]))
@pytest.mark.parametrize("to", deep_after(1, [1, 2]))
def test_a_kubeconfig_of_another_worker_runs_nothing_twice(seconds: float, to: int) -> None:
    """For a moment, for longer than any grace, and until all trouble ends."""
    where = cluster_of("once-1")
    outcome = play(plan(submitted("once-1"), step(30, "mislead", where, seconds, to), END))
    assert held(outcome)
    assert len(told(outcome, "JobCreationDecided")) == 1
    assert told(outcome, "ClusterConnectFailed", "leads to the cluster of")


def test_under_at_least_once_its_jobs_are_queued_again_when_the_grace_is_over() -> None:
    where = cluster_of("job-1")
    outcome = play(plan(submitted("job-1"), step(30, "mislead", where, 600, 1), END))
    assert held(outcome)
    first, second = (float(line.split()[0]) for line in told(outcome, "JobCreationDecided"))
    assert second - first > 180


def test_who_takes_another_cluster_for_the_one_before_breaks_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Identities, "objection", lambda self, cluster, incarnation: None)
    where = cluster_of("once-1")
    outcome = play(plan(submitted("once-1"), step(30, "mislead", where, 280, 1), END))
    assert outcome.violation is not None


@pytest.mark.parametrize("name", deep_after(1, ["once-1", "job-1"]))
def test_a_cluster_that_is_built_anew_is_used_once_nothing_waits_for_the_one_before(name: str) -> None:
    outcome = play(plan(submitted(name), step(30, "rebuild", cluster_of(name)), END))
    assert held(outcome)
    assert told(outcome, "ClusterConnectFailed", "leads to another cluster than before")
    assert bool(told(outcome, "operator: is heard")) is (name == "once-1")
