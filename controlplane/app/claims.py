"""Names the Leases of the management cluster that the processes of one log hold: one for each thing that only one log
may do.

In: settings. Out: the Leases, by name, in the namespace `leader.leaseNamespace`. For `multikueue` there are two:
AdmissionChecks are ours by `multikueue.controllerName`, and copies on workers by `multikueue.origin`, so another log
may have neither."""

from __future__ import annotations

import hashlib
import re

from controlplane.clusters.lease import ClusterLease
from controlplane.kube.kinds import LEASES, ObjectRef
from controlplane.log.port import Log
from controlplane.runtime.claims import ClusterClaims
from controlplane.runtime.gate import Gate
from controlplane.runtime.lifecycle import ProcessContext
from controlplane.settings import Settings

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 253


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


def claims_of(context: ProcessContext, log: Log, gate: Gate) -> ClusterClaims | None:
    """Return what keeps other logs away from the management cluster; None where no Leases are kept."""
    settings, duration = context.settings, context.ports.claim
    if not duration or not settings.leader.lease_namespace:
        return None
    leases = [
        ClusterLease(
            ObjectRef(LEASES, settings.leader.lease_namespace, name), settings.leader.identity, context.clock, duration
        )
        for name in lease_names(settings)
    ]

    def told(waits: str) -> None:
        context.health.set("leader", True, f"waits: {waits}" if waits else "follows")

    return ClusterClaims(leases, context.open_management, log.identity, context.clock, gate, told, duration=duration)


def _name(of: str) -> str:
    """Return the name of a Lease; of what no object may be called, that of its hash."""
    name = f"controlplane.{of}"
    if _SUBDOMAIN.fullmatch(name) and len(name) <= _LONGEST:
        return name
    return f"controlplane.{hashlib.sha256(of.encode()).hexdigest()[:16]}"
