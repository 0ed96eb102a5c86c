"""SQL for people at the size of a fleet: what happened to the connection of a cluster is found by its place in the log. And of
objects that came again under the same name: what a new list shows is not ended by what it says of the one before.

It adds an index over the few events that are about connections, and replaces views by ones with the same columns; the version
before goes on with the new schema. Of what the read models keep, what would be said otherwise is taken away or put right.

Revision ID: 0023
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

HERE = Path(__file__).parent
SQL = HERE / "sql"
# What is kept of a Workload, if that is all that there is to say of it. As a join it is asked once for the rows of a Workload that lie
# together, and not for each; `OFFSET 0` keeps it from being asked for all Workloads at once.
KEPT_ROWS = """SELECT v.* FROM read_models.{view} v CROSS JOIN LATERAL (
    SELECT FROM read_models.streams k
    WHERE k.log = v.log AND k.stream = 'workload/' || v.namespace || '/' || v.name AND k.version >= coalesce((
        SELECT e.version FROM controlplane.events e WHERE e.log = k.log AND e.stream = k.stream ORDER BY e.version DESC LIMIT 1), 0)
    OFFSET 0
) k"""
LIVE = {
    "workload_phases": ("live_workload_phases",),
    "placements": ("live_placements",),
    "effects": ("live_effects",),
    "runs": ("live_dispatched_runs", "live_local_runs"),
}
# The events of a Workload as 0009 reads them, each parsed once.
EVENTS = re.compile(
    r"FROM \(\s+(SELECT e\.position, (?:(?!FROM \()[^;])*?FROM controlplane\.events e\s+WHERE e\.log = s\.log AND e\.stream = s\.stream\s+"
    r"AND e\.type IN \('WorkloadObserved', [^;]*?)OFFSET 0\s+\) e\b"
)
# Another Workload begins after the one before was seen to go, or when it is first seen.
LIFE = re.compile(
    r"(count\(\*\) FILTER \(WHERE (\w)\.type = 'WorkloadGone'\)\s+"
    r"OVER \(ORDER BY \w\.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING\)) AS life"
)
REPLACES = r"\1 + count(*) FILTER (WHERE \2.replaces) OVER (ORDER BY \2.position) AS life"
# The same in views as PostgreSQL prints them, which earlier migrations have put together of several texts.
PRINTED = re.compile(
    r"FROM (\S+)(?= \w+\s+WHERE [^;]{,120}\(ARRAY\['(Workload|MultiKueueConfig)Observed'::text, '\2Gone'::text\b)"
)
PHASES = (
    ("e.cluster, k.face, e.d,\n", "e.cluster, k.face, e.d, e.replaces,\n"),
    # what was decided for the one before does not hold for the next
    (
        "'ends', q.reserved IS NULL OR q.evicted IS NOT NULL,",
        "'ends', q.reserved IS NULL OR q.evicted IS NOT NULL OR e.replaces,",
    ),
)
# As 0022 makes them of the phases, and where each ends in the log.
INTERVALS = (
    (
        "p.phase, p.reason, p.message, p.position\nFROM",
        "p.phase, p.reason, p.message, p.position, p.refused, p.last_position\nFROM",
    ),
    (
        "           n.message, n.position\n",
        "           n.message, n.position, n.refused, lead(n.position) OVER (ORDER BY n.position) AS last_position\n",
    ),
    ("g.message, g.uid) IS", "g.message, g.uid, g.refused) IS"),
    (
        "lag((g.phase, g.cluster, g.attempt, g.reason, g.message, g.uid))",
        "lag((g.phase, g.cluster, g.attempt, g.reason, g.message, g.uid, g.refused))",
    ),
    ("f.face ->> 'uid' AS uid,", "f.face ->> 'uid' AS uid, nullif(f.face -> 'refused', 'null') AS refused,"),
    ("'phase', q.phase,", "'phase', q.phase, 'refused', CASE WHEN q.phase = 'Pending' THEN q.rejected END,"),
)
# On a cluster there is one job of a name at a time: one ends at the latest when the next is seen.
RUNS = (
    (
        "c.runs IS DISTINCT FROM coalesce(lag(c.runs) OVER (PARTITION BY c.cluster, c.job_uid ORDER BY c.position), false) AS turns",
        (
            "(CASE WHEN c.runs THEN c.job_uid END) IS DISTINCT FROM\n                           "
            "lag(CASE WHEN c.runs THEN c.job_uid END) OVER (PARTITION BY c.cluster, c.job_name ORDER BY c.position) AS turns"
        ),
    ),
    ("b.d ->> 'uid' AS job_uid,", "b.d ->> 'uid' AS job_uid, b.d ->> 'name' AS job_name,"),
    ("WINDOW w AS (PARTITION BY t.cluster, t.job_uid ORDER", "WINDOW w AS (PARTITION BY t.cluster, t.job_name ORDER"),
    ("lead(t.type) OVER w AS next_type,", "lead(t.type) OVER w AS next_type, lead(t.job_uid) OVER w AS next_uid,"),
    (
        "                    WHEN j.next_finished THEN",
        "                    WHEN j.next_uid <> j.job_uid THEN 'Removed'\n                    WHEN j.next_finished THEN",
    ),
)
PLACEMENTS = (
    (
        (
            "SELECT e.position, e.type, e.cluster, e.reason, e.recorded_at,\n                           "
            "replace(e.data::text, '\\u0000', '\\ufffd')::jsonb AS d,\n                           "
        ),
        "SELECT e.*, ",
    ),
    (
        "                    FROM controlplane.events e\n",
        (
            "                    FROM (\n                    SELECT e.position, e.type, e.cluster, e.reason, e.recorded_at, "
            "replace(e.data::text, '\\u0000', '\\ufffd')::jsonb AS d\n                    FROM controlplane.events e\n"
        ),
    ),
    (
        "'ClusterRefused', 'CheckStateDecided')\n",
        "'ClusterRefused', 'CheckStateDecided') OFFSET 0\n                    ) e\n",
    ),
    (
        "OVER (PARTITION BY m.life ORDER BY m.position) AS reserved_at,",
        (
            "OVER (PARTITION BY m.life ORDER BY m.position) AS reserved_at,\n"
            "               min(m.recorded_at) FILTER (WHERE m.replaces)\n"
            "                   OVER (ORDER BY m.life RANGE BETWEEN 1 FOLLOWING AND 1 FOLLOWING) AS replaced_at,"
        ),
    ),
    (
        "           min(n.recorded_at) FILTER (WHERE n.type = 'WorkloadGone'",
        "           least(min(n.replaced_at), min(n.recorded_at) FILTER (WHERE n.type = 'WorkloadGone'",
    ),
    ("OR n.evicted IS NOT NULL OR NOT n.reserved)) AS until", "OR n.evicted IS NOT NULL OR NOT n.reserved))) AS until"),
)


# Which configurations name which clusters is asked once, and not for each cluster.
FLEET = (
    (
        "    SELECT c.cluster, c.phase,",
        (
            "    WITH named AS MATERIALIZED (\n        SELECT f.name, f.new FROM audit.config_changes f\n"
            "        WHERE f.log = $1 AND f.kind = 'MultiKueueConfig' AND f.field = 'clusters'\n"
            "          AND f.since <= $2 AND (f.until > $2 OR f.until IS NULL)\n"
            "    )\n    SELECT c.cluster, c.phase,"
        ),
    ),
    (
        (
            "ARRAY(SELECT f.name FROM audit.config_changes f\n                 "
            "WHERE f.log = $1 AND f.kind = 'MultiKueueConfig' AND f.field = 'clusters' AND f.new ? c.cluster\n"
            "                   AND f.since <= $2 AND (f.until > $2 OR f.until IS NULL) ORDER BY f.name)"
        ),
        "ARRAY(SELECT f.name FROM named f WHERE f.new ? c.cluster ORDER BY f.name)",
    ),
)


def upgrade() -> None:
    op.execute((SQL / "0023_told.sql").read_text())
    op.execute((SQL / "0023_absences.sql").read_text())
    earlier, text = _earlier(), (SQL / "0009_workloads.sql").read_text()
    _outages(earlier)
    phases, runs = (earlier["_view"](text, name) for name in ("workload_phases", "runs"))
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_workload_phases AS {_told(phases, *PHASES)}")
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_dispatched_runs AS {_told(runs, *RUNS)}")
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_placements AS {_told(_placements(text), *PLACEMENTS)}")
    op.execute(f"CREATE VIEW read_models.phase_intervals AS {_told(phases, *PHASES, *INTERVALS)}")
    _pending(earlier, text)
    for view, live in LIVE.items():
        parts = [KEPT_ROWS.format(view=view)]
        parts += [earlier["TOLD"].format(view=one, kept=earlier["OF_NAME"], word="NOT") for one in live]
        op.execute(f"CREATE OR REPLACE VIEW audit.{view} AS {' UNION ALL '.join(parts)}")
    op.execute("DROP VIEW read_models.phases_with_checks")
    for view in ("quota_usage", "config_changes"):
        _read(view, "read_models.told")
    op.execute(_keeper("FROM read_models.told e"))
    _fleet_at(*FLEET)
    op.execute((SQL / "0023_kept.sql").read_text().replace("@LOST@", _lost()))


def downgrade() -> None:
    earlier, text = _earlier(), (SQL / "0009_workloads.sql").read_text()
    _fleet_at()
    op.execute(_keeper("FROM events e"))
    for view in ("quota_usage", "config_changes"):
        _read(view, "controlplane.events")
    earlier["_pending"]()
    for view, live in LIVE.items():
        earlier["_tell"](view, *live)
    op.execute("DROP VIEW read_models.phase_intervals")
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_placements AS {_placements(text)}")
    for view, name in (("live_dispatched_runs", "runs"), ("live_workload_phases", "workload_phases")):
        op.execute(f"CREATE OR REPLACE VIEW read_models.{view} AS {earlier['_view'](text, name)}")
    fleet = (SQL / "0009_fleet.sql").read_text()
    for view in ("outages", "outage_workloads", "cluster_absences"):
        op.execute(f"CREATE OR REPLACE VIEW audit.{view} AS {earlier['_view'](fleet, view)}")
    op.execute("DROP VIEW read_models.outage_runs, read_models.told")
    op.execute("DROP INDEX controlplane.events_connection")


def _outages(earlier: dict[str, Any]) -> None:
    """Make the view from runs to absences of that of 0009, with the event that began the absence, and the others of it."""
    view = earlier["_view"]((SQL / "0009_fleet.sql").read_text(), "outage_workloads")
    begin, end = view.index("    SELECT * FROM absence a\n"), view.index("    OFFSET 0\n")
    view = view[:begin] + (SQL / "0023_absences_of_run.sql").read_text() + view[end:]
    view = _replaced(view, "WITH absence AS MATERIALIZED (SELECT * FROM audit.cluster_absences)\n", "")
    view = _replaced(
        view, "r.position\nFROM audit.runs r", "r.position, o.position AS lost_position\nFROM audit.runs r"
    )
    op.execute(f"CREATE VIEW read_models.outage_runs AS {view}")
    op.execute((SQL / "0023_outages.sql").read_text())


def _own() -> str:
    """Return what 0022 says of the Workload itself: what happened to its cluster meanwhile is a range of positions."""
    own = _replaced(
        (SQL / "0022_pending.sql").read_text(),
        "FROM read_models.phases_with_checks p",
        "FROM read_models.phase_intervals p",
    )
    begin = own.index("                    SELECT e.type <> 'ClusterConnected' AS lost")
    end = own.index("                ) o ON true")
    own = own[:begin] + _lost() + own[end:]
    bound = "AND e.position > p.position\n"
    return _replaced(
        own, bound, f"{bound}                  AND e.position < coalesce(p.last_position, 9223372036854775807)\n"
    )


def _lost() -> str:
    return (SQL / "0023_lost.sql").read_text()


def _pending(earlier: dict[str, Any], text: str) -> None:
    """Make the view of what waits: as it is, and beside what is kept, as 0015 put it together."""
    pending = earlier["_view"](text, "pending_reasons")
    own, copies = _own(), _told(pending[pending.index("UNION ALL\n") :])
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_pending_reasons AS {own}{copies}")
    stream, kept = "'workload/' || p.namespace || '/' || p.name", earlier["KEPT"]
    own = _replaced(
        own,
        "\nWHERE p.phase NOT IN ('Finished'",
        f"\nWHERE {kept.format(of='p', stream=stream)} IS NOT TRUE AND p.phase NOT IN ('Finished'",
    )
    copies = _replaced(
        copies,
        "\nWHERE s.stream LIKE 'workload/%' AND ",
        f"\nWHERE {kept.format(of='s', stream='s.stream')} IS NOT TRUE AND s.stream LIKE 'workload/%' AND ",
    )
    op.execute(
        f"CREATE OR REPLACE VIEW audit.pending_reasons AS {KEPT_ROWS.format(view='pending_reasons')} UNION ALL {own}{copies}"
    )


def _read(view: str, events: str) -> None:
    """Let a view of `audit` read these events of objects."""
    text = op.get_bind().exec_driver_sql(f"SELECT pg_get_viewdef('audit.{view}'::regclass)").scalar_one()
    text, found = PRINTED.subn(f"FROM {events}", text)
    assert found == 1, text
    op.execute(f"CREATE OR REPLACE VIEW audit.{view} AS {text}")


def _told(view: str, *changes: tuple[str, str]) -> str:
    """Return a view of 0009 without the ends of objects that others had followed, which counts the Workloads of a name by that."""
    for old, new in changes:
        view = _replaced(view, old, new)
    told = (SQL / "0023_objects.sql").read_text()
    view, found = EVENTS.subn(lambda match: f"FROM ({told.replace('@EVENTS@', match[1])}) e", view)
    assert found == 1, view
    view, found = LIFE.subn(REPLACES, view)
    assert found == 1, view
    return view


def _placements(text: str) -> str:
    begin = text.index("CREATE OR REPLACE VIEW audit.placements AS\n") + len(
        "CREATE OR REPLACE VIEW audit.placements AS\n"
    )
    return text[begin : text.index(";\n", begin)]


def _fleet_at(*changes: tuple[str, str]) -> None:
    text = (SQL / "0009_fleet.sql").read_text()
    made = text[text.index("CREATE FUNCTION audit.fleet_at") :]
    for old, new in changes:
        made = _replaced(made, old, new)
    op.execute(made[: made.index("$$;\n") + len("$$;\n")].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1))


def _keeper(events: str) -> str:
    """Return the function that keeps what is over, which asks these events whether the Workload is."""
    text = (SQL / "0015_read_models.sql").read_text()
    begin = text.index("CREATE FUNCTION controlplane.keep_read_models")
    made = text[begin : text.index("$$;\n", begin) + len("$$;\n")].replace(
        "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1
    )
    asked = "SELECT e.type, e.data FROM events e"
    return _replaced(made, asked, f"SELECT e.type, e.data {events}")


def _replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def _earlier() -> dict[str, Any]:
    """Return what the migration before is made of."""
    return runpy.run_path(str(HERE / "0022_local_runs.py"))
