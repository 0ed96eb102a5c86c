"""The snapshot after nodes and pods have come and gone: nothing of them is left, and it is what a new one would be."""

from __future__ import annotations

import random

import numpy as np

from controlplane.controllers.scheduling.snapshot.objects import Node
from controlplane.controllers.scheduling.snapshot.pod_counts import Query, QueryTerm
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube.selectors import EVERYTHING, node_term
from tests.scheduler.test_queue import node, pod

HOST, POOL = "kubernetes.io/hostname", "pool"
ALL = Query((QueryTerm(None, EVERYTHING),))


def made(number: int, **more: str) -> Node:
    taint = {"key": "owner", "value": str(number), "effect": "NoSchedule"}
    return node(f"n{number}", labels={HOST: f"n{number}", **more}, taints=[taint])


def test_nodes_that_came_and_went_leave_nothing() -> None:
    snapshot = Snapshot([made(0)])
    for number in range(1, 1000):
        snapshot.label(HOST), snapshot.label(f"of-{number}"), snapshot.matching(ALL)
        snapshot.put_node(made(number))
        snapshot.add_pod(pod(f"daemon-{number}", nodeName=f"n{number}"))
        snapshot.remove_node(f"n{number}")  # its pods are taken away a moment later
        snapshot.remove_pod(f"uid-daemon-{number}")
    assert len(snapshot.rows_by_id) <= 16
    assert len(snapshot._ids) == 1
    assert snapshot._on.keys() <= {0}
    assert len(snapshot.label(HOST).values) < 100
    assert len(snapshot._taint_sets.values) < 100
    assert len(snapshot._labels) <= 300


def test_a_snapshot_after_any_changes_is_what_a_new_one_is() -> None:
    for seed in range(20):
        draw = random.Random(seed)
        snapshot, nodes, pods = Snapshot(), {}, {}
        for _ in range(400):
            number = draw.randrange(12)
            if draw.random() < 0.3:
                known = nodes[number] = made(number, **{POOL: f"{draw.randrange(200)}"})
                snapshot.put_node(known)
            elif number in nodes and draw.random() < 0.3:
                snapshot.remove_node(nodes.pop(number).name)
            elif draw.random() < 0.6:
                name = f"p{draw.randrange(20)}"
                pods[name] = pod(name, cpu=str(draw.randrange(1, 4)), labels={"app": name[:2]}, nodeName=f"n{number}")
                snapshot.add_pod(pods[name])
            elif pods:
                snapshot.remove_pod(pods.pop(draw.choice(sorted(pods))).identity)
            snapshot.label(POOL), snapshot.matching(ALL)
        _same(snapshot, Snapshot(nodes.values(), pods.values()))
        assert len(snapshot.label(POOL).values) < 100


def _same(kept: Snapshot, anew: Snapshot) -> None:
    rows = [kept.row[one.name] for one in anew.nodes]
    assert len(kept) == len(anew)
    for name in ("cpu", "memory"):
        assert np.array_equal(kept.requested(name)[rows], anew.requested(name))
        assert np.array_equal(kept.allocatable(name)[rows], anew.allocatable(name))
    assert np.array_equal(kept.pod_room[rows], anew.pod_room)
    assert np.array_equal(kept.matching(ALL)[rows], anew.matching(ALL))
    assert np.array_equal(kept.repelled(())[rows], anew.repelled(()))
    for operator, values in (
        ("In", ["3", "5"]),
        ("Gt", ["50"]),
        ("Exists", []),
        ("DoesNotExist", []),
        ("NotIn", ["7"]),
    ):
        expression = {"key": POOL, "operator": operator, "values": values}
        term = node_term({"matchExpressions": [expression]}, "term")
        assert np.array_equal(kept.of_term(term)[rows], anew.of_term(term))
    for one, other in ((kept.info(kept.row[one.name]), anew.info(anew.row[one.name])) for one in anew.nodes):
        assert one.pods.keys() == other.pods.keys()
