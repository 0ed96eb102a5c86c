"""PodTopologySpread: pods of a kind are spread over zones, nodes or any other label
(kubernetes/kubernetes pkg/scheduler/framework/plugins/podtopologyspread, v1.36).

PreFilter counts matching pods per domain for the hard constraints, PreScore for the soft ones. Both come down to: a
number of pods a node (kept by the snapshot), a number of a domain a node, and sums over domains."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.controllers.scheduling.framework import plugin as framework
from controlplane.controllers.scheduling.framework.args import PodTopologySpreadArgs
from controlplane.controllers.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    NodeStatuses,
    Status,
    failed,
    node_statuses,
    unresolvable,
    unschedulable,
)
from controlplane.controllers.scheduling.plugins.node_affinity import admits
from controlplane.controllers.scheduling.plugins.spread_constraints import HARD, SOFT, Constraint, constraints_of
from controlplane.controllers.scheduling.snapshot.columns import LabelColumn
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Node, Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Mask, Snapshot
from controlplane.kube.pod_fields import PodMisfit
from controlplane.kube.selectors import InvalidSelector
from controlplane.kube.tolerations import untolerated
from controlplane.kube.well_known import HOSTNAME

MISSING_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
SKEWED = unschedulable("node(s) didn't match pod topology spread constraints")
_NO_DOMAIN = 2**31 - 1
Codes = NDArray[np.int32] | NDArray[np.int64]


@dataclass(slots=True)
class _Domains:
    """The domains of one hard constraint: which there are, and how many matching pods each has."""

    constraint: Constraint
    column: LabelColumn
    counts: Ints
    present: Mask
    own: int
    fewest: int = 0

    def measure(self) -> None:
        """Work out the global minimum; with fewer domains than `minDomains` it is 0."""
        if np.count_nonzero(self.present) < self.constraint.min_domains:
            self.fewest = 0
        else:
            self.fewest = int(self.counts[self.present].min(initial=_NO_DOMAIN))

    def clone(self) -> _Domains:
        """Return a copy whose counts can change."""
        counts, present = self.counts.copy(), self.present.copy()
        return _Domains(self.constraint, self.column, counts, present, self.own, self.fewest)

    def refuses(self, node: Node) -> Status:
        """Return the status of one node."""
        value = node.labels.get(self.constraint.topology_key)
        if value is None:
            return MISSING_LABEL
        number = self.column.number(value)
        count = int(self.counts[number]) if 0 <= number < len(self.counts) else 0
        return SKEWED if count + self.own - self.fewest > self.constraint.max_skew else SUCCESS


class _Hard(list[_Domains]):
    def clone(self) -> _Hard:
        return _Hard(domains.clone() for domains in self)


@dataclass(slots=True)
class _Soft:
    """What Score needs: of each constraint its column, weight, and count of each domain (None: of each node)."""

    parts: list[tuple[Constraint, LabelColumn, float, Ints | None, Ints]]
    require_all: bool

    def ignores(self, node: Node) -> bool:
        """Return whether a node is left out of the scoring: it lacks a key that is asked for."""
        return self.require_all and any(part[0].topology_key not in node.labels for part in self.parts)


class PodTopologySpread(
    framework.PreFilterPlugin, framework.FilterPlugin, framework.PreScorePlugin, framework.ScorePlugin
):
    """Refuses nodes where a hard constraint would be violated, and prefers those where soft ones are met best."""

    name = "PodTopologySpread"
    args_type = PodTopologySpreadArgs

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        super().__init__(args or PodTopologySpreadArgs())

    # ---------------------------------------------------------------- filter

    def pre_filter(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot) -> framework.Prefiltered:
        """Count matching pods per domain over all nodes that have every key and that the policies include."""
        try:
            constraints = constraints_of(pod, HARD, self.args, snapshot.cluster)
        except (InvalidSelector, PodMisfit) as problem:
            return framework.Prefiltered(failed(f"get constraints from pod: {problem}"))
        if not constraints:
            return framework.Prefiltered(SKIP)
        columns = [snapshot.label(constraint.topology_key) for constraint in constraints]
        complete = np.ones(len(snapshot), dtype=np.bool_)
        for column in columns:
            complete &= column.codes >= 0
        found = _Hard()
        for constraint, column in zip(constraints, columns, strict=True):
            included = complete & _included(constraint, pod, snapshot)
            codes = column.codes[included]
            counts = _per_code(codes, _matching(constraint, pod, snapshot)[included], len(column.values))
            present = np.bincount(codes, minlength=len(column.values)) > 0
            domains = _Domains(constraint, column, counts, present, int(constraint.selector.matches(pod.labels)))
            domains.measure()
            found.append(domains)
        state.data[self.name] = found
        return framework.Prefiltered()

    def filter(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node: the first constraint that refuses it."""
        for domains in state.data[self.name]:
            status: Status = domains.refuses(info.node)
            if not status.ok:
                return status
        return SUCCESS

    def filter_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> NodeStatuses:
        """Return the statuses of all nodes."""
        refused = []
        for domains in state.data[self.name]:
            codes = domains.column.codes
            refused.append((codes < 0, MISSING_LABEL))
            most = domains.constraint.max_skew - domains.own + domains.fewest
            refused.append(((domains.counts > most)[codes] if len(domains.counts) else codes >= 0, SKEWED))
        return node_statuses(len(snapshot), *refused)

    def add_pod(self, state: framework.CycleState, pod: Pod, added: Pod, info: NodeInfo) -> Status:
        """Count a pod that came to a node."""
        return self._change(state, pod, added, info.node, 1)

    def remove_pod(self, state: framework.CycleState, pod: Pod, removed: Pod, info: NodeInfo) -> Status:
        """Count a pod that left a node; unlike in PreFilter, terminating pods are counted here."""
        return self._change(state, pod, removed, info.node, -1)

    def _change(self, state: framework.CycleState, pod: Pod, other: Pod, node: Node, step: int) -> Status:
        found: _Hard = state.data[self.name]
        if other.namespace != pod.namespace or any(d.constraint.topology_key not in node.labels for d in found):
            return SUCCESS
        for domains in found:
            constraint = domains.constraint
            number = domains.column.number(node.labels[constraint.topology_key])
            if number < 0 or not constraint.selector.matches(other.labels) or not _includes(constraint, pod, node):
                continue
            domains.counts[number] += step
            domains.present[number] = True
            domains.measure()
        return SUCCESS

    # ---------------------------------------------------------------- score

    def pre_score(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Status:
        """Register the domains of the feasible nodes, weigh each constraint by their number, and count over all
        nodes.
        """
        if not len(snapshot):
            return SKIP
        try:
            constraints = constraints_of(pod, SOFT, self.args, snapshot.cluster)
        except (InvalidSelector, PodMisfit) as problem:
            return failed(f"calculating preScoreState: {problem}")
        if not constraints:
            return SKIP
        require_all = bool(pod.spread) or self.args.defaulting_type != "System"
        columns = [snapshot.label(constraint.topology_key) for constraint in constraints]
        complete = np.ones(len(snapshot), dtype=np.bool_)
        if require_all:
            for column in columns:
                complete &= column.codes >= 0
        scored = rows[complete[rows]]
        parts: list[tuple[Constraint, LabelColumn, float, Ints | None, Ints]] = []
        for constraint, column in zip(constraints, columns, strict=True):
            matching = _matching(constraint, pod, snapshot)
            if constraint.topology_key == HOSTNAME:
                parts.append((constraint, column, math.log(len(scored) + 2), None, matching))
                continue
            # A node without the label counts to the domain "", which only `require_all` keeps from being registered.
            nowhere = column.number("") if column.number("") >= 0 else len(column.values)
            codes = np.where(column.codes >= 0, column.codes, nowhere)
            registered = np.bincount(codes[scored], minlength=len(column.values) + 1) > 0
            included = complete & _included(constraint, pod, snapshot) & registered[codes]
            counts = _per_code(codes[included], matching[included], len(column.values) + 1)
            parts.append((constraint, column, math.log(int(registered.sum()) + 2), counts, matching))
        state.data["PreScore" + self.name] = _Soft(parts, require_all)
        return SUCCESS

    def score(self, state: framework.CycleState, pod: Pod, info: NodeInfo) -> int:
        """Return how many matching pods the node's domains have, weighted; more is worse."""
        soft: _Soft = state.data["PreScore" + self.name]
        if soft.ignores(info.node):
            return 0
        total = 0.0
        for constraint, column, weight, counts, matching in soft.parts:
            value = info.node.labels.get(constraint.topology_key)
            if value is not None:
                count = int(matching[info.row] if counts is None else counts[column.number(value)])
                total += count * weight + float(constraint.max_skew - 1)
        return math.floor(total + 0.5) if total >= 0 else -math.floor(-total + 0.5)

    def score_all(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Ints:
        """Return the raw scores of the nodes in `rows`."""
        soft: _Soft = state.data["PreScore" + self.name]
        total = np.zeros(len(rows), dtype=np.float64)
        for constraint, column, weight, counts, matching in soft.parts:
            codes = column.codes[rows]
            count = matching[rows] if counts is None else counts[codes]
            total += np.where(codes >= 0, count * weight + float(constraint.max_skew - 1), 0.0)
        total[self._ignored(soft, rows)] = 0.0
        rounded = np.where(total >= 0, np.floor(total + 0.5), -np.floor(-total + 0.5))
        return rounded.astype(np.int64)

    def normalize(self, state: framework.CycleState, pod: Pod, snapshot: Snapshot, rows: Ints, scores: Ints) -> Ints:
        """Return 100 for the fewest pods; ignored nodes have 0."""
        ignored = self._ignored(state.data["PreScore" + self.name], rows)
        live = scores[~ignored]
        most = max(0, int(live.max(initial=0)))
        if not len(live) or most == 0:
            return np.where(ignored, 0, framework.MAX_SCORE).astype(np.int64)
        return np.where(ignored, 0, framework.MAX_SCORE * (most + int(live.min()) - scores) // most)

    def _ignored(self, soft: _Soft, rows: Ints) -> Mask:
        ignored = np.zeros(len(rows), dtype=np.bool_)
        if soft.require_all:
            for part in soft.parts:
                ignored |= part[1].codes[rows] < 0
        return ignored


def _per_code(codes: Codes, counted: Ints, size: int) -> Ints:
    return np.bincount(codes, weights=counted, minlength=size).astype(np.int64)


def _matching(constraint: Constraint, pod: Pod, snapshot: Snapshot) -> Ints:
    query = constraint.query(pod.namespace)
    return np.zeros(len(snapshot), dtype=np.int64) if query is None else snapshot.matching(query)


def _included(constraint: Constraint, pod: Pod, snapshot: Snapshot) -> Mask:
    included = np.ones(len(snapshot), dtype=np.bool_)
    if constraint.honor_affinity:
        included &= snapshot.selected(pod.nodes)
    if constraint.honor_taints:
        included &= ~snapshot.repelled(pod.tolerations)
    return included


def _includes(constraint: Constraint, pod: Pod, node: Node) -> bool:
    if constraint.honor_affinity and not admits(pod.nodes, node):
        return False
    return not constraint.honor_taints or untolerated(node.taints, pod.tolerations) is None
