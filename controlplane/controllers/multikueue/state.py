"""Folds one Workload: what is known of it on the management cluster and of its copies, and which writes are open.

In: the events of `workload/NS/NAME`, in order. Out: `WorkloadState`, a value. A write is open from its decision until
its target is seen to change (whatever the change was: then it is decided anew from what is there) or until an API
server refused it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue import events, observations
from controlplane.kube.conditions import Condition
from controlplane.log.event import Recorded
from controlplane.runtime import writes
from controlplane.runtime.streams import StreamFold
from controlplane.runtime.writes import OpenWrites, closed, dropped, opened, refused, without


class RepeatedWriteFailure(writes.WriteFailure, frozen=True):
    """The last refusal of a write to a target, and since when it has been refused."""

    since: datetime

    @property
    def decides_nothing(self) -> bool:
        """Whether it is only the API server's own failure: an error, or too much to do. It does not answer for the
        attempts before."""
        return self.code == 429 or self.code >= 500


class Remote(msgspec.Struct, frozen=True):
    """What is known to exist on one worker. `admitted_at` is the position at which we first saw the clone Admitted,
    `finished_at` when we first saw it Finished. `clone_version` and `job_version` are set while what is there cannot be
    read: its resourceVersion, while `clone` and `job` are what could be read last."""

    clone: observations.CloneObserved | None = None
    job: observations.RemoteJobObserved | None = None
    admitted_at: int = 0
    finished_at: datetime | None = None
    clone_version: str = ""
    job_version: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing of ours is there."""
        return self.clone is None and self.job is None

    @property
    def finished(self) -> Condition | None:
        """The true Finished condition of the clone."""
        condition = self.clone.condition("Finished") if self.clone is not None else None
        return condition if condition is not None and condition.status == "True" else None


class WorkloadState(OpenWrites[events.WorkloadWrite, RepeatedWriteFailure], StreamFold):
    """A Workload, its copies and its open writes.

    `attempt` counts dispatch attempts; one is `dispatching` from its first nomination until the Workload loses quota or
    is evicted. `round` is that of a dispatcher that asks a few clusters at a time. `winner` is the cluster chosen in it,
    `refused` the clusters that cannot have it in this attempt,
    `job_seen` where its job was seen. `relayed` is the status that was last written to the user's job, as it was on the
    worker. `returned`: the clusters that came back with a copy of it, and when; `judged`: the verdict on each.
    `unsure`: where the job may have been created although the attempt ended before that was seen, and its kind;
    `runs_for`: the UID of the job whose copies these are. `slice_of`: the elastic job of which this was a slice, until
    another one took its place. `marks`: where in the log it came to be as it is
    (`controlplane.controllers.multikueue.marks`)."""

    namespace: str
    name: str
    version: int = 0
    position: int = 0
    local: observations.WorkloadObserved | None = None
    gone: bool = False
    remotes: dict[str, Remote] = {}
    attempt: int = 0
    dispatching: bool = False
    round: int = 0
    round_began: datetime | None = None
    winner: str = ""
    refused: dict[str, events.ClusterRefused] = {}
    job_seen: frozenset[str] = frozenset()
    orphan_since: datetime | None = None
    returned: dict[str, datetime] = {}
    judged: dict[str, str] = {}
    unsure: dict[str, str] = {}
    runs_for: str = ""
    slice_of: observations.Owner | None = None
    relayed: str = ""
    relayed_at: datetime | None = None
    marks: Mapping[str, int] = {}

    @property
    def owner(self) -> observations.Owner | None:
        """The user's job; of a slice that was replaced also when its Workload is gone."""
        return self.local.owner if self.local is not None else self.slice_of

    @property
    def settled(self) -> bool:
        """Whether nothing more can come of it: no object anywhere, no open write."""
        return self.local is None and not self.remotes and not self.effects and not self.unsure

    def remote(self, cluster: str) -> Remote:
        """Return what is on a cluster; empty if nothing is."""
        return self.remotes.get(cluster, _NOTHING)

    def concerns(self, cluster: str) -> bool:
        """Whether what becomes of a cluster can matter: not if another one has the Workload, and nothing of it was left
        there.
        """
        placed = self.local.cluster_name if self.local is not None else ""
        return not placed or placed == cluster or cluster in self.remotes or cluster in self.unsure


_NOTHING = Remote()
_OUR_JOB = f"{MANAGEMENT}/Job"
_replace = msgspec.structs.replace


def fold(state: WorkloadState, recorded: Recorded) -> WorkloadState:
    """Return the state after one more event of the Workload's stream."""
    event, state = recorded.event, state.folded_to(recorded)
    match event:
        case observations.WorkloadObserved():
            return _fold_local(state, event)
        case observations.WorkloadGone():
            if state.local is not None and state.local.uid != event.uid:
                return state
            return _replace(_end_attempt(closed(state, f"{MANAGEMENT}/Workload")), local=None, gone=True)
        case (
            observations.CloneObserved()
            | observations.CloneGone()
            | observations.RemoteJobObserved()
            | observations.RemoteJobGone()
        ):
            return _fold_remote(state, event, recorded)
        case events.EffectFailed():
            return _fold_failure(state, event, recorded)
        case events.WorkloadWrite():
            return _fold_write(state, event, recorded)
        case events.AttemptBegun() | events.WinnerChosen() | events.WinnerReleased():
            return _fold_choice(state, event)
        case events.ClusterRefused():
            return _fold_refusal(state, event)
        case events.CopyJudged():
            return _fold_verdict(state, event)
        case events.EffectUnneeded():
            return _fold_unneeded(state, event)
        case _:
            return state


