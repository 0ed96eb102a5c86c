"""An append says where its events are, so that their writer need not read them.

The version before this one goes on with the new schema: `append` is there as it knows it.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")


def upgrade() -> None:
    op.execute((SQL / "0006_append.sql").read_text())


def downgrade() -> None:
    before = (SQL / "0003_fence.sql").read_text()
    begin = before.index("CREATE FUNCTION controlplane.append(")
    text = before[begin : before.index("$$;", begin) + len("$$;")]
    op.execute(text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1))
    op.execute("DROP FUNCTION controlplane.append_events")
