"""Reads why no node was available out of the sentence in which a scheduler says it, as `kubectl describe pod` shows it,
and says which nodes those were.

In: a message such as `0/5000 nodes are available: 3 Insufficient cpu, 4997 node(s) had untolerated taint {a: b}.`, and
the names that were recorded with it. Out: the reasons, each with its number of nodes; and words for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from controlplane.runtime.phrases import listed
from controlplane.values import Value

_SAID = re.compile(r"^0/(\d+) nodes are available:\s*(.*?)\.?\s*(?:preemption: (.*))?$", re.DOTALL)
_NEXT = re.compile(r",\s+(?=\d+ )")
_COUNTED = re.compile(r"^(\d+) (.+)$", re.DOTALL)


class NodeReason(Value):
    """A reason with the number of nodes that gave it."""

    reason: str
    nodes: int


class Refusal(Value):
    """What all nodes said: how many there are, why each is none, and why nobody's eviction would help ("" if that was
    not said)."""

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


def refusing_nodes(message: str, nodes: Mapping[str, Sequence[str]], most: int) -> str:
    """Return which nodes gave each reason, at most so many of each: `Insufficient cpu on n1, n2 and 12 more`; "" if
    none are known.
    """
    found = refusal(message)
    counts = {one.reason: one.nodes for one in found.reasons} if found is not None else {}
    return "; ".join(
        f"{reason} on {named(names, counts.get(reason, 0), most)}" for reason, names in sorted(nodes.items())
    )


def named(names: Sequence[str], count: int, most: int) -> str:
    """Return at most so many of the names of `count` nodes, and how many more there are."""
    shown = list(names[:most])
    more = max(count, len(names)) - len(shown)
    return listed([*shown, f"{more} more"] if more else shown)
