"""The view: what the watches show becomes a snapshot and events of the queue; a claim counts until the watch speaks."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.scheduling.snapshot.view import KINDS, ClusterView
from controlplane.kube import kinds
from controlplane.kube.kinds import NODES, PODS, Json, Kind
from tests.support.rows import each


def node(name: str = "n", cpu: str = "4", **more: Any) -> Json:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", **more.pop("meta", {})},
        "spec": more,
        "status": {"allocatable": {"cpu": cpu, "pods": "10"}},
    }


def pod(name: str = "p", on: str = "", cpu: str = "1", **more: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}", **more.pop("meta", {})},
        "spec": {"containers": [container], **({"nodeName": on} if on else {})},
        "status": more,
    }


def said(view: ClusterView, kind: Kind, obj: Json, *, gone: bool = False) -> list[tuple[str, str]]:
    return [(event.resource, event.action) for event in view.apply(kind, obj, gone=gone)]


def used(view: ClusterView) -> int:
    return int(view.snapshot.requested("cpu")[0])


def test_nodes_come_change_and_go() -> None:
    view = ClusterView()
    assert said(view, NODES, node()) == [("Node", "Add")]
    assert said(view, NODES, node(cpu="8")) == [("Node", "Update")]
    assert said(view, NODES, node(), gone=True) == [("Node", "Delete")]
    assert said(view, NODES, node(), gone=True) == []
    assert len(view.snapshot) == 0


def test_a_heartbeat_says_nothing() -> None:
    view = ClusterView()
    view.apply(NODES, node(), gone=False)
    beat = node()
    beat["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
    assert said(view, NODES, beat) == []


def test_a_pod_counts_where_the_watch_shows_it() -> None:
    view = ClusterView()
    view.apply(NODES, node(), gone=False)
    assert said(view, PODS, pod()) == []
    assert used(view) == 0
    assert said(view, PODS, pod(on="n")) == [("Pod", "AssignedAdd")]
    assert used(view) == 1000
    assert said(view, PODS, pod(on="n", phase="Running")) == []
    assert said(view, PODS, pod(on="n", cpu="2")) == [("Pod", "AssignedUpdate")]
    assert said(view, PODS, pod(on="n", phase="Succeeded")) == [("Pod", "AssignedDelete")]
    assert used(view) == 0


def test_a_claim_counts_until_the_watch_speaks() -> None:
    view = ClusterView()
    for name in ("n", "other"):
        view.apply(NODES, node(name), gone=False)
    view.apply(PODS, pod(), gone=False)
    view.claim("uid-p", "n")
    assert used(view) == 1000
    view.apply(PODS, pod(meta={"labels": {"a": "b"}}), gone=False)
    assert used(view) == 1000
    view.apply(PODS, pod(on="other"), gone=False)
    assert view.snapshot.requested("cpu").tolist() == [0, 1000]
    view.claim("uid-p", "n")  # too late: the watch has spoken
    view.claim("uid-p", "")
    assert view.snapshot.requested("cpu").tolist() == [0, 1000]
    assert view.claims == {}


def test_a_claim_is_given_back_once() -> None:
    view = ClusterView()
    view.apply(NODES, node(), gone=False)
    view.apply(PODS, pod(), gone=False)
    for _ in range(2):
        view.claim("uid-p", "n")
    for _ in range(2):
        view.claim("uid-p", "")
    assert used(view) == 0


def test_a_claimed_pod_that_goes_makes_room() -> None:
    view = ClusterView()
    view.apply(NODES, node(), gone=False)
    view.apply(PODS, pod(), gone=False)
    view.claim("uid-p", "n")
    assert said(view, PODS, pod(), gone=True) == [("Pod", "AssignedDelete")]
    assert used(view) == 0
    assert view.claims == {}


def test_a_claim_of_a_pod_that_is_not_listed_yet_counts_once_it_is() -> None:
    view = ClusterView()
    view.apply(NODES, node(), gone=False)
    view.claim("uid-p", "n")
    assert used(view) == 0
    view.apply(PODS, pod(), gone=False)
    assert used(view) == 1000


def test_what_cannot_be_read_is_left_out_with_the_reason() -> None:
    view = ClusterView()
    assert said(view, NODES, {"metadata": {"name": "n"}, "spec": {"taints": "none"}}) == []
    assert "node.spec.taints" in view.problems["nodes", "", "n"]
    assert said(view, NODES, node()) == [("Node", "Add")]
    assert view.problems == {}


@each("kind", [kind for kind in KINDS if kind not in (PODS, NODES)], ids=lambda kind: kind.kind)
def test_every_other_kind_comes_and_goes(kind: Kind) -> None:
    view = ClusterView()
    obj: Json = {"metadata": {"name": "x", "namespace": "default"}, "spec": {"selector": {}}}
    assert said(view, kind, obj) == [(kind.kind, "Update")]
    assert said(view, kind, obj, gone=True) == [(kind.kind, "Delete")]
    assert said(view, kind, obj, gone=True) == [(kind.kind, "Delete")]
    tables = view.cluster
    assert not tables.budgets
    assert not tables.volumes
    assert not tables.claims
    assert not tables.classes
    assert not tables.controllers
    assert not tables.services.get("default")
    assert kind != kinds.NAMESPACES or not tables.namespaces
