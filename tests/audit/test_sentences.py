"""Every reason has its sentence, and the sentence has what it needs from every decision that may carry the reason."""

from __future__ import annotations

import re

import pytest

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.observations import Owner
from controlplane.controllers.multikueue.phrases import REASONS, because
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.runtime.phrases import listed
from tests.audit.samples import sample
from tests.support.rows import each

R = WorkloadReason
DECISIONS = [event for event in events.EVENTS if issubclass(event, events.WorkloadDecision)]


def test_every_reason_has_a_sentence() -> None:
    assert set(REASONS) == set(WorkloadReason)


@each("reason", WorkloadReason)
@each("kind", DECISIONS, ids=lambda kind: kind.__name__)
def test_it_can_be_said_of_any_decision(kind: type[events.WorkloadDecision], reason: WorkloadReason) -> None:
    said = because(sample(kind, reason=reason))
    assert said
    assert not re.search(r"[{}]|\bNone\b", said)


def removal(reason: WorkloadReason) -> events.RemovalDecided:
    return sample(events.RemovalDecided, reason=reason, cluster="b")


def check(reason: WorkloadReason, **fields: object) -> events.CheckStateDecided:
    return sample(events.CheckStateDecided, reason=reason, **{"cluster": MANAGEMENT, "winner": "", **fields})


