"""SQL for people: who held which quota, from the ledger where this service reserves it.

It replaces a view by one with the same columns; the version before goes on with the new schema.

Revision ID: 0020
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")


def upgrade() -> None:
    op.execute((SQL / "0020_quota_held.sql").read_text())


def downgrade() -> None:
    op.execute((SQL / "0020_quota_held_down.sql").read_text())
