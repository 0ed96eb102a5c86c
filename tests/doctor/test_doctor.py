"""`controlplane doctor` against a database and clusters that are there: real questions, real answers."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from controlplane.app.claims import scheduler_lease_names
from controlplane.app.hosted import TYPES
from controlplane.cli.run import open_management
from controlplane.clock import SystemClock
from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS
from controlplane.doctor import database, database_checks
from controlplane.doctor.examine import examine, examine_scheduler
from controlplane.doctor.findings import Finding
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    JOBSETS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    NAMESPACES,
    SECRETS,
)
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.postgres import PostgresLog
from controlplane.settings import Settings
from controlplane.settings.load import load
from controlplane.settings.secret import DatabaseUrl
from controlplane.simulation.kinds.base import DEFAULT_KINDS
from controlplane.simulation.kinds.candidates import CANDIDATE_KINDS
from controlplane.simulation.world import CHECK, KUEUE_NAMESPACE, ClusterSpec, World, secret_name
from tests.audit.script import Script, write
from tests.cli.processes import finished
from tests.support.replication import replicated

ROLE = "controlplane_service"
PASSWORD = "correct-horse"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(ClusterSpec(), {"a": ClusterSpec(), "b": ClusterSpec()}, folder=tmp_path)
    await made.start()
    active = {"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": ""}]}
    places = [(ADMISSION_CHECKS, CHECK), *((MULTIKUEUE_CLUSTERS, name) for name in made.workers)]
    for kind, name in places:
        made.management.store.patch(
            kind, "", name, {"status": active}, subresource="status", field_manager="controlplane"
        )
    yield made
    await made.stop()


def settings(url: str, folder: Path) -> Settings:
    return load(
        None,
        {
            "CONTROLPLANE_DATABASE_URL": url,
            "CONTROLPLANE_DATABASE_ROLE": ROLE,
            "CONTROLPLANE_MANAGEMENT_KUBECONFIG": str(folder / "management.kubeconfig"),
        },
    )


async def examined(url: str, folder: Path, seconds: float = 20.0) -> list[Finding]:
    chosen = settings(url, folder)
    return await examine(chosen, lambda: open_management(chosen), seconds)


def wrong(found: list[Finding]) -> dict[str, tuple[str, str]]:
    return {f"{one.place}/{one.check}": (one.result, one.message) for one in found if one.result != "ok"}


async def test_an_installation_that_works_has_nothing_that_failed(
    world: World, database_url: str, tmp_path: Path
) -> None:
    async with PostgresLog(Database(database_url, ROLE), Codec(())) as log:
        await log.take_epoch("replica-1")
        found = await examined(database_url, tmp_path)
    left = wrong(found)
    left.pop("database/durable", None)  # the server of a test run keeps nothing safe
    left.pop("database/tls", None)
    # Nothing has followed the clusters here, so that no log is bound to one.
    assert set(left) == {"management/identity"}
    said = {f"{one.place}/{one.check}": one.message for one in found}
    assert said["database/leader"].startswith("replica-1 leads by epoch 1, heartbeat ")
    assert said["database/rights"] == f'"{ROLE}" may read and append, and change nothing'
    assert said["management/rights"] == "all 36 rights are there"
    assert {one.place for one in found} == {"database", "management", "queues", "worker/a", "worker/b"}


async def test_what_is_broken_is_named(world: World, database_url: str, tmp_path: Path) -> None:
    home, a = world.management, world.workers["a"]
    home.server.access.allows = lambda _, right: (right.verb, right.resource) != ("patch", "workloads/status")
    a.server.access.allows = lambda _, right: right.verb != "create"
    a.store.delete(LOCAL_QUEUES, "default", "user-queue")
    home.store.delete(SECRETS, KUEUE_NAMESPACE, secret_name("b"))
    home.store.patch(ADMISSION_CHECKS, "", CHECK, {"spec": {"parameters": {"name": "gone"}}})
    found = wrong(await examined(database_url, tmp_path))
    assert found["management/rights"] == ("failed", "it may not patch workloads.kueue.x-k8s.io/status")
    assert found["queues/admission checks"][1] == (
        f"AdmissionCheck {CHECK} names the MultiKueueConfig gone, which does not exist"
    )
    assert found["worker/a/rights"][0] == "failed"
    assert "create workloads.kueue.x-k8s.io" in found["worker/a/rights"][1]
    assert found["worker/b/kubeconfig"] == (
        "failed",
        f'its kubeconfig cannot be used: Secret "{secret_name("b")}" not found',
    )
    assert found["database/leader"] == ("warning", "nobody has opened this log yet")


async def test_a_worker_that_hangs_is_told_in_time_and_delays_nobody(
    world: World, database_url: str, tmp_path: Path
) -> None:
    world.workers["a"].faults.half_open()
    found = await examined(database_url, tmp_path, seconds=3.0)
    assert wrong(found)["worker/a/reachable"] == ("failed", "it does not answer: no answer within 3 s")
    assert "worker/b/reachable" in {f"{one.place}/{one.check}" for one in found}


async def test_a_server_in_trouble_is_unknown_and_no_end(world: World, database_url: str, tmp_path: Path) -> None:
    world.workers["a"].faults.storm(500, resources=[LOCAL_QUEUES.name])
    found = wrong(await examined(database_url, tmp_path))
    assert found["worker/a/local queues"][0] == "unknown"
    assert "500 InternalError" in found["worker/a/local queues"][1]


async def test_a_management_cluster_that_hangs_is_told(world: World, database_url: str, tmp_path: Path) -> None:
    world.management.faults.half_open()
    found = wrong(await examined(database_url, tmp_path, seconds=1.0))
    assert found["management/reachable"] == ("failed", "it does not answer: no answer within 1 s")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def test_a_database_that_says_nothing_is_told_in_time(world: World, silent_port: int, tmp_path: Path) -> None:
    found = wrong(await examined(f"postgresql://me:{PASSWORD}@127.0.0.1:{silent_port}/x", tmp_path, seconds=1.0))
    assert found["database/reachable"][0] == "failed"


@pytest.mark.parametrize(
    ("statement", "check", "result", "message"),
    [
        ("UPDATE controlplane.alembic_version SET version_num = '0003'", "schema", "failed", "the schema is at 0003"),
        ("UPDATE controlplane.alembic_version SET version_num = '0999'", "schema", "failed", "0999 is newer"),
        (
            f"REVOKE EXECUTE ON FUNCTION controlplane.append_batch FROM {ROLE}",
            "rights",
            "failed",
            "lacks EXECUTE on controlplane.append_batch",
        ),
        *(
            (f"REVOKE {right} FROM {ROLE}", "rights", "failed", f"lacks {told}")
            for right, told in (
                ("EXECUTE ON FUNCTION controlplane.known_to_log", "EXECUTE on controlplane.known_to_log"),
                ("EXECUTE ON FUNCTION controlplane.keep_read_models", "EXECUTE on controlplane.keep_read_models"),
                ("SELECT ON controlplane.batches", "SELECT on controlplane.batches"),
                ("USAGE ON SCHEMA controlplane", "USAGE on schema controlplane"),
            )
        ),
        (f"REVOKE USAGE ON SCHEMA audit FROM {ROLE}", "rights", "failed", "lacks USAGE on schema audit"),
        (f"REVOKE SELECT ON audit.events FROM {ROLE}", "rights", "failed", "lacks SELECT on audit.events"),
        (
            f"REVOKE SELECT ON controlplane.bodies FROM {ROLE}",
            "rights",
            "failed",
            "lacks SELECT on controlplane.bodies",
        ),
        (f"GRANT UPDATE ON controlplane.events TO {ROLE}", "rights", "warning", "has UPDATE on controlplane.events"),
        (
            "INSERT INTO controlplane.log_head (log, epoch, holder) VALUES ('main', 4, 'gone')",
            "leader",
            "warning",
            "gone gave epoch 4 back",
        ),
        (
            (
                "INSERT INTO controlplane.log_head (log, epoch, holder, renewed_at) VALUES ('main', 4, 'gone', now() - "
                "interval '1h')"
            ),
            "leader",
            "failed",
            "gone leads by epoch 4, and sent no heartbeat for 36",
        ),
    ],
)
def test_a_database_that_is_not_as_it_should_be(
    database_url: str, statement: str, check: str, result: str, message: str
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(statement.encode())
    chosen = settings(database_url, Path("/nowhere"))
    found = wrong(asyncio.run(examine(chosen, lambda: open_management(chosen), 20.0)))
    assert found[f"database/{check}"][0] == result
    assert message in found[f"database/{check}"][1]


def test_a_database_without_a_schema_is_not_there_yet(empty_database_url: str) -> None:
    chosen = settings(empty_database_url, Path("/nowhere"))
    found = wrong(asyncio.run(examine(chosen, lambda: open_management(chosen), 20.0)))
    assert found["database/schema"] == ("failed", "the schema is not there yet")


async def test_the_command_prints_a_line_a_check_and_fails_if_one_does(
    world: World, database_url: str, tmp_path: Path
) -> None:
    kubeconfig = str(tmp_path / "management.kubeconfig")

    async def run(*arguments: str, url: str = database_url) -> Any:
        return await asyncio.to_thread(
            finished, "doctor", "--kubeconfig", kubeconfig, *arguments, database_url=url, database_role=ROLE
        )

    done = await run()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.splitlines()[0].split() == ["RESULT", "PLACE", "CHECK", "MESSAGE"]
    world.management.store.delete(MULTIKUEUE_CLUSTERS, "", "b")
    done = await run("-o", "json", url=f"postgresql://me:{PASSWORD}@127.0.0.1:1/x")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: 2 checks failed of ")
    rows = json.loads(done.stdout)
    failed = {one["name"]: one for one in rows if one["result"] == "failed"}
    assert set(failed) == {"database/reachable", "queues/clusters"}
    assert failed["queues/clusters"]["action"].startswith("create it")
    assert PASSWORD not in done.stdout + done.stderr
    assert world.workers["a"].token not in done.stdout + done.stderr
    assert list(rows[0]) == ["name", "place", "check", "result", "message", "action"]


async def test_a_kind_of_job_that_is_not_installed_is_a_warning(database_url: str, tmp_path: Path) -> None:
    spec = ClusterSpec()
    without = tuple(one for one in spec.kinds if one.kind != JOBSETS)
    world = World(spec, {"a": ClusterSpec(kinds=without)}, folder=tmp_path)
    await world.start()
    try:
        found = wrong(await examined(database_url, tmp_path))
    finally:
        await world.stop()
    assert found["worker/a/kinds"] == ("warning", "JobSet of jobset.x-k8s.io/v1alpha2 is not served")


async def test_rights_that_are_bound_in_one_namespace_are_asked_for_there(tmp_path: Path, database_url: str) -> None:
    """The source asks of a target for the namespaces that may send there: by the settings, and by CandidateTargets."""
    kinds = (*DEFAULT_KINDS, *CANDIDATE_KINDS)
    world = World(
        ClusterSpec(kinds=kinds),
        {"a": ClusterSpec(kinds=kinds), "b": ClusterSpec(kinds=kinds), "c": ClusterSpec()},
        folder=tmp_path,
    )
    await world.start()
    try:
        home = world.management.store
        home.create(NAMESPACES, {"metadata": {"name": "physics", "labels": {"send": "yes"}}})
        target = {"metadata": {"name": "b", "namespace": "physics"}, "spec": {"cluster": "b"}}
        home.create(CANDIDATE_TARGETS, target)
        lacks = ("create", "candidates.candidates.controlplane.dev", "physics")
        for worker in world.workers.values():
            worker.server.access.allows = lambda user, right: (right.verb, right.target, right.namespace) != lacks
        chosen = load(
            None,
            {
                "CONTROLPLANE_DATABASE_URL": database_url,
                "CONTROLPLANE_MANAGEMENT_KUBECONFIG": str(tmp_path / "management.kubeconfig"),
                "CONTROLPLANE_RUN_CONTROLLERS": "candidates",
                "CONTROLPLANE_CANDIDATES_CLUSTER": "home",
                "CONTROLPLANE_CANDIDATES_NAMESPACES": "default",
                "CONTROLPLANE_CANDIDATES_NAMESPACE_SELECTOR": "send=yes",
                "CONTROLPLANE_CANDIDATES_TARGETS": "a,c",
            },
        )
        found = wrong(await examine(chosen, lambda: open_management(chosen), 20.0))
        assert "worker/a/kinds" not in found
        assert found["worker/c/kinds"] == ("failed", "Candidate of candidates.controlplane.dev/v1alpha1 is not served")
        said = "it may not create candidates.candidates.controlplane.dev in physics"
        assert found["worker/a/rights"] == found["worker/b/rights"] == ("failed", said)
        other = (*lacks[:2], "default")
        for worker in world.workers.values():
            worker.server.access.allows = lambda user, right: (right.verb, right.target, right.namespace) != other
        found = wrong(await examine(chosen, lambda: open_management(chosen), 20.0))
        assert found["worker/a/rights"][1].startswith(
            "it may not create candidates.candidates.controlplane.dev in default"
        )
        assert "worker/b/rights" not in found  # nobody in default may send there
    finally:
        await world.stop()


@pytest.mark.deep
async def test_of_several_servers_it_is_said_what_a_commit_waits_for_and_which_take_writes(tmp_path: Path) -> None:
    """As the service's role, which may not see which standby is connected."""
    chosen, clock = Settings(), SystemClock()
    with replicated("two") as on:
        wanted = msgspec.structs.replace(chosen.database, url=DatabaseUrl(on.url), role=ROLE)
        chosen = msgspec.structs.replace(chosen, database=wanted)

        async def told() -> dict[str, tuple[str, str, str]]:
            found = database_checks.check(await database.gather(chosen, clock, 20.0))
            return {one.check: (one.result, one.message, one.action) for one in found}

        result, message, action = (await told())["standbys"]
        assert (result, message) == (
            "warning",
            "1 standby is connected, and a commit waits for none: one that is promoted may lack what was acted on",
        )
        assert action == "set synchronous_standby_names, such as ANY 1 (*)"
        on.set("one", "synchronous_standby_names", "ANY 1 (*)")
        found = await told()
        assert found["standbys"][:2] == ("ok", "1 standby is connected, and a commit waits for ANY 1 (*)")
        assert found["members"][:2] == ("ok", "one of the 2 servers of the URL takes writes, and all answer")
        with psycopg.connect(on.url, autocommit=True) as connection:
            connection.execute("ALTER ROLE controlplane SET synchronous_commit = local")
        assert (await told())["standbys"][0] == "warning"
        on.set("one", "synchronous_standby_names", "")
        await asyncio.to_thread(on.promote, "two")
        one, two = (f"127.0.0.1:{member.port}" for member in on.members.values())
        result, message, action = (await told())["members"]
        assert (result, message) == (
            "failed",
            f"2 servers of the URL take writes: {one} (timeline 1) and {two} (timeline 2)",
        )
        assert action == f"stop {one}, and let it follow {two} (pg_rewind)"


