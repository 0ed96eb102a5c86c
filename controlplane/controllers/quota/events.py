"""Defines what is recorded of quota automation: what of ClusterQueues, LocalQueues, AdmissionChecks and
MultiKueueConfigs the sum is made of, and what is decided by it."""

from __future__ import annotations

from typing import ClassVar

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.reasons import QuotaReason
from controlplane.kube.conditions import Condition
from controlplane.log.event import Event, Part
from controlplane.runtime.observations import ObjectObserved, ObjectUnfit, ObjectVanished
from controlplane.runtime.writes import ObjectWrite, WriteRefused, WriteUnneeded


class ResourceQuota(Part):
    """The quota of one resource; `limited`: with a limit of borrowing or lending, which automation takes away."""

    name: str
    nominal: str
    limited: bool = False


class FlavorQuotas(Part):
    """The quotas of one flavor."""

    name: str
    resources: list[ResourceQuota] = []


class ResourceGroup(Part):
    """Resources that are given out together, and their flavors."""

    covered: list[str] = []
    flavors: list[FlavorQuotas] = []


# --- observations ----------------------------------------------------------------------------------------------------


class QuotaQueueObserved(ObjectObserved):
    """A ClusterQueue of the management cluster that has admission checks, or whose quota was automated."""

    generation: int = 0
    deleting: bool = False
    checks: list[str] = []
    groups: list[ResourceGroup] = []
    conditions: list[Condition] = []


class QuotaQueueGone(ObjectVanished):
    """The ClusterQueue was deleted."""


class QuotaCheckObserved(ObjectObserved):
    """An AdmissionCheck of MultiKueue; `config` is the MultiKueueConfig that it names."""

    deleting: bool = False
    config: str = ""


class QuotaCheckGone(ObjectVanished):
    """The AdmissionCheck was deleted."""


class QuotaConfigObserved(ObjectObserved):
    """A MultiKueueConfig: its clusters, and who manages quota."""

    deleting: bool = False
    clusters: list[str]
    management: str = ""


class QuotaConfigGone(ObjectVanished):
    """The MultiKueueConfig was deleted."""


class QuotaLocalQueueObserved(ObjectObserved):
    """A LocalQueue, of the management cluster or of a worker."""

    deleting: bool = False
    cluster_queue: str


class QuotaLocalQueueGone(ObjectVanished):
    """The LocalQueue was deleted."""


class WorkerQuotaObserved(ObjectObserved):
    """A worker's ClusterQueue: its nominal quotas by resource, over all flavors."""

    deleting: bool = False
    quotas: dict[str, list[str]]


class WorkerQuotaGone(ObjectVanished):
    """The worker's ClusterQueue was deleted."""


class QuotaInputRefused(ObjectUnfit):
    """An object that quota rests on does not fit its API. What was known of it before counts on."""


# --- decisions -------------------------------------------------------------------------------------------------------


class QuotaDecision(Event):
    """A decision; `reason` is one of the closed set."""

    reason: QuotaReason


class QuotaWrite(QuotaDecision, ObjectWrite):
    """A decision that means a write to a ClusterQueue, in the version that it rests on."""

    WHAT: ClassVar[str] = "ClusterQueue"
    cluster: str = MANAGEMENT
    resource_version: str


class QuotaDecided(QuotaWrite):
    """Set the nominal quotas of a ClusterQueue's one flavor. `before` is what they were, `shares` what each worker
    gives; `kept`: workers that are out of view, of which the last share that was seen counts."""

    flavor: str
    resources: dict[str, str]
    before: dict[str, str] = {}
    shares: dict[str, dict[str, str]] = {}
    kept: list[str] = []


class QuotaConditionDecided(QuotaWrite):
    """Set the condition `MultiKueueManagerQuotaAutomation`, or remove it if `status` is empty."""

    status: str = ""
    condition_reason: str = ""
    message: str = ""
    generation: int = 0


class QuotaWriteFailed(WriteRefused):
    """An API server said no to a write. It is decided anew, not before `retry_at`."""


class QuotaWriteUnneeded(WriteUnneeded):
    """A write changed nothing, by the API server's own answer."""


EVENTS: tuple[type[Event], ...] = (
    QuotaQueueObserved,
    QuotaQueueGone,
    QuotaCheckObserved,
    QuotaCheckGone,
    QuotaConfigObserved,
    QuotaConfigGone,
    QuotaLocalQueueObserved,
    QuotaLocalQueueGone,
    WorkerQuotaObserved,
    WorkerQuotaGone,
    QuotaInputRefused,
    QuotaDecided,
    QuotaConditionDecided,
    QuotaWriteFailed,
    QuotaWriteUnneeded,
)
