"""The steps in which people act: they create, roll, scale and delete owners, start and end runs, change rules, flags,
nodes and rights.

In: a step and the scene. Out: what they do to the cluster. An act whose object is not there (any more) does nothing,
so that any part of a plan can be played; what lasts undoes itself."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.dst.engine.network import Storm
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.local import hosted, manifests
from controlplane.dst.scenes.local.actor_protocol import Act, LocalActorContext
from controlplane.dst.scenes.local.environment import NAMESPACE, PLACE
from controlplane.kube.kinds import JOBS, NODES, PIPELINE_RUNS, PODS, Json, Kind, meta
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.apiserver.pod_subresources import evict
from controlplane.simulation.controllers.workload_owners import owner_reference
from controlplane.simulation.kinds.own_cluster import (
    CLAIMS,
    DEPLOYMENTS,
    POD_GROUPS,
    STATEFUL_SETS,
    TASK_RUNS,
    WORKFLOWS,
)

OWNED: tuple[Kind, ...] = (DEPLOYMENTS, STATEFUL_SETS, JOBS, WORKFLOWS)
RIGHTS: tuple[tuple[str, str], ...] = (
    ("rooms", WORKFLOWS.name),
    ("rooms", DEPLOYMENTS.name),
    ("rooms", "replicasets.apps"),
    ("rooms", TASK_RUNS.name),
    ("rooms", PIPELINE_RUNS.name),
    ("rooms", STATEFUL_SETS.name),
    ("rooms", CLAIMS.name),
    ("rooms", POD_GROUPS.name),
    ("rooms", PODS.name),
    ("rooms", NODES.name),
    ("rooms", "configmaps"),
    ("scheduler", POD_GROUPS.name),
    ("scheduler", PODS.name),
    ("scheduler", NODES.name),
)
"""What a role may lose, by the number that a step says: whose role, and which kind is forbidden to it."""

# --- owners of pods --------------------------------------------------------------------------------------------------


def _sizes(step: Step) -> tuple[int, int]:
    """Return how many pods, and the quorum: none, all, or one less."""
    pods = 1 + step.value % 3
    return pods, (0, pods, max(pods - 1, 1))[step.value // 3 % 3]


def _deploy(scene: LocalActorContext, step: Step) -> None:
    pods, quorum = _sizes(step)
    scene.environment.make(
        DEPLOYMENTS, step.where, metadata=hosted.asks_for(quorum), spec=manifests.owner(step.where, pods)
    )


def _set(scene: LocalActorContext, step: Step) -> None:
    pods, quorum = _sizes(step)
    scene.environment.make(
        STATEFUL_SETS, step.where, metadata=hosted.asks_for(quorum), spec=manifests.owner(step.where, pods)
    )


def _job(scene: LocalActorContext, step: Step) -> None:
    pods, quorum = _sizes(step)
    spec = manifests.job(step.where, pods, step.seconds)
    scene.environment.make(JOBS, step.where, metadata=hosted.asks_for(quorum), spec=spec)


def _pod(scene: LocalActorContext, step: Step) -> None:
    scene.environment.make(PODS, step.where, **manifests.pod_template(step.where))


def _custom(scene: LocalActorContext, step: Step) -> None:
    """A Workflow below another one, and pods below that: the walk has to read them."""
    pods, quorum = _sizes(step)
    above = scene.environment.make(WORKFLOWS, f"{step.where}-top", metadata=hosted.asks_for(quorum), spec={})
    below = scene.environment.make(
        WORKFLOWS, step.where, metadata={"ownerReferences": [owner_reference(above)]}, spec={}
    )
    for number in range(pods):
        template = manifests.pod_template(step.where)
        template["metadata"]["ownerReferences"] = [owner_reference(below)]
        scene.environment.make(PODS, f"{step.where}-{number}", **template)


def _team(scene: LocalActorContext, step: Step) -> None:
    """Somebody's own PodGroup, and pods that name it; one too few for a while."""
    pods = 2 + step.value % 2
    scene.foreign_group(scene.environment.make(POD_GROUPS, step.where, spec={"minMember": pods}))

    def member(number: int) -> None:
        template = manifests.pod_template(step.where)
        template["metadata"] |= hosted.member_of(step.where)
        scene.environment.make(PODS, f"{step.where}-{number}", **template)

    for number in range(pods - 1):
        member(number)
    scene.after(step.seconds, member, pods - 1)


