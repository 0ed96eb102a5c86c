"""The steps of a tenth edition: processes that are cut off, rights that are taken away, targets that are full or refuse
Pods, invitations, targets, groups and named objects that are changed, kubelets that reject what they are given.

In: a step and the run. Out: changes of the environment; whatever lasts undoes itself when its time is over."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import (
    CANDIDATE_SOURCES,
    CANDIDATE_TARGETS,
    CANDIDATES,
    SOURCE_LABEL,
)
from controlplane.dst.engine.network import Storm
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes import faults
from controlplane.dst.scenes.candidates import acts
from controlplane.dst.scenes.candidates.actor_protocol import Act, Scene
from controlplane.dst.scenes.candidates.environment import CAMPUS, NAMESPACE, NEAR
from controlplane.kube.kinds import MULTIKUEUE_CLUSTERS, NAMESPACES, NODES, POD_GROUPS, PODS, SECRETS, Json, Kind
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.kinds.base import CONFIG_MAPS
from controlplane.simulation.seeding import ensure
from controlplane.simulation.world import MANAGEMENT, secret_name

_BESIDE: Final = "-scheduler-"
_AT_HOME: Final = (PODS, CANDIDATE_TARGETS, NODES, MULTIKUEUE_CLUSTERS, SECRETS, POD_GROUPS)
_THERE: Final = (PODS, CANDIDATES, NODES, CANDIDATE_SOURCES)
_GATE: Final = "example.com/later"


# --- processes, networks, databases ----------------------------------------------------------------------------------


def _cut_off(scene: Scene, step: Step) -> None:
    """A process does not reach its log, or its own cluster, or the others, while other processes reach everything."""
    target, beside, _ = step.where.partition(_BESIDE)
    ways, names = scene.environment.ways, sorted(scene.environment.workers)
    log: faults.Barring = scene.databases[target if beside else acts.SOURCE_LOG]
    own = [ways[f"{NEAR}{target}" if beside else MANAGEMENT]]
    others = [ways[name] for name in names if not beside]
    found = ([log], own, others[step.value % len(others) :] if others else own, [log, *own, *others])[step.value % 4]
    faults.cut_off(scene.after, found, step.where, step.seconds)


def _database_ailing(scene: Scene, step: Step) -> None:
    faults.ail(scene.after, scene.databases[step.where], 0.2 + step.value / 100, step.seconds)


def _withdraw(scene: Scene, step: Step) -> None:
    kinds: tuple[Kind, ...] = _AT_HOME if step.where == MANAGEMENT else _THERE
    faults.withdraw(scene.after, scene.environment.ways[step.where], kinds[step.value // 6 % len(kinds)], step)


def _overload(scene: Scene, step: Step) -> None:
    faults.overload(scene.after, scene.environment.ways[step.where], step)


def _refuse_pods(scene: Scene, step: Step) -> None:
    """A ResourceQuota or a webhook of a target refuses Pods for a while."""
    refusal = Storm((403, 422)[step.value % 2], 1.0, resource=PODS.name, verb="create")
    faults.storm(scene.after, scene.environment.ways[f"{NEAR}{step.where}"], step.seconds, refusal)


# --- targets ---------------------------------------------------------------------------------------------------------


def _crowd(scene: Scene, step: Step) -> None:
    """All targets are full of pods of low priority for a while."""
    for target in sorted(scene.environment.workers):
        for number in range(1, scene.environment.nodes[target] + 1):
            for half in (1, 2):
                name = f"crowd-{step.number}-{number}-{half}"
                acts.plant(scene, Step(0, step.at, "", target, step.seconds, 1), name, {"schedulerName": acts.PROFILE})


def _reinvite(scene: Scene, step: Step) -> None:
    """A target's administrator asks for other things of the source's pods for a while."""
    store = scene.environment.places[step.where].store
    changes: tuple[Json, ...] = (
        {"maxCandidates": 1},
        {"podSecurity": "restricted"},
        {"priorityClasses": ["none"]},
        {"serviceAccounts": ["robot"]},
        {"podSecurity": "privileged", "maxCandidates": 2},
    )
    change = changes[step.value % len(changes)]
    store.patch(CANDIDATE_SOURCES, NAMESPACE, CAMPUS, {"spec": change}, field_manager="administrator")
    scene.after(step.seconds, invite_as_ever, scene, step.where)


def invite_as_ever(scene: Scene, target: str) -> None:
    """Let a target ask for nothing but the baseline."""
    plain = {"podSecurity": "baseline", "maxCandidates": None, "priorityClasses": None, "serviceAccounts": None}
    with suppress(ApiError):
        store = scene.environment.places[target].store
        store.patch(CANDIDATE_SOURCES, NAMESPACE, CAMPUS, {"spec": plain}, field_manager="administrator")


def _retier(scene: Scene, step: Step) -> None:
    """The source's administrator prefers other targets, or names one twice, for a while."""
    if step.value % 2:
        scene.environment.allow(step.where, 1 + step.value % 3)
        scene.after(step.seconds, scene.environment.allow, step.where)
        return
    store, name = scene.environment.management.store, f"again-{step.where}"
    store.create(
        CANDIDATE_TARGETS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"cluster": step.where}}
    )
    scene.after(step.seconds, store.delete, CANDIDATE_TARGETS, NAMESPACE, name)


