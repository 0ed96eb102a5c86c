"""What follows from facts: nothing where all is well; else one line that names what is wrong, and what to do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.candidates.objects import CANDIDATES
from controlplane.controllers.connectivity.state import Connection
from controlplane.doctor.examine import judge
from controlplane.doctor.facts import DatabaseMember, Facts, Login, Standbys
from controlplane.doctor.findings import Finding, Unread, said
from controlplane.kube.access import AccessRight
from controlplane.kube.kinds import JOBSETS, WORKLOADS
from tests.doctor.healthy import (
    ACTIVE,
    INACTIVE,
    NOW,
    RIGHT,
    check,
    cluster,
    cluster_queue,
    config,
    database,
    facts,
    local_queue,
    mk_cluster,
    on_a,
    put,
    queues,
)

NOT_READ = Unread(said="403 Forbidden: not for you", status=403)
SILENT = Unread(said="no answer within 10 seconds")
OPTIONAL = put(RIGHT, needed=False, manifest="deploy/pipelineruns/worker/clusterrole.yaml")
SECRETS = put(RIGHT, right=AccessRight(group="", resource="secrets", verb="list", namespace="kueue-system"))


def wrong(found: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f"{one.place}/{one.check}", one.result, one.message) for one in found if one.result != "ok"]


def server(**more: Any) -> Facts:
    return facts(database=database(server=put(database().server, **more)))


def followed(*members: DatabaseMember, **more: Any) -> Facts:
    return facts(database=database(standbys=Standbys(**more), members=members))


def led(**more: Any) -> Facts:
    return facts(database=database(lead=put(database().lead, **more)))


def known(**more: Any) -> Facts:
    return facts(database=database(connections={**database().connections, **more}))


def wired(**more: Any) -> Facts:
    return facts(queues=queues(**more))


def home(**more: Any) -> Facts:
    return facts(management=cluster(more.pop("identity", "uid-home"), **more))


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
                "clock",
                "leader",
            )
        ),
        *(f"management/{one}" for one in ("reachable", "clock", "kinds", "rights", "identity")),
        *(f"queues/{one}" for one in ("admission checks", "clusters", "cluster queues", "local queues", "kueue")),
        *(
            f"worker/{name}/{one}"
            for name in "ab"
            for one in ("reachable", "clock", "kinds", "rights", "identity", "local queues")
        ),
        "worker/a/token",
    }


DATABASE = [
    (facts(database=database(unreachable="refused")), "reachable", "failed", "cannot be reached: refused"),
    (facts(database=database(server=SILENT)), "reachable", "unknown", "no answer within 10 seconds"),
    (server(version=140012), "reachable", "failed", "it is PostgreSQL 14"),
    (server(standby=True), "primary", "failed", "it is a standby"),
    (server(read_only=True), "primary", "failed", "default_transaction_read_only is on"),
    (
        facts(database=database(revision=Unread(said="the schema is at 0003, this version needs 0015"))),
        "schema",
        "failed",
        "the schema is at 0003",
    ),
    (
        facts(database=database(revision=Unread(said="the schema 0099 is newer than this version knows (0015)"))),
        "schema",
        "failed",
        "0099 is newer",
    ),
    (facts(database=database(revision=SILENT)), "schema", "unknown", "no answer"),
    (
        facts(database=database(login=Login(user="u", missing=("EXECUTE on controlplane.append_batch",)))),
        "rights",
        "failed",
        '"u" lacks EXECUTE on controlplane.append_batch',
    ),
    (facts(database=database(login=Login(user="u", owns=True))), "rights", "warning", '"u" owns the schema'),
    (
        facts(database=database(login=Login(user="u", beyond=("DELETE on controlplane.events",)))),
        "rights",
        "warning",
        "has DELETE on controlplane.events",
    ),
    (facts(database=database(login=SILENT)), "rights", "unknown", "no answer"),
    (facts(database=database(unverified_host="db")), "tls", "warning", "the connection to db is encrypted, and not"),
    (
        facts(database=database(unverified_host="db", encrypted=False)),
        "tls",
        "warning",
        "the connection to db is not verified",
    ),
    (
        server(settings={"fsync": "off", "synchronous_commit": "off"}),
        "durable",
        "warning",
        "fsync and synchronous_commit",
    ),
    (facts(database=database(standbys=SILENT)), "standbys", "unknown", "no answer"),
    (followed(connected=1), "standbys", "warning", "1 standby is connected, and a commit waits for none"),
    (followed(connected=2, names="ANY 1 (*)", commit="local"), "standbys", "warning", "synchronous_commit is local"),
    (followed(connected=2, names="ANY 1 (*)", commit="off"), "standbys", "warning", "synchronous_commit is off"),
    (followed(names="ANY 1 (*)"), "standbys", "failed", "a commit waits for ANY 1 (*), and no standby is connected"),
    (facts(database=database(members=SILENT)), "members", "unknown", "no answer"),
    (
        followed(
            DatabaseMember(name="a:1", writes=True, timeline=1), DatabaseMember(name="b:1", writes=True, timeline=2)
        ),
        "members",
        "failed",
        "2 servers of the URL take writes: a:1 (timeline 1) and b:1 (timeline 2)",
    ),
    (
        followed(DatabaseMember(name="a:1", writes=True), DatabaseMember(name="b:1", writes=True)),
        "members",
        "failed",
        "a:1 (timeline unknown) and b:1 (timeline unknown)",
    ),
    (
        followed(DatabaseMember(name="a:1", writes=True), DatabaseMember(name="b:1", silent="refused")),
        "members",
        "warning",
        "b:1 does not answer: refused",
    ),
    (server(clock=(NOW - timedelta(minutes=2), NOW)), "clock", "warning", "120 s behind this machine's"),
    (server(clock=(NOW + timedelta(minutes=2), NOW)), "clock", "warning", "120 s ahead of this machine's"),
    (facts(database=database(lead=None)), "leader", "warning", "nobody has opened this log yet"),
    (facts(database=database(lead=SILENT)), "leader", "unknown", "no answer"),
    (led(age=None), "leader", "warning", "nobody leads: replica-1 gave epoch 3 back"),
    (led(age=61.0), "leader", "failed", "sent no heartbeat for 61 s"),
]
MANAGED = [
    (home(refused=Unread(said="not in a pod")), "kubeconfig", "failed", "there is no way to it: not in a pod"),
    (home(version=SILENT), "reachable", "failed", "it does not answer: no answer within 10 seconds"),
    (home(version=Unread(said="401 Unauthorized", status=401)), "reachable", "failed", "401 Unauthorized"),
    (home(clock=None), "clock", "warning", "does not say what time it is"),
    (home(clock=(NOW - timedelta(hours=1), NOW)), "clock", "warning", "3600 s behind"),
    (home(served={WORKLOADS: False}), "kinds", "failed", "Workload of kueue.x-k8s.io/v1beta2 is not served"),
    (home(served={JOBSETS: False}), "kinds", "warning", "JobSet of jobset.x-k8s.io/v1alpha2 is not served"),
    (home(served={JOBSETS: NOT_READ}), "kinds", "unknown", "jobset.x-k8s.io/v1alpha2: 403 Forbidden"),
    (home(rights=[(RIGHT, False)]), "rights", "failed", "it may not patch workloads.kueue.x-k8s.io/status"),
    (home(rights=[(SECRETS, False)]), "rights", "failed", "it may not list secrets in kueue-system"),
    (home(rights=[(OPTIONAL, False)]), "rights", "warning", "it may not patch workloads"),
    (home(rights=[(RIGHT, SILENT), (SECRETS, True)]), "rights", "unknown", "1 of 2 rights: no answer"),
    (home(identity=NOT_READ), "identity", "unknown", "403 Forbidden: not for you"),
    (home(identity="uid-other"), "identity", "failed", "the log belongs to another cluster"),
    (facts(database=database(connections={})), "identity", "warning", "no log is bound to it yet"),
    (facts(database=database(connections=SILENT)), "identity", "unknown", "the log says nothing of it: no answer"),
]
MANY = [f"w{number}" for number in range(21)]
QUEUES = [
    (wired(checks=[check(controller="someone/else")]), "admission checks", "failed", "no AdmissionCheck has"),
    (wired(checks=[]), "admission checks", "failed", "no AdmissionCheck has the controllerName"),
    (wired(checks=NOT_READ), "admission checks", "unknown", "403"),
    (wired(checks=[check(config="")]), "admission checks", "failed", "names no MultiKueueConfig"),
    (wired(checks=[check(config="gone")]), "admission checks", "failed", "the MultiKueueConfig gone, which does not"),
    (wired(checks=[check(status={})]), "admission checks", "warning", "no condition Active yet"),
    (wired(checks=[check(status=INACTIVE)]), "admission checks", "failed", "is not Active: of no use"),
    (wired(configs=[config("a", "b", "c")]), "clusters", "failed", "the MultiKueueCluster c, which does not exist"),
    (wired(configs=[]), "clusters", "failed", "there is no MultiKueueConfig"),
    (wired(configs=[config()]), "clusters", "failed", "names no cluster"),
    (wired(configs=[config(*MANY)], clusters=[mk_cluster(one) for one in MANY]), "clusters", "warning", "names 21"),
    (wired(configs=[config("a")]), "clusters", "warning", "MultiKueueCluster b is in no MultiKueueConfig"),
    (wired(clusters=NOT_READ), "clusters", "unknown", "403"),
    (wired(clusters=[mk_cluster("a", INACTIVE), mk_cluster("b")]), "clusters", "failed", "Broken: of no use"),
    (wired(cluster_queues=[cluster_queue("check", "gone")]), "cluster queues", "failed", "AdmissionCheck gone, which"),
    (wired(cluster_queues=[cluster_queue()]), "cluster queues", "warning", "no ClusterQueue uses our"),
    (wired(cluster_queues=[cluster_queue("check", status=INACTIVE)]), "cluster queues", "warning", "of no use"),
    (
        wired(
            builtin=True,
            cluster_queues=[cluster_queue("check"), {**cluster_queue(status=INACTIVE), "metadata": {"name": "own"}}],
        ),
        "cluster queues",
        "warning",
        "of no use",
    ),
    (wired(cluster_queues=NOT_READ), "cluster queues", "unknown", "403"),
    (wired(local_queues=[local_queue(), local_queue("gone", "lost")]), "local queues", "failed", "default/lost names"),
    (wired(local_queues=[]), "local queues", "warning", "no LocalQueue leads to"),
    (wired(local_queues=NOT_READ), "local queues", "unknown", "403"),
    (
        facts(workers={"a": cluster("uid-a", local_queues=[]), "b": cluster("uid-b", local_queues=[])}),
        "local queues",
        "failed",
        "LocalQueue default/lq is on no worker",
    ),
    (wired(configuration="featureGates: {MultiKueue: true}"), "kueue", "failed", "gate MultiKueue is on"),
    (wired(configuration="{}"), "kueue", "warning", "does not switch its gate"),
    (wired(arguments=["--feature-gates=A=false,MultiKueue=true"]), "kueue", "failed", "gate MultiKueue is on"),
    (
        wired(
            clusters=[
                mk_cluster("b"),
                mk_cluster("a", {}, ("controlplane", "2026-03-01T10:00:00Z"), ("kueue", "2026-03-01T10:05:00Z")),
            ]
        ),
        "kueue",
        "warning",
        '"kueue" wrote the status of MultiKueueCluster a at 2026-03-01 10:05:00 UTC, after us',
    ),
    (
        wired(configuration=NOT_READ, configs=[config("a")], clusters=[{"metadata": {"name": "a"}}]),
        "kueue",
        "unknown",
        "403",
    ),
]
WORKERS = [
    (on_a(refused=Unread(said='Secret "a" not found')), "kubeconfig", "failed", 'cannot be used: Secret "a" not'),
    (on_a(refused=NOT_READ), "kubeconfig", "unknown", "403"),
    (on_a(version=SILENT), "reachable", "failed", "it does not answer: no answer within"),
    (on_a(token_ends=NOW - timedelta(hours=1)), "token", "failed", "its token ended at 2026-03-01 11:00:00 UTC"),
    (on_a(token_ends=NOW + timedelta(days=2)), "token", "warning", "its token ends at 2026-03-03 12:00:00 UTC"),
    (
        on_a(certificate_ends=NOW - timedelta(hours=1), version=SILENT),
        "certificate",
        "failed",
        "its client certificate ended at 2026-03-01 11:00:00 UTC",
    ),
    (
        on_a(certificate_ends=NOW + timedelta(days=2)),
        "certificate",
        "warning",
        "its client certificate ends at 2026-03-03 12:00:00 UTC",
    ),
    (on_a(clock=(NOW + timedelta(hours=1), NOW)), "clock", "warning", "3600 s ahead of"),
    (on_a(served={WORKLOADS: False}), "kinds", "failed", "Workload of kueue.x-k8s.io/v1beta2 is not served"),
    (on_a(served={CANDIDATES: False}), "kinds", "failed", "Candidate of candidates.controlplane.dev/v1alpha1 is not"),
    (on_a(rights=[(RIGHT, False)]), "rights", "failed", "it may not patch"),
    (on_a(identity=NOT_READ), "identity", "unknown", "403"),
    (on_a(identity="uid-home"), "identity", "failed", "leads to the management cluster itself"),
    (on_a(identity="uid-b"), "identity", "failed", 'leads to the cluster of "b"'),
    (on_a(identity="uid-new"), "identity", "failed", "to another cluster than before"),
    (on_a(local_queues=[]), "local queues", "warning", "no LocalQueue default/lq"),
    (on_a(local_queues=NOT_READ), "local queues", "unknown", "403"),
]


@pytest.mark.parametrize(
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


def test_where_the_configuration_of_kueue_is_not_shown_it_counts_who_writes() -> None:
    given = wired(configuration=NOT_READ, arguments=NOT_READ)
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
