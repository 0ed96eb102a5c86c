"""The rule list: what is accepted, what is refused and with which words."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.podgroups.documents import find_rules
from controlplane.controllers.podgroups.rules import (
    DATA_KEY,
    DEFAULT_DOCUMENT,
    Complaint,
    OwnerRule,
    Rules,
    RulesInvalid,
    read_config_map,
    read_document,
    read_text,
)
from tests.podgroups.scenes import ref
from tests.support.rows import each

DEPLOYMENT = {"apiversion": "apps/v1", "kind": "deployment"}


def levels(found: Rules) -> dict[tuple[str, str], int]:
    return {(rule.api_version, rule.kind): rule.adjust_level for rule in found.entries}


def refusal(document: object) -> list[str]:
    with pytest.raises(RulesInvalid) as refused:
        read_document(document)
    return [str(complaint) for complaint in refused.value.complaints]


def test_the_sample() -> None:
    assert levels(read_text(DEFAULT_DOCUMENT)) == {
        ("apps/v1", "deployment"): 0,
        ("batch/v1", "job"): 0,
        ("argoproj.io/v1alpha1", "workflow"): -1,
    }


@each(
    "entry",
    [
        {"apiversion": "apps/v1", "kind": "deployment"},
        {"apiVersion": "apps/v1", "kind": "deployment", "adjust-level": 0},
        {"APIVERSION": "apps/v1", "Kind": "Deployment", "Adjust-Level": None},
    ],
)
@each("key", ["podgroup-level-rules", "podgroupLevel"])
def test_spellings_of_keys_and_kinds(key: str, entry: dict[str, object]) -> None:
    found = read_document({key: [entry]})
    rule = found.match(ref("Deployment", "web"))
    assert rule is not None
    assert rule.adjust_level == 0


@pytest.mark.parametrize("kind", ["deployments", "deploy", "Deployment.apps"])
def test_plurals_and_short_names_do_not_match(kind: str) -> None:
    found = read_document({"podgroup-level-rules": [{"apiversion": "apps/v1", "kind": kind}]})
    assert found.match(ref("Deployment", "web")) is None


@pytest.mark.parametrize("api_version", ["apps/v1beta1", "v1", "apps", "Apps/v1", "extensions/v1"])
def test_the_api_version_is_exact(api_version: str) -> None:
    found = read_document({"podgroup-level-rules": [{"apiversion": api_version, "kind": "Deployment"}]})
    assert found.match(ref("Deployment", "web")) is None


@pytest.mark.parametrize(
    "document", [None, {}, {"podgroup-level-rules": []}, {"podgroupLevel": None}, {"something-else": [1]}]
)
def test_no_rules(document: object) -> None:
    assert not read_document(document)


def test_identical_entries_are_one() -> None:
    twice = [DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment", "adjust-level": 0}]
    assert len(read_document({"podgroup-level-rules": twice}).entries) == 1


@each(
    ("entry", "told"),
    [
        ({"kind": "job"}, "entry 1: apiversion: is missing; write the kind's group and version"),
        ({"apiversion": "", "kind": "job"}, "entry 1: apiversion: is missing"),
        ({"apiversion": "batch/v1"}, "entry 1: kind: is missing; write the kind's name in the singular"),
        ({"apiversion": 1, "kind": "job"}, "entry 1: apiversion: is 1, a number"),
        ({"apiversion": "a/b/v1", "kind": "job"}, 'entry 1: apiversion: is "a/b/v1", text'),
        ({"apiversion": "batch/", "kind": "job"}, 'entry 1: apiversion: is "batch/", text'),
        ({"apiversion": "batch/v1", "kind": ["job"]}, "entry 1: kind: is a list"),
        ({"apiversion": "batch/v1", "kind": "my job"}, 'entry 1: kind: is "my job", text, with blanks in it'),
        (DEPLOYMENT | {"adjust-level": 1}, "entry 1: adjust-level: is 1; write zero or a negative number"),
        (DEPLOYMENT | {"adjust-level": "-1"}, 'entry 1: adjust-level: is "-1", text; write an integer without quotes'),
        (DEPLOYMENT | {"adjust-level": -1.0}, "entry 1: adjust-level: is -1.0, a number; write an integer"),
        (DEPLOYMENT | {"adjust-level": True}, "entry 1: adjust-level: is true, a truth value"),
        (DEPLOYMENT | {"adjust-level": False}, "entry 1: adjust-level: is false, a truth value"),
        (DEPLOYMENT | {"level": -1}, "entry 1: level: is no field of an entry; there are apiversion"),
        (DEPLOYMENT | {"Kind": "job"}, "entry 1: Kind: is there twice, in two spellings"),
        ("deployment", 'entry 1: is "deployment", text; write an object'),
    ],
)
def test_refused_entries(entry: object, told: str) -> None:
    (complaint,) = refusal({"podgroup-level-rules": [entry]})
    assert complaint.startswith(told)


def test_two_levels_for_one_kind() -> None:
    entries = [DEPLOYMENT, {"apiversion": "apps/v1", "kind": "Deployment", "adjust-level": -1}]
    (complaint,) = refusal({"podgroup-level-rules": entries})
    assert complaint == (
        "entry 2: adjust-level: is -1, but entry 1 says 0 for apps/v1 Deployment; keep one of the two entries"
    )


@pytest.mark.parametrize("other", [[], None, [DEPLOYMENT]])
def test_both_lists_are_refused(other: object) -> None:
    (complaint,) = refusal({"podgroup-level-rules": [DEPLOYMENT], "podgroupLevel": other})
    assert "podgroup-level-rules and podgroupLevel: are both there" in complaint


@pytest.mark.parametrize(
    "key",
    ["podgroup-level-rule", "podgroup-levels", "podGroupLevelRules", "podgroup_level_rules", "PodGroup level rules"],
)
def test_a_misspelt_list_is_no_document_without_rules(key: str) -> None:
    """Without rules every pod's own owner has its group, and keeps it."""
    (complaint,) = refusal({key: [DEPLOYMENT], "networkTopologyDiscovery": []})
    assert complaint == f"the document: {key}: is no key of it; write podgroup-level-rules"


