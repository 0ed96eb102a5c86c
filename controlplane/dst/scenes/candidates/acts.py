"""The steps of a plan in which users, administrators and strangers act, and which network or process a fault is of.

In: a step and the run. Out: changes of the environment; whatever lasts undoes itself when its time is over. An act
whose object is not there (any more) does nothing, so that any subset of a plan's steps can be played. Faults of
networks and processes are those of the scene `workloads`: here the network and the process are chosen."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final, cast

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATE_SOURCES,
    CANDIDATE_TARGETS,
    CANDIDATES,
    FINALIZER,
    GROUP,
    OPT_MAX_SKEW,
    OPT_PLACEMENT,
    OPT_SERVICES,
    SCHEDULER_NAME,
    SOURCE_LABEL,
)
from controlplane.dst.engine.network import Network, Storm
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.candidates import oddities
from controlplane.dst.scenes.candidates.actor_protocol import Act, Scene
from controlplane.dst.scenes.candidates.changes import change_of
from controlplane.dst.scenes.candidates.environment import CAMPUS, HIGH, NAMESPACE, NEAR, ZONE
from controlplane.dst.scenes.workloads import acts
from controlplane.dst.scenes.workloads.actor_protocol import ActorContext
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.kube.kinds import NODES, POD_GROUPS, PODS, STRATEGIC_PATCH, Json, meta
from controlplane.kube.pod_groups import GROUP_NAME
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.controllers.jobs import DURATION
from controlplane.simulation.kinds.base import CONFIG_MAPS
from controlplane.simulation.world import MANAGEMENT

PROFILE = "controlplane"
STRANGER = "elsewhere"
SOURCE_LOG = "source"
_SPREAD = "group"


def perform(scene: Scene, step: Step) -> None:
    """Carry a step out."""
    with suppress(ApiError):
        own = ACTS.get(step.kind) or later(step.kind)
        if own is not None:
            own(scene, step)
        else:
            acts.ACTS[step.kind](cast("ActorContext", _Around(scene)), step)


def later(kind: str) -> Act | None:
    """Return the act of a kind that a later edition draws."""
    from controlplane.dst.scenes.candidates.disruptions import ACTS as LATER  # it uses what is here

    return LATER.get(kind)


class _Way:
    """A way, where the acts around expect a place with its network."""

    def __init__(self, network: Network) -> None:
        self.network = network


class _Ways:
    """The ways by name, where the acts around expect the environment."""

    def __init__(self, scene: Scene) -> None:
        self.places = {name: _Way(network) for name, network in scene.environment.ways.items()}
        self.compact = scene.environment.compact


class _Around:
    """As much of a theatre as the acts on networks and processes touch."""

    def __init__(self, scene: Scene) -> None:
        self.environment, self.replicas, self.after = _Ways(scene), scene.replicas, scene.after


# --- users -----------------------------------------------------------------------------------------------------------


def _submit(scene: Scene, step: Step) -> None:
    """`seconds` is how long the pod runs, if it is one that ends; `value` how many CPUs it asks for."""
    store, pod = scene.environment.management.store, pod_of(step)
    if step.where.startswith("apart"):
        # What is spread are the pods of one controller: anything that is there and stays will do.
        owner = store.get(CONFIG_MAPS, NAMESPACE, "settings")
        head = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "uid": meta(owner)["uid"]}
        pod["metadata"]["ownerReferences"] = [{**head, "controller": True}]
    store.create(PODS, pod, field_manager="user")
    scene.submitted[step.where] = scene.wanted[step.where] = step


def pod_of(step: Step) -> Json:
    """Return the pod that a submission is of: its sort is the first word of its name."""
    name = step.where
    sort = name.partition("-")[0]
    container: Json = {"name": "main", "image": "example.com/app", "resources": {"requests": {"cpu": str(step.value)}}}
    spec: Json = {"schedulerName": SCHEDULER_NAME, "restartPolicy": "Always", "containers": [container]}
    head: Json = {"name": name, "namespace": NAMESPACE, "labels": {"app": name}, "annotations": {}}
    if sort == "task":
        head["annotations"] = {DURATION: f"{step.seconds:.0f}s"}
        spec["restartPolicy"] = "Never"
    elif sort == "spread":
        head["labels"] = {"app": name, _SPREAD: "spread"}
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {_SPREAD: "spread"}},
            }
        ]
    elif sort == "best":
        head["annotations"] = {OPT_PLACEMENT: "BestOf"}
    elif sort == "high":
        spec["priorityClassName"] = HIGH
    elif sort == "gang":
        head["annotations"] = {GROUP_NAME: group_of(name)}
    elif sort == "apart":
        head["annotations"] = {OPT_MAX_SKEW: "1"}
    elif sort == "conf":
        container["envFrom"] = [{"configMapRef": {"name": "settings"}}]
        head["annotations"] = {OPT_SERVICES: "settings"}
    return {"metadata": head, "spec": spec}


def _submit_gang(scene: Scene, step: Step) -> None:
    """A PodGroup, and its members one after the other. `value` is ten times how many there are, and how many of them
    are the quorum.
    """
    members, least = divmod(step.value, 10)
    group = {"metadata": {"name": step.where, "namespace": NAMESPACE}, "spec": {"minMember": least}}
    scene.environment.management.store.create(POD_GROUPS, group, field_manager="user")
    for number in range(1, members + 1):
        member = replace(step, where=f"{step.where}-{number}", seconds=0.0, value=1)
        if number == 1:
            _submit(scene, member)
        else:
            scene.after(step.seconds * (number - 1), _submit, scene, member)


def group_of(name: str) -> str:
    """Return the PodGroup that a pod is of, by its name; "" if it is of none."""
    return name.rpartition("-")[0] if name.startswith("gang-") else ""


def _delete(scene: Scene, step: Step, grace: int | None = None) -> None:
    if step.where in scene.wanted:
        scene.environment.management.store.delete(PODS, NAMESPACE, step.where, grace=grace)
        del scene.wanted[step.where]


def _replace(scene: Scene, step: Step) -> None:
    """As a StatefulSet's controller does: the pod goes, and another one of its name comes soon."""
    submitted = scene.wanted.get(step.where)
    if submitted is not None:
        _delete(scene, step, grace=0)
        scene.after(step.seconds, _submit, scene, submitted)


