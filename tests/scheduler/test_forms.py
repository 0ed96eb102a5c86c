"""The two forms of every rule say the same, and what is kept incrementally is what would be counted afresh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.controllers.scheduling.cycle import CycleResult, schedule
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.controllers.scheduling.framework.configuration import default_framework
from controlplane.controllers.scheduling.framework.plugin import (
    CycleState,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from controlplane.controllers.scheduling.framework.status import Code, Status
from controlplane.controllers.scheduling.plugins.node_resources import NodeResourcesFit
from controlplane.controllers.scheduling.snapshot.objects import read_pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube.kinds import Json
from tests.scheduler.scenarios import scenarios
from tests.support.deep import examples

GENERATED = settings(max_examples=examples(15, 100), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def statuses(found: CycleResult, snapshot: Snapshot) -> list[Status]:
    return [found.statuses.of(row) for row in range(len(snapshot))]


@pytest.mark.generated
@GENERATED
@given(scenarios())
def test_all_nodes_at_once_is_node_by_node(scenario: Json) -> None:
    question = read(scenario)
    pod, snapshot = question.pod, question.snapshot
    plugins = {plugin.name: plugin for kind in default_framework(question.args).points.values() for plugin in kind}
    everyone = np.ones(len(snapshot), dtype=np.bool_)
    rows = np.arange(len(snapshot), dtype=np.int64)
    fits = [NodeResourcesFit(args) for args in question.strategies.values()]
    for plugin in [*plugins.values(), *fits]:
        state = CycleState()
        runs = (
            not isinstance(plugin, PreFilterPlugin)
            or plugin.pre_filter(state, pod, snapshot).status.code is Code.SUCCESS
        )
        if isinstance(plugin, FilterPlugin) and runs:
            statuses = plugin.filter_all(state, pod, snapshot, everyone)
            one_by_one = [plugin.filter(state, pod, snapshot.info(row)) for row in range(len(snapshot))]
            assert [statuses.of(row) for row in range(len(snapshot))] == one_by_one, plugin.name
        runs = not isinstance(plugin, PreScorePlugin) or plugin.pre_score(state, pod, snapshot, rows) == Status()
        if isinstance(plugin, ScorePlugin) and runs:
            raw = plugin.score_all(state, pod, snapshot, rows)
            assert raw.tolist() == [plugin.score(state, pod, snapshot.info(row)) for row in range(len(snapshot))], (
                plugin.name
            )
            normalised = plugin.normalize(state, pod, snapshot, rows, raw)
            assert all(0 <= score <= 100 for score in normalised.tolist()), plugin.name


@pytest.mark.generated
@GENERATED
@given(scenarios())
def test_a_whole_cycle_is_the_same_in_both_forms(scenario: Json) -> None:
    question = read(scenario)
    framework = default_framework(question.args)
    fast = schedule(framework, question.snapshot, question.pod, question.nominated)
    framework.vectorised = False
    slow = schedule(framework, question.snapshot, question.pod, question.nominated)
    assert statuses(fast, question.snapshot) == statuses(slow, question.snapshot)
    assert (fast.status, fast.best, fast.node, fast.post_filtered) == (
        slow.status,
        slow.best,
        slow.node,
        slow.post_filtered,
    )


@pytest.mark.generated
@GENERATED
@given(scenarios())
def test_what_preemption_chooses_makes_room(scenario: Json) -> None:
    question = read(scenario)
    framework = default_framework(question.args)
    found = schedule(framework, question.snapshot, question.pod)
    if found.post_filtered is None or not found.post_filtered.best:
        return
    for victim in found.post_filtered.candidates[found.post_filtered.best[0]].pods:
        assert victim.priority < question.pod.priority
        question.snapshot.remove_pod(victim.identity)
    again = schedule(framework, question.snapshot, question.pod)
    assert again.statuses.of(question.snapshot.row[found.post_filtered.best[0]]).ok


@pytest.mark.generated
@GENERATED
@given(scenarios(), st.randoms(use_true_random=False))
def test_a_snapshot_that_changed_is_one_made_afresh(scenario: Json, chance: Any) -> None:
    question = read(scenario)
    framework = default_framework(question.args)
    snapshot = question.snapshot
    pods = [read_pod(pod) for pod in scenario["pods"]]
    for _ in range(8):  # ask in between, so that what is kept is kept
        schedule(framework, snapshot, question.pod)
        what = chance.randrange(4)
        placed = list(snapshot.placed)
        if what == 0 and placed:
            snapshot.remove_pod(chance.choice(placed))
        elif what == 1 and pods:
            snapshot.add_pod(chance.choice(pods), chance.choice(["", "n0", "n1", "elsewhere"]))
        elif what == 2 and len(snapshot) > 1:
            snapshot.remove_node(chance.choice(snapshot.nodes).name)
        else:
            snapshot.put_node(chance.choice(read(scenario).snapshot.nodes))
    afresh = Snapshot(snapshot.nodes, (), snapshot.cluster)
    names = {ident: name for name, ident in snapshot._ids.items()}
    for pod, ident in snapshot.placed.values():
        afresh.add_pod(pod, names[ident])
    for name in sorted({*snapshot.resources, *afresh.resources}):
        assert snapshot.allocatable(name).tolist() == afresh.allocatable(name).tolist()
        assert snapshot.requested(name).tolist() == afresh.requested(name).tolist()
    assert snapshot.nonzero.tolist() == afresh.nonzero.tolist()
    assert snapshot.pod_room.tolist() == afresh.pod_room.tolist()
    kept, counted = schedule(framework, snapshot, question.pod), schedule(framework, afresh, question.pod)
    assert statuses(kept, snapshot) == statuses(counted, afresh)
    assert (kept.best, kept.post_filtered and kept.post_filtered.best) == (
        counted.best,
        counted.post_filtered and counted.post_filtered.best,
    )
    if kept.scores is not None and counted.scores is not None:
        assert {n: s.tolist() for n, s in kept.scores.raw.items()} == {
            n: s.tolist() for n, s in counted.scores.raw.items()
        }
