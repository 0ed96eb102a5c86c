"""The fence compares the holder's own nonce too, a log has an identity, and the lead is told by counted signs of life.

The version before this one goes on with the new schema: its calls find the functions that they know.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")


def upgrade() -> None:
    for name in ("0003_fence", "0003_rights"):
        op.execute((SQL / f"{name}.sql").read_text())


def downgrade() -> None:
    op.execute(
        "DO $$ DECLARE name regprocedure; BEGIN"
        " FOR name IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'controlplane'::regnamespace"
        " AND p.proname IN ('append', 'take_epoch', 'renew_epoch') LOOP"
        " EXECUTE format('DROP FUNCTION %s', name); END LOOP; END $$"
    )
    for name in ("0001_append", "0003_rights"):
        op.execute((SQL / f"{name}.sql").read_text())
    op.execute("ALTER TABLE controlplane.log_head DROP COLUMN id, DROP COLUMN nonce, DROP COLUMN beat")
