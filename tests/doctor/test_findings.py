"""What follows from facts: nothing where all is well; else one line that names what is wrong, and what to do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.connectivity.state import Connection
from controlplane.doctor.examine import judge
from controlplane.doctor.facts import Facts
from controlplane.doctor.findings import Finding, Unread, said
from tests.doctor.healthy import (
    ACTIVE,
    INACTIVE,
    RIGHT,
    check,
    cluster,
    cluster_queue,
    database,
    facts,
    mk_cluster,
    on_a,
    put,
)
from tests.doctor.rows import DATABASE, MANAGED, NOT_READ, QUEUES, SILENT, WORKERS, home, wired, wrong
from tests.support.rows import each


def test_where_all_is_well_every_check_says_so() -> None:
    found = judge(facts())
    assert wrong(found) == []
    assert all(one.action == "" and one.message for one in found)
    assert [one.place for one in found] == sorted(
        (one.place for one in found), key=["database", "management", "queues", "worker/a", "worker/b"].index
    )
    assert {f"{one.place}/{one.check}" for one in found} == {
        *(
            f"database/{one}"
            for one in (
                "reachable",
                "primary",
                "schema",
                "rights",
                "tls",
                "durable",
                "standbys",
                "members",
                "disk",
                "transactions",
                "clock",
                "leader",
            )
        ),
        *(f"management/{one}" for one in ("reachable", "clock", "kinds", "rights", "identity")),
        *(
            f"queues/{one}"
            for one in ("admission checks", "clusters", "cluster queues", "local queues", "kueue", "origin")
        ),
        *(
            f"worker/{name}/{one}"
            for name in "ab"
            for one in ("reachable", "clock", "kinds", "rights", "identity", "local queues", "copies")
        ),
        "worker/a/token",
    }


@each(
    ("given", "place", "name", "result", "message"),
    [
        (given, place, *row)
        for place, table in (("database", DATABASE), ("management", MANAGED), ("queues", QUEUES), ("worker/a", WORKERS))
        for given, *row in table
    ],
)
def test_each_thing_that_is_wrong_is_one_line(given: Facts, place: str, name: str, result: str, message: str) -> None:
    found = [one for one in judge(given) if (one.place, one.check, one.result) == (place, name, result)]
    assert any(message in one.message for one in found), wrong(judge(given))
    assert all(one.action for one in found)


def of(found: list[Finding], name: str) -> list[tuple[str, str]]:
    return [(one.result, one.message) for one in found if f"{one.place}/{one.check}" == name]


@pytest.mark.parametrize("further", ["as the log knows it", "as nobody knows it yet"])
def test_a_further_name_of_a_cluster_stands_by(further: str) -> None:
    log = database().connections
    assert not isinstance(log, Unread)
    seen = {name: one for name, one in log.items() if name != "b"}
    if further == "as the log knows it":
        seen["b"] = Connection(name="b", phase="Standby", incarnation="uid-a", behind="a")
    both = facts(database=database(connections=seen), workers={"a": cluster("uid-a"), "b": cluster("uid-a")})
    found = judge(both)
    assert of(found, "worker/a/identity")[0][0] == "ok"
    assert of(found, "worker/b/identity")[0][0] == "warning"
    assert '"b" is offered nothing' in of(found, "worker/b/identity")[0][1]


def test_without_a_log_two_names_of_a_cluster_are_seen_by_what_answers() -> None:
    both = facts(database=database(connections=SILENT), workers={"a": cluster("uid-a"), "b": cluster("uid-a")})
    assert [of(judge(both), f"worker/{name}/identity")[0][0] for name in "ab"] == ["ok", "warning"]


@pytest.mark.parametrize("word", ["true", "false"])
def test_the_arguments_of_kueue_count_before_its_configuration(word: str) -> None:
    opposite = {"true": "false", "false": "true"}[word]
    given = wired(
        arguments=[f"--feature-gates=MultiKueue={word}"], configuration=f"featureGates: {{MultiKueue: {opposite}}}"
    )
    assert of(judge(given), "queues/kueue")[0][0] == {"true": "failed", "false": "ok"}[word]


def test_copies_of_kueue_are_known_by_the_origin_that_it_has() -> None:
    given = wired(configuration="multiKueue: {origin: a}", origin="a")
    assert of(judge(given), "queues/origin") == [("ok", "multikueue.origin is that of Kueue's configuration: a")]
    assert of(judge(wired(configuration=NOT_READ, origin="a")), "queues/origin") == []


@pytest.mark.parametrize("shown", [NOT_READ, "a: [", "featureGates: !!int ", "[" * 3000], ids=range(4))
def test_where_the_configuration_of_kueue_is_not_shown_it_counts_who_writes(shown: Any) -> None:
    given = wired(configuration=shown, arguments=NOT_READ)
    assert of(judge(given), "queues/kueue") == [("ok", "nobody else writes the status of MultiKueueClusters")]


def _written(*writers: tuple[str, str]) -> Any:
    return [{**mk_cluster("cq", ACTIVE, *writers), "spec": {}}]


def test_where_quota_is_decided_on_here_another_writer_of_its_queues_is_a_failure() -> None:
    ours, theirs = ("controlplane", "2026-03-01T10:00:00Z"), ("kueue", "2026-03-01T10:05:00Z")
    alone = {"builtin": True, "checks": [], "configs": [], "clusters": [], "local_queues": []}
    (found,) = of(judge(wired(**alone, cluster_queues=_written(ours, theirs))), "queues/kueue")
    assert found[0] == "failed"
    assert found[1].startswith('"kueue" wrote the status of ClusterQueue cq at 2026-03-01 10:05:00 UTC, after us')
    for writers in ((ours,), (("kueue", "2026-03-01T09:00:00Z"), ours)):
        told = judge(wired(**alone, cluster_queues=_written(*writers)))
        assert of(told, "queues/kueue") == [("ok", "nobody else writes the status of ClusterQueues")]
        # Nothing is dispatched, and nothing of it is asked for.
        assert {one.check for one in told if one.place == "queues"} == {"kueue"}


def test_where_quota_is_decided_on_here_what_is_dispatched_is_looked_at_as_ever() -> None:
    given = {one.check for one in judge(wired()) if one.place == "queues"}
    assert {one.check for one in judge(wired(builtin=True)) if one.place == "queues"} == given
    assert of(judge(wired(builtin=True, cluster_queues=NOT_READ)), "queues/kueue")[0][0] == "unknown"


def test_what_is_away_is_said_once_and_what_is_behind_it_is_not_asked() -> None:
    assert len([one for one in judge(facts(database=database(unreachable="x"))) if one.place == "database"]) == 1
    away = judge(home(version=SILENT))
    assert [one.check for one in away if one.place == "management"] == ["reachable"]
    assert not [one for one in away if one.place == "queues"]
    assert [one.check for one in judge(on_a(version=SILENT)) if one.place == "worker/a"] == ["reachable"]


def test_no_worker_is_judged_where_none_is_followed_and_no_queue_where_nothing_is_dispatched() -> None:
    assert {one.place for one in judge(facts(), follows=False)} == {"database", "management", "queues"}
    without = judge(facts(), dispatches=False)
    assert "queues" not in {one.place for one in without}
    assert not of(without, "worker/a/local queues")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "name", "spec", "status", "conditions", "clusters", "type", "managedFields"])
            | st.sampled_from(["parameters", "subresource", "time", "admissionChecks", "clusterQueue"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
OBJECTS = st.lists(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON, max_size=3), max_size=3)


@given(
    checks=OBJECTS, configs=OBJECTS, clusters=OBJECTS, cluster_queues=OBJECTS, local_queues=OBJECTS,
    configuration=st.text(max_size=20),
)  # fmt: skip
def test_nothing_that_a_cluster_says_raises(**said_by_it: Any) -> None:
    given = wired(**said_by_it)
    found = judge(given)
    assert {one.place for one in found} >= {"database", "management", "queues"}
    assert all(one.message and (one.action or one.result == "ok") for one in found)


def test_what_others_say_is_one_line_without_passwords() -> None:
    assert said("no\n  way to postgresql://me:secret@db/x") == "no way to postgresql://me:***@db/x"
    assert len(said("x" * 10_000)) == 400


def test_every_finding_can_be_written_as_json() -> None:
    assert len(msgspec.json.decode(msgspec.json.encode(judge(facts())))) == len(judge(facts()))


def test_under_a_name_of_our_own_the_gate_of_kueue_is_a_warning() -> None:
    own = "example.com/dispatch"
    given = wired(controller_name=own, checks=[check(controller=own)], configuration="featureGates: {MultiKueue: true}")
    assert of(judge(given), "queues/kueue")[0][0] == "warning"


def test_a_role_that_nothing_binds_is_to_be_bound() -> None:
    (found,) = [one for one in judge(home(rights=[(put(RIGHT, bind="reader"), False)])) if one.result == "failed"]
    assert found.action == "apply deploy/rbac/management/clusterrole.yaml and bind reader to the account"


def test_a_stopped_cluster_queue_says_how_it_admits_again() -> None:
    stopped = [{"type": "Active", "status": "False", "reason": "Stopped", "message": "is stopped"}]
    given = wired(cluster_queues=[cluster_queue("check", status={"conditions": stopped})])
    (found,) = [one for one in judge(given) if (one.place, one.check) == ("queues", "cluster queues")]
    assert (found.result, found.action) == ("warning", "set its spec.stopPolicy to None when it is to admit again")


def test_a_cluster_queue_that_kueue_decides_on_is_not_ours_to_judge() -> None:
    given = wired(
        cluster_queues=[cluster_queue("check"), {**cluster_queue(status=INACTIVE), "metadata": {"name": "own"}}]
    )
    assert [one.result for one in judge(given) if (one.place, one.check) == ("queues", "cluster queues")] == ["ok"]
