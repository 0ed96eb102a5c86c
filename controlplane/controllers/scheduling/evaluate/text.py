"""Writes the answer as `kubectl describe` does: why each node was refused, or where the pod goes.

In: a question and its decision. Out: lines of text.
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.controllers.scheduling.cycle import CycleResult
from controlplane.controllers.scheduling.evaluate.request import Question


def told(question: Question, decision: CycleResult) -> Iterator[str]:
    """Yield the lines about one pod: a summary, then each node."""
    nodes = question.snapshot.nodes
    yield f"{_name(question)}: {_summary(question, decision)}"
    width = max((len(node.name) for node in nodes), default=0)
    totals = {}
    if decision.scores is not None:
        totals = dict(zip(decision.scores.rows.tolist(), range(len(decision.scores.rows)), strict=True))
    for row, node in enumerate(nodes):
        status = decision.statuses.of(row)
        if status.ok:
            yield f"  {node.name:<{width}}  feasible{_scored(decision, totals.get(row))}"
        else:
            yield f"  {node.name:<{width}}  {status.plugin}: {', '.join(status.reasons)} ({status.code.value})"
    if decision.post_filtered is not None:
        for name, victims in decision.post_filtered.candidates.items():
            evicted = ", ".join(pod.key for pod in victims.pods)
            violated = f", violates {victims.violations} budget(s)" if victims.violations else ""
            yield f"  {name:<{width}}  would have room without {evicted}{violated}"


def _name(question: Question) -> str:
    label = "" if question.id is None else f"[{question.id}] "
    return label + (question.pod.key if question.pod.namespace else question.pod.name)


def _summary(question: Question, decision: CycleResult) -> str:
    nodes = question.snapshot.nodes
    if not nodes:
        return "no nodes available to schedule pods"
    if decision.best:
        best = " or ".join(nodes[row].name for row in sorted(decision.best))
        return f"{len(decision.feasible)}/{len(nodes)} nodes are available; goes to {best}"
    said = " ".join(decision.status.reasons)
    if decision.post_filtered is None:
        return said
    if decision.post_filtered.best:
        return f"{said} preemption: would evict pods from {' or '.join(decision.post_filtered.best)}"
    return " ".join([said, *decision.post_filtered.status.reasons])


def _scored(decision: CycleResult, at: int | None) -> str:
    if decision.scores is None or at is None:
        return ""
    parts = ", ".join(f"{name} {int(weighted[at])}" for name, weighted in decision.scores.weighted.items())
    return f", score {int(decision.scores.total[at])} ({parts})"
