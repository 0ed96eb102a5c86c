"""The events of all logs are in partitions by position, which the append makes ahead.

The version before this one goes on with the new schema: it calls the same functions.

Revision ID: 0013
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
CHAIN = (SQL / "0012_chain.sql").read_text()
# What the functions of 0012 do besides: they see to it that there is a partition for what they append.
_ROOM = """    IF {last} + partition_size() / 2 >= head.room THEN
        head.room := room_ahead(p_log, head.room, {last});
    END IF;
"""
_HASHED, _MERGED = "    -- What is hashed is what the table has now.", "    PERFORM merge_marks(p_log);"
CHANGES = {
    "append_batch": (
        ("h.id, h.batch, h.hash INTO head", "h.id, h.batch, h.hash, h.room INTO head"),
        (_HASHED, _ROOM.format(last="last") + "\n" + _HASHED),
        ("batch = p_batch, hash = tip WHERE", "batch = p_batch, hash = tip, room = head.room WHERE"),
        # A stream that there is does not begin again, in whatever partition it began.
        ("WHERE i.version = 1\n        ON CONFLICT (log, stream) DO NOTHING;", "WHERE i.version = 1;"),
    ),
    "append_events": (
        ("h.id, h.hash INTO head", "h.id, h.hash, h.room INTO head"),
        (_MERGED, _ROOM.format(last="head.position + cardinality(p_stream)") + _MERGED),
        ("hash = c.tip FROM", "hash = c.tip, room = head.room FROM"),
    ),
}


def function(name: str) -> str:
    """Return how 0012 makes a function."""
    text = CHAIN[CHAIN.index(f"CREATE OR REPLACE FUNCTION controlplane.{name}(") :]
    return text[: text.index("$$;") + len("$$;")]


def upgrade() -> None:
    op.execute((SQL / "0013_partitions.sql").read_text())
    for name, changes in CHANGES.items():
        text = function(name)
        for before, after in changes:
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        op.execute(text)


def downgrade() -> None:
    for name in CHANGES:
        op.execute(function(name))
    op.execute((SQL / "0013_back.sql").read_text())
