"""The time that `whatif` is asked about is the one that it answers for, also where nothing was recorded at its ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from controlplane.controllers.multikueue.observations import RemoteJobObserved
from tests.audit.database import keep
from tests.cli.test_audit_verbs import fails
from tests.cli.test_whatif import asked, invoke
from tests.dst.plans import plan, step
from tests.support import postgres
from tests.whatif.logs import played

QUIET = plan(step(5, "submit", "job-a", 300, 1), step(400, "submit", "job-b", 20, 1))
"""A Job that runs for five minutes, in which nothing happens, and another one later."""


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A database with the quiet log."""
    made = postgres_server.create(postgres.new_name("quiet"), migrated_template)
    try:
        asyncio.run(keep(made, played(QUIET)))
        yield made
    finally:
        postgres_server.drop(made.rpartition("/")[2].partition("?")[0])


def ran(name: str) -> tuple[datetime, datetime]:
    """Return from when until when the log saw a Job run."""
    seen = [(one.recorded_at, one.event) for one in played(QUIET) if isinstance(one.event, RemoteJobObserved)]
    own = [(at, event) for at, event in seen if event.name.endswith(name)]
    began = next(at for at, event in own if not event.suspended)
    return began, next(at for at, event in own if event.finished)


def test_it_is_the_time_that_was_asked_for(url: str) -> None:
    """It was from the last event before to the last event within."""
    began, ended = ran("job-a")
    since, until = began + timedelta(seconds=60), began + timedelta(seconds=160)
    assert until < ended
    code, found = asked(url, "--from", since.isoformat(), "--to", until.isoformat())
    assert (code, found["bounded"]) == (0, [])
    assert [datetime.fromisoformat(found[name]) for name in ("from", "to")] == [since, until]
    for column in ("recorded", "played"):
        assert found[column]["run_hours"] == pytest.approx(100 / 3600, abs=0.0001)
        assert sum(one["run_hours"] for one in found[column]["clusters"].values()) == found[column]["run_hours"]
        (most,) = (one["utilisation"] for one in found[column]["clusters"].values() if one["run_hours"])
        assert most == 1.0
        assert (found[column]["arrived"], found[column]["waiting"], found[column]["finished"]) == (0, 0, 0)


def test_only_one_end_lies_in_the_quiet(url: str) -> None:
    began, ended = ran("job-a")
    since, until = ended - timedelta(seconds=100), began + timedelta(seconds=100)
    found = asked(url, "--from", since.isoformat())[1]
    last = ran("job-b")
    hours = (100 + (last[1] - last[0]).total_seconds()) / 3600
    assert [found[name]["run_hours"] for name in ("recorded", "played")] == pytest.approx([hours] * 2, abs=0.0002)
    found = asked(url, "--to", until.isoformat())[1]
    assert [found[name]["run_hours"] for name in ("recorded", "played")] == pytest.approx([100 / 3600] * 2, abs=0.0001)


def test_it_is_said_where_the_log_does_not_go(url: str) -> None:
    events = played(QUIET)
    first, last = events[0].recorded_at, events[-1].recorded_at
    since, until = first - timedelta(hours=1), last + timedelta(hours=1)
    found = asked(url, "--from", since.isoformat(), "--to", until.isoformat())[1]
    whole = asked(url)[1]
    assert [found[name] for name in ("from", "to", "recorded")] == [whole[name] for name in ("from", "to", "recorded")]
    assert found["bounded"] == [
        f"the log begins at {first:%Y-%m-%d %H:%M:%S} UTC, after --from",
        f"the log ends at {last:%Y-%m-%d %H:%M:%S} UTC, before --to",
    ]
    assert whole["bounded"] == []
    said = invoke(url, "--from", since.isoformat()).stdout.splitlines()
    assert (
        said[1] == f"The log begins at {first:%Y-%m-%d %H:%M:%S} UTC, after --from: what is beyond that is not known."
    )


@pytest.mark.parametrize(("since", "until"), [(-7200, -3600), (3600, 7200), (100, 50)])
def test_a_time_outside_the_log_is_none(
    url: str, capsys: pytest.CaptureFixture[str], since: float, until: float
) -> None:
    events = played(QUIET)
    first, last = events[0].recorded_at, events[-1].recorded_at
    times = [(first if one < 0 or since == 100 else last) + timedelta(seconds=one) for one in (since, until)]
    code, said = fails(capsys, url, "whatif", "--from", times[0].isoformat(), "--to", times[1].isoformat())
    assert (code, "nothing is between --from" in said) == (2, True), said
