"""The log's tables in SQLAlchemy's words, for reading. The migrations make them; writing goes through
`controlplane.append_batch` alone.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import TIMESTAMP

metadata = MetaData(schema="controlplane")
_stamp = TIMESTAMP(timezone=True)


def _key(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, primary_key=True)


def _needed(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, nullable=False)


log_head = Table(
    "log_head",
    metadata,
    _key("log", Text),
    _needed("position", BigInteger),
    _needed("epoch", BigInteger),
    _needed("holder", Text),
    _needed("renewed_at", _stamp),
    Column("hash", LargeBinary),
    _needed("id", Uuid),
    Column("nonce", Uuid),
    _needed("beat", BigInteger),
    Column("batch", Uuid),
    _needed("chained_from", BigInteger),
    _needed("room", BigInteger),
    _needed("archived_to", BigInteger),
    _needed("kept_events", BigInteger),
    Column("kept_hash", LargeBinary),
)
streams = Table(
    "streams",
    metadata,
    _key("log", Text),
    _key("stream", Text),
    _needed("version", BigInteger),
    Column("archived_to", BigInteger),
)
sources = Table(
    "sources",
    metadata,
    _key("log", Text),
    _key("source", Text),
    _needed("mark", BigInteger),
)
new_marks = Table(
    "new_marks",
    metadata,
    _key("log", Text),
    _key("last", BigInteger),
    _needed("sources", ARRAY(Text)),
    _needed("marks", ARRAY(BigInteger)),
)
events = Table(
    "events",
    metadata,
    _key("log", Text),
    _key("position", BigInteger),
    _needed("stream", Text),
    _needed("version", BigInteger),
    _needed("type", Text),
    _needed("schema", SmallInteger),
    _needed("data", JSON),
    _needed("reason", Text),
    _needed("cluster", Text),
    Column("caused_by", BigInteger),
    _needed("trace", Text),
    Column("observed_at", _stamp),
    _needed("recorded_at", _stamp),
)
bodies = Table(
    "bodies",
    metadata,
    _key("hash", LargeBinary),
    _needed("body", JSON),
    _needed("recorded_at", _stamp),
    Column("redacted", Boolean),
)
batches = Table(
    "batches",
    metadata,
    _key("log", Text),
    _needed("first", BigInteger),
    _key("last", BigInteger),
    Column("batch", Uuid, nullable=False, unique=True),
    _needed("epoch", BigInteger),
    _needed("recorded_at", _stamp),
    Column("hash", LargeBinary),
)
snapshots = Table(
    "snapshots",
    metadata,
    _key("log", Text),
    _key("fold_version", Text),
    _key("position", BigInteger),
    _key("part", Text),
    _key("chunk", Integer),
    _needed("log_id", Uuid),
    _needed("batch", Uuid),
    _needed("data", LargeBinary),
    _needed("checksum", LargeBinary),
    _needed("written_at", _stamp),
)
archives = Table(
    "archives",
    metadata,
    _key("log", Text),
    _key("first", BigInteger),
    _needed("last", BigInteger),
    _needed("since", _stamp),
    _needed("until", _stamp),
    _needed("directory", Text),
    _needed("hash", LargeBinary),
    _needed("archived_at", _stamp),
    Column("dropped_at", _stamp),
)
