"""SQL for people: a group of pods is told of by the pod by which it is known, also where that pod is another one from now
on while others run: its run goes on as that of the next pod, and the one of the pod before has its end. A pod that only
its finalizers keep does not run. A Workload is Running whose job ran before its cluster was chosen, and one whose name of
a cluster was taken away stays there.

It replaces views by ones with the same columns; the version before goes on with the new schema. What the read models keep
of Workloads that are told otherwise is taken away, as far as their events are in the database.

Revision ID: 0026
Revises: 0025
"""

from __future__ import annotations

import runpy
from pathlib import Path

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

HERE = Path(__file__).parent
SQL = HERE / "sql"
# Of a pod that is being deleted: what keeps it, where nothing else does.
FINALIZERS = "AND coalesce(b.d ->> 'kind' <> 'pods' OR b.d -> 'finalizers' IN ('[]', 'null'), true) AS runs,"
OBSERVED = "'WorkloadObserved', 'WorkloadGone', 'NominationDecided', 'AttemptBegun', {}"


def upgrade() -> None:
    op.execute((SQL / "0026_first_pod.sql").read_text())
    views = _views()
    parts = [part.rstrip("\n") for part in (SQL / "0026_parts.sql").read_text().split("-- next --\n")[1:]]
    known, firsts, phases, begin, end = parts
    views["live_workload_phases"] = _phases(views["live_workload_phases"], known + firsts, phases)
    views["phase_intervals"] = _phases(views["phase_intervals"], known + firsts, phases)
    views["live_dispatched_runs"] = _runs(views["live_dispatched_runs"], known + firsts, begin, end)
    views["live_effects"] = _effects(views["live_effects"], known)
    _put(views)
    op.execute((SQL / "0025_kept.sql").read_text())


def downgrade() -> None:
    _put(_views())
    op.execute("DROP AGGREGATE read_models.first_pod(jsonb, jsonb)")
    op.execute("DROP FUNCTION read_models.known_by(jsonb, jsonb, jsonb), read_models.copies(jsonb)")


def _put(views: dict[str, str]) -> None:
    for view, text in views.items():
        op.execute(f"CREATE OR REPLACE VIEW read_models.{view} AS {text}")


def _views() -> dict[str, str]:
    """Return the views as the migration before makes them."""
    made: dict[str, str] = runpy.run_path(str(HERE / "0025_own_objects.py"))["_views"]()
    return made


def _phases(view: str, known: str, block: str) -> str:
    view = _swapped(view, "SELECT c.*, first_value(c.runs)", "                        SELECT a.position, a.at,", block)
    return _told(
        view,
        (OBSERVED.format("'WinnerChosen'"), OBSERVED.format("'GroupPodChosen', 'WinnerChosen'")),
        ("SELECT x.*, count(x.face)", f"SELECT x.*, {known.replace('@', 'x')}, count(x.face)"),
        (
            "THEN '' END AS chosen,",
            (
                "THEN '' END AS chosen,\n"
                "                                       -- a Workload whose name of a cluster is taken away stays there\n"
                "                                       CASE WHEN k.face ->> 'phase' <> 'Admitted' THEN ''\n"
                "                                            ELSE nullif(k.face ->> 'cluster', '') END AS named,"
            ),
        ),
        ("count(x.chosen) OVER w AS choices,", "count(x.chosen) OVER w AS choices, count(x.named) OVER w AS names,"),
        (
            "(PARTITION BY a.choices ORDER BY a.position) AS winner,",
            (
                f"(PARTITION BY a.choices ORDER BY a.position) AS winner,\n{31 * ' '}"
                "first_value(a.named) OVER (PARTITION BY a.names ORDER BY a.position) AS named,"
            ),
        ),
        ("a.runs, a.uid, a.pod,", "a.runs, a.pod, a.known, a.firsts,"),
        ("e.d ->> 'uid' AS uid, CASE WHEN e.d ->> 'kind' = 'pods'", "CASE WHEN e.d ->> 'kind' = 'pods'"),
        ("                    ) o) o) b\n                ) c\n", "                    ) b\n"),
        ("f.job_runs AND f.job_cluster = f.here", "f.job_runs"),
    )


def _runs(view: str, known: str, begin: str, end: str) -> str:
    view = _swapped(view, "SELECT d.*, bool_or(d.is_job)", "                    SELECT b.position, b.at,", f"{begin}\n")
    view = _swapped(view, "first_value(b.d -> 'owner' ->> 'name')", ", false) AS is_job", "(b.known ->> 'name')")
    return _told(
        view,
        (OBSERVED.format("'WinnerReleased'"), OBSERVED.format("'GroupPodChosen', 'WinnerReleased'")),
        ("SELECT a.*, count(*)", f"SELECT a.*, {known.replace('@', 'a')}, count(*)"),
        ("'true') AS runs,", f"'true') {FINALIZERS}"),
        (
            "b.d ->> 'name' AS job_name, b.life,",
            (
                "b.d ->> 'name' AS job_name, b.life, b.firsts, b.known ->> 'name' AS first,\n"
                "                           b.type IN ('RemoteJobObserved', 'RemoteJobGone') AND b.d ->> 'kind' = 'pods' AS pod,"
            ),
        ),
        (") d) c\n                WHERE c.is_job OR c.type = 'RemoteJobGone' AND c.was_job\n", f"{end}\n"),
    )


def _effects(view: str, known: str) -> str:
    view = _swapped(view, "first_value(v.owner_now)", ", o.job), false) AS own", "v.known ->> 'name'")
    view = _swapped(
        view,
        "CASE WHEN u.type = 'WorkloadObserved' THEN u.d",
        "\n                        FROM (\n",
        known.replace("@", "u"),
    )
    chosen = "f.stream = s.stream AND f.type {}) p"
    return _told(
        view, (chosen.format("= 'WorkloadObserved'"), chosen.format("IN ('WorkloadObserved', 'GroupPodChosen')"))
    )


def _swapped(text: str, begin: str, end: str, new: str) -> str:
    """Return a text with another one from the only place that begins so up to the next one that begins as `end`."""
    assert text.count(begin) == 1, begin
    at = text.index(begin)
    return text[:at] + new + text[text.index(end, at) :]


def _told(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
