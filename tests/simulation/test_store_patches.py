"""The patch formats, by the examples of their specifications."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.clusters.protocol import ApiError
from controlplane.simulation.apiserver.patches import json_patch, merge_patch, strategic_merge
from tests.support.rows import each

# RFC 7386, appendix A
MERGES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@each(("target", "patch", "expected"), MERGES)
def test_merge_patch(target: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(target)
    assert merge_patch(target, patch) == expected
    assert target == before


# RFC 6902, appendix A
OPERATIONS: list[tuple[Any, list[Any], Any]] = [
    ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
    ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
    ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
    ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    ({"foo": [1, 2, 3]}, [{"op": "move", "from": "/foo/0", "path": "/foo/2"}], {"foo": [2, 3, 1]}),
    ({"foo": {"x": 1}}, [{"op": "copy", "from": "/foo", "path": "/bar"}], {"foo": {"x": 1}, "bar": {"x": 1}}),
    ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc"]}], {"foo": ["bar", ["abc"]]}),
    ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    ({"/": 9, "~1": 10}, [{"op": "replace", "path": "/~1", "value": 8}], {"/": 8, "~1": 10}),
    ({"a": {"b": [{"c": 1}]}}, [{"op": "replace", "path": "/a/b/0/c", "value": 2}], {"a": {"b": [{"c": 2}]}}),
    ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
]


@each(("target", "operations", "expected"), OPERATIONS)
def test_json_patch(target: Any, operations: list[Any], expected: Any) -> None:
    before = copy.deepcopy(target)
    assert json_patch(target, operations) == expected
    assert target == before


@each(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/none", "value": 2},
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "add", "path": "/none/deep", "value": 1},
        {"op": "add", "path": "/list/5", "value": 1},
        {"op": "remove", "path": "/list/-1"},
        {"op": "move", "from": "/none", "path": "/a"},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "remove", "path": ""},
        {"op": "replace", "path": "", "value": []},
    ],
)
def test_a_json_patch_that_does_not_fit(operation: Any) -> None:
    with pytest.raises(ApiError) as error:
        json_patch({"a": 1, "list": [1]}, [operation])
    assert error.value.status == 422


def test_an_unknown_operation_is_a_bad_request() -> None:
    with pytest.raises(ApiError) as error:
        json_patch({}, [{"op": "twist", "path": "/a"}])
    assert error.value.status == 400


KEYS = {"l": ("name",), "l.inner": ("id",), "s": ()}
STRATEGIC: list[tuple[Any, Any, Any]] = [
    ({"l": [{"name": "a", "x": 1}]}, {"l": [{"name": "a", "y": 2}]}, {"l": [{"name": "a", "x": 1, "y": 2}]}),
    ({"l": [{"name": "a"}]}, {"l": [{"name": "b"}]}, {"l": [{"name": "a"}, {"name": "b"}]}),
    ({"l": [{"name": "a"}, {"name": "b"}]}, {"l": [{"name": "a", "$patch": "delete"}]}, {"l": [{"name": "b"}]}),
    ({"l": [{"name": "a"}]}, {"l": [{"name": "b"}, {"$patch": "replace"}]}, {"l": [{"name": "b"}]}),
    (
        {"l": [{"name": "a", "inner": [{"id": 1}]}]},
        {"l": [{"name": "a", "inner": [{"id": 2}]}]},
        {"l": [{"name": "a", "inner": [{"id": 1}, {"id": 2}]}]},
    ),
    (
        {"l": [{"name": "a"}, {"name": "b"}]},
        {"$setElementOrder/l": [{"name": "b"}, {"name": "a"}]},
        {"l": [{"name": "b"}, {"name": "a"}]},
    ),
    ({"s": ["a"]}, {"s": ["b", "a"]}, {"s": ["a", "b"]}),
    ({"s": ["a", "b"]}, {"$deleteFromPrimitiveList/s": ["a"]}, {"s": ["b"]}),
    ({"m": {"x": 1, "y": 2}}, {"m": {"$retainKeys": ["y"], "y": 3}}, {"m": {"y": 3}}),
    ({"m": {"x": 1}}, {"m": {"$patch": "replace", "y": 2}}, {"m": {"y": 2}}),
    ({"n": 1}, {"m": {"$patch": "replace", "y": 2}}, {"n": 1}),
    ({"m": {"x": 1}}, {"$patch": "replace", "n": {"y": 2}}, {"n": {"y": 2}}),
    ({"m": {"x": 1}}, {"m": {"$patch": "delete"}}, {"m": {}}),
    ({"m": {"x": 1}}, {"m": None}, {}),
    ({"atomic": [1]}, {"atomic": [2]}, {"atomic": [2]}),
]


@each(("target", "patch", "expected"), STRATEGIC)
def test_strategic_merge(target: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(target)
    assert strategic_merge(target, patch, KEYS) == expected
    assert target == before


def test_an_item_without_its_key_is_refused() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic_merge({"l": []}, {"l": [{"x": 1}]}, KEYS)
