"""What the steps of a plan of this scene act on, and the shape that an act has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.process import SimulatedReplica
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.candidates.environment import CandidateEnvironment
from controlplane.dst.scenes.workloads.environment import Backup
from controlplane.dst.scenes.workloads.operators import Operators


class Scene(Protocol):
    """What acts act on. `submitted` are the users' pods by name, as they were submitted; `wanted` those that nobody
    took back.
    """

    environment: CandidateEnvironment
    databases: dict[str, SimulatedDatabase]
    submitted: dict[str, Step]
    wanted: dict[str, Step]
    operators: Operators

    @property
    def replicas(self) -> Mapping[str, SimulatedReplica]:
        """Every process by name."""

    def after(self, seconds: float, end: Callable[..., object], *arguments: object) -> None:
        """Do something later: when its time has come, or when all trouble ends."""

    def restore(self, cluster: str, backup: Backup) -> None:
        """Put a cluster back to what it was."""

    def rebuild(self, target: str) -> None:
        """Replace a target by an empty cluster of its name."""

    def restore_log(self, log: str, put_back: Callable[[], None]) -> None:
        """Put a log back: the source's, or that of the scheduler beside a target."""


Act = Callable[[Scene, Step], None]
