"""Profiles in KubeSchedulerConfiguration's words, and what is said of those that are wrong."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.app.scheduler_plugins import PluginError, registry
from controlplane.app.scheduler_profiles import BadConfiguration, load
from controlplane.controllers.scheduling.framework.args import CPU_AND_MEMORY
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
    framework = profile(score=enabled(("NodeResourcesFit", 9), disabled=("ImageLocality",)))
    assert names(framework, "score")[0] == "NodeResourcesFit"
    assert "ImageLocality" not in names(framework, "score")
    assert framework.weights["NodeResourcesFit"] == 9
    assert "NodeResourcesFit" in names(framework, "filter")
    assert names(profile(score=enabled("Mine")), "filter").count("Mine") == 0


def test_what_a_point_turns_off_and_names_itself_has_the_order_of_the_point() -> None:
    """`expandMultiPointPlugins` in kubernetes/kubernetes pkg/scheduler/framework/runtime/framework.go, v1.36."""
    alone = profile(filter=enabled("Mine", "NodePorts", "NodeName", disabled=("*",)))
    assert names(alone, "filter") == ["Mine", "NodePorts", "NodeName"]
    again = profile(filter=enabled("Mine", "NodeName", disabled=("NodeName",)))
    assert names(again, "filter")[0] == "NodeUnschedulable"
    assert names(again, "filter")[-2:] == ["Mine", "NodeName"]


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
ADDED = "profiles[0].pluginConfig[NodeAffinity].args.addedAffinity"
NEAR = 'matchExpressions[0].operator: "Near" is not an operator'
WRONG = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


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
        ({"podMaxBackoffSeconds": float("inf")}, "podMaxBackoffSeconds: must not be a century or more"),
        ({"podMaxBackoffSeconds": float("nan")}, "podMaxBackoffSeconds: must not be a century or more"),
        ({"parallelism": 0}, "parallelism: 0 is not above 0"),
        (
            {"profiles": [{"schedulerName": "a"}, {}]},
            "profiles[1].schedulerName: of several profiles each needs one",
        ),
        (
            {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "NodeName"}, {"name": "NodeName"}]}}}]},
            "profiles[0].plugins.multiPoint.enabled[1].name: 'NodeName' stands there twice",
        ),
        (
            {"profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]}}}]},
            "profiles[0].plugins.score.enabled[1].name: 'NodeAffinity' stands there twice",
        ),
        (
            {"profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeAffinity", "weight": 2**31}]}}}]},
            "profiles[0].plugins.score.enabled[0].weight: 2147483648 has more than 32 bits",
        ),
        (
            {"profiles": [{"plugins": {"placementScore": {"enabled": [{"name": "NodeName"}]}}}]},
            "profiles[0].plugins.placementScore: there is no such extension point",
        ),
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
        (args("NodeAffinity", kind="NodeArgs"), f"{HERE}.kind: 'NodeArgs' is not NodeAffinityArgs"),
        (args("NodeAffinity", apiVersion="v1"), f"{HERE}.apiVersion: 'v1' is not {API_VERSION}"),
        (
            args("NodeAffinity", addedAffinity={"requiredDuringSchedulingIgnoredDuringExecution": WRONG}),
            f"{ADDED}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].{NEAR}",
        ),
        (
            args(
                "NodeAffinity",
                addedAffinity={
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": WRONG["nodeSelectorTerms"][0]}
                    ]
                },
            ),
            f"{ADDED}.preferredDuringSchedulingIgnoredDuringExecution[0].preference.{NEAR}",
        ),
        (
            args("NodeResourcesFit", ignoredResources=["a b"]),
            f"{HERE}.ignoredResources[0]: 'a b' is no name of a resource, such as example.com/gpu",
        ),
        (
            args("PodTopologySpread", defaultingType="List", defaultConstraints=[{**SPREAD, "maxSkew": True}]),
            f"{HERE}.defaultConstraints[0].maxSkew: must be a whole number, not true or false",
        ),
        (
            args("PodTopologySpread", defaultingType="List", defaultConstraints=[{**SPREAD, "maxSkwe": 1}]),
            f"{HERE}.defaultConstraints[0].constraint: there is no field maxSkwe",
        ),
        (
            args("PodTopologySpread", defaultingType="List", defaultConstraints=[{**SPREAD, "topologyKey": "a b"}]),
            f"{HERE}.defaultConstraints[0].topologyKey: 'a b' is no key of a label, such as topology.kubernetes.io/zone",
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


@each(
    "configuration",
    [
        {"profiles": None, "parallelism": None, "podInitialBackoffSeconds": None, "extenders": None},
        {"profiles": [{"schedulerName": None, "plugins": None, "pluginConfig": None}]},
        {"profiles": [{"plugins": {"score": None, "filter": {"enabled": None, "disabled": None}}}]},
        {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": None}]}]},
        {"profiles": [{"plugins": {"placementGenerate": {}, "placementScore": {}}}]},
    ],
)
def test_a_field_with_nothing_after_it_says_nothing(configuration: Json) -> None:
    """As with kube-scheduler, whose own `--write-config-to` writes points without plugins."""
    assert list(build(read(configuration))) == ["default-scheduler"]


@each("plugin", ["NodeResourcesFit", "NodeResourcesBalancedAllocation"])
def test_no_resources_are_the_usual_ones(plugin: str) -> None:
    empty: Json = {"resources": []}
    (made,) = build(read(args(plugin, **({"scoringStrategy": empty} if plugin.endswith("Fit") else empty)))).values()
    (its,) = (one for one in made.points["score"] if one.name == plugin)
    told: Any = its.args
    assert (told.scoring_strategy if plugin.endswith("Fit") else told).resources == CPU_AND_MEMORY


def test_what_kube_scheduler_is_told_besides_is_no_problem() -> None:
    read({"leaderElection": {"leaderElect": False}, "clientConnection": {}, "enableProfiling": False, "extenders": []})


TENFOLD = "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10) if at else 'x'}]\n" for at in range(12))
MERGED = TENFOLD.replace("[*", "{<<: [*").replace("]\n", "]}\n").replace("[x]}", "{k: 1}")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{TENFOLD}profiles: *a11\n", "is too large once its aliases are written out; write it shorter"),
        (f"{MERGED}profiles: *a11\n", "is not YAML: it is too large once its merge keys (<<) are written out"),
        ("profiles: &a [*a]", "contains itself; write it out"),
        ("profiles: " + "[" * 5000, "is nested too deep to be read; write it flatter"),
        ("a: [", "is not YAML"),
        ("profiles: []\n---\nprofiles: []\n", "holds 2 documents: write one"),
        ("", "is not a KubeSchedulerConfiguration, but NoneType"),
        ("- a", "is not a KubeSchedulerConfiguration, but list"),
    ],
    ids=["aliases", "merge keys", "itself", "deep", "syntax", "two", "empty", "list"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text(text)
    with pytest.raises(BadConfiguration) as refused:
        load(str(file))
    assert str(refused.value).startswith(f"scheduler.config: {file} {problem}")


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
