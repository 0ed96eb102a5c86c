"""What may help a pod that found no node, in words: for each plugin that refuses pods, what it waits for.

In: the plugins of a `SchedulingFailed`. Out: a clause that completes "it is tried again when …". The queueing hints
decide (`controlplane.controllers.scheduling.framework.hints`); a test sees to it that every plugin that has some has
its words here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

HELPS: Mapping[str, str] = {
    "NodeResourcesFit": "a node comes or gets room, or a pod leaves one or asks for less",
    "NodeAffinity": "a node comes, or gets labels, that the pod asks for",
    "NodeName": "the node that the pod names comes",
    "TaintToleration": "a node comes without taints that the pod does not tolerate, or loses them",
    "NodeUnschedulable": "a node comes or is uncordoned",
    "NodePorts": "a node comes, or a pod gives a port free",
    "PodTopologySpread": "a node comes, goes or changes its topology, or a pod that counts comes or goes",
    "InterPodAffinity": "a node comes or changes its labels, or a pod that its affinity means comes, goes or changes",
    "VolumeBinding": "its claim or volume comes or changes, or a node comes or changes its labels",
    "VolumeZone": "its claim or volume comes or changes, or a node comes or changes its labels",
    "VolumeRestrictions": "its claim comes or changes, or the pod that mounts its disk or has its claim goes",
    "DynamicResources": "a device is given back, or another is published; or the claim or its class changes",
    "NodeVolumeLimits": "a volume is detached from a node, or a node may attach more",
    "SchedulingGates": "its scheduling gates are taken away",
    "Gang": "its PodGroup may be tried as a whole again",
}
ANYTHING = "anything changes in the cluster"
"""What helps a pod that a plugin refused which does not say what helps."""


def helped_by(plugins: Iterable[str]) -> str:
    """Return when a pod is tried again that these plugins refused, to follow "when"."""
    named = sorted(set(plugins))
    if not named or any(plugin not in HELPS for plugin in named):
        return ANYTHING
    clauses: dict[str, list[str]] = {}
    for plugin in named:
        clauses.setdefault(HELPS[plugin], []).append(plugin)
    return "; or ".join(f"{clause} ({', '.join(plugins)})" for clause, plugins in clauses.items())
