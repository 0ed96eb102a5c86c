"""Clusters are left out and ordered by rules; what each rule found is in the log."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    ClustersScored,
    JobCreationDecided,
    NominationDecided,
    WinnerChosen,
)
from controlplane.controllers.multikueue.nominate import SCORED
from controlplane.controllers.multikueue.scoring import ScoringFacts, ScoringRules, Subject, WorkloadScoring
from controlplane.kube.kinds import JOBS
from controlplane.runtime.controller import Decided
from tests.multikueue.scene import NS, STREAM, Scene

QUIET: dict[str, Any] = {"latency_weight": 0, "rejection_weight": 0}


def scene(*workers: str, step_size: int = 1, labels: dict[str, dict[str, str]] | None = None, **rules: Any) -> Scene:
    policy = {"dispatcher": SCORED, "step_size": step_size, "scoring": ScoringRules(**{**QUIET, **rules})}
    made = Scene(*workers, policy=policy)
    for name, given_labels in (labels or {}).items():
        made.cluster(name, labels=given_labels)
    return made


def said(made: Scene) -> tuple[list[str], ClustersScored]:
    decided = made.decide()
    (nomination,) = [one for one in decided if isinstance(one, NominationDecided)]
    (scored,) = [one for one in decided if isinstance(one, ClustersScored)]
    return nomination.clusters, scored


def points(rules: ScoringRules, facts: dict[str, ScoringFacts], job: Subject | None = None) -> dict[str, int]:
    return {
        one.cluster: one.score
        for one in WorkloadScoring(rules=rules, facts=facts).scores(job or Subject(), list(facts))
    }


def test_the_cheapest_is_asked_first_and_the_next_when_the_round_is_over() -> None:
    made = scene(
        "a", "b", "c", labels={"a": {"cost": "3"}, "b": {"cost": "1"}, "c": {"cost": "2.5"}}, cost_label="cost"
    ).reserved()
    clusters, scored = said(made)
    assert clusters == ["b"]
    assert [(one.cluster, one.score, one.facts["cost"]) for one in scored.clusters] == [
        ("b", 100, "1"),
        ("c", 25, "2.5"),
        ("a", 0, "3"),
    ]
    assert scored.reason.value == "BestScores"
    made.workload(nominated=["b"]).decide()
    made.clone("b").tick(minutes=5)
    assert said(made)[0] == ["b", "c"]


def test_a_cluster_that_was_asked_stays_asked_when_a_better_one_appears() -> None:
    made = scene("a", "b", labels={"a": {"cost": "3"}, "b": {"cost": "1"}}, cost_label="cost").reserved()
    said(made)
    made.workload(nominated=["b"]).decide()
    made.clone("b").cluster("a", labels={"cost": "0"})
    assert made.names() == []


def test_a_cluster_without_the_label_or_with_a_wrong_one_is_the_dearest() -> None:
    facts = {"a": ScoringFacts(), "b": ScoringFacts(labels={"cost": "much"}), "c": ScoringFacts(labels={"cost": "9"})}
    assert points(ScoringRules(cost_label="cost", **QUIET), facts) == {"c": 100, "a": 0, "b": 0}


@pytest.mark.parametrize(
    ("selector", "job", "left"),
    [("env=prod", "", ["b"]), ("", "region in (eu)", ["a"]), ("env=prod", "region=eu", []), ("", "!spot", ["a", "b"])],
)
def test_a_cluster_must_match_the_settings_and_the_job(selector: str, job: str, left: list[str]) -> None:
    labels = {"a": {"region": "eu"}, "b": {"env": "prod", "region": "us"}}
    made = scene("a", "b", step_size=5, labels=labels, cluster_selector=selector).reserved()
    made.job(cluster_selector=job)
    decided = made.decide()
    nominations = [one.clusters for one in decided if isinstance(one, NominationDecided)]
    assert nominations == ([left] if left else [])
    if not left:
        (check,) = [one for one in decided if isinstance(one, CheckStateDecided)]
        assert check.message.startswith(
            "No cluster can take it: a: its labels do not match multikueue.scoring.clusterSelector"
        )


def test_a_job_with_a_selector_that_is_none_is_rejected_with_the_reason() -> None:
    made = scene("a").reserved()
    made.job(cluster_selector="region in eu")
    (check,) = [one for one in made.decide() if isinstance(one, CheckStateDecided)]
    assert check.state == "Rejected"
    assert "the job's annotation controlplane/cluster-selector: 'region in eu' is not a label selector" in check.message


def test_without_the_dispatcher_a_jobs_selector_means_nothing() -> None:
    made = Scene("a").reserved()
    made.job(cluster_selector="region in eu")
    assert made.names() == ["Nomination", "Clone a"]


def test_data_is_near_where_labels_agree() -> None:
    rules = ScoringRules(locality_labels=("data", "zone"), **QUIET)
    facts = {
        "a": ScoringFacts(labels={"data": "x", "zone": "1"}),
        "b": ScoringFacts(labels={"data": "x", "zone": "2"}),
        "c": ScoringFacts(labels={"data": "y"}),
    }
    assert points(rules, facts, Subject(labels={"data": "x", "zone": "1"})) == {"a": 100, "b": 50, "c": 0}
    assert points(rules, facts, Subject(labels={"data": "x"})) == {"a": 100, "b": 100, "c": 0}
    assert points(rules, facts) == {"a": 0, "b": 0, "c": 0}, "a job without such labels has no data anywhere"


def test_weights_say_what_counts_more() -> None:
    facts = {
        "a": ScoringFacts(labels={"cost": "1"}, admissions=1, refusals=3, admission_seconds=1.0),
        "b": ScoringFacts(labels={"cost": "2"}, admissions=4, admission_seconds=2.0),
    }
    both = {"cost_label": "cost", "latency_weight": 0}
    assert points(ScoringRules(**both, cost_weight=1, rejection_weight=1), facts) == {"a": 62, "b": 50}
    assert points(ScoringRules(**both, cost_weight=1, rejection_weight=3), facts) == {"b": 75, "a": 44}
    assert points(ScoringRules(cost_weight=0, **QUIET), facts) == {"a": 0, "b": 0}


def test_a_quick_cluster_and_one_of_which_nothing_is_known_come_first() -> None:
    facts = {
        "slow": ScoringFacts(admissions=5, admission_seconds=9.0),
        "new": ScoringFacts(),
        "quick": ScoringFacts(admissions=5, admission_seconds=1.0),
    }
    assert points(ScoringRules(rejection_weight=0), facts) == {"new": 100, "quick": 100, "slow": 0}


def admit(made: Scene, cluster: str, seconds: float) -> None:
    """One Workload is asked of a cluster, admitted there, and gone again."""
    made.reserved()
    made.decide()
    made.workload(nominated=[cluster]).decide()
    made.tick(seconds=seconds).clone(cluster, {"QuotaReserved": True, "Admitted": True})


def test_the_log_says_how_fast_a_cluster_admitted() -> None:
    made = scene("a", latency_weight=1)
    admit(made, "a", 4.0)
    facts = made.fleet.index.context(made.state).scoring
    assert facts is not None
    assert (facts.facts["a"].admission_seconds, facts.facts["a"].admissions) == (4.0, 1)
    made.tick(hours=1, seconds=1).cluster("a", labels={"x": "y"})
    made.workload(nominated=["a"])
    later = made.fleet.index.context(made.state).scoring
    assert later is not None
    assert later.facts["a"].admissions == 0, "what is older than the window counts no more"


def test_a_refusal_counts_against_a_cluster() -> None:
    made = scene("a", "b", rejection_weight=1).reserved()
    made.decide()
    made.workload(nominated=["a"]).decide()
    made.clone("a", {"Evicted": True}, active=False)
    made.decide()
    facts = made.fleet.index.context(made.state).scoring
    assert facts is not None
    assert (facts.facts["a"].refusals, facts.facts["b"].refusals) == (1, 0)


def test_a_job_that_is_refused_counts_against_the_cluster_that_had_admitted_it() -> None:
    made = scene("a", rejection_weight=1).reserved()
    made.decide()
    made.workload(nominated=["a"]).decide()
    made.clone("a", {"QuotaReserved": True, "Admitted": True})
    for failures in (1, 2):
        (creation,) = [one for one in made.decide() if isinstance(one, JobCreationDecided)]
        made.refuses(creation, 422, "Invalid", timedelta(), failures)
    assert "ClusterRefused a" in made.names()
    facts = made.workload(nominated=[]).fleet.index.context(made.state).scoring
    assert facts is not None
    assert (facts.facts["a"].refusals, facts.facts["a"].admissions) == (1, 1)


def test_required_spread_leaves_out_where_the_skew_would_be_too_great() -> None:
    rules = ScoringRules(spread_label="region", spread_required=True, **QUIET)
    facts = {
        "a1": ScoringFacts(labels={"region": "a"}, placed=1),
        "a2": ScoringFacts(labels={"region": "a"}),
        "b1": ScoringFacts(labels={"region": "b"}),
        "c1": ScoringFacts(),
    }
    scoring = WorkloadScoring(rules=rules, facts=facts)
    assert scoring.excluded(Subject(), ["a1", "a2", "b1", "c1"]) == {
        "a1": "too many Workloads of the queue are in region=a (multikueue.scoring.spreadMaxSkew)",
        "a2": "too many Workloads of the queue are in region=a (multikueue.scoring.spreadMaxSkew)",
        "c1": "it has no label region to spread over",
    }
    assert list(scoring.excluded(Subject(), ["a1", "a2"])) == [], "a region that nobody can reach does not count"


def test_preferred_spread_asks_the_emptiest_first() -> None:
    facts = {
        "a": ScoringFacts(placed=4),
        "b": ScoringFacts(placed=1),
        "c": ScoringFacts(placed=3),
    }
    assert points(ScoringRules(spread_label="metadata.name", **QUIET), facts) == {"b": 100, "c": 33, "a": 0}


@given(st.lists(st.integers(0, 5), min_size=2, max_size=6), st.integers(1, 3), st.integers(1, 40))
def test_whoever_keeps_to_the_rule_never_exceeds_the_skew(start: list[int], skew: int, jobs: int) -> None:
    """As in pod topology spread: each placement where the rule allows keeps the skew, or makes it smaller."""
    rules = ScoringRules(spread_label="metadata.name", spread_max_skew=skew, spread_required=True, **QUIET)
    placed = Counter({f"c{number}": count for number, count in enumerate(start)})
    names = sorted(placed)
    before = max(placed.values()) - min(placed.values())
    for _ in range(jobs):
        scoring = WorkloadScoring(rules=rules, facts={name: ScoringFacts(placed=placed[name]) for name in names})
        left = [name for name in names if name not in scoring.excluded(Subject(), names)]
        assert left, "the emptiest may always be asked"
        placed[left[-1]] += 1
        assert max(placed.values()) - min(placed[name] for name in names) <= max(skew, before)


def another(made: Scene) -> Scene:
    """Another Workload of the same queue, of another job."""
    event = observations.JobObserved(
        namespace=NS,
        name="other",
        uid="other-uid",
        kind=JOBS.name,
        resource_version="7",
        managed_by="kueue.x-k8s.io/multikueue",
        suspended=True,
        template="aa" * 32,
        status="00" * 32,
    )
    made.fold(f"job/{JOBS.name}/{NS}/other", event)
    owner = observations.Owner(api_version="batch/v1", kind="Job", name="other", uid="other-uid")
    return made.on("job-other-12345").workload({"QuotaReserved": True}, owner=owner)


def chosen_on_a() -> tuple[Scene, Decided]:
    """A Workload for which `a` was chosen a moment ago; the log has not taken the choice yet."""
    made = scene("a", "b", step_size=2, spread_label="metadata.name", spread_required=True).reserved()
    made.decide()
    made.workload(nominated=["a", "b"]).decide()
    made.clone("b").clone("a", {"QuotaReserved": True, "Admitted": True})
    decided = made.fleet.decide(STREAM, made.now)
    assert [new.event.cluster for new in decided.events if isinstance(new.event, WinnerChosen)] == ["a"]
    return made, decided


def test_another_workload_of_the_queue_counts_before_its_choice_is_in_the_log() -> None:
    made, decided = chosen_on_a()
    assert said(another(made))[0] == ["b"], "decided, and not folded yet"
    made, decided = chosen_on_a()
    for new in decided.events:
        made.fold(STREAM, new.event, new.cluster)
    assert said(another(made))[0] == ["b"]


def test_a_choice_that_the_log_refused_counts_for_nobody() -> None:
    """A choice holds only if its clusters are as they were: what came of one of them first is why the log refused
    it."""
    made, _ = chosen_on_a()
    made.connect("b")
    assert said(another(made))[0] == ["a", "b"]


def test_a_choice_that_may_not_be_in_the_log_is_taken_again() -> None:
    """Its own choice does not count against a Workload."""
    made, decided = chosen_on_a()
    again = made.fleet.decide(STREAM, made.now)
    assert [new.event for new in again.events] == [new.event for new in decided.events]
