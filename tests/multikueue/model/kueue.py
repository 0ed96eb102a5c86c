"""Kueue and the jobs of the model: what their controllers may do next, each by itself, in any order.

In: a cluster's store. Out: every step that changes it, with what happens. The rules are those of Kueue's core
(kubernetes-sigs/kueue pkg/controller/core/workload_controller.go, pkg/controller/jobframework/reconciler.go,
ff69552e)."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.kube.kinds import Json, meta
from controlplane.kube.kueue_names import RESOURCE_IN_USE
from tests.multikueue.model.world import ADMISSION, CHECK, STAMP, Store

Step = tuple[str, Store]


def condition(obj: Json | None, kind: str) -> bool:
    """Whether a condition is true."""
    listed = (obj or {}).get("status", {}).get("conditions") or []
    return any(one["type"] == kind and one["status"] == "True" for one in listed)


def complete(job: Json | None) -> bool:
    """Whether a job has ended well."""
    return condition(job, "Complete")


def runs(job: Json | None) -> bool:
    """Whether a job runs: it was started, and has not ended."""
    return job is not None and not job["spec"].get("suspend") and not complete(job)


def is_ours(job: Json | None) -> bool:
    """Whether a job on a worker is a copy of ours."""
    return job is not None and bool(meta(job).get("labels"))


def runs_ours(job: Json | None) -> bool:
    """Whether a copy of ours runs."""
    return is_ours(job) and runs(job)


def is_home(store: Store) -> bool:
    """Whether these are the objects of the management cluster."""
    uids = [str(meta(obj)["uid"]) for obj in store.values() if obj is not None]
    return any(uid.startswith(("wl#", "user#")) for uid in uids)


def home_steps(store: Store) -> Iterator[Step]:
    """What Kueue on the management cluster does next."""
    workload, job = store["workload"], store["job"]
    if workload is None or job is None or "deletionTimestamp" in meta(workload):
        return
    if condition(workload, "Finished"):
        return
    check = next(iter(workload["status"].get("admissionChecks") or []), {"state": ""})
    reserved, evicted = condition(workload, "QuotaReserved"), condition(workload, "Evicted")
    if complete(job):  # asked before anything else (`ReconcileGenericJob`)
        yield "Kueue finishes the Workload", _set(store, Finished=True)
    elif not reserved:
        yield "Kueue reserves quota", reserve(store)
    elif evicted:
        if not job["spec"].get("suspend"):
            yield "Kueue suspends the job", {**store, "job": {**job, "spec": {**job["spec"], "suspend": True}}}
        elif not job["status"].get("active"):
            yield "Kueue gives the quota back", given_back(store)
    elif check["state"] == "Retry":
        yield "Kueue evicts the Workload", evict(store)
    elif check["state"] == "Ready":
        if not condition(workload, "Admitted"):
            yield "Kueue admits the Workload", admitted(store)
        elif job["spec"].get("suspend"):
            yield "Kueue starts the job", {**store, "job": {**job, "spec": {**job["spec"], "suspend": False}}}


def reserve(store: Store) -> Store:
    """Give the Workload on the management cluster quota."""
    after = _set(store, QuotaReserved=True, Evicted=False)
    workload = after["workload"]
    status = {**workload["status"], "admission": ADMISSION, "admissionChecks": [_check("Pending")]}
    return {**after, "workload": {**workload, "status": status}}


def given_back(store: Store) -> Store:
    """Take its quota from the Workload on the management cluster."""
    return _set(store, drop=("admission",), QuotaReserved=False)


def admitted(store: Store) -> Store:
    """Admit the Workload on the management cluster."""
    return _set(store, Admitted=True)


def finished(store: Store, reason: str) -> Store:
    """Finish a Workload with a reason."""
    after = _set(store, Finished=True)
    workload = after["workload"]
    listed = [
        {**one, "reason": reason} if one["type"] == "Finished" else one for one in workload["status"]["conditions"]
    ]
    return {**after, "workload": {**workload, "status": {**workload["status"], "conditions": listed}}}


def evict(store: Store) -> Store:
    """Evict the Workload on the management cluster: what it named is gone, what its checks said is taken back."""
    after = _set(store, drop=("clusterName", "nominatedClusterNames"), Evicted=True, Admitted=False)
    workload = after["workload"]
    return {
        **after,
        "workload": {**workload, "status": {**workload["status"], "admissionChecks": [_check("Pending")]}},
    }


def _check(state: str) -> Json:
    return {"name": CHECK, "state": state, "message": "", "lastTransitionTime": STAMP}


def site_steps(store: Store) -> Iterator[Step]:
    """What Kueue and the Job controller on a worker do next."""
    clone, job = store["workload"], store["job"]
    if job is not None and is_ours(job):
        yield from job_steps(store, clone, job)
    yield from clone_steps(store)


def clone_steps(store: Store) -> Iterator[Step]:
    """What Kueue on a worker does next with the Workload's copy."""
    clone, job = store["workload"], store["job"]
    if clone is None or condition(clone, "Finished"):
        return
    if "deletionTimestamp" in meta(clone):
        return
    if condition(clone, "DeactivationTarget") and clone["spec"].get("active") is not False:
        yield "its Kueue deactivates the copy", _deactivated(store)
    elif clone["spec"].get("active") is not False and not condition(clone, "Admitted"):
        stopped = job is None or not is_ours(job) or not runs(job)
        # The quota of what was evicted is given back by its job (`ReconcileGenericJob`): before that it is not
        # admitted.
        kept = condition(clone, "Evicted") and condition(clone, "QuotaReserved") and not is_ours(job)
        if closed(clone):
            if not condition(clone, BLOCKED):
                yield "its Kueue says that the copy waits for its gate", _set(store, **{BLOCKED: True})
        elif stopped and not kept and not store.get("queue"):
            yield "its Kueue admits the copy", _admitted(store)
    if job is not None and is_ours(job) and complete(job):
        yield "its Kueue finishes the copy", _set(store, Finished=True)


