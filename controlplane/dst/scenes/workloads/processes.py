"""Says under which policy Workloads are dispatched in plans of an edition.

In: an edition, the traits of a plan. Out: the policy, and the settings of the processes. A trait is a dispatcher, a
rule of the one that scores, a kind of job, that quota is automated, who keeps jobs from running on the management
cluster, or that copies wait for us before they preempt others; plans before the fourth edition have none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from controlplane.controllers.jobframework.controller import JobFrameworkController
from controlplane.controllers.multikueue import nominate
from controlplane.controllers.multikueue.context import KUEUES_GATE, MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.scoring import ScoringRules
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.controller import QuotaController
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.job_kinds import adapters_for
from controlplane.log.event import Event
from controlplane.runtime.router import merged
from controlplane.settings import Settings
from controlplane.settings.quota import (
    AdmissionFairSharing,
    FairSharing,
    ObjectRetention,
    RequeuingStrategy,
    WaitForPodsReady,
)

ALL_AT_ONCE, INCREMENTAL, SCORED, EXTERNAL = DISPATCHERS = ("all-at-once", "incremental", "scored", "external")
QUOTA, NOT_IN_B = "quota", "not-in-b"
WEBHOOK, KUEUES = "webhook", "kueues-gate"
GATES: Final = "gates"
SNAPSHOTS: Final = "snapshots"
"""Processes keep what they have folded after every few events, and start from it."""
BRIEF: Final = "brief-copies"
"""Copies are deleted a few seconds after they have ended."""
PIECES: Final = "pieces"
"""Pieces of a watch are handed over together, as in production."""
FLAVORS, LOCALITY = "flavors", "locality"
BUILTIN: Final = "builtin"
"""This service decides on quota, and the management cluster has no Kueue. The scene `admission` has it."""
FAIR, USAGE, PODS_READY, BLOCKS, FORGETS = "fair", "usage", "pods-ready", "blocks", "forgets"
"""Rules of who decides on quota here: shares decide; past usage does; pods have to be ready in time, and nobody else is
admitted until they are; Workloads that are over are deleted."""
KIND: Final = "kind:"
COST, ZONE = "cost", "zone"
USUAL_KINDS: Final = ("Job", "JobSet")
RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "cost": {"cost_label": COST},
    NOT_IN_B: {"cluster_selector": f"{ZONE}!=b"},
    "spread": {"spread_label": ZONE},
    "spread-required": {"spread_label": "metadata.name", "spread_required": True},
    "two-apart": {"spread_max_skew": 2},
    "unweighted": {"latency_weight": 0, "rejection_weight": 0},
}
_LATER_RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    FLAVORS: {"flavors_weight": 2},
    LOCALITY: {"locality_labels": (ZONE, "team")},
}
"""What each trait of the scored dispatcher sets, in the order in which they are applied."""
_READY = WaitForPodsReady(
    enable="yes",
    timeout=timedelta(seconds=60),
    recovery_timeout=timedelta(seconds=60),
    requeuing_strategy=RequeuingStrategy(backoff_base_seconds=5, backoff_max_seconds=30),
)
QUOTA_RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    FAIR: {"fair_sharing": FairSharing(enable="yes")},
    USAGE: {
        "admission_fair_sharing": AdmissionFairSharing(
            enable="yes", usage_half_life_time=timedelta(seconds=10), usage_sampling_interval=timedelta(seconds=20)
        )
    },
    PODS_READY: {"wait_for_pods_ready": _READY},
    BLOCKS: {"wait_for_pods_ready": msgspec.structs.replace(_READY, block_admission="yes")},
    FORGETS: {"object_retention": ObjectRetention(after_finished=timedelta(seconds=30))},
}
"""What each trait of admission sets in the section `quota`."""
_NAMES: Final[Mapping[str, str]] = {
    ALL_AT_ONCE: nominate.ALL_AT_ONCE,
    INCREMENTAL: nominate.INCREMENTAL,
    SCORED: nominate.SCORED,
    EXTERNAL: "example.com/nominator",
}
_INTEGRATION: Final[Mapping[str, str]] = {kind.kind: adapter.integration for kind, adapter in ADAPTERS.items()}
POLICY = MultiKueuePolicy(
    adapters=adapters_for(["batch/job", "jobset.x-k8s.io/jobset"]),
    worker_lost_timeout=timedelta(minutes=3),
    refusal_pause=timedelta(minutes=1),
)
_AHEAD: Final = 4  # as production has it (`controlplane.runtime.lifecycle.Ports`)
_JOBS_ONLY = msgspec.structs.replace(POLICY, adapters=adapters_for(["batch/job"]))


def policy_of(edition: int, traits: Collection[str] = ()) -> MultiKueuePolicy:
    """Return the policy under which plans of an edition are played: the first one knows no JobSets."""
    if edition == 1:
        return _JOBS_ONLY
    if not traits:
        return POLICY
    dispatcher = next((one for one in traits if one in DISPATCHERS), ALL_AT_ONCE)
    return msgspec.structs.replace(
        POLICY,
        adapters=adapters_for(_integrations(traits)),
        dispatcher=_NAMES[dispatcher],
        step_size=1,
        dispatch_round=timedelta(seconds=20),
        scoring=_rules(traits) if dispatcher == SCORED else None,
        pod_gate=KUEUES_GATE if KUEUES in traits else "own",
        orchestrated_preemption=GATES in traits,
        preemption_pause=timedelta(seconds=20) if GATES in traits else POLICY.preemption_pause,
    )


def ahead_of(traits: Collection[str]) -> int:
    """Return how many pieces of a watch are handed over together; 0: as the recorded seeds are played."""
    return _AHEAD if PIECES in traits else 0


def rolled_out(policy: MultiKueuePolicy, value: int) -> MultiKueuePolicy:
    """Return a policy with other settings, as a number says: another dispatcher of ours, rounds, pauses. Who nominates
    from outside goes on, and so do rules that say where jobs may be."""
    changes: Sequence[Mapping[str, Any]] = (
        {"step_size": 2, "dispatch_round": timedelta(seconds=7)},
        {"refusal_pause": timedelta(seconds=20), "readmission_grace": timedelta(seconds=20)},
        {"requeues_per_minute": 5, "mass_outage_share": 1.0},
        {"status_interval": timedelta(seconds=5), "loser_patience": timedelta(0)},
    )
    found = msgspec.structs.replace(policy, **changes[value % len(changes)])
    if policy.dispatcher not in (_NAMES[ALL_AT_ONCE], _NAMES[INCREMENTAL]):
        return found
    return msgspec.structs.replace(found, dispatcher=_NAMES[(ALL_AT_ONCE, INCREMENTAL)[value % 2]])


def _integrations(traits: Collection[str]) -> tuple[str, ...]:
    """Return the kinds of job that are dispatched, as settings name them."""
    names = (*USUAL_KINDS, *(trait.removeprefix(KIND) for trait in traits if trait.startswith(KIND)))
    return tuple(_INTEGRATION[name] for name in names)


def _rules(traits: Collection[str]) -> ScoringRules:
    found: dict[str, Any] = {}
    for name, rule in {**RULES, **_LATER_RULES}.items():
        if name in traits:
            found |= rule
    return ScoringRules(**found)


def types_of(traits: Collection[str]) -> Sequence[type[Event]]:
    """Return the types of the events that a log of such a run has."""
    found = [MultiKueueController.types]
    if QUOTA in traits:
        found.append(QuotaController.types)
    if BUILTIN in traits:
        found += [AdmissionController.types, JobFrameworkController.types]
    return merged(found)


def settings_of(traits: Collection[str]) -> Settings:
    """Return the settings of the processes of a run; the policy takes the place of what they say of Workloads."""
    settings = Settings()
    if SNAPSHOTS in traits:
        settings = msgspec.structs.replace(settings, log=msgspec.structs.replace(settings.log, snapshot_every=20))
    if BUILTIN in traits:
        quota = msgspec.structs.replace(settings.quota, mode=BUILTIN, prioritize_preemptors="yes")
        for name, rule in QUOTA_RULES.items():
            if name in traits:
                quota = msgspec.structs.replace(quota, **rule)
        dispatch = settings.multikueue
        if any(trait.startswith(KIND) for trait in traits):
            dispatch = msgspec.structs.replace(dispatch, kinds=_integrations(traits))
        settings = msgspec.structs.replace(settings, quota=quota, multikueue=dispatch)
    if QUOTA not in traits:
        return settings
    return msgspec.structs.replace(
        settings, multikueue=msgspec.structs.replace(settings.multikueue, quota_automation="yes")
    )
