"""The steps of a plan, carried out: one function a kind. Those in which people act are in `people` and `oddities`.

In: a step and the scene. Out: what happens on the environment, to the processes, to the database; whatever lasts undoes
itself when its time is over. An act whose object is not there (any more) does nothing, so that any subset of a plan's
steps can be played."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from controlplane.clusters.protocol import ApiError
from controlplane.dst.engine.network import Network, Storm
from controlplane.dst.engine.process import STOPPED_WITHIN, SimulatedReplica
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.workloads import administrators, disruptions, gated, oddities, people
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.kube.kinds import JOBS, JOBSETS, WORKLOADS, Kind
from controlplane.simulation.world import MANAGEMENT

_RESTART = 3.0


def perform(scene: ActorContext, step: Step) -> None:
    """Carry a step out."""
    with suppress(ApiError):
        ACTS[step.kind](scene, step)


# --- the network -----------------------------------------------------------------------------------------------------


def _weather(begin: Callable[[Network, Step], None], end: Callable[[Network], None]) -> Act:
    def act(scene: ActorContext, step: Step) -> None:
        network = scene.environment.places[step.where].network
        begin(network, step)
        scene.after(step.seconds, end, network)

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
    def act(scene: ActorContext, step: Step) -> None:
        storms, storm = scene.environment.places[step.where].network.storms, Storm(status, share, after)
        storms.append(storm)
        scene.after(step.seconds, lambda: storms.remove(storm) if storm in storms else None)

    return act


def _end_partition(network: Network) -> None:
    """Some connections live through a partition, some were given up by the other side."""
    network.silent = False
    if network.random.random() < 0.5:
        network.cut("connection reset by peer")


# --- clusters --------------------------------------------------------------------------------------------------------


def _compact(scene: ActorContext, step: Step) -> None:
    scene.environment.compact(step.where)


def _cut(scene: ActorContext, step: Step) -> None:
    scene.environment.places[step.where].network.cut("connection reset by peer")


def _restore(scene: ActorContext, step: Step) -> None:
    backup, before = scene.environment.backup(step.where), scene.environment.places[step.where].incarnations

    def back() -> None:
        if scene.environment.places[step.where].incarnations == before:
            scene.restore(step.where, backup)

    scene.after(step.seconds, back)


def _restore_home(scene: ActorContext, step: Step) -> None:
    """The management cluster's etcd goes back: jobs that came since are gone, those that were deleted since are there
    again.
    """
    backup, before = scene.environment.backup(MANAGEMENT), scene.environment.management.incarnations

    def back() -> None:
        if scene.environment.management.incarnations == before:
            scene.restore_home(backup)

    scene.after(step.seconds, back)


def _rebuild(scene: ActorContext, step: Step) -> None:
    if not scene.environment.is_misled_to(step.where):
        scene.rebuild(step.where)


def _kind_off(scene: ActorContext, step: Step) -> None:
    _off(scene, step, JOBS if step.value % 2 else WORKLOADS)


def _sets_off(scene: ActorContext, step: Step) -> None:
    _off(scene, step, JOBSETS)


def _off(scene: ActorContext, step: Step, kind: Kind) -> None:
    place = scene.environment.places[step.where]
    place.off.add(kind.name)
    place.network.cut("the API server closed the connection")
    scene.after(step.seconds, place.off.discard, kind.name)


# --- processes -------------------------------------------------------------------------------------------------------


def _crash(scene: ActorContext, step: Step) -> None:
    replica = scene.replicas.get(step.where)
    if replica is not None and replica.alive:
        replica.crash_after(step.value * 7 % 211, "is killed")
        scene.after(_RESTART + step.value / 4, _again, replica)


def _again(replica: SimulatedReplica) -> None:
    replica.crash("is killed")
    replica.start()


def _absence(scene: ActorContext, step: Step) -> None:
    """Every process is killed, and none comes back for a while."""
    for replica in scene.replicas.values():
        replica.crash("is killed")
        scene.after(step.seconds, _again, replica)


def _restarts(scene: ActorContext, step: Step) -> None:
    """Every process is killed again and again, each time `value` seconds after it was started."""
    for replica in scene.replicas.values():
        for number in range(int(step.seconds // step.value) + 1):
            scene.after(float(number * step.value), _again, replica)


def _stop(scene: ActorContext, step: Step) -> None:
    replica = scene.replicas.get(step.where)
    if replica is not None and replica.alive:
        replica.stop()
        scene.after(STOPPED_WITHIN + 1.0, _again, replica)


def _pause(scene: ActorContext, step: Step) -> None:
    """A long pause: the others take the process for dead, it does not."""
    replica = scene.replicas.get(step.where)
    if replica is not None and replica.alive and not replica.process.frozen:
        replica.freeze()
        process = replica.process
        scene.after(step.seconds, lambda: replica.thaw() if replica.process is process else None)


def _clock(scene: ActorContext, step: Step) -> None:
    replica = scene.replicas.get(step.where)
    if replica is not None:
        replica.clock.offset = float(step.value - 30)


def _database_away(scene: ActorContext, step: Step) -> None:
    scene.database.away = True
    scene.after(step.seconds, setattr, scene.database, "away", False)


def _database_refuses(scene: ActorContext, step: Step) -> None:
    """A function was replaced by one that refuses everything, in the middle of a rollout, say."""
    scene.database.refuses = True
    scene.after(step.seconds, setattr, scene.database, "refuses", False)


def _restore_log(scene: ActorContext, step: Step) -> None:
    """The log goes back to a backup, or a standby is promoted that lacks the last commits; whoever reads it runs on."""
    scene.after(step.seconds, scene.restore_log, scene.database.store.backup())


# --- operators -------------------------------------------------------------------------------------------------------


def _forget(scene: ActorContext, step: Step) -> None:
    scene.after(step.seconds, scene.operators.forget(step.where))


def _accept_outage(scene: ActorContext, step: Step) -> None:
    scene.after(step.seconds, scene.operators.accept_outage())


ACTS: Final[dict[str, Act]] = {
    **people.ACTS,
    **oddities.ACTS,
    **administrators.ACTS,
    **gated.ACTS,
    **disruptions.ACTS,
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
    "restore-home": _restore_home,
    "rebuild": _rebuild,
    "kind-off": _kind_off,
    "sets-off": _sets_off,
    "crash": _crash,
    "absence": _absence,
    "restarts": _restarts,
    "stop": _stop,
    "pause": _pause,
    "clock": _clock,
    "database-away": _database_away,
    "database-refuses": _database_refuses,
    "restore-log": _restore_log,
    "forget": _forget,
    "accept-outage": _accept_outage,
}
