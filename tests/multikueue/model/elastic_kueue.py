"""Kueue and the jobs of the model where the job is elastic: it may be made larger while it runs, and gets another
Workload then, which takes the place of the one before.

In: a cluster's store. Out: every step that changes it, with what happens. The rules are those of Kueue's core
(kubernetes-sigs/kueue pkg/workloadslicing/workloadslicing.go, pkg/controller/jobframework/reconciler.go, ff69552e);
which of two slices counts is answered as in the simulated clusters (`controlplane.simulation.kueue.slices`)."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.controllers.multikueue.observations import SLICE_REPLACED
from controlplane.kube.kinds import Json, meta
from controlplane.kube.kueue_names import PREBUILT
from controlplane.simulation.kueue import slices
from tests.multikueue.model import kueue
from tests.multikueue.model.kueue import Step, complete, condition, runs
from tests.multikueue.model.world import NEXT, WORKLOAD, Store, user_workload

SLOTS = {WORKLOAD: "workload", NEXT: "next"}


def is_live(workload: Json | None) -> bool:
    """Whether a Workload counts: it is there, and has not finished."""
    return workload is not None and "deletionTimestamp" not in meta(workload) and not condition(workload, "Finished")


def has_finished(workload: Json | None) -> bool:
    """Whether a Workload has finished with its job, and not because another one took its place."""
    listed = (workload or {}).get("status", {}).get("conditions") or []
    ended = [one["reason"] for one in listed if one["type"] == "Finished" and one["status"] == "True"]
    return bool(ended) and ended[0] not in (SLICE_REPLACED, "OutOfSync")


def _of(store: Store, slot: str) -> Store:
    """Return a cluster's objects as if it had this Workload only."""
    return {**store, "workload": store[slot]}


def _with(store: Store, slot: str, seen: Store) -> Store:
    """Return a cluster's objects with what became of one Workload and of the job."""
    return {**store, slot: seen["workload"], "job": seen["job"]}


def _replaced(store: Store) -> Store:
    """Return a cluster's objects when the next slice gets quota: the one before gives its own to it."""
    if not is_live(store["workload"]) or not condition(store["workload"], "QuotaReserved"):
        return store
    return {**store, "workload": kueue.finished(store, SLICE_REPLACED)["workload"]}


# --- the management cluster -------------------------------------------------------------------------------------------


def home_steps(store: Store) -> Iterator[Step]:
    """What Kueue on the management cluster does next."""
    job = store["job"]
    if job is None:
        return
    if not complete(job):
        for slot in SLOTS.values():
            if is_live(store[slot]):
                yield from _queue(store, slot)
    yield from _reconcile(store, job)


def _queue(store: Store, slot: str) -> Iterator[Step]:
    """What the scheduler and the controller of Workloads do with one of them."""
    seen = _of(store, slot)
    workload = store[slot]
    check = next(iter(workload["status"].get("admissionChecks") or []), {"state": ""})
    if not condition(workload, "QuotaReserved"):
        yield f"Kueue reserves quota for the {slot}", _reserved(store, slot)
    elif condition(workload, "Evicted"):
        return
    elif check["state"] == "Retry":
        yield f"Kueue evicts the {slot}", _with(store, slot, kueue.evict(seen))
    elif check["state"] == "Ready" and not condition(workload, "Admitted"):
        yield f"Kueue admits the {slot}", _with(store, slot, kueue.admitted(seen))


def _reserved(store: Store, slot: str) -> Store:
    before = store["workload"]
    after = _with(store, slot, kueue.reserve(_of(store, slot)))
    if slot != "next" or not is_live(before) or not condition(before, "QuotaReserved"):
        return after
    after = _replaced(after)
    if cluster := before["status"].get("clusterName"):
        heir = after["next"]
        after = {**after, "next": {**heir, "status": {**heir["status"], "clusterName": cluster}}}
    return after