def only_once(scene: Scene) -> None:
    """Name each target once, also where a backup has it twice."""
    store = scene.environment.management.store
    for record in list(store.records(CANDIDATE_TARGETS)):
        if record.name.startswith("again-"):
            store.delete(CANDIDATE_TARGETS, record.namespace, record.name)


def _delete_namespace(scene: Scene, step: Step) -> None:
    """A target's namespace is deleted with all that is in it, and is there again after a while."""
    with suppress(ApiError):
        scene.environment.places[step.where].store.delete(NAMESPACES, "", NAMESPACE)
    scene.after(step.seconds, make_namespace, scene, step.where)


def make_namespace(scene: Scene, target: str) -> None:
    """Have a target's namespace, and the invitation in it."""
    try:
        ensure(scene.environment.places[target].store, NAMESPACES, NAMESPACE)
        scene.environment.furnish(target)
    except ApiError:  # it is still being deleted
        scene.environment.loop.world_later(1.0, make_namespace, scene, target)


def _reject(scene: Scene, step: Step) -> None:
    """A kubelet rejects a Pod that it was given and has not started."""
    place = scene.environment.places[step.where]
    waiting = [r for r in acts.delegates(place) if r.obj["spec"].get("nodeName") and _phase(r) == "Pending"]
    if waiting:
        record = waiting[step.value % len(waiting)]
        status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
        place.store.patch(PODS, record.namespace, record.name, {"status": status}, subresource="status")


def _phase(record: Record) -> str:
    return str(record.obj["status"].get("phase"))


def _rejections(scene: Scene, step: Step) -> None:
    """For a while a target's kubelets reject about every other Pod."""
    for number in range(int(step.seconds * 5)):
        scene.after(number / 5, _reject, scene, step)


def _cluster(scene: Scene, step: Step) -> None:
    """The source's administrator deletes a target's MultiKueueCluster, for a while or to have it there again at
    once."""
    store = scene.environment.management.store
    spec = store.get(MULTIKUEUE_CLUSTERS, "", step.where)["spec"]
    store.delete(MULTIKUEUE_CLUSTERS, "", step.where)
    scene.after(step.seconds if step.value % 2 else 0.0, define, scene, step.where, spec)


def define(scene: Scene, target: str, spec: Json | None = None) -> None:
    """Have a target's MultiKueueCluster."""
    source = {"clusterSource": {"kubeConfig": {"location": secret_name(target), "locationType": "Secret"}}}
    ensure(scene.environment.management.store, MULTIKUEUE_CLUSTERS, target, spec=spec or source)


def _kubeconfig(scene: Scene, step: Step) -> None:
    """A target's kubeconfig is none for a while, or its credentials end before the Secret has the new ones."""
    if step.value % 2:
        scene.environment.write_secret(step.where, broken=True)
    else:
        scene.environment.places[step.where].network.token = f"{step.value}"
    scene.after(step.seconds, scene.environment.write_secret, step.where)


# --- users -----------------------------------------------------------------------------------------------------------


