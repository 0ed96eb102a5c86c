"""Names the Leases of a cluster that the processes of one log hold: one for each thing that only one log may do there.

In: settings. Out: the Leases, by name, in the namespace `leader.leaseNamespace`. For `multikueue` there are two:
AdmissionChecks are ours by `multikueue.controllerName`, and copies on workers by `multikueue.origin`, so another log
may have neither. A scheduler has one for each of its profiles, since pods are its own by their `schedulerName`, and one
for the Candidates of its cluster, which are all taken up by whoever takes up one, and which it leaves to another log
that has them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from controlplane.clusters.lease import ClusterLease
from controlplane.kube.kinds import LEASES, ObjectRef
from controlplane.log.port import Log
from controlplane.runtime.claims import ClaimTexts, ClusterClaims, OptionalLease
from controlplane.runtime.gate import Gate
from controlplane.runtime.lifecycle import ProcessContext
from controlplane.settings import Settings

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 253
_CANDIDATES = "controlplane.candidate-target"
_LEFT = ("Candidates", "scheduler.takeCandidates: no leaves them to others whoever holds it")
_OF_SERVICE = ClaimTexts(
    cluster="the management cluster",
    rule="one log acts on a management cluster: stop the other service, or, if they are to share its queues, give this "
    "one a multikueue.controllerName and a multikueue.origin of its own",
    manifest="deploy/rbac/management/leases.yaml",
)
_OF_SCHEDULER = ClaimTexts(
    cluster="the cluster",
    rule="one log schedules what it is for: stop the other scheduler, or, if both are to schedule pods of this "
    "cluster, give this one profiles with schedulerNames of its own",
    manifest="deploy/scheduler/leases.yaml",
)


def lease_names(settings: Settings) -> list[str]:
    """Return the names of the Leases that a service holds with these settings."""
    found = []
    for controller in settings.run.controllers:
        if controller == "multikueue":
            found.append(_name(settings.multikueue.controller_name.replace("/", ".")))
            found.append(_name(f"origin.{settings.multikueue.origin}"))
        else:
            found.append(_name(controller))
    if settings.quota.builtin:
        found.append(_name("quota"))
    return found


def scheduler_lease_names(settings: Settings, profiles: Sequence[str]) -> list[str]:
    """Return the names of the Leases that a scheduler with these profiles holds.

    They are taken in this order, which is the same for all: of two with some in common one gets no further than the
    first of these."""
    return list(scheduler_leases(settings, profiles))


def scheduler_leases(settings: Settings, profiles: Sequence[str]) -> dict[str, str]:
    """Return the Leases of a scheduler by name, with what each of them is for."""
    found = {_name(f"scheduler.{profile}"): f"the pods of the profile {profile}" for profile in profiles}
    shared = {_CANDIDATES: "the Candidates of the cluster"}
    return (shared if settings.scheduler.takes_candidates else {}) | dict(sorted(found.items()))


def claims_of(context: ProcessContext, log: Log, gate: Gate) -> ClusterClaims | None:
    """Return what keeps other logs away from the management cluster; None where no Leases are kept."""
    return _claims(context, log, gate, lease_names(context.settings), _OF_SERVICE)


def scheduler_claims_of(context: ProcessContext, profiles: Sequence[str], log: Log, gate: Gate) -> ClusterClaims | None:
    """Return what keeps other logs' schedulers away from what this one schedules; None where no Leases are kept.
    Candidates may be left to another one."""
    names = scheduler_lease_names(context.settings, profiles)
    return _claims(context, log, gate, names, _OF_SCHEDULER, optional=_CANDIDATES)


def _claims(
    context: ProcessContext, log: Log, gate: Gate, names: Sequence[str], texts: ClaimTexts, optional: str = ""
) -> ClusterClaims | None:
    settings, duration = context.settings, context.ports.claim
    if not duration or not settings.leader.lease_namespace:
        return None
    leases = {
        name: ClusterLease(
            ObjectRef(LEASES, settings.leader.lease_namespace, name), settings.leader.identity, context.clock, duration
        )
        for name in names
    }
    spared = leases.pop(optional, None)

    def told(waits: str) -> None:
        context.health.set("leader", True, f"waits: {waits}" if waits else "follows")

    return ClusterClaims(
        list(leases.values()),
        context.open_management,
        log.identity,
        context.clock,
        gate,
        told,
        texts,
        duration=duration,
        optional=OptionalLease(spared, *_LEFT) if spared is not None else None,
    )


def _name(of: str) -> str:
    """Return the name of a Lease; of what no object may be called, that of its hash."""
    name = f"controlplane.{of}"
    if _SUBDOMAIN.fullmatch(name) and len(name) <= _LONGEST:
        return name
    return f"controlplane.{hashlib.sha256(of.encode()).hexdigest()[:16]}"
