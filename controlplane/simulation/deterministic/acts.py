"""The steps of a plan, carried out: one function a kind.

In: a step and the theatre. Out: what happens on the stage, to the processes, to the database; whatever lasts undoes itself when its time is
over. An act whose object is not there (any more) does nothing, so that any subset of a plan's steps can be played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from controlplane.clusters.port import ApiError
from controlplane.kube import (
    CLUSTER_QUEUES,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
    Json,
    Kind,
)
from controlplane.multikueue.adapters.base import ORIGIN_LABEL, QUEUE_LABEL
from controlplane.multikueue.context import NEVER_TWICE
from controlplane.multikueue.objects import EXECUTION_POLICY
from controlplane.simulation.deterministic.database import Database
from controlplane.simulation.deterministic.network import Network, Storm
from controlplane.simulation.deterministic.plan import NEVER_TWICE as NEVER_TWICE_NAME
from controlplane.simulation.deterministic.plan import Step
from controlplane.simulation.deterministic.replica import Replica
from controlplane.simulation.deterministic.stage import Backup, Place, Stage
from controlplane.simulation.history import Record
from controlplane.simulation.jobs import DURATION
from controlplane.simulation.seeding import ensure
from controlplane.simulation.world import CHECK, secret_name

_RESTART = 3.0


class Theatre(Protocol):
    """What acts act on. `deleted` are the jobs that a user took back, `planted` what is somebody else's: UID to name."""

    stage: Stage
    database: Database
    replicas: dict[str, Replica]
    submitted: dict[str, None]
    deleted: set[str]
    planted: dict[str, str]

    def after(self, seconds: float, end: Callable[..., object], *arguments: object) -> None:
        """Do something later: when its time has come, or when all trouble ends."""

    def restore(self, cluster: str, backup: Backup) -> None:
        """Put a cluster's etcd back."""

    def rebuild(self, cluster: str) -> None:
        """Replace a cluster by an empty one."""


Act = Callable[[Theatre, Step], None]


def perform(theatre: Theatre, step: Step) -> None:
    """Carry a step out."""
    with suppress(ApiError):
        ACTS[step.kind](theatre, step)


# --- the network -------------------------------------------------------------------------------------------------------


def _weather(begin: Callable[[Network, Step], None], end: Callable[[Network], None]) -> Act:
    def act(theatre: Theatre, step: Step) -> None:
        network = theatre.stage.places[step.where].network
        begin(network, step)
        theatre.after(step.seconds, end, network)

    return act


def _flag(name: str, value: Callable[[Step], object]) -> Act:
    neutral = {"silent": False, "mute": False}
    return _weather(
        lambda network, step: setattr(network, name, value(step)),
        lambda network: setattr(network, name, neutral.get(name, 0.0)),
    )


def _refuse(network: Network, _: Step) -> None:
    network.refused = True
    network.cut("connection reset by peer")


def _slow(network: Network, step: Step) -> None:
    network.slow, network.delay = 0.3, float(step.value)


def _storm(status: int, share: float, *, after: bool = False) -> Act:
    def act(theatre: Theatre, step: Step) -> None:
        storms, storm = theatre.stage.places[step.where].network.storms, Storm(status, share, after)
        storms.append(storm)
        theatre.after(step.seconds, lambda: storms.remove(storm) if storm in storms else None)

    return act


def _end_partition(network: Network) -> None:
    """Some connections live through a partition, some were given up by the other side."""
    network.silent = False
    if network.random.random() < 0.5:
        network.cut("connection reset by peer")


# --- clusters ----------------------------------------------------------------------------------------------------------


def _compact(theatre: Theatre, step: Step) -> None:
    theatre.stage.compact(step.where)


def _cut(theatre: Theatre, step: Step) -> None:
    theatre.stage.places[step.where].network.cut("connection reset by peer")


def _restore(theatre: Theatre, step: Step) -> None:
    backup, lives = theatre.stage.backup(step.where), theatre.stage.places[step.where].lives

    def back() -> None:
        if theatre.stage.places[step.where].lives == lives:
            theatre.restore(step.where, backup)

    theatre.after(step.seconds, back)


def _rebuild(theatre: Theatre, step: Step) -> None:
    theatre.rebuild(step.where)


def _kind_off(theatre: Theatre, step: Step) -> None:
    place, kind = theatre.stage.places[step.where], (JOBS if step.value % 2 else WORKLOADS).name
    place.off.add(kind)
    place.network.cut("the API server closed the connection")
    theatre.after(step.seconds, place.off.discard, kind)


