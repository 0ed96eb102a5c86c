"""The settings of who decides on quota, and how; what Kueue has of it in its configuration carries Kueue's names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from controlplane.kube import durations
from controlplane.settings.quota_metrics import QuotaMetricsSettings
from controlplane.settings.quota_resources import QuotaResources
from controlplane.settings.quota_topology import QuotaTopology
from controlplane.settings.resource_transformations import RESOURCE
from controlplane.settings.rules import Checked, Choice, Duration, Integer, Items, Names, Setting, ip_address
from controlplane.settings.scoring import selector
from controlplane.settings.words import FILE, PORT, YES_NO
from controlplane.values import Value

PREEMPTION_STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
BUILTIN = "builtin"
DOMINANT, NAMESPACE = "DominantResource", "Namespace"
LABEL_KEY = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LONGEST = timedelta(days=36_500)


class FairSharing(Value, rename="camel"):
    """Whether shares of Cohorts decide; what Kueue calls `fairSharing` in its configuration."""

    enable: Annotated[
        str,
        Setting(YES_NO, "Whether workloads are ordered and preempted by the shares that their ClusterQueues use."),
    ] = "no"
    preemption_strategies: Annotated[
        tuple[str, ...],
        Setting(
            Names(PREEMPTION_STRATEGIES),
            "When a workload of another ClusterQueue is preempted for the sake of shares, in the order in which they "
            "are tried.",
        ),
    ] = PREEMPTION_STRATEGIES


class RequeuingStrategy(Value, rename="camel"):
    """When a Workload is queued again whose pods were not ready in time; Kueue's `requeuingStrategy`."""

    timestamp: Annotated[
        str,
        Setting(
            Choice(("Eviction", "Creation")),
            "Its place in the queue then: by its eviction, or by its creation.",
        ),
    ] = "Eviction"
    backoff_limit_count: Annotated[
        int,
        Setting(
            Integer(least=-1, most=1_000_000),
            "How often it is queued again before it is deactivated. -1: without end.",
        ),
    ] = -1
    backoff_base_seconds: Annotated[
        int,
        Setting(
            Integer(least=0, most=86_400),
            "After how many seconds it is queued again the first time; twice as many each next time.",
        ),
    ] = 60
    backoff_max_seconds: Annotated[int, Setting(Integer(least=0, most=604_800), "After how many seconds at most.")] = (
        3600
    )


class WaitForPodsReady(Value, rename="camel"):
    """What is done about pods that do not become ready; what Kueue calls `waitForPodsReady` in its configuration."""

    enable: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether a Workload is evicted whose pods are not ready in time, so that others get its "
            "quota. Its condition `PodsReady` is written then, as with `quota.podsReady`.",
        ),
    ] = "no"
    timeout: Annotated[
        timedelta,
        Setting(Duration(), "How long the pods of a Workload may take from its admission until they are ready."),
    ] = timedelta(minutes=30)
    recovery_timeout: Annotated[
        timedelta,
        Setting(
            Duration(zero="as long as they like"),
            "How long they may take until they are ready again, after one of them failed.",
        ),
    ] = timedelta(minutes=30)
    block_admission: Annotated[
        str,
        Setting(YES_NO, "Whether nobody else is admitted until the pods of all admitted Workloads are ready."),
    ] = "no"
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()


@dataclass(frozen=True, slots=True)
class WeightOfEach:
    """What each resource weighs, numbers of 0 or more: a mapping as in Kueue's configuration, or a list of `cpu=2`."""

    def read(self, raw: object) -> tuple[tuple[str, float], ...]:
        """Return the weights in the order given; in a variable they are separated by commas."""
        if isinstance(raw, str):
            raw = [part.strip() for part in raw.split(",") if part.strip()]
        if isinstance(raw, list):
            pairs: list[tuple[object, object]] = [str(one).partition("=")[::2] for one in raw]
        elif isinstance(raw, Mapping):
            pairs = list(raw.items())
        else:
            raise ValueError(f'must be a {self.describe()}, not "{raw}"')
        found = tuple((_resource(name), _weight(name, weight)) for name, weight in pairs)
        if double := next((name for name, _ in found if [one for one, _ in found].count(name) > 1), ""):
            raise ValueError(f"names {double} twice")
        return found

    def show(self, value: tuple[tuple[str, float], ...]) -> list[str]:
        """Return the weights as a list, each to its last digit: by what the log has of them it is decided again."""
        return [f"{name}={repr(weight).removesuffix('.0')}" for name, weight in value]

    def describe(self) -> str:
        """Say the shape."""
        return "mapping of resources to numbers >= 0, or list of RESOURCE=NUMBER, such as `cpu=2`, or empty"


def _resource(name: object) -> str:
    if not isinstance(name, str) or re.fullmatch(RESOURCE, name) is None:
        raise ValueError(f'has "{name}", which is no name of a resource: write one such as cpu or nvidia.com/gpu')
    return name


