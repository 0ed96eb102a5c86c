"""What of a pod's requests counts as quota."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.quota.admission.hosting import resource_rules
from controlplane.controllers.quota.engine.resource_rules import ResourceRules, ResourceTransformation
from controlplane.settings.load import resolve
from tests.quota.admission.scene import NS, Scene
from tests.support.rows import each

GPU, CORES, CREDITS = "nvidia.com/gpu", "nvidia.com/gpucores", "example.com/credits"


def made(multiply_by: str = "", *, replaces: bool = False, **outputs: Fraction | int) -> ResourceTransformation:
    return ResourceTransformation({name: Fraction(one) for name, one in outputs.items()}, replaces, multiply_by)


@each(
    ("rules", "asked", "counts"),
    [
        (ResourceRules(), {"cpu": 1}, {"cpu": 1}),
        (ResourceRules(("net.", "example.com/x")), {"cpu": 1, "net.example/y": 2, "example.com/x-y": 3}, {"cpu": 1}),
        (
            ResourceRules(("example.com/x",)),
            {"example.com/y": 2, "my.example.com/x": 1},
            {"example.com/y": 2, "my.example.com/x": 1},
        ),
        (ResourceRules((), {"cpu": made(credits=2)}), {"cpu": 1500}, {"cpu": 1500, "credits": 3}),
        (ResourceRules((), {"cpu": made(credits=2)}), {"cpu": 1100}, {"cpu": 1100, "credits": 3}),  # rounded up
        (ResourceRules((), {"cpu": made(replaces=True)}), {"cpu": 1, "memory": 1}, {"memory": 1}),
        (ResourceRules((), {"m": made(replaces=True, memory=5 * 1024)}), {"m": 2, "memory": 100}, {"memory": 10340}),
        (ResourceRules((), {"g": made("n", replaces=True, c=1)}), {"g": 30, "n": 4}, {"n": 4, "c": 120}),
        (ResourceRules((), {"g": made("n", replaces=True, c=1)}), {"g": 30}, {"c": 30}),  # nothing to multiply by
        (ResourceRules((), {"g": made("cpu", c=1)}), {"g": 3, "cpu": 500}, {"g": 3, "cpu": 500, "c": 2}),
        (ResourceRules((), {"g": made(c=-1), "h": made(c=2)}), {"g": 3, "h": 2}, {"g": 3, "h": 2, "c": 1}),
        (ResourceRules((), {"g": made(c=-1)}), {"g": 3, "c": 5}, {"g": 3, "c": 5}),  # takes nothing from a request
        (ResourceRules((), {"g": made(cpu=Fraction(1, 2))}), {"g": 3, "cpu": 100}, {"g": 3, "cpu": 1600}),
        (
            ResourceRules(("n",), {"g": made("n", c=1)}),
            {"g": 3, "n": 5},
            {"g": 3, "c": 3},
        ),  # what is left out multiplies nothing
    ],
)
def test_what_counts(rules: ResourceRules, asked: dict[str, int], counts: dict[str, int]) -> None:
    assert rules.counted(asked) == counts


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 10**6)),
    st.dictionaries(
        st.sampled_from("abcd"),
        st.builds(
            ResourceTransformation,
            st.dictionaries(st.sampled_from("abxy"), st.fractions(-3, 3, max_denominator=8)),
            st.booleans(),
            st.sampled_from(["", "a", "d"]),
        ),
    ),
)
def test_nothing_is_negative_and_what_is_retained_is_not_less(
    asked: dict[str, int], rules: dict[str, ResourceTransformation]
) -> None:
    counts = ResourceRules((), rules).counted(asked)
    assert all(amount >= 0 for amount in counts.values())
    for name, amount in asked.items():
        if name not in rules or not rules[name].replaces:
            assert counts[name] >= amount


SETTINGS = """
quota:
  resources:
    excludeResourcePrefixes: [networking.example.com/]
    transformations:
    - input: nvidia.com/gpu
      outputs: {example.com/credits: 10}
    - {input: nvidia.com/gpucores, strategy: Replace, multiplyBy: nvidia.com/gpu, outputs: {example.com/total-cores: "1"}}
"""


def test_settings_are_those_of_kueue(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(SETTINGS)
    rules = resource_rules(resolve(file, {}).settings)
    assert rules.excluded == ("networking.example.com/",)
    asked = {GPU: 2, CORES: 30, "networking.example.com/vpc": 1}
    assert rules.counted(asked) == {GPU: 2, CREDITS: 20, "example.com/total-cores": 60}


@pytest.mark.parametrize(
    ("given_text", "said"),
    [
        ("[{outputs: {a: 1}}]", '[0].input is "None", which is no name of a resource'),
        ("[{input: a, strategy: Keep}]", '[0].strategy must be Retain or Replace, not "Keep"'),
        ("[{input: a}, {input: a}]", 'has two transformations of the input "a"'),
        ("[{input: a, outputs: {b: much}}]", "[0].outputs.b"),
        ("[{input: a, outputs: {b/c/d: 1}}]", '[0].outputs is "b/c/d", which is no name of a resource'),
        ("[{input: a, factor: 2}]", "[0] has no field factor"),
        ("{input: a}", "must be a list of transformations"),
    ],
)
def test_a_wrong_one_is_named(tmp_path: Path, given_text: str, said: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"quota: {{resources: {{transformations: {given_text}}}}}")
    with pytest.raises(Exception, match=r"quota\.resources\.transformations") as problem:
        resolve(file, {})
    assert said in str(problem.value)


def test_quota_is_reserved_for_what_counts() -> None:
    rules = ResourceRules(("memory",), {"cpu": made(replaces=True, **{CREDITS: Fraction(10)})})
    scene = Scene(resources=rules)
    groups = [
        {
            "coveredResources": [CREDITS],
            "flavors": [{"name": "default", "resources": [{"name": CREDITS, "nominalQuota": "50"}]}],
        }
    ]
    scene.queue("q", resourceGroups=groups)
    scene.workload("a", "q", "2", count=2)
    scene.workload("b", "q", "2")
    scene.settle()
    assert scene.status("a")["admission"]["podSetAssignments"][0]["resourceUsage"] == {CREDITS: "40"}
    assert "insufficient unused quota for example.com/credits" in scene.condition("b", "QuotaReserved")["message"]
    assert scene.status("b")["resourceRequests"] == [{"name": "main", "resources": {CREDITS: "20"}}]
    assert scene.posted()[f"admission/workload/{NS}/a"] == {("q", "default", CREDITS): 40}