# --- processes ---------------------------------------------------------------------------------------------------------


def _crash(theatre: Theatre, step: Step) -> None:
    replica = theatre.replicas.get(step.where)
    if replica is not None and replica.alive:
        replica.crash_after(step.value * 7 % 211, "is killed")
        theatre.after(_RESTART + step.value / 4, _again, replica)


def _again(replica: Replica) -> None:
    replica.crash("is killed")
    replica.start()


def _stop(theatre: Theatre, step: Step) -> None:
    replica = theatre.replicas.get(step.where)
    if replica is not None and replica.alive:
        replica.stop()
        theatre.after(30.0, _again, replica)


def _pause(theatre: Theatre, step: Step) -> None:
    """A long pause: the others take the process for dead, it does not."""
    replica = theatre.replicas.get(step.where)
    if replica is not None and replica.alive and not replica.process.frozen:
        replica.freeze()
        process = replica.process
        theatre.after(step.seconds, lambda: replica.thaw() if replica.process is process else None)


def _clock(theatre: Theatre, step: Step) -> None:
    replica = theatre.replicas.get(step.where)
    if replica is not None:
        replica.clock.offset = float(step.value - 30)


def _database_away(theatre: Theatre, step: Step) -> None:
    theatre.database.away = True
    theatre.after(step.seconds, setattr, theatre.database, "away", False)


# --- Kueue and users ---------------------------------------------------------------------------------------------------


def _pick(records: Sequence[Record], value: int) -> Record | None:
    return records[value % len(records)] if records else None


def _copies(place: Place, kind: Kind) -> list[Record]:
    return [record for record in place.store.records(kind) if ORIGIN_LABEL in record.labels]


def _on_copy(kind: Kind, act: Callable[[Place, Record], object]) -> Act:
    def on_copy(theatre: Theatre, step: Step) -> None:
        place = theatre.stage.places[step.where]
        record = _pick(_copies(place, kind), step.value)
        if record is not None:
            act(place, record)

    return on_copy


def _preempt_copy(place: Place, record: Record) -> None:
    place.life.kueue.preempt(record.namespace, record.name)


def _deactivate_copy(place: Place, record: Record) -> None:
    place.life.kueue.deactivate(record.namespace, record.name)


def _delete(kind: Kind) -> Callable[[Place, Record], object]:
    return lambda place, record: place.store.delete(kind, record.namespace, record.name)


def _workload(theatre: Theatre, job: str) -> Record | None:
    """Return the Workload of a job on the management cluster."""
    for record in theatre.stage.management.store.records(WORKLOADS):
        owners = record.obj["metadata"].get("ownerReferences") or []
        if any(owner["name"] == job for owner in owners):
            return record
    return None


def _submit(theatre: Theatre, step: Step) -> None:
    requests = {"cpu": str(step.value)}
    container = {"name": "main", "image": "example.com/work", "resources": {"requests": requests}}
    annotations = {DURATION: f"{step.seconds:.0f}s"}
    if step.where.startswith(NEVER_TWICE_NAME):
        annotations[EXECUTION_POLICY] = NEVER_TWICE
    job: Json = {
        "metadata": {
            "namespace": "default",
            "name": step.where,
            "labels": {QUEUE_LABEL: "user-queue"},
            "annotations": annotations,
        },
        "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
    }
    theatre.stage.management.store.create(JOBS, job, field_manager="user")
    theatre.submitted[step.where] = None


def _delete_job(theatre: Theatre, step: Step) -> None:
    if step.where in theatre.submitted:
        theatre.deleted.add(step.where)
        theatre.stage.management.store.delete(JOBS, "default", step.where)


def _preempt(theatre: Theatre, step: Step) -> None:
    record = _workload(theatre, step.where)
    if record is not None:
        theatre.stage.management.life.kueue.preempt(record.namespace, record.name)


def _priority(theatre: Theatre, step: Step) -> None:
    record = _workload(theatre, step.where)
    if record is not None:
        theatre.stage.management.store.patch(
            WORKLOADS, record.namespace, record.name, {"spec": {"priority": step.value}}, field_manager="user"
        )


def _suspend(theatre: Theatre, step: Step) -> None:
    """Take a Workload out of the queue for a while."""
    record = _workload(theatre, step.where)
    if record is not None:
        _set_active(theatre, record, False)
        theatre.after(step.seconds, _set_active, theatre, record, True)


