"""What MultiKueue's dispatch says of itself."""

from __future__ import annotations

from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.observations import ObservationRefused
from controlplane.controllers.multikueue.phrases import PHRASES, REASONS
from controlplane.controllers.multikueue.rights import RIGHTS
from controlplane.runtime.manifest import Deferred, Manifest

MANIFEST = Manifest(
    title="Workloads",
    intro=(
        "What an API server showed: `uid` and `resource_version` say which state of which object; specs and statuses "
        "are named by their hash. `kept` says under which hash a body is stored that is stored without [what is "
        "private](../howto/production/privacy.md), or the size of one that is too large."
    ),
    events=events.EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    decision=events.WorkloadDecision,
    write=events.WorkloadWrite,
    writes={
        events.NominationDecided: "Workload status, management",
        events.CloneDecided: "Workload, worker",
        events.GateOpeningDecided: "Workload status, worker",
        events.JobCreationDecided: "job, worker",
        events.CheckStateDecided: "Workload status, management",
        events.StatusRelayDecided: "job status, management",
        events.FinishDecided: "Workload status, management",
        events.NamesClearDecided: "Workload status, management",
        events.RemovalDecided: "Workload or job, worker",
        events.FinalizerRemovalDecided: "Workload, worker",
        events.FinalizerAdditionDecided: "Workload, worker",
        events.CloneUpdateDecided: "Workload, worker",
        events.SpecUpdateDecided: "job, worker",
        events.DeactivationDecided: "Workload status, worker",
        events.ConditionDecided: "MultiKueueCluster or AdmissionCheck status",
    },
    refused=ObservationRefused,
    counted=True,
    runs=lambda settings, policy: True,
    host=Deferred("controlplane.controllers.multikueue.hosting:host"),
    rights=RIGHTS,
    streams={
        "workload/NS/NAME": "a Workload of the management cluster and all its copies on workers",
        "job/KIND/NS/NAME": "the user's job",
        "clusterqueue/NAME": "a ClusterQueue",
        "localqueue/NS/NAME": "a LocalQueue of the management cluster, where the webhook of jobs is served",
        "workerclusterqueue/CLUSTER/NAME": "a worker's ClusterQueue, where clusters are scored by its flavors",
        "workerlocalqueue/CLUSTER/NS/NAME": "a LocalQueue of a worker, where clusters are scored by the flavors "
        "behind it",
        "admissioncheck/NAME": "an AdmissionCheck",
        "multikueueconfig/NAME": "a MultiKueueConfig",
        "refused/CLUSTER/KIND/NS/NAME": "an object that could not be understood",
    },
)
