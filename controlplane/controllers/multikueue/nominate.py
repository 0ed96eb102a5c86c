"""Says which of the clusters that can take a Workload are asked for it now: all of them, a few more each round in the
order of the configuration or of their scores, or those that somebody else nominates.

In: a pass over a Workload that waits, and the clusters that can take it. Out: the clusters, and the round. Kueue's
dispatchers are the model (kubernetes-sigs/kueue pkg/controller/workloaddispatcher/incrementaldispatcher.go, ff69552e);
unlike there a round survives a restart, since the log says when it began, and a cluster that is away holds no place in
it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.events import ClusterScore
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason

ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
SCORED = "controlplane.dev/multikueue-dispatcher-scored"
OWN = (ALL_AT_ONCE, INCREMENTAL, SCORED)
"""The dispatchers that nominate here; under another name somebody else does."""


class Nominated(NamedTuple):
    """The clusters that are to be nominated, why, and in which round of the attempt."""

    clusters: list[str]
    reason: WorkloadReason
    round: int = 0
    scores: Sequence[ClusterScore] = ()


def nominees(pass_: WorkloadPass, local: WorkloadObserved, eligible: Sequence[str]) -> Nominated:
    """Return whom to nominate of the `eligible` clusters, which are in the order of the MultiKueueConfig."""
    if pass_.context.policy.dispatcher == INCREMENTAL:
        return _a_few_more(pass_, local, eligible)
    if pass_.context.scoring is not None:
        scores = pass_.context.scoring.scores(pass_.context.subject, eligible)
        found = _a_few_more(pass_, local, [one.cluster for one in scores])
        reason = WorkloadReason.BEST_SCORES if found.reason is _FIRST else found.reason
        return found._replace(scores=scores, reason=reason)
    return Nominated(sorted(eligible), WorkloadReason.AVAILABLE_CLUSTERS)


def _a_few_more(pass_: WorkloadPass, local: WorkloadObserved, eligible: Sequence[str]) -> Nominated:
    """Keep those that were nominated and can still take it, and where its job is already; fill up to as many as the
    rounds so far allow.
    """
    state, policy = pass_.state, pass_.context.policy
    kept = [cluster for cluster in local.nominated if cluster in eligible] if state.dispatching else []
    kept += [cluster for cluster in eligible if cluster not in kept and state.remote(cluster).job is not None]
    others = [cluster for cluster in eligible if cluster not in kept]
    # An attempt that began by following a job, or by another's nomination, has had no round yet.
    in_round = state.dispatching and state.round > 0
    round_, reason = (state.round, WorkloadReason.AVAILABLE_CLUSTERS) if in_round else (1, _FIRST)
    if state.round_began is not None and len(kept) + len(others) > policy.step_size * round_:
        over = state.round_began + policy.dispatch_round
        if pass_.now >= over:
            round_, reason = round_ + 1, WorkloadReason.NEXT_ROUND
        else:
            pass_.wake_at(over)
    places = max(policy.step_size * round_ - len(kept), 0)
    return Nominated(kept + others[:places], reason, round_)


_FIRST = WorkloadReason.FIRST_ROUND
