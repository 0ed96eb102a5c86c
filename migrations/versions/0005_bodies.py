"""A body says whether values were left out of it after it had been stored: then its hash is still that of the whole.

What is there was not looked at yet (null). `controlplane db upgrade` does so next, batch by batch, and goes on where it
was interrupted.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE controlplane.bodies ADD COLUMN redacted boolean")
    # Set for new rows alone: those that are there stay null, and no row is written.
    op.execute("ALTER TABLE controlplane.bodies ALTER COLUMN redacted SET DEFAULT false")


def downgrade() -> None:
    op.execute("ALTER TABLE controlplane.bodies DROP COLUMN redacted")
