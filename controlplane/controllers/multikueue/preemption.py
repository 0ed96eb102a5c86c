"""Lets the copies of a Workload preempt others on their workers, one cluster after the other.

In: a pass over a Workload that waits, and the clusters that are asked. Out: at most one opening of a preemption gate.
Each copy has a gate that its worker's Kueue keeps closed; one that could be admitted only by preempting says so, and
waits. The one that said it first is let, and the next not before it had five minutes (`workloadToOpenPreemptionGate` in
kubernetes-sigs/kueue pkg/controller/admissionchecks/multikueue/workload.go, ff69552e; KEP-8303). When a gate was opened
stands on the worker; what was decided and is not seen there yet stands in the log, and counts as well, also on a
cluster that is away since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from controlplane.controllers.multikueue.decision_pass import WorkloadPass, stamp
from controlplane.controllers.multikueue.events import GateOpeningDecided
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.remotes import usable
from controlplane.kube.kueue_names import BLOCKED
from controlplane.runtime.writes import says_no


def open_gate(pass_: WorkloadPass, local: WorkloadObserved, asked: Sequence[str]) -> None:
    """Open the gate of the copy that has waited for that the longest, if it is time."""
    policy = pass_.context.policy
    if not policy.orchestrated_preemption:
        return
    blocked = _blocked(pass_, local, asked)
    if not blocked:
        return
    last = max(_opened(pass_), default=None)
    if last is not None and pass_.now < last + policy.preemption_pause:
        pass_.wake_at(last + policy.preemption_pause)
        return
    first = min(blocked, key=lambda cluster: (stamp(blocked[cluster], pass_.now), cluster))
    clone = pass_.state.remote(first).clone
    if clone is not None:
        pass_.write(
            GateOpeningDecided(
                cluster=first,
                resource_version=clone.resource_version,
                attempt=pass_.state.attempt,
                uid=clone.uid,
                blocked=blocked,
                reason=WorkloadReason.BLOCKED_ON_PREEMPTION_GATES,
            )
        )


def _blocked(pass_: WorkloadPass, local: WorkloadObserved, asked: Sequence[str]) -> dict[str, str]:
    """Return the clusters whose copy can be admitted only by preempting and may not yet, with the time at which it said
    so."""
    found = {}
    for cluster in sorted(asked):
        remote = pass_.state.remote(cluster)
        clone = remote.clone
        condition = clone.condition(BLOCKED) if clone is not None else None
        if (
            clone is not None
            and condition is not None
            and condition.status == "True"
            and clone.gated
            and clone.gate is None
            and usable(remote, local)
            and not _refused(pass_, cluster)
        ):
            found[cluster] = condition.last_transition_time
    return found


def _refused(pass_: WorkloadPass, cluster: str) -> bool:
    """Whether an API server does not let us open the gate now: the others do not wait for it."""
    trouble = pass_.state.trouble.get(f"{cluster}/Workload")
    if trouble is None or trouble.action != GateOpeningDecided.__name__ or not says_no(trouble):
        return False
    if trouble.until <= pass_.now:
        return False
    pass_.wake_at(trouble.until)
    return True


def _carried_out(pass_: WorkloadPass, cluster: str, decided: datetime) -> datetime:
    """Return when an opening that nobody has seen yet was carried out, at the latest: it may be at any moment while its
    cluster is connected, and was until that ended, or the process that would have done it.
    """
    effect, connection = pass_.state.effects.get(f"{cluster}/Workload"), pass_.context.connections.get(cluster)
    if connection is None or effect is None or not isinstance(effect.decision, GateOpeningDecided):
        return decided
    return pass_.now if connection.connected else max(decided, connection.since or decided)


def _opened(pass_: WorkloadPass) -> Iterator[datetime]:
    """Yield when each of the gates was opened that are open, or may be: also on clusters that are away, or not asked
    any more. A time that is none, or far in the future, is nobody's who opened one."""
    pause = pass_.context.policy.preemption_pause
    for cluster, at in pass_.state.opening.items():
        yield _carried_out(pass_, cluster, at)
    for remote in pass_.state.remotes.values():
        gate = remote.clone.gate if remote.clone is not None else None
        if gate is not None:
            at = stamp(gate.last_transition_time, pass_.now - pause)
            if at <= pass_.now + pause:
                yield at
