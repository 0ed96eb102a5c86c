"""Trouble on the way to API servers that no edition before the tenth has: one process loses its way while others have
theirs, servers that are not available in bursts, and histories that are forgotten at any moment.

In: a step and the scene. Out: faults of the network, which end when their time is over."""

from __future__ import annotations

from controlplane.dst.engine.network import Storm
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext

_PAUSE = 7.0  # seconds between two bursts


def _lose_way(scene: ActorContext, step: Step) -> None:
    """One process reaches a cluster no more, and everything else."""
    network = scene.environment.places[step.where].network
    names = sorted(scene.replicas)
    replica = names[step.value % len(names)]
    network.barred.add(replica)
    network.cut("connection reset by peer")
    scene.after(step.seconds, network.barred.discard, replica)


def _unavailable(scene: ActorContext, step: Step) -> None:
    """An API server refuses nearly everything for a moment, again and again, with 503 or 429."""
    storms = scene.environment.places[step.where].network.storms
    storm = Storm((503, 429)[step.value % 2], 0.9)
    bursts = step.value % 4 + 1

    def end() -> None:
        if storm in storms:
            storms.remove(storm)

    for number in range(bursts):
        scene.after(number * (step.seconds + _PAUSE), storms.append, storm)
        scene.after(number * (step.seconds + _PAUSE) + step.seconds, end)


def _expire(scene: ActorContext, step: Step) -> None:
    """An API server closes its connections and has forgotten its history: who resumes is told 410."""
    place = scene.environment.places[step.where]
    place.network.cut("connection reset by peer")
    place.store.compact()


ACTS: dict[str, Act] = {"lose-way": _lose_way, "unavailable": _unavailable, "expire": _expire}
