"""Holds what a decision on one Workload may look at beside the Workload itself, and what is set once for all of them.

Values only: the index (`controlplane.controllers.multikueue.index`) fills a `WorkloadContext` from its own folds
for each question."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.connectivity.eligibility import Fit
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.observations import JobObserved, ObservationRefused
from controlplane.controllers.multikueue.scoring import ScoringRules, Subject, WorkloadScoring
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.job_kinds.base import JobKind
from controlplane.kube.kinds import WORKLOADS
from controlplane.values import Value

AT_LEAST_ONCE, NEVER_TWICE = "at-least-once", "never-twice"
KUEUES_GATE = "kueue"
"""The `pod_gate` with which Kueue keeps dispatched pods gated itself."""
EXECUTION_POLICIES = (AT_LEAST_ONCE, NEVER_TWICE)


class MultiKueuePolicy(Value):
    """The settings that decisions depend on. `gc_interval` None: orphans stay.

    `loser_patience` bounds how long the job waits for the losing copies to be gone; `refusal_pause` how long a cluster
    that refused is left out. `execution_policy` is that of Workloads whose job and ClusterQueue ask for none;
    `readmission_grace` how long a copy on a cluster that came back may wait for its Workload to get quota again;
    `requeues_per_minute` (0: no limit) and `mass_outage_share` (1: never) bound what a lost cluster may set in motion.
    Not `dispatches`: only the clusters are followed, for other controllers. `judged`: kinds of job (`Kind.name`) of
    which a controller judges which clusters can take them, before they are offered. `awaited`: the kinds of job that
    have to be in view on the management cluster, or be off there, before anything is decided; all of the adapters' if
    it is None. `dispatcher` nominates clusters (`nominate`), of which one asks `step_size` more every `dispatch_round`.
    `scoring`: the rules by which clusters are left out and ordered, and over which `scoring_window` their answers
    count; None where they are not. `pod_gate`: which scheduling gate keeps a dispatched pod from running on the
    management cluster, `own` or `kueue`. `claims`: jobs of our queues are made ours when they are created. `own_only`:
    Workloads and jobs of queues that lead to others' checks are not recorded. `orchestrated_preemption`: copies preempt
    others when we let them, one cluster every `preemption_pause`."""

    origin: str = "multikueue"
    controller_name: str = "kueue.x-k8s.io/multikueue"
    adapters: Mapping[str, JobKind]
    worker_lost_timeout: timedelta = timedelta(minutes=15)
    gc_interval: timedelta | None = timedelta(minutes=1)
    status_interval: timedelta = timedelta(seconds=1)
    execution_policy: str = AT_LEAST_ONCE
    readmission_grace: timedelta = timedelta(minutes=1)
    requeues_per_minute: int = 600
    mass_outage_share: float = 0.5
    loser_patience: timedelta = timedelta(seconds=2)
    refusal_pause: timedelta = timedelta(minutes=5)
    dispatches: bool = True
    judged: frozenset[str] = frozenset()
    awaited: frozenset[str] | None = None
    dispatcher: str = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
    step_size: int = 3
    dispatch_round: timedelta = timedelta(minutes=5)
    scoring: ScoringRules | None = None
    scoring_window: timedelta = timedelta(hours=1)
    pod_gate: str = "own"
    claims: bool = False
    own_only: bool = False
    orchestrated_preemption: bool = False
    preemption_pause: timedelta = timedelta(minutes=5)

    @property
    def knows_queues(self) -> bool:
        """Whether it is followed where each LocalQueue leads."""
        return self.claims or self.own_only

    @property
    def awaited_kinds(self) -> Collection[str]:
        """The kinds of job that have to be in view, or off, before anything is decided."""
        return self.awaited if self.awaited is not None else {one.kind.name for one in self.adapters.values()}


class Route(msgspec.Struct, frozen=True):
    """Our admission check on a Workload, and the clusters of its MultiKueueConfig; `error` if the config cannot be
    used.
    """

    check: str
    clusters: tuple[str, ...]
    error: str = ""


class WorkloadContext(Value):
    """The rest of the world, as one Workload sees it.

    `ready`: the management cluster's objects are in view. `mass_outage`: most clusters are away together;
    `outage_ended`: when they last were. `watched_since`: since when we have looked at clusters, the times without any
    process of ours taken off. `requeue_at`: the budget of re-queues is spent until then. `judged`: which clusters can
    take the job, None where nobody judges its kind. `scoring`: what clusters are scored by, None where they are not.
    `core_writes_until`: until when a write of Kueue's core to the Workload is waited for. `slices`: the other Workloads
    of the same elastic job, and `strays` those of which only copies with its name are known; `members`: the pods of the
    group beside `job`; `components`: the other Workloads of a job that has several. `unread`: the clusters on which
    there is something of the Workload that nobody could read yet, with what was wrong: it is unknown there what runs.
    `hidden`: there is a Workload of its name that cannot be read."""

    policy: MultiKueuePolicy
    ready: bool
    route: Route | None
    adapter: JobKind | None
    job: JobObserved | None
    queue_policy: str = ""
    mass_outage: bool = False
    outage_ended: datetime | None = None
    watched_since: datetime | None = None
    requeue_at: datetime | None = None
    connections: Mapping[str, Connection]
    judged: Mapping[str, Fit] | None = None
    scoring: WorkloadScoring | None = None
    core_writes_until: datetime | None = None
    slices: tuple[WorkloadState, ...] = ()
    strays: tuple[WorkloadState, ...] = ()
    members: tuple[JobObserved, ...] = ()
    components: tuple[WorkloadState, ...] = ()
    unread: Mapping[str, ObservationRefused] = {}
    hidden: bool = False

    def in_view(self, cluster: str) -> bool:
        """Whether what we know of a worker's copies is current, so that what is absent is absent."""
        return self._watched(cluster) and cluster not in self.unread

    def listed_here(self, kind: str) -> bool:
        """Whether all objects of a kind on the management cluster are known, so that what is absent is absent."""
        home = self.connections.get(MANAGEMENT)
        return home is not None and home.in_view(kind)

    def unknown_on(self, cluster: str) -> bool:
        """Whether it is unknown what is on a cluster: it is out of view, also under every other name that leads to it,
        and was not taken out of use before it ever answered."""
        connection = self.connections.get(cluster)
        if self.in_view(cluster) or (connection is not None and self.unheard_of(cluster)):
            return False
        return connection is None or not any(
            name != cluster and self.in_view(name)
            for name, other in self.connections.items()
            if name == connection.behind or (connection.incarnation and other.incarnation == connection.incarnation)
        )

    def unheard_of(self, cluster: str) -> bool:
        """Whether a cluster has never been connected to as far as the log goes, which may have gone back, and is in use
        no more: it may be one that is, under the name that it had. One that the configuration lists may yet answer."""
        connection = self.connections.get(cluster)
        if connection is None:
            return self.route is not None and cluster not in self.route.clusters
        return connection.removed and not connection.connected_once

    def unread_on(self, cluster: str) -> ObservationRefused | None:
        """Return what is wrong with a copy that is in view on a cluster, and that nobody could read yet; None if there
        is none."""
        return self.unread.get(cluster) if self._watched(cluster) else None

    def _watched(self, cluster: str) -> bool:
        connection = self.connections.get(cluster)
        return connection is not None and connection.in_view(WORKLOADS.name)

    def available(self, cluster: str) -> bool:
        """Whether a worker can take this Workload: its copies and jobs of this kind are in view there."""
        connection = self.connections.get(cluster)
        return (
            self.in_view(cluster)
            and connection is not None
            and self.adapter is not None
            and connection.in_view(self.adapter.kind.name)
        )

    def takes(self, cluster: str) -> bool:
        """Whether the job fits on a worker. Where its kind is judged, a worker that is not judged yet takes nothing."""
        if self.judged is None:
            return True
        found = self.judged.get(cluster)
        return found is not None and found.fits

    def excluded(self, clusters: Iterable[str]) -> Mapping[str, str]:
        """Return why some clusters, of those that can be asked now, may not be, by the rules of the settings."""
        if self.scoring is None:
            return {}
        return self.scoring.excluded(self.subject, [one for one in clusters if self.available(one) and self.takes(one)])

    @property
    def subject(self) -> Subject:
        """What clusters are scored for."""
        job = self.job
        return Subject() if job is None else Subject(cluster_selector=job.cluster_selector, labels=job.labels)

    @property
    def fences(self) -> bool:
        """Whether an attempt that was overtaken, or that Kueue stopped, is over without a result: its kind begins anew
        each time.
        """
        return self.adapter is not None and not self.adapter.overtaken_counts()

    @property
    def execution_policy(self) -> str:
        """The Workload's execution policy: its job's, else its ClusterQueue's, else the default."""
        asked = self.job.execution_policy if self.job else ""
        return asked or self.queue_policy or self.policy.execution_policy

    def grace_ends(self, since: datetime) -> datetime | None:
        """Return when the grace ends of a copy that nobody can see since then; None: not by itself, or not during a
        mass outage.
        """
        if self.execution_policy == NEVER_TWICE or self.mass_outage:
            return None
        return since + self.policy.worker_lost_timeout

    def lost_until(self, cluster: str, default: datetime, kind: str = WORKLOADS.name) -> datetime | None:
        """Return when the grace of a worker that is away ends, or where a kind is out of view; its loss clock starts at
        `default` if the log knows of none.

        None: it does not end by itself, or not during a mass outage. Under `never-twice` only the cluster's return, or
        an operator who gives it up, tells that the old copy is dead. Our own absence does not count, neither before the
        first process of ours nor between two. After a mass outage the grace begins anew for all that are still away.
        A copy that can be seen there, and not be read, has no grace: it ends when the copy is read, or gone.
        """
        if self.unread_on(cluster) is not None:
            return None
        connection = self.connections.get(cluster)
        since = (connection.out_of_view_since(kind) if connection is not None else None) or default
        if connection is not None and connection.forgotten:
            return since
        ours = (self.outage_ended, self.watched_since, connection.untried_since if connection is not None else None)
        return self.grace_ends(max([since, *(at for at in ours if at is not None)]))
