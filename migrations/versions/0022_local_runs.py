"""SQL for people: jobs that run on the management cluster are runs; what waits for a cluster that was lost, or for a check that
rejected it, is told as that; who held quota is known where this service reserves it.

It replaces three views by ones with the same columns; the version before goes on with the new schema. Of what the read models
keep, the rows that are missing or wrong are made of what is there: the runs of events that are in the database, the waits for
clusters of the phases that are kept.

Revision ID: 0022
"""

from __future__ import annotations

import runpy
from pathlib import Path

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
# As in 0015: whether what is kept of a Workload is all that there is to say of it.
KEPT = """(
    SELECT true FROM read_models.streams k WHERE k.log = {of}.log AND k.stream = {stream} AND k.version >= coalesce((
        SELECT e.version FROM controlplane.events e WHERE e.log = k.log AND e.stream = k.stream ORDER BY e.version DESC LIMIT 1), 0))"""
OF_NAME = KEPT.format(of="v", stream="'workload/' || v.namespace || '/' || v.name")
TOLD = "SELECT v.* FROM read_models.{view} v WHERE {kept} IS {word} TRUE"
OWNERS = "(a.d -> 'owners' -> 0 ->> 'kind') || '/' || (a.d -> 'owners' -> 0 ->> 'name')"
REPLACED = """
DO $$
BEGIN
    EXECUTE 'CREATE {how} VIEW read_models.{new} AS ' || pg_get_viewdef('read_models.{old}'::regclass);
END
$$"""

# What is Lost is so since its cluster is, and for the reason of that.
LOST = (
    ("SELECT a.cluster FROM", "SELECT a.cluster, a.since, a.reason, a.message FROM"),
    (
        "CASE WHEN p.phase IN ('Admitted', 'Running') AND EXISTS (SELECT FROM absence a WHERE a.cluster = p.cluster) THEN",
        "CASE WHEN a.cluster IS NOT NULL THEN",
    ),
    (
        "p.since, p.reason, p.message\n",
        "greatest(p.since, a.since), coalesce(a.reason, p.reason), coalesce(a.message, p.message)\n",
    ),
    (
        "FROM audit.workload_phases p\n",
        "FROM audit.workload_phases p\n    LEFT JOIN absence a ON a.cluster = p.cluster AND p.phase IN ('Admitted', 'Running')\n",
    ),
)


def upgrade() -> None:
    _runs()
    _pending()
    _kept()
    _quota()
    _as_of(*LOST)


def downgrade() -> None:
    _as_of()
    _not_kept()
    # The way up to 0021 makes the views of what waits and of quota as they were.
    runpy.run_path(str(Path(__file__).with_name("0021_pending_admitted.py")))["upgrade"]()
    op.execute("DROP VIEW read_models.phases_with_checks")
    op.execute(REPLACED.format(how="OR REPLACE", new="live_runs", old="live_dispatched_runs"))
    _tell("runs", "live_runs")
    op.execute("DROP VIEW read_models.live_local_runs, read_models.live_dispatched_runs")


def _runs() -> None:
    op.execute(REPLACED.format(how="", new="live_dispatched_runs", old="live_runs"))
    op.execute((SQL / "0022_local_runs.sql").read_text())
    op.execute(
        "CREATE OR REPLACE VIEW read_models.live_runs AS"
        " SELECT v.* FROM read_models.live_dispatched_runs v UNION ALL SELECT v.* FROM read_models.live_local_runs v"
    )
    _tell("runs", "live_dispatched_runs", "live_local_runs")


def _tell(view: str, *live: str) -> None:
    """Make a view of what is kept and of what is not. PostgreSQL moves no such filter into the parts of one that has several:
    each part is named here."""
    parts = [TOLD.format(view=view, kept=OF_NAME, word="")]
    parts += [TOLD.format(view=one, kept=OF_NAME, word="NOT") for one in live]
    op.execute(f"CREATE OR REPLACE VIEW audit.{view} AS {' UNION ALL '.join(parts)}")


