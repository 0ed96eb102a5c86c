"""The log's tables in SQLAlchemy's words, for reading. The migrations make them; writing goes through
`controlplane.append` alone.
"""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, LargeBinary, MetaData, SmallInteger, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import TIMESTAMP

metadata = MetaData(schema="controlplane")
_stamp = TIMESTAMP(timezone=True)

log_head = Table(
    "log_head",
    metadata,
    Column("log", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("renewed_at", _stamp, nullable=False),
    Column("hash", LargeBinary),
    Column("id", Uuid, nullable=False),
    Column("nonce", Uuid),
    Column("beat", BigInteger, nullable=False),
)
streams = Table(
    "streams",
    metadata,
    Column("log", Text, primary_key=True),
    Column("stream", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
)
sources = Table(
    "sources",
    metadata,
    Column("log", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("mark", BigInteger, nullable=False),
)
events = Table(
    "events",
    metadata,
    Column("log", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True),
    Column("stream", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("schema", SmallInteger, nullable=False),
    Column("data", JSON, nullable=False),
    Column("reason", Text, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("caused_by", BigInteger),
    Column("trace", Text, nullable=False),
    Column("observed_at", _stamp),
    Column("recorded_at", _stamp, nullable=False),
)
bodies = Table(
    "bodies",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("body", JSON, nullable=False),
    Column("recorded_at", _stamp, nullable=False),
    Column("redacted", Boolean),
)
batches = Table(
    "batches",
    metadata,
    Column("log", Text, primary_key=True),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, primary_key=True),
    Column("batch", Uuid, nullable=False, unique=True),
    Column("epoch", BigInteger, nullable=False),
    Column("recorded_at", _stamp, nullable=False),
    Column("hash", LargeBinary),
)
