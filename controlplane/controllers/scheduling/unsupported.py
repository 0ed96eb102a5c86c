"""Refuses, with the reason, a pod that asks for what its profile does not give: it is never bound.

In: a pod, the names of the profile's plugins. Out: a status. A profile may leave DynamicResources out; to bind a pod
with ResourceClaims all the same would be to promise what nobody keeps."""

from __future__ import annotations

from collections.abc import Container

from controlplane.controllers.scheduling.framework.status import SUCCESS, Status, unresolvable
from controlplane.controllers.scheduling.snapshot.objects import Pod

DYNAMIC_RESOURCES = "DynamicResources"
CLAIMED = "pod asks for spec.resourceClaims, and its profile has no plugin DynamicResources to allocate them"


def unsupported(pod: Pod, plugins: Container[str]) -> Status:
    """Return why a pod cannot be placed by a profile, Success if it can."""
    refused = pod.resource_claims and DYNAMIC_RESOURCES not in plugins
    return unresolvable(CLAIMED).by(DYNAMIC_RESOURCES) if refused else SUCCESS