def _pending() -> None:
    text = (SQL / "0009_workloads.sql").read_text()
    phases = _view(text, "workload_phases")
    for old, new in (
        (
            "p.phase, p.reason, p.message, p.position\nFROM",
            "p.phase, p.reason, p.message, p.position, p.refused\nFROM",
        ),
        ("           n.message, n.position\n", "           n.message, n.position, n.refused\n"),
        (
            "(g.phase, g.cluster, g.attempt, g.reason, g.message, g.uid) IS",
            "(g.phase, g.cluster, g.attempt, g.reason, g.message, g.uid, g.refused) IS",
        ),
        (
            "lag((g.phase, g.cluster, g.attempt, g.reason, g.message, g.uid))",
            "lag((g.phase, g.cluster, g.attempt, g.reason, g.message, g.uid, g.refused))",
        ),
        ("f.face ->> 'uid' AS uid,", "f.face ->> 'uid' AS uid, nullif(f.face -> 'refused', 'null') AS refused,"),
        ("'phase', q.phase,", "'phase', q.phase, 'refused', CASE WHEN q.phase = 'Pending' THEN q.rejected END,"),
    ):
        phases = _replaced(phases, old, new)
    op.execute(f"CREATE VIEW read_models.phases_with_checks AS {phases}")
    pending = _view(text, "pending_reasons")
    copies = pending[pending.index("UNION ALL\n") :]
    own = (SQL / "0022_pending.sql").read_text()
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_pending_reasons AS {own}{copies}")
    for part, alias, stream in (
        ("\nWHERE p.phase NOT IN ('Finished'", "p", "'workload/' || p.namespace || '/' || p.name"),
        ("\nWHERE s.stream LIKE 'workload/%' AND ", "s", "s.stream"),
    ):
        begin, _, rest = part.partition("WHERE ")
        filtered = f"{begin}WHERE {KEPT.format(of=alias, stream=stream)} IS NOT TRUE AND {rest}"
        own, copies = (_replaced(one, part, filtered) if part in one else one for one in (own, copies))
    kept = TOLD.format(view="pending_reasons", kept=OF_NAME, word="")
    op.execute(f"CREATE OR REPLACE VIEW audit.pending_reasons AS {kept} UNION ALL {own}{copies}")


def _kept() -> None:
    op.execute((SQL / "0022_kept.sql").read_text())


def _not_kept() -> None:
    op.execute((SQL / "0022_kept_down.sql").read_text())


def _quota() -> None:
    view = (SQL / "0020_quota_held.sql").read_text()
    view = _replaced(view, "q.amount,", "trim_scale(q.amount) AS amount,", 2)
    # What the job framework sees of a Workload stands on the stream of its job.
    for old, new in (
        ("'jobframework/' || substring(s.stream FROM 11)", "substring(s.stream FROM 11)"),
        ("e.type = 'JobWorkloadObserved'", "e.type = 'WorkloadObserved'"),
        (
            "w.queue, o.owner, i.cluster_queue",
            "w.d ->> 'queue' AS queue, coalesce(o.owner, w.owner) AS owner, i.cluster_queue",
        ),
        ("::jsonb ->> 'queue' AS queue", "::jsonb AS d"),
        (
            "LEFT JOIN LATERAL (\n        SELECT replace(",
            f"LEFT JOIN LATERAL (\n        SELECT a.*, {OWNERS} AS owner FROM (SELECT replace(",
        ),
        ("ORDER BY e.position DESC LIMIT 1\n    ) w", "ORDER BY e.position DESC LIMIT 1) a\n    ) w"),
    ):
        view = _replaced(view, old, new)
    op.execute(view)


def _as_of(*changes: tuple[str, str]) -> None:
    text = (SQL / "0009_fleet.sql").read_text()
    begin = text.index("CREATE FUNCTION audit.as_of")
    made = text[begin : text.index("$$;\n", begin) + len("$$;\n")].replace(
        "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1
    )
    for old, new in changes:
        made = _replaced(made, old, new)
    op.execute(made)


def _view(text: str, name: str) -> str:
    begin = text.index(f"CREATE VIEW audit.{name} AS\n") + len(f"CREATE VIEW audit.{name} AS\n")
    return text[begin : text.index(";\n", begin)]


def _replaced(text: str, old: str, new: str, times: int = 1) -> str:
    assert text.count(old) == times, old
    return text.replace(old, new)
