"""A group of pods is told of by the pod by which it is known: also where that pod is another one from now on, while
others of the group run; and a Workload by the copy that it has, whenever that was seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

from controlplane.audit.runs_seen import runs
from controlplane.controllers.multikueue import events, observations
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.kinds import PODS
from tests.audit.database import keep
from tests.audit.script import POLICY, Life, Script
from tests.audit.test_own_objects import gone_of_the_group, of_the_group
from tests.audit.test_views import query
from tests.log.migrating import migrate

NAME = "w-0a1b2"


def known_by(life: Life, *pods: str, cluster_name: str = "a", **fields: Any) -> Life:
    """The Workload of a group, as it is seen with these owners, the first of which is named first."""
    owner = observations.Owner(api_version="v1", kind="Pod", name=pods[0], uid=f"uid-{pods[0]}")
    state = "Ready" if cluster_name else "Pending"
    return life.put(
        observations.WorkloadObserved(
            **life.identity(life.uid),
            owner=owner,
            owners=[f"uid-{pod}" for pod in pods] if len(pods) > 1 else [],
            template="bb",
            spec_key="spec",
            conditions=[*life._stamped("@management", {"QuotaReserved": True, "Admitted": True})],
            checks=[observations.CheckState(name="mk", state=state, last_transition_time="")],
            cluster_name=cluster_name,
            **fields,
        )
    )


def running_group() -> Life:
    """Two pods of a group run on a; it is known by the first."""
    life = known_by(Script("a").workload(NAME), "pod-0", "pod-1")
    return of_the_group(of_the_group(life, "pod-0"), "pod-1")


def later(life: Life, minutes: int) -> Life:
    life.script.now += timedelta(minutes=minutes)
    return life


async def told_runs(url: str, life: Life) -> list[tuple[str, int, int | None]]:
    """Keep the story; return the UIDs of the runs, each with the minutes in which it began and ended, as the view and
    the pure code tell them."""
    await keep(url, life.script.recorded)
    start = life.script.recorded[0].recorded_at

    def minutes(at: Any) -> int | None:
        return None if at is None else round((at - start).total_seconds() / 60)

    rows = query(url, "SELECT job_uid, since, until FROM audit.runs ORDER BY position, job_uid")
    told = [(row["job_uid"], minutes(row["since"]), minutes(row["until"])) for row in rows]
    found = runs(POLICY, life.script.recorded, life.stream, life.uid)
    ends = [(one.uid, minutes(one.began.recorded_at), minutes(one.ended and one.ended.recorded_at)) for one in found]
    assert told == ends
    return told  # type: ignore[return-value]


async def test_a_group_runs_on_by_the_pod_that_it_is_known_by_from_now_on(database_url: str) -> None:
    life = known_by(later(running_group(), 2), "pod-1", "pod-2")
    of_the_group(later(life, 3), "pod-0", finished=True, inactive=True)
    of_the_group(later(life, 4), "pod-1", finished=True, inactive=True)
    gone_of_the_group(gone_of_the_group(later(life, 5), "pod-0"), "pod-1")
    assert await told_runs(database_url, life) == [("uid-pod-0", 0, 2), ("uid-pod-1", 2, 9)]
    (used,) = query(database_url, "SELECT round(sum(run_hours) * 60)::int AS minutes FROM audit.usage")
    assert used["minutes"] == 9


async def test_a_group_is_known_by_the_same_pod_while_that_owns_it(database_url: str) -> None:
    """A pod that takes the place of another one is named first, and is not there yet."""
    life = known_by(later(running_group(), 2), "pod-2", "pod-0", "pod-1")
    gone_of_the_group(later(life, 3), "pod-1")
    assert await told_runs(database_url, life) == [("uid-pod-0", 0, None)]
    phases = query(database_url, "SELECT phase FROM audit.workload_phases WHERE until IS NULL")
    assert phases == [{"phase": "Running"}]
    assert query(database_url, "SELECT waits_for FROM audit.pending_reasons WHERE until IS NULL") == []


async def test_a_group_is_known_by_the_pod_that_was_chosen_for_it(database_url: str) -> None:
    life = later(running_group(), 2)
    owner = observations.Owner(api_version="v1", kind="Pod", name="pod-1", uid="uid-pod-1")
    life.put(events.GroupPodChosen(reason=WorkloadReason.POD_ENDED, owner=owner))
    gone_of_the_group(later(life, 3), "pod-0")
    assert await told_runs(database_url, life) == [("uid-pod-0", 0, 2), ("uid-pod-1", 2, None)]
    phases = query(database_url, "SELECT phase FROM audit.workload_phases WHERE until IS NULL")
    assert phases == [{"phase": "Running"}]


async def test_a_write_to_the_pod_that_a_group_is_known_by_has_its_end(database_url: str) -> None:
    life = known_by(running_group(), "pod-2", "pod-0", "pod-1")
    removal = events.RemovalDecided(
        reason=WorkloadReason.FINISHED, cluster="a", resource_version="1", uid="uid-pod-0", of="Job", kind=PODS.name
    )
    gone_of_the_group(life.put(removal, "a"), "pod-0")
    await keep(database_url, life.script.recorded)
    rows = query(database_url, "SELECT outcome FROM audit.effects WHERE action = 'RemovalDecided'")
    assert rows == [{"outcome": "done"}]


async def test_a_pod_that_only_its_finalizers_keep_does_not_run(database_url: str) -> None:
    life = known_by(Script("a").workload(NAME), "pod-0")
    of_the_group(later(of_the_group(life, "pod-0"), 2), "pod-0", deleting=True, finalizers=["kueue.x-k8s.io/managed"])
    gone_of_the_group(later(life, 7), "pod-0")
    assert await told_runs(database_url, life) == [("uid-pod-0", 0, 2)]


async def test_a_job_that_ran_before_its_cluster_was_chosen_runs(database_url: str) -> None:
    """The copy of an elastic job is that of its next slice before that is offered anew."""
    life = Script("a").workload(NAME).offered("a")
    life.remote_job("a", inactive=False)
    life.put(events.WinnerChosen(reason=WorkloadReason.ONLY_ADMITTED, cluster="a", attempt=1, among={}), "a")
    life.seen({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])
    await keep(database_url, life.script.recorded)
    phases = query(database_url, "SELECT phase, cluster FROM audit.workload_phases WHERE until IS NULL")
    assert phases == [{"phase": "Running", "cluster": "a"}]
    assert (
        query(database_url, "SELECT 1 FROM audit.pending_reasons WHERE until IS NULL AND cluster = '@management'") == []
    )


async def test_a_workload_whose_name_of_a_cluster_was_taken_away_is_there(database_url: str) -> None:
    """A slice has the name from the slice before, and no choice of its own."""
    life = Script("a").workload(NAME)
    quota = {"QuotaReserved": True, "Admitted": True}
    life.seen(quota, check="Ready", cluster_name="a", elastic=True).remote_job("a", inactive=False)
    life.seen(check="Pending", cluster_name="")
    life.script.lose("a")
    await keep(database_url, life.script.recorded)
    phases = query(database_url, "SELECT phase, cluster FROM audit.workload_phases WHERE until IS NULL")
    assert phases == [{"phase": "Running", "cluster": "a"}]
    waits = query(database_url, "SELECT waits_for FROM audit.pending_reasons WHERE until IS NULL")
    assert waits == [{"waits_for": "a to come back"}]


async def test_what_is_kept_of_groups_is_told_of_their_events_again(empty_database_url: str) -> None:
    url = empty_database_url
    migrate(url, "0025")
    life = known_by(later(running_group(), 2), "pod-1", "pod-2")
    of_the_group(later(life, 3), "pod-0", finished=True, inactive=True)
    gone_of_the_group(gone_of_the_group(later(life, 5), "pod-0"), "pod-1").gone()
    await keep(url, life.script.recorded)
    told = ["runs", "effects", "workload_phases", "placements", "pending_reasons"]

    def views() -> dict[str, list[dict[str, Any]]]:
        return {view: query(url, f"SELECT * FROM audit.{view} ORDER BY position") for view in told}

    with psycopg.connect(url) as connection:
        connection.execute("SELECT controlplane.keep_read_models('main', 1000, interval '-1000 days')")
    before = views()
    assert query(url, "SELECT stream FROM read_models.streams")
    migrate(url, "head")
    assert query(url, "SELECT stream FROM read_models.streams") == []
    after = views()
    assert [row["job_uid"] for row in after["runs"]] == ["uid-pod-0", "uid-pod-1"]
    assert [row["job_uid"] for row in before["runs"]] == ["uid-pod-0"]
    migrate(url, "0025", back=True)
    assert views() == before
