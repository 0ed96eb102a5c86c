"""Makes the Workloads of sets of pods.

In: the decision, the set's body. Out: a Workload. Pure. Sources: `constructWorkload` (kubernetes-sigs/kueue
pkg/controller/jobs: statefulset/statefulset_reconciler.go, leaderworkerset/leaderworkerset_reconciler.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.jobframework.names import max_execution
from controlplane.controllers.jobframework.set_events import SetWorkloadCreationDecided
from controlplane.job_kinds.base import JobKind
from controlplane.kube.kinds import Json, ObjectRef
from controlplane.kube.kueue_names import (
    COMPONENT_INDEX,
    GATED_BY,
    JOB_UID_LABEL,
    MAX_EXECUTION,
    ON_HOLD,
    RESOURCE_IN_USE,
)
from controlplane.kube.requests import body_in
from controlplane.kube.workload_owners import GROUP_WORKLOAD

PROVISIONING = "provreq.kueue.x-k8s.io/"
_OWNER_KIND, _OWNER_NAME = "kueue.x-k8s.io/job-owner-gvk", "kueue.x-k8s.io/job-owner-name"
HELD = (ON_HOLD, "StatefulSet scaled to zero; workload on hold")
LET_GO = "Workload no longer on hold; waiting for quota reservation"


def set_workload(
    place: ObjectRef, decision: SetWorkloadCreationDecided, bodies: Mapping[str, bytes], adapter: JobKind
) -> Json:
    """Return the Workload of a group; `place` is the set's. The set owns it, and controls it not."""
    body, kind = body_in(bodies, decision.body), adapter.kind
    labels, notes = body["labels"], body["annotations"]
    said = {name: value for name, value in notes.items() if name.startswith(PROVISIONING)}
    if gate := notes.get(GATED_BY):
        said[GATED_BY] = gate
    said |= {key: notes[key] for key in decision.annotation_keys if key in notes}
    said |= {GROUP_WORKLOAD: "true", _OWNER_KIND: kind.gvk, _OWNER_NAME: place.name}
    if decision.index is not None:
        said[COMPONENT_INDEX] = str(decision.index)
    job = {"metadata": {"name": place.name, "labels": labels, "annotations": notes}, "spec": body["spec"]}
    spec: Json = {"queueName": decision.queue, "priority": decision.priority}
    if (named := decision.priority_class).name:
        spec["priorityClassRef"] = {"group": named.group, "kind": named.kind, "name": named.name}
    if (limit := max_execution(labels.get(MAX_EXECUTION))) is not None:
        spec["maximumExecutionTimeSeconds"] = limit
    copied = {key: labels[key] for key in decision.label_keys if key in labels}
    owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": place.name, "uid": decision.set_uid}
    return {
        "metadata": {
            "labels": {**copied, JOB_UID_LABEL: decision.set_uid},
            "annotations": said,
            "finalizers": [RESOURCE_IN_USE],
            "ownerReferences": [owner],
        },
        "spec": {**spec, "podSets": adapter.workload_pod_sets(job)},
    }
