"""The log: head, streams, sources, events, bodies, batches; the two functions that write; the roles.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")


def upgrade() -> None:
    for name in ("0001_tables", "0001_append", "0001_roles"):
        op.execute((SQL / f"{name}.sql").read_text())


def downgrade() -> None:
    # Roles belong to the whole server and may own grants in other databases: they stay.
    op.execute("DROP FUNCTION controlplane.append, controlplane.take_epoch, controlplane.renew_epoch")
    op.execute(
        "DROP TABLE controlplane.batches, controlplane.bodies, controlplane.events, controlplane.sources,"
        " controlplane.streams, controlplane.log_head"
    )
