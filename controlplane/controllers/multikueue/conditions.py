"""Decides the `Active` conditions that Kueue leaves to us: of MultiKueueClusters and of AdmissionChecks, with Kueue's
reasons and messages (kubernetes-sigs/kueue pkg/controller/admissionchecks/multikueue/multikueuecluster.go and
admissioncheck.go, ff69552e).

In: what is known of the object and of the connections. Out: at most one `ConditionDecided`, only if status, reason or
message would change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from controlplane.controllers.connectivity import identity
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.events import ConditionDecided, Where
from controlplane.controllers.multikueue.observations import (
    AdmissionCheckObserved,
    MultiKueueClusterObserved,
    MultiKueueConfigObserved,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.conditions import MESSAGE_LIMIT, Condition
from controlplane.kube.kinds import MULTIKUEUE_CONFIGS
from controlplane.kube.requests import timestamp, truncated

# What is wrong with the configuration, and not with the connection.
CONFIG_REASONS = frozenset(
    {
        "BadKubeConfig",
        "InsecureKubeConfig",
        "BadClusterProfile",
        "BadRestConfig",
        "MultiKueueClusterProfileFeatureDisabled",
        *identity.REASONS,
    }
)


class Active(msgspec.Struct, frozen=True):
    """What the condition should be."""

    status: str
    reason: str
    message: str


def cluster_active(connection: Connection | None) -> Active | None:
    """Return the condition of a MultiKueueCluster; None while nothing is known, so that a restart writes nothing.

    A further name of a cluster is active, as with Kueue, though it is not used: it answers, and its kubeconfig is
    good."""
    if connection is None or connection.phase in ("Unknown", "Removed"):
        return None
    if connection.connected or connection.phase == "Standby":
        return Active("True", "Active", "Connected")
    message = connection.message
    if connection.attempt > 0 and connection.next_attempt_at is not None:
        at = timestamp(connection.next_attempt_at)
        message += f"; connection attempts: {connection.attempt}, next connection attempt: {at}"
    reason = connection.reason if connection.reason in CONFIG_REASONS else "ClientConnectionFailed"
    return Active("False", reason, truncated(message, MESSAGE_LIMIT))


def route_of(
    check: AdmissionCheckObserved, configs: Mapping[str, MultiKueueConfigObserved]
) -> tuple[tuple[str, ...], str]:
    """Return the clusters of an AdmissionCheck's config, or why it cannot be loaded."""
    parameters = check.parameters
    if not parameters:
        return (), "spec.parameters: missing, name a MultiKueueConfig"
    if parameters.get("apiGroup") != MULTIKUEUE_CONFIGS.group:
        return (
            (),
            f'spec.parameters.apiGroup: "{parameters.get("apiGroup", "")}" should be "{MULTIKUEUE_CONFIGS.group}"',
        )
    if parameters.get("kind") != MULTIKUEUE_CONFIGS.kind:
        return (), f'spec.parameters.kind: "{parameters.get("kind", "")}" should be "{MULTIKUEUE_CONFIGS.kind}"'
    name = parameters.get("name", "")
    config = configs.get(name)
    if config is None:
        return (), f'MultiKueueConfig.kueue.x-k8s.io "{name}" not found'
    return tuple(config.clusters), ""


def check_active(
    check: AdmissionCheckObserved,
    configs: Mapping[str, MultiKueueConfigObserved],
    clusters: Mapping[str, MultiKueueClusterObserved],
) -> Active:
    """Return the condition of an AdmissionCheck of ours, by the `Active` conditions of its clusters as they are
    stored.
    """
    names, error = route_of(check, configs)
    if error:
        return Active("False", "BadConfig", f"Cannot load the AdmissionChecks parameters: {error}")
    missing = [name for name in names if name not in clusters]
    inactive = [name for name in names if name in clusters and not clusters[name].is_true("Active")]
    parts = []
    if missing:
        parts.append(f"Missing clusters: [{' '.join(missing)}]")
    if inactive:
        parts.append(f"Inactive clusters: [{' '.join(inactive)}]")
    unusable = len(missing) + len(inactive)
    if unusable and unusable == len(names):
        return Active("False", "NoUsableClusters", ", ".join(parts))
    if unusable:
        return Active("True", "SomeActiveClusters", ", ".join(parts))
    return Active("True", "Active", "The admission check is active")


def set_active(
    seen: MultiKueueClusterObserved | AdmissionCheckObserved, wanted: Active | None, of: Where
) -> ConditionDecided | None:
    """Return the write that brings the condition to what it should be; None if it is so already."""
    if wanted is None or seen.deleting:
        return None
    is_now = seen.condition("Active")
    if is_now is not None and (is_now.status, is_now.reason, is_now.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    ):
        return None
    return ConditionDecided(
        of=of,
        status=wanted.status,
        condition_reason=wanted.reason,
        message=wanted.message,
        generation=seen.generation,
        resource_version=seen.resource_version,
        reason=WorkloadReason.CONDITION_CHANGED,
    )


def condition(
    seen: MultiKueueClusterObserved | AdmissionCheckObserved, decision: ConditionDecided, now: datetime
) -> Condition:
    """Return the condition that a decision means; `lastTransitionTime` changes only with the status."""
    is_now = seen.condition("Active")
    same = is_now is not None and is_now.status == decision.status
    return Condition(
        type="Active",
        status=decision.status,
        reason=decision.condition_reason,
        message=decision.message,
        last_transition_time=is_now.last_transition_time if is_now and same else timestamp(now),
        observed_generation=decision.generation,
    )
