"""Checks that archives are what was written, and what the log's chain of hashes says.

In: archives, and if there is one, the database of their log. Out: how much was checked, or `ArchiveError`, which names
the file and what of it is not as it was. Every row is read again and hashed; no database is needed for that."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg

from controlplane.log.archive.manifest import BATCHES, BODIES, EVENTS, Archive, ArchiveError, checksum
from controlplane.log.archive.parquet import BATCH_COLUMNS, BODY_COLUMNS, EVENT_COLUMNS, Row, read
from controlplane.log.archive.writing import log_end
from controlplane.log.chain import BatchRow, EventRow, batch_hash, event_hash
from controlplane.log.checkpoint import Checkpoint

_WHAT_TO_DO = "restore it from a copy, or archive again what the database still has"

_SEAM: LiteralString = "SELECT b.batch, b.hash FROM controlplane.batches b WHERE b.log = %s AND b.last = %s"


class CheckResult(NamedTuple):
    """What was checked, of archives that follow one another: positions, and how many of each there are. `hash` is where
    the chain stands at the end, in hex."""

    first: int
    last: int
    events: int
    batches: int
    bodies: int
    redacted: int
    hash: str


def check_archives(archives: Sequence[Archive], progress: Callable[[Archive], None] = lambda one: None) -> CheckResult:
    """Read archives again, one after the other. Raises `ArchiveError` for the first that is wrong."""
    batches = bodies = redacted = 0
    for one in archives:
        progress(one)
        _check_files(one)
        batches += _check_chain(one)
        count, without = _check_bodies(one)
        bodies, redacted = bodies + count, redacted + without
    first, last = archives[0].manifest, archives[-1].manifest
    return CheckResult(first.first, last.last, last.last - first.first + 1, batches, bodies, redacted, last.hash)


def check_seam(connection: psycopg.Connection[Any], archive: Archive) -> None:
    """Check that the database's log goes on where an archive ends, or has what is in it. Raises `ArchiveError` and
    `NoLog`."""
    manifest = archive.manifest
    end = log_end(connection, manifest.log)
    if end.id != manifest.log_id:
        raise ArchiveError(f"{archive.folder} is of another log than the {manifest.log} of this database")
    found = connection.execute(_SEAM, (manifest.log, manifest.last)).fetchone()
    if found is None and manifest.last >= end.archived_to:
        raise ArchiveError(
            f"the log {manifest.log} of this database has no batch that ends at {manifest.last}, as {archive.folder} "
            "does: it was restored from a backup, or batches were removed"
        )
    if found is not None and (found[0] != manifest.batch or found[1] is None or found[1].hex() != manifest.hash):
        raise ArchiveError(
            f"{archive.folder} ends with another hash than the log {manifest.log} of this database has at "
            f"{manifest.last}: one of them was changed"
        )


def check_checkpoint(archives: Sequence[Archive], checkpoint: Checkpoint) -> None:
    """Check that archives have the hash that a checkpoint says. Raises `ArchiveError`."""
    manifest = archives[0].manifest
    if (checkpoint.log, checkpoint.log_id) != (manifest.log, manifest.log_id):
        raise ArchiveError(f"the checkpoint is of another log: {checkpoint.log} with the identity {checkpoint.log_id}")
    inside = [one for one in archives if one.manifest.first <= checkpoint.position <= one.manifest.last]
    if not inside:
        raise ArchiveError(
            f"the checkpoint is of position {checkpoint.position}, and the archives have {manifest.first} to "
            f"{archives[-1].manifest.last}: compare it with the log, without --archive"
        )
    for row in _single(read(inside[0].file(BATCHES), BATCH_COLUMNS)):
        if row[1] == checkpoint.position and row[5].hex() == checkpoint.hash:
            return
    raise ArchiveError(
        f"{inside[0].file(BATCHES)} has not the hash of the checkpoint at {checkpoint.position}: something up to it "
        "was changed, and the hashes after it were made anew"
    )


def _check_files(archive: Archive) -> None:
    for name, entry in archive.manifest.files.items():
        path = archive.file(name)
        if not path.is_file():
            raise ArchiveError(f"{path} is missing: {_WHAT_TO_DO}")
        if path.stat().st_size != entry.bytes:
            raise ArchiveError(
                f"{path} has {path.stat().st_size} bytes of {entry.bytes}: it was cut or changed; {_WHAT_TO_DO}"
            )
        if checksum(path) != entry.sha256:
            raise ArchiveError(f"{path} has another SHA-256 than its manifest says: it was changed; {_WHAT_TO_DO}")
    if missing := {EVENTS, BATCHES, BODIES} - archive.manifest.files.keys():
        raise ArchiveError(
            f"the manifest of {archive.folder} does not name {', '.join(sorted(missing))}: it was changed; "
            f"{_WHAT_TO_DO}"
        )


def _check_chain(archive: Archive) -> int:
    """Compare each batch's hash with its events; return how many batches there are."""
    manifest, events = archive.manifest, archive.file(EVENTS)
    before = bytes.fromhex(manifest.before) if manifest.before is not None else None
    rows, last, count = _single(read(events, EVENT_COLUMNS)), manifest.first - 1, 0
    for first, end, batch, epoch, recorded_at, hashed in _single(read(archive.file(BATCHES), BATCH_COLUMNS)):
        if first != last + 1:
            raise ArchiveError(f"{archive.file(BATCHES)} has no batch from {last + 1} on: {_WHAT_TO_DO}")
        if first == manifest.chained_from:
            before = None
        hashes = _hashes(rows, first, end, events)
        made = batch_hash(
            before, BatchRow(manifest.log, manifest.log_id, UUID(batch), first, end, epoch, recorded_at), hashes
        )
        if made != hashed:
            raise ArchiveError(
                f"{events} is not as it was appended: the batch at the positions {first} to {end} has another hash; "
                f"{_WHAT_TO_DO}"
            )
        before, last, count = made, end, count + 1
    if last != manifest.last or next(rows, None) is not None:
        raise ArchiveError(f"{events} and {archive.file(BATCHES)} do not end at {manifest.last}: {_WHAT_TO_DO}")
    if before is None or before.hex() != manifest.hash:
        raise ArchiveError(f"the manifest of {archive.folder} says another hash than its last batch has: {_WHAT_TO_DO}")
    return count


def _hashes(rows: Iterator[Row], first: int, last: int, path: object) -> list[bytes]:
    """Return the hashes of the next rows, which are those of some positions."""
    found = []
    for position in range(first, last + 1):
        row = next(rows, None)
        if row is None or row[0] != position:
            raise ArchiveError(f"{path} lacks the event at position {position}: {_WHAT_TO_DO}")
        found.append(event_hash(EventRow(*row)))
    return found


def _check_bodies(archive: Archive) -> tuple[int, int]:
    """Compare bodies with their names; return how many there are, and how many lost values."""
    count = without = 0
    for hashed, text, _, redacted in _single(read(archive.file(BODIES), BODY_COLUMNS)):
        count, without = count + 1, without + bool(redacted)
        if not redacted and hashlib.sha256(text.encode()).digest() != hashed:
            raise ArchiveError(
                f"{archive.file(BODIES)} has another body than {hashed.hex()}: it was changed; {_WHAT_TO_DO}"
            )
    return count, without


def _single(pieces: Iterable[list[Row]]) -> Iterator[Row]:
    for piece in pieces:
        yield from piece
