"""Defines what MultiKueue records: what was decided, and what could not be done. What was seen is in `observations`.

Observations carry only the fields that something decides on; specs and statuses are bodies, named by hash. Every
decision that means a write names its target: the cluster and whether it is the Workload or the job there. Streams:
`workload/NS/NAME` for a Workload and all its copies, `job/KIND/NS/NAME` for the user's job, `admissioncheck/NAME`,
`multikueueconfig/NAME` and `cluster/NAME` for the rest."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.observations import OBSERVATIONS, Owner, Priority
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.worker_queues import WORKER_QUEUES
from controlplane.log.event import Event, Part
from controlplane.runtime.writes import WriteRefused, WriteUnneeded

# --- decisions --------------------------------------------------------------------------------------------------------

Where = Literal["Workload", "Job", "MultiKueueCluster", "AdmissionCheck"]


class WorkloadDecision(Event):
    """A decision; `reason` is one of the closed set."""

    reason: WorkloadReason


class WorkloadWrite(WorkloadDecision):
    """A decision that means a write to one object, `where` on `cluster`, based on its `resource_version` ("" for a
    create).
    """

    WHERE: ClassVar[Where] = "Workload"
    cluster: str = MANAGEMENT
    resource_version: str = ""

    @property
    def where(self) -> Where:
        """Which object the write is to."""
        return self.WHERE

    @property
    def target(self) -> str:
        """The key of the object in its stream: at most one write to it is open."""
        return f"{self.cluster}/{self.where}{f'/{self.part}' if self.part else ''}"

    @property
    def part(self) -> str:
        """Which of several objects there it is: a pod of a group beside the first one."""
        return ""


class NominationDecided(WorkloadWrite):
    """Offer the Workload to these clusters: `status.nominatedClusterNames`. `round`: of a dispatcher that asks a few at
    a time.
    """

    attempt: int
    clusters: list[str]
    round: int = 0


class AttemptBegun(WorkloadDecision):
    """Somebody else nominated these clusters, or the job is on one already: an attempt begins."""

    attempt: int
    clusters: list[str]


class GroupPodChosen(WorkloadDecision):
    """A group of pods is known by this one from now on: the one by which it was has ended, or is going."""

    owner: Owner


class ClusterScore(Part):
    """How a cluster was scored: the weighted sum of its `rules`, each from 0 to 100, and the `facts` that they rest
    on."""

    cluster: str
    score: int
    rules: dict[str, int] = {}
    facts: dict[str, str] = {}


class ClustersScored(WorkloadDecision):
    """The clusters that could be asked, the best first, and why others are left out: what the nomination that follows
    rests on."""

    attempt: int
    round: int
    clusters: list[ClusterScore]
    left_out: dict[str, str] = {}


class CloneDecided(WorkloadWrite):
    """Create the Workload's copy on a worker. `gated`: it preempts nobody there before its gate is opened."""

    attempt: int
    template: str
    gated: bool = False


class GateOpeningDecided(WorkloadWrite):
    """Open the preemption gate of a copy: it may preempt others on its worker. `blocked`: every cluster whose copy
    asked for that, with the time of its condition."""

    attempt: int
    uid: str
    blocked: dict[str, str]


class WinnerChosen(WorkloadDecision):
    """The cluster that gets the job. `among`: every cluster that had admitted it, with the time of its condition."""

    cluster: str
    attempt: int
    among: dict[str, str]


class WinnerReleased(WorkloadDecision):
    """The chosen cluster cannot have it after all; the others may try again."""

    cluster: str
    attempt: int
    message: str = ""


class ClusterRefused(WorkloadDecision):
    """A cluster is left out of this attempt until `until`: it rejected the copy, or the job cannot be created there."""

    cluster: str
    attempt: int
    message: str
    until: datetime


Verdict = Literal["Adopt", "Keep", "Remove", "Finish", "Wait"]


class CopyJudged(WorkloadDecision):
    """What becomes of a copy that was found on a cluster which came back."""

    cluster: str
    verdict: Verdict


class JobCreationDecided(WorkloadWrite):
    """Create the job on the winner, bound to the clone by its prebuilt name. `member`: a pod of the group, beside the
    first one.
    """

    WHERE: ClassVar[Where] = "Job"
    attempt: int
    kind: str
    template: str
    member: str = ""

    @property
    def part(self) -> str:
        """The pod."""
        return self.member


