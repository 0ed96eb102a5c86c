"""The simplest rules: the node's name, whether it is cordoned, and whether the host ports are free."""

from __future__ import annotations

import numpy as np

from controlplane.controllers.scheduling.framework import plugin as framework
from controlplane.controllers.scheduling.framework import status
from controlplane.controllers.scheduling.framework.status import Status
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo, conflict
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.pod_counts import placed
from controlplane.controllers.scheduling.snapshot.snapshot import Mask, Snapshot
from controlplane.kube.tolerations import UNSCHEDULABLE

WRONG_NAME = status.unresolvable("node(s) didn't match the requested node name")
CORDONED = status.unresolvable("node(s) were unschedulable")
PORTS_TAKEN = status.unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodeName(framework.FilterPlugin):
    """A pod that names its node in the spec runs there or nowhere."""

    name = "NodeName"

    def filter(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node."""
        return WRONG_NAME if pod.node_name and pod.node_name != info.node.name else status.SUCCESS

    def filter_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> status.NodeStatuses:
        """Return the statuses of all nodes."""
        if not pod.node_name:
            return status.node_statuses(len(snapshot))
        others = np.ones(len(snapshot), dtype=np.bool_)
        if (row := snapshot.row.get(pod.node_name)) is not None:
            others[row] = False
        return status.node_statuses(len(snapshot), (others, WRONG_NAME))


class NodeUnschedulable(framework.FilterPlugin):
    """Cordoned nodes take only pods that tolerate the taint of a cordon (kubernetes/kubernetes
    pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go, v1.36)."""

    name = "NodeUnschedulable"

    def filter(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node."""
        return CORDONED if info.node.unschedulable and not _tolerates_cordon(pod) else status.SUCCESS

    def filter_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> status.NodeStatuses:
        """Return the statuses of all nodes."""
        if _tolerates_cordon(pod):
            return status.node_statuses(len(snapshot))
        return status.node_statuses(len(snapshot), (snapshot.unschedulable, CORDONED))


class NodePorts(framework.PreFilterPlugin, framework.FilterPlugin):
    """Host ports that the pod asks for must be free on the node."""

    name = "NodePorts"

    def pre_filter(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot) -> framework.Prefiltered:
        """Skip a pod without host ports."""
        return framework.Prefiltered(status.SUCCESS if pod.ports else status.SKIP)

    def filter(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node."""
        return PORTS_TAKEN if any(info.port_taken(port) for port in pod.ports) else status.SUCCESS

    def filter_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> status.NodeStatuses:
        """Return the statuses of all nodes."""
        taken = np.zeros(len(snapshot), dtype=np.bool_)
        for used, where in snapshot.ports.items():
            if any(conflict(port, used) for port in pod.ports):
                taken[placed(where, snapshot.rows_by_id)[0]] = True
        return status.node_statuses(len(snapshot), (taken, PORTS_TAKEN))


def _tolerates_cordon(pod: Pod) -> bool:
    return any(toleration.tolerates(UNSCHEDULABLE) for toleration in pod.tolerations)
