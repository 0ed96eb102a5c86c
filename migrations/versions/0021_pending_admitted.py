"""SQL for people: what is admitted without dispatch waits for nothing; amounts of quota have no zeros behind them.

It replaces two views by ones with the same columns, and takes from the read models the rows that the old view was wrong about; the
version before goes on with the new schema.

Revision ID: 0021
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
NAME = "pending_reasons"
BEGIN = f"CREATE VIEW audit.{NAME} AS\n"
PHASES = "WHERE p.phase NOT IN ('Running', 'Finished', 'Deleting', 'Deleted')"
# Kueue sets Admitted when every admission check is Ready, so nothing that this log shows is missing where there is no cluster.
NOTHING = f"{PHASES} AND NOT (p.phase = 'Admitted' AND p.cluster IS NULL)"
# As in 0015: whether what is kept of a Workload is all that there is to say of it.
KEPT = """(
    SELECT true FROM read_models.streams k WHERE k.log = {of}.log AND k.stream = {stream} AND k.version >= coalesce((
        SELECT e.version FROM controlplane.events e WHERE e.log = k.log AND e.stream = k.stream ORDER BY e.version DESC LIMIT 1), 0))"""


def upgrade() -> None:
    _pending(NOTHING)
    # What was kept is not made again from events that may have been dropped: the rows that the view has no more are taken away.
    op.execute("DELETE FROM read_models.pending_reasons WHERE waits_for = 'its other admission checks'")
    view = (SQL / "0020_quota_held.sql").read_text()
    op.execute(_replaced(view, "q.amount,", "trim_scale(q.amount) AS amount,", 2))


def downgrade() -> None:
    _pending(PHASES)
    op.execute((SQL / "0020_quota_held.sql").read_text())


def _pending(phases: str) -> None:
    """Make the view of 0009 anew, with these phases of Workloads: as it is, and beside what is kept, as 0015 put it together."""
    text = (SQL / "0009_workloads.sql").read_text()
    begin = text.index(BEGIN) + len(BEGIN)
    view = _replaced(text[begin : text.index(";\n", begin)], PHASES, phases, 1)
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_{NAME} AS {view}")
    for part, alias, stream in (
        ("audit.workload_phases p\nWHERE ", "p", "'workload/' || p.namespace || '/' || p.name"),
        ("\nWHERE s.stream LIKE 'workload/%' AND ", "s", "s.stream"),
    ):
        view = _replaced(view, part, f"{part}{KEPT.format(of=alias, stream=stream)} IS NOT TRUE AND ", 1)
    view = view.replace("audit.workload_phases", "read_models.live_workload_phases")
    kept = KEPT.format(of="v", stream="'workload/' || v.namespace || '/' || v.name")
    op.execute(
        f"CREATE OR REPLACE VIEW audit.{NAME} AS SELECT v.* FROM read_models.{NAME} v WHERE {kept} IS TRUE UNION ALL {view}"
    )


def _replaced(text: str, old: str, new: str, times: int) -> str:
    assert text.count(old) == times, old
    return text.replace(old, new)
