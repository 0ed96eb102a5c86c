"""Refuses, with the reason, a pod that asks for what this scheduler cannot give: it is never bound.

In: a pod. Out: a status, as kube-scheduler's own plugin for it would say (DynamicResources). It is looked at whatever a
profile enables, since to bind such a pod would be to promise what nobody keeps."""

from __future__ import annotations

from controlplane.controllers.scheduling.framework.status import SUCCESS, Status, unresolvable
from controlplane.controllers.scheduling.snapshot.objects import Pod

DYNAMIC_RESOURCES = "DynamicResources"
CLAIMED = "pod asks for spec.resourceClaims, which this scheduler does not allocate"


def unsupported(pod: Pod) -> Status:
    """Return why a pod cannot be placed by this scheduler, Success if it can."""
    return unresolvable(CLAIMED).by(DYNAMIC_RESOURCES) if pod.spec.get("resourceClaims") else SUCCESS
