"""Nobody touches what is not his (S9): a source its own Candidates and copies, a scheduler its pods and the Candidates'
statuses.

In: every write of every process as an API server carried it out. Out: a violation. What a source may never do is write
a Pod of a target; what a scheduler may never do is write a Candidate's spec, bind another scheduler's pod, or delete
one that nobody has chosen as a victim."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATES,
    SCHEDULER_NAME,
    SOURCE_LABEL,
    TARGET_LABEL,
    is_virtual,
)
from controlplane.controllers.connectivity.events import MANAGEMENT as HOME
from controlplane.dst.engine.server import Written
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.candidates.acts import PROFILE
from controlplane.dst.scenes.candidates.environment import CAMPUS
from controlplane.kube.kinds import ADMISSION_CHECKS, EVENTS, MULTIKUEUE_CLUSTERS, NODES, PODS, SECRETS, SERVICES, meta
from controlplane.simulation.kinds.base import CONFIG_MAPS
from controlplane.simulation.world import MANAGEMENT

RULE = "only what is ours is written"
_COPIES = (CONFIG_MAPS, SECRETS, SERVICES)


class CandidateOwnershipRules:
    """Who wrote what. `targets` are the folds of the targets' logs; `virtual`: the source has virtual Nodes."""

    def __init__(self, trace: Trace, targets: Mapping[str, SchedulerControllers], *, virtual: bool = False) -> None:
        self._trace, self._targets, self._virtual = trace, targets, virtual

    def on_written(self, write: Written) -> None:
        """Look at a write that was carried out."""
        if "-scheduler-" in write.process:
            wrong = self._scheduler(write)
        elif write.cluster in (MANAGEMENT, HOME):
            wrong = "" if self._virtual and _of_virtual_nodes(write) else _at_home(write)
        else:
            wrong = _in_target(write)
        if wrong:
            what = f"{write.verb} {write.kind.kind} {write.name} on {write.cluster} by {write.process}"
            self._trace.violate(RULE, f"{what}: {wrong}")

    def _scheduler(self, write: Written) -> str:
        if write.kind == EVENTS:
            return "" if write.verb == "create" else "Events are only created"
        if write.kind == CANDIDATES:
            return _answer(write)
        if write.kind != PODS:
            return "not a kind that it writes"
        if write.verb == "create":
            return "" if CANDIDATE_LABEL in (meta(write.body).get("labels") or {}) else "it is no candidate's Pod"
        return self._pod(write)

    def _pod(self, write: Written) -> str:
        before = write.before
        if write.verb == "delete":
            return _precondition(write) or self._victim(write)
        if write.verb == "patch" and before is not None:
            if "spec" in write.body and not (write.uid and write.resource_version and CANDIDATE_LABEL in before.labels):
                return "a spec is changed of a candidate's Pod alone, by UID and version"
            return "" if before.obj["spec"].get("schedulerName") == PROFILE else "it is another scheduler's"
        return "" if write.verb == "binding" else "not a write that it makes"

    def _victim(self, write: Written) -> str:
        """A scheduler deletes candidates' Pods, and those that were chosen as victims."""
        victims = [state.chosen for state in self._targets[write.cluster].evictions.states.values()]
        chosen = any(victim is not None and victim.uid == write.uid for victim in victims)
        ours = write.before is not None and CANDIDATE_LABEL in write.before.labels
        return "" if ours or chosen else "nobody has chosen it as a victim"


def _answer(write: Written) -> str:
    """A scheduler says what it has to say in the status, and takes its finalizer off."""
    if write.verb != "patch":
        return "Candidates are the source's to make and to delete"
    if write.subresource == "status":
        return "" if write.body.keys() <= {"metadata", "status"} else "not the status alone"
    only = write.body.keys() == {"metadata"} and set(meta(write.body)) <= {"uid", "resourceVersion", "finalizers"}
    return "" if only else "only the finalizer is its own"


def _at_home(write: Written) -> str:
    if write.verb == "create":
        return "" if write.kind == EVENTS else "only Events are created here"
    if write.verb != "patch":
        return "nothing is deleted here"
    if write.kind in (MULTIKUEUE_CLUSTERS, ADMISSION_CHECKS):
        return "" if write.subresource == "status" else "only statuses are written here"
    if write.kind != PODS:
        return "not a kind that is written here"
    if not write.resource_version or not write.uid:
        return "without a UID and a resourceVersion"
    hint = set(meta(write.body)) <= {"uid", "resourceVersion", "annotations"} and write.body.keys() == {"metadata"}
    return "" if write.subresource == "status" or hint else "neither its status nor a hint"


def _of_virtual_nodes(write: Written) -> bool:
    """Whether a write is one that is allowed beside: to a Node of ours, the binding of a pod to one, and the removal of
    a pod that waits for its kubelet."""
    before = write.before
    if write.kind == NODES:
        return _to_a_node(write)
    if write.kind == PODS and write.verb == "binding":
        return bool(meta(write.body).get("uid")) and is_virtual(write.body["target"]["name"])
    if write.kind != PODS or before is None or before.obj["spec"].get("schedulerName") != SCHEDULER_NAME:
        return False
    if write.verb == "delete":
        over = before.obj["status"].get("phase") in ("Succeeded", "Failed")
        return over and write.uid == before.uid and "deletionTimestamp" in meta(before.obj)
    return _tolerates(write)


def _to_a_node(write: Written) -> bool:
    """Whether a write is the creation, the status or the deletion of a Node of ours."""
    before = write.before
    if before is None:
        return TARGET_LABEL in (meta(write.body).get("labels") or {})
    named = TARGET_LABEL in before.labels and write.uid == before.uid
    return named and (write.verb != "patch" or write.subresource == "status")


def _tolerates(write: Written) -> bool:
    """Whether a write says where a pod's delegate is, and what the pod tolerates, and nothing else."""
    spec = write.body.get("spec")
    alone = isinstance(spec, dict) and spec.keys() == {"tolerations"} and not write.subresource
    return alone and write.verb == "patch" and bool(write.uid and write.resource_version)


def _in_target(write: Written) -> str:
    if write.kind not in (*_COPIES, CANDIDATES):
        return "not a kind that a source writes in a target"
    labels = (meta(write.body).get("labels") or {}) if write.before is None else write.before.labels
    if labels.get(SOURCE_LABEL) != CAMPUS:
        return "it does not carry our source label"
    if write.verb == "delete":
        return _precondition(write)
    return _spec(write) if write.kind == CANDIDATES and write.verb == "patch" else ""


def _precondition(write: Written) -> str:
    """A delete names the UID of what is there."""
    names_it = write.before is not None and write.uid == write.before.uid
    return "" if names_it else f"the precondition names the UID {write.uid or '(none)'}"


def _spec(write: Written) -> str:
    """A source patches the permit and the withdrawal of a Candidate, whose autoscaler may act, or what it is to be made
    of, nothing else."""
    if write.subresource or write.body.keys() - {"metadata", "spec"}:
        return "the status is the target's"
    if not write.resource_version:
        return "without a resourceVersion"
    if write.body["spec"].keys() in ({"template"}, {"scaleUp"}):
        return "" if write.uid else "without a UID"
    return (
        "" if write.body["spec"].keys() <= {"permit", "withdrawn"} else "more than a permit, a withdrawal or a change"
    )
