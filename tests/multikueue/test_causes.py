"""`caused_by` is the cause: of every decision that these histories bring about, the event that it rests on, on whatever
stream that is.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from controlplane.controllers.connectivity.events import ClusterForgotten
from controlplane.controllers.multikueue.causes import CAUSES, may_cause
from controlplane.controllers.multikueue.events import EVENTS, ConditionDecided, WorkloadDecision
from controlplane.controllers.multikueue.observations import Priority
from tests.audit import ordeals, stories
from tests.audit.script import Life, Script, at
from tests.support.rows import each

WORKERS = ("a", "b", "c")
Story = Callable[[], Life]


def fresh() -> Life:
    return Script(*WORKERS).workload("train-0a1b2")


def told(story: Callable[[Script], Life]) -> Story:
    return lambda: story(Script(*WORKERS))


def having(*steps: Callable[[Life], object]) -> Story:
    def tell() -> Life:
        life = fresh()
        for step in steps:
            step(life)
        return life

    return tell


def gave_up(life: Life) -> None:
    life.job(execution_policy="never-twice")
    ordeals.lose_for(3)(life)
    life.script.put(at("c", ClusterForgotten(by="jane")))
    life.decide()


def refused_twice(life: Life) -> None:
    life.offered(*WORKERS).clone("b", {"QuotaReserved": True, "Admitted": True}).decide()
    life.clone_gone("a").clone_gone("c").decide()
    for failures in (1, 2):
        life.refused("b/Job", "JobCreationDecided", 422, failures=failures).decide()


def evicted_here(life: Life) -> None:
    life.runs("b", *WORKERS)
    life.seen({"Evicted": ("Preempted", "")}, check="Pending", cluster_name="").seen({}).decide()


def priority(life: Life) -> None:
    life.offered(*WORKERS).seen(priority=Priority(value=5)).decide()


def mended(life: Life) -> None:
    stories_rejected = life.job(managed_by="example.com/other").seen({"QuotaReserved": True}).decide()
    stories_rejected.seen({"QuotaReserved": ("Pending", "")}, check="Rejected").job(
        managed_by="kueue.x-k8s.io/multikueue"
    ).decide()


def lost_before_ready(life: Life) -> None:
    life.offered(*WORKERS).clone("b", {"QuotaReserved": True, "Admitted": True}).decide()
    life.script.lose("b").now += timedelta(minutes=20)
    life.decide()


def late_cluster(life: Life) -> None:
    life.script.lose("c")
    life.job().seen({"QuotaReserved": True}).decide().seen(nominated=["a", "b"]).decide()
    life.script.connect("c")
    life.decide()


def slow_loser(life: Life) -> None:
    """The API server of a refuses the removal at first: what was decided with the choice is decided again, after it."""
    life.offered(*WORKERS).clone("b", {"QuotaReserved": True, "Admitted": True}).decide()
    life.refused("a/Workload", "RemovalDecided", 500).decide()


# The story, the decision and its reason; then the event that it rests on: its type, its stream's first word, the
# cluster that it is of, and how it differs from the others of its kind.
TABLE: list[tuple[Story, str, str, str, str, str]] = [
    (told(stories.happy), "NominationDecided", "AvailableClusters", "WorkloadObserved", "workload", "@management"),
    (having(late_cluster), "NominationDecided", "AvailableClusters", "ClusterConnected", "cluster", "c"),
    (told(stories.happy), "CloneDecided", "Nominated", "WorkloadObserved", "workload", "@management"),
    (told(stories.happy), "WinnerChosen", "FirstAdmitted", "CloneObserved", "workload", "b"),
    (told(stories.happy), "RemovalDecided", "AnotherClusterWon", "CloneObserved", "workload", "b"),
    (having(slow_loser), "RemovalDecided", "AnotherClusterWon", "WinnerChosen", "workload", "b"),
    (told(stories.happy), "JobCreationDecided", "AdmittedOnWorker", "CloneObserved", "workload", "b"),
    (told(stories.happy), "CheckStateDecided", "AdmittedOnWorker", "RemoteJobObserved", "workload", "b"),
    (told(stories.happy), "StatusRelayDecided", "StatusChanged", "RemoteJobObserved", "workload", "b"),
    (told(stories.happy), "StatusRelayDecided", "FinalStatus", "RemoteJobObserved", "workload", "b"),
    (told(stories.happy), "FinishDecided", "Finished", "CloneObserved", "workload", "b"),
    (told(stories.happy), "RemovalDecided", "Finished", "WorkloadObserved", "workload", "@management"),
    # The job goes first, its Workload second.
    (told(stories.happy), "RemovalDecided", "Finished", "RemoteJobGone", "workload", "b"),
    (told(stories.retried), "CheckStateDecided", "RemoteEvicted", "CloneObserved", "workload", "a"),
    (told(stories.retried), "RemovalDecided", "QuotaNotReserved", "WorkloadObserved", "workload", "@management"),
    (told(stories.lost), "CheckStateDecided", "RemoteLost", "ClusterLost", "cluster", "c"),
    (having(gave_up), "CheckStateDecided", "RemoteLost", "ClusterForgotten", "cluster", "c"),
    (told(stories.rejected), "CheckStateDecided", "NotManaged", "WorkloadObserved", "workload", "@management"),
    (having(mended), "CheckStateDecided", "NoLongerRejected", "JobObserved", "job", "@management"),
    (having(ordeals.refused_by_b), "ClusterRefused", "RejectedByWorker", "CloneObserved", "workload", "b"),
    (having(refused_twice), "ClusterRefused", "JobRefused", "EffectFailed", "workload", "b"),
    (having(ordeals.given_up), "WinnerReleased", "EvictedBeforeReady", "CloneObserved", "workload", "b"),
    (having(lost_before_ready), "WinnerReleased", "LostBeforeReady", "ClusterLost", "cluster", "b"),
    (having(evicted_here), "DeactivationDecided", "EvictedOnManager", "WorkloadObserved", "workload", "@management"),
    (having(priority), "CloneUpdateDecided", "PriorityChanged", "WorkloadObserved", "workload", "@management"),
    (told(stories.short_lost), "RemovalDecided", "Finished", "WorkloadObserved", "workload", "@management"),
    (
        lambda: stories.short_lost(Script(*WORKERS), still_runs=True),
        "CopyJudged",
        "AnotherClusterWon",
        "ClusterConnected",
        "cluster",
        "c",
    ),
    (
        having(lambda life: life.runs("b", *WORKERS), lambda life: life.gone().decide()),
        "RemovalDecided",
        "LocalDeleted",
        "WorkloadGone",
        "workload",
        "@management",
    ),
    (
        having(lambda life: life.runs("b", *WORKERS), lambda life: life.clone_gone("b").remote_job_gone("b").decide()),
        "CheckStateDecided",
        "RemoteGone",
        "RemoteJobGone",
        "workload",
        "b",
    ),
]


@each(("story", "decision", "reason", "cause", "room", "cluster"), TABLE, ids=[f"{row[1]}-{row[2]}" for row in TABLE])
def test_it_rests_on(story: Story, decision: str, reason: str, cause: str, room: str, cluster: str) -> None:
    log = story().script.recorded
    causes = [
        log[recorded.caused_by - 1]
        for recorded in log
        if type(recorded.event).__name__ == decision and getattr(recorded.event, "reason", "") == reason
    ]
    found = [(type(one.event).__name__, one.stream.partition("/")[0], one.cluster or "@management") for one in causes]
    assert (cause, room, cluster) in found
    allowed = {row[3:] for row in TABLE if row[1:3] == (decision, reason)}
    assert set(found) <= allowed


EVERY: list[Story] = list(dict.fromkeys(row[0] for row in TABLE))


@each("story", EVERY, ids=range(len(EVERY)))
def test_every_decision_of_a_story_has_a_cause_that_may_be_one(story: Story) -> None:
    life = story()
    for recorded in life.script.recorded:
        if isinstance(recorded.event, WorkloadDecision):
            assert 0 < recorded.caused_by < recorded.position
            cause = life.script.recorded[recorded.caused_by - 1]
            assert may_cause(cause.stream, recorded.stream, life.job_stream), (recorded, cause)


def test_the_quota_is_what_a_nomination_rests_on_and_not_what_was_seen_after_it() -> None:
    life = fresh().job().seen({"QuotaReserved": ("Pending", "")}).seen({"QuotaReserved": True})
    quota = life.script.recorded[-1].position
    life.seen({"Other": True}).seen({}).decide()
    assert life.script.recorded[-1].caused_by == quota


def test_a_job_of_another_name_causes_nothing() -> None:
    assert may_cause("job/jobs.batch/default/train", "workload/default/train-1", "job/jobs.batch/default/train")
    assert not may_cause("job/jobs.batch/default/other", "workload/default/train-1", "job/jobs.batch/default/train")
    assert not may_cause("workload/default/train-2", "workload/default/train-1", "")
    assert not may_cause("workload/default/train-1", "cluster/a", "")


def test_what_is_decided_with_the_choice_rests_on_what_the_choice_rests_on() -> None:
    life = fresh()
    life.offered(*WORKERS).clone("b", {"QuotaReserved": True, "Admitted": True})
    admitted = life.script.recorded[-1].position
    life.decide()
    new = [e for e in life.script.recorded if e.position > admitted]
    assert {type(e.event).__name__ for e in new} == {"WinnerChosen", "RemovalDecided", "JobCreationDecided"}
    assert {e.caused_by for e in new} == {admitted}


def test_the_table_names_every_decision() -> None:
    decisions = {one for one in EVENTS if issubclass(one, WorkloadDecision)}
    assert decisions - {ConditionDecided} == set(CAUSES)
