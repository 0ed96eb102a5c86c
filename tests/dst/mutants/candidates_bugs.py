"""Deliberate bugs in the candidates' protocol and in the scheduler beside a target: each a patch, undone when its test
ends.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from controlplane.app import scheduler_leadership as scheduling
from controlplane.clusters import connection_watches, history, listing
from controlplane.controllers.candidates.reasons import CandidateReason, TargetReason
from controlplane.controllers.candidates.references import controller as copies
from controlplane.controllers.candidates.source import binding, decide, permits, pod_status, pods, render
from controlplane.controllers.candidates.source import decision_pass as source_turn
from controlplane.controllers.candidates.source import state as source_state
from controlplane.controllers.candidates.source.events import CandidateDropped, PermitGranted
from controlplane.controllers.candidates.source.observations import CandidateBound
from controlplane.controllers.candidates.target import calls
from controlplane.controllers.candidates.target import controller as target
from controlplane.controllers.candidates.target import decide as target_decide
from controlplane.controllers.candidates.target import render as target_render
from controlplane.controllers.candidates.target import state as target_state
from controlplane.controllers.candidates.target.events import (
    BindStarted,
    CandidatePodObserved,
    FinalizerReleased,
    Unreserved,
    Withdrawn,
)
from controlplane.controllers.scheduling.framework.status import SUCCESS, node_statuses
from controlplane.controllers.scheduling.plugins import node_basics, pod_topology_spread
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube.kinds import Request
from controlplane.log.event import Recorded
from controlplane.runtime import effects

# --- the source ------------------------------------------------------------------------------------------------------


def a_lease_is_enough(patch: pytest.MonkeyPatch) -> None:
    def ended(turn: Any, permit: Any, seen: Any) -> None:
        permits._acked(turn, permit, CandidateReason.LEASE_ENDED)

    patch.setattr(permits, "_ended", ended)


def a_successor_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(permits, "predecessor_runs", lambda turn: False)


def a_lost_target_has_no_grace(patch: pytest.MonkeyPatch) -> None:
    def lost_until(self: source_turn.PodContext, cluster: str) -> datetime | None:
        known = self.connections.get(cluster)
        return None if known is None or known.connected else known.lost_since

    patch.setattr(source_turn.PodContext, "lost_until", lost_until)


def never_twice_is_outlived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(source_turn.PodContext, "outlives", True)


def the_losers_stay(patch: pytest.MonkeyPatch) -> None:
    original = source_turn.PodPass.drop

    def drop(self: Any, name: str, reason: CandidateReason) -> None:
        if reason != CandidateReason.ANOTHER_TARGET_WON:
            original(self, name, reason)

    patch.setattr(source_turn.PodPass, "drop", drop)


def a_deleted_pod_leaves_its_candidates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "_drop_all", lambda turn, reason: None)


def a_status_goes_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pod_status, "later", lambda shown, said: said or "Pending")
    patch.setattr(binding, "ended_by_loss", lambda pass_, pod: False)


def a_permit_is_decided_anew(patch: pytest.MonkeyPatch) -> None:
    def resend(turn: Any, permit: Any, seen: Any) -> None:
        if seen is None or seen.permit >= permit.number or not turn.context.in_view(permit.cluster):
            return
        later = msgspec.structs.replace(permit, until=turn.now + turn.context.policy.lease)
        permits._grant(turn, later, seen.resource_version, CandidateReason.PERMIT_OPEN, {})

    patch.setattr(permits, "_resend", resend)


def a_permit_is_in_memory(patch: pytest.MonkeyPatch) -> None:
    original = pods.SourceCandidates.decide

    def remembered(self: Any, stream: str, now: datetime) -> Any:
        decided = original(self, stream, now)
        if any(isinstance(new.event, PermitGranted) for new in decided.events):
            self.sources[stream] = msgspec.structs.replace(self.sources[stream], permits=99)
        return decided

    patch.setattr(pods.SourceCandidates, "decide", remembered)


def a_permit_goes_to_all(patch: pytest.MonkeyPatch) -> None:
    """Who holds a permit is forgotten as soon as another candidate is ready."""
    original = source_state._fold_candidate

    def fold(state: Any, seen: Any, recorded: Recorded) -> Any:
        after = original(state, seen, recorded)
        permit = after.permit
        return msgspec.structs.replace(after, permit=None) if permit and permit.candidate != seen.name else after

    patch.setattr(source_state, "_fold_candidate", fold)


def drops_without_uid(patch: pytest.MonkeyPatch) -> None:
    original = render.render

    def rendered(state: Any, decision: Any, *more: Any) -> Request:
        request = original(state, decision, *more)
        dropped = isinstance(decision, CandidateDropped)
        return replace(request, uid="", resource_version="", owner_label=None) if dropped else request

    patch.setattr(render, "render", rendered)


def a_missing_pod_is_not_minded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "_delegated", lambda turn: None)


# --- the target ------------------------------------------------------------------------------------------------------


def bound_without_a_permit(patch: pytest.MonkeyPatch) -> None:
    def order(state: Any, policy: Any, now: datetime) -> BindStarted | None:
        pod, held = state.pod, state.held
        busy = state.binding is not None or state.bound is not None or target_state.POD in state.effects
        if held is None or pod is None or busy or pod.deleting or pod.node:
            return None
        return BindStarted(
            number=1,
            node=held.node,
            uid=pod.uid,
            resource_version=pod.resource_version,
            before=now + timedelta(seconds=20),
            reason=TargetReason.PERMITTED,
        )

    patch.setattr(calls, "bind_order", order)


def any_permit_will_do(patch: pytest.MonkeyPatch) -> None:
    """A permit for an older reservation counts for the one that is held now."""
    original = target_decide.usable_until

    def aged(state: Any) -> Any:
        seen = state.seen
        if seen is None or seen.permit is None or state.held is None:
            return state
        permit = msgspec.structs.replace(seen.permit, reservation=state.held.number)
        read = state.permit and msgspec.structs.replace(state.permit, reservation=state.held.number)
        return msgspec.structs.replace(state, seen=msgspec.structs.replace(seen, permit=permit), permit=read)

    patch.setattr(target_decide, "usable_until", lambda state, policy: original(aged(state), policy))
    order = calls.bind_order
    patch.setattr(calls, "bind_order", lambda state, policy, now: order(aged(state), policy, now))


def acknowledged_before_the_fence(patch: pytest.MonkeyPatch) -> None:
    original = target_decide._settle_binding

    def settle(turn: Any, binding: Any, seen: Any) -> None:
        if seen.withdrawn > turn.state.withdrawn:
            turn.say(Unreserved(number=binding.number, reason=TargetReason.REVOKED))
            turn.say(Withdrawn(number=seen.withdrawn, reason=TargetReason.WITHDRAWN))
        else:
            original(turn, binding, seen)

    patch.setattr(target_decide, "_settle_binding", settle)


def every_fence_says_the_same(patch: pytest.MonkeyPatch) -> None:
    original = target_render.target_render

    def rendered(state: Any, decision: Any, *more: Any) -> Request:
        request = original(state, decision, *more)
        if type(decision).__name__ == "PodFenced":
            mark = {target_render.FENCE: str(decision.number)}
            return replace(request, body={"metadata": {"annotations": mark}})
        return request

    patch.setattr(target, "target_render", rendered)


def the_finalizer_goes_first(patch: pytest.MonkeyPatch) -> None:
    def let_go(turn: Any, seen: Any, context: Any) -> None:
        if seen.finalizers:
            turn.write(
                FinalizerReleased(uid=seen.uid, resource_version=seen.resource_version, reason=TargetReason.POD_STOPPED)
            )

    patch.setattr(target_decide, "_let_go", let_go)


def nobody_has_to_be_invited(patch: pytest.MonkeyPatch) -> None:
    original = target_decide.judge

    def judge(seen: Any, *more: Any) -> tuple[str, str]:
        reason, message = original(seen, *more)
        return ("", "") if reason == TargetReason.NOT_INVITED else (reason, message)

    patch.setattr(target_decide, "judge", judge)


def what_is_held_is_free(patch: pytest.MonkeyPatch) -> None:
    def node(self: Any) -> str:
        return self.bound.node if self.bound is not None and not self.missing else ""

    patch.setattr(target_state.TargetState, "node", property(node))


def everybody_makes_room(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "may_preempt", lambda state, policy, now: 1)


def late_kinds_are_not_taken_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scheduling.SchedulerTerm, "_late", lambda self: None)


def nodes_are_all_alike(patch: pytest.MonkeyPatch) -> None:
    def filter_all(self: Any, state: Any, pod: Any, snapshot: Snapshot, still: Any) -> Any:
        return node_statuses(len(snapshot))

    for plugin in (node_basics.NodeUnschedulable,):
        patch.setattr(plugin, "filter", lambda self, state, pod, info: SUCCESS)
        patch.setattr(plugin, "filter_all", filter_all)


def pods_are_not_spread(patch: pytest.MonkeyPatch) -> None:
    def filter_all(self: Any, state: Any, pod: Any, snapshot: Snapshot, still: Any) -> Any:
        return node_statuses(len(snapshot))

    plugin = pod_topology_spread.PodTopologySpread
    patch.setattr(plugin, "filter", lambda self, state, pod, info: SUCCESS)
    patch.setattr(plugin, "filter_all", filter_all)


# --- clusters that begin anew ----------------------------------------------------------------------------------------


def an_old_word_counts(patch: pytest.MonkeyPatch) -> None:
    original = source_state._fold_candidate

    def fold(state: Any, seen: Any, recorded: Recorded) -> Any:
        after = original(state, seen, recorded)
        known = after.candidates[seen.name]
        bound = known.bound if isinstance(seen, CandidateBound) else ""
        return msgspec.structs.replace(
            after, candidates={**after.candidates, seen.name: msgspec.structs.replace(known, bound=bound)}
        )

    patch.setattr(source_state, "_fold_candidate", fold)


def what_was_bound_stays_bound(patch: pytest.MonkeyPatch) -> None:
    original = target_state._fold_pod

    def fold(state: Any, event: Any) -> Any:
        after = original(state, event)
        seen = isinstance(event, CandidatePodObserved)
        return msgspec.structs.replace(after, missing=state.missing) if seen else after

    patch.setattr(target_state, "_fold_pod", fold)


def decided_between_lists(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(target.TargetController, "_fold_lists", lambda self, event: None)


def restored_copies_are_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(copies.ReferenceController, "_fold_restored", lambda self, cluster: None)


def a_restore_goes_unnoticed(patch: pytest.MonkeyPatch) -> None:
    for question in ("denies_line", "denies_list", "denies_absence"):
        patch.setattr(history.ClusterHistory, question, lambda self, *told: None)


# --- targets that are given up ---------------------------------------------------------------------------------------


def nobody_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(source_turn.PodContext, "forgotten", lambda self, cluster: False)
    patch.setattr(source_turn.PodContext, "lost_until", lambda self, cluster: None)


def whoever_is_away_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def forgotten(self: source_turn.PodContext, cluster: str) -> bool:
        known = self.connections.get(cluster)
        return known is not None and not known.connected

    patch.setattr(source_turn.PodContext, "forgotten", forgotten)


def who_goes_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    original = decide._delegated

    def delegated(turn: Any) -> None:
        known = turn.state.chosen
        if known.seen is None or not known.seen.deleting:
            original(turn)

    patch.setattr(decide, "_delegated", delegated)


def the_forgotten_are_unknown(patch: pytest.MonkeyPatch) -> None:
    original = source_state._excuse

    def excuse(state: Any, name: str, reason: str) -> Any:
        after = original(state, name, reason)
        if reason != CandidateReason.TARGET_FORGOTTEN:
            return after
        kept = {other: known for other, known in after.candidates.items() if other != name}
        return msgspec.structs.replace(after, candidates=kept)

    patch.setattr(source_state, "_excuse", excuse)


# --- connections and effects -----------------------------------------------------------------------------------------


def namespaces_are_not_listed_again(patch: pytest.MonkeyPatch) -> None:
    original = connection_watches.ConnectionWatches.place

    def place(self: Any, incarnation: str, server: str) -> None:
        extra, self._extra = self._extra, {}
        original(self, incarnation, server)
        self._extra = extra

    patch.setattr(connection_watches.ConnectionWatches, "place", place)


def parked_writes_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects.Effects, "cluster_back", lambda self, cluster: None)


def vanished_objects_stay_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(listing.Listing, "gone", lambda self, version: [])
