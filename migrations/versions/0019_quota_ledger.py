"""SQL for people: the ledger of quota that this service reserves.

It adds a view; the version before goes on with the new schema.

Revision ID: 0019
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
VIEW = (
    "What quota each Workload got and gave back, where this service reserves it (quota.mode builtin): one row for each entry, flavor and"
    " resource."
)
COLUMNS = {
    "log": "The log.",
    "namespace": "The namespace of the Workload.",
    "name": "The name of the Workload.",
    "position": "The position of the entry.",
    "at": "When it was recorded.",
    "entry": "The event: QuotaReservationDecided, or QuotaPosted for what came or went otherwise.",
    "reason": "Why.",
    "cluster_queue": "The ClusterQueue whose quota it is.",
    "flavor": "The ResourceFlavor.",
    "resource": "The resource.",
    "amount": "What is added to what the Workload has, negative for what is taken from it: cpu in thousandths, everything else in whole"
    " units.",
    "balance": "What the Workload has of it after the entry; 0 once it is given back.",
    "borrowed": "How much of what it has exceeds the nominal quota of the ClusterQueue.",
    "caused_by": "The position of the event that it rests on.",
}


def upgrade() -> None:
    op.execute((SQL / "0019_quota_ledger.sql").read_text())
    op.execute(f"COMMENT ON VIEW audit.quota_ledger IS {_quoted(VIEW)}")
    for column, said in COLUMNS.items():
        op.execute(f"COMMENT ON COLUMN audit.quota_ledger.{column} IS {_quoted(said)}")
    op.execute("GRANT SELECT ON audit.quota_ledger TO controlplane_reader, controlplane_service")


def downgrade() -> None:
    op.execute("DROP VIEW audit.quota_ledger")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
