"""What the steps of a plan of the scene act on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.local.environment import OwnClusterEnvironment
from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver.history import Record


class LocalActorContext(Protocol):
    """What acts act on."""

    environment: OwnClusterEnvironment
    databases: dict[str, SimulatedDatabase]

    def after(self, seconds: float, end: Callable[..., object], *arguments: object) -> None:
        """Do something later: when its time has come, or when all trouble ends."""

    def foreign(self, obj: Json) -> None:
        """Take note of what is somebody else's: nobody of ours may touch it."""

    def foreign_group(self, obj: Json) -> None:
        """Take note of somebody else's PodGroup: its phase and conditions may be written, nothing else."""

    def take_back(self, kind: Kind, obj: Json) -> None:
        """Delete what is somebody else's, on their behalf."""

    def is_placeholder(self, record: Record) -> bool:
        """Whether an object was made for a run."""

    def late_claim(self, name: str) -> None:
        """Create a claim that a run waits for."""

    def is_too_big(self, obj: Json) -> bool:
        """Whether a run has such a task."""

    def too_big(self, obj: Json) -> None:
        """Take note of a run with a task that no node can ever take."""

    def give_node(self, name: str) -> None:
        """Put a node back that was lost."""

    def flag(self, mode: str) -> None:
        """Set Tekton's flag, and take note of whom that may concern."""


Act = Callable[[LocalActorContext, Step], None]
