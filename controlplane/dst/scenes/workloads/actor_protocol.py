"""What the steps of a plan act on, and the shape that an act has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.process import SimulatedReplica
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.workloads.environment import Backup, JobWebhook, WorkloadEnvironment
from controlplane.dst.scenes.workloads.operators import Operators
from controlplane.kube.kinds import Json, Kind


class ActorContext(Protocol):
    """What acts act on. `submitted` are the users' jobs by name, `deleted` those that a user took back, `planted` what
    is somebody else's: UID to name; `pods` the users' pods as they make them, and `gates_pods` whether they gate what
    must not run on the management cluster themselves; `made` every job as its user made it, `webhook` what is asked
    then."""

    environment: WorkloadEnvironment
    database: SimulatedDatabase
    replicas: dict[str, SimulatedReplica]
    operators: Operators
    submitted: dict[str, Kind]
    deleted: set[str]
    planted: dict[str, str]
    pods: dict[str, Json]
    gates_pods: bool
    webhook: JobWebhook
    made: dict[str, Json]

    def after(self, seconds: float, end: Callable[..., object], *arguments: object) -> None:
        """Do something later: when its time has come, or when all trouble ends."""

    def restore(self, cluster: str, backup: Backup) -> None:
        """Put a worker's etcd back."""

    def restore_home(self, backup: Backup) -> None:
        """Put the management cluster's etcd back."""

    def roll_out(self, value: int) -> None:
        """Replace every process by one with other settings, as a number says."""

    def restore_log(self, put_back: Callable[[], None]) -> None:
        """Put the log back."""

    def rebuild(self, cluster: str) -> None:
        """Replace a cluster by an empty one."""


Act = Callable[[ActorContext, Step], None]