def _amend(scene: Scene, step: Step) -> None:
    """The user changes what the API lets be changed of a pod."""
    if step.where in scene.wanted:
        store = scene.environment.management.store
        body = change_of(step, store.get(PODS, NAMESPACE, step.where))
        store.patch(PODS, NAMESPACE, step.where, body, content_type=STRATEGIC_PATCH, field_manager="user")


# --- targets ---------------------------------------------------------------------------------------------------------


def _pick(records: list[Record], value: int) -> Record | None:
    return records[value % len(records)] if records else None


def delegates(place: ClusterEnvironment) -> list[Record]:
    """Return the Pods that were made for candidates in a target, in order of their names."""
    return sorted((r for r in place.store.records(PODS) if CANDIDATE_LABEL in r.labels), key=lambda r: r.name)


def _delete_delegate(scene: Scene, step: Step) -> None:
    """Somebody in the target deletes a Pod of ours."""
    place = scene.environment.places[step.where]
    record = _pick(delegates(place), step.value)
    if record is not None:
        place.store.delete(PODS, record.namespace, record.name)


def _delete_candidate(scene: Scene, step: Step) -> None:
    store = scene.environment.places[step.where].store
    record = _pick(sorted(store.records(CANDIDATES), key=lambda r: r.name), step.value)
    if record is not None:
        store.delete(CANDIDATES, record.namespace, record.name)


