"""Begins and ends attempts to dispatch a Workload, in its state: what was decided for one is over with it.

In: a Workload's state (`controlplane.controllers.multikueue.workload_state`). Out: the next one. Pure."""

from __future__ import annotations

import msgspec

from controlplane.controllers.multikueue import events, observations
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import Remote, is_of_another
from controlplane.controllers.multikueue.told import made_for, told_again
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.runtime import writes
from controlplane.runtime.writes import without

_replace = msgspec.structs.replace


def closed(state: WorkloadState, target: str) -> WorkloadState:
    """Return the state after something that is written to was seen to change: whatever was open is decided anew, and
    what would have changed nothing may change something now."""
    if target in state.unneeded:
        state = _replace(state, unneeded=without(state.unneeded, target))
    return writes.closed(state, target)


def begun(state: WorkloadState, attempt: int) -> WorkloadState:
    """Return the state at the beginning of an attempt."""
    present = frozenset(name for name, remote in state.remotes.items() if remote.job is not None)
    state = _replace(state, attempt=attempt, dispatching=True, job_seen=present, round=0, round_began=None)
    return _replace(state, relayed_at=None)


def end_attempt(state: WorkloadState) -> WorkloadState:
    """Return the state at the end of an attempt: what was decided for it is over."""
    trouble = {target: failure for target, failure in state.trouble.items() if failure.action == "RemovalDecided"}
    state = withdrawn(state, *state.effects)
    # A name that is taken is as likely taken in the next attempt: its pause goes on.
    refused = {name: said for name, said in state.refused.items() if said.reason is WorkloadReason.JOB_NAME_TAKEN}
    return _replace(state, dispatching=False, winner="", refused=refused, job_seen=frozenset(), trouble=trouble)


def withdrawn(state: WorkloadState, *targets: str) -> WorkloadState:
    """Return the state without the open creations of these targets, and openings: what they were decided for is over.

    One that was carried out all the same shows in the watch, and is then a copy that nobody wants.
    """
    creations = (events.CloneDecided, events.JobCreationDecided, events.GateOpeningDecided)
    over = {t: e.decision for t in targets if (e := state.effects.get(t)) and isinstance(e.decision, creations)}
    unsure = {d.cluster: d.kind for d in over.values() if isinstance(d, events.JobCreationDecided)}
    if not over:
        return state
    effects = {key: effect for key, effect in state.effects.items() if key not in over}
    return _replace(state, effects=effects, unsure={**state.unsure, **unsure})


def opening_shown(state: WorkloadState, cluster: str) -> WorkloadState:
    """Return the state once a cluster told by its copy, or by a no to the first try, whether the gate there is open:
    the write was decided on an older version, so what is not open then is not opened by it any more."""
    return _replace(state, opening=without(state.opening, cluster)) if state.opening else state


def without_openings(state: WorkloadState) -> WorkloadState:
    """Return the state without the open openings of gates: one that is under way may be carried out, no other is."""
    opening = [key for key, one in state.effects.items() if isinstance(one.decision, events.GateOpeningDecided)]
    return withdrawn(state, *opening)


def without_others(state: WorkloadState) -> WorkloadState:
    """Return the state of a Workload whose job is known from now on, without jobs of other names that have the labels
    of its copies: only the name tells them from it.
    """
    owner, remotes = state.owner, dict(state.remotes)
    others = [name for name, one in remotes.items() if one.job is not None and is_of_another(owner, one.job)]
    if not others:
        return state
    for name in others:
        remotes[name] = _replace(remotes[name], job=None, job_version="")
    return _replace(
        state,
        remotes={name: one for name, one in remotes.items() if not one.empty},
        ended={name: status for name, status in state.ended.items() if name not in others},
        job_seen=state.job_seen.difference(others),
    )


def created(state: WorkloadState, cluster: str, remote: Remote) -> tuple[WorkloadState, Remote]:
    """Return the state, and what is on a cluster, once the clone shows that was to be created there: of what it was
    made, and how often so."""
    clone, old, going = remote.clone, state.remote(cluster).clone, state.effects.get(f"{cluster}/Workload")
    known = clone is None or (old is not None and old.uid == clone.uid)
    if known or going is None or not isinstance(going.decision, events.CloneDecided):
        return state, remote
    times = told_again(state.cloned.get(cluster), made_for(going.decision), going.decided_at)
    state = _replace(state, cloned={**state.cloned, cluster: times})
    return state, _replace(remote, made_of=going.decision.template)


def copied(
    state: WorkloadState, event: observations.RemoteJobObserved | observations.RemoteJobGone, cluster: str
) -> WorkloadState:
    """Return the state after a job's copy on a cluster was seen, or seen to be gone."""
    # Of a group, another pod may have become the job since its copy was decided on.
    state = closed(closed(state, f"{cluster}/Job"), f"{cluster}/Job/{event.name}")
    if isinstance(event, observations.RemoteJobObserved):
        ended = {name: status for name, status in state.ended.items() if name != cluster}
        ended |= {cluster: event.status} if event.finished else {}
        ends = {**state.ends, cluster: event.end} if event.end is not None else state.ends
        state = _replace(state, job_seen=state.job_seen | {cluster}, ended=ended, ends=ends)
    return _replace(state, unsure=without(state.unsure, cluster)) if cluster in state.unsure else state