async def test_copies_of_which_nobody_knows_whose_they_are_are_found_in_the_log(
    database_url: str, tmp_path: Path
) -> None:
    script = Script("a", "b")
    script.workload("ours-0a1b2").runs("a", "a", "b")
    script.workload("theirs").clone("a", unmarked=True)
    await write(database_url, script.appended, types=TYPES)
    chosen = settings(database_url, tmp_path)
    found = await database.gather(chosen, SystemClock(), 20.0)
    assert found.unknown_copies == {"a": ["default/theirs"]}
    elsewhere = msgspec.structs.replace(chosen.run, controllers=("podgroups",))
    found = await database.gather(msgspec.structs.replace(chosen, run=elsewhere), SystemClock(), 20.0)
    assert found.unknown_copies == {}, "without dispatch there are none"


async def test_a_scheduler_is_asked_for_its_rights_and_each_of_its_leases(
    world: World, database_url: str, tmp_path: Path
) -> None:
    """Without the right to a Lease it goes on and is not kept apart: said by the Lease's name, which may be a hash."""
    profiles = ("controlplane", "My_Scheduler")
    candidates, hashed, plain = scheduler_lease_names(settings(database_url, tmp_path), profiles)
    denied = {("patch", hashed), ("get", candidates), ("patch", candidates)}
    world.management.server.access.allows = lambda _, right: (right.verb, right.name) not in denied
    chosen = settings(database_url, tmp_path)
    found = await examine_scheduler(chosen, profiles, lambda: open_management(chosen), 20.0)
    leases = {one.check: one for one in found if one.check.startswith("lease ")}
    assert {name: one.result for name, one in leases.items()} == {
        f"lease {candidates}": "warning",
        f"lease {hashed}": "warning",
        f"lease {plain}": "ok",
    }
    assert leases[f"lease {hashed}"].message == (
        f"it may not patch the Lease {hashed} in kube-system, so the scheduler of another log is not kept from the pods "
        "of the profile My_Scheduler"
    )
    assert "get, patch" in leases[f"lease {candidates}"].message
    assert "deploy/scheduler/leases.yaml" in leases[f"lease {hashed}"].action
    assert [one.result for one in found if (one.place, one.check) == ("management", "rights")] == ["ok"]
    world.management.server.access.allows = lambda _, right: right.resource != "pods/binding"
    found = await examine_scheduler(chosen, profiles, lambda: open_management(chosen), 20.0)
    assert wrong(found)["management/rights"] == ("failed", "it may not create pods/binding")
