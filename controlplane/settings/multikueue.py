"""The settings of how Workloads are dispatched to worker clusters."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.custom import FRAMEWORK
from controlplane.settings.access_providers import AccessProvider, AccessProviders
from controlplane.settings.rules import (
    DNS_NAME,
    Checked,
    Choice,
    Duration,
    Integer,
    Items,
    Names,
    Setting,
    Text,
    folder_prefix,
)
from controlplane.settings.scoring import Scoring
from controlplane.settings.words import EXECUTION_POLICY, LABEL_VALUE, NAMESPACE, YES_NO
from controlplane.values import Value

KINDS = tuple(JOB_KINDS)
"""The kinds of job that can be dispatched, by the names of Kueue's `integrations.frameworks`."""
KUEUES_DISPATCHERS = "kueue.x-k8s.io/multikueue-dispatcher-"
OWN_DISPATCHERS = ("all-at-once", "incremental")

_USUAL_KINDS = ("batch/job", "jobset.x-k8s.io/jobset")

_FINITE = 1_000_000


class ClusterProfiles(Value, rename="camel"):
    """How clusters are reached by ClusterProfiles; what Kueue calls `multiKueue.clusterProfile` in its
    configuration."""

    enabled: Annotated[
        str,
        Setting(
            YES_NO,
            "Whether MultiKueueClusters may name a ClusterProfile, as with Kueue's gate `MultiKueueClusterProfile`. "
            "Access providers say yes too.",
        ),
    ] = "no"
    access_providers: Annotated[
        tuple[AccessProvider, ...],
        Setting(
            AccessProviders(),
            "The commands that log in to the clusters of ClusterProfiles, as in Kueue's configuration. Only these are "
            "ever run.",
        ),
    ] = ()

    @property
    def on(self) -> bool:
        """Whether ClusterProfiles are followed."""
        return self.enabled == "yes" or bool(self.access_providers)


