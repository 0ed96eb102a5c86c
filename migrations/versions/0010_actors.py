"""SQL for people: who held which quota, who did what, and what became of candidates.

Revision ID: 0010
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
COMMON = {
    "log": "The log.",
    "namespace": "The namespace of the object.",
    "name": "The name of the object.",
    "queue": "The LocalQueue that the Workload is in.",
    "owner": "The job that owns the Workload, as KIND/NAME; null if no owner was seen.",
    "cluster": "The cluster; @management is the management cluster.",
    "since": "When the interval began.",
    "until": "When it ended; null if it lasts.",
    "reason": "Why, in one word; empty if nothing was said.",
    "message": "Why, as it was said.",
    "position": "The position of the event that began it.",
    "last_position": "The position of the event that ended it; null if it lasts.",
}
"""What a column is in every view that has it, unless the view says more."""
VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    "quota_usage": (
        "The quota that each Workload held on the management cluster: one row an interval, flavor and resource.",
        {
            "cluster_queue": "The ClusterQueue whose quota it is; null if that was not said.",
            "flavor": "The ResourceFlavor; null where the log does not have the admission's flavors.",
            "resource": "The resource; null if the log does not have what the Workload asks for.",
            "amount": "How much of it, in base units (cores, bytes).",
        },
    ),
    "actors": (
        "Who did something that the log has a name for: operators, replicas of the service, controllers.",
        {
            "role": "operator (a person gave it as --by), replica (a process of the service led, or saw it), or controller (a job or an"
            " AdmissionCheck names it as its manager).",
            "actor": "The name.",
            "action": "What was done: the type of the event.",
            "cluster": "The cluster that it is about; null if it is about none.",
            "namespace": "The namespace of the object; null if it has none.",
            "name": "The name of the object; null if it is about a cluster or the service.",
            "since": "When it was recorded.",
            "stream": "The history that has it.",
            "position": "The position of the event.",
        },
    ),
    "candidates": (
        "Each candidate of a pod that is placed on other clusters: what its target answered, and what became of it.",
        {
            "namespace": "The namespace of the source pod.",
            "name": "The name of the source pod.",
            "cluster": "The target.",
            "epoch": "The attempt to place the pod.",
            "candidate": "The name of the candidate in its target.",
            "outcome": "Bound, or what its target said last: Reserved, Unreserved, Unschedulable, Refused or Waiting; Offered if nothing.",
            "reason": "Why, as the target said it in one word; empty if it is bound.",
            "message": "Why, as the target said it.",
            "node": "The node that was last named.",
            "offered_at": "When it was decided to create it.",
            "answered_at": "When the target first said yes or no.",
            "reserved_at": "When it first held a node.",
            "permitted_at": "When it first got the permit.",
            "permit_reason": "Why it got its last permit; empty if it got none.",
            "permits": "How many permits it got.",
            "bound_at": "When it was first seen bound.",
            "refused_at": "When the target first said no.",
            "dropped_at": "When it was decided to delete it.",
            "dropped_reason": "Why.",
            "gone_at": "When it was seen to be gone.",
            "waiting_seconds": "From the offer to the first answer; null if there was none.",
            "position": "The position of its first event.",
            "last_position": "The position of the event with which it went; null if it is there.",
        },
    ),
}
ROLES = "controlplane_reader, controlplane_service"


def upgrade() -> None:
    op.execute((SQL / "0010_actors.sql").read_text())
    for view, (said, own) in VIEWS.items():
        op.execute(f"COMMENT ON VIEW audit.{view} IS {_quoted(said)}")
        columns = op.get_bind().exec_driver_sql(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0", (f"audit.{view}",)
        )
        for (column,) in columns.fetchall():
            op.execute(f"COMMENT ON COLUMN audit.{view}.{column} IS {_quoted((COMMON | own)[column])}")
        op.execute(f"GRANT SELECT ON audit.{view} TO {ROLES}")


def downgrade() -> None:
    op.execute(f"DROP VIEW {', '.join(f'audit.{view}' for view in VIEWS)}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
