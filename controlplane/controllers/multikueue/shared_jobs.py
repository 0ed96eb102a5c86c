"""Shows a copy of a job to every Workload that has it: a job may have several, and its copy is recorded on the stream
of one of them.

In: events in the log's order. Out: the states of the others with the copy in them, and the streams to decide about.
Which Workloads have which job is kept here too."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.components import standing
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.existing import ExistingObjects, is_slice
from controlplane.controllers.multikueue.job_changes import fold_moved
from controlplane.controllers.multikueue.observe import job_stream, workload_stream
from controlplane.controllers.multikueue.remotes import known_as, marked
from controlplane.controllers.multikueue.state import fold_absent, fold_remote, fold_unreadable
from controlplane.controllers.multikueue.strays import StrayCopies
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Recorded

_FEW = 1000  # Workloads that are over, so many of which are remembered without a look at who needs them


class SharedJobs(ExistingObjects):
    """Which Workloads have a job, and the copies of those that have several: `_shared` by job and cluster as they were
    seen last, `_sharers` by cluster and UID the streams that know of them, `_rest_on` by Workload the streams of jobs
    that its state rests on, `_took_from` those of other Workloads, where copies are handed on or shown; `_rested` has
    both for Workloads that are over. `_identities`: who the management cluster is, and whose place it took."""

    def __init__(self, policy: MultiKueuePolicy) -> None:
        super().__init__(policy)
        self._dependents: dict[str, set[str]] = {}
        self._dirty: dict[str, None] = {}
        self._unsure: set[str] = set()
        self._shared: dict[str, dict[str, Recorded]] = {}
        self._sharers: dict[tuple[str, str], set[str]] = {}
        self._rest_on: dict[str, set[str]] = {}
        self._took_from: dict[str, set[str]] = {}
        self._rested: dict[str, set[str]] = {}
        self._strays = StrayCopies()
        self._identities: tuple[str, ...] = ()
        self._looked_through = _FEW

    def _known_by(self) -> set[str]:
        """Return the streams whose events are all that something else is known by."""
        raise NotImplementedError

    @property
    def needed_streams(self) -> set[str]:
        """The streams on whose events what is known of others rests, also if they are over."""
        seen = {one.stream for shared in self._shared.values() for one in shared.values()}
        found = self._known_by().union(seen, *self._rest_on.values(), *self._took_from.values())
        todo = list(found)
        while todo:  # a fold of some events of a Workload that is over, and not of all that ended it, would not end it
            more = self._rested.get(todo.pop(), set()) - found
            found |= more
            todo += more
        return found

    def has_job(self, job: str) -> bool:
        """Whether a job, given by its stream, is there, or a Workload that has it."""
        return job in self.jobs or job in self._dependents

    def _enqueue(self, stream: str) -> None:
        self._dirty[stream] = None

    def _fold_unread(self, recorded: Recorded) -> None:
        """Take a refusal of a copy, or what may end one, and have those looked at again whom it concerns."""
        event = recorded.event
        if type(event) is observations.ObservationRefused:
            own = workload_stream(event.namespace, event.name)
            stream = own if event.kind == WORKLOADS.name else self.stream_of_remote_job(recorded.cluster, event.uid)
            state = self.workloads.get(stream)
            if state is not None and recorded.cluster in state.remotes:
                self.workloads[stream] = fold_unreadable(state, recorded.cluster, event)
                self._enqueue(stream)
        elif type(event) is observations.CloneAbsent:
            own = workload_stream(event.namespace, event.name)
            if (state := self.workloads.get(own)) is not None:
                self.workloads[own] = fold_absent(state, recorded)
                self._enqueue(own)
        if (copy := self.unread.fold(recorded)) is None:
            return
        kind, namespace, name = copy
        if kind == WORKLOADS.name:
            self._enqueue(workload_stream(namespace, name))
        else:
            for stream in sorted(self.dependents(job_stream(kind, namespace, name))):
                self._enqueue(stream)

    def _known_as(self, identities: Sequence[str]) -> None:
        """Tell copies apart that were seen before it was known who the management cluster is."""
        self._identities = tuple(identities)
        for stream, state in self.workloads.items():
            if any(remote.made_for for remote in state.remotes.values()):
                remotes = {name: known_as(remote, identities) for name, remote in state.remotes.items()}
                self.workloads[stream] = msgspec.structs.replace(state, remotes=remotes)
                self._enqueue(stream)

    def _judged(self, recorded: Recorded) -> Recorded:
        """Return an event of a Workload; of a copy that was seen before that was known, and recorded after it, as if it
        had been known."""
        event = recorded.event
        if getattr(event, "made_for", "") not in self._identities:
            return recorded
        assert isinstance(event, (observations.CloneObserved, observations.RemoteJobObserved)), "no other says it"
        return msgspec.structs.replace(recorded, event=marked(event, self._identities))

    def dependents(self, job: str) -> set[str]:
        """Return the streams of the Workloads that have a job, given by its stream."""
        return self._dependents.get(job, set())

    def _resting(self, workloads: set[str], job: str) -> list[str]:
        """Return Workloads in order, which are about to be shown an event of a job's stream."""
        for stream in workloads:
            self._rest_on.setdefault(stream, set()).add(job)
        return sorted(workloads)

    def _siblings(self, state: WorkloadState) -> set[str]:
        return self.dependents(self.stream_of_job(state))

    def _keep(self, stream: str, state: WorkloadState) -> None:
        state = self._at_rest(stream, self._left_by_stray(stream, state))
        if state.settled:
            self.workloads.pop(stream, None)
            self._depend(stream, state, None)
            rested = self._rest_on.pop(stream, set()) | self._took_from.pop(stream, set())
            for others in self._took_from.values():
                if stream in others:  # whoever rests on it rests on what it rests on
                    others |= rested
            self._over(stream, rested)
        else:
            self.workloads[stream] = state
        for job in sorted(self._strays.keep(stream, self.workloads.get(stream))):
            self._dirty.update(dict.fromkeys(sorted(self.dependents(job))))
        if state.unsure:
            self._unsure.add(stream)
        else:
            self._unsure.discard(stream)

    def _left_by_stray(self, stream: str, state: WorkloadState) -> WorkloadState:
        """Return the state of a Workload of which nothing but copies was ever known, once the last copy of its job is
        gone, with the job that has this name and no Workload, as that of one that is gone leaves its own: nobody else
        would say that nothing runs."""
        if state.owner is not None or any(remote.job is not None for remote in state.remotes.values()):
            return state
        for name in sorted(self._strays.jobs_of(stream)):
            job = self.jobs.get(name)
            kind = next((one for one in self.policy.adapters.values() if job and one.kind.name == job.kind), None)
            if job is not None and kind is not None and not self._workload_of(name):
                owner = observations.Owner(
                    api_version=kind.kind.api_version, kind=kind.kind.kind, name=job.name, uid=job.uid
                )
                after = msgspec.structs.replace(state, left=owner)
                self._resting({stream}, name)
                self._depend(stream, state, after)
                return after
        return state

    def _workload_of(self, job: str) -> bool:
        """Whether a job, given by its stream, has a Workload."""
        return any(self.workloads[one].local is not None for one in self.dependents(job) if one in self.workloads)

    def _at_rest(self, stream: str, state: WorkloadState) -> WorkloadState:
        """Return the state of a Workload that is gone without the job that it left, once that rests, or is none of
        ours. Until nothing of it is on a cluster the job's next Workload has to know: that of an elastic job has
        another name."""
        if state.left is None:
            return state
        waits = state.gone or not self._workload_of(self.stream_of_job(state))
        if waits and state.local is None and (state.on_clusters or self._says_that_it_runs(state)):
            return state
        after = msgspec.structs.replace(state, left=None)
        self._depend(stream, state, after)
        return after

    def _says_that_it_runs(self, state: WorkloadState) -> bool:
        """Whether the status of the job of a Workload, which runs on workers alone, says that it runs."""
        job = self.job_of(state)
        adapter = self.policy.adapters.get(state.owner.gvk) if state.owner is not None else None
        if job is None or adapter is None or job.managed_by != self.policy.controller_name:
            return False
        return adapter.delegates and adapter.relays and not (job.inactive or job.deleting or job.finished)

    def _over(self, stream: str, rested: set[str]) -> None:
        """Remember what the end of a Workload rests on, while something else is known by the Workload's own events."""
        if not rested:
            return
        self._rested.setdefault(stream, set()).update(rested)
        if len(self._rested) > self._looked_through:
            needed = self.needed_streams
            self._rested = {over: on for over, on in self._rested.items() if over in needed}
            self._looked_through = 2 * len(self._rested) + _FEW

    def _depend(self, stream: str, before: WorkloadState | None, after: WorkloadState | None) -> None:
        old, new = self.stream_of_job(before), self.stream_of_job(after)
        if old == new:
            return
        if old:
            dependents = self._dependents.get(old, set())
            dependents.discard(stream)
            if not dependents:
                self._dependents.pop(old, None)
        if new:
            self._dependents.setdefault(new, set()).add(stream)

    def _moved(self, cluster: str, uid: str, stream: str) -> None:
        """Take the copy of an elastic job from the slice that had it when it is seen as that of another one."""
        before = self.stream_of_remote_job(cluster, uid)
        if before and before != stream and before in self.workloads:
            self._took_from.setdefault(before, set()).add(stream)
            self._keep(before, fold_moved(self.workloads[before], cluster, uid))
            self._enqueue(before)

    def _share(self, recorded: Recorded) -> None:
        """Show a copy that several Workloads have, or that it is gone, to the others."""
        event, cluster = recorded.event, recorded.cluster
        if type(event) is observations.RemoteJobObserved and event.shared:
            job = job_stream(event.kind, event.namespace, event.name)
            self._shared.setdefault(job, {})[cluster] = recorded
            having = {one for one in self._dependents.get(job, ()) if self._has(one, event.shared)}
            sharers = self._sharers.setdefault((cluster, event.uid), set())
            sharers |= having
        elif type(event) is observations.RemoteJobGone and (cluster, event.uid) in self._sharers:
            job = job_stream(event.kind, event.namespace, event.name)
            known = self._shared.get(job, {}).get(cluster)
            if known is not None and getattr(known.event, "uid", "") == event.uid:
                del self._shared[job][cluster]
                if not self._shared[job]:
                    del self._shared[job]
            sharers = self._sharers.pop((cluster, event.uid))
        else:
            return
        for other in sorted(sharers - {recorded.stream}):
            if other in self.workloads:
                self._took_from.setdefault(other, set()).add(recorded.stream)
                self._keep(other, fold_remote(self.workloads[other], event, recorded))
                self._enqueue(other)

    def _wake_slices(self, state: WorkloadState) -> None:
        """Have the other Workloads of an elastic job looked at, also after one that is gone without another in its
        place."""
        if is_slice(state) or state.left is not None:
            for other in sorted(self._siblings(state)):
                self._wake(other)

    def _wake(self, stream: str) -> None:
        """Have a Workload looked at that knows of what has changed, unless nothing is left to do about it: an elastic
        job may have thousands of slices that were replaced."""
        state = self.workloads.get(stream)
        if state is None or (state.local is not None and state.local.deleting) or not self.is_over(state):
            self._enqueue(stream)

    def _wake_components(self, before: WorkloadState | None, after: WorkloadState) -> None:
        """Have the other Workloads of a job looked at where what they go by has changed, and only then."""
        if self.composed(before or after) and standing(before) != standing(after):
            for other in sorted(self._siblings(before or after) | self._siblings(after)):
                self._enqueue(other)

    def _shown(self, stream: str, before: WorkloadState | None, state: WorkloadState) -> WorkloadState:
        """Return a Workload with the copies that its job has already, when it is seen for the first time."""
        if before is not None and before.local is not None:
            return state
        for other in sorted(self._siblings(state) - {stream}):
            known = self.workloads.get(other)
            if known is not None and known.left is not None and not known.gone:
                alone = msgspec.structs.replace(known, left=None)  # a stray's: the job is this Workload's
                self._depend(other, known, alone)
                self._keep(other, alone)
        for cluster, seen in sorted(self._shared.get(self.stream_of_job(state), {}).items()):
            event = seen.event
            if isinstance(event, observations.RemoteJobObserved) and _is_of(state, event.shared):
                self._sharers.setdefault((cluster, event.uid), set()).add(stream)
                self._took_from.setdefault(stream, set()).add(seen.stream)
                state = fold_remote(state, event, seen)
        return state

    def _has(self, stream: str, uid: str) -> bool:
        return stream in self.workloads and _is_of(self.workloads[stream], uid)

    def components_of(self, state: WorkloadState) -> tuple[WorkloadState, ...]:
        """Return the other Workloads of a job that has several, and those that are gone and know of a copy of it; none
        of any other.
        """
        copies = [(name, one.job) for name, one in state.remotes.items() if one.job is not None and one.job.shared]
        found: set[str] = set()
        for cluster, copy in copies:
            job = job_stream(copy.kind, copy.namespace, copy.name)
            found |= {one for one in self._dependents.get(job, ()) if self._has(one, copy.shared)}
            found |= self._sharers.get((cluster, copy.uid), set()) | {self.stream_of_remote_job(cluster, copy.uid)}
        owner = state.owner
        if owner is not None and self.composed(state):
            found |= {one for one in self._siblings(state) if self._has(one, owner.uid)}
        others = (self.workloads[one] for one in sorted(found) if one in self.workloads)
        return tuple(other for other in others if (other.namespace, other.name) != (state.namespace, state.name))


def _is_of(state: WorkloadState, uid: str) -> bool:
    return state.owner is not None and state.owner.uid == uid
