"""Defines the contract of scheduler plugins: the extension points of the scheduling framework, as pure functions.

One pod goes through one cycle: PreFilter, Filter, on no feasible node PostFilter, then PreScore, Score, NormalizeScore,
and for the node that was chosen Reserve and Permit; later, when all permits are there, PreBind, Bind and PostBind.
`runtime` calls the plugins in this order, `cycle` strings the calls together, and whoever keeps the queue and talks to
the API server calls `cycle` (kubernetes/kubernetes pkg/scheduler/schedule_one.go, v1.36).

What a plugin may do. It is made once for a profile, of its typed args. It gets the pod, a `Snapshot` or a `NodeInfo`,
and the `CycleState` of this one cycle, in which it keeps what a later point of the same cycle needs; state that add_pod
and remove_pod change must have `clone()`. It changes nothing else: it does not wait, read clocks or call anybody.
PreBind and Bind say what is to be written, as `controlplane.kube.kinds.Request`s, and the caller records that before it
does it.

Two forms of one rule. `filter` and `score` look at one node; they are enough. `filter_all` and `score_all` may answer
for all nodes at once with arrays; they must say what the node-by-node form says, and tests compare the two. Dry runs
(preemption, nominated pods) always use the node-by-node form, on a `NodeInfo` and a `CycleState` that were cloned and
changed.

Skip. A PreFilter that answers Skip takes the plugin's Filter, add_pod and remove_pod out of the cycle, a PreScore its
Score. Reserve that fails makes the runtime call Unreserve of all plugins in reverse order; Unreserve has to be
idempotent and may come without a Reserve.

Gangs. A plugin that places the pods of a group together has its place at PreEnqueue (the group is not complete),
QueueSort (the group's pods side by side), PreFilter (the group asks for too much) and Permit (Wait until enough of the
group are reserved); `runtime.permit` returns what it waits for. `plugins.gang` is one; what it needs between cycles is
in `gangs.coordinator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from controlplane.controllers.scheduling.framework.status import SUCCESS, NodeStatuses, Status, from_each
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Mask, Snapshot
from controlplane.kube.kinds import Request

MAX_SCORE = 100
Nominated = Mapping[str, Sequence[Pod]]
"""Pods that preemption has nominated for a node, by node."""


class CycleState:
    """What plugins keep during one cycle, by name; and which of them skipped.

    `decided`: what a process before this one has decided to write for PreBind. Reserve sees it where a reservation is
    taken up again."""

    __slots__ = ("data", "decided", "skip_filter", "skip_score")

    def __init__(self, decided: tuple[Request, ...] = ()) -> None:
        self.data: dict[str, Any] = {}
        self.decided = decided
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()

    def clone(self) -> CycleState:
        """Return a copy for a dry run; values with a `clone()` are copied, others shared."""
        copy = CycleState(self.decided)
        copy.data = {key: value.clone() if hasattr(value, "clone") else value for key, value in self.data.items()}
        copy.skip_filter = set(self.skip_filter)
        copy.skip_score = set(self.skip_score)
        return copy


class Prefiltered(NamedTuple):
    """The answer of PreFilter: a status, and the only nodes that can come into question, None for all."""

    status: Status = SUCCESS
    nodes: frozenset[str] | None = None


class QueuedPod(NamedTuple):
    """A pod in the queue: when it was enqueued first (seconds), and how often it was tried."""

    pod: Pod
    enqueued: float
    attempts: int = 0


class PermitAnswer(NamedTuple):
    """The answer of Permit: Success, a refusal, or Wait for at most `timeout` seconds."""

    status: Status = SUCCESS
    timeout: float = 0.0


class PluginWrites(NamedTuple):
    """The answer of PreBind and Bind: a status, and what is to be written; a Bind that answers Skip leaves it to the
    next. A PreBind that answers Wait is asked again.

    `timeout`: the seconds that a PreBind grants for what has to come of it; `prepared` is asked then, before the
    binding is written."""

    status: Status = SUCCESS
    requests: tuple[Request, ...] = ()
    timeout: float | None = None


class Victims(NamedTuple):
    """Whom preemption would evict from a node, the most important first, and how many budgets that violates."""

    pods: tuple[Pod, ...]
    violations: int


@dataclass(slots=True)
class PostFiltered:
    """The answer of PostFilter. `nominate`: the node that the pod is nominated for, "" to clear a nomination, None to
    leave it.

    `candidates` are the nodes that eviction would help, `best` those that none is better than; the first of them is
    nominated."""

    status: Status
    nominate: str | None = None
    candidates: dict[str, Victims] = field(default_factory=dict)
    best: tuple[str, ...] = ()


class NodeRefusals(Protocol):
    """Why each node was refused, for PostFilter."""

    def of(self, row: int) -> Status:
        """Return one node's status."""


