"""Who changed the configuration, as far as API servers say it.

Revision ID: 0014
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
SAID = "The field manager that wrote the object last, its status apart; null where that is not known, and where it was deleted."


def upgrade() -> None:
    op.execute((SQL / "0014_managers.sql").read_text())
    op.execute(f"COMMENT ON COLUMN audit.config_changes.changed_by IS '{SAID}'")


def downgrade() -> None:
    before = (SQL / "0009_fleet.sql").read_text()
    begin = before.index("CREATE VIEW audit.config_changes")
    op.execute("DROP VIEW audit.config_changes")
    op.execute(before[begin : before.index(";\n", begin)])
    op.execute("GRANT SELECT ON audit.config_changes TO controlplane_reader, controlplane_service")