def _roll(scene: LocalActorContext, step: Step) -> None:
    """Another template: the Deployment's ReplicaSets roll."""
    if (found := _pick(scene.environment.records(DEPLOYMENTS), step.value)) is not None:
        cpu = ("250m", "500m", "750m")[step.value // 7 % 3]
        template = manifests.pod_template(found.name, cpu, rolled=str(step.number))
        scene.environment.store.patch(DEPLOYMENTS, NAMESPACE, found.name, {"spec": {"template": template}})


def _scale(scene: LocalActorContext, step: Step) -> None:
    """Another number of replicas, of all of which a quorum is asked."""
    if (found := _pick(scene.environment.records(DEPLOYMENTS), step.value)) is not None:
        pods = step.value // 5 % 4
        body = {"metadata": hosted.asks_for(max(pods, 1)), "spec": {"replicas": pods}}
        scene.environment.store.patch(DEPLOYMENTS, NAMESPACE, found.name, body)


def _delete_owner(scene: LocalActorContext, step: Step) -> None:
    owners = [one for kind in OWNED for one in scene.environment.records(kind) if not scene.is_placeholder(one)]
    if (found := _pick(owners, step.value)) is not None:
        propagation = ("Background", "Foreground", "Orphan")[step.value // 7 % 3]
        scene.environment.store.delete(found.kind, found.namespace, found.name, propagation=propagation)


# --- runs ------------------------------------------------------------------------------------------------------------


def _run(scene: LocalActorContext, step: Step) -> None:
    _start(scene, step, _claims(step))


def _claims(step: Step) -> tuple[str, ...]:
    return ((), ("",), ("", ""), ("",))[step.value % 4]


def _start(scene: LocalActorContext, step: Step, claims: tuple[str, ...], **more: object) -> Json:
    scheduler = manifests.GANGS if step.value % 5 == 0 else ""
    spec = manifests.run(1 + step.value % 3, claims, parallel=step.value % 2 == 0, scheduler=scheduler)
    fails = int(step.value % 7 == 0)
    metadata = manifests.paced(step.seconds, fails)
    if step.value % 3 == 0:
        metadata["annotations"]["tekton.dev/auto-cleanup-pvc"] = "true"
    big = step.value % 10 == 9 and bool(claims)
    if big:
        manifests.too_big(spec)
    made = scene.environment.make(PIPELINE_RUNS, step.where, metadata=metadata, spec=spec | more)
    if big:
        scene.too_big(made)
    return made


def _run_later(scene: LocalActorContext, step: Step) -> None:
    """A run that is created waiting, and let go after a while."""
    _start(scene, step, _claims(step), status="PipelineRunPending")
    scene.after(step.seconds, _patch_run, scene, step.where, {"status": None})


def _run_without_claim(scene: LocalActorContext, step: Step) -> None:
    """A run on a claim that is created after a while."""
    name = f"data-{step.where}"
    _start(scene, step, (name,))
    scene.after(step.seconds, scene.late_claim, name)


def _patch_run(scene: LocalActorContext, name: str, spec: Json) -> None:
    scene.environment.store.patch(PIPELINE_RUNS, NAMESPACE, name, {"spec": spec})


def _cancel_run(scene: LocalActorContext, step: Step) -> None:
    if (found := _pick(scene.environment.records(PIPELINE_RUNS), step.value)) is not None:
        _patch_run(scene, found.name, {"status": "Cancelled"})


def _delete_run(scene: LocalActorContext, step: Step) -> None:
    if (found := _pick(scene.environment.records(PIPELINE_RUNS), step.value)) is not None:
        scene.environment.store.delete(PIPELINE_RUNS, NAMESPACE, found.name, propagation="Background")


def _again_run(scene: LocalActorContext, step: Step) -> None:
    """A run is deleted, and one of its name is there at once."""
    if (found := _pick(scene.environment.records(PIPELINE_RUNS), step.value)) is not None:
        obj = found.copy()
        scene.environment.store.delete(PIPELINE_RUNS, NAMESPACE, found.name, propagation="Background")
        if scene.environment.find(PIPELINE_RUNS, found.name) is None:
            kept = {"annotations": meta(obj).get("annotations") or {}}
            made = scene.environment.make(PIPELINE_RUNS, found.name, metadata=kept, spec=obj["spec"])
            if scene.is_too_big(obj):
                scene.too_big(made)


def _flag(scene: LocalActorContext, step: Step) -> None:
    scene.flag(manifests.MODES[step.value % len(manifests.MODES)])


# --- rules and rights ------------------------------------------------------------------------------------------------


def _rules(scene: LocalActorContext, step: Step) -> None:
    scene.environment.rules(manifests.DOCUMENTS[step.value % len(manifests.DOCUMENTS)])
    scene.after(step.seconds, scene.environment.rules, manifests.BY_ALL)


def _withdraw(scene: LocalActorContext, step: Step) -> None:
    """A role loses a kind. What is being watched goes on being shown, until the watch ends."""
    sort, resource = RIGHTS[step.value % len(RIGHTS)]
    network, storm = scene.environment.ways[sort], Storm(403, 1.0, resource=resource)
    network.storms.append(storm)
    if step.value % 3:
        network.end_watches()
    scene.after(step.seconds, lambda: network.storms.remove(storm) if storm in network.storms else None)


def _squat_set(scene: LocalActorContext, step: Step) -> None:
    """Somebody else's StatefulSet has the name that a run's placeholder will want."""
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "theirs"}},
        "serviceName": "theirs",
        "template": manifests.pod_template("theirs"),
    }
    made = scene.environment.make(STATEFUL_SETS, hosted.placeholder_of(step.where), spec=spec)
    scene.foreign(made)
    scene.after(step.seconds, scene.take_back, STATEFUL_SETS, made)


