"""Selectors as text."""

from __future__ import annotations

import pytest

from controlplane.clusters.protocol import ApiError
from controlplane.simulation.apiserver.selectors import field_test, label_test
from tests.support.rows import each

LABELS = {"app": "x", "kueue.x-k8s.io/queue-name": "q", "empty": ""}


@each(
    ("selector", "selected"),
    [
        ("app=x", True),
        ("app==x", True),
        ("app = x , empty", True),
        ("app!=x", False),
        ("none!=x", True),
        ("kueue.x-k8s.io/queue-name=q", True),
        ("kueue.x-k8s.io/queue-name in (p, q)", True),
        ("app notin (x,y)", False),
        ("none notin (x)", True),
        ("!app", False),
        ("! none", True),
        ("empty=", True),
        ("app in (x,y),none", False),
    ],
)
def test_labels(selector: str, selected: bool) -> None:
    test = label_test(selector)
    assert test is not None
    assert test(LABELS) is selected


@pytest.mark.parametrize("selector", ["", "  "])
def test_nothing_selects_everything(selector: str) -> None:
    assert label_test(selector) is None
    assert field_test(selector, ()) is None


@each("selector", ["a in (b", "a b", "=x", "a in b", ",", "a=b=c"])
def test_what_does_not_parse_is_a_bad_request(selector: str) -> None:
    with pytest.raises(ApiError) as error:
        label_test(selector)
    assert error.value.status == 400


OBJECT = {"metadata": {"name": "a"}, "spec": {"nodeName": "n", "flag": True, "count": 0}}


@each(
    ("selector", "selected"),
    [
        ("metadata.name=a", True),
        ("metadata.name!=a", False),
        ("spec.nodeName=n,metadata.name=a", True),
        ("spec.none=", True),
        ("spec.flag=true", True),
        ("spec.count=0", True),
    ],
)
def test_fields(selector: str, selected: bool) -> None:
    test = field_test(selector, ("spec.nodeName", "spec.none", "spec.flag", "spec.count"))
    assert test is not None
    assert test(OBJECT) is selected


def test_a_field_that_is_not_selectable() -> None:
    with pytest.raises(ApiError, match=r"field label not supported: spec\.x"):
        field_test("spec.x=1", ())
    with pytest.raises(ApiError, match="invalid selector"):
        field_test("spec.x", ())
