"""`why` says since when nobody records, and up to where it knows: nobody leads, or the leader is cut off."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from controlplane.app.hosted import TYPES
from controlplane.audit.leading import not_recorded
from controlplane.audit.reads import LogReader
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, ClusterLost
from controlplane.controllers.connectivity.local_connection import connectivity_event, service_started, service_stopped
from controlplane.log.archive.manifest import RESTORED
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append
from controlplane.log.postgres import PostgresLog
from tests.cli.conftest import Here


async def led(url: str, *, resign: bool = False, lost: bool = False) -> None:
    """Have a process lead the log, connect, and then let it go, or lose the management cluster."""
    async with PostgresLog(Database(url, "controlplane_service"), Codec(TYPES)) as log:
        head = await log.take_epoch("alpha")
        await log.append(
            Append([service_started(head.epoch, "alpha", "1"), connectivity_event(MANAGEMENT, ClusterConnected())])
        )
        if lost:
            gone = ClusterLost(reason="Unreachable", message="connection refused")
            await log.append(Append([connectivity_event(MANAGEMENT, gone)]))
        if resign:
            await log.append(Append([service_stopped(head.epoch, "alpha")]))
            await log.renew(resign=True)


def gap(url: str, *, role: str = "") -> str:
    with LogReader.connect(url, role=role) as reader:
        return not_recorded(reader)


def silent(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE controlplane.log_head SET renewed_at = renewed_at - interval '1 hour'")


async def test_nothing_is_said_of_a_log_that_is_led_or_that_nobody_has_begun(database_url: str) -> None:
    assert gap(database_url) == ""
    await led(database_url)
    assert gap(database_url) == ""


@pytest.mark.parametrize("role", ["controlplane_service", "controlplane_reader"])
async def test_a_log_that_was_let_go_is_told_with_the_time_and_the_position(database_url: str, role: str) -> None:
    await led(database_url, resign=True)
    said = gap(database_url, role=role)
    assert "no process leads the log main since " in said
    assert "when alpha let it go; what is told is what was recorded until then, up to position 3" in said
    assert "start the service" in said


async def test_a_log_that_was_made_of_archives_is_for_reading(database_url: str) -> None:
    """As `log restore --into` leaves it: nobody has led it, and no service is to."""
    await led(database_url, resign=True)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"UPDATE controlplane.log_head SET holder = '{RESTORED}', renewed_at = '-infinity'")
    assert gap(database_url) == (
        "The log main was restored from archives, and is for reading: nothing is recorded in it; what is told is what "
        "was recorded, up to position 3."
    )


async def test_a_process_that_was_killed_is_told_by_its_last_heartbeat(database_url: str) -> None:
    await led(database_url)
    silent(database_url)
    assert "alpha led the log main, and has sent no heartbeat since " in gap(database_url)
    assert gap(database_url, role="controlplane_reader") == "", "who holds the log is not for readers"


async def test_a_leader_that_the_management_cluster_does_not_answer_is_told(database_url: str) -> None:
    await led(database_url, lost=True)
    said = gap(database_url)
    assert said.startswith("What changed on the management cluster is not recorded: ")
    assert said.endswith("(connection refused).")


async def test_the_past_is_told_as_it_was(database_url: str) -> None:
    await led(database_url, resign=True)
    with LogReader.connect(database_url) as reader:
        reader.read_at(reader.clock() + timedelta(0))
        assert not_recorded(reader) == ""


async def test_why_says_so_beside_what_it_does_not_know(database_url: str, here: Here) -> None:
    await led(database_url, resign=True)
    done = here("--database-url", database_url, "why", "default/train")
    assert done.returncode == 5
    assert "there is no Workload or job default/train in the log main" in done.stderr
    assert "Nobody records what happens: no process leads the log main since " in done.stderr


async def test_why_says_up_to_when_the_log_knows_anything(database_url: str, here: Here) -> None:
    await led(database_url)
    done = here("--database-url", database_url, "why", "default/train")
    assert "Its last event is that of " in done.stderr
    assert done.stderr.rstrip().endswith(" UTC, at position 2")
