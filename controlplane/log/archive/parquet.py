"""Rows of a log as Parquet files, and back: columns with types that any reader of Parquet knows, `data` as the text of
the JSON.

In: rows in pieces. Out: a file; or the rows of one, in pieces, so that a file of any size passes through. Raises
`ArchiveError` where pyarrow is missing or a file is no Parquet file, and OSError."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from controlplane.log.archive.manifest import ArchiveError

PIECE = 50_000
"""So many rows are read and written at once, and are a row group of a file."""

_TEXT, _NUMBER, _SMALL, _TIME, _HASH, _ID, _YES = "string", "int64", "int16", "time", "hash", "id", "bool"
EVENT_COLUMNS = (
    ("position", _NUMBER),
    ("stream", _TEXT),
    ("version", _NUMBER),
    ("type", _TEXT),
    ("schema", _SMALL),
    ("data", _TEXT),
    ("reason", _TEXT),
    ("cluster", _TEXT),
    ("caused_by", _NUMBER),
    ("trace", _TEXT),
    ("observed_at", _TIME),
    ("recorded_at", _TIME),
)
BATCH_COLUMNS = (
    ("first", _NUMBER),
    ("last", _NUMBER),
    ("batch", _ID),
    ("epoch", _NUMBER),
    ("recorded_at", _TIME),
    ("hash", _HASH),
)
BODY_COLUMNS = (("hash", _HASH), ("body", _TEXT), ("recorded_at", _TIME), ("redacted", _YES))

Columns = Sequence[tuple[str, str]]
Row = tuple[Any, ...]


def arrow() -> Any:
    """Return pyarrow with its module for Parquet."""
    try:
        import pyarrow
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError:
        raise ArchiveError(
            "archives are Parquet files, which pyarrow reads and writes, and it is not installed:"
            " pip install 'controlplane[archive]'"
        ) from None
    return pyarrow


def _schema(columns: Columns) -> Any:
    pa = arrow()
    kinds = {
        _TEXT: pa.string(),
        _NUMBER: pa.int64(),
        _SMALL: pa.int16(),
        _TIME: pa.timestamp("us", tz="UTC"),
        _HASH: pa.binary(),
        _ID: pa.string(),
        _YES: pa.bool_(),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in columns])


class ParquetFile:
    """A file that is being written. `rows` counts what it has."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._pa, self._schema = arrow(), _schema(columns)
        self._writer = self._pa.parquet.ParquetWriter(path, self._schema, compression="zstd")
        self.rows = 0

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    def write(self, rows: Sequence[Row]) -> None:
        """Append a piece."""
        if not rows:
            return
        pa = self._pa
        arrays = [pa.array(values, one.type) for values, one in zip(zip(*rows, strict=True), self._schema, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self.rows += len(rows)


def read(path: Path, columns: Columns, streams: Sequence[str] | None = None) -> Iterator[list[Row]]:
    """Yield the rows of a file in pieces, in order; with `streams` those of some streams alone."""
    pa = arrow()
    try:
        found = pa.dataset.dataset(path, format="parquet")
        if not found.schema.equals(_schema(columns)):
            raise ArchiveError(f"{path} has other columns than were written: restore it from a copy")
        wanted = None if streams is None else pa.compute.field("stream").isin(pa.array(streams, pa.string()))
        scanner = found.scanner(filter=wanted, batch_size=PIECE, batch_readahead=2, fragment_readahead=1)
        for batch in scanner.to_batches():
            if batch.num_rows:
                yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    except (pa.ArrowException, OSError) as error:
        raise ArchiveError(f"{path} cannot be read: {str(error).splitlines()[0]}; restore it from a copy") from None


def streams_of(path: Path) -> set[str]:
    """Return the streams that a file has events of."""
    pa = arrow()
    found: set[str] = set()
    for batch in pa.dataset.dataset(path, format="parquet").scanner(columns=["stream"]).to_batches():
        found.update(batch.column(0).unique().to_pylist())
    return found


def last_of_streams(path: Path) -> dict[str, tuple[int, int]]:
    """Return the version and the position of the last event that a file has of each stream."""
    pa = arrow()
    found: dict[str, tuple[int, int]] = {}
    columns = ["stream", "version", "position"]
    for batch in pa.dataset.dataset(path, format="parquet").scanner(columns=columns).to_batches():
        newest = pa.Table.from_batches([batch]).group_by("stream").aggregate([("version", "max"), ("position", "max")])
        names, *last = (newest.column(name).to_pylist() for name in ("stream", "version_max", "position_max"))
        found.update(zip(names, zip(*last, strict=True), strict=True))
    return found
