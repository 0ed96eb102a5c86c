"""The views tell of a Workload what its own objects show: of a group its first pod, of a set the copy that its
Workloads share, of an elastic job the slice that has it, of a candidate the one that is there; and a write ends with
its own end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from controlplane.controllers.candidates.source import observations as seen
from controlplane.controllers.multikueue import events, observations
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.kinds import PODS
from controlplane.log.event import Event, NewEvent
from tests.audit.database import keep
from tests.audit.script import Life, Script
from tests.audit.test_actors import told
from tests.audit.test_own_objects import gone_of_the_group, of_the_group
from tests.audit.test_views import query
from tests.candidates.told import Told
from tests.log.migrating import migrate

NAME = "w-0a1b2"
SET = "leaderworkersets.leaderworkerset.x-k8s.io"


def owned(life: Life, kind: str, name: str) -> Life:
    owner = observations.Owner(api_version="v1", kind=kind, name=name, uid=f"uid-{name}")
    quota = [*life._stamped("@management", {"QuotaReserved": True, "Admitted": True})]
    checks = [observations.CheckState(name="mk", state="Ready", last_transition_time="")]
    event = observations.WorkloadObserved(
        **life.identity(life.uid),
        owner=owner,
        template="bb",
        spec_key="spec",
        conditions=quota,
        checks=checks,
        cluster_name="a",
    )
    return life.put(event)


def caused(life: Life, event: Event, cause: int, cluster: str = "a") -> int:
    """Append an event that rests on another one; return its position."""
    life.script.put(NewEvent(stream=life.stream, event=event, cluster=cluster, caused_by=cause))
    return len(life.script.recorded)


def removal(of: str = "Job", uid: str = "uid-w-pod-0", kind: str = PODS.name, **more: Any) -> events.RemovalDecided:
    return events.RemovalDecided(
        reason=WorkloadReason.FINISHED, cluster="a", resource_version="1", uid=uid, of=of, kind=kind, **more
    )


async def writes(url: str, script: Script, name: str = NAME) -> list[tuple[str, str, str]]:
    await keep(url, script.recorded)
    rows = query(url, f"SELECT action, target, outcome FROM audit.effects WHERE name = '{name}' ORDER BY position")
    return [(row["action"], row["target"], row["outcome"]) for row in rows]


# --- groups of pods ---------------------------------------------------------------------------------------------------


def group() -> Life:
    return owned(Script("a").workload(NAME), "Pod", "w-pod-0")


async def test_a_group_runs_while_its_first_pod_does(database_url: str) -> None:
    life = of_the_group(group(), "w-pod-0")
    of_the_group(life, "w-pod-1", suspended=True, inactive=True)
    gone_of_the_group(life, "w-pod-1")
    await keep(database_url, life.script.recorded)
    rows = query(database_url, "SELECT phase, until FROM audit.workload_phases ORDER BY position")
    assert [row["phase"] for row in rows] == ["Admitted", "Running"]
    waits = query(database_url, "SELECT waits_for FROM audit.pending_reasons WHERE until IS NULL")
    assert waits == []


async def test_a_group_does_not_run_by_the_pod_that_was_its_first_before(database_url: str) -> None:
    life = owned(of_the_group(group(), "w-pod-0"), "Pod", "w-pod-0-try-2")
    another = life.script.now
    gone_of_the_group(life, "w-pod-0")
    await keep(database_url, life.script.recorded)
    (run,) = query(database_url, "SELECT until, outcome FROM audit.runs")
    assert run == {"until": another, "outcome": "Removed"}
    assert query(database_url, "SELECT phase FROM audit.workload_phases WHERE until IS NULL") == [{"phase": "Admitted"}]


async def test_the_removal_of_a_pod_that_was_the_first_before_has_its_end(database_url: str) -> None:
    life = of_the_group(group(), "w-pod-0").put(removal(), "a")
    gone_of_the_group(life, "w-pod-0")
    owned(life, "Pod", "w-pod-0-try-2")
    assert await writes(database_url, life.script) == [("RemovalDecided", "a/Job", "done")]


async def test_finalizers_that_go_are_those_of_the_job(database_url: str) -> None:
    life = of_the_group(group(), "w-pod-0")
    decided = events.FinalizerRemovalDecided(
        reason=WorkloadReason.NOT_NOMINATED,
        cluster="a",
        resource_version="1",
        uid="uid-w-pod-0",
        of="Job",
        kind=PODS.name,
    )
    life.put(decided, "a").clone("a")
    assert await writes(database_url, life.script) == [("FinalizerRemovalDecided", "a/Job", "open")]


@pytest.mark.parametrize("grouped", [True, False])
async def test_what_is_kept_of_groups_is_told_of_their_events(empty_database_url: str, grouped: bool) -> None:
    url = empty_database_url
    migrate(url, "0024")
    script = Script("a")
    life = script.workload(NAME)
    if grouped:
        of_the_group(owned(life, "Pod", "w-pod-0"), "w-pod-0")
        of_the_group(life, "w-pod-1", suspended=True, inactive=True)
        gone_of_the_group(life, "w-pod-1")
        gone_of_the_group(life, "w-pod-0").gone()
    else:
        owned(life, "Job", "w").remote_job("a", inactive=False).remote_job_gone("a").gone()
    await keep(url, script.recorded)
    told = ["runs", "effects", "workload_phases", "placements", "pending_reasons"]

    def views() -> dict[str, list[dict[str, Any]]]:
        return {view: query(url, f"SELECT * FROM audit.{view} ORDER BY position") for view in told}

    def looked_through() -> None:
        with psycopg.connect(url) as connection:
            connection.execute("SELECT controlplane.keep_read_models('main', 1000, interval '-1000 days')")

    looked_through()
    before = views()
    assert query(url, "SELECT stream FROM read_models.streams")
    migrate(url, "head")
    after = views()
    assert bool(query(url, "SELECT stream FROM read_models.streams")) is not grouped
    assert (after == before) is not grouped
    with psycopg.connect(url) as connection:
        connection.execute("SELECT controlplane.drop_read_models('main')")
    assert views() == after
    migrate(url, "0024", back=True)
    assert views() == before


# --- what several Workloads share -------------------------------------------------------------------------------------


async def test_the_removal_of_a_copy_that_is_shared_has_its_end(database_url: str) -> None:
    script = Script("a")
    lives = [owned(script.workload(f"leaderworkerset-set-{n}-0a1b{n}"), "LeaderWorkerSet", "set") for n in range(2)]
    copy = {**lives[0].identity("uid-copy"), "name": "set", "kind": SET, "status": "11", "shared": "uid-set"}
    lives[0].put(observations.RemoteJobObserved(**copy, prebuilt=lives[0].name), "a")
    for life in lives:
        life.put(removal(uid="uid-copy", kind=SET), "a")
    lives[0].put(observations.RemoteJobGone(namespace="default", name="set", uid="uid-copy", kind=SET), "a")
    assert await writes(database_url, script, lives[1].name) == [("RemovalDecided", "a/Job", "done")]


# --- slices of an elastic job -----------------------------------------------------------------------------------------


def two_slices() -> tuple[Life, Life]:
    """The first slice runs on a; the second one has quota and the name of its cluster, and its check waits."""
    script = Script("a")
    first = script.workload("job-x-0a1b2", job="x")
    admitted = {"QuotaReserved": True, "Admitted": True}
    first.seen(admitted, check="Ready", cluster_name="a", elastic=True).remote_job("a", inactive=False)
    second = script.workload("job-x-9z8y7", job="x")
    second.uid = "second"
    second.seen(
        {"QuotaReserved": True}, check="Pending", cluster_name="a", elastic=True, replaces="default/job-x-0a1b2"
    )
    return first, second


async def test_a_slice_is_not_admitted_by_the_name_of_its_cluster(database_url: str) -> None:
    _, second = two_slices()
    begun = events.AttemptBegun(attempt=1, clusters=["a"], reason=WorkloadReason.AVAILABLE_CLUSTERS)
    second.put(begun)
    await keep(database_url, second.script.recorded)
    rows = query(database_url, "SELECT phase FROM audit.workload_phases WHERE name = 'job-x-9z8y7' ORDER BY position")
    assert [row["phase"] for row in rows] == ["Reserved", "Nominated"]


async def test_a_slice_runs_until_its_job_is_seen_to_be_that_of_the_next_one(database_url: str) -> None:
    first, second = two_slices()
    first.seen({"Finished": ("WorkloadSliceReplaced", "")})
    second.script.now += timedelta(minutes=1)
    second.remote_job("a", inactive=False)
    moved = second.script.now
    await keep(database_url, second.script.recorded)
    rows = query(database_url, "SELECT name, since, until, outcome FROM audit.runs ORDER BY position")
    assert [(row["name"], row["until"], row["outcome"]) for row in rows] == [
        ("job-x-0a1b2", moved, "WorkloadSliceReplaced"),
        ("job-x-9z8y7", None, None),
    ]
    assert rows[1]["since"] == moved


async def test_a_slice_that_runs_on_after_it_was_replaced_does_not_end_before_it_begins(database_url: str) -> None:
    first, second = two_slices()
    first.remote_job("a", suspended=True, inactive=True)
    first.seen({"Finished": ("WorkloadSliceReplaced", "")})
    first.remote_job("a", inactive=False)
    began = first.script.now
    second.script.now += timedelta(minutes=1)
    second.remote_job("a", inactive=False)
    await keep(database_url, second.script.recorded)
    rows = query(database_url, "SELECT since, until FROM audit.runs WHERE name = 'job-x-0a1b2' ORDER BY position")
    assert rows[-1] == {"since": began, "until": second.script.now}
    (used,) = query(database_url, "SELECT sum(runs)::int AS runs, round(sum(run_hours) * 3600) AS s FROM audit.usage")
    assert used["runs"] == 3


# --- writes -----------------------------------------------------------------------------------------------------------


async def test_the_late_outcome_of_a_write_is_no_end_of_the_one_after_it(database_url: str) -> None:
    life = Script("a").workload(NAME).offered("a")
    before = caused(life, removal("Workload", "uid-w", ""), 0)
    life.clone_gone("a")
    caused(life, events.CloneDecided(reason=WorkloadReason.NOMINATED, cluster="a", attempt=2, template="bb"), 0)
    caused(life, events.EffectUnneeded(target="a/Workload", action="RemovalDecided", resource_version="1"), before)
    life.clone("a")
    found = await writes(database_url, life.script)
    assert found[-2:] == [("RemovalDecided", "a/Workload", "done"), ("CloneDecided", "a/Workload", "done")]


async def test_no_gate_is_opened_any_more_once_there_is_a_choice(database_url: str) -> None:
    life = Script("a", "b").workload(NAME).offered("a", "b")
    opening = events.GateOpeningDecided(
        reason=WorkloadReason.BLOCKED_ON_PREEMPTION_GATES, cluster="a", attempt=1, uid="u", blocked={}
    )
    life.put(opening, "a")
    life.put(events.WinnerChosen(reason=WorkloadReason.ONLY_ADMITTED, cluster="b", attempt=1, among={}), "b")
    life.clone("a")
    found = await writes(database_url, life.script)
    assert found[-1] == ("GateOpeningDecided", "a/Workload", "withdrawn")


# --- candidates -------------------------------------------------------------------------------------------------------


async def test_a_candidate_that_was_made_again_is_there(database_url: str) -> None:
    story = Told("a").asked().candidate_gone("a").settle().says(seen.CandidateWaiting, "a", uid="second")
    await told(database_url, story)
    rows = query(database_url, "SELECT epoch, last_position IS NULL AS there FROM audit.candidates ORDER BY position")
    assert rows == [{"epoch": 1, "there": False}, {"epoch": 1, "there": True}]


async def test_a_candidate_that_is_seen_after_it_was_gone_is_there(database_url: str) -> None:
    """Its cluster was put back to a time when it was there."""
    story = Told("a").asked().candidate_gone("a").says(seen.CandidateWaiting, "a")
    await told(database_url, story)
    assert query(database_url, "SELECT gone_at, last_position FROM audit.candidates") == [
        {"gone_at": None, "last_position": None}
    ]
