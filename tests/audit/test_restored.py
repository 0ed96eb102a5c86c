"""The management cluster was put back to a backup: who was another one, or none, since then is told why."""

from __future__ import annotations

from controlplane.audit.explain import explain
from controlplane.audit.fleet import fold
from controlplane.audit.outages import outages
from controlplane.audit.words import type_of
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterRestored, KindSynced
from controlplane.kube.kinds import JOBS, WORKLOADS
from tests.audit.ordeals import ask
from tests.audit.script import POLICY, Life, Script, at
from tests.dst.plans import plan, step
from tests.support.played import log_of

MESSAGE = "the history of workloads went back: resourceVersion 28 is before 36"


def running() -> Life:
    return Script("a", "b").workload("w-0a1b2").runs("a", "a", "b")


def restored(life: Life) -> Life:
    life.script.put(at(MANAGEMENT, ClusterRestored(message=MESSAGE, restores=1)))
    return synced(life, JOBS.name)


def synced(life: Life, kind: str = WORKLOADS.name) -> Life:
    life.script.put(at(MANAGEMENT, KindSynced(kind=kind, count=0, resource_version="9")))
    return life


def reserved_again(life: Life) -> Life:
    """As the backup has it: with quota, and offered to nobody."""
    return life.seen({"Admitted": False}, check="Pending", cluster_name="")


def test_who_is_as_the_backup_has_it() -> None:
    told = ask(synced(reserved_again(restored(running()))))
    assert told.standing.word != "Running"
    assert f"({MESSAGE}), which had the Workload as it was before." in told.sentence
    assert "The management cluster was restored from a backup at 2026-01-01" in told.sentence
    assert "ClusterRestored" in [type_of(recorded) for recorded in told.events]


def test_who_is_not_in_the_backup() -> None:
    life = restored(running())
    told = ask(synced(life.gone()))
    assert told.standing.word == "Deleted"
    assert told.sentence.startswith("It is gone from the management cluster")
    assert "which did not have the Workload." in told.sentence
    statement = next(one for one in told.statements if one.about == "Restored")
    assert statement.text.startswith("the management cluster was restored")


def test_whom_the_restore_did_not_change_is_not_told_of_it() -> None:
    life = synced(restored(running()))
    assert "restored" not in ask(life).sentence
    life.seen({"Finished": ("Succeeded", "")})
    told = ask(life)
    assert "restored" not in told.sentence
    assert [one for one in told.statements if one.about == "Restored"] == []


def test_another_one_of_the_name_is_not_told_of_it() -> None:
    life = synced(reserved_again(restored(running())))
    life.gone()
    life.conditions.clear()
    life.uid = "another"
    life.local = {}
    assert "restored" not in ask(life.seen({})).sentence


def test_the_timeline_has_the_restore_where_it_concerned_the_workload() -> None:
    life = synced(reserved_again(restored(running())))
    told = [one for one in outages(POLICY, life.script.recorded, life.stream) if one.cluster == MANAGEMENT]
    assert [(one.what, one.why) for one in told] == [
        (f"was restored from a backup: {MESSAGE}", "all that was seen of it is listed anew")
    ]
    unchanged = synced(restored(running()))
    assert [
        one for one in outages(POLICY, unchanged.script.recorded, unchanged.stream) if one.cluster == MANAGEMENT
    ] == []


def test_of_a_restore_as_it_is_played() -> None:
    """The backup is from just after the job was made; its Workload has run since."""
    steps = [step(30, "submit", "job-1", 120, 2), step(30.004, "restore-home", "management", 50)]
    log = log_of(plan(*steps, step(220, "cut", "w2")))
    [restore] = {
        recorded.recorded_at.replace(microsecond=0) for recorded in log if type_of(recorded) == "ClusterRestored"
    }
    stream = next(recorded.stream for recorded in log if type_of(recorded) == "WinnerChosen")
    said = {}
    for number, recorded in enumerate(log):
        if recorded.stream == stream and type_of(recorded) == "WorkloadObserved":
            index = fold(POLICY, log[: number + 1])
            state = index.workloads[stream]
            told = explain(state, index.context(state), log[: number + 1], recorded.recorded_at)
            said[recorded.recorded_at] = f"restored from a backup at {restore:%Y-%m-%d %H:%M:%S} UTC" in told.sentence
            finished = told
    assert {at_ >= restore for at_, named in said.items() if named} == {True}
    assert {named for at_, named in said.items() if at_ < restore} == {False}
    assert [one.about for one in finished.statements].count("Restored") == 1