def fold_job(
    state: WorkloadState, before: observations.JobObserved | None, after: observations.JobObserved | None
) -> WorkloadState:
    """Return the state after the user's job was seen to change: its events are on a stream of their own.

    A relay was carried out if the status changed with it; if only something else did, our write met a conflict.
    """
    effect = state.effects.get(_OUR_JOB)
    relayed = state.relayed
    if effect is not None and isinstance(effect.decision, events.StatusRelayDecided):
        changed = before is None or after is None or before.status != after.status
        copied = changed and not effect.decision.mark_suspended and not effect.decision.drain
        relayed = effect.decision.status if copied else ""
    return _replace(closed(state, _OUR_JOB), relayed=relayed)


def without_write(state: WorkloadState, target: str) -> WorkloadState:
    """Return the state without the open write to a target, which was overtaken before it was recorded."""
    return dropped(state, target)


def fold_return(state: WorkloadState, cluster: str, at: datetime) -> WorkloadState:
    """Return the state after a lost cluster came back on which a copy was known: what it shows now has to be judged."""
    if cluster not in state.remotes:
        return state
    judged = {name: verdict for name, verdict in state.judged.items() if name != cluster}
    return _replace(state, returned={**state.returned, cluster: at}, judged=judged)


def fold_unreadable(state: WorkloadState, cluster: str, seen: observations.ObservationRefused) -> WorkloadState:
    """Return the state after a copy was seen that cannot be read any more: it is still the same object, and can be
    removed as it is.
    """
    remote = state.remote(cluster)
    if remote.clone is not None and remote.clone.uid == seen.uid:
        remote, target = _replace(remote, clone_version=seen.resource_version), f"{cluster}/Workload"
    elif remote.job is not None and remote.job.uid == seen.uid:
        remote, target = _replace(remote, job_version=seen.resource_version), f"{cluster}/Job"
    else:
        return state
    return _replace(closed(state, target), remotes={**state.remotes, cluster: remote})


def fold_listed(state: WorkloadState, cluster: str, kinds: Collection[str]) -> WorkloadState:
    """Return the state after kinds of jobs were listed on a cluster: what was not seen there now was never created."""
    if state.unsure.get(cluster) not in kinds:
        return state
    return _replace(state, unsure={name: kind for name, kind in state.unsure.items() if name != cluster})


def _fold_verdict(state: WorkloadState, event: events.CopyJudged) -> WorkloadState:
    """Keep a verdict; a copy that goes on running is from then on one like any other."""
    if event.verdict in ("Adopt", "Keep"):
        return _without_return(state, event.cluster)
    return _replace(state, judged={**state.judged, event.cluster: event.verdict})


def _without_return(state: WorkloadState, cluster: str) -> WorkloadState:
    return _replace(
        state,
        returned={name: at for name, at in state.returned.items() if name != cluster},
        judged={name: verdict for name, verdict in state.judged.items() if name != cluster},
    )


def _fold_local(state: WorkloadState, seen: observations.WorkloadObserved) -> WorkloadState:
    before = state.local
    state = closed(state, f"{MANAGEMENT}/Workload")
    if before is not None and before.uid != seen.uid:
        # Another object of the same name: nothing that was decided for the old one holds.
        state = _end_attempt(state)
    if state.dispatching and (not seen.is_true("QuotaReserved") or seen.is_true("Evicted")):
        state = _end_attempt(state)
    return _replace(state, local=seen, gone=False, orphan_since=None, slice_of=seen.owner if seen.replaced else None)


def _fold_refusal(state: WorkloadState, event: events.ClusterRefused) -> WorkloadState:
    """Leave a cluster out. What it said against the job led to this, and counts no more when it is asked again after
    its pause.
    """
    target = f"{event.cluster}/Job"
    state = _withdrawn(state, target, f"{event.cluster}/Workload")
    said = state.trouble.get(target)
    if said is not None and said.action == events.JobCreationDecided.__name__:
        state = _replace(state, trouble=without(state.trouble, target))
    winner = "" if state.winner == event.cluster else state.winner
    return _replace(state, winner=winner, refused={**state.refused, event.cluster: event})


def _end_attempt(state: WorkloadState) -> WorkloadState:
    trouble = {target: failure for target, failure in state.trouble.items() if failure.action == "RemovalDecided"}
    state = _withdrawn(state, *state.effects)
    return _replace(state, dispatching=False, winner="", refused={}, job_seen=frozenset(), trouble=trouble)


