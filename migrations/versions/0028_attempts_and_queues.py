"""SQL for people: an attempt to find a cluster has its queue and owner from its first event on, and ends at the latest
when the next one begins. A Workload that was made again twice under its name is three, also where a list had shown the
second one before it said that the first one was gone. What admission rests on where this service reserves quota,
ClusterQueues, Cohorts, LocalQueues and ResourceFlavors, is among the configuration that changed, by the fields of its
spec. Who held quota is told in a tenth of the time of a Workload that got and lost some many times. A copy that was made
for another management cluster, and has the name of a Workload here, is none of this Workload's: it is no run of it, and
waits for nothing, and its timeline says whose it is.

It replaces views by ones with the same columns; the version before goes on with the new schema.

Revision ID: 0028
Revises: 0027
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

HERE = Path(__file__).parent
LAST_SEEN = (
    "substr(max(lpad(m.position::text, 20, '0') || {}) FILTER (WHERE m.type = 'WorkloadObserved')\n"
    "                   OVER (PARTITION BY m.life ORDER BY m.position), 21)"
)
QUEUE = "coalesce(m.d ->> 'queue_name', '')"
OWNER = "(m.d -> 'owner' ->> 'kind') || '/' || (m.d -> 'owner' ->> 'name')"
FIRST = "(array_agg(n.{0} ORDER BY n.position) FILTER (WHERE n.{0} IS NOT NULL))[1]"
PLACEMENTS = (
    *(
        (
            f"           {FIRST.format(name)} AS {name},",
            f"           coalesce({FIRST.format(name)}, (array_agg(n.{name}_before ORDER BY n.position))[1]) AS {name},",
        )
        for name in ("queue", "owner")
    ),
    (
        f"               CASE WHEN m.type = 'WorkloadObserved' THEN {OWNER} END AS owner\n",
        (
            f"               CASE WHEN m.type = 'WorkloadObserved' THEN {OWNER} END AS owner,\n"
            f"               {LAST_SEEN.format(QUEUE)} AS queue_before,\n"
            f"               {LAST_SEEN.format(OWNER)} AS owner_before\n"
        ),
    ),
    (
        "least(min(n.replaced_at), ",
        (
            "least(min(n.replaced_at),\n                 "
            "lead(min(n.recorded_at) FILTER (WHERE n.begins)) OVER (PARTITION BY n.life ORDER BY n.tried),\n                 "
        ),
    ),
)
SAID = {
    "VIEW audit.config_changes": (
        "What changed of MultiKueueConfigs, MultiKueueClusters, AdmissionChecks, ClusterQueues, Cohorts, LocalQueues and"
        " ResourceFlavors: one row a field."
    ),
    "COLUMN audit.config_changes.field": "The field, by its name in the event; of what this service decides about quota on, spec.NAME.",
}
# What is kept of Workloads that are over.
KEPT = """
UPDATE read_models.placements k SET until = n.at
FROM (
    SELECT p.log, p.namespace, p.name, p.submitted_at, p.attempt,
           lead(p.offered_at) OVER (PARTITION BY p.log, p.namespace, p.name, p.submitted_at ORDER BY p.attempt) AS at
    FROM read_models.placements p
) n
WHERE k.until IS NULL AND n.at IS NOT NULL
  AND (k.log, k.namespace, k.name, k.submitted_at, k.attempt) = (n.log, n.namespace, n.name, n.submitted_at, n.attempt)