def _node(scene: Scene, step: Step) -> int:
    return 1 + step.value % scene.environment.nodes[step.where]


def _cordon(scene: Scene, step: Step) -> None:
    number = _node(scene, step)
    store = scene.environment.places[step.where].store
    store.patch(NODES, "", f"{step.where}-{number}", {"spec": {"unschedulable": True}}, field_manager="administrator")
    scene.after(step.seconds, scene.environment.node, step.where, number)


def _delete_node(scene: Scene, step: Step) -> None:
    number = _node(scene, step)
    scene.environment.places[step.where].store.delete(NODES, "", f"{step.where}-{number}")
    scene.after(step.seconds, scene.environment.node, step.where, number)


def _rival(scene: Scene, step: Step) -> None:
    """Somebody's own pod in the target, for the same scheduler: of low priority, and large."""
    plant(scene, step, f"rival-{step.number}", {"schedulerName": PROFILE})


def _intruder(scene: Scene, step: Step) -> None:
    """A pod that another scheduler puts on a node that has room for it now."""
    environment, node = scene.environment, f"{step.where}-{_node(scene, step)}"
    if environment.free(step.where, node) >= _large(step):
        plant(scene, step, f"intruder-{step.number}", {"schedulerName": "another", "nodeName": node})


def _large(step: Step) -> int:
    return 1 + step.value % 4


def plant(scene: Scene, step: Step, name: str, spec: Json) -> None:
    """Have a pod of somebody else's in a target, for as long as the step says, as large as its `value` says."""
    store = scene.environment.places[step.where].store
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": str(_large(step))}}}
    head = {"name": name, "namespace": NAMESPACE, "labels": {"app": "rival"}}
    store.create(PODS, {"metadata": head, "spec": {"containers": [container], **spec}}, field_manager="somebody")
    scene.after(step.seconds, store.delete, PODS, NAMESPACE, name)


def _uninvite(scene: Scene, step: Step) -> None:
    scene.environment.places[step.where].store.delete(CANDIDATE_SOURCES, NAMESPACE, CAMPUS)
    scene.after(step.seconds, scene.environment.invite, step.where)


def _disallow(scene: Scene, step: Step) -> None:
    """The namespace in the source may not use the target for a while."""
    scene.environment.management.store.delete(CANDIDATE_TARGETS, NAMESPACE, step.where)
    scene.after(step.seconds, scene.environment.allow, step.where)


def _stranger(scene: Scene, step: Step) -> None:
    """Another source, which is invited too, has a candidate here that it never permits to bind, and takes back
    later.
    """
    store, name = scene.environment.places[step.where].store, f"stranger-{step.number}"
    spec = {"cluster": STRANGER, "podSecurity": "baseline"}
    if not any(record.name == STRANGER for record in store.records(CANDIDATE_SOURCES)):
        store.create(CANDIDATE_SOURCES, {"metadata": {"name": STRANGER, "namespace": NAMESPACE}, "spec": spec})
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": str(_large(step))}}}
    origin = {"cluster": STRANGER, "namespace": NAMESPACE, "name": name, "uid": f"uid-{step.number}", "epoch": 1}
    template = {"metadata": {"labels": {"app": "stranger"}, "annotations": {}}, "spec": {"containers": [container]}}
    head = {"name": name, "namespace": NAMESPACE, "labels": {SOURCE_LABEL: STRANGER}, "finalizers": [FINALIZER]}
    store.create(CANDIDATES, {"metadata": head, "spec": {"source": origin, "template": template}}, field_manager=GROUP)
    scene.after(step.seconds, store.delete, CANDIDATES, NAMESPACE, name)


def _forget(scene: Scene, step: Step) -> None:
    """An operator gives a target up, as soon as he may, and knows no better than we whether anything runs there."""
    scene.after(step.seconds, scene.operators.forget(step.where))


# --- clusters that begin anew ----------------------------------------------------------------------------------------


