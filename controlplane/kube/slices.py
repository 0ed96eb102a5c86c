"""Names of what Kueue says of the slices of an elastic job: annotations, the pods' gate, the reason with which an old
slice ends.

Source: kubernetes-sigs/kueue pkg/workloadslicing/workloadslicing.go, apis/kueue/v1beta2/workload_types.go, ff69552e."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.kube.fields import section
from controlplane.kube.kinds import meta

ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
ELASTIC_GATE = "kueue.x-k8s.io/elastic-job"
"""The scheduling gate of an elastic job's pods; its name is that of the annotation."""
REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
SLICE_NAME = "kueue.x-k8s.io/workload-slice-name"
SLICE_REPLACED = "WorkloadSliceReplaced"
"""The reason with which Kueue finishes a slice of an elastic job in whose place another one is."""


def is_elastic(obj: Mapping[str, Any]) -> bool:
    """Whether a job asks for slices, or a Workload is one."""
    return section(meta(obj), "annotations", "metadata").get(ELASTIC_JOB) == "true"


def replacement_for(obj: Mapping[str, Any]) -> str:
    """Return the namespace and name of the Workload that a slice is to take the place of, "" if it is of another
    namespace or none is named: as with Kueue, no slice replaces one elsewhere."""
    named = str(section(meta(obj), "annotations", "metadata").get(REPLACEMENT_FOR) or "")
    namespace, found, name = named.partition("/")
    return named if found and name and namespace == meta(obj).get("namespace") else ""
