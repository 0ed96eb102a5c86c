"""A virtual Node that somebody deletes before the log has what was seen of it: its end is no other news for that."""

from __future__ import annotations

import pytest

from controlplane.controllers.candidates.nodes.controller import VirtualNodes
from controlplane.controllers.candidates.nodes.decide import NodePolicy
from controlplane.controllers.candidates.nodes.events import VirtualNodeGone
from controlplane.controllers.candidates.objects import TARGET_LABEL, virtual_node
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import NODES
from controlplane.log.event import NewEvent, Recorded
from controlplane.runtime.controller import ObjectChange
from tests.candidates.model.world import START
from tests.candidates.told import Told


def change(*, gone: bool, name: str = virtual_node("east"), target: str = "east") -> ObjectChange:
    head = {"name": name, "uid": "u-1", "resourceVersion": "2" if gone else "1", "labels": {TARGET_LABEL: target}}
    return ObjectChange(
        MANAGEMENT, "i-1", NODES, {"metadata": head, "spec": {}, "status": {}}, head["resourceVersion"], gone
    )


def recorded(position: int, said: NewEvent) -> Recorded:
    return Recorded(position=position, stream=said.stream, version=position, event=said.event, recorded_at=START)


def test_a_node_is_gone_though_the_log_has_not_yet_that_it_was_there() -> None:
    nodes = VirtualNodes(Told("east").placing, NodePolicy())
    came, went = nodes.observe(change(gone=False), START), nodes.observe(change(gone=True), START)
    assert came is not None
    assert went is not None
    assert isinstance(went.event, VirtualNodeGone)
    nodes.fold(recorded(1, came))
    assert nodes.there()
    nodes.fold(recorded(2, went))
    assert not nodes.there(), "one is made again"


@pytest.mark.parametrize(("name", "target"), [("worker-1", "east"), (virtual_node("east"), "")])
def test_the_end_of_another_node_is_no_news(name: str, target: str) -> None:
    nodes = VirtualNodes(Told("east").placing, NodePolicy())
    assert nodes.observe(change(gone=True, name=name, target=target), START) is None
