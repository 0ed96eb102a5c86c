"""Each batch has a hash that rests on the batch before; and a small append asks only what it needs.

The version before this one goes on with the new schema: it calls the same functions, and its batches are in the chain.

Revision ID: 0012
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
BEFORE = ("append_batch", "append_events")


def upgrade() -> None:
    op.execute((SQL / "0012_chain.sql").read_text())


def downgrade() -> None:
    before = (SQL / "0008_append.sql").read_text()
    for name in BEFORE:
        text = before[before.index(f"FUNCTION controlplane.{name}(") :]
        op.execute(f"CREATE OR REPLACE {text[: text.index('$$;') + len('$$;')]}")
    op.execute("DROP FUNCTION controlplane.event_hash, controlplane.batch_hash")
    # The hashes of batches stay, and are of no use: another upgrade begins the chain anew.
    op.execute("UPDATE controlplane.log_head SET hash = NULL")
    op.execute("ALTER TABLE controlplane.log_head DROP COLUMN batch, DROP COLUMN chained_from")
