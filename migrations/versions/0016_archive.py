"""Old events may be archived and dropped: a log says up to where, which archives have them, and which streams are in them
alone.

The version before this one goes on with the new schema as long as nothing is dropped.

Revision ID: 0016
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
# The version of a stream whose events are in archives alone is in `streams`.
_KNOWN = "ORDER BY e.version DESC LIMIT 1), 0)\n        FROM unnest(p_stream)"
_NEWEST = (
    "FROM events v WHERE v.log = p_log AND v.stream = n.stream ORDER BY v.version DESC LIMIT 1\n        ) AS version"
)
_HAS = "(SELECT s.version FROM streams s WHERE s.log = p_log AND s.stream = {}.stream)"
NEWEST = {
    "known_to_log": (_KNOWN, _KNOWN.replace("1), 0)", f"1), {_HAS.format('a')}, 0)")),
    "append_events": (
        f"(\n            SELECT v.version {_NEWEST}",
        f"coalesce((\n            SELECT v.version {_NEWEST.replace(') AS', '), ' + _HAS.format('n') + ') AS')}",
    ),
}
POSITION_AT = "CREATE FUNCTION audit.position_at("
STREAMS = "CREATE OR REPLACE VIEW audit.streams"
SAID = {
    "VIEW audit.archives": "The archives of old events that `controlplane log archive` has written.",
    "COLUMN audit.archives.log": "The log.",
    "COLUMN audit.archives.first": "The position of its first event.",
    "COLUMN audit.archives.last": "The position of its last event.",
    "COLUMN audit.archives.since": "When its first event was recorded.",
    "COLUMN audit.archives.until": "When its last event was recorded.",
    "COLUMN audit.archives.directory": "Where it was written: a folder, as the host that wrote it names it.",
    "COLUMN audit.archives.hash": "The hash of its last batch, in hex.",
    "COLUMN audit.archives.archived_at": "When it was written.",
    "COLUMN audit.archives.dropped_at": "When its events left the database; null if they are there.",
    "COLUMN audit.streams.archived_to": "The position of the last of its events that are in archives alone; null if it has none.",
}


def upgrade() -> None:
    for name, (before, after) in NEWEST.items():
        _changed(name, before, after)
    op.execute((SQL / "0016_archive.sql").read_text())
    for what, said in SAID.items():
        quoted = said.replace("'", "''")
        op.execute(f"COMMENT ON {what} IS '{quoted}'")


def downgrade() -> None:
    op.execute(
        """
        DO $$
        BEGIN
            IF EXISTS (SELECT FROM controlplane.log_head h WHERE h.archived_to > 0) THEN
                RAISE EXCEPTION 'events of this database are in archives alone: bring them back with `controlplane log restore` first';
            END IF;
        END
        $$"""
    )
    for name, (before, after) in NEWEST.items():
        _changed(name, after, before)
    fleet = (SQL / "0009_fleet.sql").read_text()
    begin = fleet.index(POSITION_AT)
    text = fleet[begin : fleet.index("$$;", begin) + len("$$;")]
    op.execute(text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1))
    op.execute("DROP VIEW audit.archives")
    op.execute("DROP VIEW audit.streams")
    before = (SQL / "0008_append.sql").read_text()
    op.execute(before[before.index(STREAMS) : before.index(";\n", before.index(STREAMS))])
    op.execute("GRANT SELECT ON audit.streams TO controlplane_reader, controlplane_service")
    op.execute("DROP TABLE controlplane.archives")
    op.execute("ALTER TABLE controlplane.streams DROP COLUMN archived_to")
    op.execute(
        "ALTER TABLE controlplane.log_head DROP COLUMN archived_to, DROP COLUMN kept_events, DROP COLUMN kept_hash"
    )


def _changed(name: str, before: str, after: str) -> None:
    """Change a function where its text says something, and nothing else of it."""
    (old,) = op.get_bind().exec_driver_sql("SELECT pg_get_functiondef(%s::regproc)", (f"controlplane.{name}",)).one()
    assert old.count(before) == 1, name
    op.get_bind().exec_driver_sql(old.replace(before, after).replace("%", "%%"))