BLOCKED = "BlockedOnPreemptionGates"


def is_open(clone: Json | None) -> bool:
    """Whether the preemption gate of a copy is open."""
    gates = (clone or {}).get("status", {}).get("preemptionGates") or []
    return any(gate["position"] == "Open" for gate in gates)


def closed(clone: Json) -> bool:
    """Whether a copy has a preemption gate that is not open: it is admitted only by preempting, and may not yet
    (kubernetes-sigs/kueue KEP-8303).
    """
    return bool(clone["spec"].get("preemptionGates")) and not is_open(clone)


def job_steps(store: Store, clone: Json | None, job: Json) -> Iterator[Step]:
    """What the Job controller on a worker does next, and its Kueue with the job."""
    may_run = condition(clone, "Admitted") and not condition(clone, "Evicted")
    if complete(job):
        return
    if runs(job):
        yield "the job ends", _ended(store, job)
        if not may_run:
            yield "its Kueue stops the job", _job(store, job, suspend=True, status={"active": 0})
    elif may_run and clone is not None and "deletionTimestamp" not in meta(clone) and not condition(clone, "Finished"):
        yield "its Kueue starts the job", _job(store, job, suspend=False, status={"active": 1})


def _job(store: Store, job: Json, *, suspend: bool, status: Json) -> Store:
    return {**store, "job": {**job, "spec": {**job["spec"], "suspend": suspend}, "status": status}}


def _ended(store: Store, job: Json) -> Store:
    ended = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "all done"}
    return {**store, "job": {**job, "status": {"conditions": [{**ended, "lastTransitionTime": STAMP}]}}}


def _admitted(store: Store) -> Store:
    after = _set(store, QuotaReserved=True, Admitted=True, Evicted=False, **{BLOCKED: False})
    clone = after["workload"]
    return {**after, "workload": {**clone, "metadata": {**meta(clone), "finalizers": [RESOURCE_IN_USE]}}}


def preempted(store: Store) -> Store:
    """Evict a copy on its worker."""
    return _set(store, Evicted=True, Admitted=False)


def unsynced(store: Store) -> Store:
    """Finish a copy without a result, because its job is another one (`ensurePrebuiltWorkloadInSync` in
    pkg/controller/jobframework/reconciler.go, ff69552e): the job is stopped."""
    return _job(finished(store, "OutOfSync"), store["job"], suspend=True, status={})


def _deactivated(store: Store) -> Store:
    after = _set(store, Evicted=True, Admitted=False, QuotaReserved=False)
    clone = after["workload"]
    return {**after, "workload": {**clone, "spec": {**clone["spec"], "active": False}}}


_REASONS = {"Finished": "Succeeded", "Evicted": "AdmissionCheck"}


def _set(store: Store, drop: tuple[str, ...] = (), **conditions: bool) -> Store:
    workload = store["workload"]
    status = {key: value for key, value in workload["status"].items() if key not in drop}
    listed = {one["type"]: one for one in status.get("conditions") or []}
    for kind, value in conditions.items():
        word = "True" if value else "False"
        if listed.get(kind, {"status": "False"})["status"] != word:
            reason = _REASONS.get(kind, kind)
            listed[kind] = {"type": kind, "status": word, "reason": reason, "message": "", "lastTransitionTime": STAMP}
    return {
        **store,
        "workload": {**workload, "status": {**status, "conditions": [listed[kind] for kind in sorted(listed)]}},
    }
