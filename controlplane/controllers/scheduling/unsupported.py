"""Refuses, with the reason, a pod that asks for what its profile does not give, or for what cannot be looked at: it is
not bound.

In: a pod, the names of the profile's plugins, the kinds that cannot be read. Out: a status. A profile may leave
DynamicResources out; to bind a pod with ResourceClaims all the same would be to promise what nobody keeps. An object of
a kind that nobody may read is not gone, and a term that asks for namespaces by labels that nobody sees is not met."""

from __future__ import annotations

from collections.abc import Container, Mapping

from controlplane.controllers.scheduling.framework.status import SUCCESS, Status, unresolvable
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.kube.kinds import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS, Kind

DYNAMIC_RESOURCES = "DynamicResources"
CLAIMED = "pod asks for spec.resourceClaims, and its profile has no plugin DynamicResources to allocate them"


def unsupported(pod: Pod, plugins: Container[str], off: Mapping[str, str]) -> Status:
    """Return why a pod cannot be placed by a profile, Success if it can; `off`: as in `unread`."""
    refused = pod.resource_claims and DYNAMIC_RESOURCES not in plugins
    return unresolvable(CLAIMED).by(DYNAMIC_RESOURCES) if refused else unread(pod, off)


def unread(pod: Pod, off: Mapping[str, str]) -> Status:
    """Return which kind a pod needs that cannot be read, Success if none; `off`: why, by the names of kinds."""
    if not off:
        return SUCCESS
    needed: tuple[tuple[bool, Kind, str], ...] = (
        (bool(pod.claims), PERSISTENT_VOLUME_CLAIMS, "VolumeBinding"),
        (bool(pod.resource_claims), RESOURCE_CLAIMS, DYNAMIC_RESOURCES),
        (_selects_namespaces(pod), NAMESPACES, "InterPodAffinity"),
    )
    found = next(((kind, plugin) for asks, kind, plugin in needed if asks and kind.name in off), None)
    if found is None:
        return SUCCESS
    kind, plugin = found
    return unresolvable(f"the pod needs {kind.name}, which cannot be read: {off[kind.name]}").by(plugin)


def _selects_namespaces(pod: Pod) -> bool:
    selectors = (term.namespace_selector for term in (*pod.affinity.required, *pod.affinity.anti))
    return any(not selector.nothing and not selector.everything for selector in selectors)
