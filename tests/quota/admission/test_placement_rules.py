"""How pods are placed in topologies, by the settings (`quota.topology`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controlplane.controllers.quota.admission.events import AdmissionInputRefused
from controlplane.controllers.quota.admission.hosting import engine_settings
from controlplane.controllers.quota.topology.model import PlacementRules
from controlplane.kube.kinds import Json
from controlplane.settings import load
from tests.quota.admission.placed import HOST, RACK, have_topology, places
from tests.quota.admission.scene import NS, Scene
from tests.support.rows import each

NODES = (("n1", "r1", "3"), ("n2", "r2", "3"))
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def placed(rules: PlacementRules, count: int = 4, preferred: list[Json] | None = None) -> Scene:
    scene = have_topology(Scene(placement=rules), *NODES)
    spec: Json = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    if preferred:
        spec["affinity"] = {"nodeAffinity": {PREFERRED: preferred}}
    one = {"name": "main", "count": count, "template": {"spec": spec}, "topologyRequest": {"preferred": RACK}}
    scene.workload("w", "q", podSets=[one])
    scene.settle()
    return scene


def preferring(operator: str = "In", weight: int = 10, **more: Any) -> list[Json]:
    return [{"weight": weight, "preference": {"matchExpressions": [{"key": HOST, "operator": operator, **more}]}}]


def test_pods_are_spread_evenly_only_if_that_is_asked_for() -> None:
    assert places(placed(PlacementRules()), "w") == {"n1": 3, "n2": 1}
    assert places(placed(PlacementRules(balanced=True)), "w") == {"n1": 2, "n2": 2}


def test_preferred_nodes_come_first_only_if_that_is_asked_for() -> None:
    asked = preferring(values=["n2"])
    assert places(placed(PlacementRules(), 2, asked), "w") == {"n1": 2}
    assert places(placed(PlacementRules(preferred_affinity=True), 2, asked), "w") == {"n2": 2}


def test_a_preference_that_does_not_parse_is_named() -> None:
    scene = placed(PlacementRules(preferred_affinity=True), 2, preferring("Near"))
    (told,) = [one["message"] for one in scene.status("w")["conditions"] if one["type"] == "QuotaReserved"]
    assert f"invalid preferred node affinity terms, reason: {PREFERRED}[0].preference" in told
    assert "Near" in told


def test_what_was_folded_anew_places_alike() -> None:
    scene = placed(PlacementRules(preferred_affinity=True), 2, preferring(values=["n2"]))
    anew, found = (one.index.engine.snapshot.workloads for one in (scene.replayed(), scene.controller))
    assert anew[f"{NS}/w"].workload.pod_sets == found[f"{NS}/w"].workload.pod_sets
    assert anew[f"{NS}/w"].workload.pod_sets[0].nodes.preferred


def test_the_settings_are_what_the_engine_goes_by(tmp_path: Path) -> None:
    written = tmp_path / "settings.yaml"
    written.write_text("quota: {mode: builtin}")
    assert engine_settings(load(written, {})).placement == PlacementRules()
    written.write_text("quota: {mode: builtin, topology: {balancedPlacement: yes, preferredNodeAffinity: yes}}")
    assert engine_settings(load(written, {})).placement == PlacementRules(balanced=True, preferred_affinity=True)


@each("weight", ["10", 1.5, True])
def test_a_weight_that_is_no_number_is_refused_by_name(weight: Any) -> None:
    scene = placed(PlacementRules(preferred_affinity=True), 2, preferring(weight=weight, values=["n2"]))
    (refused,) = [e.event for e in scene.log if isinstance(e.event, AdmissionInputRefused)]
    assert f"{PREFERRED}[0].weight: expected an integer" in refused.error


def test_a_preference_without_a_weight_weighs_nothing() -> None:
    (asked,) = preferring(values=["n2"])
    del asked["weight"]
    assert places(placed(PlacementRules(preferred_affinity=True), 2, [asked]), "w") == {"n1": 2}
