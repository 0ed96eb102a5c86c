"""Why no node was available, read out of the sentence in which a scheduler says it, as `kubectl describe pod` shows it.

In: a message such as `0/5000 nodes are available: 3 Insufficient cpu, 4997 node(s) had untolerated taint {a: b}.`. Out: the
reasons, each with its number of nodes. Pure. Which nodes they were is in no log."""

from __future__ import annotations

import re

from controlplane.values import Value

_SAID = re.compile(r"^0/(\d+) nodes are available:\s*(.*?)\.?\s*(?:preemption: (.*))?$", re.DOTALL)
_NEXT = re.compile(r",\s+(?=\d+ )")
_COUNTED = re.compile(r"^(\d+) (.+)$", re.DOTALL)


class NodeReason(Value):
    """A reason with the number of nodes that gave it."""

    reason: str
    nodes: int


class Refusal(Value):
    """What all nodes said: how many there are, why each is none, and why nobody's eviction would help ("" if that was not
    said)."""

    nodes: int
    reasons: list[NodeReason]
    preemption: str = ""


def refusal(message: str) -> Refusal | None:
    """Return what a message says of the nodes, None if it says nothing of them."""
    found = _SAID.match(message.strip())
    if found is None:
        return None
    nodes, said, preemption = int(found[1]), found[2], found[3] or ""
    return Refusal(
        nodes=nodes,
        reasons=[_reason(part, nodes) for part in _NEXT.split(said) if part],
        preemption=preemption.rstrip("."),
    )


def _reason(text: str, nodes: int) -> NodeReason:
    """Return one reason; one without a number is that of all nodes, since it was found before any was looked at."""
    counted = _COUNTED.match(text)
    return NodeReason(reason=counted[2], nodes=int(counted[1])) if counted else NodeReason(reason=text, nodes=nodes)
