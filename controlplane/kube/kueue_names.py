"""Names that Kueue gives: labels, annotations, a finalizer, a scheduling gate, a field manager, its group of the API.

Sources: kubernetes-sigs/kueue pkg/controller/constants/constants.go, pkg/constants/constants.go,
apis/kueue/v1beta2/constants.go, multikueue_types.go, workload_types.go, pkg/controller/jobs/pod/constants/constants.go,
ff69552e. What is said of topologies, slices of elastic jobs, groups of pods and sets stands with what reads it."""

from __future__ import annotations

KUEUE_GROUP = "kueue.x-k8s.io"
KUEUE_PREFIX = "kueue.x-k8s.io/"
"""What Kueue's labels and annotations begin with."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
MAX_EXECUTION = "kueue.x-k8s.io/max-exec-time-seconds"
POD_SET_LABEL = "kueue.x-k8s.io/podset"
COMPONENT_INDEX = "kueue.x-k8s.io/component-workload-index"
GATED_BY = "kueue.x-k8s.io/admission-gated-by"
RESOURCE_IN_USE = "kueue.x-k8s.io/resource-in-use"
"""The finalizer of Workloads, queues and flavors."""
ADMISSION_GATE = "kueue.x-k8s.io/admission"
"""The scheduling gate of pods that wait for their Workload's admission."""
ADMISSION_MANAGER = "kueue-admission"
"""The field manager of what admission writes of a Workload's status."""

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""MultiKueue's controller: `managedBy` of jobs, `controllerName` of AdmissionChecks, the field manager of its check's
state."""
PREEMPTION_GATE = "kueue.x-k8s.io/multikueue"
"""The gate of a copy that preempts nobody on its worker before MultiKueue opens it."""
ORIGIN_LABEL = "kueue.x-k8s.io/multikueue-origin"
ORIGIN_UID = "kueue.x-k8s.io/multikueue-origin-uid"
WORKER_POD = "kueue.x-k8s.io/multikueue-worker-workload-pod"
BLOCKED = "BlockedOnPreemptionGates"
"""The condition of a Workload that would have to preempt, and may not."""
PENDING_EVALUATION = "PendingEvaluation"
"""The reason of a Workload that no cycle has looked at yet."""
ON_HOLD = "OnHold"
