"""A copy of PostgreSQL's programs for a user who cannot reach the originals.

In: the folder of the programs. Out: the same folder in a cache that everybody can read and only we can write to. The
layout stays as it was, with the libraries that a repaired wheel keeps beside its package (`<package>.libs`), because
the programs find them by their relative place. Copied once for each installation, and put in place in one step, so that
a killed copy is never taken for a whole one."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from controlplane.local.postgres.errors import EmbeddedError
from controlplane.local.postgres.owner import ServerUser


def libraries(root: Path) -> Path:
    """Return the folder of the libraries that belong to the installation `root`: the wheel's own, or its `lib`."""
    beside = root.parent.with_name(f"{root.parent.name}.libs")
    return beside if beside.is_dir() else root / "lib"


def copy_for(owner: ServerUser, folder: Path) -> Path:
    """Return the copy of a `bin` folder that the owner can run; `EmbeddedError` if there is no place for one."""
    root = folder.parent
    status = (folder / "postgres").stat()
    key = hashlib.sha256(f"{root}:{status.st_size}:{status.st_mtime_ns}".encode()).hexdigest()[:12]
    for cache in _caches(owner):
        copy = cache / f"postgresql-{key}"
        programs = copy / root.parent.name / root.name / "bin"
        try:
            if not _prepared(cache):
                continue
            if not programs.exists():
                _copy(root, copy)
        except OSError:
            continue
        if owner.can_enter(programs) and owner.can_run(programs / "postgres"):
            return programs
    raise EmbeddedError(
        f"{owner.name} cannot run PostgreSQL's programs in {folder}, and there is no folder to copy them to: "
        "point PG_BINDIR to a folder that every user can read"
    )


def _caches(owner: ServerUser) -> Iterator[Path]:
    if owner.drops:
        yield Path("/var/cache/controlplane")
    else:
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "controlplane"
    yield Path(tempfile.gettempdir()) / f"controlplane-cache-{os.geteuid()}"


def _prepared(cache: Path) -> bool:
    """Make the cache folder; say whether nobody else can put programs into it: it is ours, no link, and only we may
    write to it.
    """
    if not cache.exists():
        cache.mkdir(parents=True)
        cache.chmod(0o755)
    status = cache.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _copy(root: Path, copy: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix=f"{copy.name}.", dir=copy.parent))
    try:
        inner = draft / root.parent.name / root.name
        for name in ("bin", "lib", "share"):
            shutil.copytree(root / name, inner / name, symlinks=True, copy_function=shutil.copyfile)
        beside = libraries(root)
        if beside != root / "lib":
            shutil.copytree(beside, draft / beside.name, symlinks=True, copy_function=shutil.copyfile)
        for folder, _, files in os.walk(draft):
            Path(folder).chmod(0o755)
            for path in (Path(folder, file) for file in files):
                if not path.is_symlink():
                    path.chmod(0o755 if path.parent.name == "bin" else 0o644)
        try:
            draft.rename(copy)
        except OSError:
            if not copy.exists():  # otherwise another process was faster
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
