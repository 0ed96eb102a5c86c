"""Each statement of the commands that archive, drop and restore events fails once, in every way: the command says so,
and run again it ends as if nothing had been."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from controlplane.log.archive.checking import check_archives
from controlplane.log.archive.manifest import ArchiveError, some_archives
from controlplane.log.verify import verify
from tests.log.archived import BATCHES, EVENTS, STREAMS, archive, connected, dropped, restored, rows, written
from tests.log.faults import AFTER, BEFORE, HOWS, Faults, failing_commands
from tests.support.deep import deep_but

Owner = psycopg.Connection[Any]
STEPS: dict[str, Callable[[Owner, Path], Any]] = {"archive": archive, "drop": dropped, "restore": restored}


def state(url: str) -> list[Any]:
    """What the log is, and what its archives are said to be, but for when that was."""
    noted = "SELECT log, first, last, directory, hash, dropped_at IS NULL FROM controlplane.archives ORDER BY first"
    with connected(url) as owner:
        assert verify(owner, "main").wrong == []
        return [rows(owner, query) for query in (EVENTS, STREAMS, BATCHES, noted)]


def run(url: str, step: str, directory: Path) -> bool:
    """Run a command; whether it ended well. One that did not has changed nothing, or all of it."""
    try:
        with connected(url) as owner:
            STEPS[step](owner, directory)
    except (psycopg.Error, ArchiveError):
        return False
    return True


async def prepared(url: str, directory: Path, step: str) -> tuple[list[Any], list[Any]]:
    """A log on which a step comes next, as it is before and after it."""
    await written(url, 15)
    for one in STEPS:
        if one == step:
            break
        assert run(url, one, directory)
    before = state(url)
    assert run(url, step, directory)
    after = state(url)
    assert after != before
    return before, after


def undo(url: str, step: str, directory: Path) -> None:
    """Go back to what was before a step."""
    if step == "archive":
        shutil.rmtree(directory)
        with connected(url) as owner:
            owner.execute("DELETE FROM controlplane.archives")
    else:
        assert run(url, "restore" if step == "drop" else "drop", directory)


def once(url: str, step: str, directory: Path, faults: Faults, before: list[Any], after: list[Any]) -> None:
    with failing_commands(faults):
        well = run(url, step, directory)
    if faults.failed:
        assert state(url)[:3] in (before[:3], after[:3]), "neither before nor after"
    assert well or faults.failed
    assert run(url, step, directory), "run again"
    assert state(url) == after
    check_archives(some_archives(directory, "main"))
    with connected(url) as owner:
        assert not owner.execute("SELECT relname FROM pg_class WHERE relname ~ '^events_new'").fetchall(), "left behind"


@pytest.mark.parametrize("how", deep_but({}, HOWS))
@pytest.mark.parametrize("step", STEPS)
async def test_whichever_statement_of_a_command_fails(database_url: str, tmp_path: Path, step: str, how: str) -> None:
    directory = tmp_path / "archives"
    before, after = await prepared(database_url, directory, step)
    for at in itertools.count(1):
        undo(database_url, step, directory)
        faults = Faults(how, at)
        try:
            once(database_url, step, directory, faults, before, after)
        except Exception as error:
            raise AssertionError(f"statement {at} of {step}: {error!r}") from error
        if not faults.failed:
            assert at > 10
            break


@pytest.mark.parametrize("step", STEPS)
async def test_some_statements_of_a_command_fail(database_url: str, tmp_path: Path, step: str) -> None:
    """As `whichever_statement`, for a few of them."""
    directory = tmp_path / "archives"
    before, after = await prepared(database_url, directory, step)
    undo(database_url, step, directory)
    counted = Faults(BEFORE)
    once(database_url, step, directory, counted, before, after)
    for n, at in enumerate(range(3, counted.count, counted.count // 3)):
        undo(database_url, step, directory)
        once(database_url, step, directory, Faults((AFTER, BEFORE, "53100")[n % 3], at), before, after)
