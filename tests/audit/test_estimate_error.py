"""How far the estimates of when quota is reserved were off, and that they rest on nothing that was recorded later."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest
from click.testing import CliRunner

from controlplane.audit.estimate_error import EndedWait, Figures, Tried, ended_waits, figures, measured, tried
from controlplane.audit.quota_estimate import Estimate, plain
from controlplane.audit.quota_wait import answer
from controlplane.audit.reads import READ, LogReader
from controlplane.cli import cli
from controlplane.controllers.quota.admission import events as admission
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.log.event import Recorded
from tests.audit.database import keep
from tests.audit.queue_history import Run, play
from tests.quota.admission.scene import NS, START, Scene
from tests.support.deep import examples

SETTINGS = EngineSettings()


@pytest.fixture(scope="module")
def scene() -> Scene:
    """Forty that come every half a minute, for a queue with room for two of them, and last for a minute or so."""
    chance = random.Random(7)
    coming = [Run(30.0 * n, f"train-{n}", float(chance.randrange(40, 120)), str(1 + n % 2)) for n in range(40)]
    return play(coming, until=10_000, cpu="3")


async def waits_of(url: str, scene: Scene) -> list[EndedWait]:
    await keep(url, scene.log, types=READ)
    with LogReader.connect(url) as reader:
        return ended_waits(reader)


def until(scene: Scene, wait: EndedWait) -> list[Recorded]:
    return [one for one in scene.log if one.recorded_at <= wait.moment]


@pytest.mark.deep
@pytest.mark.generated
async def test_nothing_of_the_future_is_in_an_estimate(database_url: str, scene: Scene) -> None:
    """As of its moment it is what it would be if the log ended there, whatever comes later; and what `why --at`
    says."""
    waits = await waits_of(database_url, scene)
    found = {one.wait.key: one.estimate for one in tried(scene.log, SETTINGS, waits)}
    assert len(found) > 20
    assert sum(one.at is not None for one in found.values()) > 15
    for wait in waits[:: examples(8, 1)]:
        (alone,) = tried(until(scene, wait), SETTINGS, [wait])
        assert alone.estimate == found[wait.key]
        with LogReader.connect(database_url) as reader:
            reader.read_at(wait.moment)
            told = answer(reader, SETTINGS, *wait.key.split("/"), wait.moment)
        assert told is not None
        assert told["estimate"] == plain(found[wait.key], wait.moment)
    last = waits[-1]
    longer = [*until(scene, last), *(later(one) for one in scene.log[len(until(scene, last)) :])]
    assert {one.wait.key: one.estimate for one in tried(longer, SETTINGS, waits)} == found


def later(recorded: Recorded) -> Recorded:
    return msgspec.structs.replace(recorded, recorded_at=recorded.recorded_at + timedelta(hours=5))


async def test_waits_that_have_ended(database_url: str, scene: Scene) -> None:
    waits = await waits_of(database_url, scene)
    began = {
        one.stream.removeprefix("admission/workload/"): one.recorded_at
        for one in scene.log
        if isinstance(one.event, admission.QuotaReservationDecided)
    }
    waited = {
        one.stream.removeprefix("admission/workload/")
        for one in scene.log
        if isinstance(one.event, admission.WorkloadInadmissible)
    }
    assert {wait.key: wait.until for wait in waits} == {key: began[key] for key in waited}
    assert all(wait.since <= wait.moment <= wait.until and wait.queue == f"{NS}/q" for wait in waits)
    with LogReader.connect(database_url) as reader:
        assert ended_waits(reader) == waits
        assert ended_waits(reader, queue="q") == ended_waits(reader, queue=f"{NS}/q") == waits
        assert ended_waits(reader, queue="other") == []
        assert [one.key for one in ended_waits(reader, most=3)] == [waits[len(waits) * n // 3].key for n in range(3)]
        half = waits[len(waits) // 2].until
        assert ended_waits(reader, since=half) == [one for one in waits if one.until > half]


async def test_with_constant_durations_there_is_no_error(database_url: str) -> None:
    scene = play([Run(50.0 * n, f"train-{n}", 100.0) for n in range(30)], until=10_000, cpu="1")
    await keep(database_url, scene.log, types=READ)
    with LogReader.connect(database_url) as reader:
        (one, every) = measured(reader, SETTINGS, None, None, 200)
    assert (one.queue, every.queue) == (f"{NS}/q", "")
    assert one.estimated >= one.waits - 2 > 20  # before the first ended nothing was known
    assert (one.error, one.bias, one.held, one.bounds) == (0, 0, 1.0, one.estimated)


def a(left: float, off: float | None, bound: float | None = None) -> Tried:
    """Return an estimate that was off by so many seconds, its bound so many seconds after what came."""
    came = START + timedelta(hours=1)
    wait = EndedWait(key="team/w", queue="team/q", since=START, until=came, moment=came - timedelta(seconds=left))
    at = None if off is None else came - timedelta(seconds=off)
    late = None if bound is None else came + timedelta(seconds=bound)
    return Tried(wait=wait, estimate=Estimate(at=at, late=late))


def told(waits: int, estimated: int, *medians: float | None, bounds: int = 0, held: float | None = None) -> Figures:
    left, error, bias = medians
    return Figures(
        queue="q", waits=waits, estimated=estimated, left=left, error=error, bias=bias, bounds=bounds, held=held
    )


TABLE: Sequence[tuple[Sequence[Tried], Figures]] = [
    ([], told(0, 0, None, None, None)),
    ([a(60, None)], told(1, 0, 60.0, None, None)),
    ([a(60, 10, 5), a(80, -30, -1), a(100, 20, 0), a(120, -2)], told(4, 4, 90.0, 15.0, 4.0, bounds=3, held=2 / 3)),
]


@pytest.mark.parametrize(("found", "wanted"), TABLE)
def test_figures(found: Sequence[Tried], wanted: Figures) -> None:
    assert figures("q", found) == wanted


def invoke(url: str, *words: str) -> tuple[str, str]:
    result = CliRunner().invoke(cli, ["--database-url", url, "estimate-error", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


async def test_the_verb(database_url: str, scene: Scene) -> None:
    await keep(database_url, scene.log, types=READ)
    text, said = invoke(database_url)
    assert said == ""
    assert text.splitlines()[0].split() == ["QUEUE", "WAITS", "ESTIMATED", "LEFT", "ERROR", "BIAS", "BOUNDS", "HELD"]
    assert text.splitlines()[-1].startswith("all")
    assert invoke(database_url) == (text, "")
    (one, every) = json.loads(invoke(database_url, "-o", "json", "--queue", "q")[0])
    assert (one["queue"], every["queue"]) == (f"{NS}/q", "")
    assert {**one, "queue": ""} == every
    assert invoke(database_url, "--sample", "5")[0].splitlines()[1].split()[1] == "5"
    assert "No wait of that has ended." in invoke(database_url, "--queue", "other")[1]
    assert "No wait of that has ended." in invoke(database_url, "--since", "1h")[1]
