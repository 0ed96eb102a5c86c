"""The history for people: the schema `audit`, views only, and the rights of those who read.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")


def upgrade() -> None:
    op.execute((SQL / "0002_audit.sql").read_text())


def downgrade() -> None:
    op.execute("DROP SCHEMA audit CASCADE")
    op.execute("DROP INDEX controlplane.streams_object, controlplane.streams_cluster")
