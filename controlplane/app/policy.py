"""From the settings to what decisions depend on. Apart from the service, so that a reader of the log needs nothing else
of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from controlplane.app.feasibility import judged_kinds
from controlplane.controllers.candidates.source.policy import Mode, PlacementPolicy, Target
from controlplane.controllers.candidates.source.policy import SourcePolicy as CandidatePolicy
from controlplane.controllers.connectivity.events import PolicyInForce
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.job_kinds import adapters_for
from controlplane.settings import KINDS, Settings

_VALUES = ("origin", "controller_name", "execution_policy", "requeues_per_minute", "mass_outage_share")
_DURATIONS = (
    "worker_lost_timeout",
    "gc_interval",
    "status_interval",
    "readmission_grace",
    "refusal_pause",
    "loser_patience",
)


def policy_of(settings: Settings) -> MultiKueuePolicy:
    """Return what decisions depend on."""
    multikueue, dispatches = settings.multikueue, "multikueue" in settings.run.controllers
    return MultiKueuePolicy(
        origin=multikueue.origin,
        controller_name=multikueue.controller_name,
        adapters=adapters_for(multikueue.kinds) if dispatches else {},
        dispatches=dispatches,
        worker_lost_timeout=multikueue.worker_lost_timeout,
        gc_interval=multikueue.gc_interval if multikueue.gc_interval > timedelta(0) else None,
        status_interval=multikueue.status_interval,
        execution_policy=multikueue.execution_policy,
        readmission_grace=multikueue.readmission_grace,
        requeues_per_minute=multikueue.requeues_per_minute,
        judged=judged_kinds(settings),
        mass_outage_share=settings.clusters.mass_outage_percent / 100,
    )


def in_force(policy: MultiKueuePolicy, controllers: Sequence[str]) -> PolicyInForce:
    """Return what a process says of the settings that it decides by."""
    seconds: dict[str, Any] = {
        f"{name}_seconds": (getattr(policy, name) or timedelta(0)).total_seconds() for name in _DURATIONS
    }
    values: dict[str, Any] = {name: getattr(policy, name) for name in _VALUES}
    return PolicyInForce(
        controllers=sorted(controllers),
        kinds=sorted(policy.adapters),
        judged=sorted(policy.judged),
        **values,
        **seconds,
    )


def reading_policy(settings: Settings, said: PolicyInForce | None = None) -> MultiKueuePolicy:
    """Return what a reader of the log folds it by: what the service said last, else his own settings. Of kinds every
    one that a service may have dispatched, whatever either names."""
    own = msgspec.structs.replace(policy_of(settings), adapters=adapters_for(KINDS))
    if said is None:
        return own
    durations: dict[str, Any] = {name: timedelta(seconds=getattr(said, f"{name}_seconds")) for name in _DURATIONS}
    values: dict[str, Any] = {name: getattr(said, name) for name in _VALUES}
    gc_interval = durations.pop("gc_interval") or None
    judged = frozenset(said.judged)
    return msgspec.structs.replace(own, **values, **durations, gc_interval=gc_interval, judged=judged)


def candidate_policy(settings: Settings) -> CandidatePolicy:
    """Return what the source side of candidates decides by."""
    chosen = settings.candidates
    mode: Mode = "BestOf" if chosen.placement == "best-of" else "FirstReady"
    return CandidatePolicy(
        cluster=chosen.cluster,
        scheduler_name=chosen.scheduler_name,
        namespaces=frozenset(chosen.namespaces),
        placement=PlacementPolicy(
            mode=mode, min_candidates=chosen.min_candidates, max_wait=chosen.max_wait, max_skew=chosen.max_skew
        ),
        lease=chosen.lease,
        room_lease=chosen.room_lease,
        skew=chosen.clock_skew,
        answer_timeout=chosen.answer_timeout,
        lost_after=chosen.lost_after,
        execution_policy=chosen.execution_policy,
        mirror_pod_ips=chosen.pod_ips == "show",
        gang_wait=chosen.gang_wait,
        gang_timeout=chosen.gang_timeout,
    )


def candidate_targets(settings: Settings) -> list[Target]:
    """Return the clusters that every allowed namespace may use; `NAME:TIER` in the settings."""
    named = (target.partition(":") for target in settings.candidates.targets)
    return [Target(name=name, tier=int(tier or 0)) for name, _, tier in named]
