"""What holds of source pods on virtual Nodes: each runs where its Node says, and is removed once nothing of it runs.

In: source pods as the source's API server commits them, and the removals that a process of the source asks for. Out: a
violation."""

from __future__ import annotations

from collections.abc import Callable, Collection

from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATES,
    HINT_CLUSTER,
    is_virtual,
    virtual_node,
)
from controlplane.dst.engine.server import Written
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.candidates.environment import CandidateEnvironment
from controlplane.kube.kinds import PODS, meta
from controlplane.simulation.apiserver.history import Commit

ELSEWHERE = "a bound pod goes nowhere else"
EARLY = "a bound pod is removed once nothing of it runs"


class VirtualNodeRules:
    """See the module. `forgotten()`: the targets that an operator has given up."""

    def __init__(
        self, trace: Trace, environment: CandidateEnvironment, forgotten: Callable[[], Collection[str]]
    ) -> None:
        self._trace, self._environment, self._forgotten = trace, environment, forgotten

    def on_commit(self, commit: Commit) -> None:
        """Look at a change of a source pod."""
        record = commit.record
        if record.kind != PODS or not is_virtual(str(record.obj["spec"].get("nodeName", ""))):
            return
        cluster = (meta(record.obj).get("annotations") or {}).get(HINT_CLUSTER, "")
        if virtual_node(cluster) != record.obj["spec"]["nodeName"]:
            what = f"{record.name} is on {record.obj['spec']['nodeName']}, and its delegate is in {cluster}"
            self._trace.violate(ELSEWHERE, what)

    def on_written(self, write: Written) -> None:
        """Look at a removal of a source pod."""
        if write.kind != PODS or write.verb != "delete" or write.before is None or "-scheduler-" in write.process:
            return
        for target, place in sorted(self._environment.workers.items()):
            if target in self._forgotten():
                continue
            names = {
                record.name
                for record in place.store.records(CANDIDATES)
                if record.obj["spec"]["source"]["uid"] == write.before.uid
            }
            for pod in place.store.records(PODS):
                over = pod.obj["status"].get("phase") in ("Succeeded", "Failed")
                if pod.labels.get(CANDIDATE_LABEL) in names and pod.obj["spec"].get("nodeName") and not over:
                    self._trace.violate(EARLY, f"{write.name} is removed, and {pod.name} runs on {target}")
