"""Tells what a Workload's owners say of it.

In: the metadata of a Workload. Out: whether it is that of a single pod, or of a group of pods. Pure. Source:
kubernetes-sigs/kueue pkg/workload/workload.go (`OwnedBySinglePod`), ff69552e."""

from __future__ import annotations

from controlplane.kube.fields import items, section
from controlplane.kube.kinds import Json

GROUP_WORKLOAD = "kueue.x-k8s.io/is-group-workload"
"""The annotation of the Workload of a group of pods."""


def is_of_group(metadata: Json) -> bool:
    """Whether a Workload was made of a group of pods; `Misfit` if its annotations are none."""
    return section(metadata, "annotations", "metadata").get(GROUP_WORKLOAD) == "true"


def is_of_single_pod(metadata: Json) -> bool:
    """Whether a Workload is that of one pod, and gone once that is: in a group of one pod others may take its place.
    `Misfit` names a field that does not fit."""
    owners = items(metadata, "ownerReferences", "metadata")
    if len(owners) != 1 or is_of_group(metadata):
        return False
    return (owners[0].get("apiVersion"), owners[0].get("kind")) == ("v1", "Pod")
