"""Judges whether a cluster can take a whole PipelineRun, and says what its placeholders are charged
(docs/reference/coscheduling.md, Dispatching runs to other clusters).

In: a run, its pipeline, the mode that is asked for, facts about a cluster. Out: a judgement with a reason, and an
account. A run goes to one cluster with all of its pods; a cluster that cannot hold its largest wave on one node would
place the first task and starve the next."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import msgspec

from controlplane.controllers.coscheduling.feasibility.task_groups import largest_wave
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.names import placeholder_name
from controlplane.controllers.coscheduling.objects import PipelineRun
from controlplane.controllers.coscheduling.pipeline import Pipeline
from controlplane.controllers.coscheduling.placement.binding import TaskBinding, bound_tasks
from controlplane.controllers.coscheduling.placement.gates import Gate, NodeCapacity
from controlplane.controllers.coscheduling.placement.placeholders import RESOURCES, placeholder_of_claims
from controlplane.controllers.coscheduling.placement.templates import task_template
from controlplane.controllers.coscheduling.placement.volumes import BoundVolume, apart
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.kube.kinds import is_path_part
from controlplane.kube.pod_requests import Requests
from controlplane.kube.quantities import nanos, spell, to_milli
from controlplane.kube.well_known import PODS_RESOURCE
from controlplane.log.event import canonical
from controlplane.values import Value


class CandidateClusterFacts(Value):
    """What is known of a candidate. `claims` as (namespace, name); `volumes` those of the run's claims, by claim;
    `storage_classes` by name, True where a volume is
    bound late (WaitForFirstConsumer); `grows`: whether an autoscaler adds nodes. None is what is not known of it: it
    refuses nothing.

    `memo` keeps what was found of these nodes, if somebody holds it: runs of one pipeline ask the same.
    """

    name: str
    mode: Mode | None
    claims: frozenset[tuple[str, str]] = frozenset()
    volumes: dict[str, BoundVolume] = {}
    storage_classes: dict[str, bool] | None = {}
    default_class: str = ""
    nodes: tuple[NodeCapacity, ...] | None = ()
    grows: bool = False
    memo: dict[Hashable, tuple[CoschedulingReason, str] | None] | None = None


class ClusterFeasibility(Value):
    """Whether a cluster is a candidate; if not, why. `early`: how many claims would be bound before a pod is placed:
    fewer is better.
    """

    cluster: str
    reason: CoschedulingReason | None = None
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


def charge(run: PipelineRun, mode: Mode) -> Charge:
    """Return the account of a run's placeholders: one, or one for each distinct claim; each is one pod of 50m and
    100Mi.
    """
    count = 0
    if mode is not Mode.DISABLED:
        count = 1 if mode.per_run else len(placeholder_of_claims(run, mode))
    requests = {name: nanos(amount) * count for name, amount in RESOURCES.items()}
    return Charge(count, {**requests, PODS_RESOURCE: count})


def candidates(
    run: PipelineRun, pipeline: Pipeline, mode: Mode, clusters: list[CandidateClusterFacts]
) -> list[ClusterFeasibility]:
    """Return a judgement on each cluster: those that fit first, the ones that bind volumes late before others."""
    found = [judge(run, pipeline, mode, facts) for facts in clusters]
    return sorted(found, key=lambda one: (not one.fits, one.early, one.cluster))


def judge(run: PipelineRun, pipeline: Pipeline, mode: Mode | None, facts: CandidateClusterFacts) -> ClusterFeasibility:
    """Return whether a cluster can take a run. `Refused` or `ValueError` if the pipeline itself cannot be read.

    `mode` is the one that is asked for; None: the cluster's own is right. Where neither is known each task is judged by
    itself, which is the least that any mode needs."""

    def no(reason: CoschedulingReason, detail: str) -> ClusterFeasibility:
        return ClusterFeasibility(cluster=facts.name, reason=reason, detail=detail)

    if None not in (mode, facts.mode) and facts.mode is not mode:
        return no(CoschedulingReason.MODE_DIFFERS, f'its mode is "{facts.mode}", not "{mode}"')
    missing = _missing_claim(run, facts)
    if missing:
        return no(CoschedulingReason.CLAIM_MISSING, f"there is no claim {run.namespace}/{shown_name(missing)}")
    effective, early = facts.mode or mode or Mode.DISABLED, 0
    for workspace, name in _storage_classes(run, facts):
        if facts.storage_classes is None:
            break
        if name not in facts.storage_classes:
            which = f'storage class "{name}"' if name else "default storage class"
            return no(CoschedulingReason.STORAGE_CLASS_MISSING, f'workspace "{workspace}" needs the {which}')
        early += not facts.storage_classes[name]
    for placeholder, tasks in _groups(run, pipeline, effective).items():
        why = apart(_volumes(run, effective, facts, tasks))
        if why:
            return no(CoschedulingReason.VOLUMES_APART, why)
        refused = _fits_somewhere(run, pipeline, effective, facts, placeholder, tasks)
        if refused is not None:
            return no(*refused)
    return ClusterFeasibility(cluster=facts.name, early=early)


def shown_name(name: str) -> str:
    """Return how sentences call an object: by its name, or by the beginning of what cannot be one."""
    return name if is_path_part(name) else ascii(name[:60])


def _missing_claim(run: PipelineRun, facts: CandidateClusterFacts) -> str:
    wanted = (binding.claim for binding in run.bindings if binding.claim)
    return next((claim for claim in wanted if (run.namespace, claim) not in facts.claims), "")


def _storage_classes(run: PipelineRun, facts: CandidateClusterFacts) -> Iterator[tuple[str, str]]:
    """Yield the workspaces whose claims are made of a template, each with the name of its storage class."""
    for binding in run.bindings:
        if binding.template is None:
            continue
        wanted = (binding.template.get("spec") or {}).get("storageClassName")
        if wanted != "":  # no class: somebody provides the volume by hand
            yield binding.name, facts.default_class if wanted is None else str(wanted)


def _groups(run: PipelineRun, pipeline: Pipeline, mode: Mode) -> dict[str, list[TaskBinding]]:
    """Return tasks by what keeps them together: their placeholder, or each task by itself."""
    groups: dict[str, list[TaskBinding]] = {}
    if mode is not Mode.DISABLED:
        # One without any task is there all the same, and takes its place.
        names = [placeholder_name("", run.name)] if mode.per_run else placeholder_of_claims(run, mode).values()
        groups = {name: [] for name in names}
    bound, _ = bound_tasks(run, pipeline, mode)
    for task in bound:
        if task.kind == "TaskRun":
            groups.setdefault(task.placeholder or f"task {task.task}", []).append(task)
    return groups


def _volumes(run: PipelineRun, mode: Mode, facts: CandidateClusterFacts, tasks: list[TaskBinding]) -> list[BoundVolume]:
    """Return the volumes that one node has to reach for some tasks: those of all claims where one placeholder names
    them.
    """
    used = [one.claim for one in run.bindings] if mode.per_run else [claim for task in tasks for claim in task.claims]
    return [facts.volumes[name] for name in dict.fromkeys(used) if name in facts.volumes]


def _fits_somewhere(
    run: PipelineRun, pipeline: Pipeline, mode: Mode, facts: CandidateClusterFacts, name: str, tasks: list[TaskBinding]
) -> tuple[CoschedulingReason, str] | None:
    held = mode is not Mode.DISABLED and not name.startswith("task ")
    wave, pods = _needs(run, pipeline, tasks, held=held)
    if facts.nodes is None:
        return None
    templates = [task_template(run, task.task) or {} for task in tasks] + ([run.pod_template or {}] if held else [])
    templates += [volume.template() for volume in _volumes(run, mode, facts, tasks)]
    chosen, isolated, asker = _distinct(templates), mode is Mode.ISOLATE, _asker(tasks, held=held)
    key = (asker, pods, isolated and (run.namespace, run.name), tuple(sorted(wave.items())), canonical(chosen))
    memo = facts.memo if facts.memo is not None else {}
    if key not in memo:
        # Where nodes come and go it is not known which nodes a run could have: today there may be none.
        gates = [Gate(template) for template in chosen]
        memo[key] = None if facts.grows else _refusal(facts.nodes, gates, wave, pods, asker, isolated=isolated)
    return memo[key]


def _refusal(
    nodes: Sequence[NodeCapacity], gates: list[Gate], wave: Requests, pods: int, asker: str, *, isolated: bool
) -> tuple[CoschedulingReason, str] | None:
    """Return why no node takes what has to be on one; None if one does."""
    if any(_holds(node, wave, pods, isolated=isolated) and _open(node, gates) for node in nodes):
        return None
    return _why_not([node for node in nodes if _open(node, gates)], wave, pods, asker)


def _holds(node: NodeCapacity, wave: Requests, pods: int, *, isolated: bool) -> bool:
    """Whether a node has enough of everything. It is the cheap question, and goes first."""
    if isolated and node.placeholder:
        return False
    return node.free_pods >= pods and all(node.free.get(name, 0) >= amount for name, amount in wave.items())


def _why_not(nodes: list[NodeCapacity], wave: Requests, pods: int, asker: str) -> tuple[CoschedulingReason, str]:
    """Return why none of the nodes that are open to all pods will do; the reason that comes nearest to a yes."""
    if not nodes:
        return CoschedulingReason.NO_NODE_FITS, "no node is open to all of its pods: selectors, taints"
    enough = [node for node in nodes if all(node.free.get(name, 0) >= amount for name, amount in wave.items())]
    taken = next((node for node in enough if node.free_pods >= pods), None)
    if taken is not None:
        return CoschedulingReason.EVERY_NODE_HAS_A_RUN, f"node {taken.name} would do, and another run is there"
    if enough:
        most = max(enough, key=lambda node: node.free_pods)
        return (
            CoschedulingReason.NO_POD_SLOT,
            f"node {most.name} has {most.free_pods} pod slots, and {asker} needs {pods}",
        )
    # The resource of which the nodes lack the most, by its share.
    most_of = {name: max(node.free.get(name, 0) for node in nodes) for name in wave}
    short = min((name for name in wave if wave[name]), key=lambda name: (most_of[name] / wave[name], name))
    if most_of[short] >= wave[short]:
        return CoschedulingReason.NO_NODE_FITS, f"no node has enough of everything at once that {asker} needs"
    needed, had = (spell(short, to_milli(amount)) for amount in (wave[short], most_of[short]))
    return (
        CoschedulingReason.NO_NODE_FITS,
        f"no node has enough {short}: {asker} needs {needed}, and the most that a node has is {had}",
    )


def _needs(run: PipelineRun, pipeline: Pipeline, tasks: list[TaskBinding], *, held: bool) -> tuple[Requests, int]:
    """Return what one node has to hold: a placeholder and all that may run beside it, or one pod of a task that nothing
    holds.
    """
    wave = largest_wave(run, pipeline, {task.task for task in tasks})
    pods = wave.pop(PODS_RESOURCE, 0)
    if not held:
        return {resource: amount // max(1, pods) for resource, amount in wave.items()}, min(1, pods)
    return wave | {name: wave.get(name, 0) + nanos(amount) for name, amount in RESOURCES.items()}, pods + 1


def _asker(tasks: list[TaskBinding], *, held: bool) -> str:
    """Return what needs a place, in words."""
    if not held:
        return f'task "{tasks[0].task}"'
    if not tasks:
        return "the placeholder"
    return f"the largest wave of {len(tasks)} task{'s' if len(tasks) > 1 else ''}, with its placeholder,"


def _open(node: NodeCapacity, gates: list[Gate]) -> bool:
    return all(gate.admits(node) for gate in gates)


def _distinct(templates: list[Any]) -> list[Any]:
    """Return the templates that differ in what nodes are chosen by: most tasks have that of their run."""
    found: list[Any] = []
    for template in templates:
        kept = {field: template.get(field) for field in ("nodeSelector", "tolerations")}
        kept["affinity"] = {"nodeAffinity": (template.get("affinity") or {}).get("nodeAffinity")}
        if kept not in found:
            found.append(kept)
    return found