def _set_active(theatre: Theatre, record: Record, active: bool) -> None:
    with suppress(ApiError):
        theatre.stage.management.store.patch(
            WORKLOADS, record.namespace, record.name, {"spec": {"active": active}}, field_manager="user"
        )


def _drain_queue(theatre: Theatre, step: Step) -> None:
    store = theatre.stage.management.store
    store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "HoldAndDrain"}}, field_manager="user")
    theatre.after(step.seconds, open_queue, theatre)


def open_queue(theatre: Theatre) -> None:
    """Let the management cluster's queue admit again."""
    store = theatre.stage.management.store
    store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "None"}}, field_manager="user")


def list_clusters(theatre: Theatre, without: str = "") -> None:
    """Name all clusters, or all but one, in the MultiKueueConfig."""
    names = [name for name in theatre.stage.workers if name != without]
    theatre.stage.management.store.patch(MULTIKUEUE_CONFIGS, "", CHECK, {"spec": {"clusters": names}})


def _unlist_cluster(theatre: Theatre, step: Step) -> None:
    list_clusters(theatre, step.where)
    theatre.after(step.seconds, list_clusters, theatre)


def define_cluster(theatre: Theatre, name: str) -> None:
    """Create a worker's MultiKueueCluster if there is none."""
    source = {"kubeConfig": {"location": secret_name(name), "locationType": "Secret"}}
    ensure(theatre.stage.management.store, MULTIKUEUE_CLUSTERS, name, spec={"clusterSource": source})


def _delete_cluster(theatre: Theatre, step: Step) -> None:
    theatre.stage.management.store.delete(MULTIKUEUE_CLUSTERS, "", step.where)
    theatre.after(step.seconds, define_cluster, theatre, step.where)


def _foreign_job(theatre: Theatre, step: Step) -> None:
    """Somebody has a Job of the same name on a worker, and means to keep it."""
    jobs = list(theatre.submitted) or ["somebody"]
    name = jobs[step.value % len(jobs)]
    spec = {"suspend": True, "template": {"spec": {"containers": [{"name": "x", "image": "example.com/other"}]}}}
    body: Json = {"metadata": {"namespace": "default", "name": name}, "spec": spec}
    created = theatre.stage.places[step.where].store.create(JOBS, body, field_manager="somebody")
    theatre.planted[created["metadata"]["uid"]] = name


def _bad_kubeconfig(theatre: Theatre, step: Step) -> None:
    theatre.stage.write_secret(step.where, broken=True)
    theatre.after(step.seconds, theatre.stage.write_secret, step.where)


def _new_token(theatre: Theatre, step: Step) -> None:
    """The old credentials end before the Secret has the new ones."""
    theatre.stage.places[step.where].network.token = f"{step.value}"
    theatre.after(step.seconds, theatre.stage.write_secret, step.where)


ACTS: Final[dict[str, Act]] = {
    "submit": _submit,
    "partition": _weather(lambda network, _: setattr(network, "silent", True), _end_partition),
    "refuse": _weather(_refuse, lambda network: setattr(network, "refused", False)),
    "mute": _flag("mute", lambda _: True),
    "slow": _weather(_slow, lambda network: setattr(network, "slow", 0.0)),
    "lose-replies": _flag("lost_replies", lambda step: 0.2 + step.value / 100),
    "throttle": _storm(429, 0.5),
    "errors": _storm(500, 0.5),
    "late-errors": _storm(500, 0.5, after=True),
    "conflicts": _storm(409, 0.6),
    "unauthorized": _storm(401, 0.7),
    "echo": _flag("echo", lambda _: 0.5),
    "compact": _compact,
    "cut": _cut,
    "restore": _restore,
    "rebuild": _rebuild,
    "kind-off": _kind_off,
    "crash": _crash,
    "stop": _stop,
    "pause": _pause,
    "clock": _clock,
    "database-away": _database_away,
    "preempt-copy": _on_copy(WORKLOADS, _preempt_copy),
    "deactivate-copy": _on_copy(WORKLOADS, _deactivate_copy),
    "delete-clone": _on_copy(WORKLOADS, _delete(WORKLOADS)),
    "delete-copy": _on_copy(JOBS, _delete(JOBS)),
    "preempt": _preempt,
    "priority": _priority,
    "suspend": _suspend,
    "drain-queue": _drain_queue,
    "delete-job": _delete_job,
    "unlist-cluster": _unlist_cluster,
    "delete-cluster": _delete_cluster,
    "foreign-job": _foreign_job,
    "bad-kubeconfig": _bad_kubeconfig,
    "new-token": _new_token,
}
