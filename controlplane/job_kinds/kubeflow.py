"""Kubeflow's `kubeflow.org` jobs: TFJob, PyTorchJob, XGBoostJob, PaddleJob, JAXJob, and MPIJob. Each has a map of
replica replica_specs, and a pod set for each type in it (kubernetes-sigs/kueue
pkg/controller/jobs/kubeflow/kubeflowjob/kubeflowjob_controller.go, pkg/controller/jobs/mpijob/mpijob_controller.go, and
their *_multikueue_adapter.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from controlplane.job_kinds.base import Phase, PodSet, SimulatedKind, merged
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.topologies import POD_INDEX_OFFSET, POD_SET_GROUP


class KubeflowJob(SimulatedKind):
    """What is the same for all: `replicas` names the map of replica replica_specs, `types` are its keys in their
    order."""

    suspend_path = ("runPolicy", "suspend")
    managed_by_path = ("runPolicy", "managedBy")
    own_controller = "kubeflow.org/training-operator"
    status_manager = "training-operator"
    reconciled = True
    index_label = "training.kubeflow.org/replica-index"
    replicas: ClassVar[str]
    types: ClassVar[tuple[str, ...]] = ("Master", "Worker")
    columns = (("State", ".status.conditions[-1:].type", "string"),)

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return a pod set for each type that there is."""
        replica_specs = job["spec"].get(self.replicas) or {}
        return [
            PodSet(one.lower(), int(replica_specs[one].get("replicas", 1)), ("spec", self.replicas, one, "template"))
            for one in self.types
            if replica_specs.get(one)
        ]

    def priority_class(self, job: Mapping[str, Any]) -> str:
        """Return that of the scheduling policy, else that of the first template that names one."""
        policy = ((job["spec"].get("runPolicy") or {}).get("schedulingPolicy") or {}).get("priorityClass")
        return str(policy) if policy else super().priority_class(job)

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether any type has active pods."""
        return any(one.get("active") for one in (status.get("replicaStatuses") or {}).values())

    def drained(self, status: Json) -> Json:
        """Return the status with no active pods of any type."""
        found = status.get("replicaStatuses")
        resting = {name: {**one, "active": 0} if one.get("active") else one for name, one in (found or {}).items()}
        return {**status, "replicaStatuses": resting} if found else dict(status)

    def fields(self, job: Json, phase: Phase) -> Json:
        """Return the counts of pods by type."""
        count = {"started": "active", "ready": "active", "succeeded": "succeeded", "failed": "failed"}.get(phase)
        replica_specs = job["spec"].get(self.replicas) or {}
        return {
            "replicaStatuses": {
                one: {count: int(replica_specs[one].get("replicas", 1))} if count else {}
                for one in self.types
                if replica_specs.get(one)
            }
        }


class TFJob(KubeflowJob):
    """A TFJob."""

    integration = "kubeflow.org/tfjob"
    kind = Kind("kubeflow.org", "v1", "TFJob", "tfjobs")
    replicas = "tfReplicaSpecs"
    types = ("Chief", "Master", "PS", "Worker", "Evaluator")


class PyTorchJob(KubeflowJob):
    """A PyTorchJob."""

    integration = "kubeflow.org/pytorchjob"
    kind = Kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
    replicas = "pytorchReplicaSpecs"


class XGBoostJob(KubeflowJob):
    """An XGBoostJob."""

    integration = "kubeflow.org/xgboostjob"
    kind = Kind("kubeflow.org", "v1", "XGBoostJob", "xgboostjobs")
    replicas = "xgbReplicaSpecs"


class PaddleJob(KubeflowJob):
    """A PaddleJob."""

    integration = "kubeflow.org/paddlejob"
    kind = Kind("kubeflow.org", "v1", "PaddleJob", "paddlejobs")
    replicas = "paddleReplicaSpecs"


class JAXJob(KubeflowJob):
    """A JAXJob."""

    integration = "kubeflow.org/jaxjob"
    kind = Kind("kubeflow.org", "v1", "JAXJob", "jaxjobs")
    replicas = "jaxReplicaSpecs"
    types = ("Worker",)


class MPIJob(KubeflowJob):
    """An MPIJob of the mpi-operator."""

    integration = "kubeflow.org/mpijob"
    kind = Kind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
    own_controller = "kubeflow.org/mpi-operator"
    status_manager = "mpi-operator"
    replicas = "mpiReplicaSpecs"
    types = ("Launcher", "Worker")

    def submitted(self, job: Mapping[str, Any]) -> Json:
        """Return it suspended; where the launcher runs as a worker too, the ranks of the workers begin with 1
        (pkg/controller/jobs/mpijob/mpijob_webhook.go).
        """
        made = super().submitted(job)
        replicas = made["spec"].get(self.replicas) or {}
        launcher, worker = replicas.get("Launcher"), replicas.get("Worker")
        if made["spec"].get("runLauncherAsWorker") is not True or not (launcher and worker):
            return made
        if POD_SET_GROUP in (meta(launcher.get("template") or {}).get("annotations") or {}):
            return made
        offset = {"template": {"metadata": {"annotations": {POD_INDEX_OFFSET: "1"}}}}
        return {**made, "spec": merged(made["spec"], {self.replicas: {"Worker": offset}})}
