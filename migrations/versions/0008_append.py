"""A writer that knows the log says versions and marks itself; the database judges whether it knows.

The version before this one goes on with the new schema: `append_events` and `append` are there as it knows them.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
VIEW = "CREATE VIEW audit.streams"


def upgrade() -> None:
    op.execute((SQL / "0008_append.sql").read_text())


def downgrade() -> None:
    op.execute("SELECT controlplane.merge_marks(log) FROM controlplane.log_head")
    op.execute(
        """
        UPDATE controlplane.streams s SET version = n.version
        FROM (SELECT log, stream, max(version) AS version FROM controlplane.events GROUP BY log, stream) n
        WHERE n.log = s.log AND n.stream = s.stream AND n.version <> s.version"""
    )
    audit = (SQL / "0002_audit.sql").read_text()
    op.execute(
        audit[audit.index(VIEW) : audit.index(";\n", audit.index(VIEW))].replace("CREATE", "CREATE OR REPLACE", 1)
    )
    before = (SQL / "0006_append.sql").read_text()
    begin = before.index("CREATE FUNCTION controlplane.append_events(")
    text = before[begin : before.index("$$;", begin) + len("$$;")]
    op.execute(text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1))
    op.execute("DROP FUNCTION controlplane.append_batch, controlplane.known_to_log, controlplane.merge_marks")
    op.execute("DROP TABLE controlplane.new_marks")
    op.execute("CREATE INDEX events_stream ON controlplane.events (log, stream, position)")
    op.execute("DROP INDEX controlplane.events_version")
