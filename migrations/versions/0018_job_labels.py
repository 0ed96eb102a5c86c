"""SQL for people: the labels of jobs, which are in their templates.

It adds a view; the version before goes on with the new schema.

Revision ID: 0018
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
VIEW = "The labels of each job, as it was last seen."
COLUMNS = {
    "log": "The log.",
    "namespace": "The namespace of the job.",
    "name": "The name of the job.",
    "kind": "The kind of the job, as in the names of streams: `jobs.batch`.",
    "labels": "Its labels; null if its template was removed from the log.",
    "since": "When it was last seen to change.",
    "position": "The position of that event.",
}


def upgrade() -> None:
    op.execute((SQL / "0018_job_labels.sql").read_text())
    op.execute(f"COMMENT ON VIEW audit.job_labels IS {_quoted(VIEW)}")
    for column, said in COLUMNS.items():
        op.execute(f"COMMENT ON COLUMN audit.job_labels.{column} IS {_quoted(said)}")
    op.execute("GRANT SELECT ON audit.job_labels TO controlplane_reader, controlplane_service")


def downgrade() -> None:
    op.execute("DROP VIEW audit.job_labels")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