TABLE: list[tuple[events.WorkloadDecision, str]] = [
    (
        sample(events.NominationDecided, reason=R.AVAILABLE_CLUSTERS, clusters=["a", "b", "c"]),
        "of its configuration, a, b and c can take it now",
    ),
    (
        sample(events.NominationDecided, reason=R.FIRST_ROUND, clusters=["a", "b"]),
        "of its configuration, a and b are the first that can take it now",
    ),
    (
        sample(events.NominationDecided, reason=R.NEXT_ROUND, clusters=["a", "b", "c"]),
        "nobody admitted it within the round: a, b and c are asked now",
    ),
    (
        sample(events.NominationDecided, reason=R.BEST_SCORES, clusters=["a", "b"]),
        "of the clusters that can take it now, a and b have the best scores",
    ),
    (
        sample(events.CheckStateDecided, reason=R.INVALID_CLUSTER_SELECTOR),
        "its job's annotation controlplane/cluster-selector is no label selector",
    ),
    (
        sample(events.CloneDecided, reason=R.COMPONENT_FOLLOWS, cluster="b"),
        "the others of its job are there",
    ),
    (sample(events.SpecUpdateDecided, reason=R.SPEC_CHANGED, cluster="b"), "its spec was changed while it runs"),
    (sample(events.SpecUpdateDecided, reason=R.SLICE_ADMITTED, cluster="b"), "b admitted this slice of the job"),
    (sample(events.SpecUpdateDecided, reason=R.SIZE_CHANGED, cluster="b"), "its size is another one now"),
    (
        sample(events.AttemptBegun, reason=R.SLICE_FOLLOWS, clusters=["c"]),
        "its job is there, under the name of the slice before",
    ),
    (sample(events.AttemptBegun, reason=R.NOMINATED_BY_ANOTHER, clusters=["c"]), "another controller nominated c"),
    (
        sample(events.GateOpeningDecided, reason=R.BLOCKED_ON_PREEMPTION_GATES, cluster="b"),
        "the copy on b can be admitted only by preempting others there, and nobody was let five minutes before",
    ),
    (sample(events.CloneDecided, reason=R.NOMINATED, cluster="b"), "b was nominated and has no copy of it yet"),
    (
        sample(events.WinnerChosen, reason=R.ONLY_ADMITTED, cluster="b", among={"b": "t"}),
        "b was the only one that had admitted it",
    ),
    (
        sample(events.WinnerChosen, reason=R.FIRST_ADMITTED, cluster="b", among={"b": "12:00", "a": ""}),
        "b was the first of 2 to admit it (a at an unknown time, b at 12:00)",
    ),
    (sample(events.JobCreationDecided, reason=R.ADMITTED_ON_WORKER, cluster="b"), "b admitted it"),
    (check(R.ADMITTED_ON_WORKER, winner="b"), "b admitted it"),
    (
        sample(events.WinnerReleased, reason=R.EVICTED_BEFORE_READY, cluster="b"),
        "b evicted it before its job was there",
    ),
    (
        sample(events.WinnerReleased, reason=R.GONE_BEFORE_READY, cluster="b"),
        "its copy disappeared from b before its job was there",
    ),
    (
        sample(events.WinnerReleased, reason=R.LOST_BEFORE_READY, cluster="b"),
        "b could not be reached any more before its job was there",
    ),
    (sample(events.ClusterRefused, reason=R.JOB_NAME_TAKEN, cluster="b"), "b has a job of that name that is not ours"),
    (
        sample(events.ClusterRefused, reason=R.JOB_REFUSED, cluster="b", message="no such image"),
        "the API server of b refuses the job: no such image",
    ),
    (
        sample(events.ClusterRefused, reason=R.REJECTED_BY_WORKER, cluster="b", message="too big"),
        "the Kueue of b deactivated the copy: too big",
    ),
    (
        sample(events.ClusterRefused, reason=R.PUT_OFF_BY_WORKER, cluster="b", message="no nodes"),
        "a check of b put the copy off: no nodes",
    ),
    (
        sample(events.ClusterRefused, reason=R.ALTERED_BY_WORKER, cluster="b", message="it has another spec"),
        "the copy on b is another one: it has another spec",
    ),
    (
        sample(events.ClusterRefused, reason=R.REJECTED_BY_WORKER, cluster="b", message=""),
        "the Kueue of b deactivated the copy",
    ),
    (removal(R.ANOTHER_CLUSTER_WON), "another cluster than b got the job"),
    (removal(R.FINISHED), "it has finished"),
    (sample(events.FinishDecided, reason=R.FINISHED), "it has finished"),
    (removal(R.QUOTA_NOT_RESERVED), "it holds no quota any more"),
    (removal(R.LOCAL_DELETED), "the Workload was deleted"),
    (removal(R.POD_GONE), "its pod is gone, or going"),
    (
        events.GroupPodChosen(owner=Owner(api_version="v1", kind="Pod", name="p-1"), reason=R.POD_ENDED),
        "the pod by which it was known has ended, or is going",
    ),
    (removal(R.ORPHANED), "b has a copy of a Workload that is no longer there"),
    (removal(R.NOT_NOMINATED), "b is not, or no longer, offered the Workload"),
    (removal(R.SPEC_DIFFERS), "the copy on b is not one of the Workload as it now is"),
    (
        removal(R.STALE_COPY),
        (
            "the copy on b cannot be used: it is deactivated, finished, going, without its job, or evicted before it had "
            "one"
        ),
    ),
    (removal(R.DRAINING), "it was evicted, and nothing may stay behind on b"),
    (check(R.REMOTE_EVICTED), "a evicted its copy"),
    (check(R.REMOTE_GONE), "its copy, or the copy's job, is no longer on a"),
    (check(R.REMOTE_LOST), "a could not be reached until its grace (multikueue.workerLostTimeout) was over"),
    (check(R.OUT_OF_SYNC), "the Kueue of a says that copy and job do not match"),
    (check(R.NO_CLUSTER_NAME), "its admission check is Ready and no cluster is recorded"),
    (
        sample(events.DeactivationDecided, reason=R.EVICTED_ON_MANAGER, cluster="b"),
        "it was evicted on the management cluster, so the copy on b has to stop",
    ),
    (
        sample(events.CopyJudged, reason=R.STILL_THE_WINNER, cluster="b"),
        "b came back, and the Workload is still its own",
    ),
    (
        sample(events.CopyJudged, reason=R.READMITTED, cluster="b"),
        "b came back with a copy that runs, and the Workload holds quota again",
    ),
    (
        sample(events.CopyJudged, reason=R.AWAITS_QUOTA, cluster="b"),
        "b came back with a copy that runs, and the Workload has no quota for it yet",
    ),
    (
        sample(events.CopyJudged, reason=R.WINNER_UNHEARD_OF, cluster="b"),
        (
            "b came back with a copy that runs, and the cluster that has the Workload may be the same under a name "
            "that is gone"
        ),
    ),
    (sample(events.CopyJudged, reason=R.FINISHED_MEANWHILE, cluster="b"), "the copy finished while b was away"),
    (
        sample(events.CopyJudged, reason=R.FENCED, cluster="b"),
        "another attempt began elsewhere while b was away, and this one is fenced",
    ),
    (
        check(R.CLUSTERS_JUDGED, message="Not offered to b: too small"),
        "which clusters can take it whole was judged anew: Not offered to b: too small",
    ),
    (
        check(R.CONTRADICTING_POLICIES),
        "the execution policies of its job and its ClusterQueue contradict each other, or are none",
    ),
    (check(R.NO_ADAPTER), "jobs of its kind are not dispatched"),
    (check(R.NOT_MANAGED), "its job's spec.managedBy is not ours"),
    (check(R.ELASTIC), "its job was made larger, and jobs of its kind cannot be while they run"),
    (check(R.NO_LONGER_REJECTED), "what spoke against dispatching it is mended"),
    (sample(events.StatusRelayDecided, reason=R.STATUS_CHANGED, source="b"), "the status on b is newer"),
    (
        sample(events.StatusRelayDecided, reason=R.FINAL_STATUS, source="b"),
        "the job on b has finished, and this is its last status",
    ),
    (sample(events.StatusRelayDecided, reason=R.NOTHING_RUNS), "nothing of it runs, and no copy is left to say so"),
    (check(R.PRIORITY_CHANGED), "the Workload's priority is another one now"),
    (check(R.NAMES_LEFT_BEHIND), "cluster names stayed after an eviction"),
    (check(R.TOPOLOGY_ASSIGNED, winner="b"), "b assigned the topology that was asked for"),
    (
        sample(events.ConditionDecided, reason=R.CONDITION_CHANGED, message="Connected"),
        "its condition Active would say something else now: Connected",
    ),
    (
        sample(events.ConditionDecided, reason=R.CONDITION_OVERWRITTEN, message="Connected"),
        "somebody else wrote another condition Active in the place of ours, which says: Connected",
    ),
]


@each(("decision", "said"), TABLE, ids=lambda value: getattr(value, "reason", ""))
def test_the_sentence(decision: events.WorkloadDecision, said: str) -> None:
    assert because(decision, "a") == said


def test_the_table_leaves_no_reason_out() -> None:
    assert {decision.reason for decision, _ in TABLE} == set(WorkloadReason)


def test_a_decision_that_names_no_cluster_is_about_its_cluster() -> None:
    assert because(check(R.REMOTE_EVICTED)) == "its cluster evicted its copy"


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_names_are_listed(names: list[str], text: str) -> None:
    assert listed(names) == text