def _weight(name: object, raw: object) -> float:
    try:
        found = float(raw) if isinstance(raw, str | int | float) and not isinstance(raw, bool) else math.nan
    except (ValueError, OverflowError):
        found = math.nan
    if not 0 <= found < math.inf:
        raise ValueError(f'has for {name} "{raw}", which is no weight: write a number of 0 or more, such as 0.5')
    return found


class AdmissionFairSharing(Value, rename="camel"):
    """Whether past usage orders Workloads; what Kueue calls `admissionFairSharing` in its configuration."""

    enable: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether Workloads of LocalQueues that used less come first, in ClusterQueues whose "
            "`admissionScope.admissionMode` is `UsageBasedAdmissionFairSharing`.",
        ),
    ] = "no"
    usage_half_life_time: Annotated[
        timedelta,
        Setting(
            Duration(zero="past usage does not count"),
            "After which time a LocalQueue's past usage counts half.",
        ),
    ] = timedelta(0)
    usage_sampling_interval: Annotated[
        timedelta,
        Setting(Duration(), "How often the usage of a LocalQueue is sampled, and told in its status."),
    ] = timedelta(minutes=5)
    resource_weights: Annotated[
        tuple[tuple[str, float], ...],
        Setting(WeightOfEach(), "What each resource weighs in the usage of a LocalQueue; 1 if it is not named."),
    ] = ()
    usage: Annotated[
        str,
        Setting(
            Choice(("WeightedSum", DOMINANT)),
            "What counts: the weighted sum of all resources, as with Kueue, or the resource of which somebody used "
            "the largest share of all quota that there is.",
        ),
    ] = "WeightedSum"
    tenant: Annotated[
        str,
        Setting(
            Choice(("LocalQueue", NAMESPACE)),
            "Whose usage is counted together: a LocalQueue's, as with Kueue, or that of all LocalQueues of a namespace.",
        ),
    ] = "LocalQueue"
    worker_usage: Annotated[
        str,
        Setting(
            YES_NO,
            "Whether what a LocalQueue of the same namespace and name uses on a worker, beside what was dispatched "
            "there, counts too.",
        ),
    ] = "no"


@dataclass(frozen=True, slots=True)
class DurationOrNever:
    """A duration of 0 or more, or `never`."""

    def read(self, raw: object) -> timedelta | None:
        """Return the duration; None for `never`."""
        if isinstance(raw, str) and raw.strip().lower() == "never":
            return None
        try:
            return Duration(zero="at once", most=_LONGEST).read(raw)
        except ValueError as problem:
            raise ValueError(f"{problem}; or write never") from None

    def show(self, value: timedelta | None) -> str:
        """Return the shortest spelling."""
        return "never" if value is None else durations.show(value)

    def describe(self) -> str:
        """Say the range."""
        return f"never, or {Duration(zero='at once', most=_LONGEST).describe()}"


class ObjectRetention(Value, rename="camel"):
    """What is deleted, and when; what Kueue calls `objectRetentionPolicies.workloads` in its configuration."""

    after_finished: Annotated[
        timedelta | None,
        Setting(
            DurationOrNever(),
            "With `builtin`: how long after its end a Workload is deleted, if its queue is there. Its job stays.",
        ),
    ] = None
    after_deactivated: Annotated[
        timedelta | None,
        Setting(
            DurationOrNever(),
            "With `builtin`: how long after its Workload was deactivated a job is deleted, with all that belongs to "
            "it; Kueue's `afterDeactivatedByKueue`. Jobs stay whose Workload was deactivated by its user.",
        ),
    ] = None


class VisibilitySettings(Value, rename="camel"):
    """Where Kueue's visibility API is served, which tells what waits in a queue and at which position."""

    certificate: Annotated[
        str,
        Setting(
            FILE,
            "With `builtin`: the certificate (PEM) with which Kueue's visibility API is served to the API server, "
            "read anew when it changes. Empty: it is not served.",
        ),
    ] = ""
    key: Annotated[str, Setting(FILE, "The private key (PEM) of that certificate. Empty: it is in the same file.")] = ""
    address: Annotated[str, Setting(Checked("IP address", ip_address), "The address to listen on.")] = "0.0.0.0"  # noqa: S104
    port: Annotated[int, Setting(PORT, "The port to listen on. 0: any free one.")] = 8082


