"""Which Pods are a Candidate's: what its label says under its own name, or its owner; nobody else's copy of that label,
and also one whose label was taken off, which would be placed without its source's permit."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.candidates.objects import CANDIDATES
from controlplane.controllers.scheduling.observe import pending_pod
from controlplane.controllers.scheduling.snapshot.objects import read_pod
from controlplane.kube.candidate_pods import CANDIDATE, UNMARKED
from controlplane.kube.pod_groups import GROUP_NAME
from tests.support.rows import each

OWNER = {"apiVersion": CANDIDATES.api_version, "kind": "Candidate", "name": "web-1", "uid": "c", "controller": True}


@each(
    ("head", "ours"),
    [
        ({"labels": {CANDIDATE: "web-1"}, "ownerReferences": [OWNER]}, True),
        ({"labels": {CANDIDATE: "web-1"}}, True),
        ({"ownerReferences": [OWNER]}, True),
        ({"labels": {CANDIDATE: "other"}, "ownerReferences": [OWNER]}, True),
        ({"labels": {CANDIDATE: "other"}}, False),
        ({"ownerReferences": [{**OWNER, "controller": False}]}, False),
        ({"ownerReferences": [{**OWNER, "kind": "ReplicaSet", "apiVersion": "apps/v1"}]}, False),
        ({}, False),
    ],
)
def test_whose_a_pod_is(head: dict[str, Any], ours: bool) -> None:
    metadata = {"name": "web-1", "namespace": "ns", "uid": "p", "annotations": {GROUP_NAME: "g"}, **head}
    pod = {"metadata": metadata, "spec": {"schedulerName": "controlplane", "containers": []}}
    seen = pending_pod(pod, "1", ["controlplane"])
    assert seen is not None
    assert seen.candidate is ours
    assert read_pod(pod).source == (UNMARKED if ours else "")
