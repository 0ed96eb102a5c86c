"""What an archive says of itself, and where it lies.

In: a folder. Out: the archives of a log in it, in order, each with its manifest: which positions, of which log, where
the chain of hashes stands at both ends, and the SHA-256 of each file. An archive is a folder `LOG/FIRST-LAST`, which is
there whole or not at all: as long as it is written it has another name."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

FORMAT, VERSION = "controlplane-archive", 1
MANIFEST = "manifest.json"
EVENTS, BATCHES, BODIES = "events.parquet", "batches.parquet", "bodies.parquet"
UNFINISHED = ".unfinished"
RESTORED = "restored from archives"
"""Who holds a log that was made of archives alone: nobody has led it there."""
_PIECE = 1 << 20


class ArchiveError(Exception):
    """An archive cannot be written, or is not what was written; the message names what, and says what to do."""


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of an archive: its SHA-256 in hex, its size in bytes, and how many rows it has."""

    sha256: str
    bytes: int
    rows: int


class ArchiveManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module. `before` is the hash of the batch before the first, null for the first of a chain; `hash` is that
    of the last one, `batch` its id; hashes are in hex. The chain of the log begins at `chained_from`. `schema` is the
    revision of the database's schema."""

    format: str = FORMAT
    version: int = VERSION
    log: str
    log_id: uuid.UUID
    first: int
    last: int
    since: datetime
    until: datetime
    before: str | None
    hash: str
    batch: uuid.UUID
    chained_from: int
    schema: str
    program: str
    archived_at: datetime
    files: Mapping[str, FileEntry]

    @property
    def events(self) -> int:
        """How many events it has."""
        return self.last - self.first + 1


class Archive(msgspec.Struct, frozen=True):
    """An archive that is there: its folder and what it says."""

    folder: Path
    manifest: ArchiveManifest

    def file(self, name: str) -> Path:
        """Return where a file of it is."""
        return self.folder / name


def log_folder(directory: Path, log: str) -> Path:
    """Return where the archives of a log are in a directory."""
    return directory / quote(log, safe="")


def folder_name(first: int, last: int) -> str:
    """Return what the folder of an archive is called: in the order of names archives follow one another."""
    return f"{first:015d}-{last:015d}"


def archives_of(directory: Path, log: str) -> list[Archive]:
    """Return the archives of a log in a directory, in order. Raises `ArchiveError` for one that cannot be read, one of
    another log, and a gap."""
    folder = log_folder(directory, log)
    if not folder.is_dir():
        return []
    found = [_read(one) for one in sorted(folder.iterdir()) if one.is_dir() and not one.name.endswith(UNFINISHED)]
    _check_order(found, log)
    return found


def some_archives(directory: Path, log: str) -> list[Archive]:
    """As `archives_of`; `ArchiveError` if there are none."""
    found = archives_of(directory, log)
    if found:
        return found
    others = sorted({unquote(one.parent.parent.name) for one in directory.glob(f"*/*/{MANIFEST}")})
    hint = f": there are archives of {', '.join(others)}; choose one with --log" if others else ""
    raise ArchiveError(f"{directory} has no archive of the log {log}{hint}")


def _read(folder: Path) -> Archive:
    path = folder / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=ArchiveManifest)
    except FileNotFoundError:
        raise ArchiveError(
            f"{folder} has no {MANIFEST}: it is no archive, or was damaged; remove it or restore it"
        ) from None
    except msgspec.MsgspecError as error:
        raise ArchiveError(f"{path} cannot be read: {error}; restore it from a copy") from None
    if (manifest.format, manifest.version) != (FORMAT, VERSION):
        raise ArchiveError(
            f"{path} has the format {manifest.format} {manifest.version}: this version reads {FORMAT} {VERSION}"
        )
    if folder.name != folder_name(manifest.first, manifest.last):
        raise ArchiveError(f"{path} is of the positions {manifest.first} to {manifest.last}: the folder was renamed")
    return Archive(folder, manifest)


def _check_order(archives: Sequence[Archive], log: str) -> None:
    before: ArchiveManifest | None = None
    for one in archives:
        manifest = one.manifest
        if manifest.log != log:
            raise ArchiveError(f"{one.folder} is of the log {manifest.log}, not of {log}: it was moved there")
        if before is not None and before.log_id != manifest.log_id:
            raise ArchiveError(
                f"{one.folder} is of another log of the same name than what is before it: one was moved there"
            )
        if before is not None and manifest.first != before.last + 1:
            raise ArchiveError(
                f"the positions {before.last + 1} to {manifest.first - 1} are missing before {one.folder}: an archive "
                "was removed"
            )
        if before is not None and manifest.before != before.hash and manifest.first != manifest.chained_from:
            raise ArchiveError(
                f"{one.folder} does not go on where the archive before it ends: one of them was exchanged"
            )
        before = manifest


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def settle(paths: Iterable[Path]) -> None:
    """Return once files, or folders, are on the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
