"""Folds one Workload: what is seen, decided, written and refused.

In: the events of `workload/NS/NAME`, in order. Out: `WorkloadState`, a value
(`controlplane.controllers.multikueue.workload_state`). Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue import events, observations
from controlplane.controllers.multikueue.attempts import (
    begun,
    closed,
    copied,
    created,
    end_attempt,
    opening_shown,
    withdrawn,
    without_openings,
    without_others,
)
from controlplane.controllers.multikueue.failures import failure_after
from controlplane.controllers.multikueue.remotes import (
    Remote,
    is_member,
    is_of_another,
    remote_after,
    seated,
    still_to_go,
)
from controlplane.controllers.multikueue.told import repeated, spelled, told_after, told_again
from controlplane.controllers.multikueue.workload_state import Relayed, WorkloadState
from controlplane.log.event import Recorded
from controlplane.runtime.writes import dropped, is_late, opened, refused, without
from controlplane.values import ByClass

_replace = msgspec.structs.replace


def fold(state: WorkloadState, recorded: Recorded) -> WorkloadState:
    """Return the state after one more event of the Workload's stream."""
    after = _FOLDS[type(recorded.event)](state.folded_to(recorded), recorded.event, recorded)
    if after.unsure is not state.unsure and after.unsure.keys() - state.unsure.keys():
        after = _replace(after, unsure_at=recorded.recorded_at)
    return after


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


def fold_absent(state: WorkloadState, recorded: Recorded) -> WorkloadState:
    """Return the state after a cluster said, on another stream, that it does not have the copy."""
    positions = {**state.positions, f"absent/{recorded.cluster}": recorded.position}
    return _replace(state, absent=state.absent | {recorded.cluster}, positions=positions)


def _fold_gone(state: WorkloadState, event: observations.WorkloadGone) -> WorkloadState:
    if state.local is not None and state.local.uid != event.uid:
        return state
    left = state.local.owner if state.local is not None and state.slice_of is None else None
    return _replace(end_attempt(closed(state, f"{MANAGEMENT}/Workload")), local=None, gone=True, left=left, told=None)


def _fold_verdict(state: WorkloadState, event: events.CopyJudged) -> WorkloadState:
    """Keep a verdict; a copy that goes on running is from then on one like any other."""
    if event.verdict in ("Adopt", "Keep"):
        return without_return(state, event.cluster)
    return _replace(state, judged={**state.judged, event.cluster: event.verdict})


def without_return(state: WorkloadState, cluster: str) -> WorkloadState:
    """Return the state without what was to be judged of a cluster that came back."""
    return _replace(
        state,
        returned={name: at for name, at in state.returned.items() if name != cluster},
        judged={name: verdict for name, verdict in state.judged.items() if name != cluster},
    )


def _fold_local(state: WorkloadState, seen: observations.WorkloadObserved) -> WorkloadState:
    before = state.local
    state = closed(state, f"{MANAGEMENT}/Workload")
    if before is not None and before.owner is not None and before.owner.uid in seen.owners:
        seen = _replace(seen, owner=before.owner)  # of the owners of a group the one stays that its job is known by
    if before is not None and before.uid != seen.uid:
        # Another object of the same name: nothing that was decided for the old one holds.
        state = _replace(end_attempt(state), ended={}, ends={}, told=None, cloned={}, absent=frozenset())
    if state.dispatching and (not seen.is_true("QuotaReserved") or seen.is_true("Evicted")):
        state = end_attempt(state)
    winner = state.winner or (before.cluster_name if before is not None and seen.lost_name(before) else "")
    of = seen.owner if seen.replaced else None
    unknown = state.owner is None
    if before is not None and before.owner != seen.owner:
        state = _replace(state, relayed="")  # what was written was the status of another job, or of another pod
    state = _replace(state, local=seen, gone=False, orphan_since=None, slice_of=of, winner=winner)
    return _seated(without_others(state) if unknown else state)


