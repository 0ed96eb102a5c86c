"""Hosts the dispatch of Workloads. It is there even where nothing is dispatched, since MultiKueueClusters are how other
controllers get to other clusters.

In: settings, or what a reader of the log was told of them. Out: the controller's part of the log, what it watches of
which cluster, and its policy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from controlplane.controllers.connectivity.eligibility import FIT
from controlplane.controllers.connectivity.events import MANAGEMENT, PolicyInForce
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.flavors import CLUSTER_QUEUE, KINDS, LOCAL_QUEUE
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.nominate import SCORED
from controlplane.controllers.multikueue.scoring import ScoringRules
from controlplane.job_kinds import JOB_KINDS, adapters_for, named
from controlplane.job_kinds.base import JobKind
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from controlplane.kube.kueue_names import ORIGIN_LABEL
from controlplane.kube.watches import WatchSpec
from controlplane.runtime.hosting import HostedController, Registration
from controlplane.settings.model import Settings
from controlplane.settings.recorded import recorded_quota

HOME_KINDS = (ADMISSION_CHECKS, MULTIKUEUE_CONFIGS, MULTIKUEUE_CLUSTERS, CLUSTER_QUEUES, WORKLOADS)
"""What is watched on the management cluster, the kinds of jobs aside."""

_NAMED = 3  # Workloads in a message
_STREAMS = frozenset(
    {
        "workload",
        "job",
        "cluster",
        "admissioncheck",
        "multikueueconfig",
        "clusterqueue",
        "localqueue",
        CLUSTER_QUEUE,
        LOCAL_QUEUE,
        "fleet",
        "service",
        "refused",
    }
)
_VALUES = (
    "origin",
    "controller_name",
    "execution_policy",
    "requeues_per_minute",
    "mass_outage_share",
    "dispatcher",
    "step_size",
    "pod_gate",
    "own_only",
    "orchestrated_preemption",
)
_DURATIONS = (
    "worker_lost_timeout",
    "gc_interval",
    "status_interval",
    "readmission_grace",
    "refusal_pause",
    "loser_patience",
    "dispatch_round",
    "scoring_window",
)


def host(settings: Settings, policy: MultiKueuePolicy) -> Sequence[HostedController]:
    """Return the controller."""
    fleet = MultiKueueController(policy, settings.leader.identity)
    jobs = [adapter.kind for adapter in policy.adapters.values()]
    own = [WatchSpec(adapter.kind, adapter.home_selector) for adapter in policy.adapters.values()]
    queues = [WatchSpec(LOCAL_QUEUES)] if policy.knows_queues else []
    origin = f"{ORIGIN_LABEL}={policy.origin}"
    flavors = [WatchSpec(kind) for kind in KINDS] if policy.scoring and policy.scoring.flavors_weight else []
    return (
        HostedController(
            registration=Registration(
                "multikueue", fleet, _STREAMS, frozenset({FIT}), anticipating=fleet, reading=fleet.copies
            ),
            home=[*(WatchSpec(kind) for kind in HOME_KINDS), *queues, *own] if policy.dispatches else (),
            workers=[*(WatchSpec(kind, origin) for kind in (WORKLOADS, *jobs)), *flavors] if policy.dispatches else (),
            knows=fleet.index,
            follows=policy.dispatches,
            unseen=partial(_unseen, fleet),
            resting_on=fleet.resting_on,
            noun="Workload",
        ),
    )


def policy_of(settings: Settings) -> MultiKueuePolicy:
    """Return what decisions depend on."""
    multikueue, dispatches = settings.multikueue, "multikueue" in settings.run.controllers
    return MultiKueuePolicy(
        origin=multikueue.origin,
        controller_name=multikueue.controller_name,
        adapters=_adapters((*multikueue.kinds, *multikueue.external_frameworks)) if dispatches else {},
        dispatches=dispatches,
        worker_lost_timeout=multikueue.worker_lost_timeout,
        gc_interval=multikueue.gc_interval if multikueue.gc_interval > timedelta(0) else None,
        status_interval=multikueue.status_interval,
        execution_policy=multikueue.execution_policy,
        readmission_grace=multikueue.readmission_grace,
        requeues_per_minute=multikueue.requeues_per_minute,
        judged=_judged(settings),
        dispatcher=multikueue.dispatcher_name,
        step_size=multikueue.step_size,
        pod_gate=multikueue.pod_gate,
        orchestrated_preemption=multikueue.orchestrated_preemption == "yes",
        claims=dispatches and bool(settings.webhook.certificate),
        own_only=dispatches and multikueue.recorded_workloads == "own",
        dispatch_round=multikueue.dispatch_round,
        scoring=_scoring(settings) if multikueue.dispatcher_name == SCORED else None,
        scoring_window=multikueue.scoring.window,
        mass_outage_share=settings.clusters.mass_outage_percent / 100,
    )


def _adapters(names: Sequence[str]) -> dict[str, JobKind]:
    """Return the kinds of these names that can be dispatched."""
    return {gvk: one for gvk, one in adapters_for(names).items() if one.dispatched}


def _judged(settings: Settings) -> frozenset[str]:
    """Return the kinds of job (`Kind.name`) that are offered only to clusters that can take them."""
    found = JOB_KINDS["tekton.dev/pipelinerun"]
    on = found.integration in settings.multikueue.kinds and settings.multikueue.pipeline_run_filter == "facts"
    return frozenset({found.kind.name}) if on else frozenset()


def _scoring(settings: Settings) -> ScoringRules:
    said = settings.multikueue.scoring
    shared = {name: getattr(said, name) for name in ScoringRules.__struct_fields__ if hasattr(said, name)}
    return ScoringRules(**shared, spread_required=said.spread_when_unsatisfiable == "DoNotSchedule")


def in_force(policy: MultiKueuePolicy, settings: Settings) -> PolicyInForce:
    """Return what a process says of the settings that it decides by: its policy, and what else its settings choose."""
    chosen = settings.multikueue
    seconds: dict[str, Any] = {
        f"{name}_seconds": (getattr(policy, name) or timedelta(0)).total_seconds() for name in _DURATIONS
    }
    values: dict[str, Any] = {name: getattr(policy, name) for name in _VALUES}
    return PolicyInForce(
        controllers=sorted(settings.run.controllers),
        kinds=sorted(policy.adapters),
        judged=sorted(policy.judged),
        scoring=msgspec.to_builtins(policy.scoring) if policy.scoring is not None else {},
        quota_automation=policy.dispatches and chosen.quota_automation == "yes",
        cluster_profiles=policy.dispatches and chosen.cluster_profile.on,
        access_providers=sorted(one.name for one in chosen.cluster_profile.access_providers)
        if policy.dispatches
        else [],
        quota=recorded_quota(settings),
        **values,
        **seconds,
    )


def _unseen(fleet: MultiKueueController) -> str:
    """Return why nothing can be decided yet, "" if it can."""
    if fleet.index.ready:
        return ""
    known = fleet.index.connections.get(MANAGEMENT)
    why = f": {known.message}" if known is not None and known.message else ""
    return f"the management cluster is not in view{why}"


def objection(index: WorkloadIndex, policy: MultiKueuePolicy) -> str:
    """Return why a process with these settings must not go on with what the log has, "" if it may: copies of another
    origin would be left alone, and their jobs dispatched again beside them."""
    said = index.around.in_force
    if said is None or not policy.dispatches or said.origin == policy.origin:
        return ""
    found = [state for state in index.workloads.values() if state.known_on_clusters]
    if not found:
        return ""
    named = ", ".join(f"{state.namespace}/{state.name}" for state in found[:_NAMED])
    count = f"{len(found)} Workload{'' if len(found) == 1 else 's'}"
    return (
        f'multikueue.origin is "{policy.origin}", and workers have copies of {count} that were made with '
        f'"{said.origin}", such as {named}: set it to "{said.origin}", or change it once they have ended'
    )


def reading_policy(settings: Settings, said: PolicyInForce | None = None) -> MultiKueuePolicy:
    """Return what a reader of the log folds it by: what the service said last, else his own settings. Of kinds every
    one that a service may have dispatched, whatever either names."""
    own = policy_of(settings)
    awaited = own.adapters
    known = [*JOB_KINDS, *settings.multikueue.external_frameworks]
    if said is not None:
        then = [name for name in map(named, said.kinds) if name]
        known += [name for name in then if name not in known]
        awaited = _adapters(then)
    own = msgspec.structs.replace(
        own, adapters=_adapters(known), awaited=frozenset(one.kind.name for one in awaited.values())
    )
    if said is None:
        return own
    durations: dict[str, Any] = {name: timedelta(seconds=getattr(said, f"{name}_seconds")) for name in _DURATIONS}
    values: dict[str, Any] = {name: getattr(said, name) for name in _VALUES}
    gc_interval = durations.pop("gc_interval") or None
    judged = frozenset(said.judged)
    scoring = msgspec.convert(said.scoring, ScoringRules) if said.scoring else None
    return msgspec.structs.replace(own, **values, **durations, gc_interval=gc_interval, judged=judged, scoring=scoring)
