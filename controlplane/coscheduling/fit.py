"""Whether a cluster can take a whole PipelineRun, and what its placeholders are charged (sections 8.5 and 8.6).

In: a run, its pipeline, the mode that is asked for, facts about a cluster. Out: a verdict with a reason, and an account. A run
goes to one cluster with all of its pods; a cluster that cannot hold its largest wave on one node would place the first task and
starve the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.coscheduling.binding import Bound, bound_tasks
from controlplane.coscheduling.flags import Mode
from controlplane.coscheduling.names import placeholder_name
from controlplane.coscheduling.objects import Run
from controlplane.coscheduling.pipeline import Pipeline
from controlplane.coscheduling.placeholders import RESOURCES, placeholder_of_claims
from controlplane.coscheduling.reasons import Reason
from controlplane.coscheduling.templates import task_template
from controlplane.coscheduling.waves import PODS_RESOURCE, largest_wave
from controlplane.pods.quantity import nanos
from controlplane.pods.requests import Requests
from controlplane.pods.selectors import node_terms, of_set
from controlplane.pods.tolerations import UNSCHEDULABLE, Taint, tolerations, untolerated

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class NodeRoom(msgspec.Struct, frozen=True, kw_only=True):
    """A node and what is free on it: amounts in billionths, and pods. `placeholder`: whether one of any run is there."""

    name: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    free: Requests = {}
    free_pods: int = 0
    placeholder: bool = False


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a candidate. `claims` as (namespace, name); `storage_classes` by name, True where a volume is bound late
    (WaitForFirstConsumer); `grows`: whether an autoscaler adds nodes."""

    name: str
    mode: Mode
    claims: frozenset[tuple[str, str]] = frozenset()
    storage_classes: dict[str, bool] = {}
    default_class: str = ""
    nodes: tuple[NodeRoom, ...] = ()
    grows: bool = False


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a cluster is a candidate; if not, why. `early`: how many claims would be bound before a pod is placed: fewer is better."""

    cluster: str
    reason: Reason | None = None
    detail: str = ""
    early: int = 0

    @property
    def fits(self) -> bool:
        """Whether the cluster can take the run."""
        return self.reason is None


class Charge(msgspec.Struct, frozen=True):
    """What the placeholders of a run cost beside its tasks; amounts in billionths."""

    placeholders: int
    requests: Requests


def charge(run: Run, mode: Mode) -> Charge:
    """Return the account of a run's placeholders: one, or one for each distinct claim; each is one pod of 50m and 100Mi."""
    count = 0
    if mode is not Mode.DISABLED:
        count = 1 if mode.per_run else len(placeholder_of_claims(run, mode))
    requests = {name: nanos(amount) * count for name, amount in RESOURCES.items()}
    return Charge(count, {**requests, PODS_RESOURCE: count})


def candidates(run: Run, pipeline: Pipeline, mode: Mode, clusters: list[ClusterFacts]) -> list[Verdict]:
    """Return a verdict on each cluster: those that fit first, the ones that bind volumes late before others."""
    found = [judge(run, pipeline, mode, facts) for facts in clusters]
    return sorted(found, key=lambda verdict: (not verdict.fits, verdict.early, verdict.cluster))


