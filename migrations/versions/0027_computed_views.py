"""SQL for people: what the views of quota, configuration, settings, actors and clusters say is what the events say.

Who held quota is known through a change of `quota.mode`, both ways: the ledger counts as long as somebody keeps it. A
LocalQueue has its namespace, and a ClusterQueue that two controllers look at is told of once. A character that `jsonb`
cannot hold breaks none of them. What is not in an event because it is its default, such as that none of the others
answered, is told. The settings that have come since are among those in force. A copy that was asked for and is not there
has its words in the timeline.

It replaces views by ones with the same columns, and some more; the version before goes on with the new schema.

Revision ID: 0027
Revises: 0026
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

HERE = Path(__file__).parent
SQL = HERE / "sql"
NO_NUL = "replace({}::text, '\\u0000', '\\ufffd')::jsonb"
# A cluster that stands by was not connected.
CONNECTIVITY = (
    "first_value(k.d ->> 'incarnation')",
    "first_value(CASE WHEN k.type = 'ClusterConnected' THEN k.d ->> 'incarnation' END)",
)
LABELS = (
    ("e.data #>> '{kept,template}', e.data ->> 'template'", "e.d #>> '{kept,template}', e.d ->> 'template'"),
    (
        "FROM controlplane.events e\n",
        f"FROM (SELECT e.*, {NO_NUL.format('e.data')} AS d FROM controlplane.events e) e\n",
    ),
    (
        "replace((b.body -> 'labels')::text, '\\u0000', '\\ufffd')::jsonb AS labels",
        f"nullif({NO_NUL.format('b.body')} -> 'labels', 'null') AS labels",
    ),
)
ABSENCES = (
    ("f.data ->> 'by'", f"{NO_NUL.format('f.data')} ->> 'by'"),
    (
        "(d.d ->> 'others_connected')::int AS others_connected",
        "coalesce((d.d ->> 'others_connected')::int, CASE WHEN d.d ->> 'others' IS NOT NULL THEN 0 END) AS others_connected",
    ),
)
RESERVATIONS = ("(n.said ->> 'score')::bigint AS score", "coalesce((n.said ->> 'score')::bigint, 0) AS score")
# one that is seen to be without its pod was bound
CANDIDATES = (
    ("'DelegateStatus')) AS answered_at", "'DelegateStatus', 'DelegateMissing')) AS answered_at"),
    ("'DelegateStatus')) AS bound_at", "'DelegateStatus', 'DelegateMissing')) AS bound_at"),
)
ACTORS = (
    ("'ServiceStopped', 'LogWentBack',", "'ServiceStopped', 'LeadRequested', 'LogWentBack',"),
    ("c.controller, c.type, c.cluster, substring(", "c.controller, c.type, nullif(c.cluster, ''), substring("),
    # another object of the name names its manager itself
    (
        "n.controller IS DISTINCT FROM lag(n.controller) OVER (ORDER BY n.position) AS turns",
        "(n.controller, n.uid) IS DISTINCT FROM lag((n.controller, n.uid)) OVER (ORDER BY n.position) AS turns",
    ),
    ("'') AS controller\n", "'') AS controller, e.d ->> 'uid' AS uid\n"),
)
POLICY = (
    "       p.position\nFROM",
    (
        "       p.position, coalesce(p.d ->> 'own_only', 'false') = 'true' AS own_only,\n"
        "       coalesce(p.d ->> 'quota_automation', 'false') = 'true' AS quota_automation,\n"
        "       coalesce(p.d ->> 'cluster_profiles', 'false') = 'true' AS cluster_profiles,\n"
        "       ARRAY(SELECT jsonb_array_elements_text(p.d -> 'access_providers')) AS access_providers,\n"
        "       coalesce(p.d -> 'quota', '{}') AS quota\nFROM"
    ),
)
CONFIG = (
    ("FROM controlplane.events e\n", "FROM read_models.told e\n"),
    ("e.data ->> 'manager' AS manager", f"{NO_NUL.format('e.data')} ->> 'manager' AS manager"),
    (
        "nullif(c.manager, '') AS changed_by",
        (
            "nullif(c.manager, '') AS changed_by,\n"
            "       CASE WHEN s.stream LIKE 'localqueue/%' THEN substring(s.stream FROM '/([^/]+)/[^/]+$') END AS namespace"
        ),
    ),
    # what two controllers see of a ClusterQueue is told of once
    (
        "WHERE s.stream LIKE 'multikueueconfig/%'",
        (
            "WHERE NOT (s.stream LIKE 'quota/queue/%' AND f.field IN ('deleting', 'checks') AND EXISTS (\n"
            "          SELECT FROM controlplane.events o\n"
            "          WHERE o.log = s.log AND o.stream = 'clusterqueue/' || substring(s.stream FROM '/([^/]+)$')\n"
            f"            AND o.type = 'ClusterQueueObserved' AND (f.field = 'deleting' OR {NO_NUL.format('o.data')} ? 'checks')))\n"
            "  AND (s.stream LIKE 'multikueueconfig/%'"
        ),
    ),
    ("s.stream LIKE 'quota/queue/%';\n", "s.stream LIKE 'quota/queue/%');\n"),
)
TIMELINE = (
    "WHEN 'CloneGone' THEN 'copy is gone'\n",
    (
        "WHEN 'CloneGone' THEN 'copy is gone'\n"
        "                   WHEN 'CloneAbsent' THEN 'copy was asked for by its name, and is not there'\n"
    ),
)
SAID = {
    "actors.role": (
        "operator (a person gave it as --by), replica (a process of the service led, asked for the lead, or saw it), or controller (a"
        " job or an AdmissionCheck names it as its manager, when it is first seen or names another one)."
    ),
    "cluster_absences.others_connected": "How many of them answered; null if others is.",
    "outages.others_connected": "How many of them answered; null if others is.",
    "config_changes.namespace": "The namespace of a LocalQueue; null for the others, which have none.",
    "policy_in_force.own_only": "Whether only the Workloads of our own queues are recorded.",
    "policy_in_force.quota_automation": "Whether the quota of ClusterQueues follows that of the workers.",
    "policy_in_force.cluster_profiles": "Whether ClusterProfiles are followed.",
    "policy_in_force.access_providers": "The names of the commands that log in to the clusters of ClusterProfiles.",
    "policy_in_force.quota": "The section quota of the settings where this service reserves quota; empty where Kueue does.",
}
ROLES = "controlplane_reader, controlplane_service"


def upgrade() -> None:
    op.execute(_changed(_connectivity(), CONNECTIVITY))
    op.execute(_changed(_view("0018_job_labels.sql", "job_labels"), *LABELS))
    op.execute(_changed(_view("0023_absences.sql", "cluster_absences"), *ABSENCES))
    op.execute(_changed(_view("0017_reservations.sql", "reservations"), RESERVATIONS))
    op.execute(_changed(_view("0025_candidates.sql", "candidates"), *CANDIDATES))
    op.execute(_changed(_view("0010_actors.sql", "actors"), *ACTORS))
    op.execute(_changed(_view("0009_fleet.sql", "policy_in_force"), POLICY))
    op.execute(_changed(_view("0014_managers.sql", "config_changes"), *CONFIG))
    op.execute(_changed(_view("0002_audit.sql", "workload_timeline"), TIMELINE))
    op.execute((SQL / "0027_quota_usage.sql").read_text())
    for column, said in SAID.items():
        _comment(f"COLUMN audit.{column}", said)


def downgrade() -> None:
    op.execute(_view("0002_audit.sql", "workload_timeline"))
    op.execute(_connectivity())
    op.execute(_view("0018_job_labels.sql", "job_labels"))
    op.execute(_view("0023_absences.sql", "cluster_absences"))
    op.execute(_view("0017_reservations.sql", "reservations"))
    op.execute(_view("0025_candidates.sql", "candidates"))
    op.execute(_view("0010_actors.sql", "actors"))
    op.execute("DROP VIEW audit.policy_in_force, audit.config_changes")
    op.execute(_view("0009_fleet.sql", "policy_in_force"))
    op.execute(_changed(_view("0014_managers.sql", "config_changes"), CONFIG[0]))
    op.execute(f"GRANT SELECT ON audit.policy_in_force, audit.config_changes TO {ROLES}")
    _say_again()
    runpy.run_path(str(HERE / "0022_local_runs.py"))["_quota"]()
    runpy.run_path(str(HERE / "0023_absences.py"))["_read"]("quota_usage", "read_models.told")


def _say_again() -> None:
    """Comment as the migrations before did: on the two views that are made from nothing, and on what else says more."""
    first: dict[str, Any] = runpy.run_path(str(HERE / "0009_audit.py"))
    changed_by = {"changed_by": runpy.run_path(str(HERE / "0014_managers.py"))["SAID"]}
    for view in ("policy_in_force", "config_changes"):
        said, own = first["VIEWS"][view]
        _comment(f"VIEW audit.{view}", said)
        columns = op.get_bind().exec_driver_sql(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0", (f"audit.{view}",)
        )
        for (column,) in columns.fetchall():
            _comment(f"COLUMN audit.{view}.{column}", (first["COMMON"] | own | changed_by)[column])
    _comment("COLUMN audit.actors.role", runpy.run_path(str(HERE / "0010_actors.py"))["VIEWS"]["actors"][1]["role"])
    for view in ("cluster_absences", "outages"):
        _comment(f"COLUMN audit.{view}.others_connected", first["VIEWS"][view][1]["others_connected"])


def _comment(what: str, said: str) -> None:
    quoted = said.replace("'", "''")
    op.execute(f"COMMENT ON {what} IS '{quoted}'")


def _connectivity() -> str:
    before = runpy.run_path(str(HERE / "0007_standby.py"))
    return _changed(before["_view"](), *before["STANDBY"])


def _view(file: str, view: str) -> str:
    """Return the statement that makes a view, of the migration that made it so."""
    text = (SQL / file).read_text()
    begin = text.index(f"VIEW audit.{view} AS\n")
    return f"CREATE OR REPLACE {text[begin : text.index(';', begin)]};\n"


def _changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
