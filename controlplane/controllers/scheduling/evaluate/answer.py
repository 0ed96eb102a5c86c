"""Evaluates a question: what each plugin says of a pod, and what they decide together.

In: a `Question`. Out: plain data in the form of docs/reference/scheduler-evaluate.md. Each plugin is asked alone, with
a state of its own; then the profile runs as in a real cycle, and preemption where no node is feasible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from controlplane.controllers.scheduling.cycle import CycleResult, choose, filtered
from controlplane.controllers.scheduling.evaluate.request import Question
from controlplane.controllers.scheduling.framework.configuration import default_framework
from controlplane.controllers.scheduling.framework.plugin import (
    CycleState,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.framework.status import SUCCESS, Code, NodeStatuses, Status
from controlplane.controllers.scheduling.plugins.dynamic_resources import DynamicResources
from controlplane.controllers.scheduling.plugins.node_resources import NodeResourcesFit
from controlplane.kube.kinds import Json


def answer(question: Question, framework: Framework | None = None) -> Json:
    """Return the answer to one question, of the default profile or of another one."""
    framework = framework or default_framework(question.args)
    per_plugin = {name: _alone(plugin, question) for name, plugin in _plugins(framework, question)}
    decision = decide(framework, question)
    return {
        "id": question.id,
        "perPlugin": per_plugin,
        "combined": _combined(decision, question),
        "preemption": _preemption(decision),
    }


def decide(framework: Framework, question: Question) -> CycleResult:
    """Run the whole cycle, with the changes applied between PreFilter and Filter."""
    pod, snapshot, state = question.pod, question.snapshot, CycleState()
    prefiltered = framework.pre_filter(state, pod, snapshot)
    if not prefiltered.status.ok:
        everywhere = NodeStatuses(np.ones(len(snapshot), dtype=np.int32), (SUCCESS, prefiltered.status))
        found = CycleResult(prefiltered.status, everywhere, np.empty(0, dtype=np.int64), state)
    else:
        for change in question.changes:
            info = snapshot.info(snapshot.row[change.node])
            (framework.add_pod if change.adds else framework.remove_pod)(state, pod, change.pod, info)
        found = filtered(framework, snapshot, pod, state, prefiltered, question.nominated)
    if found.status.code is Code.ERROR:
        return found
    if len(found.feasible):
        choose(framework, snapshot, pod, found)
    elif len(snapshot):
        found.post_filtered = framework.post_filter(state, pod, snapshot, found.statuses, question.nominated)
    return found


def _plugins(framework: Framework, question: Question) -> Iterator[tuple[str, Plugin]]:
    seen: dict[str, Plugin] = {}
    for point in ("preFilter", "filter", "preScore", "score"):
        for plugin in framework.points[point]:
            seen.setdefault(plugin.name, plugin)
    for kind in ("MostAllocated", "RequestedToCapacityRatio"):
        if NodeResourcesFit.name in seen:
            seen[f"{NodeResourcesFit.name}:{kind}"] = NodeResourcesFit(question.strategies[kind])
    for name, plugin in seen.items():
        if question.only is None or name in question.only:
            yield name, plugin


def _alone(plugin: Plugin, question: Question) -> Json:
    """Ask one plugin by itself; what it does not implement is left out, and what it skipped is empty."""
    state = CycleState()
    found: Json = {}
    runs = True
    if isinstance(plugin, PreFilterPlugin):
        status = plugin.pre_filter(state, question.pod, question.snapshot).status
        found["preFilter"] = _status(status)
        runs = status.code is Code.SUCCESS
        if runs:
            _change(plugin, state, question)
    if isinstance(plugin, FilterPlugin):
        found["filter"] = _filtered(plugin, state, question) if runs else {}
        if isinstance(plugin, DynamicResources):
            found["allocations"] = plugin.allocations(state)
    return found | (_scored(plugin, state, question) if isinstance(plugin, ScorePlugin) else {})


def _change(plugin: PreFilterPlugin, state: CycleState, question: Question) -> None:
    """Tell a plugin of the pods that the question has come and go."""
    for change in question.changes:
        info = question.snapshot.info(question.snapshot.row[change.node])
        (plugin.add_pod if change.adds else plugin.remove_pod)(state, question.pod, change.pod, info)


def _filtered(plugin: FilterPlugin, state: CycleState, question: Question) -> Json:
    snapshot = question.snapshot
    statuses = plugin.filter_all(state, question.pod, snapshot, np.ones(len(snapshot), dtype=np.bool_))
    return {node.name: _status(statuses.of(row)) for row, node in enumerate(snapshot.nodes)}


def _scored(plugin: ScorePlugin, state: CycleState, question: Question) -> Json:
    """Return the raw and the normalized score of each node, and what PreScore answered."""
    pod, snapshot, rows = question.pod, question.snapshot, np.array(question.scored, dtype=np.int64)
    found: Json = {"score": {}}
    if isinstance(plugin, PreScorePlugin):
        status = plugin.pre_score(state, pod, snapshot, rows)
        told = {"reasons": list(status.reasons)} if status.reasons else {}
        found = {"preScore": {"code": status.code.value, **told}, "score": {}}
        if status.code is not Code.SUCCESS:
            return found
    if len(rows):
        raw = plugin.score_all(state, pod, snapshot, rows)
        normalised = plugin.normalize(state, pod, snapshot, rows, raw.copy())
        pairs = zip(rows.tolist(), raw.tolist(), normalised.tolist(), strict=True)
        found["score"] = {snapshot.nodes[row].name: [one, other] for row, one, other in pairs}
    return found


def _combined(decision: CycleResult, question: Question) -> Json:
    nodes = question.snapshot.nodes
    found: Json = {
        "filter": {
            node.name: _status(status, plugin=status.plugin)
            for node, status in ((node, decision.statuses.of(row)) for row, node in enumerate(nodes))
        },
        "feasible": [nodes[row].name for row in sorted(decision.feasible.tolist())],
        "scores": {},
        "best": [nodes[row].name for row in sorted(decision.best)],
    }
    scores = decision.scores
    if scores is not None:
        for row, at in sorted((row, at) for at, row in enumerate(scores.rows.tolist())):
            by_plugin = {name: int(weighted[at]) for name, weighted in scores.weighted.items()}
            found["scores"][nodes[row].name] = {"total": int(scores.total[at]), "plugins": by_plugin}
    if decision.status.code is Code.ERROR:
        found["error"] = _status(decision.status, plugin=decision.status.plugin)
    return found


def _preemption(decision: CycleResult) -> Json:
    preemption = decision.post_filtered
    if preemption is None:
        return {"candidates": {}, "chosen": []}
    candidates = {
        node: {"victims": [pod.key for pod in victims.pods], "numPDBViolations": victims.violations}
        for node, victims in preemption.candidates.items()
    }
    return {"candidates": candidates, "chosen": list(preemption.best)}


def _status(status: Status, **more: Any) -> Json:
    return {"code": status.code.value, **more, "reasons": list(status.reasons)}
