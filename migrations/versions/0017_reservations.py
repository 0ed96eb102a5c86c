"""SQL for people: each reservation of a candidate, and how it ended.

It adds a view; the version before goes on with the new schema.

Revision ID: 0017
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
VIEW = (
    "Each reservation of a candidate of a pod that is placed on other clusters, as the source saw it, and how it ended."
)
COLUMNS = {
    "log": "The log.",
    "namespace": "The namespace of the source pod.",
    "name": "The name of the source pod.",
    "cluster": "The target.",
    "epoch": "The attempt to place the pod.",
    "candidate": "The name of the candidate in its target.",
    "number": "The number of the reservation, which the target counts for each candidate.",
    "node": "The node that was held.",
    "score": "What the target scored the node.",
    "since": "When it was first seen.",
    "permitted_at": "When the candidate was first permitted to bind under it; null if it was not.",
    "expires": "Until when the target holds it without a permit, by the target's clock; null if it did not say.",
    "until": "When it was seen to have ended; null while nothing says so.",
    "outcome": "Bound, Lapsed (no permit came in time), Withdrawn (the source took its permit back), Dropped (the source deleted the"
    " candidate), Gone (somebody else did), Unreserved (the target gave it up for another reason), or Held.",
    "reason": "Why, in one word: of Dropped the source's, else the target's; empty if it is bound or held, or if nothing was said.",
    "message": "Why, as the target said it.",
    "position": "The position of the event that began it.",
    "last_position": "The position of the event that ended it; null if it lasts.",
}


def upgrade() -> None:
    op.execute((SQL / "0017_reservations.sql").read_text())
    op.execute(f"COMMENT ON VIEW audit.reservations IS {_quoted(VIEW)}")
    for column, said in COLUMNS.items():
        op.execute(f"COMMENT ON COLUMN audit.reservations.{column} IS {_quoted(said)}")
    op.execute("GRANT SELECT ON audit.reservations TO controlplane_reader, controlplane_service")


def downgrade() -> None:
    op.execute("DROP VIEW audit.reservations")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
