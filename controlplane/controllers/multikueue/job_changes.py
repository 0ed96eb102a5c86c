"""Folds into a Workload what is on other streams than its own: changes of the user's job, and a copy that went over to
another slice, and kinds that were listed on a cluster.

In: a Workload's state, the job before and after. Out: the state with what that settles of its open writes."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue import events, observations
from controlplane.controllers.multikueue.attempts import closed
from controlplane.controllers.multikueue.state import without_return
from controlplane.controllers.multikueue.told import told_after
from controlplane.controllers.multikueue.workload_state import Relayed, WorkloadState

_OUR_JOB = f"{MANAGEMENT}/Job"
_replace = msgspec.structs.replace


def fold_job(
    state: WorkloadState, before: observations.JobObserved | None, after: observations.JobObserved | None
) -> WorkloadState:
    """Return the state after the user's job was seen to change: its events are on a stream of their own.

    A relay was carried out if the status changed with it; if only something else did, our write met a conflict.
    """
    if not (_OUR_JOB in state.effects or _OUR_JOB in state.trouble or _OUR_JOB in state.unneeded):
        return state
    effect = state.effects.get(_OUR_JOB)
    relayed, told = state.relayed, state.told
    if effect is not None and isinstance(effect.decision, events.StatusRelayDecided):
        relayed = _shown_by(effect.decision, before, after)
        if before is not None and after is not None and before.status != after.status:
            told = told_after(told, effect.decision, effect.decided_at)
    return _replace(closed(state, _OUR_JOB), relayed=relayed, told=told)


def fold_member(
    state: WorkloadState, name: str, before: observations.JobObserved | None, after: observations.JobObserved | None
) -> WorkloadState:
    """Return the state after another pod of the user's group was seen to change."""
    target = f"{_OUR_JOB}/{name}"
    effect = state.effects.get(target)
    relayed = state.relayed_members
    if effect is not None and isinstance(effect.decision, events.StatusRelayDecided):
        shown = _shown_by(effect.decision, before, after)
        relayed = {**relayed, name: Relayed(shown, effect.decided_at)}
    elif after is None:
        relayed = {other: last for other, last in relayed.items() if other != name}
    return _replace(closed(state, target), relayed_members=relayed)


def _shown_by(
    relay: events.StatusRelayDecided,
    before: observations.JobObserved | None,
    after: observations.JobObserved | None,
) -> str:
    """Return which status of a copy the user's job shows after a write to it; "" if none, or if the write met a
    conflict.
    """
    changed = before is None or after is None or before.status != after.status
    return relay.status if changed and not (relay.mark_suspended or relay.drain or relay.outcome) else ""


def fold_moved(state: WorkloadState, cluster: str, uid: str) -> WorkloadState:
    """Return the state after the job's copy on a cluster was seen as that of another slice: here it is not any more,
    and nothing was lost.
    """
    remote = state.remote(cluster)
    if remote.job is None or remote.job.uid != uid:
        return state
    remotes = {name: known for name, known in state.remotes.items() if name != cluster}
    left = _replace(remote, job=None, job_version="")
    if not left.empty:
        remotes[cluster] = left
    else:
        state = without_return(state, cluster)
    return _replace(closed(state, f"{cluster}/Job"), remotes=remotes, job_seen=state.job_seen - {cluster})


def fold_left_behind(before: WorkloadState, after: WorkloadState, cluster: str, kind: str) -> WorkloadState:
    """Return the state after a copy was seen to be gone on a cluster where jobs of its kind cannot be seen: the one
    that it was bound to may still run there.
    """
    remote = before.remote(cluster)
    if not remote.binds or remote.job is not None or after.remote(cluster).clone is not None:
        return after
    return _replace(after, unsure={**after.unsure, cluster: kind})


def fold_listed(state: WorkloadState, cluster: str, kinds: Collection[str]) -> WorkloadState:
    """Return the state after kinds of jobs were listed on a cluster: what was not seen there now was never created."""
    if state.unsure.get(cluster) not in kinds:
        return state
    return _replace(state, unsure={name: kind for name, kind in state.unsure.items() if name != cluster})