def _submit_gated(scene: Scene, step: Step) -> None:
    """A pod that is not to be placed yet, for so many seconds."""
    store, pod = scene.environment.management.store, acts.pod_of(step)
    pod["spec"]["schedulingGates"] = [{"name": _GATE}]
    store.create(PODS, pod, field_manager="user")
    scene.submitted[step.where] = scene.wanted[step.where] = step
    scene.after(step.seconds, ungate, scene, step.where)


def ungate(scene: Scene, name: str) -> None:
    """Let a pod be placed."""
    with suppress(ApiError):
        patch = {"spec": {"schedulingGates": None}}
        scene.environment.management.store.patch(PODS, NAMESPACE, name, patch, field_manager="user")


def ungate_all(scene: Scene) -> None:
    """Let all pods be placed, also those that a backup has gated."""
    for record in list(scene.environment.management.store.records(PODS)):
        if record.obj["spec"].get("schedulingGates"):
            ungate(scene, record.name)


def _regroup(scene: Scene, step: Step) -> None:
    """A user asks for another quorum of a gang, or deletes its PodGroup and makes it again."""
    store = scene.environment.management.store
    before = store.get(POD_GROUPS, NAMESPACE, step.where)["spec"]
    if step.value % 3 == 0:
        store.delete(POD_GROUPS, NAMESPACE, step.where)
        scene.after(step.seconds, group, scene, step.where, before)
        return
    least = 1 + step.value % 3
    store.patch(POD_GROUPS, NAMESPACE, step.where, {"spec": {"minMember": least}}, field_manager="user")
    scene.after(step.seconds, group, scene, step.where, before)


def group(scene: Scene, name: str, spec: Json) -> None:
    """Have a PodGroup as it was."""
    ensure(scene.environment.management.store, POD_GROUPS, name, NAMESPACE, keep=False, spec=spec)


def _settings(scene: Scene, step: Step) -> None:
    """A ConfigMap that pods name is changed, is gone for a while, or somebody in a target has one of its name."""
    store = scene.environment.management.store
    change = step.value % 3
    if change == 0:
        store.patch(
            CONFIG_MAPS, NAMESPACE, "settings", {"data": {"mode": f"changed-{step.number}"}}, field_manager="user"
        )
    elif change == 1 and not any(name.startswith("apart") for name in scene.submitted):  # which it owns
        store.delete(CONFIG_MAPS, NAMESPACE, "settings")
        scene.after(step.seconds, have_settings, scene)
    elif change == 2:
        there = scene.environment.places[step.where].store
        if not any(record.name == "settings" for record in there.records(CONFIG_MAPS)):
            there.create(
                CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": NAMESPACE}, "data": {"mode": "theirs"}}
            )
            scene.after(step.seconds, _take_settings, scene, step.where)


def _take_settings(scene: Scene, target: str) -> None:
    store = scene.environment.places[target].store
    for record in list(store.records(CONFIG_MAPS)):
        if record.name == "settings" and SOURCE_LABEL not in record.labels:
            store.delete(CONFIG_MAPS, NAMESPACE, "settings")


def have_settings(scene: Scene) -> None:
    """Have the ConfigMap that pods name."""
    ensure(scene.environment.management.store, CONFIG_MAPS, "settings", NAMESPACE, data={"mode": "fast"})


def mend(scene: Scene) -> None:
    """Put right whatever a backup has brought back wrong."""
    have_settings(scene)
    only_once(scene)
    ungate_all(scene)
    for target in scene.environment.workers:
        define(scene, target)
        scene.environment.write_secret(target)
        make_namespace(scene, target)
        invite_as_ever(scene, target)
        _take_settings(scene, target)


ACTS: Final[dict[str, Act]] = {
    "cut-off": _cut_off,
    "database-ailing": _database_ailing,
    "withdraw": _withdraw,
    "overload": _overload,
    "refuse-pods": _refuse_pods,
    "crowd": _crowd,
    "reinvite": _reinvite,
    "retier": _retier,
    "delete-namespace": _delete_namespace,
    "reject": _rejections,
    "renew-cluster": _cluster,
    "kubeconfig": _kubeconfig,
    "submit-gated": _submit_gated,
    "regroup": _regroup,
    "settings": _settings,
}
