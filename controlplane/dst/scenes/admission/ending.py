"""Has everybody been served? What queues and Workloads of the management cluster must say an hour after the last
trouble.

In: the management cluster, and what the log says of quota and jobs. Out: the first thing that is left to do, in words;
"" when nothing is."""

from __future__ import annotations

from controlplane.controllers.jobframework.controller import JobFrameworkController
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.dst.invariants.admission.quota import holders
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.dst.scenes.workloads.oddities import planted
from controlplane.kube.kinds import LOCAL_QUEUES, WORKLOADS
from controlplane.simulation.apiserver.history import Record

_COUNTS = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")


def _waits_for_ever(record: Record) -> bool:
    """Whether a Workload is one that is rejected, or that nobody can make sense of."""
    checks = (record.obj.get("status") or {}).get("admissionChecks") or ()
    return planted(record) or any(check["state"] == "Rejected" for check in checks)


def _counted(place: ClusterEnvironment) -> str:
    """Return which LocalQueue still counts a Workload that should be over."""
    waiting = {record.obj["spec"]["queueName"] for record in place.store.records(WORKLOADS) if _waits_for_ever(record)}
    for record in place.store.records(LOCAL_QUEUES):
        status = record.obj.get("status") or {}
        for count in _COUNTS:
            if status.get(count) and not (count == "pendingWorkloads" and record.name in waiting):
                return f"LocalQueue {record.name} says {count} {status[count]}"
    return ""


def unserved(place: ClusterEnvironment, admission: AdmissionController, jobs: JobFrameworkController) -> str:
    """Return who still has quota or waits for it, and which write is open."""
    if held := holders(place):
        return f"{next(iter(held))} still has quota"
    if counted := _counted(place):
        return counted
    for stream in (*(f"admission/workload/{key}" for key in admission.index.workloads), *admission.index.objects):
        if admission.open_writes(stream):
            return f"a write of {stream} is open"
    for stream in jobs.index.states:
        if jobs.open_writes(stream):
            return f"a write of {stream} is open"
    return ""
