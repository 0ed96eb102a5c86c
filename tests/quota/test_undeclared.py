"""What pods ask for that their ClusterQueue does not name: Kueue's `resources.quotaCheckStrategy` (KEP-7513)."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.hosting import engine_settings
from controlplane.controllers.quota.engine.explain import explain
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.settings.load import resolve
from tests.quota.admission.scene import GPU, NS, Scene, pod_set
from tests.support.rows import each


def test_a_workload_waits_for_what_its_queue_does_not_name() -> None:
    scene = Scene()
    scene.queue("q")
    scene.workload("w", "q", podSets=[pod_set("main", cpu="2", gpu="100")])
    scene.settle()
    assert f"resource {GPU} unavailable in ClusterQueue" in scene.condition("w", "QuotaReserved")["message"]


def test_it_counts_nowhere_where_it_is_ignored() -> None:
    scene = Scene(ignore_undeclared=True)
    scene.queue("q", "3")
    scene.workload("w", "q", podSets=[pod_set("main", cpu="2", gpu="100")])
    scene.workload("x", "q", podSets=[pod_set("main", cpu="2", gpu="100")])
    scene.settle()
    [given] = scene.status("w")["admission"]["podSetAssignments"]
    assert (given["flavors"], given["resourceUsage"]) == ({"cpu": "default"}, {"cpu": "2"})
    assert scene.posted()[f"admission/workload/{NS}/w"] == {("q", "default", "cpu"): 2000}
    assert "insufficient unused quota for cpu" in scene.condition("x", "QuotaReserved")["message"]


@each(
    ("ignored", "requests"),
    [(True, {"gpu": "1"}), (True, {"memory": "1Gi", "gpu": "0"}), (False, {"gpu": "0"})],
    ids=["undeclared", "several", "nothing of it"],
)
@pytest.mark.parametrize("first", [True, False])
def test_pod_sets_after_one_that_asks_for_nothing_that_counts_have_quota_too(
    ignored: bool, requests: dict[str, str], first: bool
) -> None:
    scene = Scene(ignore_undeclared=ignored)
    scene.queue("q")
    several = [pod_set("launcher", **requests), pod_set("workers", cpu="2")]
    scene.workload("w", "q", podSets=several if first else several[::-1])
    scene.settle()
    given = {one["name"]: one.get("flavors", {}) for one in scene.status("w")["admission"]["podSetAssignments"]}
    assert given == {"launcher": {}, "workers": {"cpu": "default"}}
    assert scene.posted()[f"admission/workload/{NS}/w"] == {("q", "default", "cpu"): 2000}


def test_a_workload_that_asks_for_nothing_that_counts_is_admitted() -> None:
    scene = Scene(ignore_undeclared=True)
    scene.queue("q", "0")
    scene.workload("w", "q", podSets=[pod_set("main", gpu="1")])
    scene.settle()
    assert scene.is_true("w", "Admitted")


def test_past_usage_is_of_what_counts() -> None:
    sharing = AdmissionFairSharing(half_life=10.0, sampling_interval=10.0, weights={})
    scene = Scene(past_usage=sharing, ignore_undeclared=True)
    scene.queue("q", admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"})
    scene.workload("w", "q", podSets=[pod_set("main", cpu="2", gpu="100")])
    scene.settle()
    [decided] = [one.event for one in scene.log if isinstance(one.event, events.QuotaReservationDecided)]
    assert decided.penalty == {"cpu": "1"}


def test_why_names_what_is_not_there_unless_it_is_ignored() -> None:
    for ignored in (False, True):
        scene = Scene(ignore_undeclared=ignored)
        scene.queue("q", "1")
        scene.workload("w", "q", podSets=[pod_set("main", cpu="2", gpu="1")])
        scene.settle()
        wait = explain(scene.controller.index.engine, f"{NS}/w", scene.now.timestamp())
        assert wait is not None
        assert wait.uncovered == (() if ignored else (GPU,))


def test_the_setting_is_that_of_kueue(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("quota: {resources: {quotaCheckStrategy: IgnoreUndeclared}}")
    assert engine_settings(resolve(file, {}).settings).ignore_undeclared
    assert not engine_settings(resolve(None, {}).settings).ignore_undeclared


@each(
    ("text", "said"),
    [
        ("quotaCheckStrategy: Ignore", 'must be BlockUndeclared or IgnoreUndeclared, not "Ignore"'),
        ("quotaCheckStrategy: IgnoreUndeclared, excludeResourcePrefixes: [a]", "excludeResourcePrefixes is set and"),
    ],
    ids=["unknown", "both"],
)
def test_what_does_not_go_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"quota: {{resources: {{{text}}}}}")
    with pytest.raises(Exception, match=r"quota\.resources\.") as problem:
        resolve(file, {})
    assert said in str(problem.value)