"""
# Whether an object takes the place of another one is asked without the ends that are left out, in views as PostgreSQL prints them.
VIEWS = (
    "read_models.live_placements", "read_models.live_workload_phases", "read_models.phase_intervals",
    "read_models.live_dispatched_runs", "read_models.live_pending_reasons", "audit.pending_reasons",
)  # fmt: skip
BEFORE = re.compile(r"(\w+)\.replaces(\n\s+FROM \( SELECT o(?:_\d+)?\.)")
OVER = r'OVER (PARTITION BY \1.object ORDER BY \1."position")'
SINCE = (
    rf"((\1.type = 'WorkloadObserved'::text) AND COALESCE(((lag(\1.type) {OVER} = 'WorkloadObserved'::text) AND "
    rf"(lag((\1.d ->> 'uid'::text)) {OVER} <> (\1.d ->> 'uid'::text))), false)) AS replaces\2"
)
AFTER = re.compile(
    r"\(\((\w+)\.type = 'WorkloadObserved'::text\) AND COALESCE\(.*\) AS replaces(\n\s+FROM \( SELECT o(?:_\d+)?\.)"
)
# What was made for another management cluster is none of a Workload's objects.
THEIRS = re.compile(r"(OFFSET 0\) (e(?:_\d+)?)\n)(\s+)(OFFSET 0\) o(?:_\d+)?\n\s+WINDOW)")
OURS = r"\1\3WHERE (COALESCE((\2.d ->> 'made_for'::text), ''::text) = ''::text)\n\3\4"
ANYBODYS = re.compile(
    r"\s+WHERE \(COALESCE\(\(e(?:_\d+)?\.d ->> 'made_for'::text\), ''::text\) = ''::text\)(\n\s+OFFSET 0\) o)"
)
WHOSE = ", made for another management cluster"
TIMELINE = tuple(
    (
        f"THEN '{copy} ' || f.{told}\n",
        f"THEN '{copy} ' || f.{told} || CASE WHEN h.d ->> 'made_for' <> '' THEN '{WHOSE}' ELSE '' END\n",
    )
    for copy, told in (("copy", "face"), ("job''s copy", "activity"))
)


def upgrade() -> None:
    earlier, text = _earlier()
    view = earlier["_told"](earlier["_placements"](text), *earlier["PLACEMENTS"])
    for old, new in PLACEMENTS:
        view = earlier["_replaced"](view, old, new)
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_placements AS {view}")
    op.execute(KEPT)
    for view in ("config_changes", "quota_usage"):
        op.execute((HERE / "sql" / f"0028_{view}.sql").read_text())
    for what, said in SAID.items():
        _comment(what, said)
    for name in VIEWS:
        _print_anew(name, BEFORE, SINCE)
        _print_anew(name, THEIRS, OURS)
    op.execute(_timeline(*TIMELINE))


def downgrade() -> None:
    op.execute(_config_before())
    op.execute((HERE / "sql" / "0027_quota_usage.sql").read_text())
    view, own = runpy.run_path(str(HERE / "0009_audit.py"))["VIEWS"]["config_changes"]
    _comment("VIEW audit.config_changes", view)
    _comment("COLUMN audit.config_changes.field", own["field"])
    op.execute(_timeline())
    earlier, text = _earlier()
    for name in VIEWS:
        _print_anew(name, ANYBODYS, r"\1")
        _print_anew(name, AFTER, r"\1.replaces\2")
    view = earlier["_told"](earlier["_placements"](text), *earlier["PLACEMENTS"])
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_placements AS {view}")


def _config_before() -> str:
    """Return the view of what was configured as 0027 makes it."""
    before = runpy.run_path(str(HERE / "0027_computed_views.py"))
    view: str = before["_changed"](before["_view"]("0014_managers.sql", "config_changes"), *before["CONFIG"])
    return view


def _timeline(*changes: tuple[str, str]) -> str:
    """Return the view of timelines as 0027 makes it, with some changes."""
    before = runpy.run_path(str(HERE / "0027_computed_views.py"))
    view: str = before["_changed"](before["_view"]("0002_audit.sql", "workload_timeline"), before["TIMELINE"], *changes)
    return view


def _comment(what: str, said: str) -> None:
    op.execute(f"COMMENT ON {what} IS '{said}'")


def _earlier() -> tuple[dict[str, Any], str]:
    """Return what 0023 made views of, and the text that they come from."""
    return runpy.run_path(str(HERE / "0023_absences.py")), (HERE / "sql" / "0009_workloads.sql").read_text()


def _print_anew(view: str, old: re.Pattern[str], new: str) -> None:
    text = op.get_bind().exec_driver_sql(f"SELECT pg_get_viewdef('{view}'::regclass)").scalar_one()
    text, found = old.subn(new, text)
    assert found == 1, (view, text)
    op.execute(f"CREATE OR REPLACE VIEW {view} AS {text}")
