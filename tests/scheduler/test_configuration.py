"""Profiles in KubeSchedulerConfiguration's words, and what is said of those that are wrong."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.app.scheduler_plugins import PluginError, registry
from controlplane.app.scheduler_profiles import BadConfiguration, load
from controlplane.controllers.scheduling.framework.configuration import API_VERSION, ConfigurationError, build, read
from controlplane.controllers.scheduling.framework.plugin import CycleState, FilterPlugin, ScorePlugin
from controlplane.controllers.scheduling.framework.registry import DEFAULT_MULTI_POINT, IN_TREE
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.framework.status import SUCCESS, Status
from controlplane.controllers.scheduling.plugins.node_basics import NodeName
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.kube.kinds import Json
from tests.support.rows import each


class Mine(FilterPlugin, ScorePlugin):
    name = "Mine"

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, info: NodeInfo) -> int:
        return 0


ALL = {**IN_TREE, "Mine": Mine}


def profile(**plugins: Any) -> Framework:
    listed = {"schedulerName": "mine", "plugins": plugins}
    return build(read({"profiles": [listed]}), ALL)["mine"]


def names(framework: Framework, point: str) -> list[str]:
    return [plugin.name for plugin in framework.points[point]]


def enabled(*entries: str | tuple[str, int], disabled: tuple[str, ...] = ()) -> Json:
    listed = [{"name": e} if isinstance(e, str) else {"name": e[0], "weight": e[1]} for e in entries]
    return {"enabled": listed, "disabled": [{"name": name} for name in disabled]}


def test_the_default_profile() -> None:
    framework = build(read({}))["default-scheduler"]
    assert names(framework, "filter") == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
    ]
    weighted = {plugin.name: weight for plugin, weight in DEFAULT_MULTI_POINT if weight}
    assert framework.weights == weighted


def test_a_plugin_of_ones_own_comes_last_and_may_replace_all() -> None:
    added = profile(multiPoint=enabled(("Mine", 5)))
    assert names(added, "filter")[-1] == "Mine"
    assert added.weights["Mine"] == 5
    replaced = profile(multiPoint=enabled("PrioritySort", "DefaultBinder", "Mine", disabled=("*",)))
    assert names(replaced, "filter") == ["Mine"]
    assert replaced.weights == {"Mine": 1}


def test_a_point_of_its_own_overrides_multi_point() -> None:
    framework = profile(score=enabled(("NodeResourcesFit", 9), disabled=("ImageLocality", "NodeResourcesFit")))
    assert names(framework, "score")[0] == "NodeResourcesFit"
    assert "ImageLocality" not in names(framework, "score")
    assert framework.weights["NodeResourcesFit"] == 9
    assert "NodeResourcesFit" in names(framework, "filter")
    assert names(profile(score=enabled("Mine")), "filter").count("Mine") == 0


def test_args_reach_their_plugin() -> None:
    config = [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
        {"name": "InterPodAffinity", "args": {"kind": "InterPodAffinityArgs", "hardPodAffinityWeight": 5}},
    ]
    framework = build(read({"profiles": [{"pluginConfig": config}]}))["default-scheduler"]
    plugins = {plugin.name: plugin for plugin in framework.points["filter"]}
    assert plugins["NodeResourcesFit"].args.scoring_strategy.type == "MostAllocated"
    assert plugins["InterPodAffinity"].args.hard_pod_affinity_weight == 5
    assert plugins["NodeResourcesFit"] in framework.points["score"]  # one plugin, whatever the number of its points


@pytest.mark.parametrize(
    ("everywhere", "here", "expected"), [(None, None, 100), (30, None, 30), (30, 0, 0), (None, 50, 50)]
)
def test_a_profile_may_look_at_fewer_nodes(everywhere: int | None, here: int | None, expected: int) -> None:
    profiles = [{"percentageOfNodesToScore": here}]
    framework = build(read({"percentageOfNodesToScore": everywhere, "profiles": profiles}))["default-scheduler"]
    assert framework.percentage == expected


def args(plugin: str, **given: Any) -> Json:
    return {"profiles": [{"pluginConfig": [{"name": plugin, "args": given}]}]}


HERE = "profiles[0].pluginConfig[0].args"


@each(
    ("configuration", "problem"),
    [
        ({"apiVersion": "v2"}, "apiVersion: 'v2' is not kubescheduler.config.k8s.io/v1"),
        ({"profiles": []}, "profiles: at least one is needed"),
        ({"profiles": [{"schedulerName": 1}]}, "profiles[0].schedulerName: must be text, not a whole number"),
        ({"profiles": [{}, {}]}, "profiles[1].schedulerName: 'default-scheduler' stands there twice"),
        ({"podMaxBackoffSecond": 30}, "podMaxBackoffSecond: there is no such field"),
        (
            {"extenders": [{"urlPrefix": "http://x"}]},
            "extenders: none is called by this scheduler; leave them out, or write a plugin",
        ),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: 101 is not within 0…100"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: 0 is not above 0"),
        ({"profiles": [{"plugin": {}}]}, "profiles[0]: there is no field plugin"),
        ({"profiles": [{"plugins": {"filtre": {}}}]}, "profiles[0].plugins.filtre: there is no such extension point"),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Nope"}]}}}]},
            "profiles[0].plugins.filter.enabled[0].name: plugin 'Nope' is not registered",
        ),
        (
            {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "NodeDeclaredFeatures"}]}}}]},
            "profiles[0].plugins.multiPoint.enabled[0].name: plugin 'NodeDeclaredFeatures' is not in this scheduler",
        ),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "ImageLocality"}]}}}]},
            "profiles[0].plugins.filter.enabled[0].name: plugin 'ImageLocality' has no filter",
        ),
        (
            {"profiles": [{"plugins": {"queueSort": {"disabled": [{"name": "*"}]}}}]},
            "profiles[0].plugins.queueSort: exactly one plugin is needed",
        ),
        (
            {"profiles": [{"plugins": {"bind": {"disabled": [{"name": "*"}]}}}]},
            "profiles[0].plugins.bind: at least one plugin is needed",
        ),
        (args("NodeName", x=1), f"{HERE}: plugin 'NodeName' takes none"),
        (args("InterPodAffinity", hardPodAffinityWeight=101), f"{HERE}.hardPodAffinityWeight: 101 is not within 0…100"),
        (
            args("InterPodAffinity", hardPodAffinityWeight="x"),
            f"{HERE}.hardPodAffinityWeight: must be a whole number, not text",
        ),
        (
            args("PodTopologySpread", defaultConstraints=[{}]),
            f"{HERE}.defaultConstraints: may only be given with defaultingType List",
        ),
        (
            args(
                "PodTopologySpread",
                defaultingType="List",
                defaultConstraints=[{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
            ),
            f"{HERE}.defaultConstraints[0].maxSkew: None is not above 0",
        ),
        (
            args("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"}),
            f"{HERE}.scoringStrategy.requestedToCapacityRatio.shape: RequestedToCapacityRatio needs at least one point",
        ),
        (
            args("NodeResourcesFit", scoringStrategy={"resources": [{"name": "cpu", "weight": 101}]}),
            f"{HERE}.scoringStrategy.resources[0].weight: 101 is not within 1…100",
        ),
        (
            args("DefaultPreemption", minCandidateNodesPercentage=-1),
            f"{HERE}.minCandidateNodesPercentage: -1 is not within 0…100",
        ),
    ],
)
def test_every_problem_names_its_field(configuration: Json, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build(read(configuration))
    assert problem in caught.value.problems


def test_what_kube_scheduler_is_told_besides_is_no_problem() -> None:
    read({"leaderElection": {"leaderElect": False}, "clientConnection": {}, "enableProfiling": False, "extenders": []})


def test_a_file_is_refused_with_all_that_is_wrong_with_it(tmp_path: Path) -> None:
    file = tmp_path / "profiles.yaml"
    twice = [{"schedulerName": "a", "plugins": {"filter": {"enabled": [{"name": "Nope"}]}}}, {"schedulerName": "a"}]
    file.write_text(
        yaml.safe_dump(
            {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "podBackoff": 1, "profiles": twice}
        )
    )
    with pytest.raises(BadConfiguration) as refused:
        load(str(file))
    assert str(refused.value).splitlines() == [
        f"{file}: podBackoff: there is no such field",
        f"{file}: profiles[1].schedulerName: 'a' stands there twice",
        f"{file}: profiles[0].plugins.filter.enabled[0].name: plugin 'Nope' is not registered",
    ]


def test_what_is_not_here_may_be_disabled() -> None:
    assert profile(multiPoint=enabled(disabled=("DynamicResources",))).scheduler_name == "mine"


class Impostor(NodeName):
    """Takes a name that is taken."""


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "controlplane.scheduler.plugins")


def test_plugins_are_found_by_entry_point() -> None:
    found = registry([entry("Mine", "tests.scheduler.test_configuration:Mine")])
    assert found["Mine"].name == "Mine"
    assert set(IN_TREE) <= set(registry())


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("Gone", "controlplane.controllers.scheduling.nowhere:Gone", "cannot be imported"),
        ("Gone", "controlplane.controllers.scheduling.framework.registry:Gone", "cannot be imported"),
        ("Group", "controlplane.controllers.scheduling.framework.registry:GROUP", "is not a Plugin class"),
        (
            "Fit",
            "controlplane.controllers.scheduling.plugins.node_resources:NodeResourcesFit",
            "the two must be the same",
        ),
        ("NodeName", "tests.scheduler.test_configuration:Impostor", "there is a plugin of that name already"),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_named(name: str, value: str, problem: str) -> None:
    with pytest.raises(PluginError, match=problem) as caught:
        registry([entry(name, value)])
    assert repr(name) in str(caught.value)
