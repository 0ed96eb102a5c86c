"""Finds what is there already: placeholders, claims and pods of a run among a cluster's objects, told from other runs'
by owner UID.

In: an `ObjectsByKind` and a run. Out: what is the run's own, what stands in its way, and which placeholders have to
move. Names alone prove nothing: two runs can ask for one name."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.names import COMPONENT, placeholder_name, pod_name
from controlplane.controllers.coscheduling.objects import (
    COMPONENT_LABEL,
    INSTANCE_LABEL,
    RUN_LABEL,
    PipelineRun,
    annotations_of,
    conditions_of,
    controller_of,
    labels_of,
    owned_by,
    read_run,
)
from controlplane.controllers.coscheduling.placement.eviction import (
    Eviction,
    NodeView,
    TaskPod,
    limit_evicts,
    node_evicts,
)
from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.placeholders import repulsion
from controlplane.controllers.coscheduling.problems import InputProblem, label
from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from controlplane.kube.kinds import Json, meta
from controlplane.kube.tolerations import taints, tolerations
from controlplane.kube.well_known import ENDED_PHASES


def own_placeholders(world: ObjectsByKind, run: PipelineRun) -> list[Json]:
    """Return the StatefulSets that are the run's placeholders, whatever mode they were made in."""
    return [
        found
        for found in world.all("StatefulSet", run.namespace)
        if owned_by(found, run.uid) and _is_placeholder(found)
    ]


def _is_placeholder(found: Json) -> bool:
    named = str(meta(found).get("name", "")).startswith(f"{COMPONENT}-")
    return labels_of(found).get(COMPONENT_LABEL, COMPONENT if named else "") == COMPONENT


def name_taken(found: Json, run: PipelineRun) -> InputProblem | None:
    """Return the problem if an object in the place of one of ours is not the run's; it is neither used nor deleted."""
    if owned_by(found, run.uid):
        return None
    owner = controller_of(found)
    whose = f"{owner.get('kind')} {owner.get('name')} (uid {owner.get('uid')})" if owner else "nobody"
    what = f"its owner is {whose}, not {run.label} (uid {run.uid or 'unknown'})"
    todo = "wait until it is gone, delete it, or give the run another name"
    named = label(str(found.get("kind")), run.namespace, str(meta(found).get("name")))
    return InputProblem(named, "metadata.ownerReferences", what, todo)


def pinned_mode(world: ObjectsByKind, run: PipelineRun) -> Mode | None:
    """Return the mode that a run began with, by what it made: a flag that is changed later strands nothing (section
    1).
    """
    single = placeholder_name("", run.name)
    for found in own_placeholders(world, run):
        if meta(found).get("name") == single:
            return _per_run_mode(found)
        return Mode.WORKSPACES
    for task_run in world.all("TaskRun", run.namespace):
        if owned_by(task_run, run.uid) and (followed := annotations_of(task_run).get(AFFINITY_ASSISTANT)):
            return None if followed == single else Mode.WORKSPACES
    return None


def outermost(world: ObjectsByKind, run: PipelineRun) -> tuple[str, bool]:
    """Return the name of the run whose placeholder an isolated run shares, and whether it was looked at; "" if it has
    its own: it is nobody's task, began with one, or is the task of a run that is not isolated.
    """
    if own_placeholders(world, run):
        return "", True
    name, uid, seen = run.parent, run.parent_uid, {run.name}
    while name and name not in seen:
        seen.add(name)
        found = world.find("PipelineRun", run.namespace, name)
        if found is None or meta(found).get("uid") != uid:
            return name, False
        parent = read_run(found)
        if pinned_mode(world, parent) not in (None, Mode.ISOLATE):
            return "", True
        if not parent.parent or own_placeholders(world, parent):
            return name, True
        name, uid = parent.parent, parent.parent_uid
    return "", True


def _per_run_mode(found: Json) -> Mode:
    spec = ((found.get("spec") or {}).get("template") or {}).get("spec") or {}
    anti = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    required = anti.get("requiredDuringSchedulingIgnoredDuringExecution") or []
    wanted = repulsion()["labelSelector"]
    return Mode.ISOLATE if any(term.get("labelSelector") == wanted for term in required) else Mode.PIPELINERUNS


def evictions(world: ObjectsByKind, run: PipelineRun) -> list[tuple[Json, Eviction]]:
    """Return the placeholder pods that have to move, and why. One that is not ready, or already goes, is left alone."""
    found = []
    for placeholder in own_placeholders(world, run):
        if (placeholder.get("status") or {}).get("readyReplicas") != 1:
            continue
        pod = _pod_of(world, run, placeholder)
        if pod is None:
            continue
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        eviction = node_evicts(node_view(world.find("Node", "", node)), tolerations(_tolerations(pod)))
        eviction = eviction or limit_evicts(node, _followers(world, run, str(meta(placeholder)["name"])))
        if eviction is not None:
            found.append((pod, eviction))
    return found


def _pod_of(world: ObjectsByKind, run: PipelineRun, placeholder: Json) -> Json | None:
    pod = world.find("Pod", run.namespace, pod_name(str(meta(placeholder)["name"])))
    if pod is None or meta(pod).get("deletionTimestamp"):
        return None
    owner = controller_of(pod)
    return pod if not owner or owner.get("uid") == meta(placeholder).get("uid") else None


def _tolerations(pod: Json) -> list[Json]:
    return (pod.get("spec") or {}).get("tolerations") or []


def node_view(node: Json | None) -> NodeView | None:
    """Return a node as far as placeholders care, None for None."""
    if node is None:
        return None
    spec = node.get("spec") or {}
    return NodeView(
        name=str(meta(node).get("name", "")),
        cordoned=spec.get("unschedulable") is True,
        taints=taints(spec.get("taints")),
    )


def _followers(world: ObjectsByKind, run: PipelineRun, placeholder: str) -> Iterable[TaskPod]:
    for pod in world.all("Pod", run.namespace):
        if labels_of(pod).get(RUN_LABEL) == run.name and follows(pod, placeholder):
            yield task_pod(pod)


def follows(pod: Json, placeholder: str) -> bool:
    """Whether a pod is tied to a placeholder by its affinity or its annotation, and is not the placeholder's own."""
    if labels_of(pod).get(COMPONENT_LABEL) == COMPONENT:
        return False
    if annotations_of(pod).get(AFFINITY_ASSISTANT) == placeholder:
        return True
    near = ((pod.get("spec") or {}).get("affinity") or {}).get("podAffinity") or {}
    terms = near.get("requiredDuringSchedulingIgnoredDuringExecution") or []
    selectors = [((term.get("labelSelector") or {}).get("matchLabels") or {}) for term in terms]
    return any(labels.get(INSTANCE_LABEL) == placeholder for labels in selectors)


def task_pod(pod: Json) -> TaskPod:
    """Return a task's pod as far as placeholders care."""
    scheduled = conditions_of(pod, "PodScheduled")
    complaint = str(scheduled.get("message") or "") if scheduled.get("status") == "False" else ""
    return TaskPod(
        name=str(meta(pod).get("name", "")),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        over=(pod.get("status") or {}).get("phase") in ENDED_PHASES,
        complaint=complaint,
    )
