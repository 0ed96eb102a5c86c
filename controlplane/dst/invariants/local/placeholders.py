"""Placeholders: at most one for a run or a workspace, each with its run, apart where they are to be; and a run's tasks
where theirs is.

In: commits of StatefulSets and pods, the modes as they are pinned, the scheduler's decisions to bind. Out: a violation.
"""

from __future__ import annotations

from controlplane.controllers.scheduling.events import BindingDecided, NodeReserved
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.local.environment import OwnClusterEnvironment
from controlplane.dst.scenes.local.hosted import is_placeholder, pinned_by, placeholder_in
from controlplane.kube.kinds import PIPELINE_RUNS, PODS, Json, meta
from controlplane.kube.well_known import ENDED_PHASES, REQUIRED_AFFINITY
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.controllers.workload_owners import controller_of
from controlplane.simulation.kinds.own_cluster import STATEFUL_SETS

ONE = "one placeholder for a run or a workspace"
KEPT = "a run keeps its mode"
NODE = "a run's pods are on one node"
APART = "isolated runs are on different nodes"
_PER_RUN = ("pipelineruns", "isolate-pipelinerun")
_OVERTAKEN = 1.0  # seconds


class Placeholders:
    """What was made for which run, and where placeholders' pods have been."""

    def __init__(self, trace: Trace, environment: OwnClusterEnvironment) -> None:
        self._trace, self._environment = trace, environment
        self.modes: dict[str, str] = {}
        self._runs: dict[str, Json] = {}
        self._of_run: dict[str, set[str]] = {}
        self._been: dict[str, set[str]] = {}
        self._holders: dict[str, str] = {}
        self._tasks: dict[str, Record] = {}
        self._doubts: list[tuple[float, str, str, str]] = []

    def on_commit(self, commit: Commit) -> None:
        """Look at a run, a placeholder, or a pod."""
        record = commit.record
        if record.kind == PIPELINE_RUNS:
            self._runs[record.uid] = record.copy()
        elif record.kind == STATEFUL_SETS and is_placeholder(record.labels):
            self._placeholder(commit)
        elif record.kind == PODS and is_placeholder(record.labels):
            self._moved(commit)
        elif record.kind == PODS:
            self._tasks[record.uid] = record

    def _placeholder(self, commit: Commit) -> None:
        record = commit.record
        owner = str(controller_of(record.obj).get("uid", ""))
        mates = self._of_run.setdefault(owner, set())
        if commit.type == "DELETED":
            mates.discard(record.uid)
            return
        run = self._runs.get(owner)
        if run is None:
            self._trace.violate(ONE, f"placeholder {record.name} was made for nobody")
            return
        mates.add(record.uid)
        spaces = [one for one in run["spec"].get("workspaces") or () if "emptyDir" not in one]
        most = 1 if self.modes.get(owner) in _PER_RUN else len(spaces)
        if len(mates) > most:
            self._trace.violate(ONE, f"run {meta(run)['name']} has {len(mates)} placeholders, {most} at most")

    def _moved(self, commit: Commit) -> None:
        """Take note of where a placeholder's pod is, and see who is there already."""
        record = commit.record
        instance, node = placeholder_in(record.labels), str(record.obj["spec"].get("nodeName", ""))
        self._holders[record.uid] = instance
        if not node:
            return
        self._been.setdefault(instance, set()).add(node)
        fresh = commit.previous is not None and not commit.previous.copy()["spec"].get("nodeName")
        if commit.type == "MODIFIED" and fresh:
            self._apart(record, node)

    def _apart(self, record: Record, node: str) -> None:
        for other in self._environment.records(PODS):
            if other.uid == record.uid or not is_placeholder(other.labels):
                continue
            there = other.obj["spec"].get("nodeName") == node and "deletionTimestamp" not in meta(other.obj)
            if there and _isolates(record.obj) and other.obj["status"].get("phase") not in ENDED_PHASES:
                self._trace.violate(APART, f"{record.name} joins {other.name} on {node}")

    # --- the logs ----------------------------------------------------------------------------------------------------

    def before_fold(self, recorded: Recorded) -> None:
        """Look at a mode that is pinned."""
        uid, mode = pinned_by(recorded.event) or ("", "")
        if uid and self.modes.setdefault(uid, mode) != mode:
            self._trace.violate(KEPT, f"{recorded.stream} was in {self.modes[uid]} and is in {mode}")

    def before_bind(self, recorded: Recorded) -> None:
        """Look at a binding: where a task's pod goes, its placeholder's pod is or was, or a place is taken for it
        there.
        """
        event = recorded.event
        if isinstance(event, NodeReserved) and (placeholder := self._holders.get(event.uid)) is not None:
            self._been.setdefault(placeholder, set()).add(event.node)
        pod = self._tasks.get(event.uid) if isinstance(event, BindingDecided) else None
        if pod is None or not isinstance(event, BindingDecided):
            return
        followed = _follows(pod.copy())
        if followed and event.node not in self._been.get(followed, set()):
            self._doubts.append((self._environment.loop.time(), pod.name, followed, event.node))

    def look(self) -> None:
        """Look at the bindings of tasks' pods that came before their placeholder's place: one append may overtake
        another, no more.
        """
        for doubt in list(self._doubts):
            at, pod, followed, node = doubt
            if node in self._been.get(followed, set()):
                self._doubts.remove(doubt)
            elif self._environment.loop.time() - at > _OVERTAKEN:
                self._trace.violate(NODE, f"pod {pod} goes to {node}, {followed} never was there")


def _isolates(pod: Json) -> bool:
    anti = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    return bool(anti.get(REQUIRED_AFFINITY))


def _follows(pod: Json) -> str:
    """Return the placeholder beside which a pod has to be."""
    near = (pod["spec"].get("affinity") or {}).get("podAffinity") or {}
    for term in near.get(REQUIRED_AFFINITY) or ():
        wanted = (term.get("labelSelector") or {}).get("matchLabels") or {}
        if is_placeholder(wanted):
            return placeholder_in(wanted)
    return ""
