"""No temporary tables and no large objects for everybody who may connect, as far as the migrating role may forbid them.

The version before this one uses neither.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")


def upgrade() -> None:
    op.execute((SQL / "0004_rights.sql").read_text())


def downgrade() -> None:
    # lo_import and lo_export are for superusers from the beginning.
    text = (SQL / "0004_rights.sql").read_text().replace("'lo_export', ", "").replace("'lo_import', ", "")
    op.execute(text.replace("REVOKE", "GRANT").replace("FROM PUBLIC", "TO PUBLIC"))