def _squat_group(scene: LocalActorContext, step: Step) -> None:
    """Somebody else's PodGroup has the name that a Deployment's will want."""
    _deploy(scene, step)
    found = scene.environment.find(DEPLOYMENTS, step.where)
    assert found is not None
    made = scene.environment.make(POD_GROUPS, f"podgroup-{meta(found)['uid']}", spec={"minMember": 1})
    scene.foreign_group(made)
    scene.after(step.seconds, scene.take_back, POD_GROUPS, made)


# --- nodes and pods --------------------------------------------------------------------------------------------------


def _cordon(scene: LocalActorContext, step: Step) -> None:
    _unschedulable(scene, step.where, True)
    scene.after(step.seconds, _unschedulable, scene, step.where, None)


def _unschedulable(scene: LocalActorContext, node: str, value: bool | None) -> None:
    scene.environment.store.patch(NODES, "", node, {"spec": {"unschedulable": value}})


def _drain(scene: LocalActorContext, step: Step) -> None:
    """A node is cordoned, and every pod on it is evicted."""
    _cordon(scene, step)
    for record in scene.environment.records(PODS):
        if record.obj["spec"].get("nodeName") == step.where:
            evict(scene.environment.store, record.namespace, record.name, {}, dry_run=False)


def _lose_node(scene: LocalActorContext, step: Step) -> None:
    if scene.environment.find(NODES, step.where, "") is not None:
        scene.environment.store.delete(NODES, "", step.where)
        scene.after(step.seconds, scene.give_node, step.where)


def _evict(scene: LocalActorContext, step: Step) -> None:
    bound = [record for record in scene.environment.records(PODS) if record.obj["spec"].get("nodeName")]
    if (found := _pick(bound, step.value)) is not None:
        evict(scene.environment.store, found.namespace, found.name, {}, dry_run=False)


def _delete_pod(scene: LocalActorContext, step: Step) -> None:
    if (found := _pick(scene.environment.records(PODS), step.value)) is not None:
        scene.environment.store.delete(PODS, found.namespace, found.name)


def _compact(scene: LocalActorContext, step: Step) -> None:
    scene.environment.compact()


def _pick(records: list[Record], value: int) -> Record | None:
    return records[value % len(records)] if records else None


ACTS: dict[str, Callable[[LocalActorContext, Step], None]] = {
    "deploy": _deploy,
    "set": _set,
    "job": _job,
    "pod": _pod,
    "custom": _custom,
    "team": _team,
    "roll": _roll,
    "scale": _scale,
    "delete-owner": _delete_owner,
    "run": _run,
    "run-later": _run_later,
    "run-without-claim": _run_without_claim,
    "cancel-run": _cancel_run,
    "delete-run": _delete_run,
    "again-run": _again_run,
    "flag": _flag,
    "rules": _rules,
    "withdraw": _withdraw,
    "squat-set": _squat_set,
    "squat-group": _squat_group,
    "cordon": _cordon,
    "drain": _drain,
    "lose-node": _lose_node,
    "evict": _evict,
    "delete-pod": _delete_pod,
    "compact": _compact,
}

__all__ = ["ACTS", "PLACE", "Act"]
