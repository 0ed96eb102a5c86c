"""Whatever is done to a log, in whatever order, it has exactly what was appended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.log import insistent_line
from tests.log.fuzzing import Fuzz
from tests.support import postgres
from tests.support.deep import deep_after
from tests.support.replication import Replication, replicated


class Copies:
    """A database beside others; a backup is a copy of it."""

    def __init__(self, server: postgres.Server, template: str) -> None:
        self._server, self._name, self._kept = server, postgres.new_name("fuzzed"), ""
        self.url = server.create(self._name, template)

    def keep_backup(self) -> None:
        self.drop_backup()
        self._kept = postgres.new_name("backup")
        self._server.seal(self._name)
        self._server.create(self._kept, self._name)
        self._server.open(self._name)
        self._server.seal(self._kept)

    def fail_over(self) -> bool:
        self._server.drop(self._name)
        self._server.create(self._name, self._kept)
        self.drop_backup()
        return True

    def drop_backup(self) -> None:
        if self._kept:
            self._server.drop(self._kept)
            self._kept = ""

    def drop(self) -> None:
        self.drop_backup()
        self._server.drop(self._name)


class Standby:
    """A primary with a synchronous standby, which takes its place once."""

    def __init__(self, on: Replication) -> None:
        self._on, self.url, self._promoted = on, on.url, False

    def keep_backup(self) -> None:
        """The standby is one."""

    def fail_over(self) -> bool:
        if not self._promoted:
            self._promoted = True
            self._on.kill()
            self._on.set("two", "synchronous_standby_names", "")
            self._on.promote("two")
        return False


@pytest.fixture
def copies(postgres_server: postgres.Server, migrated_template: str) -> Iterator[Copies]:
    made = Copies(postgres_server, migrated_template)
    yield made
    made.drop()


@pytest.mark.undistributed("events do not leave a log that Citus distributes")
@pytest.mark.parametrize("seed", deep_after(1, range(40)))
async def test_a_log_has_exactly_what_was_appended(
    copies: Copies, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insistent_line, "AGAIN", 0.0)
    await Fuzz(copies, tmp_path, seed).play(30 if seed == 0 else 120)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4))
async def test_a_log_that_is_failed_over_has_exactly_what_was_appended(tmp_path: Path, seed: int) -> None:
    with replicated("two", synchronous="two") as on:
        await Fuzz(Standby(on), tmp_path, seed).play(120)
        await asyncio.sleep(0)
