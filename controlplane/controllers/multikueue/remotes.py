"""Holds what is known to exist of one Workload on one worker, and takes in what is seen there.

In: observations of copies. Out: `Remote`, a value; the fold of the Workload
(`controlplane.controllers.multikueue.state`) has one for each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import RemovalDecided, WorkloadWrite
from controlplane.controllers.multikueue.told import Told
from controlplane.kube.conditions import Condition
from controlplane.kube.kinds import PODS
from controlplane.kube.slices import SLICE_REPLACED
from controlplane.log.event import Recorded

_replace = msgspec.structs.replace


class Remote(msgspec.Struct, frozen=True):
    """What is known to exist on one worker. `admitted_at` is the position at which we first saw the clone Admitted,
    `finished_at` when we first saw it Finished. `clone_version` and `job_version` are set while what is there cannot be
    read: its resourceVersion, while `clone` and `job` are what could be read last. `members` are the pods of a group
    beside `job`, by name. `made_of`: the body of the Workload that we made the clone of, "" if that was not seen.
    `mended`: the priority that was written to it last, and how often."""

    clone: observations.CloneObserved | None = None
    job: observations.RemoteJobObserved | None = None
    members: Mapping[str, observations.RemoteJobObserved] = {}
    admitted_at: int = 0
    finished_at: datetime | None = None
    made_of: str = ""
    mended: Told | None = None
    clone_version: str = ""
    job_version: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing of ours is there."""
        return self.clone is None and self.job is None and not self.members

    @property
    def finished(self) -> Condition | None:
        """The true Finished condition of the clone."""
        condition = self.clone.condition("Finished") if self.clone is not None else None
        return condition if condition is not None and condition.status == "True" else None

    @property
    def binds(self) -> bool:
        """Whether a job is bound to the clone that it did not outlast: one runs on whose slice was replaced by
        another."""
        finished = self.finished
        over = finished is not None and finished.reason != SLICE_REPLACED
        return self.clone is not None and self.clone.bound_to != "" and not over


def remote_after(
    remote: Remote,
    event: observations.CloneObserved
    | observations.CloneGone
    | observations.RemoteJobObserved
    | observations.RemoteJobGone,
    recorded: Recorded,
) -> Remote:
    """Return what is on a cluster after one more observation of a copy there."""
    match event:
        case observations.CloneObserved():
            known = remote.clone is not None and remote.clone.uid == event.uid
            admitted_at = (known and remote.admitted_at) or recorded.position
            finished_at = (remote.finished_at if known else None) or recorded.recorded_at
            return _replace(
                remote,
                clone=event,
                made_of=remote.made_of if known else "",
                mended=remote.mended if known else None,
                admitted_at=admitted_at if event.is_true("Admitted") else 0,
                finished_at=finished_at if event.is_true("Finished") else None,
                clone_version="",
            )
        case observations.CloneGone() if remote.clone is not None and remote.clone.uid == event.uid:
            return _replace(
                remote, clone=None, admitted_at=0, finished_at=None, made_of="", mended=None, clone_version=""
            )
        case observations.RemoteJobObserved():
            return _replace(remote, job=event, job_version="")
        case observations.RemoteJobGone() if remote.job is not None and remote.job.uid == event.uid:
            return _replace(remote, job=None, job_version="")
        case _:
            return remote


def is_member(
    remote: Remote, owner: observations.Owner | None, seen: observations.ObjectGone | observations.Observation
) -> bool:
    """Whether an event is about a pod of a group beside the one that the Workload's job is."""
    if not isinstance(seen, (observations.RemoteJobObserved, observations.RemoteJobGone)) or seen.kind != PODS.name:
        return False
    if seen.name in remote.members:
        return True
    known = owner.name if owner is not None else (remote.job.name if remote.job is not None else seen.name)
    return seen.name != known


def is_of_another(owner: observations.Owner | None, seen: observations.ObjectGone | observations.Observation) -> bool:
    """Whether an event is about a job that has the labels of a copy and another name than every copy of the owner: who
    makes a job of a copy by hand takes them along. Of a group the pods have names of their own."""
    job = isinstance(seen, (observations.RemoteJobObserved, observations.RemoteJobGone)) and seen.kind != PODS.name
    return job and owner is not None and seen.name != owner.name


def still_to_go(decision: WorkloadWrite, seen: observations.CloneObserved | observations.CloneGone) -> bool:
    """Whether a clone changed, and its removal by UID alone still is on its way: it needs no newer version."""
    return (
        isinstance(seen, observations.CloneObserved)
        and not seen.deleting
        and not seen.bound_to
        and not seen.is_true("Finished")
        and isinstance(decision, RemovalDecided)
        and decision.uid == seen.uid
        and not decision.resource_version
    )


def seated(remote: Remote, owner: observations.Owner | None) -> Remote:
    """Return what is on a cluster with the copy of the owner as the job, and the others of its group beside it."""
    job = remote.job
    of_a_group = job.kind == PODS.name and owner is not None and job.name != owner.name if job else bool(remote.members)
    if owner is None or not of_a_group:
        return remote
    members = {**remote.members, **({job.name: job} if job is not None else {})}
    return _replace(remote, job=members.pop(owner.name, None), members=members, job_version="")
