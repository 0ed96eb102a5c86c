"""Says what is recorded of PipelineRuns: what was decided, and what could not be done. `observations` has what was
seen.

Streams: `pipelinerun/NS/NAME` for a run and everything that was made for it, `node/NAME`, `volume/NAME`,
`coscheduling/flags` and `coscheduling/defaults`. Every decision that means a write names its target; every deletion
names the UID of what it deletes."""

from __future__ import annotations

from typing import ClassVar, Literal

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.coscheduling.observations import OBSERVATIONS
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.log.event import Event
from controlplane.runtime.writes import WriteFailed, WriteUnneeded

Where = Literal["PipelineRun", "StatefulSet", "PersistentVolumeClaim", "Pod", "TaskRun"]


class CoschedulingDecision(Event):
    """A decision; `reason` is one of the closed set."""

    reason: CoschedulingReason


class ClusterChosen(CoschedulingDecision):
    """An attempt at a run begins: all of its pods, claims and placeholders live in this cluster."""

    cluster: str
    uid: str
    attempt: int


class ModePinned(CoschedulingDecision):
    """The mode that an attempt keeps, whatever the flag says later, and the flags and defaults that its objects are
    made with. `follows`: the placeholder of the isolated run whose task it is; "": it has its own.
    """

    uid: str
    mode: str
    set_security_context: bool = False
    read_only_root: bool = False
    defaults: str = ""
    follows: str = ""


class RunCompleted(CoschedulingDecision):
    """An attempt is over: what was made for it goes."""

    uid: str


class AttemptFenced(CoschedulingDecision):
    """An attempt was overtaken by another one: nothing is created for it any more, and what was made for it goes."""

    uid: str
    cluster: str


class FlagsRefused(CoschedulingDecision):
    """A ConfigMap cannot be used: the last good values hold for runs that begin now."""

    message: str


class CoschedulingWrite(CoschedulingDecision):
    """A decision that means a write to one object of the attempt `attempt_uid`, based on its `resource_version` ("" for
    a create).
    """

    WHERE: ClassVar[Where] = "PipelineRun"
    cluster: str = MANAGEMENT
    attempt_uid: str
    name: str
    resource_version: str = ""

    @property
    def target(self) -> str:
        """The key of the object in its stream: at most one write to it is open."""
        return target_of(self.cluster, self.WHERE, self.name)


def target_of(cluster: str, where: Where, name: str) -> str:
    """Return the key of an object among the writes of a stream."""
    return f"{cluster}/{where}/{name}"


def named_in(target: str) -> str:
    """Return how sentences call the object of a target: its kind and its name."""
    _, where, name = target.split("/", 2)
    return f"{where} {name}"


class OnStatefulSet(CoschedulingWrite):
    """A write to a placeholder's StatefulSet."""

    WHERE: ClassVar[Where] = "StatefulSet"


class OnClaim(CoschedulingWrite):
    """A write to a claim."""

    WHERE: ClassVar[Where] = "PersistentVolumeClaim"


class RunRefused(CoschedulingWrite):
    """Say on the run that it cannot be placed: condition `Coscheduled`, False. Nothing is created for it."""

    condition_reason: str
    message: str


class RefusalWithdrawn(CoschedulingWrite):
    """Take the condition `Coscheduled` off the run: what it says does not hold any more, and the run is placed."""


class UnfitTaskTold(CoschedulingWrite):
    """Say on the run that a task of it can never run beside the others: condition `Coscheduled`, False."""

    condition_reason: str
    placeholder: str
    pod: str
    node: str
    message: str


class TaskEndDecided(CoschedulingWrite):
    """Cancel a TaskRun whose pod can never be where its placeholder is; its message says why."""

    WHERE: ClassVar[Where] = "TaskRun"
    uid: str
    placeholder: str
    pod: str
    node: str
    message: str


class PlaceholderCreationDecided(OnStatefulSet):
    """Create a placeholder's StatefulSet."""


class ClaimCreationDecided(OnClaim):
    """Create the claim of a workspace's template."""

    workspace: str


class PlaceholderEvicted(CoschedulingWrite):
    """Delete a placeholder's pod, so that its StatefulSet makes one on another node. `since`: the position at which the
    node became unfit."""

    WHERE: ClassVar[Where] = "Pod"
    placeholder: str
    uid: str
    node: str
    since: int
    detail: str


class PlaceholderRemovalDecided(OnStatefulSet):
    """Delete a placeholder's StatefulSet, by UID."""

    uid: str


class ClaimReleaseDecided(OnClaim):
    """Take the finalizer off a claim that would keep it for the pods of finished tasks."""

    uid: str
    finalizers: list[str] = []


class ClaimRemovalDecided(OnClaim):
    """Delete a claim, by UID."""

    uid: str


class CoschedulingFailed(WriteFailed):
    """An API server said no to a write. It is decided anew, not before `retry_at`."""


class CoschedulingUnneeded(WriteUnneeded):
    """A write changed nothing, by the API server's own answer."""


EVENTS: tuple[type[Event], ...] = (
    *OBSERVATIONS,
    ClusterChosen,
    ModePinned,
    RunRefused,
    RefusalWithdrawn,
    ClaimCreationDecided,
    PlaceholderCreationDecided,
    PlaceholderEvicted,
    UnfitTaskTold,
    TaskEndDecided,
    RunCompleted,
    AttemptFenced,
    PlaceholderRemovalDecided,
    ClaimReleaseDecided,
    ClaimRemovalDecided,
    FlagsRefused,
    CoschedulingFailed,
    CoschedulingUnneeded,
)
