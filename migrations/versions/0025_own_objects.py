"""SQL for people: what is told of a Workload is told by its own objects. Of a group of pods the first one says whether it
runs, not the one that was seen last; a write about what several Workloads share, or about a pod that was the first one
before, has its end; a slice of an elastic job runs until its job is seen to be that of the next one, and is not admitted
by the cluster's name alone; a candidate that was made again is there.

It replaces views by ones with the same columns; the version before goes on with the new schema. What the read models keep
of Workloads that are told otherwise is taken away, as far as their events are in the database.

Revision ID: 0025
Revises: 0024
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

HERE = Path(__file__).parent
SQL = HERE / "sql"
# A Workload takes the name of its cluster from the slice before it, while its own check still waits.
ADMITTED = (
    "WHEN h.admitted OR e.d ->> 'cluster_name' <> '' THEN 'Admitted'",
    "WHEN h.admitted OR e.d ->> 'cluster_name' <> '' AND e.d @? '$.checks[*] ? (@.state == \"Ready\")' THEN 'Admitted'",
)
PHASES = (
    ADMITTED,
    (
        "coalesce(e.d ->> 'suspended', 'false') = 'false' AS runs",
        (
            "coalesce(e.d ->> 'suspended', 'false') = 'false' AS runs,\n"
            "                                       e.d ->> 'uid' AS uid, CASE WHEN e.d ->> 'kind' = 'pods' THEN e.d ->> 'name' END AS pod"
        ),
    ),
    (
        "SELECT a.position, a.at, a.type, a.cluster, a.runs,",
        "SELECT a.position, a.at, a.type, a.cluster, a.runs, a.uid, a.pod,",
    ),
    ("count(*) FILTER (WHERE b.type LIKE 'RemoteJob%'\n", "count(*) FILTER (WHERE b.mine\n"),
    (
        "                    FROM (\n                        SELECT a.position, a.at,",
        (
            "                    FROM (SELECT o.*, o.type LIKE 'RemoteJob%' AND (o.first OR o.type = 'RemoteJobGone'\n"
            "                              AND bool_or(o.first AND o.type = 'RemoteJobObserved')\n"
            "                                  OVER (PARTITION BY o.cluster, o.uid ORDER BY o.position)) AS mine\n"
            "                    FROM (SELECT o.*, coalesce('Pod/' || o.pod = o.face ->> 'owner', true) AS first FROM (\n"
            "                        SELECT a.position, a.at,"
        ),
    ),
    (
        "                        ) a\n                    ) b\n",
        "                        ) a\n                    ) o) o) b\n",
    ),
)
RUNS = (
    # a pod that was the first of its group when it was seen ends, whoever is the first now
    (
        "FROM (\n                    SELECT b.position, b.at, b.type, b.cluster, b.d ->> 'uid' AS job_uid,",
        (
            "FROM (SELECT d.*, bool_or(d.is_job) OVER (PARTITION BY d.cluster, d.job_uid ORDER BY d.position) AS was_job FROM (\n"
            "                    SELECT b.position, b.at, b.type, b.cluster, b.d ->> 'uid' AS job_uid,"
        ),
    ),
    (
        "                ) c\n                WHERE c.is_job",
        "                ) d) c\n                WHERE c.is_job OR c.type = 'RemoteJobGone' AND c.was_job",
    ),
    (
        "min(CASE WHEN b.finish = 'WorkloadSliceReplaced' THEN b.position END) OVER (PARTITION BY b.life) AS replaced,",
        (
            "min(CASE WHEN b.finish = 'WorkloadSliceReplaced' THEN b.position END) OVER (PARTITION BY b.life) AS replaced,\n"
            "                           coalesce(bool_or(b.d ->> 'elastic' = 'true' OR b.finish = 'WorkloadSliceReplaced')\n"
            "                                    OVER (PARTITION BY b.life), false) AS elastic,"
        ),
    ),
    ("coalesce(lead(t.position) OVER w, t.replaced) AS next_position,", "lead(t.position) OVER w AS own_position,"),
    ("coalesce(lead(t.at) OVER w, t.replaced_at) AS next_at,", "lead(t.at) OVER w AS own_at,"),
    (
        "coalesce(lead(t.finished) OVER w, t.replaced IS NOT NULL) AS next_finished,",
        "lead(t.finished) OVER w AS own_finished,",
    ),
    (
        "               CASE WHEN j.next_at IS NULL THEN NULL\n",
        "               CASE WHEN j.next_at IS NULL THEN NULL\n                    WHEN j.moved THEN 'WorkloadSliceReplaced'\n",
    ),
    (
        "        FROM (\n            SELECT t.*, lead(t.position)",
        "        FROM (@MOVED@\n            SELECT t.*, lead(t.position)",
    ),
    ("        ) j\n", "        ) k@WHITHER@) j\n"),
)
EFFECTS = (
    (
        "    SELECT replace(o.data::text, '\\u0000', '\\ufffd')::jsonb -> 'owner' ->> 'name' AS job\n",
        (
            "    SELECT replace(o.data::text, '\\u0000', '\\ufffd')::jsonb -> 'owner' ->> 'name' AS job,\n"
            "           replace(o.data::text, '\\u0000', '\\ufffd')::jsonb -> 'owner' ->> 'kind' AS kind\n"
        ),
    ),
    (
        f"FROM (\n{28 * ' '}SELECT e.position, e.recorded_at AS at, e.type, e.cluster, e.reason,\n",
        f"FROM (@OWN@\n{28 * ' '}SELECT e.position, e.recorded_at AS at, e.type, e.cluster, e.reason, e.caused_by,\n",
    ),
    (
        "SELECT e.position, e.recorded_at, e.type, e.cluster, e.reason, replace(",
        "SELECT e.position, e.recorded_at, e.type, e.cluster, e.reason, e.caused_by, replace(",
    ),
    (
        "substring(j.stream FROM '/([^/]+)$') = o.job\n                        ) q\n",
        "substring(j.stream FROM '/([^/]+)$') = o.job\n@OTHERS@\n@OWN_END@\n",
    ),
    (
        "AND NOT coalesce(q.d ->> 'kind' = 'pods' AND q.d ->> 'name' <> o.job, false)\n",
        "AND (q.own OR q.type IN ('RemoteJobGone', 'JobGone') AND q.was_own)\n",
    ),
    # whose finalizers go
    ("IN ('RemovalDecided', 'SpecUpdateDecided',", "IN ('RemovalDecided', 'FinalizerRemovalDecided', 'SpecUpdateDecided',"),
    (
        "'RemovalDecided', 'FinalizerRemovalDecided',\n",
        "'RemovalDecided', 'FinalizerRemovalDecided', 'FinalizerAdditionDecided',\n",
    ),
    # the late outcome of a write says nothing of the one that has taken its place
    ("z.reason, z.target, z.closes,\n", "z.reason, z.target, z.closes, z.caused_by,\n"),
    (
        "                SELECT y.*, coalesce(max(y.tried) OVER",
        (
            "                SELECT y.*, y.type IN ('EffectFailed', 'EffectUnneeded') AND coalesce(y.caused_by, 0) NOT IN (0, coalesce(\n"
            "                           max(CASE WHEN y.action IS NOT NULL THEN y.position END)\n"
            "                               OVER (PARTITION BY y.target ORDER BY y.position), 0)) AS late,\n"
            "                       coalesce(max(y.tried) OVER"
        ),
    ),
    ("CASE WHEN t.closes AND NOT t.stays THEN", "CASE WHEN t.closes AND NOT t.late AND NOT t.stays THEN"),
    ("ELSE min(CASE WHEN t.closes THEN t.position END)", "ELSE min(CASE WHEN t.closes AND NOT t.late THEN t.position END)"),
    # one cluster at a time may preempt, and none once there is a choice
    (
        "z.type IN ('ClusterRefused', 'WinnerReleased') AS ends_cluster,\n",
        ("z.type IN ('ClusterRefused', 'WinnerReleased') AS ends_cluster,\n"
        "                           z.type IN ('GateOpeningDecided', 'WinnerChosen') AS ends_opening,\n"),
    ),
    (
        "least(min(CASE WHEN t.ends_all THEN t.position END) OVER after,\n",
        (
            "least(min(CASE WHEN t.ends_all THEN t.position END) OVER after,\n"
            "                             CASE WHEN t.action = 'GateOpeningDecided' THEN\n"
            "                                 min(CASE WHEN t.ends_opening THEN t.position END) OVER after END,\n"
        ),
    ),
)  # fmt: skip


def upgrade() -> None:
    for view, made in _views().items():
        op.execute(f"CREATE OR REPLACE VIEW read_models.{view} AS {made}")
    op.execute((SQL / "0025_candidates.sql").read_text())
    op.execute((SQL / "0025_kept.sql").read_text())


def _views() -> dict[str, str]:
    """Return the views that this makes anew; those of phases are that of `audit`, and the one with where each ends."""
    before = runpy.run_path(str(HERE / "0023_absences.py"))
    text = (SQL / "0009_workloads.sql").read_text()
    view, told = before["_earlier"]()["_view"], before["_told"]
    phases, changes = view(text, "workload_phases"), (*before["PHASES"], *PHASES)
    parts = (SQL / "0025_parts.sql").read_text().split("-- next --\n")
    moved, whither, own, own_end, others = (part.rstrip("\n") for part in parts[1:])
    runs = told(view(text, "runs"), *before["RUNS"], *RUNS).replace("@MOVED@", moved).replace("@WHITHER@", whither)
    effects = view(text, "effects")
    for old, new in EFFECTS:
        effects = before["_replaced"](effects, old, new)
    return {
        "live_workload_phases": told(phases, *changes),
        "phase_intervals": told(phases, *changes, *before["INTERVALS"]),
        "live_dispatched_runs": runs,
        "live_effects": effects.replace("@OWN@", own).replace("@OTHERS@", others).replace("@OWN_END@", own_end),
    }


def downgrade() -> None:
    before = runpy.run_path(str(HERE / "0023_absences.py"))
    text = (SQL / "0009_workloads.sql").read_text()
    view, told = before["_earlier"]()["_view"], before["_told"]
    _phases(before, before["PHASES"])
    op.execute(
        f"CREATE OR REPLACE VIEW read_models.live_dispatched_runs AS {told(view(text, 'runs'), *before['RUNS'])}"
    )
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_effects AS {view(text, 'effects')}")
    actors = (SQL / "0010_actors.sql").read_text()
    begin = actors.index("CREATE VIEW audit.candidates")
    op.execute(actors[begin : actors.index(";\n", begin)].replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1))


def _phases(before: dict[str, Any], changes: tuple[tuple[str, str], ...]) -> None:
    """Make the two views of phases: that of `audit`, and the one with where each phase ends."""
    phases = before["_earlier"]()["_view"]((SQL / "0009_workloads.sql").read_text(), "workload_phases")
    told = before["_told"]
    op.execute(f"CREATE OR REPLACE VIEW read_models.live_workload_phases AS {told(phases, *changes)}")
    intervals = told(phases, *changes, *before["INTERVALS"])
    op.execute(f"CREATE OR REPLACE VIEW read_models.phase_intervals AS {intervals}")
