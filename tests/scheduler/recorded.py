"""An answer of `evaluate` in short: what two implementations of the same rules must agree on, word for word.

In: an answer, as docs/reference/scheduler-evaluate.md has it. Out: the same without what is the rule (a success, a
skip's empty maps), with reasons sorted, and without the words of an error, which are an implementation's own."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.kube.kinds import Json

PLUGINS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeResourcesFit:MostAllocated",
    "NodeResourcesFit:RequestedToCapacityRatio",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)
LEFT_OUT = "node(s) didn't satisfy plugin(s)"
"""What a node says that PreFilter left out: no plugin of its own refused it."""


def shortened(answer: Json, plugins: Iterable[str] = PLUGINS) -> Json:
    """Return what counts of an answer."""
    found: Json = {"id": answer["id"]}
    for name in plugins:
        if said := _of_plugin(answer["perPlugin"].get(name, {})):
            found[name] = said
    combined = answer["combined"]
    broken = "error" in combined
    if broken:
        found["error"] = True
    refused = {node: _told(status, status["plugin"]) for node, status in combined["filter"].items()}
    found["refused"] = {node: told for node, told in refused.items() if told}
    if not broken:
        scores = combined["scores"].items()
        found["scores"] = {node: [one["total"], _positive(one["plugins"])] for node, one in scores}
        found["best"] = sorted(combined["best"])
    if (room := answer["preemption"])["candidates"]:
        victims = {
            node: [*(name.rpartition("/")[2] for name in one["victims"]), one["numPDBViolations"]]
            for node, one in room["candidates"].items()
        }
        found["preemption"] = {"victims": victims, "chosen": sorted(room["chosen"])}
    return found


def _positive(by_plugin: dict[str, int]) -> dict[str, int]:
    """Return the weighted scores in the order of their names: a skipped plugin is not in there, one that gives 0 is."""
    return dict(sorted(by_plugin.items()))


def _of_plugin(said: Json) -> Json:
    found: Json = {}
    if told := _told(said.get("preFilter", {"code": "Success", "reasons": []})):
        found["preFilter"] = told
    refused = {node: told for node, status in said.get("filter", {}).items() if (told := _told(status))}
    if refused:
        found["filter"] = refused
    if (code := said.get("preScore", {"code": "Success"})["code"]) != "Success":
        found["preScore"] = code
    if said.get("score"):
        found["score"] = said["score"]
    return found


def _told(status: Json, plugin: str = "") -> str:
    """Return a status in one line, "" for a success."""
    if status["code"] == "Success":
        return ""
    reasons = "; ".join(sorted(status["reasons"]))
    if status["code"] == "Error":
        return "Error"
    return " ".join(part for part in ("" if reasons.startswith(LEFT_OUT) else plugin, status["code"], reasons) if part)
