"""Says what is seen of a cluster, narrowed to the fields that something decides on.

A run's own text is a body, named by hash.
"""

from __future__ import annotations

from typing import Any

from controlplane.log.event import Event, Kept, Part
from controlplane.runtime.observations import ObjectObserved, ObjectVanished


class WorkspaceSeen(Part):
    """A workspace of a run with a claim behind it: an existing one, or one made of a template (`base` is its name
    there).
    """

    name: str
    claim: str = ""
    template: bool = False
    base: str = ""


class ProblemSeen(Part):
    """What is wrong with a run, in the words of `problems.Problem`."""

    object: str
    field: str
    what: str
    todo: str


class TaintSeen(Part):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class TolerationSeen(Part):
    """A toleration of a pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class CoschedulingObservation(ObjectObserved):
    """What every observed object has."""

    deleting: bool = False


class CoschedulingObjectGone(ObjectVanished):
    """An observed object is no longer there."""


class WorkerRunObserved(CoschedulingObservation):
    """A PipelineRun where it runs: its UID there is what claim names are made of. `run` is the body of {apiVersion,
    metadata, spec, pipeline}.

    `workspaces`: those with a claim. `problems`: what is wrong with it, by mode. `waits`: its controller would create
    nothing now. `parent` and `parent_uid`: the run whose task it is."""

    run: str
    workspaces: list[WorkspaceSeen] = []
    problems: dict[str, list[ProblemSeen]] = {}
    conditions: list[dict[str, Any]] = []
    managed_by: str = ""
    done: bool = False
    waits: bool = False
    auto_cleanup: bool = False
    kept: Kept = {}
    parent: str = ""
    parent_uid: str = ""


class WorkerRunGone(CoschedulingObjectGone):
    """A PipelineRun was deleted."""


class PlaceholderCreated(CoschedulingObservation):
    """A placeholder's StatefulSet is there; `owner` is the UID of the run that controls it, `ready` whether its pod
    is.
    """

    owner: str
    ready: bool = False
    isolates: bool = False


class PlaceholderDeleted(CoschedulingObjectGone):
    """A placeholder's StatefulSet is gone."""


class PlaceholderReady(CoschedulingObservation):
    """A placeholder's pod is ready on a node. `owner` is the UID of its StatefulSet. `choice`: its node selector and
    affinity.
    """

    owner: str
    node: str
    tolerations: list[TolerationSeen] = []
    choice: dict[str, Any] = {}


class PlaceholderUnready(CoschedulingObservation):
    """A placeholder's pod is there and not ready: it waits for a node, starts, or ends. `complaint`: what the scheduler
    says if it has no node.
    """

    owner: str
    node: str = ""
    complaint: str = ""


class PlaceholderPodGone(CoschedulingObjectGone):
    """A placeholder's pod is gone; its StatefulSet makes another one as long as it is there."""


class ClaimObserved(CoschedulingObservation):
    """A claim that was made for a run: `owners` are UIDs, `placeholder` the one whose template it is of."""

    owners: list[str] = []
    placeholder: str = ""
    finalizers: list[str] = []


class ClaimDeleted(CoschedulingObjectGone):
    """A claim that was made for a run is gone."""


class TaskBound(CoschedulingObservation):
    """A TaskRun of a run: its task, the placeholder that it follows, and whether it is over, or told to be."""

    owner: str
    task: str
    placeholder: str = ""
    ended: bool = False


class TaskGone(CoschedulingObjectGone):
    """A TaskRun was deleted."""


class TaskPodObserved(CoschedulingObservation):
    """A pod of a task: the placeholder that it follows, its node, and what the scheduler says if it has none; then also
    its TaskRun, what it asks for, and its node selector, affinity and tolerations (`choice`).
    """

    placeholder: str = ""
    node: str = ""
    over: bool = False
    complaint: str = ""
    task_run: str = ""
    requests: dict[str, str] = {}
    choice: dict[str, Any] = {}


class TaskPodGone(CoschedulingObjectGone):
    """A pod of a task is gone."""


class NodeObserved(CoschedulingObservation):
    """A node: whether it is cordoned, its taints that keep pods away, its labels, and what it can be given."""

    cordoned: bool = False
    taints: list[TaintSeen] = []
    labels: dict[str, str] = {}
    allocatable: dict[str, str] = {}


class NodeGone(CoschedulingObjectGone):
    """A node is gone."""


class VolumeObserved(CoschedulingObservation):
    """A PersistentVolume that cannot be reached from every node: the claim that has it ("" if none), and the node
    selector terms of which a node has to fit one.
    """

    claim_namespace: str = ""
    claim: str = ""
    terms: list[dict[str, Any]] = []


class VolumeGone(CoschedulingObjectGone):
    """A PersistentVolume was deleted."""


class FlagsObserved(CoschedulingObservation):
    """Tekton's ConfigMap `feature-flags`, as far as placeholders care."""

    data: dict[str, Any] = {}


class FlagsGone(CoschedulingObjectGone):
    """The ConfigMap `feature-flags` was deleted: its defaults hold."""


class DefaultsObserved(CoschedulingObservation):
    """Tekton's ConfigMap `config-defaults`; `defaults` is the body of its data, `problems` what is wrong with it."""

    defaults: str
    problems: list[ProblemSeen] = []
    kept: Kept = {}


class DefaultsGone(CoschedulingObjectGone):
    """The ConfigMap `config-defaults` was deleted."""


class SightingRefused(Event):
    """An object that does not have the shape that its API promises: kept as a body, and skipped."""

    kind: str
    namespace: str = ""
    name: str
    uid: str
    error: str
    resource_version: str = ""
    object: str
    kept: Kept = {}


OBSERVATIONS: tuple[type[Event], ...] = (
    WorkerRunObserved,
    WorkerRunGone,
    PlaceholderCreated,
    PlaceholderDeleted,
    PlaceholderReady,
    PlaceholderUnready,
    PlaceholderPodGone,
    ClaimObserved,
    ClaimDeleted,
    TaskBound,
    TaskGone,
    TaskPodObserved,
    TaskPodGone,
    NodeObserved,
    NodeGone,
    VolumeObserved,
    VolumeGone,
    FlagsObserved,
    FlagsGone,
    DefaultsObserved,
    DefaultsGone,
    SightingRefused,
)