def _reconcile(store: Store, job: Json) -> Iterator[Step]:
    """What the controller of jobs does: it chooses the Workload that counts, makes another, and follows it."""
    live = {slot: store[slot] for slot in SLOTS.values() if is_live(store[slot])}
    chosen, over = slices.settle(list(live.values()))
    if over:
        yield "Kueue finishes slices that are over", _without(store, over)
        return
    slot = next((name for name, one in live.items() if one is chosen), "")
    if chosen is None or not slot:
        return
    wanted = {"main": int(job["spec"]["parallelism"])}
    if slices.counts(chosen["spec"]["podSets"]) != wanted:
        if slices.fits_in_place(chosen, wanted):
            spec = {**chosen["spec"], "podSets": slices.resized(chosen, wanted)}
            yield f"Kueue changes the size of the {slot}", {**store, slot: {**chosen, "spec": spec}}
        elif store["next"] is None and not complete(job):
            larger = user_workload(NEXT, wanted["main"], elastic=True)
            yield "Kueue makes another slice", {**store, "next": larger}
        return
    for label, after in _follow(_of(store, slot), chosen, job):
        yield f"{label} ({slot})", _with(store, slot, after)


def _without(store: Store, over: list[tuple[Json, bool]]) -> Store:
    for one, replaced in over:
        slot = SLOTS[meta(one)["name"]]
        reason = SLICE_REPLACED if replaced else "OutOfSync"
        store = _with(store, slot, kueue.finished(_of(store, slot), reason))
    return store


def _follow(seen: Store, workload: Json, job: Json) -> Iterator[Step]:
    """Let the job follow the Workload that counts, or that one the job that has ended."""
    suspended = bool(job["spec"].get("suspend"))
    stopped = {**seen, "job": {**job, "spec": {**job["spec"], "suspend": True}}}
    if complete(job):
        yield "Kueue finishes the Workload", kueue.finished(seen, "Succeeded")
    elif condition(workload, "Evicted"):
        if not suspended:
            yield "Kueue suspends the job", stopped
        elif not job["status"].get("active") and condition(workload, "QuotaReserved"):
            yield "Kueue gives the quota back", kueue.given_back(seen)
    elif not condition(workload, "Admitted"):
        if not suspended and slices.replaces(workload) is None:
            yield "Kueue suspends the job", stopped
    elif suspended:
        yield "Kueue starts the job", {**seen, "job": {**job, "spec": {**job["spec"], "suspend": False}}}


# --- a worker ---------------------------------------------------------------------------------------------------------


def bound(job: Json | None) -> str:
    """Return the slot of the Workload that a job on a worker is bound to, "" if it is none of ours."""
    name = str((meta(job).get("annotations") or {}).get(PREBUILT, "")) if job is not None else ""
    return SLOTS.get(name, "")


def site_steps(store: Store) -> Iterator[Step]:
    """What Kueue and the Job controller on a worker do next."""
    job = store["job"]
    holder = bound(job)
    if job is not None and kueue.is_ours(job):
        clone = store[holder] if holder else None
        for label, after in kueue.job_steps({**store, "workload": clone}, clone, job):
            if "stops" not in label or not _runs_on(clone):
                yield label, {**store, "job": after["job"]}
    for slot in SLOTS.values():
        mine = job if holder == slot else None
        for label, after in kueue.clone_steps({**store, "workload": store[slot], "job": mine}):
            admits = slot == "next" and condition(after["workload"], "Admitted") > condition(store["next"], "Admitted")
            to = {**store, slot: after["workload"]}
            yield f"{label} ({slot})", _replaced(to) if admits else to


def _runs_on(clone: Json | None) -> bool:
    """Whether a job goes on, as large as it was, until its next slice is admitted."""
    return clone is not None and slices.replaces(clone) is not None and not condition(clone, "Evicted")


def was_stopped(store: Store) -> bool:
    """Whether a copy of the job ran, and was stopped before its end."""
    job = store["job"]
    return kueue.is_ours(job) and not runs(job) and not complete(job) and job["status"].get("active") == 0
