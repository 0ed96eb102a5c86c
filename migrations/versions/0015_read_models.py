"""Read models of Workloads that are over, so that what is asked of the whole fleet is not read from all of its events.

The version before this one knows nothing of them, and goes on with the new schema: as long as nobody keeps any, the views
say all from the events.

Revision ID: 0015
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
VIEWS = ("workload_phases", "runs", "placements", "pending_reasons", "effects")
PENDING = "CREATE VIEW audit.pending_reasons AS\n"
# Whether what is kept of a Workload is all that there is to say of it. No join, and nothing that a hash of all streams could answer: as a
# filter of streams it comes before the history of a Workload is read, and one Workload is looked up alone.
KEPT = """(
    SELECT true FROM read_models.streams k WHERE k.log = {of}.log AND k.stream = {stream} AND k.version >= coalesce((
        SELECT e.version FROM controlplane.events e WHERE e.log = k.log AND e.stream = k.stream ORDER BY e.version DESC LIMIT 1), 0))"""


def upgrade() -> None:
    op.execute((SQL / "0015_read_models.sql").read_text())
    kept = KEPT.format(of="v", stream="'workload/' || v.namespace || '/' || v.name")
    for view in VIEWS:
        live = f"SELECT v.* FROM read_models.live_{view} v WHERE {kept} IS NOT TRUE"
        op.execute(
            f"CREATE OR REPLACE VIEW audit.{view} AS SELECT v.* FROM read_models.{view} v WHERE {kept} IS TRUE UNION ALL "
            + (_pending() if view == "pending_reasons" else live)
        )


def _pending() -> str:
    """The view as 0009 made it, of Workloads of which nothing is kept: PostgreSQL moves no such filter into its parts."""
    text = (SQL / "0009_workloads.sql").read_text()
    begin = text.index(PENDING) + len(PENDING)
    view = text[begin : text.index(";\n", begin)]
    for part, alias, stream in (
        ("audit.workload_phases p\nWHERE ", "p", "'workload/' || p.namespace || '/' || p.name"),
        ("\nWHERE s.stream LIKE 'workload/%' AND ", "s", "s.stream"),
    ):
        assert view.count(part) == 1, part
        view = view.replace(part, f"{part}{KEPT.format(of=alias, stream=stream)} IS NOT TRUE AND ")
    return view.replace("audit.workload_phases", "read_models.live_workload_phases")


def downgrade() -> None:
    op.execute("DROP FUNCTION controlplane.keep_read_models, controlplane.drop_read_models")
    for view in VIEWS:
        op.execute(
            f"""
            DO $$
            BEGIN
                EXECUTE 'CREATE OR REPLACE VIEW audit.{view} AS ' || pg_get_viewdef('read_models.live_{view}'::regclass);
            END
            $$"""
        )
    op.execute("DROP SCHEMA read_models CASCADE")