class MultiKueue(Value, rename="camel"):
    """How workloads are dispatched to worker clusters; what Kueue calls `multiKueue` in its configuration."""

    origin: Annotated[
        str,
        Setting(
            LABEL_VALUE,
            "The ownership mark on everything created on workers (label `kueue.x-k8s.io/multikueue-origin`). "
            "Objects with another mark are never touched. The service refuses to run with another one than before while "
            "workers have copies with that.",
        ),
    ] = "multikueue"
    namespace: Annotated[
        str,
        Setting(
            NAMESPACE,
            "The namespace of the Secrets that hold the workers' kubeconfigs.",
        ),
    ] = "kueue-system"
    controller_name: Annotated[
        str,
        Setting(
            Text(what="a domain name and a path, such as `example.com/name`", pattern=rf"{DNS_NAME}/[-A-Za-z0-9_./]+"),
            "AdmissionChecks with this `spec.controllerName` are ours; jobs with it as `managedBy` are ours to run.",
        ),
    ] = "kueue.x-k8s.io/multikueue"
    gc_interval: Annotated[
        timedelta,
        Setting(
            Duration(zero="off"),
            "How long a copy stays that was made for this management cluster and has no Workload there.",
        ),
    ] = timedelta(minutes=1)
    worker_lost_timeout: Annotated[
        timedelta,
        Setting(
            Duration(
                refusal="must be greater than 0, because a workload would be taken from its worker at the first lost "
                "connection"
            ),
            "How long a workload stays with a worker that cannot be reached before it is dispatched again.",
        ),
    ] = timedelta(minutes=15)
    kinds: Annotated[
        tuple[str, ...],
        Setting(
            Names(KINDS, empty=True),
            "The kinds of job that are dispatched, named as in Kueue's `integrations.frameworks`; none of them where "
            "`multikueue.externalFrameworks` names some.",
        ),
    ] = _USUAL_KINDS
    external_frameworks: Annotated[
        tuple[str, ...],
        Setting(
            Items("kinds as `Kind.version.group`, such as `Render.v1.example.com`", FRAMEWORK, 253),
            "Kinds of job of other frameworks that are dispatched too, named as in Kueue's "
            "`multiKueue.externalFrameworks`: their objects have `spec.managedBy`, and a controller on each cluster "
            "that knows Kueue.",
        ),
    ] = ()
    kubeconfig_prefix: Annotated[
        str,
        Setting(
            Checked("absolute folder that ends in `/`", folder_prefix),
            "Kubeconfigs of the location type `Path` must lie in this folder.",
        ),
    ] = "/etc/multikueue/kubeconfigs/"
    status_interval: Annotated[
        timedelta,
        Setting(
            Duration(zero="every change"), "The shortest time between two copies of one job's status from its worker."
        ),
    ] = timedelta(seconds=1)
    execution_policy: Annotated[
        str,
        Setting(
            EXECUTION_POLICY,
            "What happens to a workload whose worker stays away: dispatched again after `workerLostTimeout`, or not "
            "until the old copy is known to be dead. The annotation `controlplane/execution-policy` on a job or a "
            "ClusterQueue overrides it.",
        ),
    ] = "at-least-once"
    readmission_grace: Annotated[
        timedelta,
        Setting(
            Duration(zero="not at all"),
            "How long a copy that still runs on a worker that came back may wait for its workload to get quota again.",
        ),
    ] = timedelta(minutes=1)
    requeues_per_minute: Annotated[
        int,
        Setting(
            Integer(least=0, most=_FINITE),
            "The most workloads that are taken from lost workers in a minute. 0: no limit.",
        ),
    ] = 600
    dispatcher_name: Annotated[
        str,
        Setting(
            Text(what="a domain name and a path, such as `example.com/name`", pattern=rf"{DNS_NAME}/[-A-Za-z0-9_./]+"),
            "Who nominates the clusters that are asked for a workload, as Kueue's `multiKueue.dispatcherName`: "
            "`kueue.x-k8s.io/multikueue-dispatcher-all-at-once`, `kueue.x-k8s.io/multikueue-dispatcher-incremental`, "
            "`controlplane.dev/multikueue-dispatcher-scored`, or, under any "
            "other name, a controller of yours, which writes `status.nominatedClusterNames`.",
        ),
    ] = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
    step_size: Annotated[
        int,
        Setting(
            Integer(least=1, most=20),
            "How many clusters more the incremental dispatcher asks in a round, in the order of the MultiKueueConfig; "
            "the scored one in that of their scores.",
        ),
    ] = 3
    dispatch_round: Annotated[
        timedelta, Setting(Duration(), "How long a round of the incremental or the scored dispatcher lasts.")
    ] = timedelta(minutes=5)
    scoring: Scoring = Scoring()
    cluster_profile: ClusterProfiles = ClusterProfiles()
    quota_automation: Annotated[
        str,
        Setting(
            YES_NO,
            "Whether the quota of a ClusterQueue is kept at the sum of its workers' where its MultiKueueConfig says "
            "`quotaManagement: Automated`, as with Kueue's gate `MultiKueueManagerQuotaAutomation`.",
        ),
    ] = "no"
    orchestrated_preemption: Annotated[
        str,
        Setting(
            YES_NO,
            "Whether the copies of a workload wait for us before they preempt others on their workers, one worker "
            "after the other, as with Kueue's gate `MultiKueueOrchestratedPreemption`, which the workers' Kueue needs "
            "too; and, with `quota.mode: builtin`, whether Workloads wait so here that another manager's "
            "`preemptionGates` keep from preempting.",
        ),
    ] = "no"
    pod_gate: Annotated[
        str,
        Setting(
            Choice(("own", "kueue")),
            "Which scheduling gate keeps a dispatched pod from running on the management cluster as well: `own`, "
            "`controlplane/dispatched`, with which the pod has to be created; or `kueue`, Kueue's, where its gate "
            "MultiKueue is on. Where it is off, Kueue lets the pod go.",
        ),
    ] = "own"
    recorded_workloads: Annotated[
        str,
        Setting(
            Choice(("all", "own")),
            "Which Workloads and jobs of the management cluster are recorded: `all`, or `own`, those whose queue may "
            "lead to an AdmissionCheck of `controllerName`, where services with several logs share the cluster. What "
            "is not known to lead elsewhere is recorded too.",
        ),
    ] = "all"
    pipeline_run_filter: Annotated[
        str,
        Setting(
            Choice(("facts", "off")),
            "Whether a PipelineRun is offered only to workers that can take it whole, by what is seen of their nodes, "
            "storage classes, claims and mode, or to every worker.",
        ),
    ] = "facts"
    growing_clusters: Annotated[
        tuple[str, ...],
        Setting(
            Items("names of MultiKueueClusters", DNS_NAME, 253),
            "Workers whose nodes come and go with the demand: a PipelineRun that fits on none of today's nodes is "
            "offered to them all the same.",
        ),
    ] = ()
