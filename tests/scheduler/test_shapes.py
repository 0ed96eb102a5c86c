"""Fields of a wrong type that a plugin reads only when it is asked: `evaluate` answers the line with an error that
names the field.
"""

from __future__ import annotations

import json
from typing import Any

from controlplane.controllers.scheduling.evaluate.lines import said
from controlplane.kube.kinds import Json
from tests.scheduler.objects import constraint, node, pod
from tests.support.rows import each

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def told(**more: Any) -> str:
    """Return what is said of a line with one wrong field."""
    line: Json = {"id": "one", "pod": pod("new", {"app": "a"}), "nodes": [node("a")], **more}
    ok, text = said(json.dumps(line).encode(), 1)
    found: Json = json.loads(text)
    assert not ok
    assert found["id"] == "one"
    return str(found["error"])


def spread(**more: Any) -> Json:
    return {"pod": pod("new", topologySpreadConstraints=[constraint("rack") | more])}


@each(
    ("more", "field", "what"),
    [
        (spread(maxSkew="1"), "pod.spec.topologySpreadConstraints[0].maxSkew", "got `str`"),
        (spread(maxSkew=True), "pod.spec.topologySpreadConstraints[0].maxSkew", "got `bool`"),
        (spread(maxSkew=1.5), "pod.spec.topologySpreadConstraints[0].maxSkew", "got `float`"),
        (spread(maxSkew=2**31), "pod.spec.topologySpreadConstraints[0].maxSkew", "expected `int` <= 2147483647"),
        (spread(topologyKey=5), "pod.spec.topologySpreadConstraints[0].topologyKey", "got `int`"),
        (spread(matchLabelKeys="app"), "pod.spec.topologySpreadConstraints[0].matchLabelKeys", "got `str`"),
        (
            spread(labelSelector={"matchLabels": 5}),
            "pod.spec.topologySpreadConstraints[0].labelSelector.matchLabels",
            "got `int`",
        ),
        (
            spread(labelSelector={"matchLabels": {"app": 5}}),
            "pod.spec.topologySpreadConstraints[0].labelSelector.matchLabels[...]",
            "got `int`",
        ),
        (
            {"pod": pod("n", affinity={"podAffinity": {PREFERRED: [{"weight": 10**30}]}})},
            f"pod.spec.affinity.podAffinity.{PREFERRED}[0].weight",
            "expected `int` <= 2147483647",
        ),
        (
            {"pods": [pod("p", affinity={"podAntiAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": []}}]}})]},
            f"pods[0].spec.affinity.podAntiAffinity.{REQUIRED}[0].labelSelector.matchLabels",
            "got `array`",
        ),
        (
            {
                "pod": pod(
                    "n", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [1]}]}}}
                )
            },
            f"pod.spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]",
            "got `int`",
        ),
        ({"pod": pod("n", tolerations=[{"key": 1}])}, "pod.spec.tolerations[0].key", "got `int`"),
        ({"nodes": [node("a", taints=[{"key": []}])]}, "nodes[0].spec.taints[0].key", "got `array`"),
        (
            {"pods": [{"status": {"containerStatuses": [{"resources": {"requests": 1}}]}}]},
            "pods[0].status.containerStatuses[0].resources.requests",
            "got `int`",
        ),
        ({"pods": [{"status": {"conditions": [1]}}]}, "pods[0].status.conditions[0]", "got `int`"),
        (
            {"simulate": [{"op": "add", "node": "a", "pod": {"status": {"conditions": -1}}}]},
            "simulate[0].pod.status.conditions",
            "got `int`",
        ),
        (
            {"persistentVolumes": [{"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [[]]}}}}]},
            "persistentVolumes[0].spec.nodeAffinity.required.nodeSelectorTerms[0]",
            "got `array`",
        ),
        (
            {"podDisruptionBudgets": [{"spec": {"selector": {"matchLabels": {"a": None}}}}]},
            "podDisruptionBudgets[0].spec.selector.matchLabels[...]",
            "got `null`",
        ),
        ({"defaultConstraints": [{"topologyKey": []}]}, "defaultConstraints[0].topologyKey", "got `array`"),
        ({"pod": pod("n", priority=2**63)}, "pod.spec.priority", "at most 64 bits"),
    ],
)
def test_a_wrong_type_is_an_error_of_the_line(more: Json, field: str, what: str) -> None:
    error = told(**more)
    assert error.startswith(f"{field}: ")
    assert what in error


def test_what_has_the_right_type_and_no_meaning_is_the_plugins_to_answer() -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    line = {"id": 1, **spread(labelSelector=selector), "nodes": [node("a")]}
    ok, text = said(json.dumps(line).encode(), 1)
    assert ok
    assert json.loads(text)["perPlugin"]["PodTopologySpread"]["preFilter"]["code"] == "Error"
