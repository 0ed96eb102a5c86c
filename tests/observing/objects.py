"""One good object of each kind that anybody watches, with every field that anybody reads."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.candidates import objects as candidate_objects
from controlplane.controllers.coscheduling import objects as coscheduling_objects
from controlplane.controllers.podgroups import objects as podgroup_objects
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind
from controlplane.kube.kueue_names import ORIGIN_LABEL, PREBUILT, QUEUE_LABEL

NOW = "2026-01-01T00:00:00Z"
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "R",
    "message": "m",
    "lastTransitionTime": NOW,
    "observedGeneration": 1,
}
OWNER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "train",
    "uid": "o",
    "controller": True,
    "blockOwnerDeletion": True,
}
CONTAINER: Json = {
    "name": "c",
    "image": "i",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
    "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
    "env": [
        {
            "name": "A",
            "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}, "secretKeyRef": {"name": "s", "key": "k"}},
        }
    ],
    "envFrom": [{"configMapRef": {"name": "m", "optional": True}}, {"secretRef": {"name": "s"}}],
}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
TERM = {"labelSelector": SELECTOR, "topologyKey": "zone", "namespaces": ["ns"], "namespaceSelector": SELECTOR}
POD_SPEC: Json = {
    "schedulerName": "controlplane-candidates",
    "nodeName": "",
    "restartPolicy": "Never",
    "priority": 3,
    "priorityClassName": "high",
    "nodeSelector": {"a": "b"},
    "initContainers": [CONTAINER],
    "containers": [CONTAINER],
    "overhead": {"cpu": "1"},
    "schedulingGates": [{"name": "g"}],
    "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule", "tolerationSeconds": 3}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        },
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [TERM],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}],
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
    ],
    "volumes": [
        {"name": "v", "configMap": {"name": "m"}},
        {"name": "w", "secret": {"secretName": "s"}},
        {"name": "x", "projected": {"sources": [{"configMap": {"name": "m"}}, {"secret": {"name": "s"}}]}},
        {"name": "y", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "z", "csi": {"nodePublishSecretRef": {"name": "s"}}},
    ],
    "imagePullSecrets": [{"name": "s"}],
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": POD_SPEC}


def made(kind: Kind, *, labels: Json | None = None, annotations: Json | None = None, **fields: Any) -> Json:
    metadata: Json = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2}
    metadata |= {"creationTimestamp": NOW, "finalizers": ["f"], "ownerReferences": [OWNER]}
    metadata |= {"labels": labels or {"a": "b"}, "annotations": annotations or {"c": "d"}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}


def _pod() -> Json:
    status = {
        "phase": "Running",
        "nominatedNodeName": "n",
        "startTime": NOW,
        "conditions": [CONDITION, {**CONDITION, "type": "PodScheduled", "status": "False"}],
        "containerStatuses": [{"name": "c", "restartCount": 1, "state": {"running": {"startedAt": NOW}}}],
        "initContainerStatuses": [{"name": "c", "restartCount": 1}],
    }
    labels = {
        candidate_objects.CANDIDATE_LABEL: "x",
        coscheduling_objects.RUN_LABEL: "run",
        coscheduling_objects.COMPONENT_LABEL: "placeholder",
        "a": "b",
    }
    return made(kinds.PODS, labels=labels, spec={**POD_SPEC, "nodeName": "n"}, status=status)


_WORKLOAD_STATUS = {
    "conditions": [CONDITION, {**CONDITION, "type": "QuotaReserved"}],
    "admissionChecks": [
        {"name": "multikueue", "state": "Pending", "message": "", "lastTransitionTime": NOW, "retryCount": 1}
    ],
    "admission": {
        "clusterQueue": "cq",
        "podSetAssignments": [{"name": "main", "count": 1, "delayedTopologyRequest": "Pending"}],
    },
    "clusterName": "",
    "nominatedClusterNames": ["a"],
    "requeueState": {"count": 1},
}
_JOB_STATUS = {"active": 1, "ready": 1, "succeeded": 0, "startTime": NOW, "conditions": [CONDITION]}
_OURS = {ORIGIN_LABEL: "multikueue", PREBUILT: "wl", QUEUE_LABEL: "q"}


def samples() -> dict[Kind, Json]:
    """Return a good object of each kind."""
    job = {"managedBy": "kueue.x-k8s.io/multikueue", "suspend": True, "parallelism": 1, "template": TEMPLATE}
    found = {
        kinds.PODS: _pod(),
        kinds.NODES: made(
            kinds.NODES,
            spec={"unschedulable": False, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            status={
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [CONDITION],
                "images": [{"names": ["i"], "sizeBytes": 10}],
            },
        ),
        kinds.WORKLOADS: made(
            kinds.WORKLOADS,
            labels=_OURS,
            spec={
                "queueName": "q",
                "active": True,
                "priority": 1,
                "priorityClassRef": {"name": "high"},
                "podSets": [{"name": "main", "count": 1, "template": TEMPLATE}],
            },
            status=_WORKLOAD_STATUS,
        ),
        kinds.JOBS: made(kinds.JOBS, labels=_OURS, spec=job, status=_JOB_STATUS),
        kinds.JOBSETS: made(
            kinds.JOBSETS,
            labels=_OURS,
            spec={**job, "replicatedJobs": [{"name": "r", "replicas": 1, "template": {"spec": job}}]},
            status={"conditions": [CONDITION], "replicatedJobsStatus": [{"name": "r", "active": 1, "ready": 1}]},
        ),
        kinds.PIPELINE_RUNS: made(
            kinds.PIPELINE_RUNS,
            labels=_OURS,
            spec={
                "managedBy": "kueue.x-k8s.io/multikueue",
                "status": "PipelineRunPending",
                "pipelineSpec": {
                    "workspaces": [{"name": "w"}],
                    "tasks": [
                        {
                            "name": "t",
                            "taskSpec": {"steps": [CONTAINER]},
                            "workspaces": [{"name": "w", "workspace": "w"}],
                        }
                    ],
                },
                "workspaces": [{"name": "w", "persistentVolumeClaim": {"claimName": "c"}, "subPath": "p"}],
                "params": [{"name": "p", "value": "v"}],
                "taskRunTemplate": {"podTemplate": POD_SPEC},
            },
            status={
                "startTime": NOW,
                "conditions": [{**CONDITION, "type": "Succeeded"}],
                "pipelineSpec": {"tasks": []},
            },
        ),
        kinds.ADMISSION_CHECKS: made(
            kinds.ADMISSION_CHECKS,
            spec={"controllerName": "c", "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "K", "name": "n"}},
            status={"conditions": [CONDITION]},
        ),
        kinds.MULTIKUEUE_CONFIGS: made(kinds.MULTIKUEUE_CONFIGS, spec={"clusters": ["a"]}),
        kinds.MULTIKUEUE_CLUSTERS: made(
            kinds.MULTIKUEUE_CLUSTERS,
            spec={
                "clusterSource": {
                    "kubeConfig": {"location": "l", "locationType": "Secret"},
                    "clusterProfileRef": {"name": "p"},
                }
            },
            status={"conditions": [CONDITION]},
        ),
        kinds.CLUSTER_QUEUES: made(kinds.CLUSTER_QUEUES, annotations={"controlplane/execution-policy": "never-twice"}),
        kinds.POD_GROUPS: made(
            kinds.POD_GROUPS,
            spec={"minMember": 2, "minResources": {"cpu": "1"}, "queue": "q", "priorityClassName": "high"},
            status={"phase": "Pending", "running": 1, "succeeded": 1, "failed": 1, "conditions": [CONDITION]},
        ),
        kinds.NAMESPACES: made(kinds.NAMESPACES),
        kinds.SECRETS: made(kinds.SECRETS, type="Opaque", data={"k": "dg=="}),
        podgroup_objects.CONFIG_MAPS: made(
            podgroup_objects.CONFIG_MAPS, data={"k": "v", "rules": "[]", "coschedule": "pipelineruns"}
        ),
        candidate_objects.CANDIDATE_TARGETS: made(
            candidate_objects.CANDIDATE_TARGETS, spec={"cluster": "east", "tier": 1}
        ),
        candidate_objects.CANDIDATE_SOURCES: made(
            candidate_objects.CANDIDATE_SOURCES,
            spec={"cluster": "campus", "user": "u", "maxCandidates": 3, "priorityClasses": ["high"]},
        ),
        candidate_objects.CANDIDATES: made(
            candidate_objects.CANDIDATES,
            labels={candidate_objects.SOURCE_LABEL: "campus"},
            spec={
                "source": {"cluster": "campus", "namespace": "ns", "name": "a", "uid": "p", "epoch": 1},
                "template": TEMPLATE,
                "withdrawn": 1,
                "minMember": 1,
                "permit": {"number": 1, "kind": "Bind", "reservation": 1, "until": NOW},
            },
            status={
                "phase": "Bound",
                "reservation": {"number": 1, "node": "n", "score": 3, "expires": NOW},
                "acknowledged": 1,
                "tried": 1,
                "preemptable": True,
                "reason": "R",
                "message": "m",
                "pod": {"name": "a"},
                "boundBy": 1,
                "sequence": 4,
                "podStatus": {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 1}]},
                "conditions": [CONDITION],
            },
        ),
    }
    stateful = {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE, "serviceName": "s"}
    labels = {coscheduling_objects.COMPONENT_LABEL: "placeholder", coscheduling_objects.RUN_LABEL: "run"}
    for kind in podgroup_objects.WATCHED_OWNERS:
        found.setdefault(kind, made(kind, labels=labels, spec=stateful, status={"readyReplicas": 1, "revision": "3"}))
    for kind in coscheduling_objects_kinds():
        found.setdefault(kind, made(kind, labels=labels, spec=stateful, status={"conditions": [CONDITION]}))
    return found


def coscheduling_objects_kinds() -> list[Kind]:
    from controlplane.controllers.coscheduling.feasibility.observe import WORKER_KINDS
    from controlplane.controllers.coscheduling.observe import KINDS
    from controlplane.controllers.scheduling.snapshot.view import KINDS as VIEWED

    return [*KINDS, *WORKER_KINDS, *VIEWED]