def _withdrawn(state: WorkloadState, *targets: str) -> WorkloadState:
    """Return the state without the open creations of these targets: what they were decided for is over.

    One that was carried out all the same shows in the watch, and is then a copy that nobody wants.
    """
    creations = (events.CloneDecided, events.JobCreationDecided)
    over = {t: e.decision for t in targets if (e := state.effects.get(t)) and isinstance(e.decision, creations)}
    unsure = {d.cluster: d.kind for d in over.values() if isinstance(d, events.JobCreationDecided)}
    if not over:
        return state
    effects = {key: effect for key, effect in state.effects.items() if key not in over}
    return _replace(state, effects=effects, unsure={**state.unsure, **unsure})


def _fold_remote(
    state: WorkloadState,
    event: observations.CloneObserved
    | observations.CloneGone
    | observations.RemoteJobObserved
    | observations.RemoteJobGone,
    recorded: Recorded,
) -> WorkloadState:
    cluster = recorded.cluster
    remote = _remote_after(state.remote(cluster), event, recorded)
    if isinstance(event, (observations.CloneObserved, observations.CloneGone)):
        state = closed(state, f"{cluster}/Workload")
    else:
        state = closed(state, f"{cluster}/Job")
        if isinstance(event, observations.RemoteJobObserved):
            state = _replace(state, job_seen=state.job_seen | {cluster})
        if cluster in state.unsure:
            state = _replace(state, unsure={name: kind for name, kind in state.unsure.items() if name != cluster})
    remotes = {name: known for name, known in state.remotes.items() if name != cluster}
    if not remote.empty:
        remotes[cluster] = remote
    else:
        # A copy that is made there from now on has not lost anything.
        state = _replace(_without_return(state, cluster), job_seen=state.job_seen - {cluster})
    orphan_since = state.orphan_since
    if state.local is None:
        orphan_since = (orphan_since or recorded.recorded_at) if remotes else None
    return _replace(state, remotes=remotes, orphan_since=orphan_since)


def _remote_after(
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
                admitted_at=admitted_at if event.is_true("Admitted") else 0,
                finished_at=finished_at if event.is_true("Finished") else None,
                clone_version="",
            )
        case observations.CloneGone() if remote.clone is not None and remote.clone.uid == event.uid:
            return _replace(remote, clone=None, admitted_at=0, finished_at=None, clone_version="")
        case observations.RemoteJobObserved():
            return _replace(remote, job=event, job_version="")
        case observations.RemoteJobGone() if remote.job is not None and remote.job.uid == event.uid:
            return _replace(remote, job=None, job_version="")
        case _:
            return remote


def _fold_write(state: WorkloadState, decision: events.WorkloadWrite, recorded: Recorded) -> WorkloadState:
    state = opened(state, decision, recorded)
    match decision:
        case events.NominationDecided():
            if not state.dispatching:
                state = _begun(state, decision.attempt)
            if decision.round > state.round:
                state = _replace(state, round=decision.round, round_began=recorded.recorded_at)
            return state
        case events.StatusRelayDecided():
            return _replace(state, relayed_at=recorded.recorded_at)
        case events.JobCreationDecided():
            owner = state.local.owner if state.local is not None else None
            return _replace(state, runs_for=owner.uid if owner is not None else "")
        case _:
            return state


def _fold_choice(
    state: WorkloadState, event: events.AttemptBegun | events.WinnerChosen | events.WinnerReleased
) -> WorkloadState:
    match event:
        case events.AttemptBegun():
            return _begun(state, event.attempt)
        case events.WinnerChosen():
            return _replace(state, winner=event.cluster)
        case events.WinnerReleased():
            return _replace(_withdrawn(state, f"{event.cluster}/Job"), winner="")


def _begun(state: WorkloadState, attempt: int) -> WorkloadState:
    present = frozenset(name for name, remote in state.remotes.items() if remote.job is not None)
    return _replace(state, attempt=attempt, dispatching=True, job_seen=present, round=0, round_began=None)


def _fold_unneeded(state: WorkloadState, event: events.EffectUnneeded) -> WorkloadState:
    effect = state.effects.get(event.target)
    if effect is not None and isinstance(effect.decision, events.StatusRelayDecided):
        state = _replace(state, relayed=effect.decision.status)
    return closed(state, event.target)


def failure_after(
    before: RepeatedWriteFailure | None, event: events.EffectFailed, recorded: Recorded
) -> RepeatedWriteFailure:
    """Return the failure of a write after one more refusal of it."""
    since = before.since if before is not None and before.action == event.action else recorded.recorded_at
    return RepeatedWriteFailure(
        event.failures, event.code, event.error, event.message, event.retry_at, event.action, since
    )


def _fold_failure(state: WorkloadState, event: events.EffectFailed, recorded: Recorded) -> WorkloadState:
    failure = failure_after(state.trouble.get(event.target), event, recorded)
    effect = state.effects.get(event.target)
    if effect is not None and isinstance(effect.decision, events.JobCreationDecided) and failure.decides_nothing:
        state = _replace(state, unsure={**state.unsure, effect.decision.cluster: effect.decision.kind})
    return refused(state, event, failure)
