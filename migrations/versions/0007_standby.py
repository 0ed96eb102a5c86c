"""`audit.cluster_connectivity` knows a name that stands by: another name of a cluster that is used already.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

AUDIT = Path(__file__).with_name("sql") / "0002_audit.sql"
VIEW = "VIEW audit.cluster_connectivity"
STANDBY = (
    ("WHEN 'ClusterLost' THEN 'Lost'", "WHEN 'ClusterLost' THEN 'Lost' WHEN 'ClusterStandby' THEN 'Standby'"),
    ("IN ('Connected', 'Suspect')", "IN ('Connected', 'Suspect', 'Standby')"),
    ("'ClusterConnectFailed')", "'ClusterConnectFailed', 'ClusterStandby')"),
)
PHASES = (
    "Connected; Suspect (a sign of life is overdue); Lost (it was connected before); Failed (it never was); Removed; Standby"
    " (it answers, and is used under another name); Unknown (a process took over and has not tried yet)."
)


def upgrade() -> None:
    text = _view()
    for before, after in STANDBY:
        assert text.count(before) == 1
        text = text.replace(before, after)
    op.execute(text)
    op.execute(f"COMMENT ON COLUMN audit.cluster_connectivity.phase IS '{PHASES}'")


def downgrade() -> None:
    op.execute(_view())


def _view() -> str:
    text = AUDIT.read_text()
    begin = text.index(f"CREATE {VIEW}")
    return text[begin : text.index(";\n", begin)].replace("CREATE", "CREATE OR REPLACE", 1)