@pytest.mark.parametrize("document", [[DEPLOYMENT], "rules", 5, {"podgroup-level-rules": {"a": 1}}])
def test_what_is_no_list_of_entries(document: object) -> None:
    assert len(refusal(document)) == 1


def test_every_complaint_is_told_and_nothing_is_applied_by_halves() -> None:
    bad = [DEPLOYMENT, {"kind": "job"}, DEPLOYMENT | {"adjust-level": 2}, 7]
    assert [told.partition(":")[0] for told in refusal({"podgroupLevel": bad})] == ["entry 2", "entry 3", "entry 4"]


@each(
    "text",
    [
        "podgroup-level-rules: [",
        "podgroup-level-rules:\n- {apiversion: apps/v1, kind: a}\npodgroup-level-rules: []\n",
        "podgroup-level-rules:\n- {apiversion: apps/v1, kind: a, kind: b}\n",
        "a: 1\n---\nb: 2\n",
        "[" * 3000,
        "kind: 2020-99-99",
        "? [a]\n: b",
        "!!python/object:os.system {}",
        "a: &a {kind: x}\npodgroup-level-rules:\n- {apiversion: v1, <<: *a}\n",
    ],
)
def test_text_that_cannot_be_read(text: str) -> None:
    with pytest.raises(RulesInvalid):
        read_text(text)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "podgroup-level-rules:\n"])
def test_empty_text_is_no_rules(text: str) -> None:
    assert not read_text(text)


@pytest.mark.parametrize("data", [None, {}, {"other": "x"}, {DATA_KEY: None}, {DATA_KEY: ""}])
def test_a_config_map_without_the_key_is_no_rules(data: object) -> None:
    assert not read_config_map({"data": data})


@pytest.mark.parametrize("data", ["x", {DATA_KEY: {"podgroupLevel": []}}, {DATA_KEY: "- 1"}])
def test_a_config_map_that_does_not_fit(data: object) -> None:
    with pytest.raises(RulesInvalid):
        read_config_map({"data": data})


def test_the_config_map_of_the_design() -> None:
    assert read_config_map({"data": {DATA_KEY: DEFAULT_DOCUMENT}}) == read_text(DEFAULT_DOCUMENT)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["apiversion", "Kind", "adjust-level", "podgroupLevel", "x"]), inner)
    ),
    max_leaves=12,
)


@given(json | st.fixed_dictionaries({"podgroup-level-rules": st.lists(json, max_size=4)}))
def test_anything_is_read_or_refused_with_words(document: object) -> None:
    complaints: tuple[Complaint, ...] = ()
    found = Rules()
    try:
        found = read_document(document)
    except RulesInvalid as error:
        complaints = error.complaints
    assert all(complaint.wrong and complaint.remedy for complaint in complaints)
    assert all(rule.adjust_level <= 0 for rule in found.entries)
    assert len({rule.key for rule in found.entries}) == len(found.entries)


@pytest.mark.parametrize(
    "text",
    [
        "---\npodgroup-level-rules:\n- {apiversion: v1, kind: a}\n",
        "podgroup-level-rules:\n- {apiversion: v1, kind: a}\n---\n",
        "# rules\n---\npodgroup-level-rules:\n- {apiversion: v1, kind: a}\n...\n---\n# end\n",
    ],
)
def test_documents_with_nothing_in_them_do_not_count(text: str) -> None:
    assert read_text(text) == find_rules(text) == Rules((OwnerRule(api_version="v1", kind="a"),))
    config_map = {"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {DATA_KEY: text}}
    assert read_config_map(config_map) == read_text(text)


@pytest.mark.parametrize("text", ["", "---\n---\n", "# nothing\n", "podgroup-level-rules: []"])
def test_nothing_means_no_rules(text: str) -> None:
    assert find_rules(text) == read_text(text) == Rules()


def test_two_documents_of_rules_are_refused() -> None:
    with pytest.raises(RulesInvalid, match="holds 2 documents"):
        read_text("podgroup-level-rules: []\n---\npodgroupLevel: []\n")


def test_data_without_a_kind_are_taken_for_the_config_map() -> None:
    text = "podgroup-level-rules:\n- {apiversion: v1, kind: a}\n"
    assert find_rules(yaml.safe_dump({"data": {DATA_KEY: text}})) == read_text(text)