class CheckStateDecided(WorkloadWrite):
    """Set the state of our admission check on the Workload; with `Ready` also the winner's name, and clear the
    nomination.

    `requeue_after_seconds` slows down a Workload that comes back again and again; Kueue's core keeps to it.
    """

    check: str
    state: str
    message: str
    winner: str = ""
    topology: list[str] = []
    requeue_after_seconds: int = 0


class StatusRelayDecided(WorkloadWrite):
    """Write a status to the user's job: the winner's, or one in which nothing runs. `member` as in
    `JobCreationDecided`; `outcome`: how the Workload of a pod ended, whose own end nobody saw; it is the pod's then."""

    WHERE: ClassVar[Where] = "Job"
    kind: str
    source: str = ""
    status: str
    mark_suspended: bool = False
    drain: bool = False
    member: str = ""
    outcome: str = ""

    @property
    def part(self) -> str:
        """The pod."""
        return self.member


class FinishDecided(WorkloadWrite):
    """Finish the Workload as its copy finished."""

    source: str
    finish_reason: str
    message: str


class NamesClearDecided(WorkloadWrite):
    """Remove `clusterName` and `nominatedClusterNames`, whoever owns the fields."""


class CopyWrite(WorkloadWrite):
    """A write to a copy on a worker: to the Workload's, or (`of` the job, `kind`) to the job's. `member` as in
    `JobCreationDecided`."""

    uid: str
    of: Where = "Workload"
    kind: str = ""
    member: str = ""

    @property
    def part(self) -> str:
        """The pod."""
        return self.member

    @property
    def where(self) -> Where:
        """Which object the write is to."""
        return self.of


class RemovalDecided(CopyWrite):
    """Delete a copy on a worker, by UID. `member` as in `JobCreationDecided`."""


class FinalizerRemovalDecided(CopyWrite):
    """Take Kueue's finalizer off a clone that is to go, or off a pod (`of` the job, `kind`; `member` as in
    `JobCreationDecided`) that nothing else keeps, and whose clone is gone."""

    finalizers: list[str] = []


class FinalizerAdditionDecided(WorkloadWrite):
    """Put Kueue's `resource-in-use` finalizer on a clone that is to go: its worker's Kueue then sees it deleted, and
    takes its own finalizers off the pods of the group."""

    uid: str
    finalizers: list[str] = []


class CloneUpdateDecided(WorkloadWrite):
    """Bring a clone's priority in line with the Workload's."""

    priority: Priority


class SpecUpdateDecided(WorkloadWrite):
    """Bring fields of a copy's spec in line with the user's job, of which `template` is the body.

    `resized`: its size is; `prebuilt`: and from now on it is the job of this Workload, another slice of an elastic one;
    `sized` as in `RemoteJobObserved`. `of` the Workload: the copy of a slice gets as small as the slice."""

    kind: str
    template: str
    of: Where = "Job"
    uid: str = ""
    resized: bool = False
    prebuilt: str = ""
    sized: str = ""

    @property
    def where(self) -> Where:
        """Which object the write is to."""
        return self.of


class DeactivationDecided(WorkloadWrite):
    """Ask the worker's Kueue to stop a copy whose Workload was evicted on the manager."""

    message: str


class ConditionDecided(WorkloadWrite):
    """Set the `Active` condition of a MultiKueueCluster or an AdmissionCheck."""

    of: Where
    status: str
    condition_reason: str
    message: str
    generation: int

    @property
    def where(self) -> Where:
        """Which object the write is to."""
        return self.of


class EffectFailed(WriteRefused):
    """An API server said no to a write. It is decided anew, not before `retry_at`."""


class EffectUnneeded(WriteUnneeded):
    """A write changed nothing, by the API server's own answer: the object is as it was wanted, and no watch will show a
    change.
    """


EVENTS: tuple[type[Event], ...] = (
    *OBSERVATIONS,
    *WORKER_QUEUES,
    NominationDecided,
    AttemptBegun,
    GroupPodChosen,
    ClustersScored,
    CloneDecided,
    GateOpeningDecided,
    WinnerChosen,
    WinnerReleased,
    ClusterRefused,
    CopyJudged,
    JobCreationDecided,
    CheckStateDecided,
    StatusRelayDecided,
    FinishDecided,
    NamesClearDecided,
    RemovalDecided,
    FinalizerRemovalDecided,
    FinalizerAdditionDecided,
    CloneUpdateDecided,
    SpecUpdateDecided,
    DeactivationDecided,
    ConditionDecided,
    EffectFailed,
    EffectUnneeded,
)
