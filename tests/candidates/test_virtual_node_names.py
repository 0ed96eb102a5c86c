"""The Node of a target whose name is longer than a label's value may be: its name, its labels and its taint are valid,
tell targets apart, and lead back to the target.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from controlplane.controllers.candidates.nodes.controller import VirtualNodes
from controlplane.controllers.candidates.nodes.decide import NodePolicy, request
from controlplane.controllers.candidates.nodes.events import (
    VirtualNodeMade,
    VirtualNodeObserved,
    VirtualNodeRemoved,
    VirtualNodeStatus,
)
from controlplane.controllers.candidates.objects import TARGET_LABEL, virtual_node
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import NODES, Json, Request
from controlplane.runtime.controller import ObjectChange
from tests.support.rows import each

AT = datetime(2026, 1, 1, tzinfo=UTC)
VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LONG = ["east", "x" * 63, "x" * 64, "y" * 253, "a" * 62 + ".b-c", "z." * 100 + "z"]


def made(target: str) -> Request:
    decision = VirtualNodeMade(name=virtual_node(target), reason=CandidateReason.TARGET_NAMED)
    found = request(decision, target, VirtualNodeStatus(), AT)
    assert found is not None
    return found


def node(target: str, **head: str) -> Json:
    asked = made(target)
    metadata = {**asked.body["metadata"], "name": asked.ref.name, "uid": "n-1", "resourceVersion": "1", **head}
    return {**asked.body, "metadata": metadata}


@each("target", LONG)
def test_what_it_says_is_valid(target: str) -> None:
    body = made(target).body
    values = [*body["metadata"]["labels"].values(), *(taint["value"] for taint in body["spec"]["taints"])]
    assert [value for value in values if value and not VALUE.fullmatch(value)] == []
    assert body["metadata"]["labels"]["kubernetes.io/hostname"] == made(target).ref.name


def test_two_targets_are_told_apart_by_each_of_them() -> None:
    one, other = (made("x" * 200 + end).body for end in "ab")
    for label in (TARGET_LABEL, "kubernetes.io/hostname"):
        assert one["metadata"]["labels"][label] != other["metadata"]["labels"][label]
    assert one["spec"]["taints"] != other["spec"]["taints"]


@each("target", LONG)
def test_it_leads_back_to_its_target(target: str) -> None:
    nodes = VirtualNodes(SourceController(SourcePolicy(cluster="home"), "me"), NodePolicy())
    new = nodes.observe(ObjectChange(MANAGEMENT, "", NODES, node(target), "1", gone=False), AT)
    assert new is not None
    assert isinstance(new.event, VirtualNodeObserved)
    assert (new.stream, new.event.target) == (f"virtualnode/{target}", target)


@each("target", LONG)
def test_only_a_node_that_names_the_target_is_removed(target: str) -> None:
    decision = VirtualNodeRemoved(
        name=virtual_node(target), uid="n-1", resource_version="1", reason=CandidateReason.TARGET_NOT_NAMED
    )
    removal = request(decision, target, VirtualNodeStatus(), AT)
    assert removal is not None
    label, value = removal.owner_label or ("", "")
    assert node(target)["metadata"]["labels"][label] == value


def test_a_node_of_another_name_that_names_the_target_is_nobodys() -> None:
    nodes = VirtualNodes(SourceController(SourcePolicy(cluster="home"), "me"), NodePolicy())
    strange = node("x" * 100, name="candidates-other")
    assert nodes.observe(ObjectChange(MANAGEMENT, "", NODES, strange, "1", gone=False), AT) is None
