"""Why a Workload waits that has quota, and no place in a topology."""

from __future__ import annotations

import pytest

from controlplane.audit.quota_estimate import NO_RUNS, NOWHERE, estimate
from controlplane.audit.quota_runs import Durations
from controlplane.audit.quota_wait import plain, sentences
from controlplane.controllers.quota.engine.explain import explain
from tests.quota.admission.placed import submit, with_topology
from tests.quota.admission.scene import NS, Scene


def told(scene: Scene, name: str) -> list[str]:
    wait = explain(scene.controller.index.engine, f"{NS}/{name}", scene.now.timestamp())
    assert wait is not None
    assert [option.fits for group in wait.groups for option in group] == [False]
    return [one for one in sentences(plain(wait)) if "lavor" in one or "Estimate" in one]


@pytest.mark.parametrize(("count", "never"), [(3, False), (5, True)])
def test_why_says_that_there_is_no_place_though_there_is_quota(count: int, never: bool) -> None:
    scene = with_topology(("n1", "r1", "4"))
    submit(scene, "runs", count=2)
    scene.settle()
    submit(scene, "waits", count=count)
    scene.settle()
    (said,) = told(scene, "waits")
    assert said.startswith('In flavor gpu there is no place for it: topology "racks" allows to fit only 2 out of')
    wait = explain(scene.controller.index.engine, f"{NS}/waits", scene.now.timestamp())
    assert wait is not None
    assert wait.groups[0][0].never is never
    found = estimate(scene.controller.index, Durations([]), f"{NS}/waits", wait, scene.now)
    assert found.reason == (NOWHERE if never else NO_RUNS)
    scene.finish("runs")
    scene.settle()
    assert is_placed(scene, "waits") is not never


def is_placed(scene: Scene, name: str) -> bool:
    return "admission" in scene.status(name)
