"""Is everything settled? What must have happened an hour after the last trouble, and what may no longer be there.

In: the environment and the log's state. Out: the first thing that is left to do, in words; "" when nothing is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.connectivity.events import MANAGEMENT as HOME
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.dst.engine.steps import UNFIT
from controlplane.dst.scenes.workloads.environment import WorkloadEnvironment, place_of
from controlplane.dst.scenes.workloads.kinds import ADAPTERS, served_in
from controlplane.dst.scenes.workloads.oddities import odd, planted
from controlplane.job_kinds.pod import GROUP
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import WORKLOADS, Json, Kind
from controlplane.kube.kueue_names import ORIGIN_LABEL
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.apiserver.store import Store


def unfinished(
    environment: WorkloadEnvironment,
    index: WorkloadIndex,
    submitted: Mapping[str, Kind],
    deleted: Collection[str],
    planted: Mapping[str, str],
    made: Collection[str],
) -> str:
    """Return what is not settled yet; `made`: all jobs that there ever were."""
    return _jobs(environment, submitted, deleted, made) or _workers(environment, planted) or _log(environment, index)


def has_end(index: WorkloadIndex, stream: str) -> bool:
    """Whether the log has the end of a Workload's job."""
    state = index.workloads.get(stream)
    seen = [remote.job for remote in state.remotes.values()] if state is not None else []
    return state is not None and bool(state.ended or any(job is not None and job.finished for job in seen))


def _jobs(
    environment: WorkloadEnvironment, submitted: Mapping[str, Kind], deleted: Collection[str], made: Collection[str]
) -> str:
    """Every job that nobody took back has finished, or is rejected, and its Workload with it; what was taken back is
    gone.
    """
    store = environment.management.store
    for name, kind in submitted.items():
        if wrong := _job(store, kind, name, deleted, made):
            return wrong
    for record in store.records(WORKLOADS):
        if _unfit(record):
            checks = (record.obj.get("status") or {}).get("admissionChecks") or ()
            if "Rejected" not in [check["state"] for check in checks]:
                return f"Workload {record.name} is not rejected"
        elif not planted(record) and not is_true(record.obj, "Finished"):
            return f"Workload {record.name} is not finished"
    return _quota(environment, "management")


def _job(store: Store, kind: Kind, name: str, deleted: Collection[str], made: Collection[str]) -> str:
    try:
        job = store.record(kind, "default", name).obj
    except ApiError:
        return "" if name in deleted else f"{name} is gone"
    if name in deleted:
        return f"{name} was deleted and is still there"
    if name.startswith(UNFIT):
        return ""
    outcome = ADAPTERS[kind].outcome(job.get("status") or {})
    succeeded = outcome is not None and outcome.success
    return "" if succeeded or _came_too_late(store, job) or _came_back(store, job, made) else f"{name} has not finished"


def _came_too_late(store: Store, job: Json) -> bool:
    """Whether a pod that never ran took the place of another one of a group that has finished without it: it stays
    gated, as with Kueue."""
    group = str((job["metadata"].get("labels") or {}).get(GROUP) or "")
    waits = (job.get("status") or {}).get("phase", "Pending") == "Pending"
    gated = waits and bool((job.get("spec") or {}).get("schedulingGates")) and "-try-" in job["metadata"]["name"]
    return gated and _has_finished(store, group)


def _came_back(store: Store, job: Json, made: Collection[str]) -> bool:
    """Whether a pod failed, by being deleted, that another took the place of, and that a backup brought back in the
    place of that one: its group has finished with the other."""
    group = str((job["metadata"].get("labels") or {}).get(GROUP) or "")
    name, failed = job["metadata"]["name"], (job.get("status") or {}).get("phase") == "Failed"
    replaced = any(one.startswith(f"{name.partition('-try-')[0]}-try-") and one != name for one in made)
    return failed and replaced and _has_finished(store, group)


def _has_finished(store: Store, group: str) -> bool:
    found = [one for one in store.records(WORKLOADS) if one.name == group]
    return bool(found) and is_true(found[0].obj, "Finished")


def _unfit(record: Record) -> bool:
    """Whether a Workload is of a job that cannot be dispatched."""
    return any(owner["name"].startswith(UNFIT) for owner in record.obj["metadata"].get("ownerReferences") or ())


def _workers(environment: WorkloadEnvironment, planted: Mapping[str, str]) -> str:
    """Nothing of ours is left on any worker, and what is somebody else's is still there."""
    there: set[str] = set()
    for name, place in environment.workers.items():
        for kind in (WORKLOADS, *served_in(place.store)):
            for record in place.store.records(kind):
                if ORIGIN_LABEL in record.labels and not odd(name, record):
                    return f"{kind.kind} {record.name} is still on {name}"
                there.add(record.uid)
        wrong = _quota(environment, name)
        if wrong:
            return wrong
    missing = [name for uid, name in planted.items() if uid not in there]
    return f"somebody else's Job {missing[0]} is gone" if missing else ""


def _quota(environment: WorkloadEnvironment, name: str) -> str:
    for queue, used in environment.places[name].cluster.kueue.queues.quota.used().items():
        if used:
            return f"quota of {queue} on {name} is not back"
    return ""


def _of_a_second_name(target: str) -> bool:
    name = target.partition("/")[0]
    return place_of(name) != name


def _log(environment: WorkloadEnvironment, index: WorkloadIndex) -> str:
    """Every cluster is connected, and no write is open."""
    for name in (HOME, *environment.workers):
        connection = index.connections.get(name)
        if connection is None or not connection.connected:
            return f"{name} is not connected"
        jobs = [adapter.kind for adapter in index.policy.adapters.values()]
        missing = [kind.name for kind in (WORKLOADS, *jobs) if not connection.in_view(kind.name)]
        if missing:
            return f"{missing[0]} of {name} is not in view"
    for stream, state in index.workloads.items():
        # Under a second name that is gone nothing is seen any more, and nothing is written.
        if opened := next((target for target in state.effects if not _of_a_second_name(target)), ""):
            return f"{opened} of {stream} is open"
        if believed := next((name for name in state.remotes if not _of_a_second_name(name)), ""):
            return f"{stream} is believed to be on {believed}"
    return ""
