"""Field sets: the algebra's laws, and that applies by several managers end where they should."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.kube.kinds import APPLY_PATCH, Json
from controlplane.simulation.apiserver.field_sets import FieldSchema, Trie, difference, intersection, join, paths
from tests.simulation.store_kit import GADGETS, new_store

SCHEMA = FieldSchema({"l": ("k",), "s": ()}, builtin=False)
SCALARS = st.integers(0, 2)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "x": SCALARS,
        "m": st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=2),
        "deep": st.fixed_dictionaries({}, optional={"m": st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=2)}),
        "l": st.lists(
            st.fixed_dictionaries({"k": st.sampled_from("pq")}, optional={"v": SCALARS}),
            max_size=2,
            unique_by=lambda item: item["k"],
        ),
        "s": st.lists(st.sampled_from("uv"), max_size=2, unique=True),
        "atomic": st.lists(SCALARS, max_size=2),
    },
)


def members(node: Trie | None) -> set[str]:
    return set(paths(node)) if node else set()


@given(VALUES, VALUES)
def test_the_algebra_is_that_of_sets(a: Json, b: Json) -> None:
    one, two = SCHEMA.field_set(a), SCHEMA.field_set(b)
    assert members(join(one, two)) == members(one) | members(two)
    if one and two:
        assert members(intersection(one, two)) == members(one) & members(two)
        assert members(difference(one, two)) == members(one) - members(two)


@given(VALUES)
def test_nothing_changes_between_equals(a: Json) -> None:
    assert SCHEMA.compare(a, a) == (None, None)


def shape(value: Any) -> Any:
    """Return a value with lists of items and sets made comparable in any order."""
    if isinstance(value, dict):
        return {key: shape(child) for key, child in value.items()}
    if isinstance(value, list) and all(isinstance(item, (dict, str)) for item in value):
        return sorted((shape(item) for item in value), key=str)
    return value


@given(VALUES, VALUES)
def test_an_applied_configuration_is_there_afterwards(live: Json, config: Json) -> None:
    merged = SCHEMA.merge(live, config)
    assert shape(SCHEMA.merge(merged, config)) == shape(merged)
    assert members(SCHEMA.field_set(hollow(config))) <= members(SCHEMA.field_set(merged))


def hollow(value: Any) -> Any:
    """Return a value without empty maps and lists: whether an emptied container stays is no promise."""
    if isinstance(value, dict):
        kept = {key: hollow(child) for key, child in value.items()}
        return {key: child for key, child in kept.items() if child not in ({}, [])}
    return [hollow(item) for item in value] if isinstance(value, list) else value


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "x": SCALARS,
        "m": st.dictionaries(st.sampled_from("ab"), SCALARS, min_size=1, max_size=2),
        "tags": st.lists(st.sampled_from("uv"), min_size=1, max_size=2, unique=True),
    },
)


@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), SPECS), min_size=1, max_size=8))
def test_an_object_is_what_its_managers_last_applied(applied: list[tuple[str, Json]]) -> None:
    """With force, what is there is what somebody's last configuration holds; and the last one holds in full."""
    store = new_store()
    last: dict[str, Json] = {}
    for manager, spec in applied:
        made = store.patch(
            GADGETS, "default", "a", {"spec": spec}, content_type=APPLY_PATCH, field_manager=manager, force=True
        )
        last[manager] = spec
        fields = FieldSchema({"tags": ()}, builtin=False)
        wanted = set().union(*(members(fields.field_set(spec)) for spec in last.values()))
        found = members(fields.field_set(hollow(made.get("spec", {}))))
        assert members(fields.field_set(hollow(spec))) <= found <= wanted