def _restore(scene: Scene, step: Step) -> None:
    """A target's etcd goes back to what it holds now, some time later. What its kubelets ran beside that, they stop."""
    _back_in(scene, step.where, step.seconds)


def _restore_home(scene: Scene, step: Step) -> None:
    """The same of the source's cluster: pods that came since are gone, those that were deleted since are there
    again.
    """
    _back_in(scene, MANAGEMENT, step.seconds)


def _back_in(scene: Scene, cluster: str, seconds: float) -> None:
    backup, before = scene.environment.backup(cluster), scene.environment.places[cluster].incarnations

    def back() -> None:
        if scene.environment.places[cluster].incarnations == before:
            scene.restore(cluster, backup)

    scene.after(seconds, back)


def _rebuild(scene: Scene, step: Step) -> None:
    """A target is replaced by an empty cluster of its name and address, and furnished after a while."""
    scene.rebuild(step.where)
    scene.after(step.seconds, scene.environment.furnish, step.where)


def _idle(scene: Scene, step: Step) -> None:
    """A target does not do its part until the very end: its scheduler is down, or its API server lets no Pod of a
    candidate be made.
    """
    environment = scene.environment
    if len(environment.idle) + 1 < len(environment.workers):
        environment.idle[step.where] = "forbidding" if step.value % 2 else "silent"
        if not step.value % 2:
            environment.ways[f"{NEAR}{step.where}"].silent = True


def tidy(scene: Scene) -> None:
    """Take away what strangers had taken away and a backup has brought back."""
    for place in scene.environment.workers.values():
        store = place.store
        planted = [record for record in store.records(PODS) if record.labels.get("app") == "rival"]
        strangers = [record for record in store.records(CANDIDATES) if record.labels.get(SOURCE_LABEL) == STRANGER]
        for record in sorted([*planted, *strangers], key=lambda record: record.name):
            store.delete(record.kind, record.namespace, record.name)


# --- half a view -----------------------------------------------------------------------------------------------------


def _blind(scene: Scene, step: Step) -> None:
    """An API server answers for everything but one kind: its storage is in trouble, or an aggregated server is away."""
    way = scene.environment.ways[step.where]
    storm = Storm(500, 1.0, resource=_BLIND[step.value % len(_BLIND)].name)
    way.storms.append(storm)
    way.end_watches()
    scene.after(step.seconds, lambda: way.storms.remove(storm) if storm in way.storms else None)


_BLIND: Final = (PODS, CANDIDATES, NODES, CANDIDATE_SOURCES, CANDIDATE_TARGETS, PODS, CANDIDATES)


# --- logs ------------------------------------------------------------------------------------------------------------


def _database_away(scene: Scene, step: Step) -> None:
    database = scene.databases[step.where]
    database.away = True
    scene.after(step.seconds, setattr, database, "away", False)


def _restore_log(scene: Scene, step: Step) -> None:
    """A log goes back to what it is now, some time later; whoever reads it runs on."""
    scene.after(step.seconds, scene.restore_log, step.where, scene.databases[step.where].store.backup())


ACTS: Final[dict[str, Act]] = {
    **oddities.ACTS,
    "submit-pod": _submit,
    "submit-gang": _submit_gang,
    "delete-pod": _delete,
    "replace-pod": _replace,
    "amend-pod": _amend,
    "delete-delegate": _delete_delegate,
    "delete-candidate": _delete_candidate,
    "cordon": _cordon,
    "delete-node": _delete_node,
    "rival": _rival,
    "intruder": _intruder,
    "uninvite": _uninvite,
    "disallow": _disallow,
    "stranger": _stranger,
    "blind": _blind,
    "forget": _forget,
    "restore": _restore,
    "restore-home": _restore_home,
    "rebuild": _rebuild,
    "idle": _idle,
    "database-away": _database_away,
    "restore-log": _restore_log,
}
