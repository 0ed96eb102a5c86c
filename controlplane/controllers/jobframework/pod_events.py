"""Defines what is recorded of pods that are jobs, alone or in groups: what was seen of one, and what is decided about
it.

The stream of a single pod is that of a job; the pods of a group share one."""

from __future__ import annotations

from typing import ClassVar

from controlplane.controllers.jobframework.events import JobWrite, PodSetFacts, PodSetInfo
from controlplane.log.event import Event, Kept
from controlplane.runtime.observations import ObjectObserved, ObjectVanished


class QueuedPodObserved(ObjectObserved):
    """A pod that names a queue. `managed`: it has Kueue's label; only the first fields are known of one that has not.

    `owned`: it belongs to another job. `total` is what its annotation says of the size of its group; `role`: the hash
    of what it asks for; `gated`: Kueue's gate holds it. `terminating`: it has the condition TerminationTarget.
    `created`, `failed_at`, `deleted_at`: times as Kubernetes writes them, `grace`: seconds. `pod_set` is empty, and
    `problem` says why, if no pod set can be made of it. `body` names its labels, annotations and spec. `parent` is the
    kind for which it waits; until it has Kueue's label, it is in the stream of that set, `set_index` tells its group,
    and `led` whether that has a leader."""

    kind: str
    deleting: bool = False
    queue: str = ""
    group: str = ""
    managed: bool = False
    owned: bool = False
    parent: str = ""
    set_index: str = ""
    led: bool = False
    gated: bool = False
    total: str | None = None
    fast: bool = False
    serving: bool = False
    retriable: bool = True
    index: str | None = None
    role: str = ""
    prebuilt: str = ""
    priority_class: str = ""
    pod_priority_class: str = ""
    max_execution_seconds: int | None = None
    gated_by: str = ""
    placed: bool = False
    phase: str = ""
    ready: bool = False
    message: str = ""
    terminating: bool = False
    finalizers: list[str] = []
    created: str = ""
    failed_at: str = ""
    deleted_at: str = ""
    grace: int | None = None
    pod_set: list[PodSetFacts] = []
    problem: str = ""
    body: str = ""
    kept: Kept = {}

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_suspended(self) -> bool:
        """Whether nothing of it runs: it is gated, or has ended."""
        return self.gated or self.is_over


class QueuedPodGone(ObjectVanished):
    """The pod was deleted, or names no queue any more."""

    kind: str


class PodWrite(JobWrite):
    """A write to a pod, the very one that was seen."""

    WHAT: ClassVar[str] = "Pod"


class PodStartDecided(PodWrite):
    """Take Kueue's gate from a pod, with what its pod set was admitted with. `role` is written to a pod of a group that
    does not say its own."""

    body: str
    workload: str
    cluster_queue: str
    pod_set: PodSetInfo
    role: str = ""


class PodTerminationDecided(PodWrite):
    """Say on a pod, in the condition TerminationTarget, why it is to be deleted."""

    condition_reason: str
    message: str = ""


class PodDeletionDecided(PodWrite):
    """Delete a pod that has to stop, or one that its group has too many of (`excess`). `message` is told."""

    message: str = ""
    excess: bool = False


class PodReleaseDecided(PodWrite):
    """Remove Kueue's finalizer from a pod, so that it can go; `finalizers` stay."""

    finalizers: list[str] = []


EVENTS: tuple[type[Event], ...] = (
    QueuedPodObserved,
    QueuedPodGone,
    PodStartDecided,
    PodTerminationDecided,
    PodDeletionDecided,
    PodReleaseDecided,
)
