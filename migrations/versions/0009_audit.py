"""SQL for people: what ran, waited, was lost, written and configured, as intervals; the fleet and its Workloads as they were.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

SQL = Path(__file__).with_name("sql")
COMMON = {
    "log": "The log.",
    "namespace": "The namespace of the Workload.",
    "name": "The name of the Workload.",
    "queue": "The LocalQueue that the Workload is in.",
    "owner": "The job that owns the Workload, as KIND/NAME; null if no owner was seen.",
    "cluster": "The cluster; @management is the management cluster.",
    "attempt": "The number of the attempt to find a cluster: 1 for the first, 0 before it.",
    "since": "When the interval began.",
    "until": "When it ended; null if it lasts.",
    "reason": "Why, in one word; empty if nothing was said.",
    "message": "Why, as it was said.",
    "position": "The position of the event that began it.",
    "last_position": "The position of the event that ended it; null if it lasts.",
    "twice": "For how long another run of the same Workload was seen beside it on another cluster.",
}
"""What a column is in every view that has it, unless the view says more."""
VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    "workload_phases": (
        "How far each Workload had come, as intervals that follow one another.",
        {
            "phase": "Pending (waits for quota), Inactive, Reserved (has quota), Nominated (offered to clusters), Chosen (one was"
            " chosen), Admitted, Running, Retry, Rejected, Evicted, Deleting, Finished or Deleted.",
            "cluster": "The cluster that has it or was chosen; null before.",
        },
    ),
    "runs": (
        "Each time that a Workload's job was seen to run on a cluster: one row an unbroken time.",
        {
            "since": "When it was first seen to run.",
            "until": "When it was seen not to run any more; of one that was lost, when its cluster was; null while it runs.",
            "outcome": "Succeeded, Failed or another reason of Finished; Evicted; Suspended; Removed; Lost (its cluster was lost, and"
            " the Workload was taken from it); null while it runs.",
            "reason": "Why it was evicted, removed or lost; empty if nothing says so.",
            "overlapped": "Whether another run of the same Workload was seen at the same time on another cluster.",
            "overlapped_unseen": "The same, also counting the time in which it was out of view and may have run.",
            "unseen_since": "Since when its cluster was out of view, if it ended out of view or still is.",
            "unseen_until": "When it was seen that it does not run, after that; null if nothing was seen.",
            "given_up_at": "When the Workload was last taken from a lost cluster in this time; null if it was not.",
            "resources": "What it asks for, by resource, in base units (cores, bytes): as the admission says, else as its spec says;"
            " null if the log has neither.",
            "job_uid": "The UID of the job's copy on the cluster.",
        },
    ),
    "pending_reasons": (
        "What each Workload, and each of its copies on a worker, waited for, and why.",
        {
            "cluster": "Where it waited: @management for the Workload itself, else the worker of the copy.",
            "waits_for": "What it waited for.",
        },
    ),
    "usage": (
        "Hours that jobs ran, by day.",
        {
            "namespace": "The namespace of the Workloads.",
            "queue": "Their LocalQueue.",
            "day": "The day, in UTC; a run is cut at midnight.",
            "runs": "How many runs had a part in it.",
            "run_hours": "For how many hours they ran, together.",
            "resource_hours": "The same times what each asks for, by resource; null if the log does not have that.",
        },
    ),
    "effects": (
        "Each write that was decided for MultiKueue, and how it ended.",
        {
            "namespace": "The namespace of the object that the stream is about; null where it has none.",
            "name": "The name of the object that the stream is about.",
            "since": "When it was decided.",
            "until": "When its end was recorded; null while it is open.",
            "action": "What was decided: the type of the event.",
            "target": "The object: its cluster, and which object of the stream.",
            "tries": "Which try it was: one more than it was refused before, one time after the other.",
            "outcome": "done (its object was seen to change), unneeded (nothing was to change), refused (the API server said no),"
            " replaced (another write to the object was decided), withdrawn (it was not wanted any more), open.",
            "seconds": "From the decision to its end.",
            "error": "What the API server said, if it refused; else null.",
        },
    ),
    "cluster_absences": (
        "Each time that a cluster which had been connected was not.",
        {
            "reason": "What began it, in one word.",
            "message": "What began it, as it was said.",
            "others": "How many other clusters there were when it was lost; null if that was not said.",
            "others_connected": "How many of them answered.",
            "forgotten_by": "Who gave it up meanwhile; null if nobody did.",
        },
    ),
    "outage_workloads": (
        "The Workloads whose job ran on a cluster when it was lost, and what became of each.",
        {
            "cluster": "The cluster that was lost.",
            "since": "When it was lost.",
            "until": "When it was connected again; null if it is not.",
            "became": "Requeued (it was taken from the cluster), Kept (it waited for it), or, by what the returning cluster showed,"
            " Finished, Stopped or Gone.",
            "ran_on": "Whether the job was still there, and ran, when the cluster was back.",
            "run_since": "When the run began.",
            "run_until": "When it ended, as in runs.",
            "position": "The position of the event that began the run.",
        },
    ),
    "outages": (
        "Each absence of a cluster, with what became of the Workloads whose jobs ran there.",
        {
            "reason": "What began it, in one word.",
            "message": "What began it, as it was said.",
            "others": "How many other clusters there were when it was lost; null if that was not said.",
            "others_connected": "How many of them answered.",
            "forgotten_by": "Who gave it up meanwhile; null if nobody did.",
            "affected": "How many Workloads ran there.",
            "kept": "How many of them waited for the cluster.",
            "requeued": "How many were taken from it.",
            "ended": "How many had ended when it was back: Finished, Stopped or Gone.",
            "ran_on": "How many jobs still ran there when it was back, whatever became of the Workload.",
            "twice": "For how long jobs were seen to run there and elsewhere, together.",
        },
    ),
    "config_changes": (
        "What changed of MultiKueueConfigs, MultiKueueClusters, AdmissionChecks, ClusterQueues and LocalQueues: one row a field.",
        {
            "kind": "The kind of the object.",
            "name": "The name of the object.",
            "field": "The field, by its name in the event.",
            "old": "Its value before; null if it had its default, or there was no such object.",
            "new": "Its value from then on; null if it has its default, or the object is gone.",
            "change": "Created, Changed or Deleted: what happened to the object.",
            "since": "When it was seen.",
            "until": "When the same field was seen to change again; null if it was not.",
        },
    ),
    "policy_in_force": (
        "The settings that decisions rested on, as intervals.",
        {
            "controllers": "The controllers that ran.",
            "origin": "multikueue.origin.",
            "controller_name": "The name in AdmissionChecks that is ours.",
            "kinds": "The kinds of job that were dispatched.",
            "judged": "The kinds for which clusters were judged.",
            "execution_policy": "The execution policy of whoever asks for none.",
            "worker_lost_timeout": "For how long a lost cluster keeps its Workloads.",
            "gc_interval": "How long a copy without a Workload is left.",
            "status_interval": "How often a status is copied, at most.",
            "readmission_grace": "How long a copy that lost its admission is waited for.",
            "refusal_pause": "How long a cluster that refused is left out.",
            "loser_patience": "How long the copies that did not win are left.",
            "requeues_per_minute": "How many Workloads are taken from lost clusters a minute, at most.",
            "mass_outage_share": "Which share of the clusters has to be away for a mass outage.",
            "dispatcher": "The dispatcher.",
            "step_size": "How many clusters the incremental dispatcher asks at once.",
            "pod_gate": "Which scheduling gate holds pods.",
            "dispatch_round": "How long a round of the dispatcher lasts.",
            "scoring_window": "How far back scores look.",
            "scoring": "The rules of scores.",
            "orchestrated_preemption": "Whether one worker at a time preempts for a Workload.",
        },
    ),
    "placements": (
        "One row for each attempt to find a cluster for a Workload: who was offered it, who got it, and how it ended.",
        {
            "submitted_at": "When the Workload was first seen.",
            "reserved_at": "When it was seen with quota, before it was offered; null if it had none.",
            "since": "When the attempt could begin: it had quota.",
            "until": "When the attempt ended: the Workload finished, was evicted, lost its quota or was deleted; null if it goes on.",
        },
    ),
}
FUNCTIONS = {
    "quantity(text)": "A quantity of Kubernetes (500m, 2Gi) as a number; null for what is none.",
    "causes(text, bigint)": "What an event of a log rests on: itself at depth 0, its cause, the cause of that, across streams.",
    "position_at(text, timestamptz)": "The last position of a log at a time; 0 before its first event.",
    "as_of(text, timestamptz)": "The Workloads of a log as they were at a time.",
    "fleet_at(text, timestamptz)": "The clusters of a log as they were at a time.",
}
ROLES = "controlplane_reader, controlplane_service"


def upgrade() -> None:
    op.execute((SQL / "0009_workloads.sql").read_text())
    op.execute((SQL / "0009_fleet.sql").read_text())
    for view, (said, own) in VIEWS.items():
        if view != "placements":
            op.execute(f"COMMENT ON VIEW audit.{view} IS {_quoted(said)}")
        for column, text in _columns(view, own):
            op.execute(f"COMMENT ON COLUMN audit.{view}.{column} IS {_quoted(text)}")
        op.execute(f"GRANT SELECT ON audit.{view} TO {ROLES}")
    for function, said in FUNCTIONS.items():
        op.execute(f"COMMENT ON FUNCTION audit.{function} IS {_quoted(said)}")
        op.execute(f"REVOKE ALL ON FUNCTION audit.{function} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION audit.{function} TO {ROLES}")


def downgrade() -> None:
    for function in FUNCTIONS:
        if not function.startswith("quantity"):
            op.execute(f"DROP FUNCTION audit.{function}")
    op.execute(f"DROP VIEW {', '.join(f'audit.{view}' for view in VIEWS)}")
    op.execute("DROP FUNCTION audit.quantity(text)")
    text = (SQL / "0002_audit.sql").read_text()
    begin = text.index("CREATE VIEW audit.placements")
    op.execute(text[begin : text.index("-- The phases are those", begin)])
    op.execute(f"GRANT SELECT ON audit.placements TO {ROLES}")


def _columns(view: str, own: dict[str, str]) -> list[tuple[str, str]]:
    """Return the columns of a view that need a comment, with it: those that are common where it has them."""
    found = op.get_bind().exec_driver_sql(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND col_description(attrelid, attnum) IS NULL",
        (f"audit.{view}",),
    )
    return [(name, (COMMON | own)[name]) for (name,) in found]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
