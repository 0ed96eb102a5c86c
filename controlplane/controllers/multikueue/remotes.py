"""Holds what is known to exist of one Workload on one worker, and takes in what is seen there.

In: observations of copies. Out: `Remote`, a value; the fold of the Workload
(`controlplane.controllers.multikueue.workload_state`) has one for each cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import RemovalDecided, WorkloadWrite
from controlplane.controllers.multikueue.spec_keys import is_same
from controlplane.controllers.multikueue.told import Told
from controlplane.kube.conditions import Condition
from controlplane.kube.kinds import PODS
from controlplane.kube.slices import SLICE_REPLACED
from controlplane.log.event import Recorded

_replace = msgspec.structs.replace
_Copy = TypeVar("_Copy", bound=observations.CloneObserved | observations.RemoteJobObserved)


class Remote(msgspec.Struct, frozen=True):
    """What is known to exist on one worker. `admitted_at` is the position at which we first saw the clone Admitted,
    `finished_at` when we first saw it Finished, `deleting_since` when we first saw it deleted. `clone_version` and
    `job_version` are set while what is there cannot be read: its resourceVersion, while `clone` and `job` are what
    could be read last. `members` are the pods of a group beside `job`, by name. `made_of`: the body of the Workload
    that we made the clone of, "" if that was not seen. `mended`: the priority that was written to it last, and how
    often."""

    clone: observations.CloneObserved | None = None
    job: observations.RemoteJobObserved | None = None
    members: Mapping[str, observations.RemoteJobObserved] = {}
    admitted_at: int = 0
    finished_at: datetime | None = None
    made_of: str = ""
    mended: Told | None = None
    deleting_since: datetime | None = None
    clone_version: str = ""
    job_version: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing of ours is there."""
        return self.clone is None and self.job is None and not self.members

    @property
    def jobs(self) -> list[observations.RemoteJobObserved]:
        """What there is of the job: its copy, and the pods of a group beside it."""
        return [*([self.job] if self.job is not None else []), *self.members.values()]

    @property
    def unmarked(self) -> bool:
        """Whether nothing of what is there says that it was made for this management cluster."""
        unmarked = [one.unmarked for one in self.jobs]
        if self.clone is not None:
            unmarked.append(self.clone.unmarked)
        return bool(unmarked) and all(unmarked)

    @property
    def made_for(self) -> str:
        """The management cluster that something of it says that it was made for, if that is another one; "" if nothing
        does."""
        said = [one.made_for for one in self.jobs]
        if self.clone is not None:
            said.append(self.clone.made_for)
        return next(filter(None, said), "")

    @property
    def may_run(self) -> bool:
        """Whether anything of the job may run there. A pod that nothing but its finalizers keeps does not."""
        return any(not one.finalizing for one in self.jobs)

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
            return _with_clone(remote, event, recorded)
        case observations.CloneGone() if remote.clone is not None and remote.clone.uid == event.uid:
            return Remote(job=remote.job, members=remote.members, job_version=remote.job_version)
        case observations.RemoteJobObserved():
            return _replace(remote, job=event, job_version="")
        case observations.RemoteJobGone() if remote.job is not None and remote.job.uid == event.uid:
            return _replace(remote, job=None, job_version="")
        case _:
            return remote


def _with_clone(remote: Remote, event: observations.CloneObserved, recorded: Recorded) -> Remote:
    before = remote if remote.clone is not None and remote.clone.uid == event.uid else Remote()
    return _replace(
        remote,
        clone=event,
        made_of=before.made_of,
        mended=before.mended,
        admitted_at=(before.admitted_at or recorded.position) if event.is_true("Admitted") else 0,
        finished_at=(before.finished_at or recorded.recorded_at) if event.is_true("Finished") else None,
        deleting_since=(before.deleting_since or recorded.recorded_at) if event.deleting else None,
        clone_version="",
    )


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


def known_as(remote: Remote, identities: Sequence[str]) -> Remote:
    """Return what is on a cluster once it is known who the management cluster is, and whose place it took."""
    return _replace(
        remote,
        clone=marked(remote.clone, identities) if remote.clone is not None else None,
        job=marked(remote.job, identities) if remote.job is not None else None,
        members={name: marked(member, identities) for name, member in remote.members.items()},
    )


def marked(copy: _Copy, identities: Sequence[str]) -> _Copy:
    """Return a copy that was seen before that was known, and was nobody's then, as one that was made for us."""
    if copy.made_for not in identities:
        return copy
    return _replace(copy, unmarked=copy.made_for != identities[0], made_for="")


def seated(remote: Remote, owner: observations.Owner | None) -> Remote:
    """Return what is on a cluster with the copy of the owner as the job, and the others of its group beside it."""
    job = remote.job
    of_a_group = job.kind == PODS.name and owner is not None and job.name != owner.name if job else bool(remote.members)
    if owner is None or not of_a_group:
        return remote
    members = {**remote.members, **({job.name: job} if job is not None else {})}
    return _replace(remote, job=members.pop(owner.name, None), members=members, job_version="")


def usable(remote: Remote, local: observations.WorkloadObserved) -> bool:
    """Whether a clone is one that could win: whole, of this spec, and neither deactivated nor finished.

    A slice of an elastic job is made smaller in place, and its copy then waits for somebody who does the same there.
    """
    clone = remote.clone
    return (
        clone is not None
        and not clone.deleting
        and clone.active
        and (is_same(clone.spec_key, local.spec_key) or local.sliced)
        and not clone.is_true("Finished")
    )


def admitted(remote: Remote, local: observations.WorkloadObserved) -> bool:
    """Whether a clone is admitted by its worker, and not on its way out."""
    clone = remote.clone
    return usable(remote, local) and clone is not None and clone.is_true("Admitted") and not clone.is_true("Evicted")
