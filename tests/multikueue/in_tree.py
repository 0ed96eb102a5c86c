"""The rule by which Kueue's own controller decides about one Workload, as `reconcileGroup` in kubernetes-sigs/kueue
pkg/controller/admissionchecks/multikueue/workload.go (ff69552e) has it, on the scene of our own tests.

In: a scene. Out: what that controller would do next, in few words. It is here so that each test of a defect shows that
the rule has it; nothing of the product rests on it. Left out are elastic jobs, preemption gates and topology."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.controllers.multikueue.observations import CloneObserved, WorkloadObserved
from tests.multikueue.scene import CHECK, Scene

TIMEOUT = timedelta(minutes=15)


def in_tree(scene: Scene, lost_since: dict[str, datetime] | None = None, config: tuple[str, ...] = ()) -> list[str]:
    """Return the steps of one pass: `remove C`, `clone C`, `sync C` (which creates the job where there is none),
    `finish C`, `Ready C`, `Retry: reason`, `deactivate C`, `error: …`; nothing if it waits. `lost_since` is what its
    memory has."""
    local = scene.state.local
    assert local is not None
    index = scene.fleet.index
    clusters = config or index.route(local).clusters  # type: ignore[union-attr]
    available = [name for name in clusters if index.connections[name].connected]
    clones = {name: clone for name in available if (clone := scene.state.remote(name).clone) is not None}
    return _Pass(scene, local, available, clones, lost_since or {}).steps(clusters)


class _Pass:
    def __init__(
        self,
        scene: Scene,
        local: WorkloadObserved,
        available: list[str],
        clones: dict[str, CloneObserved],
        lost_since: dict[str, datetime],
    ) -> None:
        self.scene, self.local, self.available, self.clones, self.lost_since = (
            scene,
            local,
            available,
            clones,
            lost_since,
        )
        self.state = next(entry.state for entry in local.checks if entry.name == CHECK)

    def steps(self, clusters: tuple[str, ...]) -> list[str]:
        local = self.local
        if local.is_true("Finished") or not local.is_true("QuotaReserved"):
            return [f"remove {name}" for name in sorted(self.clones)]
        if (finished := self.oldest("Finished")) is not None:
            reason = self.clones[finished].condition("Finished").reason  # type: ignore[union-attr]
            if reason == "OutOfSync":
                return ["Retry: out of sync"] if self.state == "Ready" else []
            return [f"sync {finished}", f"finish {finished}"]
        if (evicted := self.oldest("Evicted")) is not None and (local.is_true("Evicted") or self.state == "Ready"):
            return [f"sync {evicted}"] if local.is_true("Evicted") else ["Retry: evicted"]
        removed = [name for name, clone in sorted(self.clones.items()) if clone.spec_key != local.spec_key]
        for name in removed:
            del self.clones[name]
        return [f"remove {name}" for name in removed] + self.admitting(clusters)

    def oldest(self, kind: str) -> str | None:
        """The cluster whose condition became true first, by its own clock."""
        found = [(clone.condition(kind), name) for name, clone in self.clones.items() if clone.is_true(kind)]
        return min(((c.last_transition_time, name) for c, name in found if c is not None), default=(None, None))[1]

    def admitting(self, clusters: tuple[str, ...]) -> list[str]:
        local, winner = self.local, self.oldest("Admitted")
        if winner is None:
            return self.without_winner(clusters)
        steps = [f"remove {name}" for name in sorted(self.clones) if name != winner]
        if local.is_true("Evicted"):
            return [*steps, f"deactivate {winner}"]
        steps.append(f"sync {winner}")
        if local.cluster_name not in ("", winner):
            return [
                *steps,
                f'error: attempting to change immutable ClusterName from "{local.cluster_name}" to "{winner}"',
            ]
        if not local.cluster_name and winner not in local.nominated:
            return [*steps, f"error: the webhook refuses clusterName {winner}, which is not nominated"]
        return [*steps, f"Ready {winner}"]

    def without_winner(self, clusters: tuple[str, ...]) -> list[str]:
        local = self.local
        if self.state == "Ready":
            if local.cluster_name in clusters and local.cluster_name not in self.available:
                since = self.lost_since.get(local.cluster_name, self.scene.now)
                return ["Retry: lost"] if self.scene.now - since >= TIMEOUT else []
            return ["Retry: gone"] if local.cluster_name else ["Retry: no cluster"]
        if self.state != "Pending" or local.cluster_name:
            return []
        return [f"clone {name}" for name in sorted(self.available) if name not in self.clones]
