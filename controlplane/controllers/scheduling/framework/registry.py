"""Lists the plugins that there are, and those that the default profile has.

`IN_TREE` is kube-scheduler's own set as far as it is here. Others register a `Plugin` class by the entry point group
`GROUP`; finding them is the composition root's work, and every function here takes the registry as an argument."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.scheduling.framework.plugin import Plugin
from controlplane.controllers.scheduling.plugins.default_preemption import DefaultPreemption
from controlplane.controllers.scheduling.plugins.dynamic_resources import DynamicResources
from controlplane.controllers.scheduling.plugins.gang import Gang
from controlplane.controllers.scheduling.plugins.image_locality import ImageLocality
from controlplane.controllers.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from controlplane.controllers.scheduling.plugins.node_affinity import NodeAffinity
from controlplane.controllers.scheduling.plugins.node_basics import NodeName, NodePorts, NodeUnschedulable
from controlplane.controllers.scheduling.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from controlplane.controllers.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from controlplane.controllers.scheduling.plugins.pod_topology_spread import PodTopologySpread
from controlplane.controllers.scheduling.plugins.queueing import DefaultBinder, PrioritySort, SchedulingGates
from controlplane.controllers.scheduling.plugins.taint_toleration import TaintToleration
from controlplane.controllers.scheduling.plugins.volume_binding import VolumeBinding
from controlplane.controllers.scheduling.plugins.volume_restrictions import VolumeRestrictions
from controlplane.controllers.scheduling.plugins.volume_zone import VolumeZone

GROUP = "controlplane.scheduler.plugins"
Registry = Mapping[str, type[Plugin]]

DEFAULT_MULTI_POINT: tuple[tuple[type[Plugin], int], ...] = (
    (SchedulingGates, 0),
    (PrioritySort, 0),
    (NodeUnschedulable, 0),
    (NodeName, 0),
    (TaintToleration, 3),
    (NodeAffinity, 2),
    (NodePorts, 0),
    (NodeResourcesFit, 1),
    (VolumeRestrictions, 0),
    (NodeVolumeLimits, 0),
    (VolumeBinding, 1),
    (VolumeZone, 0),
    (PodTopologySpread, 2),
    (InterPodAffinity, 2),
    (DynamicResources, 2),
    (DefaultPreemption, 0),
    (NodeResourcesBalancedAllocation, 1),
    (ImageLocality, 1),
    (DefaultBinder, 0),
)
"""The default profile in its order, with weights
(kubernetes/kubernetes pkg/scheduler/apis/config/v1/default_plugins.go, v1.36).
"""

IN_TREE: Registry = {plugin.name: plugin for plugin, _ in DEFAULT_MULTI_POINT} | {Gang.name: Gang}
"""All that is here: the default profile's, and what a configuration enables by name."""

NOT_HERE = frozenset({"NodeDeclaredFeatures"})
"""Plugins of kube-scheduler that are not here: a configuration may disable them, not enable them."""
