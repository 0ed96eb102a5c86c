"""Spread and inter-pod affinity once more, written down from the rules with dicts and loops, pod by pod; slow and
plain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from controlplane.controllers.scheduling.evaluate.request import Question
from controlplane.controllers.scheduling.plugins.node_affinity import admits
from controlplane.controllers.scheduling.snapshot.affinity import AffinityTerm
from controlplane.controllers.scheduling.snapshot.objects import Node, Pod
from controlplane.kube.selectors import LabelSelector, label_selector
from controlplane.kube.tolerations import untolerated
from controlplane.kube.well_known import HOSTNAME

HOPELESS, REFUSED = "UnschedulableAndUnresolvable", "Unschedulable"


def pods_on(question: Question, node: Node) -> list[Pod]:
    return list(question.snapshot.info(question.snapshot.row[node.name]).pods.values())


def selector_of(constraint: dict, pod: Pod) -> LabelSelector:  # type: ignore[type-arg]
    selector = label_selector(constraint.get("labelSelector"))
    keys = [key for key in constraint.get("matchLabelKeys") or () if key in pod.labels]
    more = label_selector({"matchLabels": {key: pod.labels[key] for key in keys}})
    return selector.plus(more.requirements)


def count(question: Question, node: Node, selector: LabelSelector) -> int:
    if selector.everything:
        return 0
    return sum(
        p.namespace == question.pod.namespace and not p.terminating and selector.matches(p.labels)
        for p in pods_on(question, node)
    )


def included(constraint: dict, pod: Pod, node: Node) -> bool:  # type: ignore[type-arg]
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not admits(pod.nodes, node):
        return False
    return constraint.get("nodeTaintsPolicy") != "Honor" or untolerated(node.taints, pod.tolerations) is None


def spread_filter(question: Question) -> dict[str, str] | None:
    """Return the code of each node, None if PreFilter skips."""
    pod, nodes = question.pod, question.snapshot.nodes
    hard = [c for c in pod.spread if c["whenUnsatisfiable"] == "DoNotSchedule"]
    if not hard:
        return None
    domains: list[dict[str, int]] = [{} for _ in hard]
    for node in nodes:
        if all(c["topologyKey"] in node.labels for c in hard):
            for at, c in enumerate(hard):
                if included(c, pod, node):
                    value = node.labels[c["topologyKey"]]
                    domains[at][value] = domains[at].get(value, 0) + count(question, node, selector_of(c, pod))
    return {node.name: _spread_code(pod, node, hard, domains) for node in nodes}


def _spread_code(pod: Pod, node: Node, hard: Sequence[dict[str, Any]], domains: Sequence[dict[str, int]]) -> str:
    for c, found in zip(hard, domains, strict=True):
        if c["topologyKey"] not in node.labels:
            return HOPELESS
        least = 0 if len(found) < c.get("minDomains", 1) else min(found.values())
        own = int(selector_of(c, pod).matches(pod.labels))
        if found.get(node.labels[c["topologyKey"]], 0) + own - least > c["maxSkew"]:
            return REFUSED
    return "Success"


def spread_scores(question: Question) -> dict[str, tuple[int, int]] | None:
    """Return raw and normalised scores over all nodes, None if PreScore skips. For pods with constraints of their
    own.
    """
    pod, nodes = question.pod, question.snapshot.nodes
    soft = [c for c in pod.spread if c["whenUnsatisfiable"] == "ScheduleAnyway"]
    if not soft:
        return None
    live = [node for node in nodes if all(c["topologyKey"] in node.labels for c in soft)]
    raw = {node.name: 0 for node in nodes}
    for node in live:
        total = 0.0
        for c in soft:
            key, selector = c["topologyKey"], selector_of(c, pod)
            same = [n for n in live if n.labels[key] == node.labels[key] and included(c, pod, n)]
            size = len(live) if key == HOSTNAME else len({n.labels[key] for n in live})
            matching = (
                count(question, node, selector) if key == HOSTNAME else sum(count(question, n, selector) for n in same)
            )
            total += matching * math.log(size + 2) + (c["maxSkew"] - 1)
        raw[node.name] = math.floor(total + 0.5)
    scores = [raw[node.name] for node in live]
    most, least = max([0, *scores]), min(scores, default=0)
    names = {node.name for node in live}
    return {
        name: (value, 0 if name not in names else 100 if most == 0 else 100 * (most + least - value) // most)
        for name, value in raw.items()
    }


def means(term: AffinityTerm, pod: Pod, question: Question) -> bool:
    """Return whether a term means a pod."""
    labels = question.snapshot.cluster.namespaces.get(pod.namespace)
    by_labels = term.namespace_selector.everything or (labels is not None and term.namespace_selector.matches(labels))
    return (pod.namespace in term.namespaces or by_labels) and term.selector.matches(pod.labels)


def affinity_filter(question: Question) -> dict[str, str]:
    """Return the code of each node."""
    pod, nodes = question.pod, question.snapshot.nodes
    existing: set[tuple[str, str]] = set()
    sought: dict[tuple[str, str], int] = {}
    shunned: set[tuple[str, str]] = set()
    required, anti = pod.affinity.required, pod.affinity.anti
    for node in nodes:
        for other in pods_on(question, node):
            pairs = node.labels
            existing |= {
                (t.topology_key, pairs[t.topology_key])
                for t in other.affinity.anti
                if t.topology_key in pairs and means(t, pod, question)
            }
            shunned |= {
                (t.topology_key, pairs[t.topology_key])
                for t in anti
                if t.topology_key in pairs and means(t, other, question)
            }
            if required and all(means(t, other, question) for t in required):
                for t in required:
                    if t.topology_key in pairs:
                        pair = (t.topology_key, pairs[t.topology_key])
                        sought[pair] = sought.get(pair, 0) + 1
    first = not sought and all(means(t, pod, question) for t in required)
    codes = {}
    for node in nodes:
        has = node.labels
        pairs = [(t.topology_key, has.get(t.topology_key)) for t in required]
        lacking = any(value is None for _, value in pairs)
        if lacking or (not first and any(pair not in sought for pair in pairs)):
            codes[node.name] = HOPELESS
        elif any((t.topology_key, has.get(t.topology_key)) in shunned for t in anti) or existing & has.items():
            codes[node.name] = REFUSED
        else:
            codes[node.name] = "Success"
    return codes


def affinity_scores(question: Question) -> dict[str, int]:
    """Return the raw score of each node."""
    pod, nodes = question.pod, question.snapshot.nodes
    sums: dict[tuple[str, str], int] = {}
    for node in nodes:
        for other in pods_on(question, node):
            said = [(w, t, other) for w, t in pod.affinity.preferred]
            said += [(-w, t, other) for w, t in pod.affinity.preferred_anti]
            said += [(1, t, pod) for t in other.affinity.required]
            said += [(w, t, pod) for w, t in other.affinity.preferred]
            said += [(-w, t, pod) for w, t in other.affinity.preferred_anti]
            for weight, term, meant in said:
                if term.topology_key in node.labels and means(term, meant, question):
                    pair = (term.topology_key, node.labels[term.topology_key])
                    sums[pair] = sums.get(pair, 0) + weight
    return {node.name: sum(sums.get(pair, 0) for pair in node.labels.items()) for node in nodes}
