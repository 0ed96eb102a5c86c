"""The model's world: what is fixed in a run, what changes, and the first state.

Actors: the user, Kueue on the management cluster, Kueue and the jobs on each worker, and our own process with its log.
All that our process does goes through the real observations, folds, decisions and requests; Kueue and the API servers
are the model's (`kueue`, `api`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from controlplane.controllers.multikueue.context import AT_LEAST_ONCE, MultiKueuePolicy
from controlplane.job_kinds import adapters_for
from controlplane.kube.kinds import JOBS, WORKLOADS, Json
from controlplane.kube.kueue_names import MULTIKUEUE, QUEUE_LABEL
from controlplane.kube.slices import ELASTIC_JOB, REPLACEMENT_FOR
from tests.candidates.model.world import Violation

__all__ = ["Violation"]

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("worker-a", "worker-b", "worker-c")
"""No text of the model has these in it but where it names a cluster, so that they can be exchanged (`values`)."""
NAMESPACE, JOB, WORKLOAD, CHECK = "team", "train", "job-train-1", "multikueue"
NEXT = "job-train-2"
"""The Workload that takes the place of the other one, of an elastic job that was made larger."""
SMALL, LARGE = 1, 2
PAUSE = timedelta(seconds=8)
ROUND = 4
"""Seconds."""
LOST_AFTER, GRACE = timedelta(seconds=8), timedelta(seconds=4)
KINDS_WATCHED = (WORKLOADS.name, JOBS.name)
ADMISSION = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]}


@dataclass(frozen=True)
class Faults:
    """How often each thing may go wrong in one run, and how many in all (`total`).

    `cut`: a worker cannot be reached; it can be again at any time, and works on meanwhile. `lost`: it cannot be for
    ever. `delayed`: a request stays on its way while the world goes on; its answer is lost. `failed`: an API server
    answers with its own failure, and the request was carried out or was not. `restarted`: the leader is killed, and
    another one begins with the log. `paused`: the same, and all that the one before had decided to write is still on
    its way. `preempted`: a worker's Kueue evicts the copy, and may admit it again. `evicted`: the management cluster's
    Kueue evicts the Workload. `deleted`: the user deletes the job. `removed`, `stripped`: somebody deletes the job's
    copy on a worker, the Workload's copy. `restored`: a worker is put back to what it was at some moment before.
    `swapped`: another cluster answers under a worker's name; the one before works on, and may be back. `reconfigured`:
    a cluster is taken out of the MultiKueueConfig. `unsynced`: a worker's Kueue finds that the job is not that of the
    copy, and finishes the copy without a result. `forgot`: another process begins with an empty log. `resized`: the
    user makes an elastic job larger, which is no fault, and need not happen. `withdrawn`: somebody else's dispatcher
    takes a nomination back."""

    total: int = 1
    cut: int = 1
    lost: int = 1
    delayed: int = 1
    failed: int = 1
    restarted: int = 1
    paused: int = 1
    preempted: int = 1
    evicted: int = 1
    deleted: int = 1
    removed: int = 1
    stripped: int = 1
    restored: int = 1
    swapped: int = 1
    reconfigured: int = 1
    unsynced: int = 1
    forgot: int = 1
    resized: int = 1
    withdrawn: int = 1

    @classmethod
    def only(cls, *kinds: str, total: int = 1) -> Faults:
        """Return so many faults of these kinds."""
        return cls(total=total, **{kind: total if kind in kinds else 0 for kind in KINDS})

    @classmethod
    def each(cls, *kinds: str) -> Faults:
        """Return one fault of each of these kinds."""
        return cls(total=len(kinds), **{kind: int(kind in kinds) for kind in KINDS})


KINDS = tuple(one.name for one in fields(Faults) if one.name != "total")


@dataclass(frozen=True)
class Config:
    """One exploration. `foreign`: how many workers have a job of this name that is somebody else's.

    `together`: the objects of a cluster are seen in one step, not the watch of one kind later than that of the other.
    `attempt`: what goes wrong does so before the Workload loses its quota. `sending`: the first state is the one in
    which the job is about to be created on a worker; `running`: in which it runs there. `prompt`: what can be done is
    done before a deadline passes, also while a worker is away. `lazy` and `alike`: the reductions (`moves`, `alike`).
    `gates`: workers are full, and our process says which one may preempt; it takes the first by name of those that
    began to wait in one second, so they are not alike. `elastic`: the job may be made larger while it runs. `held`: how
    many of the first workers admit nothing."""

    name: str
    clusters: int = 3
    execution: str = AT_LEAST_ONCE
    faults: Faults = field(default_factory=Faults)
    foreign: int = 0
    together: bool = False
    prompt: bool = False
    attempt: bool = False
    sending: bool = False
    running: bool = False
    lazy: bool = True
    alike: bool = True
    gates: bool = False
    elastic: bool = False
    held: int = 0
    dispatcher: str = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
    step_size: int = 3
    most_states: int = 6_000_000

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the workers."""
        return NAMES[: self.clusters]

    @property
    def unbroken(self) -> bool:
        """Whether nothing happens for which an elastic job would be stopped."""
        harmless = ("resized", "restarted", "paused", "delayed", "failed")
        return self.elastic and not any(getattr(self.faults, kind) for kind in KINDS if kind not in harmless)

    @property
    def slots(self) -> tuple[str, ...]:
        """The objects that a cluster may have, by their places in a `Store`."""
        return ("workload", "next", "job") if self.elastic else ("workload", "job")

    @property
    def workloads(self) -> tuple[str, ...]:
        """The names of the job's Workloads."""
        return (WORKLOAD, NEXT) if self.elastic else (WORKLOAD,)

    @property
    def policy(self) -> MultiKueuePolicy:
        """What our process decides by."""
        return MultiKueuePolicy(
            adapters=adapters_for(["batch/job"]),
            worker_lost_timeout=LOST_AFTER,
            readmission_grace=GRACE,
            status_interval=timedelta(),
            gc_interval=timedelta(seconds=16),
            refusal_pause=timedelta(seconds=32),
            execution_policy=self.execution,
            mass_outage_share=1.0,
            requeues_per_minute=0,
            dispatcher=self.dispatcher,
            step_size=self.step_size,
            dispatch_round=timedelta(seconds=ROUND),
            orchestrated_preemption=self.gates,
            preemption_pause=PAUSE,
        )