def _seated(state: WorkloadState) -> WorkloadState:
    """Return the state with the copy of the owner as the job on each cluster, and the others of its group beside it.

    What was being written to a copy under the part that it had is decided anew."""
    for name, remote in state.remotes.items():
        after = seated(remote, state.owner)
        if after is remote:
            continue
        state = _replace(state, remotes={**state.remotes, name: after})
        for target in (f"{name}/Job", *([f"{name}/Job/{after.job.name}"] if after.job is not None else [])):
            state = closed(withdrawn(state, target), target)
    return state


def _fold_refusal(state: WorkloadState, event: events.ClusterRefused) -> WorkloadState:
    """Leave a cluster out. What it said against the job led to this, and counts no more when it is asked again after
    its pause.
    """
    target = f"{event.cluster}/Job"
    state = withdrawn(state, *(one for one in state.effects if one.startswith(f"{event.cluster}/")))
    said = state.trouble.get(target)
    if said is not None and said.action == events.JobCreationDecided.__name__:
        state = _replace(state, trouble=without(state.trouble, target))
    winner = "" if state.winner == event.cluster else state.winner
    return _replace(state, winner=winner, refused={**state.refused, event.cluster: event})


def fold_remote(
    state: WorkloadState,
    event: observations.CloneObserved
    | observations.CloneGone
    | observations.RemoteJobObserved
    | observations.RemoteJobGone,
    recorded: Recorded,
) -> WorkloadState:
    """Return the state after something of it was seen on a worker, or seen to be gone."""
    cluster = recorded.cluster
    if is_of_another(state.owner, event):
        return state
    if is_member(state.remote(cluster), state.owner, event):
        return _fold_member_copy(state, event, recorded)
    remote = remote_after(state.remote(cluster), event, recorded)
    if isinstance(event, (observations.CloneObserved, observations.CloneGone)):
        state, remote = created(state, cluster, remote)
        going = state.effects.get(f"{cluster}/Workload")
        if going is None or not still_to_go(going.decision, event):
            state = closed(state, f"{cluster}/Workload")
        state = opening_shown(state, cluster)
    else:
        state = copied(state, event, cluster)
    if remote.empty:
        # A copy that is made there from now on has not lost anything.
        state = _replace(without_return(state, cluster), job_seen=state.job_seen - {cluster})
    return _with_remote(state, remote, recorded)


def _with_remote(state: WorkloadState, remote: Remote, recorded: Recorded) -> WorkloadState:
    remotes = {name: known for name, known in state.remotes.items() if name != recorded.cluster}
    if not remote.empty:
        remotes[recorded.cluster] = remote
    orphan_since = state.orphan_since
    if state.local is None:
        orphan_since = (orphan_since or recorded.recorded_at) if remotes else None
    return _replace(state, remotes=remotes, orphan_since=orphan_since)


def _fold_member_copy(
    state: WorkloadState, event: observations.ObjectGone | observations.Observation, recorded: Recorded
) -> WorkloadState:
    cluster, name = recorded.cluster, event.name
    state, remote = closed(state, f"{cluster}/Job/{name}"), state.remote(cluster)
    members = dict(remote.members)
    if isinstance(event, observations.RemoteJobObserved):
        members[name] = event
    elif name in members and members[name].uid == event.uid:
        del members[name]
    unsure = {other: kind for other, kind in state.unsure.items() if other != cluster}
    return _with_remote(_replace(state, unsure=unsure), _replace(remote, members=members), recorded)


def _fold_write(state: WorkloadState, decision: events.WorkloadWrite, recorded: Recorded) -> WorkloadState:
    if isinstance(decision, events.GateOpeningDecided):
        state = without_openings(state)
        state = _replace(state, opening={**state.opening, decision.cluster: recorded.recorded_at})
    state = opened(state, decision, recorded)
    if not decision.part and not isinstance(decision, events.RemovalDecided):
        again = repeated(state.repeats.get(decision.target), decision, recorded.recorded_at)
        state = _replace(state, repeats={**state.repeats, decision.target: again})
    match decision:
        case events.NominationDecided():
            if not state.dispatching:
                state = begun(state, decision.attempt)
            if decision.round > state.round:
                state = _replace(state, round=decision.round, round_began=recorded.recorded_at)
            return state
        case events.StatusRelayDecided() if decision.member:
            return state
        case events.StatusRelayDecided():
            return _replace(state, relayed_at=recorded.recorded_at)
        case events.JobCreationDecided():
            owner = state.local.owner if state.local is not None else None
            return _replace(state, runs_for=owner.uid if owner is not None else "")
        case events.CloneUpdateDecided() if decision.cluster in state.remotes:
            remote = state.remote(decision.cluster)
            mended = told_again(remote.mended, spelled(decision.priority), recorded.recorded_at)
            return _replace(state, remotes={**state.remotes, decision.cluster: _replace(remote, mended=mended)})
        case _:
            return state


