"""What a virtual Node shows of a target: its capacity, whether it is ready, and when it is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.candidates.nodes import capacity
from controlplane.controllers.candidates.nodes.capacity import TargetCapacity
from controlplane.controllers.candidates.nodes.decide import NodeContext, NodePolicy, decide, request, status_for
from controlplane.controllers.candidates.nodes.events import (
    TargetNodesCounted,
    VirtualNodeMade,
    VirtualNodeObserved,
    VirtualNodeRemoved,
    VirtualNodeShown,
    VirtualNodeStatus,
)
from controlplane.controllers.connectivity.state import Connection
from controlplane.kube.kinds import Json
from tests.candidates.model.world import START
from tests.support.rows import each


def node(name: str, cpu: str, **spec: Any) -> Json:
    has = {"cpu": cpu, "memory": "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "0", "odd": "x"}
    return {"metadata": {"uid": name}, "spec": spec, "status": {"capacity": has, "allocatable": {"cpu": cpu}}}


def together(*nodes: Json) -> TargetCapacity:
    found = TargetCapacity()
    for one in nodes:
        found.put(one)
    return found


def test_what_nodes_have_together() -> None:
    found = together(node("a", "4"), node("b", "500m"), node("c", "8", unschedulable=True), {}).counted()
    assert (found.nodes, found.allocatable) == (3, {"cpu": "4500m"})
    assert found.capacity == {"cpu": "4500m", "memory": "2Gi", "example.com/gpu": "4", "hugepages-2Mi": "0"}


def test_what_a_node_has_goes_with_it() -> None:
    alone = together(node("a", "4")).counted()
    both = together(node("a", "4"), node("b", "1"))
    both.put(node("b", "2"))
    both.put(node("b", "2", unschedulable=True))
    assert both.counted() == alone
    both.put(node("b", "3"))
    both.drop("a")
    assert both.counted() == together(node("b", "3")).counted()
    both.clear()
    assert both.counted() == TargetNodesCounted()


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "250m", "x"]), st.booleans(), st.booleans())),
)
def test_counted_one_by_one_is_counted_at_once(changes: list[tuple[str, str, bool, bool]]) -> None:
    last: dict[str, Json] = {}
    counting = TargetCapacity()
    for name, cpu, out, gone in changes:
        if gone:
            counting.drop(name)
            last.pop(name, None)
        else:
            last[name] = node(name, cpu, unschedulable=out)
            counting.put(last[name])
    assert counting.counted() == together(*last.values()).counted()


def test_a_report_that_says_nothing_new_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found, read = together(node("a", "4")), list[str]()
    monkeypatch.setattr(capacity, "nanos", read.append)
    found.put(node("a", "4"))
    assert read == []


POLICY = NodePolicy(address="10.1.2.3", port=10250, version="0.1.0")
CONNECTED = Connection(name="east", phase="Connected", server_version="v1.36.2")
LOST = Connection(name="east", phase="Lost", reason="Unreachable", server_version="v1.36.2")
COUNTS = TargetNodesCounted(nodes=1, capacity={"cpu": "4"}, allocatable={"cpu": "3"})


def around(connection: Connection = CONNECTED, *, wanted: bool = True, pods: int = 0) -> NodeContext:
    return NodeContext(policy=POLICY, cluster="east", wanted=wanted, pods=pods, connection=connection)


def seen(shown: VirtualNodeStatus, **more: Any) -> VirtualNodeObserved:
    head = {"name": "candidates-east", "uid": "u", "resource_version": "7", "target": "east"}
    return VirtualNodeObserved(**{**head, "status": shown, **more})


AS_WANTED = status_for(around(), COUNTS)


@each(
    ("context", "observed", "wanted"),
    [
        (around(), None, VirtualNodeMade),
        (around(Connection(name="east")), None, None),
        (around(wanted=False), None, None),
        (around(), seen(VirtualNodeStatus()), VirtualNodeShown),
        (around(), seen(AS_WANTED), None),
        (around(), seen(VirtualNodeStatus(), deleting=True), None),
        (around(LOST), seen(AS_WANTED), VirtualNodeShown),
        (around(Connection(name="east")), seen(AS_WANTED), None),
        (around(wanted=False, pods=1), seen(AS_WANTED), None),
        (around(wanted=False), seen(AS_WANTED), VirtualNodeRemoved),
    ],
)
def test_what_becomes_of_a_node(context: NodeContext, observed: VirtualNodeObserved | None, wanted: Any) -> None:
    found = decide(context, observed, COUNTS)
    assert (type(found) if found is not None else None) is wanted


def test_what_a_node_shows() -> None:
    assert (AS_WANTED.ready, AS_WANTED.capacity, AS_WANTED.version) == (
        "True",
        {"cpu": "4"},
        "v1.36.2-controlplane.0.1.0",
    )
    lost = status_for(around(LOST), COUNTS)
    assert (lost.ready, lost.why) == ("False", "TargetUnreachable")
    assert lost.message == "cluster east cannot be reached (Unreachable)"
    assert lost.capacity == AS_WANTED.capacity
    hidden = status_for(around(), TargetNodesCounted(problem="its nodes cannot be read: forbidden"))
    assert (hidden.ready, hidden.message) == ("True", "cluster east is reached; its nodes cannot be read: forbidden")


def test_the_requests_name_what_they_are_for() -> None:
    made = request(VirtualNodeMade(name="candidates-east", reason="TargetNamed"), "east", VirtualNodeStatus(), START)  # type: ignore[arg-type]
    assert made is not None
    assert made.owner_label == ("candidates.controlplane.dev/target", "east")
    shown = decide(around(), seen(VirtualNodeStatus(capacity={"old": "1"})), COUNTS)
    assert shown is not None
    written = request(shown, "east", VirtualNodeStatus(capacity={"old": "1"}), START)
    assert written is not None
    assert (written.uid, written.resource_version, written.subresource) == ("u", "7", "status")
    status = written.body["status"]
    assert status["capacity"] == {"old": None, "cpu": "4"}
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert status["addresses"][0] == {"type": "InternalIP", "address": "10.1.2.3"}
    gone = decide(around(wanted=False), seen(AS_WANTED), COUNTS)
    assert gone is not None
    removed = request(gone, "east", AS_WANTED, START)
    assert removed is not None
    assert (removed.verb, removed.uid, removed.owner_label) == ("delete", "u", made.owner_label)
