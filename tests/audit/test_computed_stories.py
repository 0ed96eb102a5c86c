"""What befell quota, queues, actors and clusters, each as a story whose rows are known: where the views of SQL said
something else once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from controlplane.audit.reads import READ
from controlplane.controllers.candidates.source import observations as seen
from controlplane.controllers.connectivity.events import ClusterConnectFailed, ClusterLost, ClusterStandby
from controlplane.controllers.connectivity.local_connection import lead_requested
from controlplane.controllers.multikueue import observations
from controlplane.controllers.quota import events as quota
from controlplane.controllers.quota.admission import events as admission
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.log.event import Event, NewEvent
from tests.audit.computed_logs import policy
from tests.audit.database import VIEWS, keep
from tests.audit.samples import sample
from tests.audit.script import Life, Script, at, write
from tests.audit.test_actors import told
from tests.audit.test_views import query
from tests.candidates.told import Told
from tests.log.migrating import goes_there_and_back

NAME = "w-0a1b2"
REQUESTS = {"main": {"cpu": "2"}}


# --- who reserves quota ----------------------------------------------------------------------------------------------


def decides(life: Life, who: str) -> Life:
    """A process begins to lead with `quota.mode` builtin, or kueue."""
    said = policy(quota={"mode": "builtin"} if who == "builtin" else {})
    return life.put(said, "", "service")


def posted(life: Life, reason: R, cpu: int, **more: int) -> Life:
    amounts = {"default": {"cpu": cpu, **more}}
    return life.put(
        admission.QuotaPosted(reason=reason, cluster_queue="cq", amounts=amounts), stream=f"admission/{life.stream}"
    )


async def held(url: str, life: Life) -> list[tuple[Any, ...]]:
    """Keep the story; return what was held of which flavor, each with the seconds in which that began and ended."""
    await keep(url, life.script.recorded, types=READ)
    start = life.script.recorded[0].recorded_at
    rows = query(
        url, "SELECT flavor, resource, amount, since, until FROM audit.quota_usage ORDER BY position, resource"
    )

    def seconds(when: Any) -> int | None:
        return None if when is None else round((when - start).total_seconds())

    return [
        (row["flavor"], row["resource"], float(row["amount"]), seconds(row["since"]), seconds(row["until"]))
        for row in rows
    ]


def later(life: Life, seconds: int) -> Life:
    """Go on so many seconds after the start, with the next event."""
    life.script.now = life.script.recorded[0].recorded_at + timedelta(seconds=seconds - 1)
    return life


def of_kueue(*, until: int = 0) -> Life:
    """A Workload that has quota from Kueue from the hundredth second on."""
    life = decides(Script("a").workload(NAME), "kueue")
    later(life, 100).seen({"QuotaReserved": True}, requests=REQUESTS)
    return later(life, until) if until else life


async def test_what_kueue_had_given_before_stays_told(database_url: str) -> None:
    life = decides(of_kueue(until=200), "builtin")
    posted(later(life, 205), R.OBSERVED_RESERVATION, 2000)
    posted(later(life, 300), R.WORKLOAD_FINISHED, -2000)
    assert await held(database_url, life) == [(None, "cpu", 2.0, 100, 205), ("default", "cpu", 2.0, 205, 300)]


async def test_one_of_the_name_that_was_over_before_stays_told(database_url: str) -> None:
    life = of_kueue()
    later(life, 150).gone()
    life.uid = "second"
    posted(later(decides(later(life, 200), "builtin"), 250), R.OBSERVED_RESERVATION, 3000)
    assert await held(database_url, life) == [(None, "cpu", 2.0, 100, 150), ("default", "cpu", 3.0, 250, None)]


async def test_what_nobody_keeps_account_of_any_more_is_held_as_the_workload_says(database_url: str) -> None:
    """Back with Kueue, nobody writes to the ledger that the Workload gave its quota back."""
    life = decides(Script("a").workload(NAME), "builtin")
    posted(later(life, 100), R.OBSERVED_RESERVATION, 2000)
    life.seen({"QuotaReserved": True}, requests=REQUESTS)
    decides(later(life, 200), "kueue")
    later(life, 300).seen({"Finished": ("Succeeded", "")})
    assert await held(database_url, life) == [("default", "cpu", 2.0, 100, 200), (None, "cpu", 2.0, 200, 300)]


async def test_with_its_next_entry_all_of_the_ledger_counts_anew(database_url: str) -> None:
    life = decides(Script("a").workload(NAME), "builtin")
    posted(later(life, 100), R.OBSERVED_RESERVATION, 2000, memory=512)
    decides(decides(later(life, 200), "kueue"), "builtin")
    posted(later(life, 300), R.PODS_RECLAIMED, -1000)
    assert await held(database_url, life) == [
        ("default", "cpu", 2.0, 100, 200),
        ("default", "memory", 512.0, 100, 200),
        ("default", "cpu", 1.0, 300, None),
        ("default", "memory", 512.0, 300, None),
    ]


async def test_settings_of_a_version_that_did_not_say_who_reserves_end_nothing(database_url: str) -> None:
    life = decides(Script("a").workload(NAME), "kueue")
    posted(later(life, 100), R.OBSERVED_RESERVATION, 2000)
    decides(later(life, 200), "kueue")
    assert await held(database_url, life) == [("default", "cpu", 2.0, 100, None)]


async def test_quota_was_that_of_the_job_that_had_it(database_url: str) -> None:
    """Another Workload of the name is seen before the ledger says that the one before gave its quota back."""
    life = Script("a").workload(NAME)
    identity = {"namespace": "default", "name": NAME, "resource_version": "1"}
    life.put(
        admission.AdmissionWorkloadObserved(**identity, uid=life.uid, queue="lq"), stream=f"admission/{life.stream}"
    )
    posted(life.seen(), R.OBSERVED_RESERVATION, 2000)
    life.uid, life.job_name = "second", "other"
    posted(life.seen(), R.WORKLOAD_DELETED, -2000)
    await keep(database_url, life.script.recorded, types=READ)
    assert query(database_url, "SELECT owner, queue FROM audit.quota_usage") == [{"owner": "Job/w", "queue": "lq"}]


# --- configuration ---------------------------------------------------------------------------------------------------


async def test_local_queues_of_one_name_are_told_apart(database_url: str) -> None:
    script = Script()
    for namespace in ("team-a", "team-b"):
        queue = observations.LocalQueueObserved(
            namespace=namespace, name="main", uid=namespace, resource_version="1", cluster_queue="cq"
        )
        script.put(NewEvent(stream=f"localqueue/{namespace}/main", event=queue))
    await keep(database_url, script.recorded)
    rows = query(database_url, "SELECT namespace FROM audit.config_changes WHERE name = 'main' ORDER BY position")
    assert [row["namespace"] for row in rows] == ["team-a", "team-b"]
    others = query(database_url, "SELECT DISTINCT namespace FROM audit.config_changes WHERE kind <> 'LocalQueue'")
    assert others == [{"namespace": None}]


@pytest.mark.parametrize("checks", [None, ["mk"]])
async def test_a_cluster_queue_that_two_controllers_see_changes_once(
    database_url: str, checks: list[str] | None
) -> None:
    """Quota is automated; its checks are told by whoever sees them."""
    identity: dict[str, Any] = {"name": "cq", "uid": "u", "deleting": True}
    group = quota.ResourceGroup(covered=["cpu"])
    events: list[tuple[str, Event]] = [
        ("clusterqueue/cq", observations.ClusterQueueObserved(**identity, resource_version="1", checks=checks)),
        ("quota/queue/cq", quota.QuotaQueueObserved(**identity, resource_version="1", checks=["mk"], groups=[group])),
    ]
    new = [NewEvent(stream=stream, event=event) for stream, event in events]
    await write(database_url, new, types=READ)
    rows = query(database_url, "SELECT field FROM audit.config_changes WHERE kind = 'ClusterQueue' ORDER BY 1")
    assert [row["field"] for row in rows] == ["checks", "deleting", "groups"]


# --- text ------------------------------------------------------------------------------------------------------------


def with_nul(value: Any) -> Any:
    """Return a value with the character NUL in each text; but for what is a column of its own."""
    if type(value) is str:
        return f"{value}\0x"
    if isinstance(value, msgspec.Struct):
        fixed = {"reason"} | {field.name for field in msgspec.structs.fields(value) if "Literal" in str(field.type)}
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return type(value)(**{name: one if name in fixed else with_nul(one) for name, one in fields.items()})
    if isinstance(value, list):
        return [with_nul(one) for one in value]
    return {with_nul(key): with_nul(one) for key, one in value.items()} if isinstance(value, dict) else value


async def test_no_text_of_any_event_breaks_a_view(database_url: str) -> None:
    """An API server lets users write what `jsonb` cannot hold, such as in labels and the messages of conditions."""
    streams = (
        "workload/default/w", "admission/workload/default/w", "job/jobs.batch/default/w", "sourcepod/default/w",
        "cluster/a", "service", "fleet", "multikueueconfig/c", "admissioncheck/c", "clusterqueue/c", "quota/queue/c",
        "localqueue/default/c",
    )  # fmt: skip
    events = [with_nul(sample(kind)) for kind in READ]
    new = [NewEvent(stream=stream, event=event, cluster="a") for stream in streams for event in events]
    connected = [kind for kind in READ if kind.__name__ == "ClusterConnected"]
    new += [
        NewEvent(stream="cluster/a", event=with_nul(sample(kind)), cluster="a")
        for kind in [*connected, *(kind for kind in READ if kind.__name__ in ("ClusterLost", "ClusterForgotten"))]
    ]
    await write(database_url, new, types=READ)
    functions = ["as_of('main', now())", "fleet_at('main', now())", "causes('main', 5)"]
    for view in [*VIEWS, *functions]:
        query(database_url, f"SELECT * FROM audit.{view}")


async def test_labels_that_jsonb_cannot_hold_are_shown(database_url: str) -> None:
    script, hash_ = Script("a"), "ab" * 32
    script.workload(NAME).put(
        observations.JobObserved(
            namespace="default", name="w", uid="u", resource_version="1", kind="jobs.batch", template=hash_, status="00",
            managed_by="x\0y",
        ),
        stream="job/jobs.batch/default/w",
    )  # fmt: skip
    await keep(database_url, script.recorded)
    with psycopg.connect(database_url) as connection:
        body = '{"labels": {"team": "a\\u0000b"}, "spec": {}}'
        connection.execute("INSERT INTO controlplane.bodies VALUES (decode(%s, 'hex'), %s, now())", (hash_, body))
    assert query(database_url, "SELECT labels FROM audit.job_labels") == [{"labels": {"team": "a\ufffdb"}}]


# --- who, and where ---------------------------------------------------------------------------------------------------


async def test_a_job_that_is_made_again_names_its_manager_again(database_url: str) -> None:
    life = Script("a").workload(NAME).job().job(suspended=False)
    life.job_gone()
    life.job_uid = "second"
    life.job()
    await keep(database_url, life.script.recorded)
    rows = query(database_url, "SELECT count(*)::int AS n FROM audit.actors WHERE name = 'w' AND role = 'controller'")
    assert rows == [{"n": 2}]


async def test_who_asks_for_the_lead_did_something(database_url: str) -> None:
    script = Script("a").put(lead_requested(1, "replica-2"))
    await keep(database_url, script.recorded)
    rows = query(database_url, "SELECT role, action FROM audit.actors WHERE actor = 'replica-2'")
    assert rows == [{"role": "replica", "action": "LeadRequested"}]


async def test_that_none_of_the_others_answered_is_told(database_url: str) -> None:
    script = Script("a", "b", "c")
    for name, others in (("a", 2), ("b", 0)):
        script.put(at(name, ClusterLost(reason="ProbeFailed", message="", others=others)))
    script.put(at("c", ClusterConnectFailed(reason="Refused", message="", attempt=1)))
    await keep(database_url, script.recorded)
    for view in ("cluster_absences", "outages"):
        rows = query(database_url, f"SELECT others, others_connected FROM audit.{view} ORDER BY position")
        assert [tuple(row.values()) for row in rows] == [(2, 0), (None, None), (None, None)], view


async def test_a_cluster_that_stands_by_was_not_connected(database_url: str) -> None:
    standby = at("z", ClusterStandby(behind="a", incarnation="i-a", message="another name of a"))
    script = Script("a").put(standby)
    await keep(database_url, script.recorded)
    asked = "SELECT phase, incarnation FROM audit.{} WHERE cluster = 'z'"
    there = [{"phase": "Standby", "incarnation": None}]
    assert query(database_url, asked.format("cluster_connectivity")) == there
    assert query(database_url, asked.format("fleet_at('main', %s)"), script.now) == there


async def test_a_score_of_nothing_is_told(database_url: str) -> None:
    story = Told("a").asked().says(seen.CandidateReserved, "a", reservation=1, node="n", score=0)
    await told(database_url, story)
    assert query(database_url, "SELECT score FROM audit.reservations") == [{"score": 0}]


async def test_a_candidate_that_is_seen_to_have_lost_its_pod_was_bound(database_url: str) -> None:
    """It bound, and its pod went, while nobody looked at its target."""
    story = Told("a").asked().reserves("a").settle().says(seen.DelegateMissing, "a", reservation=1)
    await told(database_url, story)
    (row,) = query(database_url, "SELECT outcome, bound_at IS NOT NULL AS bound FROM audit.candidates")
    assert row == {"outcome": "Bound", "bound": True}
    assert query(database_url, "SELECT outcome FROM audit.reservations") == [{"outcome": "Bound"}]


# --- the way back -----------------------------------------------------------------------------------------------------


def test_the_views_of_the_version_before_are_those_again(empty_database_url: str) -> None:
    goes_there_and_back(empty_database_url, "0026", "0027")