def _fold_choice(
    state: WorkloadState,
    event: events.AttemptBegun | events.GroupPodChosen | events.WinnerChosen | events.WinnerReleased,
) -> WorkloadState:
    match event:
        case events.AttemptBegun():
            return begun(state, event.attempt)
        case events.WinnerChosen():
            return _replace(without_openings(state), winner=event.cluster)
        case events.GroupPodChosen():
            local = _replace(state.local, owner=event.owner) if state.local is not None else None
            return _seated(_replace(state, local=local, relayed=""))
        case events.WinnerReleased():
            jobs = [target for target in state.effects if target.startswith(f"{event.cluster}/Job")]
            return _replace(withdrawn(state, *jobs), winner="")


def _fold_unneeded(state: WorkloadState, event: events.EffectUnneeded, recorded: Recorded) -> WorkloadState:
    effect = state.effects.get(event.target)
    if event.action == events.GateOpeningDecided.__name__:
        state = opening_shown(state, event.target.removesuffix("/Workload"))
    if is_late(state, event.target, recorded):
        return state
    if effect is not None and isinstance(effect.decision, events.StatusRelayDecided):
        relay = effect.decision
        if relay.member:
            last = Relayed(relay.status, effect.decided_at)
            state = _replace(state, relayed_members={**state.relayed_members, relay.member: last})
        else:
            told = told_after(state.told, relay, effect.decided_at, unneeded=True)
            state = _replace(state, relayed=relay.status, told=told)
    state = closed(state, event.target)
    return _replace(state, unneeded={**state.unneeded, event.target: effect.decision}) if effect is not None else state


def _fold_failure(state: WorkloadState, event: events.EffectFailed, recorded: Recorded) -> WorkloadState:
    if is_late(state, event.target, recorded):
        return state
    failure = failure_after(state.trouble.get(event.target), event, recorded)
    effect = state.effects.get(event.target)
    if effect is not None and isinstance(effect.decision, events.JobCreationDecided) and failure.decides_nothing:
        state = _replace(state, unsure={**state.unsure, effect.decision.cluster: effect.decision.kind})
    if event.action == events.GateOpeningDecided.__name__:
        cluster = event.target.removesuffix("/Workload")
        state = opening_shown(state, cluster)
        if event.sent_before:
            state = _replace(state, opening={**state.opening, cluster: recorded.recorded_at})
    # What is refused has pauses of its own.
    return refused(_replace(state, repeats=without(state.repeats, event.target)), event, failure)


_FOLDS: ByClass[Callable[[WorkloadState, Any, Recorded], WorkloadState]] = ByClass(
    {
        observations.WorkloadObserved: lambda state, event, _: _fold_local(state, event),
        observations.WorkloadGone: lambda state, event, _: _fold_gone(state, event),
        observations.CloneObserved: fold_remote,
        observations.CloneGone: fold_remote,
        observations.RemoteJobObserved: fold_remote,
        observations.RemoteJobGone: fold_remote,
        events.EffectFailed: _fold_failure,
        events.WorkloadWrite: _fold_write,
        events.AttemptBegun: lambda state, event, _: _fold_choice(state, event),
        events.GroupPodChosen: lambda state, event, _: _fold_choice(state, event),
        events.WinnerChosen: lambda state, event, _: _fold_choice(state, event),
        events.WinnerReleased: lambda state, event, _: _fold_choice(state, event),
        events.ClusterRefused: lambda state, event, _: _fold_refusal(state, event),
        events.CopyJudged: lambda state, event, _: _fold_verdict(state, event),
        events.EffectUnneeded: _fold_unneeded,
    },
    other=lambda state, event, _: state,
)