def judge(run: Run, pipeline: Pipeline, mode: Mode, facts: ClusterFacts) -> Verdict:
    """Return whether a cluster can take a run. `Refused` or `ValueError` if the pipeline itself cannot be read."""

    def no(reason: Reason, detail: str) -> Verdict:
        return Verdict(cluster=facts.name, reason=reason, detail=detail)

    if facts.mode is not mode:
        return no(Reason.MODE_DIFFERS, f'its mode is "{facts.mode}", not "{mode}"')
    missing = _missing_claim(run, facts)
    if missing:
        return no(Reason.CLAIM_MISSING, f"there is no claim {run.namespace}/{missing}")
    early = 0
    for binding in run.bindings:
        if binding.template is None:
            continue
        wanted = (binding.template.get("spec") or {}).get("storageClassName")
        name = facts.default_class if wanted is None else str(wanted)
        if wanted == "":
            continue  # no class: somebody provides the volume by hand
        if name not in facts.storage_classes:
            which = f'storage class "{name}"' if name else "default storage class"
            return no(Reason.STORAGE_CLASS_MISSING, f'workspace "{binding.name}" needs the {which}')
        early += not facts.storage_classes[name]
    for placeholder, tasks in _groups(run, pipeline, mode).items():
        refused = _fits_somewhere(run, pipeline, mode, facts, placeholder, tasks)
        if refused is not None:
            return no(*refused)
    return Verdict(cluster=facts.name, early=early)


def _missing_claim(run: Run, facts: ClusterFacts) -> str:
    wanted = (binding.claim for binding in run.bindings if binding.claim)
    return next((claim for claim in wanted if (run.namespace, claim) not in facts.claims), "")


def _groups(run: Run, pipeline: Pipeline, mode: Mode) -> dict[str, list[Bound]]:
    """Return tasks by what keeps them together: their placeholder, or each task by itself."""
    groups: dict[str, list[Bound]] = {}
    if mode is not Mode.DISABLED:
        # One without any task is there all the same, and takes its place.
        names = [placeholder_name("", run.name)] if mode.per_run else placeholder_of_claims(run, mode).values()
        groups = {name: [] for name in names}
    bound, _ = bound_tasks(run, pipeline, mode)
    for task in bound:
        if task.kind == "TaskRun":
            groups.setdefault(task.placeholder or f"task {task.task}", []).append(task)
    return groups


def _fits_somewhere(
    run: Run, pipeline: Pipeline, mode: Mode, facts: ClusterFacts, name: str, tasks: list[Bound]
) -> tuple[Reason, str] | None:
    wave = largest_wave(run, pipeline, {task.task for task in tasks})
    held = mode is not Mode.DISABLED and not name.startswith("task ")
    if held:
        wave = {resource: wave.get(resource, 0) + nanos(RESOURCES[resource]) for resource in RESOURCES} | {
            resource: amount for resource, amount in wave.items() if resource not in RESOURCES
        }
    pods = wave.pop(PODS_RESOURCE, 0) + held
    templates = [task_template(run, task.task) or {} for task in tasks] + ([run.pod_template or {}] if held else [])
    full, crowded, taken = "", "", ""
    for node in facts.nodes:
        if not all(_admits(node, template) for template in templates):
            continue
        short = next((one for one, amount in wave.items() if amount > node.free.get(one, 0)), "")
        if short:
            full = f"no node has enough {short} for the largest wave of {len(tasks)} tasks"
        elif node.free_pods < pods:
            crowded = (
                f"node {node.name} has {node.free_pods} pod slots left, and the wave with its placeholder needs {pods}"
            )
        elif mode is Mode.ISOLATE and node.placeholder:
            taken = f"node {node.name} would do, and another run is there"
        else:
            return None
    if taken:
        return None if facts.grows else (Reason.EVERY_NODE_HAS_A_RUN, taken)
    if crowded:
        return Reason.NO_POD_SLOT, crowded
    return Reason.NO_NODE_FITS, full or "no node is open to all of its pods: selectors, taints"


def _admits(node: NodeRoom, template: Mapping[str, Any]) -> bool:
    """Whether a pod with this template may be placed on a node at all."""
    tolerated = tolerations(template.get("tolerations"))
    repelling = (*node.taints, UNSCHEDULABLE) if node.cordoned else node.taints
    if untolerated(repelling, tolerated) is not None:
        return False
    if not of_set(template.get("nodeSelector") or {}).matches(node.labels):
        return False
    required = ((template.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if not required:
        return True
    terms = node_terms(required.get("nodeSelectorTerms") or ())
    return any(term.matches(node.labels, node.name) for term in terms)
