"""Deliberate bugs in the candidates' protocol and the scheduler beside a target: each a patch, and the rule that has to find it.

They show that the scene `candidates` bites. A mutant is found if, within its seeds, a run breaks a rule that the same seed keeps
without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from controlplane.app.scheduling import turn as scheduling
from controlplane.candidates import (
    decide,
    permits,
    render,
    showing,
    source,
    target,
    target_calls,
    target_decide,
    target_render,
    target_state,
)
from controlplane.candidates import state as source_state
from controlplane.candidates import turn as source_turn
from controlplane.candidates.events import CandidateDropped, PermitGranted
from controlplane.candidates.reasons import Reason, TargetReason
from controlplane.candidates.target_events import BindStarted, FinalizerReleased, Unreserved, Withdrawn
from controlplane.clusters import link, listing
from controlplane.kube import Request
from controlplane.log.event import Recorded
from controlplane.reconcile import effects
from controlplane.scheduler.plugins import node_basics, pod_topology_spread
from controlplane.scheduler.snapshot import Snapshot
from controlplane.scheduler.status import SUCCESS, verdicts
from controlplane.simulation.deterministic.decentral.plan import SCENE
from controlplane.simulation.deterministic.playing import plan_of, play
from controlplane.simulation.deterministic.simulation import Outcome
from tests.simulation.deterministic.mutants.mutants import Mutant, Patch, the_epoch_is_not_checked

LONG_AGO = datetime(2020, 1, 1)  # noqa: DTZ001 - its zone is that of the time it is compared with


def find(mutant: Mutant, seeds: Iterable[int]) -> tuple[int, Outcome] | None:
    """Return the first seed that the mutant breaks and that holds without it."""
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            mutant.patch(patch)
            outcome = play(plan_of(seed, scene=SCENE))
        if outcome.violation is not None and play(plan_of(seed, scene=SCENE)).violation is None:
            return seed, outcome
    return None


# --- the source --------------------------------------------------------------------------------------------------------


def a_lease_is_enough(patch: pytest.MonkeyPatch) -> None:
    def ended(turn: Any, permit: Any, seen: Any) -> None:
        permits._acked(turn, permit, Reason.LEASE_ENDED)

    patch.setattr(permits, "_ended", ended)


def a_successor_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(permits, "_predecessor_runs", lambda turn: False)


def a_lost_target_has_no_grace(patch: pytest.MonkeyPatch) -> None:
    def lost_until(self: source_turn.Context, cluster: str) -> datetime | None:
        known = self.connections.get(cluster)
        return None if known is None or known.connected else known.lost_since

    patch.setattr(source_turn.Context, "lost_until", lost_until)


def never_twice_is_outlived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(source_turn.Context, "outlives", True)


def the_losers_stay(patch: pytest.MonkeyPatch) -> None:
    original = source_turn.Turn.drop

    def drop(self: Any, name: str, reason: Reason) -> None:
        if reason != Reason.ANOTHER_TARGET_WON:
            original(self, name, reason)

    patch.setattr(source_turn.Turn, "drop", drop)


def a_deleted_pod_leaves_its_candidates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "_drop_all", lambda turn, reason: None)


def a_status_goes_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(showing, "later", lambda shown, said: said or "Pending")
    patch.setattr(showing, "ended_by_loss", lambda turn, pod: False)


def a_permit_is_decided_anew(patch: pytest.MonkeyPatch) -> None:
    def resend(turn: Any, permit: Any, seen: Any) -> None:
        if seen is None or seen.permit >= permit.number or not turn.context.in_view(permit.cluster):
            return
        later = msgspec.structs.replace(permit, until=turn.now + turn.context.policy.lease)
        permits._grant(turn, later, seen.resource_version, Reason.PERMIT_OPEN, {})

    patch.setattr(permits, "_resend", resend)


def a_permit_is_in_memory(patch: pytest.MonkeyPatch) -> None:
    original = source.SourceCandidates.decide

    def remembered(self: Any, stream: str, now: datetime) -> Any:
        decided = original(self, stream, now)
        if any(isinstance(new.event, PermitGranted) for new in decided.events):
            self.sources[stream] = msgspec.structs.replace(self.sources[stream], permits=99)
        return decided

    patch.setattr(source.SourceCandidates, "decide", remembered)


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


# --- the target --------------------------------------------------------------------------------------------------------


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

    patch.setattr(target_calls, "bind_order", order)


def any_permit_will_do(patch: pytest.MonkeyPatch) -> None:
    """A permit for an older reservation counts for the one that is held now."""
    original = target_decide.usable_until

    def aged(state: Any) -> Any:
        seen = state.seen
        if seen is None or seen.permit is None or state.held is None:
            return state
        permit = msgspec.structs.replace(seen.permit, reservation=state.held.number)
        return msgspec.structs.replace(state, seen=msgspec.structs.replace(seen, permit=permit))

    patch.setattr(target_decide, "usable_until", lambda state, policy: original(aged(state), policy))
    order = target_calls.bind_order
    patch.setattr(target_calls, "bind_order", lambda state, policy, now: order(aged(state), policy, now))


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
    def let_go(turn: Any, seen: Any) -> None:
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
    patch.setattr(target_calls, "may_preempt", lambda state, policy, now: 1)


def a_reservation_never_lapses(patch: pytest.MonkeyPatch) -> None:
    original = target_calls.reserved

    def reserved(*arguments: Any) -> Any:
        event = original(*arguments)
        return event and msgspec.structs.replace(event, expires=event.expires + timedelta(hours=5))

    patch.setattr(target_calls, "reserved", reserved)


def late_kinds_are_not_taken_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scheduling.SchedulerTurn, "_late", lambda self: None)


def nodes_are_all_alike(patch: pytest.MonkeyPatch) -> None:
    def filter_all(self: Any, state: Any, pod: Any, snapshot: Snapshot, still: Any) -> Any:
        return verdicts(len(snapshot))

    for plugin in (node_basics.NodeUnschedulable,):
        patch.setattr(plugin, "filter", lambda self, state, pod, info: SUCCESS)
        patch.setattr(plugin, "filter_all", filter_all)


def pods_are_not_spread(patch: pytest.MonkeyPatch) -> None:
    def filter_all(self: Any, state: Any, pod: Any, snapshot: Snapshot, still: Any) -> Any:
        return verdicts(len(snapshot))

    plugin = pod_topology_spread.PodTopologySpread
    patch.setattr(plugin, "filter", lambda self, state, pod, info: SUCCESS)
    patch.setattr(plugin, "filter_all", filter_all)
    patch.setattr(plugin, "score_all", lambda self, state, pod, snapshot, rows: [0] * len(rows), raising=False)


# --- connections and effects -------------------------------------------------------------------------------------------


def namespaces_are_not_listed_again(patch: pytest.MonkeyPatch) -> None:
    original = link.Link._place_reflectors

    def place(self: Any, incarnation: str, server: str) -> None:
        extra, self._extra = self._extra, {}
        original(self, incarnation, server)
        self._extra = extra

    patch.setattr(link.Link, "_place_reflectors", place)


def parked_writes_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects.Effects, "cluster_back", lambda self, cluster: None)


def vanished_objects_stay_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(listing.Listing, "gone", lambda self, version: [])


PATCHES: dict[str, tuple[str, Patch]] = {
    "lease-is-enough": ("a permit is free again when its lease is over", a_lease_is_enough),
    "successor-at-once": ("a pod's successor does not wait for its delegate", a_successor_does_not_wait),
    "no-grace-for-targets": ("a target's delegates are lost with its connection", a_lost_target_has_no_grace),
    "never-twice-outlived": ("never-twice goes on without the target's word", never_twice_is_outlived),
    "losers-stay": ("the candidates that lost are not deleted", the_losers_stay),
    "deleted-stays": ("a deleted pod's candidates are not deleted", a_deleted_pod_leaves_its_candidates),
    "status-goes-back": ("a status is shown as the delegate says it", a_status_goes_back),
    "permit-anew": ("a permit that is sent again has another lease", a_permit_is_decided_anew),
    "permit-in-memory": ("the number of a permit is kept beside the log", a_permit_is_in_memory),
    "permit-forgotten": ("another candidate's word ends a permit", a_permit_goes_to_all),
    "drop-without-uid": ("candidates are deleted by name", drops_without_uid),
    "missing-unminded": ("a delegate that is missing stays the delegate", a_missing_pod_is_not_minded),
    "bind-unpermitted": ("a reservation is bound without a permit", bound_without_a_permit),
    "any-permit": ("a permit counts for any reservation", any_permit_will_do),
    "ack-before-fence": ("a withdrawal is acknowledged while a binding is on its way", acknowledged_before_the_fence),
    "same-fence": ("every fence of a permit says the same", every_fence_says_the_same),
    "finalizer-first": ("a Candidate goes before its Pod", the_finalizer_goes_first),
    "uninvited": ("who is not invited is taken", nobody_has_to_be_invited),
    "held-is-free": ("what is reserved is not counted", what_is_held_is_free),
    "everybody-preempts": ("room is made without a permit", everybody_makes_room),
    "reserved-for-ever": ("a reservation does not lapse", a_reservation_never_lapses),
    "late-kinds": ("candidates that are listed late are not taken up", late_kinds_are_not_taken_up),
    "cordon-ignored": ("cordoned nodes are as good as others", nodes_are_all_alike),
    "spread-ignored": ("topology spread constraints are not kept", pods_are_not_spread),
    "namespaces-unlisted": ("a target that comes back is not listed again", namespaces_are_not_listed_again),
    "parked-candidates": ("writes for a target that was away are forgotten", parked_writes_are_forgotten),
    "no-tombstones-there": ("a relist does not tell what vanished", vanished_objects_stay_known),
    "no-fence-there": ("the logs do not check the epoch", the_epoch_is_not_checked),
}


def table(seeds: Sequence[int], names: Sequence[str] = ()) -> Iterator[str]:
    """Yield the rows of the table in docs/explanation/simulation.md."""
    for name, (what, patch) in PATCHES.items():
        if names and name not in names:
            continue
        found = find(Mutant(what, patch, 0, ""), seeds)
        if found is None:
            yield f"| `{name}` | {what} | not found | |"
        else:
            seed, outcome = found
            assert outcome.violation is not None
            yield f"| `{name}` | {what} | {outcome.violation.rule} | candidates {seed} |"


if __name__ == "__main__":
    import sys

    for row in table(range(1, 31), sys.argv[1:]):
        print(row, flush=True)