class Frame(NamedTuple):
    """What surrounds the stores and the log. Sets of workers are bits, and the other fields have an entry a worker.

    `links`: which can be reached; `stale`: whose watches have broken; `given`: whose copy was given up after its
    grace (beyond those, in the same order: the copies on clusters that were there before under the name); `over`:
    where it ran to its end (and two bits more: whether it ever did, and whether somebody deleted such an end before
    it was seen); `faults`: what may still go wrong; `ghosts`: requests on their way, with their worker (-1:
    management); `saved`: the number of the backup, -1 if there is none, -2 while the worker is put back and not
    listed, -3 after that, -4 once the worker is lost for ever; `hidden`: the number of what the cluster holds that
    was there before under the name, -1 if there is none; `adopted`: whose new cluster is used. `waited`: how many
    seconds have passed, where clusters are asked in rounds, as many as all rounds take at most; `asked`: whom
    somebody else's dispatcher named."""

    links: int
    stale: int
    given: int
    over: int
    adopted: int
    faults: tuple[int, ...]
    ghosts: tuple[tuple[int, int], ...]
    saved: tuple[int, ...]
    hidden: tuple[int, ...]
    waited: int = 0
    asked: int = 0

    @property
    def back(self) -> tuple[object, ...]:
        """What changes when a worker that is away comes back."""
        return self.links, self.hidden, self.adopted


Global = tuple[int, ...]
"""One state, by the numbers of its parts: the frame, the log (what our process folded), the objects of the management
cluster, those of each worker."""
Move = tuple[str, bool, Global]
"""A step: what happens, whether it is a fault, where it leads."""


def at(now: int) -> datetime:
    """Return a time of the model, which is always 0 now: what has passed is before it (`values.later`)."""
    return START + timedelta(seconds=now)


STAMP = START.strftime("%Y-%m-%dT%H:%M:%SZ")
"""The time of all that happens on clusters. Nothing is decided by the clocks of clusters but which of two admissions
was first, and each of them is the first to be seen in one order of steps."""


def user_job(*, elastic: bool = False) -> Json:
    """Return the user's job."""
    metadata: Json = {"namespace": NAMESPACE, "name": JOB, "uid": "user#1", "labels": {QUEUE_LABEL: "q"}}
    spec: Json = {"suspend": True, "managedBy": MULTIKUEUE, "template": {"spec": {}}}
    if elastic:
        metadata["annotations"], spec["parallelism"] = {ELASTIC_JOB: "true"}, SMALL
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec, "status": {}}


def user_workload(name: str = WORKLOAD, size: int = SMALL, *, elastic: bool = False) -> Json:
    """Return the Workload that Kueue made of it, waiting for quota."""
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": JOB, "uid": "user#1", "controller": True}
    uid = "wl#1" if name == WORKLOAD else "wl#2"
    metadata: Json = {"namespace": NAMESPACE, "name": name, "uid": uid, "ownerReferences": [owner]}
    if elastic:
        replaces = {REPLACEMENT_FOR: f"{NAMESPACE}/{WORKLOAD}"} if name == NEXT else {}
        metadata["annotations"] = {ELASTIC_JOB: "true", **replaces}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": metadata,
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": size}]},
        "status": {},
    }


def foreign_job() -> Json:
    """Return somebody else's job of the same name."""
    metadata = {"namespace": NAMESPACE, "name": JOB, "uid": "foreign#1", "labels": {}}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": metadata,
        "spec": {"suspend": False},
        "status": {"active": 1},
    }


Store = Mapping[str, Any]
"""The objects of a cluster that matter, `workload`, `next` and `job`, None where there is none."""
EMPTY: Store = {"workload": None, "next": None, "job": None}
