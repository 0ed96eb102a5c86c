"""What may be wrong, thing by thing: the facts, the check, its result, and what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from controlplane.controllers.candidates.objects import CANDIDATES
from controlplane.doctor.facts import DatabaseMember, Facts, Login, OldVersions, Standbys
from controlplane.doctor.findings import Finding, Unread
from controlplane.kube.access import AccessRight
from controlplane.kube.kinds import JOBSETS, WORKLOADS
from tests.doctor.healthy import (
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


def kept(versions: OldVersions | Unread) -> Facts:
    return facts(database=database(old_versions=versions))


def led(**more: Any) -> Facts:
    return facts(database=database(lead=put(database().lead, **more)))


def known(**more: Any) -> Facts:
    return facts(database=database(connections={**database().connections, **more}))


def left_alone(copies: Mapping[str, Sequence[str]] | Unread) -> Facts:
    return facts(database=database(unknown_copies=copies))


def wired(**more: Any) -> Facts:
    return facts(queues=queues(**more))


def home(**more: Any) -> Facts:
    return facts(management=cluster(more.pop("identity", "uid-home"), **more))


DATABASE = [
    (facts(database=database(unreachable="refused")), "reachable", "failed", "cannot be reached: refused"),
    (facts(database=database(server=SILENT)), "reachable", "unknown", "no answer within 10 seconds"),
    (
        facts(database=database(no_room='could not write to file "base/pgsql_tmp/1": No space left on device')),
        "disk",
        "failed",
        "the server's volume is full, or has less than 16 MB left: could not write to file",
    ),
    (facts(database=database(no_room=SILENT)), "disk", "unknown", "no answer"),
    (server(version=140012), "reachable", "failed", "it is PostgreSQL 14"),
    (server(standby=True), "primary", "failed", "it is a standby"),
    (server(read_only=True), "primary", "failed", "default_transaction_read_only is on"),
    (
        facts(
            database=database(
                revision=Unread(said="the schema is at 0003, this version needs 0015: run `controlplane db upgrade`")
            )
        ),
        "schema",
        "failed",
        "the schema is at 0003",
    ),
    (
        facts(
            database=database(
                revision=Unread(
                    said="the schema 0099 is newer than this version knows (0015): run a newer Controlplane"
                )
            )
        ),
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
    (kept(SILENT), "transactions", "unknown", "no answer"),
    (kept(OldVersions(count=50_001)), "transactions", "warning", "the log's head has 50,001 old versions"),
    (
        kept(OldVersions(count=7, holder="ada, process 12 (psql)", seconds=9000.0)),
        "transactions",
        "warning",
        "ada, process 12 (psql) has a transaction open for 2.5 h",
    ),
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
    (wired(origin="mine"), "origin", "warning", "Kueue's configuration has multikueue: copies that Kueue made"),
    (wired(configuration="multiKueue: {origin: theirs}"), "origin", "warning", "Kueue's configuration has theirs"),
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
    (
        left_alone({"a": ["default/one", "default/two"], "b": []}),
        "copies",
        "warning",
        (
            "it has copies with our origin of which this log knows nothing, and which do not say that they were made for this "
            "management cluster: default/one, default/two. They are left alone."
        ),
    ),
    (left_alone(SILENT), "copies", "unknown", "no answer within 10 seconds"),
    (on_a(refused=Unread(said='Secret "a" not found')), "kubeconfig", "failed", 'cannot be used: Secret "a" not'),
    (on_a(refused=NOT_READ), "kubeconfig", "unknown", "403"),
    (
        on_a(
            version=Unread(said="worker-a: the certificate of 10.0.0.1:6443 is not trusted (self-signed certificate)")
        ),
        "reachable",
        "failed",
        "is not trusted (self-signed certificate)",
    ),
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
    (on_a(served={CANDIDATES: False}), "kinds", "failed", "Candidate of candidates.controlplane.dev/v1alpha1 is not"),
    (on_a(served={WORKLOADS: False}), "kinds", "failed", "Workload of kueue.x-k8s.io/v1beta2 is not served"),
    (on_a(rights=[(RIGHT, False)]), "rights", "failed", "it may not patch"),
    (on_a(identity=NOT_READ), "identity", "unknown", "403"),
    (on_a(identity="uid-home"), "identity", "failed", "leads to the management cluster itself"),
    (on_a(identity="uid-b"), "identity", "failed", 'leads to the cluster of "b"'),
    (on_a(identity="uid-new"), "identity", "failed", "to another cluster than before"),
    (on_a(local_queues=[]), "local queues", "warning", "no LocalQueue default/lq"),
    (on_a(local_queues=NOT_READ), "local queues", "unknown", "403"),
]
