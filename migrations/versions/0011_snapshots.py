"""Snapshots of what processes have folded of a log, so that one that starts need not read all of it.

The version before this one knows nothing of them, and goes on with the new schema.

Revision ID: 0011
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")


def upgrade() -> None:
    op.execute((SQL / "0011_snapshots.sql").read_text())


def downgrade() -> None:
    op.execute("DROP FUNCTION controlplane.keep_snapshot")
    op.execute("DROP TABLE controlplane.snapshots")
