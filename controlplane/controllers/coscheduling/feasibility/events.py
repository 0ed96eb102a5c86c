"""What is recorded of worker clusters so that runs can be judged for them, and of the runs that are to go to one.

Streams: `fit/KIND/NS/NAME` for a run and the judgements on it (`connectivity.fitness.ClustersJudged`),
`worker/CLUSTER/…` for what is seen of a worker: its nodes, storage classes, placeholders, Tekton's flags, and the
objects that runs name, which are read one at a time."""

from __future__ import annotations

from typing import Any, Literal

from controlplane.controllers.connectivity.eligibility import ClustersJudged
from controlplane.controllers.coscheduling.observations import (
    CoschedulingObjectGone,
    CoschedulingObservation,
    TaintSeen,
)
from controlplane.log.event import Event

Outcome = Literal["Found", "Missing", "Unknown"]


class WorkerNodeObserved(CoschedulingObservation):
    """A node of a worker: what a pod has to match or tolerate there, and what all pods together can be given."""

    labels: dict[str, str] = {}
    taints: list[TaintSeen] = []
    cordoned: bool = False
    allocatable: dict[str, str] = {}


class WorkerNodeGone(CoschedulingObjectGone):
    """A node of a worker is gone."""


class WorkerClassObserved(CoschedulingObservation):
    """A storage class of a worker. `late`: volumes are bound when a pod is placed; `default`: it is the one of claims
    that name none.
    """

    late: bool = False
    default: bool = False


class WorkerClassGone(CoschedulingObjectGone):
    """A storage class of a worker is gone."""


class WorkerFlagsObserved(CoschedulingObservation):
    """The ConfigMap `feature-flags` of a worker's Tekton, as far as placeholders care."""

    data: dict[str, Any] = {}


class WorkerFlagsGone(CoschedulingObjectGone):
    """The ConfigMap `feature-flags` of a worker was deleted: its defaults hold."""


class WorkerPlaceholderObserved(CoschedulingObservation):
    """A placeholder's pod on a worker, the run that it is of, and its node, "" while it waits for one."""

    run: str = ""
    node: str = ""


class WorkerPlaceholderGone(CoschedulingObjectGone):
    """A placeholder's pod on a worker is gone."""


class DispatchedRunObserved(CoschedulingObservation):
    """A PipelineRun that is to run on a worker. `run` is what decides where it fits: workspaces, selectors, and what
    tasks ask for; `asked` the mode that it asks for, if any; `waits`: it has not started anywhere. `problem`: why it
    cannot be read."""

    asked: str = ""
    waits: bool = True
    run: dict[str, Any] = {}
    problem: str = ""


class DispatchedRunGone(CoschedulingObjectGone):
    """A PipelineRun that was to run on a worker was deleted."""


class RunChargeObserved(CoschedulingObservation):
    """The Workload of a PipelineRun: what quota it asks for, all pod sets together. `owner` is the UID of the run."""

    owner: str
    asked: dict[str, str] = {}


class RunChargeGone(CoschedulingObjectGone):
    """The Workload of a PipelineRun is gone."""


class WorkerObjectRead(Event):
    """An object that a run names was looked for on a worker. `Unknown`: the worker did not let us look; `object` is
    what decides of it.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    outcome: Outcome
    object: dict[str, Any] = {}
    message: str = ""


JUDGING_EVENTS: tuple[type[Event], ...] = (
    WorkerNodeObserved,
    WorkerNodeGone,
    WorkerClassObserved,
    WorkerClassGone,
    WorkerFlagsObserved,
    WorkerFlagsGone,
    WorkerPlaceholderObserved,
    WorkerPlaceholderGone,
    DispatchedRunObserved,
    DispatchedRunGone,
    RunChargeObserved,
    RunChargeGone,
    WorkerObjectRead,
    ClustersJudged,
)