class QuotaSettings(Value, rename="camel"):
    """Who reserves quota and admits Workloads on the management cluster."""

    mode: Annotated[
        str,
        Setting(
            Choice(("kueue", BUILTIN)),
            "Who decides on quota on the management cluster: `kueue`, Kueue's own manager; or `builtin`, this "
            "service, which then does what Kueue's scheduler and its core controllers do. Kueue's manager must not "
            "run there then; its CRDs must be there.",
        ),
    ] = "kueue"
    pods_ready: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether the condition `PodsReady` of Workloads is written by what their jobs show, as "
            "with Kueue's `waitForPodsReady`. By itself nothing waits for it, and nothing is evicted for it: see "
            "`quota.waitForPodsReady.enable`.",
        ),
    ] = "no"
    readmission_order: Annotated[
        str,
        Setting(
            Choice(("LongestRun", "Timestamp")),
            "With `builtin`: in which order Workloads of a priority get quota again that were evicted since their "
            "cluster was lost. `LongestRun`: before all that never ran, who had run for the longest first. "
            "`Timestamp`: by when they were evicted, among all others, which is Kueue's order.",
        ),
    ] = "LongestRun"
    prioritize_preemptors: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether a Workload that waits for those that it preempted is considered before all "
            "others, so that nobody takes what they leave. It is Kueue's gate `PrioritizePreemptorWorkloads`, which "
            "is off there by default: without it, ClusterQueues that preempt and reclaim from each other may take the "
            "same quota in turn.",
        ),
    ] = "no"
    priority_boost: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether the annotation `kueue.x-k8s.io/priority-boost` of a Workload, a number, is added "
            "to its priority, in its queue and where Workloads are preempted. Kueue's gate `PriorityBoost`, which is "
            "off there by default.",
        ),
    ] = "no"
    unadmitted_workloads_explicit_status: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether a Workload that was not tried within a second is told by its conditions that it "
            "waits, or that one like it did not fit: one write more. Kueue's gate "
            "`UnadmittedWorkloadsExplicitStatus`, which is off there by default.",
        ),
    ] = "no"
    label_keys_to_copy: Annotated[
        tuple[str, ...],
        Setting(
            Items("keys of labels, such as example.com/team", LABEL_KEY, 317),
            "With `builtin`: labels of a job that its Workload gets as well, when it is made; Kueue's "
            "`integrations.labelKeysToCopy`. The pods of a group have to agree on them.",
        ),
    ] = ()
    manage_jobs_without_queue_name: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether jobs wait that name no queue too, until they name one; those that run are "
            "stopped. Kueue's `manageJobsWithoutQueueName`. Pods are left alone, and so are `kube-system` and the "
            "namespace of this service.",
        ),
    ] = "no"
    managed_jobs_namespace_selector: Annotated[
        str,
        Setting(
            Checked("label selector of namespaces, such as `team in (a,b),!system`, or empty", selector),
            "With `builtin`: jobs and pods of other namespaces are left alone, whatever queue they name; Kueue's "
            "`managedJobsNamespaceSelector`. Empty: those of all namespaces are looked after.",
        ),
    ] = ""
    dynamic_resources: Annotated[
        str,
        Setting(
            Choice(("Count", "Reject", "Ignore")),
            "With `builtin`: what is done about Workloads whose pods have `resourceClaims`. `Count`: their devices "
            "count by `quota.resources.deviceClassMappings`, and who asks for others waits, as with Kueue. `Reject`: "
            "all of them wait. `Ignore`: their devices count for nothing.",
        ),
    ] = "Count"
    wait_for_pods_ready: WaitForPodsReady = WaitForPodsReady()
    fair_sharing: FairSharing = FairSharing()
    admission_fair_sharing: AdmissionFairSharing = AdmissionFairSharing()
    object_retention: ObjectRetention = ObjectRetention()
    metrics: QuotaMetricsSettings = QuotaMetricsSettings()
    resources: QuotaResources = QuotaResources()
    topology: QuotaTopology = QuotaTopology()
    visibility: VisibilitySettings = VisibilitySettings()

    @property
    def says_pods_ready(self) -> bool:
        """Whether the condition PodsReady of Workloads is written."""
        return "yes" in (self.pods_ready, self.wait_for_pods_ready.enable)

    @property
    def builtin(self) -> bool:
        """Whether this service decides on quota."""
        return self.mode == BUILTIN

    @property
    def counts_workers(self) -> bool:
        """Whether it counts what LocalQueues use on workers."""
        sharing = self.admission_fair_sharing
        return self.builtin and sharing.enable == "yes" and sharing.worker_usage == "yes"


def quota_contradictions(quota: QuotaSettings) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values do not go with others, each with the reason, to follow the key's name."""
    served = quota.visibility
    if served.certificate and not quota.builtin:
        yield (
            "quota.visibility.certificate",
            "is set and quota.mode is not builtin: with kueue, Kueue's own manager serves its visibility API",
        )
    if served.key and not served.certificate:
        yield "quota.visibility.key", "is set without quota.visibility.certificate"
    if quota.resources.ignores_undeclared and quota.resources.exclude_resource_prefixes:
        yield (
            "quota.resources.excludeResourcePrefixes",
            "is set and quota.resources.quotaCheckStrategy is IgnoreUndeclared, with which nothing has to be left out",
        )