class DryRun(Protocol):
    """What PostFilter may ask the framework: does the pod fit a node that was changed?"""

    def fits(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Run all filters on one node, with its nominated pods and without."""

    def add(self, state: CycleState, pod: Pod, added: Pod, info: NodeInfo) -> Status:
        """Tell all plugins that a pod came to a node."""

    def remove(self, state: CycleState, pod: Pod, removed: Pod, info: NodeInfo) -> Status:
        """Tell all plugins that a pod left a node."""


class Plugin:
    """Any plugin. `args` is the msgspec struct that its `pluginConfig` is read into, None if it takes none."""

    name: ClassVar[str]
    args_type: ClassVar[type | None] = None

    def __init__(self, args: Any = None) -> None:
        self.args = args

    def begin(self, cluster: ClusterTables) -> None:
        """Take note of the tables of the cluster that is scheduled on, before its first cycle; again if the process
        begins anew.
        """


class QueueSortPlugin(Plugin):
    """Orders the queue; a profile has exactly one."""

    def sort_key(self, queued: QueuedPod) -> Any:
        """Return what pods are sorted by; the smallest is next."""
        raise NotImplementedError


class PreEnqueuePlugin(Plugin):
    """Says whether a pod may enter the queue at all."""

    def pre_enqueue(self, pod: Pod) -> Status:
        """Return Success, or why the pod has to stay outside."""
        raise NotImplementedError


class PreFilterPlugin(Plugin):
    """Looks at the pod and the cluster once, before the nodes."""

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Prefiltered:
        """Compute what Filter needs."""
        raise NotImplementedError

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, info: NodeInfo) -> Status:
        """Change the computed state as if a pod had come to a node."""
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, info: NodeInfo) -> Status:
        """Change the computed state as if a pod had left a node."""
        return SUCCESS


class FilterPlugin(Plugin):
    """Says on which nodes the pod can run."""

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        """Return the status of one node."""
        raise NotImplementedError

    def filter_all(self, state: CycleState, pod: Pod, snapshot: Snapshot, still: Mask) -> NodeStatuses:
        """Return the statuses of all nodes; those of nodes not in `still` are not looked at."""
        rows = range(len(snapshot))
        return from_each([self.filter(state, pod, snapshot.info(row)) if still[row] else SUCCESS for row in rows])


class PostFilterPlugin(Plugin):
    """Finds what would make a node feasible when none is."""

    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, refused: NodeRefusals, dry_run: DryRun
    ) -> PostFiltered:
        """Return what would make the pod schedulable."""
        raise NotImplementedError


class PreScorePlugin(Plugin):
    """Looks at the feasible nodes once, before they are scored."""

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Status:
        """Compute what Score needs."""
        raise NotImplementedError


class ScorePlugin(Plugin):
    """Says how good a feasible node is: any integer, which `normalize` brings into 0…100."""

    def score(self, state: CycleState, pod: Pod, info: NodeInfo) -> int:
        """Return the raw score of one node."""
        raise NotImplementedError

    def score_all(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Ints:
        """Return the raw scores of the nodes in `rows`."""
        scores = (self.score(state, pod, snapshot.info(int(row))) for row in rows)
        return np.fromiter(scores, dtype=np.int64, count=len(rows))

    def normalize(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints, scores: Ints) -> Ints:
        """Return the scores of the nodes in `rows` brought into 0…100."""
        return scores


class ReservePlugin(Plugin):
    """Keeps books of its own for the chosen node."""

    def reserve(self, state: CycleState, pod: Pod, node: str) -> Status:
        """Note that the pod will go to the node."""
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node: str) -> None:
        """Undo `reserve`; idempotent, and harmless without one."""


class PermitPlugin(Plugin):
    """May hold the pod back, or refuse it, after it was reserved."""

    def permit(self, state: CycleState, pod: Pod, node: str) -> PermitAnswer:
        """Return Success, a refusal, or Wait."""
        raise NotImplementedError


class PreBindPlugin(Plugin):
    """Prepares what the pod needs on the node before it is bound."""

    def pre_bind(self, state: CycleState, pod: Pod, node: str) -> PluginWrites:
        """Return what is to be written first."""
        raise NotImplementedError

    def prepared(self, state: CycleState, pod: Pod, node: str) -> Status:
        """Return whether what had to come of it is there: Success, Wait, or why it will not be.

        Asked of a pod for which a PreBind has granted time, once everything is written; when volumes or claims change,
        and each second."""
        return SUCCESS


class BindPlugin(Plugin):
    """Binds the pod."""

    def bind(self, state: CycleState, pod: Pod, node: str) -> PluginWrites:
        """Return the binding that is to be written."""
        raise NotImplementedError


class PostBindPlugin(Plugin):
    """Is told that the pod was bound."""

    def post_bind(self, state: CycleState, pod: Pod, node: str) -> None:
        """Take note."""


POINTS: dict[str, type[Plugin]] = {
    "preEnqueue": PreEnqueuePlugin,
    "queueSort": QueueSortPlugin,
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
    "reserve": ReservePlugin,
    "permit": PermitPlugin,
    "preBind": PreBindPlugin,
    "bind": BindPlugin,
    "postBind": PostBindPlugin,
}
"""The extension points by the names that a configuration uses."""


def default_normalize(scores: Ints, reverse: bool = False) -> Ints:
    """Return scores from 0 to 100 in proportion to the largest; reversed, the largest becomes 0. All zero stays 0, or
    100 reversed.
    """
    most = int(scores.max(initial=0))
    if most == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = MAX_SCORE * scores // most
    return MAX_SCORE - scaled if reverse else scaled
