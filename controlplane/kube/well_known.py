"""Names and values that Kubernetes itself gives: labels, annotations, a finalizer, fields of affinity, phases of pods.

Sources: kubernetes/kubernetes staging/src/k8s.io/api/core/v1/well_known_labels.go, types.go,
staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go, pkg/volume/util/finalizer.go,
pkg/controller/deployment/util/deployment_util.go, pkg/apis/core/validation/events.go,
pkg/registry/core/pod/strategy.go, v1.36."""

from __future__ import annotations

HOSTNAME = "kubernetes.io/hostname"
REQUIRED_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_AFFINITY = "preferredDuringSchedulingIgnoredDuringExecution"
ENDED_PHASES = ("Succeeded", "Failed")
"""The phases of a pod in which no container runs, and none will."""
PODS_RESOURCE = "pods"
"""The resource of a node by which its pods are counted."""
DEFAULT_SCHEDULER = "default-scheduler"
SYSTEM_NAMESPACE = "kube-system"
REVISION = "deployment.kubernetes.io/revision"
PVC_PROTECTION = "kubernetes.io/pvc-protection"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"
"""What kube-apiserver and kube-scheduler say of a pod with scheduling gates."""
TOO_MANY_PODS = "Too many pods"
"""What kube-scheduler and a kubelet say of a node on which no pod has room any more."""
NOTE_LIMIT = 1024
"""How many characters the note of an Event may have."""
