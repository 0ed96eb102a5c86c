"""Which labels of objects the metrics have: what is read, what is shown, and which sentence says what is wrong."""

from __future__ import annotations

import re
from typing import Any

import pytest

from controlplane.custom_labels import UNTRACKED, CustomLabels
from controlplane.settings.custom_metric_labels import CustomLabel, CustomLabelRules

RULE = CustomLabelRules()


def test_labels_are_read_as_kueue_writes_them_and_shown_so() -> None:
    raw = [
        {"name": "team", "sourceKind": "ClusterQueue"},
        {"name": "cost", "sourceKind": "LocalQueue", "sourceLabelKey": "billing/cost-center"},
        {"name": "note", "sourceKind": "Cohort", "sourceAnnotationKey": "note", "trackedValues": ["a", ""]},
        {"name": "sort", "sourceKind": "Workload", "sourceLabelKey": "example.com/sort", "trackedValues": ["x"]},
    ]
    found = RULE.read(raw)
    assert found == (
        CustomLabel("team", "ClusterQueue", "team"),
        CustomLabel("cost", "LocalQueue", "billing/cost-center"),
        CustomLabel("note", "Cohort", "", "note", ("a", "")),
        CustomLabel("sort", "Workload", "example.com/sort", "", ("x",)),
    )
    assert RULE.show(found) == raw
    assert RULE.read(RULE.show(found)) == found
    assert RULE.read('[{"name": "team"}]') == (CustomLabel("team", "ClusterQueue", "team"),)
    assert RULE.read("") == RULE.read([]) == ()


def several(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"l{n}", **fields} for n in range(count)]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("{", "must be a list of labels, in a variable as JSON"),
        ({"name": "team"}, "must be a list of labels, each with name, sourceKind and sourceLabelKey or"),
        (several(21, sourceKind="Cohort"), "has 21 labels: at most 20 are allowed"),
        (["team"], "[0] must have name and sourceKind"),
        ([{"name": "team", "key": "x"}], "[0] has no field key"),
        ([{}], '[0].name is "None": write letters, digits and "_", and a letter first, such as team'),
        ([{"name": "my-team"}], '[0].name is "my-team": write letters, digits and "_"'),
        ([{"name": "_team"}], '[0].name is "_team"'),
        (
            [{"name": "a", "sourceKind": "Job"}],
            "[0].sourceKind must be Cohort, LocalQueue, ClusterQueue or Workload, not",
        ),
        ([{"name": "a"}, {"name": "a"}], 'has two labels of the name "a": name each otherwise'),
        (
            [{"name": "a", "sourceLabelKey": "b", "sourceAnnotationKey": "c"}],
            "[0] has sourceLabelKey and sourceAnnotationKey: leave one of them out",
        ),
        (
            [{"name": "a", "sourceLabelKey": "b c"}],
            '[0].sourceLabelKey is "b c", which is no key of a label: write one such',
        ),
        ([{"name": "a", "sourceLabelKey": "B.com/c"}], '[0].sourceLabelKey is "B.com/c", which is no key of a label'),
        (
            [{"name": "a", "sourceAnnotationKey": "/c"}],
            '[0].sourceAnnotationKey is "/c", which is no key of an annotation',
        ),
        ([{"name": "a" * 64}], "which is no key of a label"),
        ([{"name": "a_"}], '[0].name is "a_", which is no key of a label'),
        ([{"name": "a", "trackedValues": "x"}], "[0].trackedValues must be a list of texts"),
        ([{"name": "a", "trackedValues": ["x", "x"]}], '[0].trackedValues names "x" twice'),
        ([{"name": "a", "sourceKind": "Workload"}], "[0].trackedValues is empty: name the 1 to 12 values"),
        (
            [{"name": "a", "sourceKind": "Workload", "trackedValues": [str(n) for n in range(13)]}],
            "[0].trackedValues has 13 values: at most 12 are allowed for sourceKind Workload",
        ),
        (
            [{"name": "a", "trackedValues": [str(n) for n in range(17)]}],
            "[0].trackedValues has 17 values: at most 16 are allowed for sourceKind ClusterQueue",
        ),
        (several(7), "has 7 labels of sourceKind ClusterQueue: at most 6 are allowed"),
        (
            several(3, sourceKind="Workload", trackedValues=["x"]),
            "has 3 labels of sourceKind Workload: at most 2 are allowed",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(raw: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        RULE.read(raw)


@pytest.mark.parametrize(
    ("labels", "notes", "values"),
    [
        ({"team": "a", "sort": "x"}, {"note": "n"}, ("a", "x", "n")),
        ({}, {}, ("", UNTRACKED, "")),
        ({"team": "", "sort": "other"}, {"team": "b"}, ("", UNTRACKED, "")),
    ],
)
def test_an_object_gives_a_value_to_each_label_of_its_kind(
    labels: dict[str, str], notes: dict[str, str], values: tuple[str, ...]
) -> None:
    custom = CustomLabels(
        (
            CustomLabel("team", "ClusterQueue", "team"),
            CustomLabel("other", "LocalQueue", "team"),
            CustomLabel("sort", "ClusterQueue", "sort", "", ("x",)),
            CustomLabel("note", "ClusterQueue", "", "note"),
        )
    )
    assert custom.values("ClusterQueue", labels, notes) == values
    assert custom.values("Cohort", labels, notes) == custom.unknown("Cohort") == ()


def test_names_are_by_kind_then_as_they_are_written() -> None:
    custom = CustomLabels(
        (
            CustomLabel("w", "Workload", "w", "", ("x",)),
            CustomLabel("b", "ClusterQueue", "b"),
            CustomLabel("a", "ClusterQueue", "a"),
        )
    )
    assert custom.names("Workload", "ClusterQueue") == ("custom_b", "custom_a", "custom_w")
    assert custom.names("Cohort") == custom.names() == ()
    assert custom.kinds == {"Workload", "ClusterQueue"}
